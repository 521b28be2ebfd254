/*
 * raid/log_impl.h - what the files of the log share; nobody else includes it.
 *
 *   log.c          life, positions, history
 *   log_write.c    blocks out: flushes, checkpoints, epochs, folds
 *   log_walk.c     blocks in: one chain, block by block, from any member
 *   log_load.c     which chain is the history, and its replay
 *   log_scrub.c    all copies alike
 */
#ifndef RAID_LOG_IMPL_H
#define RAID_LOG_IMPL_H

#include "base/err.h"
#include "raid/fmt_log.h"
#include "raid/fmt_record.h"
#include "raid/log.h"
#include "raid/member.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iobuf;

/* The extents of one generation: by ordinal, of every member. */
struct chain_link {
	uint32_t extent[RAID_MEMBERS_MAX];
};

struct chain {
	uint64_t generation;
	struct chain_link *links;
	size_t count;
};

void chain_release(struct chain *c);
MUST_CHECK int chain_add(struct chain *c,
    const uint32_t extent[static RAID_MEMBERS_MAX], struct err *e);
MUST_CHECK int chain_copy(struct chain *to, const struct chain *from,
    struct err *e);

/* The newest epochs, oldest first. */
struct history {
	struct rec_epoch at[HISTORY_MAX];
	size_t count;
	bool cut;		/* older ones have been left out */
};

void history_push(struct history *h, const struct rec_epoch *p);
/* The epoch of this run, or -1. */
int history_find(const struct history *h, const uint8_t run[static 16]);
/* Last flush of epoch i in a history whose last flush is `end`. */
uint64_t history_end(const struct history *h, size_t i, uint64_t end);

/* An extent of another generation that some superblock slot still names. */
struct held_extent {
	unsigned member;
	uint32_t extent;
};

struct log {
	const struct log_host *host;
	pthread_mutex_t lock;		/* guards all below */

	struct chain chain;		/* the live generation */
	uint64_t seq;			/* of the next block */
	uint64_t before;		/* checksum of the last one */
	uint64_t checkpoint_blocks;
	uint64_t flush;			/* the last whole one */
	struct history history;
	uint64_t event_seen;	/* the highest on any branch when loaded */
	uint64_t answering;	/* members that showed any block of a log */
	bool clean, damaged_tail;
	bool started;			/* log_start or log_create went well */
	struct err dead;		/* code != 0: no more writes */

	/* L2: not to be used before log_start has written all slots. */
	struct held_extent *held;
	size_t held_count;

	uint64_t complete;	/* members that hold the whole chain */
	uint64_t no_room;	/* members that had no extent for the log */
};

/* Blocks per extent. */
uint64_t log_extent_blocks(const struct log_host *h);
/* Bit i: member i takes log blocks now. */
uint64_t log_set_now(const struct log *l);
/* Where block `seq` of the chain lies on this member; false = nowhere. */
bool chain_block_at(const struct chain *c, const struct log_host *h,
    unsigned member, uint64_t seq, uint64_t *offset);
const struct rec_epoch *log_epoch(const struct log *l);

/* ---- log_write.c ------------------------------------------------------ */

/* With the lock held. */
MUST_CHECK int log_fold_locked(struct log *l, struct err *e);
void log_root_of(const struct log *l, struct log_root *out);

/* ---- log_walk.c ------------------------------------------------------- */

#define WALK_WINDOW 64u		/* blocks read at a time from each member */
#define WALK_FORKS_MAX 16	/* of one path */

struct walk_fork {
	uint64_t seq, sum;	/* which block is taken there */
};

struct walk_path {
	struct walk_fork forks[WALK_FORKS_MAX];
	size_t count;
};

struct walk {
	const struct log_host *host;
	struct chain chain;	/* as far as it is known */
	const struct walk_path *path;
	uint64_t seq;		/* of the next block */
	uint64_t before;
	/* windows */
	uint64_t window_seq;	/* of their first block */
	unsigned window_count;	/* blocks; 0 = nothing read yet */
	uint64_t window_valid;	/* bit i: that of member i was read */
	struct iobuf *window[RAID_MEMBERS_MAX];
	/* the block last taken */
	struct log_block block;
	const uint8_t *payload;
	uint64_t holders;	/* members that have it */
	/* the other blocks that would have fitted there */
	uint64_t others[RAID_MEMBERS_MAX];
	size_t other_count;
};

MUST_CHECK int walk_init(struct walk *w, const struct log_host *host,
    const struct log_root *root, const struct walk_path *path,
    struct err *e);
void walk_release(struct walk *w);
/* 1: w->block and so on are filled in; 0: the chain ends here; -1. */
MUST_CHECK int walk_next(struct walk *w, struct err *e);
/* A valid block of this generation at `seq` on any member, whatever it was
 * chained to: 1 and its flush number; 0 none; -1. */
MUST_CHECK int walk_probe(struct walk *w, uint64_t seq, uint64_t *flush,
    struct err *e);

/* Records out of payloads. */
struct rec_parser {
	uint8_t *body;		/* REC_BODY_MAX */
	uint8_t head[LOG_RECORD_HEAD];
	size_t head_have;
	size_t body_have, body_size;
	uint16_t type;
};

MUST_CHECK int rec_parser_init(struct rec_parser *p, struct err *e);
void rec_parser_release(struct rec_parser *p);
void rec_parser_reset(struct rec_parser *p);
/* True between two records. */
bool rec_parser_at_end(const struct rec_parser *p);
MUST_CHECK int rec_parser_feed(struct rec_parser *p, const uint8_t *data,
    size_t size, int (*each)(void *arg, const struct log_rec *r,
    struct err *e), void *arg, struct err *e);

#endif
