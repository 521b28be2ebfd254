/*
 * raid/array.h - the substrate: segments that keep bytes and a log that keeps
 * facts, on an array of members that may lie, fail and come back.
 *
 * This header is all that store/ and server/ know of raid/.
 *
 *      array_create                       (once)
 *      array_open --> use --> array_close
 *
 *  Writing         array_append ... --> array_cut_begin --> array_cut_* -->
 *                  array_cut_end --> array_flush --> bytes and facts durable
 *
 * A flush is one instant.  array_cut_begin() freezes every open segment at a
 * frame boundary; until array_cut_end() the caller adds, without I/O, the
 * tables that describe the frames and the facts that name them; array_flush()
 * then makes all of it durable or none: strips, member flush, log blocks,
 * member flush.  Bytes appended after the cut belong to the next flush and may
 * be written meanwhile.
 *
 * Facts are keys with values (struct array_kv): the store's clients, snapshots,
 * quarantines.  They live in the mirrored log, are all in memory, and change
 * only by a flush.
 *
 * Units: bytes unless named otherwise; rows are units of 4 KiB (RAID_ROW).
 * Errors: ERR_IO, ERR_NO_SPACE, ERR_UNAVAILABLE (too few members),
 *   ERR_CONFLICT (cloned or diverged members), ERR_BUSY (another owner),
 *   ERR_CORRUPT.  Sentences name the member.
 * Threads: everything here may be called from any thread, except that
 *   array_append() and array_cut_freeze..end are serialised by the caller (the
 *   store's cut lock), and there is one array_flush() at a time.
 */
#ifndef RAID_ARRAY_H
#define RAID_ARRAY_H

#include "base/err.h"
#include "raid/place.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct array;
struct dev;
struct warn_sink;

#define RAID_ROW 4096u
#define RAID_STRIP_MAX (256u << 10)	/* payload of a full strip */
#define RAID_MEMBERS_MAX 64
#define RAID_UUID_SIZE 16
#define RAID_KEY_MAX 160		/* bytes of a fact's key */
#define RAID_VALUE_MAX (48u << 10)	/* bytes of a fact's value */

enum seg_class { SEG_DATA = 0, SEG_META = 1 };
#define SEG_CLASSES 2

/* ---- life ------------------------------------------------------------- */

struct array_create {
	struct dev **devs;	/* taken over, also on failure */
	size_t dev_count;
	unsigned parity;	/* 0, 1 (default of the program), 2 */
	uint64_t extent_size;	/* 0 = chosen from the largest member */
	const char *wipe;	/* the signature or UUID allowed to be wiped */
};

/* Writes superblocks and an empty log on blank members.  Refuses (ERR_EXISTS)
 * a member with a known signature, ERR_LIMIT a size out of bounds, naming
 * the size that would fit. */
MUST_CHECK int array_create(const struct array_create *c, struct err *e);

/* Who opens an array: what its owner record says. */
#define ARRAY_HOST_MAX 64
struct array_machine {
	uint8_t machine[16];		/* stays when it is booted anew */
	uint8_t boot[16];
	char host[ARRAY_HOST_MAX + 1];	/* its name; graphic ASCII */
	uint32_t pid;
	uint64_t started;		/* of the process, ticks since boot */
};

struct array_open {
	struct dev **devs;	/* taken over, also on failure */
	size_t dev_count;
	bool read_only;		/* writes nothing at all */
	uint64_t call_ms;	/* time limit of a device call, 0 = 30 000 */
	struct warn_sink *warn;	/* members set aside, torn tails ...; or NULL */
	/* A member's device by path, for add and replace and for noticing what
	 * became of it; dev_file_open in the programs. */
	int (*dev_open)(struct dev **out, const char *path, void *arg,
	    struct err *e);
	void *dev_arg;
	/* Milliseconds between two beats of the owner record, 0 = 5000. */
	unsigned beat_ms;
	/* As if on another machine, for tests; NULL = this one. */
	const struct array_machine *machine;
	/* Ends the wait for another host (ERR_CANCELLED); or NULL. */
	const atomic_bool *cancel;
};

/*
 * Any order, any names.  Puts the log together from the members, copies it to
 * those that lag, begins a new epoch, seals what a crash left open.
 *
 * If another host held the array and did not close it, waits 4 of its beats
 * for a sign of life, and takes the array over when there is none; ERR_BUSY,
 * naming host and process, when there is.  From then on the array stops
 * (ERR_CONFLICT, naming it) as soon as another host is seen to have taken it.
 */
MUST_CHECK int array_open(struct array **out, const struct array_open *o,
    struct err *e);
