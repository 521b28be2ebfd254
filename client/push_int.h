/*
 * client/push_int.h - the inside of a push: its threads and what they share.
 *
 *   walk thread    push_walk.c   live tree -> items, in order; files that must
 *                                be read also become jobs
 *   2 readers      push_read.c   job -> bytes -> chunks -> ids
 *   compressors    push_lane.c   group of chunks -> frame -> wire
 *   main thread    push_tree.c   items, in order -> pages of the tree
 *   receiver       push_have.c   answers of the server
 *
 *      walk --order--> (item done?) --> main thread --> pages --> frames
 *        \--jobs--> readers --> lanes --> compressors --> frames
 *
 * Memory: the sum of the bounds below, about 45 MiB, whatever the tree.
 * Locks are taken one at a time, but for lane.lock and pages.lock, which may
 * be held over any of the others; pages.lock before lane.lock.
 */
#ifndef CLIENT_PUSH_INT_H
#define CLIENT_PUSH_INT_H

#include "base/buf.h"
#include "base/err.h"
#include "base/pool.h"
#include "base/queue.h"
#include "client/attr.h"
#include "client/cache.h"
#include "client/chunker.h"
#include "client/client.h"
#include "client/link.h"
#include "client/match.h"
#include "client/push.h"
#include "client/seen.h"
#include "client/walk.h"
#include "proto/fmt_frame.h"
#include "proto/fmt_list.h"
#include "proto/fmt_tree.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PUSH_READERS 2
/* A lane for each reader, one for the main thread. */
#define PUSH_LANES (PUSH_READERS + 1)
#define PUSH_MAIN_LANE PUSH_READERS
/* Items between the walk and the main thread. */
#define PUSH_ORDER_ITEMS 4096
#define PUSH_ORDER_BYTES (8u << 20)
/* Files between the walk and the readers; each holds a directory open. */
#define PUSH_JOBS 64
#define PUSH_JOB_BYTES (2u << 20)
/* Frames being filled, compressed and sent: 0.6 MiB each. */
#define PUSH_FRAMES 12
/* What waits for an answer to HAVE, per lane. */
#define PUSH_ASKED_BYTES (4u << 20)
#define PUSH_ASKED_COUNT 4096
/* Pages that wait for the chunks they name. */
#define PUSH_READY_BYTES (1u << 20)
/* Chunks whose fate is open; a power of two, more than all of the above. */
#define PUSH_OPEN_CHUNKS 65536u
/* Names of inodes with several, until all were met. */
#define PUSH_LINKS_MAX 32768
/* Their extended attributes are inline up to here, else a chunk. */
#define PUSH_LINK_XATTRS 128
#define PUSH_READ_BYTES (1u << 20)
/* A file that changes while it is read is read this often. */
#define PUSH_READ_TRIES 3
#define PUSH_PASSES 3

struct push;

/* ---- items (push_item.c) ------------------------------------------------ */

/* What the names of one inode share. */
struct push_link {
	struct push_link *next;		/* in its slot */
	uint64_t dev, ino;
	uint32_t seen, nlink;
	bool done;			/* the fields below are set */
	bool absent;
	enum content_kind content;
	struct id id;
	uint64_t size;
	uint32_t flags, project;
	uint8_t state;
	uint8_t *xattrs;	/* owned, encoded, PUSH_LINK_XATTRS at most */
	size_t xattrs_size;
	bool has_xattr_ref;
	struct id xattr_ref;
};

enum item_kind { ITEM_ENTER, ITEM_LEAVE, ITEM_ENTRY };

struct push_item {
	atomic_uint refs;
	enum item_kind kind;
	bool done;		/* guarded by push.item_lock */
	bool absent;		/* it could not be had */
	bool check;		/* cached content: ask whether it is there */
	bool fresh;		/* was read now: worth remembering */
	bool partial, unreadable;	/* ENTER */
	uint8_t state;		/* TREE_STATE_* */
	struct attr attr;
	struct walk_dir *dir;
	char *name;		/* owned, terminated */
	size_t name_size;
	uint8_t *path;		/* owned, of files that are read */
	size_t path_size;
	uint8_t *symlink;	/* owned */
	size_t symlink_size;
	struct buf xattrs;
	enum content_kind content;
	struct id id;
	uint64_t size;
	int64_t read_ns;
	struct push_link *link;	/* several names; the main thread's */
};

struct push_item *push_item_new(const struct walk_item *it);
void push_item_drop(void *item);
/* Bytes it holds. */
size_t push_item_weight(const struct push_item *it);
void push_item_done(struct push *p, struct push_item *it);
/* Wait for it; -1 when the push has failed. */
int push_item_wait(struct push *p, struct push_item *it);

/* ---- answers (push_have.c) ---------------------------------------------- */

struct push_ask {		/* one HAVE */
	struct push_ask *next;
	uint32_t request;
	size_t count;
	unsigned refs;		/* the table's, and of each who waits */
	bool answered;
	uint8_t bitmap[PROTO_HAVE_MAX / 8];
};

MUST_CHECK int push_receiver_start(struct push *p, struct err *e);
void push_receiver_end(struct push *p);
/* Send HAVE; *out is the caller's to drop. */
MUST_CHECK int push_ask_send(struct push_ask **out, struct push *p,
    const struct id *ids, size_t count, struct err *e);
/* True if it is answered; with `wait`, -1 (failure) or true. */
int push_ask_ready(struct push *p, struct push_ask *a, bool wait);
bool push_ask_has(const struct push_ask *a, size_t i);
void push_ask_drop(struct push *p, struct push_ask *a);
/* Wait for the answer to COMMIT: 1 = committed, 0 = something is missing. */
int push_commit_wait(struct push *p, struct err *e);

