/*
 * tests/support/dev_sim.h - simulated disks: struct dev in memory, with a
 * volatile write cache, faults on demand, power cuts and a seeded scheduler.
 *
 * A `struct sim` is a set of disks with one power switch.
 *
 *      sim_new --> sim_devs --> (array_create / array_open take the devices)
 *        |            ^
 *        |            |   sim_power_cut: keep what you like of the unflushed
 *        |            |   writes; devices opened before are dead for ever
 *        +--> ... ----+--> sim_clone (cheap) ... --> sim_free (each of them)
 *
 * WHAT A DISK IS
 *
 *   Two images and a list.  `durable` is what is on the medium, `now` is what
 *   a read sees, and the list holds the writes since the last flush, in order
 *   of arrival.  A flush applies the list to `durable`.  At a power cut any
 *   subset of the list, in any order, any of them torn at 512-byte sectors,
 *   may have reached the medium: the test says which (struct sim_kept), or
 *   lets tests/support/crash.h enumerate.
 *
 * WHERE THE POWER GOES OUT
 *
 *   Writes and flushes of all disks are counted together (reads change
 *   nothing and are counted apart).  There are two ways to look at a crash:
 *
 *   sim_crash_at(s, n)  The n-th write or flush from now (1-based) and all
 *                       later operations fail: the program sees its devices
 *                       die.  A write that the cut hits is in the list: it may
 *                       have arrived, wholly or in part.  A flush is not done.
 *   sim_record(s)       The program runs on unharmed, and a clone of the set
 *                       is kept for every write and flush, as a cut at that
 *                       operation would have left it.  One run gives all its
 *                       crash points.  The clone carries the number last given
 *                       to sim_note(), by which a test tells what had been
 *                       acked by then.
 *
 * Units: bytes.  Offsets, sizes and buffers of device calls must be multiples
 *   of 4096: else the program aborts, for a real disk would refuse.
 * Errors: device calls give ERR_IO (EIO, ENODEV, EROFS) or ERR_NO_SPACE; all
 *   else here cannot fail, and aborts when the test asks for nonsense.
 * Threads: everything from any thread; one lock for the set.  sim_free() lets
 *   hung calls go and may be called while devices are still open: they fail
 *   from then on, and the memory goes with the last of them.
 */
#ifndef TESTS_SUPPORT_DEV_SIM_H
#define TESTS_SUPPORT_DEV_SIM_H

#include "raid/dev.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim;

#define SIM_SECTOR 512u
#define SIM_DISKS_MAX 64u
#define SIM_ALL_DISKS UINT32_MAX

/* ---- life ------------------------------------------------------------- */

/* `count` zeroed disks of `size` bytes (a multiple of 4096).  They cost memory
 * only for what is written.  Named "sim:0", "sim:1" and so on. */
struct sim *sim_new(unsigned count, uint64_t size);
/* Everything as it is now: both images, unflushed writes, bad sectors, looks,
 * sizes, the note.  Not cloned: faults, crash point, scheduler, records,
 * counters; the clone has power and all its disks. */
struct sim *sim_clone(struct sim *s);
void sim_free(struct sim *s);			/* NULL is fine */

unsigned sim_disks(const struct sim *s);
uint64_t sim_size(struct sim *s, unsigned disk);	/* bytes */
/* One more zeroed disk, of any size; returns its number. */
unsigned sim_add(struct sim *s, uint64_t size);
/* Grow or shrink the disk as seen from now on.  Devices opened before keep
 * the size they told; beyond the end they fail. */
void sim_resize(struct sim *s, unsigned disk, uint64_t size);

/* ---- devices ---------------------------------------------------------- */

/* A device on this disk; may be opened any number of times.  Freed by its
 * close operation (dev_close). */
struct dev *sim_dev(struct sim *s, unsigned disk);
/* An array (malloc'd) of one device for each disk for which `skip` has no bit
 * (bit i = disk i), in order; *count says how many. */
