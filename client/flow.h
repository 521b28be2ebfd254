/*
 * client/flow.h - a snapshot's tree as a stream of events, read ahead.
 *
 * The events come depth first in the order of names, as a program that writes
 * the tree wants them:
 *
 *      ENTER d   ITEM file  CHUNK HOLE CHUNK ...  END   ITEM link  LEAVE d
 *
 * While the caller works on one event, pages and contents further on are
 * requested (see flow.c), so that the time of a round trip is paid a constant
 * number of times, whatever the tree.
 *
 * Threads: one.
 */
#ifndef CLIENT_FLOW_H
#define CLIENT_FLOW_H

#include "base/err.h"
#include "client/fetch.h"
#include "proto/fmt_tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct flow;

/* A directory that is being read; lives as long as something in it. */
struct flow_dir {
	struct flow_dir *parent;	/* NULL at the top */
	struct tree_entry entry;	/* the top's may have no name */
	unsigned depth;			/* 0 at the top */
	unsigned refs;
	uint8_t *bytes;			/* owned: what the slices point to */
	void *user;			/* the caller's, between ENTER and
					 * LEAVE */
	int mark;			/* the caller's; 0 at first */
};

enum flow_need {
	FLOW_NEED_ASK,		/* not known before the ITEM event */
	FLOW_NEED_DATA,		/* chunks with their bytes */
	FLOW_NEED_IDS,		/* chunks without bytes */
	FLOW_NEED_NOTHING,	/* no chunks at all */
};

/* What to do about an entry; asked once, when its page is read, often long
 * before its event. */
enum flow_pick { FLOW_SKIP, FLOW_TAKE };

struct flow_ops {
	/* NULL takes everything. */
	enum flow_pick (*pick)(void *arg, struct flow_dir *dir,
	    const struct tree_entry *entry);
	/* How much of a regular file's content; NULL = DATA. */
	enum flow_need (*need)(void *arg, struct flow_dir *dir,
	    const struct tree_entry *entry);
	void *arg;
};

enum flow_kind {
	FLOW_ENTER,	/* a directory begins: dir is the new one */
	FLOW_LEAVE,	/* it ends */
	FLOW_ITEM,	/* anything else; a regular file is followed by */
	FLOW_CHUNK,	/*   its chunks, */
	FLOW_HOLE,	/*   its holes, */
	FLOW_END,	/*   and its end */
	FLOW_LOST,	/* a page of dir's entries cannot be had */
	FLOW_DONE,
};

struct flow_event {
	enum flow_kind kind;
	struct flow_dir *dir;
	const struct tree_entry *entry;	/* ITEM .. END */
	uint64_t offset, size;	/* CHUNK, HOLE: of the file */
	const struct id *id;	/* CHUNK */
	const uint8_t *data;	/* CHUNK: NULL when not needed, or lost */
	bool lost;		/* CHUNK: these bytes; END: some bytes */
};

MUST_CHECK int flow_new(struct flow **out, struct fetch *f,
    const struct flow_ops *ops, struct err *e);
void flow_free(struct flow *f);
/* Begin with one entry, which is copied: a directory gives ENTER ... LEAVE,
 * anything else its ITEM, in a directory without entry of its own.  Once. */
MUST_CHECK int flow_start(struct flow *f, const struct tree_entry *entry,
    struct err *e);
/* The next event; valid until the next call.  -1 only when the connection
 * fails or memory ends. */
MUST_CHECK int flow_next(struct flow *f, struct flow_event *ev,
    struct err *e);
/* After an ITEM whose need was ASK: say it now. */
void flow_set_need(struct flow *f, enum flow_need need);

/* Append "/a/b" for dir and a name in it (or NULL) to `out`, from the top on;
 * the top's own name is left out, so that the top itself gives nothing. */
void flow_path(struct buf *out, const struct flow_dir *dir,
    const struct slice *name);

#endif