/* Flushes nothing of the store's (call array_flush first); leaves segments
 * open, to be continued; frees.  NULL is fine. */
int array_close(struct array *a, struct err *e);
/* Like a crash: no more I/O is begun; frees. */
void array_abandon(struct array *a);

const uint8_t *array_uuid(const struct array *a);	/* RAID_UUID_SIZE */

/* ---- facts ------------------------------------------------------------ */

/* A copy of the value (malloc'd, *size bytes); ERR_NOT_FOUND. */
MUST_CHECK int array_kv_get(struct array *a, const void *key, size_t key_size,
    uint8_t **value, size_t *size, struct err *e);
/* Calls `each` for every key that begins with `prefix`, in byte order, with
 * the facts locked against change; `each` must not call array_*.  Stops at the
 * first non-zero return and returns it. */
int array_kv_each(struct array *a, const void *prefix, size_t prefix_size,
    int (*each)(void *arg, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size), void *arg);

/*
 * A position in the history of this array, for caches that follow it: LMDB
 * stores it in the same transaction as what it describes.
 */
#define ARRAY_POSITION_SIZE 24
struct array_position {
	uint8_t run[16];	/* random id of the opening that wrote it */
	uint64_t flush;		/* flush number, never reused in a history */
};
void array_position(struct array *a, struct array_position *p);
/* True if `p` is a moment of this array's own history. */
bool array_position_known(struct array *a, const struct array_position *p);

/* ---- writing ---------------------------------------------------------- */

/*
 * Append a frame of at most RAID_FRAME_MAX bytes; copied.  `reserve` bytes
 * more stay free in the same segment for the table of the coming cut (and so
 * does what earlier appends since the last cut reserved).  place->last is 0
 * until the cut (array_cut_finish).  Waits while too many stripes are being
 * written.  ERR_NO_SPACE leaves all as it was.
 */
#define RAID_FRAME_MAX (1200u << 10)
MUST_CHECK int array_append(struct array *a, enum seg_class class,
    const void *data, size_t size, size_t reserve, struct place *place,
    struct err *e);

/* The collector may take what is kept back for it on each member (4 % of the
 * extents, at least 2); off when opened.  Counts in array_info.free_bytes. */
void array_use_reserve(struct array *a, bool on);

/* Bytes appended since the last cut. */
uint64_t array_unflushed(const struct array *a);

struct array_cut;

/*
 * Our turn to write to the log: waits while somebody else does, over their
 * I/O, so the caller holds no lock of its own.  Appends may go on until
 * array_cut_freeze().
 */
MUST_CHECK int array_cut_enter(struct array *a, struct array_cut **out,
    struct err *e);
/* The instant; no I/O and no waiting.  -1 (no memory, or the array stopped):
 * `c` is freed and the turn is over. */
MUST_CHECK int array_cut_freeze(struct array_cut *c, struct err *e);
/* Instead of array_cut_freeze(): there is to be no cut. */
void array_cut_leave(struct array_cut *c);
/* Both at once, for who has the array to himself. */
MUST_CHECK int array_cut_begin(struct array *a, struct array_cut **out,
    struct err *e);
/* The segments that took frames since the last cut: *i from 0; false at the
 * end. */
bool array_cut_next(struct array_cut *c, size_t *i, uint64_t *segment);
/*
 * The row and strip length (4 KiB units) that the last stripe of `segment`
 * will have once `size` more bytes have been appended to it as the last of
 * this flush; changes nothing.  Fails never for a size within the reserve.
 */
void array_cut_last(struct array_cut *c, uint64_t segment, size_t size,
    uint32_t *last_row, uint8_t *last_strip);
/* Append those bytes (the table, raw).  Once per segment; the map remembers the
 * place as the segment's newest table and the sum of frame bytes. */
MUST_CHECK int array_cut_table(struct array_cut *c, uint64_t segment,
    const void *data, size_t size, struct place *place, struct err *e);
/* Fill in place->last of a frame appended before this cut. */
void array_cut_finish(struct array_cut *c, struct place *p);
/* Facts of this flush, in order; value NULL deletes.  Copied. */
MUST_CHECK int array_cut_kv(struct array_cut *c, const void *key,
    size_t key_size, const void *value, size_t value_size, struct err *e);
/* Free this sealed segment.  Its extents are reused only when the flush is
 * durable and no lease is left. */
MUST_CHECK int array_cut_free(struct array_cut *c, uint64_t segment,
    struct err *e);
/* No further appends to the segments open now: each class gets a new one. */
void array_cut_seal_all(struct array_cut *c);
/* The number this flush will have. */
uint64_t array_cut_flush(const struct array_cut *c);
void array_cut_end(struct array_cut *c);	/* thaw; cannot fail */