/* ---- chunks (push_lane.c) ----------------------------------------------- */

struct push_pending {		/* waits for its answer */
	struct push_pending *next;
	struct push_ask *ask;	/* NULL: not asked yet */
	size_t ask_index;
	struct id id;
	enum object_type type;
	uint64_t seq;
	size_t size, ref_count;
	uint8_t *data;		/* owned: bytes, then refs */
};

struct push_fifo {
	struct push_pending *first, **end;
	struct push_pending *unasked;	/* first without `ask` */
	size_t count, unasked_count, bytes;
};

struct push_frame {		/* being filled, compressed, sent */
	struct pool_job job;
	struct push *push;
	struct push_frame *next;	/* free ones; pages: ready ones */
	struct frame_builder *builder;
	struct buf out;
	uint64_t after;		/* pages: chunks below this must be sent */
	size_t count;
	uint64_t seqs[FRAME_OBJECTS_MAX];
};

struct push_lane {
	pthread_mutex_t lock;	/* guards the rest */
	struct push *push;
	struct push_fifo asked;
	struct push_frame *frame;	/* being filled, or NULL */
};

struct push_pages {
	pthread_mutex_t lock;	/* guards the rest */
	struct push_fifo asked;
	struct frame_builder *builder;
	struct push_frame *ready, **ready_end;	/* in order */
	size_t ready_bytes;
};

MUST_CHECK int push_lanes_init(struct push *p, struct err *e);
void push_lanes_release(struct push *p);
/* A chunk is to be stored; `data` is copied.  Returns when it is known to be
 * there or on its way. */
MUST_CHECK int push_chunk(struct push *p, unsigned lane, const struct id *id,
    const void *data, size_t size, struct err *e);
/* Send off whatever is older than `before`. */
MUST_CHECK int push_lanes_flush(struct push *p, uint64_t before,
    struct err *e);
/* Until every chunk below `before` is sent. */
MUST_CHECK int push_settled(struct push *p, uint64_t before, struct err *e);
uint64_t push_next_seq(struct push *p);
bool push_is_settled(struct push *p, uint64_t before);
/* push_fifo helpers, shared with the pages. */
MUST_CHECK int push_fifo_add(struct push_fifo *f, const struct push_pending *n,
    const void *data, const struct id *refs, struct err *e);
MUST_CHECK int push_fifo_ask(struct push *p, struct push_fifo *f, bool now,
    struct err *e);
void push_fifo_pop(struct push *p, struct push_fifo *f);
void push_fifo_release(struct push *p, struct push_fifo *f);

/* ---- pages (push_pages.c) ----------------------------------------------- */

/* A finished page (a page_emit; arg is the push): sent after everything it
 * names. */
MUST_CHECK int push_page(void *push, enum object_type type,
    const struct id *id, const void *plain, size_t size,
    const struct id *refs, size_t ref_count, struct err *e);
/* Send all pages. */
MUST_CHECK int push_pages_finish(struct push *p, struct err *e);

/* ---- threads ------------------------------------------------------------ */

void *push_walk_thread(void *push);
void *push_read_thread(void *reader);
/* The main thread's part: the root of the tree. */
MUST_CHECK int push_tree(struct push *p, struct id *root, struct err *e);

struct push_reader {
	struct push *push;
	unsigned lane;
	pthread_t thread;
};

struct push_counts {
	atomic_ullong files, dirs, bytes, read_files, read_bytes, new_bytes,
	    vanished, unreadable, changed, excluded;
};

struct push {
	struct client *client;
	const struct push_options *o;
	struct link *link;
	struct cache *cache;
	struct walk_roots *roots;
	struct match *exclude;
	struct chunker chunker;
	bool ask;		/* HAVE before sending */
	bool distrust;		/* believe nothing of the cache */
	unsigned pass;
	uint8_t id[SNAPSHOT_ID_SIZE];
	struct push_counts counts;

	/* failure: the first error counts, everybody stops */
	pthread_mutex_t fail_lock;	/* guards: error */
	struct err error;
	atomic_bool failed;

	struct queue *order, *jobs;
	pthread_mutex_t item_lock;	/* guards: item_wanted, item.done */
	pthread_cond_t item_done;	/* the one that is waited for */
	struct push_item *item_wanted;

	pthread_mutex_t ask_lock;	/* guards: asks, refs in them, reply */
	pthread_cond_t ask_done;
	struct push_ask *asks;
	pthread_t receiver;
	bool receiving;
	int reply;		/* to COMMIT: 0 none, 1 committed, 2 missing */
	bool missing;		/* a frame of pages was refused */
	struct snapshot_record record;

	pthread_mutex_t seen_lock;	/* guards: seen, seq, settled */
	pthread_cond_t settle_done;
	struct seen *seen;
	uint64_t next_seq, settled_seq;	/* all below are settled */
	uint8_t *settled;	/* ring of PUSH_OPEN_CHUNKS */

	pthread_mutex_t frame_lock;	/* guards: frames_free */
	pthread_cond_t frame_free;
	struct push_frame *frames_free;
	struct push_frame *frames;	/* array, owned */
	struct pool *pool;

	struct push_lane lanes[PUSH_LANES];
	struct push_pages pages;

	pthread_t walker;
	struct push_reader readers[PUSH_READERS];
	struct push_link *links[4096];	/* the walk's while it runs */
	size_t link_count;
};

/* Remember the first error and stop everybody.  Returns -1. */
int push_fail(struct push *p, const struct err *e);
/* -1 with the first error if the push has failed. */
MUST_CHECK int push_check(struct push *p, struct err *e);
/* Count a file that could not be had, and say so. */
void push_unreadable(struct push *p, const struct push_item *it,
    const char *why);

#endif