struct dev **sim_devs(struct sim *s, uint64_t skip, size_t *count);
/* For array_open.dev_open: `path` is "sim:N", `arg` the struct sim.
 * ERR_NOT_FOUND for other names and for disks that are dropped. */
MUST_CHECK int sim_dev_open(struct dev **out, const char *path, void *arg,
    struct err *e);

/* ---- power ------------------------------------------------------------ */

/* Which part of one unflushed write reached the medium. */
struct sim_kept {
	unsigned disk;
	size_t write;		/* 0 = oldest unflushed write of this disk */
	uint32_t first, count;	/* sectors of the write; count 0 = to its end */
	uint64_t holes;		/* not 0: a seed that drops half of them */
};

/* Unflushed writes of this disk. */
size_t sim_pending(struct sim *s, unsigned disk);
/* Where the i-th of them goes, and how long it is. */
void sim_pending_write(struct sim *s, unsigned disk, size_t i,
    uint64_t *offset, uint32_t *size);

/*
 * The power fails and comes back.  `kept` is applied to the medium in the
 * order given (so that reordering can be shown); all other unflushed writes
 * are gone.  Devices opened before fail for ever.  Faults, crash point and
 * scheduler are off afterwards; bad sectors and dropped disks stay.
 */
void sim_power_cut(struct sim *s, const struct sim_kept *kept, size_t count);
/* The usual two. */
void sim_power_cut_all_lost(struct sim *s);
void sim_power_cut_all_kept(struct sim *s);

/* Writes and flushes so far, of all disks. */
uint64_t sim_changes(struct sim *s);
/* The n-th write or flush from now is where the power goes; 0 = never. */
void sim_crash_at(struct sim *s, uint64_t nth);
/* Has the crash point been reached (or sim_power_off called)? */
bool sim_crashed(struct sim *s);
/* Off at once, as if the next operation had been the crash point. */
void sim_power_off(struct sim *s);

/* What the test knows now, e.g. how many flushes were acked. */
void sim_note(struct sim *s, uint64_t note);
uint64_t sim_noted(struct sim *s);

/* Keep a clone for each write and flush from now on, until sim_record_end(),
 * which adds one last clone of the state then. */
void sim_record(struct sim *s);
void sim_record_end(struct sim *s);
size_t sim_records(struct sim *s);
/* The i-th of them, a new clone that the caller frees. */
struct sim *sim_recorded(struct sim *s, size_t i);
/* sim_changes() of the original when it was taken (counting the operation). */
uint64_t sim_recorded_at(struct sim *s, size_t i);
/* Drops them all. */
void sim_record_clear(struct sim *s);

/* ---- faults ----------------------------------------------------------- */

enum sim_op { SIM_READ = 1, SIM_WRITE = 2, SIM_FLUSH = 4, SIM_ANY_OP = 7 };

enum sim_fault_kind {
	SIM_ERROR = 1,	/* EIO, nothing done */
	SIM_NO_SPACE,	/* writes: ENOSPC, nothing done */
	SIM_LOST,	/* writes: success told, nothing done */
	SIM_MISDIRECT,	/* writes: success told, done at `target` instead */
	SIM_TORN,	/* writes: success told, the first half is done */
	SIM_FLIPPED,	/* reads and writes: one bit is wrong on the way */
	SIM_FLUSH_LIE,	/* flushes: success told, nothing made durable */
	SIM_FLUSH_LOSE,	/* flushes: EIO, and the unflushed writes are dropped
			 * from the cache: a second flush would succeed */
	SIM_GONE,	/* EIO, and the disk is dropped (sim_drop) */
	SIM_SLOW,	/* takes `ms` longer, then done as usual */
	SIM_HANG,	/* does not return until sim_release(), then is done */
};