struct flush_result {
	uint64_t flush;		/* its number */
	bool reduced;		/* something has less redundancy than p */
};

/*
 * Make the cut durable.  Frees `c` whatever the result.  On -1 nothing of the
 * cut is durable in this history, and nothing later will be: the array refuses
 * further writes (a failed flush is never retried into success).  A member that
 * fails is set aside and the flush goes on without it while enough remain.
 */
MUST_CHECK int array_flush(struct array *a, struct array_cut *c,
    struct flush_result *result, struct err *e);

/* ---- reading ---------------------------------------------------------- */

enum array_read {
	ARRAY_READ_OK = 0,
	ARRAY_READ_DAMAGED,	/* members there, no combination is right */
	ARRAY_READ_UNAVAILABLE,	/* too few members answer; not damage */
	ARRAY_READ_FREED,	/* the segment is gone: look the id up again */
};

/*
 * Read p->size bytes of a durable place into `out`.  `check` (may be NULL:
 * strip checksums decide) says whether the bytes are right; when it says no,
 * the place is re-read uncached, judged strip by strip, reconstructed, and what
 * was wrong is healed in place (unless the array is read-only).  On anything
 * but OK *e says why.
 */
enum array_read array_read(struct array *a, const struct place *p, void *out,
    bool (*check)(void *arg, const void *data, size_t size), void *arg,
    struct err *e);

/* ---- a flush that is done again --------------------------------------- */

/*
 * array_flush() for a caller who can append again.  1: a member failed, nothing
 * of the cut is durable and nothing is lost; without that member there would
 * be full redundancy.  The caller then
 *
 *   array_redo_close   in his cut lock, before any append
 *   array_redo_read    every frame, appended before or after the cut, that is
 *                      in no durable table and lies in a segment that
 *                      array_redo_wants; and appends it anew
 *   array_redo_end     and cuts again, with all the facts; tables of those
 *                      segments as if there had been no cut
 *
 * The redo, and the cut after it, take the collector's reserve.  As each one
 * costs a member, there is an end to it.  If it cannot be done, the caller
 * must not cut any more.
 */
MUST_CHECK int array_flush_or_redo(struct array *a, struct array_cut *c,
    struct flush_result *result, struct err *e);
bool array_redo_wants(struct array *a, uint64_t segment);
void array_redo_close(struct array *a);
/* As array_read(), of such a frame; place->last does not matter.  Waits for
 * the devices, so without locks. */
enum array_read array_redo_read(struct array *a, const struct place *p,
    void *out, bool (*check)(void *arg, const void *data, size_t size),
    void *arg, struct err *e);
void array_redo_end(struct array *a);

/* ---- segments --------------------------------------------------------- */

struct segment_info {
	uint64_t id;
	enum seg_class class;
	bool open, sealed;
	bool reduced;		/* some strip below its birth redundancy */
	bool wants_rewrite;	/* nobody can take a strip: rewrite it */
	uint8_t width, parity;
	uint8_t away;		/* strips that are absent or on lost members */
	uint64_t frame_bytes;	/* appended by array_append, durable */
	uint64_t used_bytes;	/* of payload capacity up to the last flush */
	uint64_t capacity;	/* payload bytes of the whole segment */
	uint64_t birth_flush;	/* of the record that made it */
	uint64_t last_flush;	/* flush that last appended to it */
	uint64_t verified_s;	/* time of the last whole verify, 0 = never */
	struct place table;	/* newest table; size 0 = none */
};

/* ERR_NOT_FOUND when freed. */
MUST_CHECK int array_segment(struct array *a, uint64_t id,
    struct segment_info *out, struct err *e);
/* Ids above `after`, ascending, at most `max` of them; returns how many. */
size_t array_segments(struct array *a, uint64_t after, uint64_t *out,
    size_t max);
/* Does any want to be rewritten? */
bool array_wants_rewrite(struct array *a);
/* The flush that last freed a segment; 0 = none yet. */
uint64_t array_last_free_flush(struct array *a);

/* Someone who is interested in progress, and may stop it. */
struct job_ctl {
	atomic_bool cancel;
	atomic_ullong done, total;	/* bytes */
	uint64_t rate_max;		/* bytes/s; 0 = unlimited */
};

struct scan_report {
	uint64_t stripes, strips_bad, strips_healed, stripes_lost;
	uint64_t strips_absent;		/* on members that are away */
};

