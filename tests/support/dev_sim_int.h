/*
 * tests/support/dev_sim_int.h - what the files of the simulated disks share.
 *
 * dev_sim.c has the set: life, power, records.  dev_sim_io.c has the device
 * calls with their faults and the scheduler.  dev_sim_damage.c changes what
 * lies on the medium.
 *
 * Threads: every function here wants s->lock held, unless it says otherwise.
 */
#ifndef TESTS_SUPPORT_DEV_SIM_INT_H
#define TESTS_SUPPORT_DEV_SIM_INT_H

#include "tests/support/dev_sim.h"
#include "tests/support/sim_pages.h"

#include <pthread.h>
#include <stdatomic.h>

/* One write that no flush has covered yet.  Never changed once made. */
struct sim_write {
	atomic_uint refs;
	uint64_t page;			/* the first */
	uint32_t count;			/* of pages */
	struct sim_page *pages[];
};

struct sim_disk {
	struct sim_pages now, durable;
	struct sim_write **list;	/* oldest first */
	size_t list_count, list_room;
	uint64_t size;
	bool dropped, read_only;
	enum dev_seen look;
	uint64_t *bad;			/* unreadable pages */
	size_t bad_count, bad_room;
	struct sim_counts counts;
};

struct sim_request {
	enum sim_op op;
	unsigned disk;
	uint64_t offset;
	size_t size;
	void *in;			/* reads */
	const void *out;		/* writes */
};

struct sim_armed {
	struct sim_fault f;
	uint64_t seen, fired;
};

struct sim_record {
	struct sim *state;
	uint64_t at;
};

#define SIM_WAITERS_MAX 256

struct sim_sched {
	bool on, running;
	uint64_t random;
	uint64_t grace_ns, joined_ns;	/* when the last call joined */
	struct sim_request *waiting[SIM_WAITERS_MAX];
	size_t count;
	const struct sim_request *drawn;	/* may go on; NULL = none yet */
};

struct sim {
	pthread_mutex_t lock;		/* guards everything below */
	pthread_cond_t changed;		/* monotonic clock */
	unsigned refs;			/* the owner and each open device */
	bool freed;			/* the owner has gone */
	bool power, crashed;
	uint64_t generation;		/* power cuts so far */
	uint64_t changes, crash_left, note;
	unsigned disk_count;
	struct sim_disk *disks[SIM_DISKS_MAX];
	struct sim_armed faults[SIM_FAULTS_MAX];
	unsigned fault_count, hanging;
	uint64_t releases;
	bool recording;
	struct sim_record *records;
	size_t record_count, record_room;
	struct sim_sched sched;
};

/* Aborts the test program with this sentence.  No lock needed. */
_Noreturn void sim_die(const char *fmt, ...) PRINTF_LIKE(1, 2);

/* The disk with this number; aborts if there is none. */
struct sim_disk *sim_disk_at(const struct sim *s, unsigned disk);
void sim_write_unref(struct sim_write *w);
/* Appends to the list of the disk, which takes over the reference. */
void sim_list_add(struct sim_disk *d, struct sim_write *w);
/* Drops the list. */
void sim_list_clear(struct sim_disk *d);
/* What a flush does. */
void sim_disk_flush(struct sim_disk *d);
/* What losing power does: reads see the medium again. */
void sim_disk_revert(struct sim_disk *d);
void sim_disk_drop(struct sim *s, struct sim_disk *d);
/* Keeps a clone, when records are wanted. */
void sim_record_now(struct sim *s);
/* Releases one reference and the lock; frees the set with the last. */
void sim_unref_unlock(struct sim *s);

#endif
