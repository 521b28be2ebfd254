/*
 * raid/array_impl.h - the inside of struct array, for the files of raid/ that
 * together are the array: array*.c, segment.c, cut.c, flush.c, stripe_io.c,
 * read.c, heal.c, scan.c, mend.c, bench.c.
 *
 * LOCKS, in the order in which they may be taken
 *
 *   1  commit: one at a time composes records, hands them to the log and
 *      applies them to the memory.  Held from array_cut_enter to the end of
 *      array_flush, so that a cut knows its flush number; held over I/O.  Not
 *      a mutex but a flag under (4): one thread may cut and another flush
 *   2  the caller's cut lock: array_append and array_cut_freeze..end are
 *      serialised by the caller.  An append that must reserve ids is in (2)
 *      and needs (1): it waits for who holds (1) over I/O, but one who waits
 *      for (2) (cut_waits) lends it, and cannot go on meanwhile
 *   3  the log's own lock; its callbacks take (4)
 *   4  array.lock, the state lock: map, allocator, member states, leases, open
 *      segments, queue of stripes, facts.  Never held over I/O, nor over a
 *      call of log_*
 *
 * Beside them a segment can be held: by leases (many readers; its extents are
 * not reused) or exclusively (heal, move).  Both are taken under (4) and held
 * over I/O, without (1); who holds one exclusively waits for nothing else but
 * devices.  A move takes commit first and then the segment, for the moment in
 * which the map changes.
 *
 * WHAT IS DURABLE
 *
 *   struct seg_state is what the log says.  Rows beyond seg_state.rows, and
 *   segments without `durable`, are in no record and do not survive a crash.
 */
#ifndef RAID_ARRAY_IMPL_H
#define RAID_ARRAY_IMPL_H

#include "raid/alloc.h"
#include "raid/array.h"
#include "raid/assemble.h"
#include "raid/facts.h"
#include "raid/log.h"
#include "raid/map.h"
#include "raid/member.h"
#include "raid/mio.h"
#include "raid/parity.h"

#include <pthread.h>

struct heartbeat;
struct open_seg;
struct recset;
struct stripe;

#define ARRAY_WRITERS 2
#define ARRAY_SPARES 8

/* Stripe buffers in all, filled, queued and being written. */
#define ARRAY_BUFFER_MAX (24u << 20)

/* Ids reserved in the log at a time, and when to reserve more: a flush may
 * not need them all, an append must not wait for a log flush. */
#define ARRAY_IDS_BATCH 1024
#define ARRAY_IDS_LOW 512

struct array {
	/* fixed after array_open */
	struct assembly *as;	/* members, by index */
	struct log *log;
	struct heartbeat *heartbeat;	/* NULL when read-only */
	struct log_host host;
	uint8_t uuid[RAID_UUID_SIZE];
	unsigned parity;
	uint64_t extent_size;
	uint32_t extent_rows;
	bool read_only;
	struct warn_sink *warn;
	int (*dev_open)(struct dev **out, const char *path, void *arg,
	    struct err *e);
	void *dev_arg;
	struct parity codes[SEG_WIDTH_MAX + 1][SEG_PARITY_MAX + 1]; /* k, p */
	pthread_t writers[ARRAY_WRITERS];
	unsigned writer_count;
	pthread_mutex_t mend;	/* one array_mend at a time; before (1) */

	pthread_mutex_t lock;	/* guards all that follows */
	pthread_cond_t changed;	/* anything below, except: */
	pthread_cond_t work;	/* queue, quit */
	struct map map;
	struct alloc alloc;
	struct facts *facts;
	bool commit_busy;
	bool cut_waits;		/* commit is held to cut, nothing is frozen */
	struct array_cut *cut;	/* frozen and not yet flushed */
	bool members_changed;	/* an epoch is due */
	bool stopped;		/* no more writes; stop says why */
	struct err stop;
	bool quit, dead;	/* writers end; no more I/O at all */
	uint64_t next_id, id_limit;
	uint64_t flush, last_free_flush;
	uint64_t log_extents[RAID_MEMBERS_MAX];	/* taken by the log */
	bool use_reserve;
	size_t verify_notes;	/* segments with verify_noted */

