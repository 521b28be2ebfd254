/*
 * raid/log.h - the mirrored journal of the array's facts.
 *
 * A log generation is a chain of 4 KiB blocks, written alike to every
 * writable member, each in a chain of extents of its own.  It begins with a
 * checkpoint (the whole state as records) and goes on with the records of one
 * flush after another; a fold writes a new generation and then moves the
 * superblock roots to it.  State is small (segment map, snapshots, clients) and
 * a fold happens when the tail has outgrown the checkpoint, so its cost is
 * amortised; docs/decisions/0002-log-folds-whole.md weighs this against pages.
 *
 * Block header [format]: magic, array uuid, generation, sequence in the
 * generation, checksum of the block before, event, run id, flush number, flags
 * (first of flush, end of flush, checkpoint, link), payload size, checksum.  A
 * block that holds an acked record is never written again; each flush starts a
 * new block.  Block n of a generation is block n mod (extent / 4 KiB) of the
 * member's extent number n div (extent / 4 KiB).  The last block of each extent
 * is a link: it names the next extent of every member.
 *
 * The log keeps for itself: epochs, the history of epochs, the member table
 * (state, replaced_by, error counters of host->members; written with every
 * epoch and checkpoint, applied by log_load).  These records do not reach
 * `replay`.  To change the table: change the members, then log_append(epoch).
 *
 *      log_load --> log_start --> log_append / log_fold ... --> log_close
 *
 * Errors: -1 from log_append means that no member took the flush whole (or
 *   fewer than needed): the array stops.
 * Threads: log_append and log_fold are serialised by the log's own lock.
 */
#ifndef RAID_LOG_H
#define RAID_LOG_H

#include "base/err.h"
#include "raid/array.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct log;
struct member;
struct warn_sink;

struct log_rec {
	uint16_t type;		/* see raid/fmt_record.h */
	uint32_t size;		/* of body, at most 64 KiB */
	const uint8_t *body;
};

#define LOG_NO_EXTENT UINT32_MAX

/* Where a generation begins on each member; LOG_NO_EXTENT: not there. */
struct log_root {
	uint64_t generation;	/* from 1; 0 = none */
	uint64_t event;		/* as in the newest epoch; a hint */
	/* log_load only: bit i: a superblock of member i names it, so that i
	 * finds it by itself; 0 = not known, taken for all. */
	uint64_t named;
	uint32_t extent[RAID_MEMBERS_MAX];
};

/* What the log needs from its surroundings.  The callbacks run with the log's
 * lock held: they must not call log_*. */
struct log_host {
	void *arg;
	uint8_t uuid[RAID_UUID_SIZE];	/* of the array */
	uint64_t extent_size;
	/* log_load only: every root that some superblock names. */
	const struct log_root *roots;
	size_t root_count;
	/* By index.  May grow between calls (never during one), and then the
	 * owner of this struct updates both; the log keeps a pointer to it. */
	struct member **members;
	size_t member_count;
	/* An extent of this member for the log, from its reserve; ERR_NO_SPACE.
	 * Freed ones may be reused only after log_host_freed's call. */
	int (*extent_take)(void *arg, unsigned member, uint32_t *extent,
	    struct err *e);
	void (*extent_give)(void *arg, unsigned member, uint32_t extent);
	/* A member failed a write or flush of the log: set it aside, so that
	 * member_writable() is false.  The log goes on without it. */
	void (*member_failed)(void *arg, unsigned member,
	    const struct err *why);
	/* The whole state as records, for a fold: call emit for each. */
	int (*dump)(void *arg, int (*emit)(void *log, const struct log_rec *r,
	    struct err *e), void *log, struct err *e);
	/* Write this root into all slots of all writable members, both phases,
	 * flushed (assembly_roots).  A member that fails is set aside by it; -1
	 * when none is left. */
	int (*write_roots)(void *arg, const struct log_root *root,
	    struct err *e);
};

struct log_position {
	uint64_t flush;		/* number of the last whole flush */
	uint64_t event;
	uint8_t run[16];
	bool clean;		/* the last record was a clean stop */
	bool damaged_tail;	/* valid blocks beyond a hole: read-only */
};

/*
 * Find the newest chain over all readable members (roots as the superblocks
 * say), decide forks by design.md 5, and hand every record of every whole
 * flush to `replay`, in order, with its flush number.  ERR_CONFLICT when
 * histories diverged: the sentence shows both.  Members whose copy ended
 * earlier get m->stale.  Member states become those of the log's table (a
 * member without a device is MISSING, one that was MISSING and is there is
 * ACTIVE).  `host` must outlive the log.
 */
MUST_CHECK int log_load(struct log **out, const struct log_host *host,
    int (*replay)(void *arg, const struct log_rec *r, uint64_t flush,
    struct err *e), struct log_position *pos, struct warn_sink *warn,
    struct err *e);

/* Bring every writable member to the chosen chain (by a fold when one lags or
 * differs), write all superblocks, then append the epoch block (event + 1, new
 * run id, member set) and flush it.  Needs a host whose dump() and
 * extent_take() work, so after the replay has been applied and
 * log_extents() been taken out of the free ones. */
MUST_CHECK int log_start(struct log *l, struct err *e);

/* Begin an empty history (array_create): generation 1 with the member table,
 * then the superblocks.  host->dump may be NULL. */
MUST_CHECK int log_create(struct log **out, const struct log_host *host,
    struct err *e);

/* The records of one flush, durable on every writable member (those that fail
 * are reported and left out) when this returns 0.  `epoch` true when the
 * member set changed. */
MUST_CHECK int log_append(struct log *l, const struct log_rec *recs,
    size_t count, bool epoch, uint64_t *flush, struct err *e);
/* The number the next log_append will give. */
uint64_t log_next_flush(struct log *l);

/* True when the tail has outgrown the checkpoint. */
bool log_wants_fold(struct log *l);
MUST_CHECK int log_fold(struct log *l, struct err *e);

/* A member that joined (replace, return; already in host->members and
 * ACTIVE): give it the whole chain, by a fold, then append an epoch block with
 * the new member set.  -1 also when that member failed. */
MUST_CHECK int log_join(struct log *l, unsigned member, struct err *e);
/* Between these no flush, fold or write of superblocks happens. */
void log_hold(struct log *l);
void log_let_go(struct log *l);
/* Write all superblocks again (heals their slots). */
MUST_CHECK int log_write_roots(struct log *l, struct err *e);
/* True if `flush` of the run `run` is a moment of this history. */
bool log_knows(struct log *l, const uint8_t run[static 16], uint64_t flush);
/* Extents the live chain occupies on this member, in order, and (until
 * log_start, which gives them back) those of other generations that superblock
 * slots still name; returns how many there are, fills in at most `max`. */
size_t log_extents(struct log *l, unsigned member, uint32_t *out, size_t max);
/* This extent belongs to a segment, so it is none of another generation's: a
 * slot that names it is of a member that was away when it was given away.  To
 * be told before log_extents() and log_start(). */
void log_disown(struct log *l, unsigned member, uint32_t extent);
/* Verify all copies block by block; heal from another member if `heal`. */
MUST_CHECK int log_scrub(struct log *l, bool heal, struct scan_report *report,
    const struct scan_ops *ops, struct err *e);
uint64_t log_bytes(struct log *l);
void log_position(struct log *l, struct log_position *pos);
void log_close(struct log *l);

#endif
