/*
 * client/snap.h - the client's own snapshots: list them, find one, find a
 * path inside.
 *
 * Threads: the main thread.
 */
#ifndef CLIENT_SNAP_H
#define CLIENT_SNAP_H

#include "base/buf.h"
#include "base/err.h"
#include "client/fetch.h"
#include "proto/fmt_snapshot.h"
#include "proto/fmt_tree.h"

#include <stddef.h>

struct link;

struct snap_list {		/* in commit order */
	struct snapshot_record *items;
	size_t count, room;
};

/* What narrows a choice; NULL = anything. */
struct snap_filter {
	const char *tag, *path;
};

#define SNAP_HEX_SIZE (2 * SNAPSHOT_ID_SIZE + 1)

MUST_CHECK int snap_list_get(struct snap_list *out, struct link *l,
    struct err *e);
void snap_list_release(struct snap_list *s);

/* Split "SNAP[:PATH]" at the first ":/"; *path is NULL when there is none.
 * Changes `text`. */
void snap_split(char *text, char **path);

/* SNAP: an id, a unique prefix of at least 6 hex digits, "latest" or
 * "latest@TIME".  ERR_NOT_FOUND, ERR_USAGE (ambiguous, malformed). */
MUST_CHECK int snap_resolve(struct snapshot_record *out,
    const struct snap_list *list, struct fetch *f, const char *text,
    const struct snap_filter *filter, struct err *e);

/* The facts of a snapshot, checked, into `out` (initialised here). */
MUST_CHECK int snap_facts(struct buf *out, struct fetch *f,
    const struct id *facts, struct err *e);

/* An entry with bytes of its own. */
struct snap_entry {
	struct tree_entry entry;
	struct fetch_object *page;	/* that the slices point into */
};

/* Find an absolute path below `root`.  "/" gives an entry of a directory
 * with an empty name.  ERR_NOT_FOUND; ERR_CORRUPT when a page on the way is
 * lost. */
MUST_CHECK int snap_find(struct snap_entry *out, struct fetch *f,
    const struct id *root, const char *path, struct err *e);
void snap_entry_release(struct snap_entry *s, struct fetch *f);

#endif