	struct open_seg *opens;			/* all of them */
	struct open_seg *current[SEG_CLASSES];	/* take appends; or NULL */
	struct stripe *queue_head, *queue_tail;
	unsigned pending[2];	/* stripes of a cut not yet written: cut & 1 */
	uint64_t cut_no;	/* the cut that appends belong to now */
	size_t buffer_bytes;
	unsigned in_flight;	/* stripes queued or being written */
	struct iobuf *spare[ARRAY_SPARES];
	bool unflushed_on[RAID_MEMBERS_MAX];	/* written since its flush */
	atomic_ullong unflushed;
};

/* ---- array.c --------------------------------------------------------- */

/* One at a time composes, logs and applies.  Takes and leaves the state lock.
 * ERR_IO and so on when the array is stopped (then it is not entered). */
MUST_CHECK int array_commit_enter(struct array *a, struct err *e);
/* False when someone else is in. */
bool array_commit_try(struct array *a);
void array_commit_leave(struct array *a);

/* No more writes, ever.  With the state lock held. */
void array_stop_locked(struct array *a, const struct err *why);
/* 0, or -1 and why it stopped.  With the state lock held. */
MUST_CHECK int array_running_locked(struct array *a, struct err *e);

/* A member is not to be trusted any more: changes its state (one that is being
 * replaced becomes FAILED), keeps new stripes from it, has its open segments
 * sealed.  With the state lock held. */
void array_member_lost_locked(struct array *a, unsigned index,
    enum member_state state);
/* The log's view of the same; takes the state lock. */
void array_member_failed(void *arg, unsigned member, const struct err *why);
/* If the members changed, tell the log (an epoch) and the superblocks.  In
 * commit. */
MUST_CHECK int array_members_commit(struct array *a, struct err *e);
/* Ask each device what became of its path; memory only. */
void array_members_look(struct array *a);
/*
 * Hand records to the log, with an epoch if the members changed, and then the
 * memory: `apply` (may be NULL) is called with the state lock held, at the
 * moment in which the flush number becomes known.  Stops the array on failure.
 * In commit.
 */
MUST_CHECK int array_log(struct array *a, const struct log_rec *recs,
    size_t count, void (*apply)(struct array *a, void *arg, uint64_t flush),
    void *arg, struct err *e);
/* What was verified since the last log flush, as records. */
MUST_CHECK int array_recs_verified(struct array *a, struct recset *r,
    struct err *e);
/* Fold if the log wants it.  In commit. */
MUST_CHECK int array_fold(struct array *a, struct err *e);
/* By path or UUID; NULL when there is none.  With the state lock held. */
struct member *array_member_find(struct array *a, const char *name);

/* Extents a member gives to new segments, and may give to moves; with the
 * state lock held. */
uint32_t array_room_locked(struct array *a, unsigned index, bool reserve);
void array_rooms_locked(struct array *a, bool reserve, struct alloc_room *r);

/* Strips that are away now: their member is not there to be read, or they
 * were never written.  With the state lock held. */
bool array_slot_away(struct array *a, const struct seg_state *s,
    unsigned slot);
unsigned array_slots_away(struct array *a, const struct seg_state *s);
/* Below the parity of the array. */
bool array_seg_reduced(struct array *a, const struct seg_state *s);

/* ---- leases (segment.c) ---------------------------------------------- */

/* False: freed or unknown.  Waits while someone holds it exclusively.  With
 * `rows` durable rows and the slots as they are now in *out. */
bool seg_lease(struct array *a, uint64_t id, struct seg_state *out);
void seg_lease_end(struct array *a, uint64_t id);
/* Waits until no lease is left and keeps new ones away.  False: freed, or there
 * were readers all the time of SEG_HOLD_MS (new ones do not wait for a holder
 * that waits: a reader may take a second lease). */
#define SEG_HOLD_MS 3000
bool seg_hold(struct array *a, uint64_t id, struct seg_state *out);
void seg_hold_end(struct array *a, uint64_t id);
/* Its record is durable: gives the extents back now or with the last lease.
 * With the state lock held. */
void seg_freed_locked(struct array *a, struct seg *s);

#endif