struct sim_fault {
	enum sim_fault_kind kind;
	unsigned disk;		/* or SIM_ALL_DISKS */
	unsigned ops;		/* which operations match: enum sim_op, or-ed */
	uint64_t offset, size;	/* only those that touch this; size 0 = all */
	uint64_t nth;		/* the first to fail, 1-based; 0 = 1 */
	uint64_t times;		/* how many of them; 0 = all from there on */
	uint64_t target;	/* SIM_MISDIRECT: offset on the same disk */
	unsigned ms;		/* SIM_SLOW */
};

#define SIM_FAULTS_MAX 32
/* Arms it beside those armed before; returns its number.  At most
 * SIM_FAULTS_MAX at a time.  The first that matches decides, except that
 * SIM_SLOW and SIM_HANG come on top. */
unsigned sim_arm(struct sim *s, const struct sim_fault *f);
/* How often it fired. */
uint64_t sim_fired(struct sim *s, unsigned fault);
/* All faults off, and forgotten; hung calls are released. */
void sim_disarm(struct sim *s);
/* Let hung calls go; the faults stay armed. */
void sim_release(struct sim *s);
/* Calls that hang at the moment. */
unsigned sim_hanging(struct sim *s);

/* The cable: every operation fails with ENODEV and look() says DEV_GONE, until
 * sim_return().  Unflushed writes are lost, as when the disk loses power. */
void sim_drop(struct sim *s, unsigned disk);
void sim_return(struct sim *s, unsigned disk);
/* What look() says of this disk. */
void sim_look(struct sim *s, unsigned disk, enum dev_seen seen);
/* Writes fail with EROFS; devices opened from now on say read_only. */
void sim_read_only(struct sim *s, unsigned disk, bool read_only);

/* ---- damage at rest: at once, any alignment ----------------------------
 * The disk is flushed first, so that damage hits what is on the medium. */

void sim_flip(struct sim *s, unsigned disk, uint64_t offset, uint8_t mask);
void sim_zero(struct sim *s, unsigned disk, uint64_t offset, uint64_t size);
/* Seeded garbage. */
void sim_garbage(struct sim *s, unsigned disk, uint64_t offset,
    uint64_t size, uint64_t seed);
/* Old content comes back: as it was in `old` (an earlier clone). */
void sim_stale(struct sim *s, unsigned disk, uint64_t offset, uint64_t size,
    struct sim *old);
/* Reads that touch it fail with EIO until it is written again; whole pages. */
void sim_unreadable(struct sim *s, unsigned disk, uint64_t offset,
    uint64_t size);
/* Read and write past all faults and caches, for looking at formats. */
void sim_peek(struct sim *s, unsigned disk, uint64_t offset, void *out,
    size_t size);
void sim_poke(struct sim *s, unsigned disk, uint64_t offset,
    const void *data, size_t size);

/* ---- looking ---------------------------------------------------------- */

struct sim_counts {
	uint64_t reads, writes, flushes;
	uint64_t read_bytes, written_bytes;
	uint64_t used_bytes;	/* pages that are not holes */
};
/* Of one disk, since sim_new / sim_clone, done or failed. */
void sim_counts(struct sim *s, unsigned disk, struct sim_counts *out);

/* Do the two disks read alike?  If not, *offset is the first difference (to
 * 4096 bytes; may be NULL). */
bool sim_same(struct sim *a, unsigned disk_a, struct sim *b, unsigned disk_b,
    uint64_t *offset);
/* All disks of both sets, which must have equally many. */
bool sim_same_all(struct sim *a, struct sim *b, unsigned *disk,
    uint64_t *offset);

/* ---- scheduler -------------------------------------------------------- */

/*
 * From now on device calls are done one at a time, in an order drawn from
 * `seed`: each call waits until no other has joined for `grace_us`
 * microseconds, then one of those that wait is drawn (they are sorted first,
 * so that equal sets of calls give equal draws).  0 turns it off.
 */
void sim_schedule(struct sim *s, uint64_t seed, unsigned grace_us);

/* The generator behind all seeds here (splitmix64), for tests. */
uint64_t sim_random(uint64_t *state);

#endif