struct scan_ops {
	/* A wrong strip was located: what kind ("payload", "header", "stale",
	 * "misdirected", "unreadable"), and whether it was healed. */
	void (*bad_strip)(void *arg, unsigned member_index,
	    const char *member_path, uint64_t segment, uint32_t row,
	    const char *kind, bool healed);
	/* The payload of each stripe in order, verified (and rebuilt where
	 * needed); `data` is NULL for a stripe that is lost. */
	void (*stripe)(void *arg, uint64_t segment, uint32_t row,
	    const uint8_t *data, size_t size, uint32_t strip_size);
	void *arg;
};

/* The callbacks run while the segment is leased: they may read, but must not
 * append, cut, flush, mend or scan. */
/*
 * Read every strip of the segment up to its durable end, data and parity,
 * uncached; locate what is wrong and heal it if `heal`.  Records the time as
 * verified when nothing was lost or absent.  Returns 0 also when damage was
 * found (see the report); -1 ERR_NOT_FOUND (freed), ERR_CANCELLED.
 */
MUST_CHECK int array_scan_segment(struct array *a, uint64_t segment,
    bool heal, const struct scan_ops *ops, struct scan_report *report,
    struct job_ctl *ctl, struct err *e);
/* Every block of the log on every member, and all superblocks (segment 0 in
 * ops->bad_strip; kinds "log" and "superblock" among them). */
MUST_CHECK int array_scrub_log(struct array *a, bool heal,
    const struct scan_ops *ops, struct scan_report *report, struct err *e);
/* All segments, oldest-verified first, log and superblocks included. */
MUST_CHECK int array_scrub(struct array *a, bool heal,
    const struct scan_ops *ops, struct scan_report *report,
    struct job_ctl *ctl, struct err *e);

/* ---- members ---------------------------------------------------------- */

enum member_state {
	MEMBER_ACTIVE = 1,
	MEMBER_MISSING,		/* known, not found at open or vanished */
	MEMBER_FAILED,		/* set aside after an error, or by hand */
	MEMBER_REPLACING,	/* being replaced; still read */
	MEMBER_REMOVED,		/* index kept for ever, never used again */
};
const char *member_state_name(enum member_state s);

#define ARRAY_ERROR_KINDS 8	/* names: array_error_name(i) */
const char *array_error_name(size_t kind);

struct member_info {
	unsigned index;
	uint8_t uuid[RAID_UUID_SIZE];
	enum member_state state;
	char path[512];		/* where it was found; a hint */
	uint64_t size, used_bytes, free_bytes;
	bool empty;		/* no segment has a strip on it */
	uint64_t errors[ARRAY_ERROR_KINDS];
	uint64_t read_bytes, written_bytes, slow_ms_max;
};

struct array_info {
	unsigned parity, member_count;
	uint64_t extent_size;
	bool read_only, reduced;
	bool degraded;		/* a member is away, or failed and something
				 * is reduced for it */
	bool writes_reduced;	/* too few members to write with parity p */
	uint64_t used_bytes;	/* frame bytes that are stored */
	uint64_t free_bytes;	/* that an append of SEG_DATA can really take,
				 * by running the allocator on a copy */
	uint64_t log_bytes;	/* live log, per member */
	uint64_t segments, segments_reduced;
	uint64_t flush, event;
};

void array_info(struct array *a, struct array_info *out);
size_t array_members(struct array *a, struct member_info *out, size_t max);

/* Set a member aside by hand (path or UUID).  Refuses when more than p would
 * be away (ERR_UNAVAILABLE). */
MUST_CHECK int array_fail(struct array *a, const char *member, struct err *e);
/*
 * Take `dev` (owned from now on) in the place of `old` (path or UUID; present,
 * failed or missing) and move every strip of `old` there: used strips only,
 * verified or reconstructed sources only.  Resumable: calling it again with the
 * same pair continues.  A smaller device is taken if what is used and the
 * reserve fit, else ERR_LIMIT with needed and found bytes before a byte is
 * written.
 */
MUST_CHECK int array_replace_begin(struct array *a, const char *old,
    struct dev *dev, const char *wipe, struct err *e);
/* Continue every unfinished replacement, and bring back what members that
 * returned have missed; waits to the end. */
MUST_CHECK int array_mend(struct array *a, struct scan_report *report,
    struct job_ctl *ctl, struct err *e);
/* True while array_mend() would have something to do that it can do. */
bool array_wants_mend(struct array *a);

/* Raw throughput of each member and of the array, on free extents. */
struct bench_result {
	double raw_write, raw_read, append, read, scrub;	/* bytes/s */
	unsigned width, parity;
};
MUST_CHECK int array_bench(struct array *a, uint64_t bytes,
    struct bench_result *out, struct err *e);

/* Compare paths and inodes with what was opened; marks members missing or
 * replaced.  Called at each flush and by status. */
void array_check_members(struct array *a);

#endif
