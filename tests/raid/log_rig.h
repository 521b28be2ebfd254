/*
 * tests/raid/log_rig.h - a log with facts as its state, on simulated disks:
 * what the array is to the log, as small as it can be.
 *
 *      rig_create (once) --> rig_open --> rig_put ... --> rig_close / rig_drop
 *
 * The rig's allocator hands out the lowest free extent, so that what was given
 * back too early is overwritten at once, and a test that crashes sees it.
 */
#ifndef TESTS_RAID_LOG_RIG_H
#define TESTS_RAID_LOG_RIG_H

#include "base/err.h"
#include "base/warn.h"
#include "raid/assemble.h"
#include "raid/facts.h"
#include "raid/log.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim;

#define RIG_EXTENTS 128
/* Far above what a busy machine needs for a call in memory, since a member that
 * is given up without cause changes what a test proves. */
#define RIG_CALL_MS 2000
#define RIG_DISK (UINT64_C(128) << 20)

struct rig {
	struct sim *sim;
	struct assembly *as;
	struct log_host host;
	struct log *log;
	struct log_position pos;	/* as loaded */
	struct facts *facts;
	bool taken[RAID_MEMBERS_MAX][RIG_EXTENTS];
	uint64_t no_room;		/* members without extents */
	unsigned failures;		/* calls of member_failed */
	struct err dump_error;		/* code set: dump fails with it */
	struct warn_sink warn;
	char warned[512];		/* the last warning */
};

/* An array on all disks. */
MUST_CHECK int rig_create(struct sim *s, struct err *e);
/* Open what is on the disks without a bit in `skip`; `write`: log_start too.
 * On failure there is nothing to close. */
MUST_CHECK int rig_open(struct rig *r, struct sim *s, uint64_t skip,
    bool write, struct err *e);
/* The same with the disks in the order given. */
MUST_CHECK int rig_open_order(struct rig *r, struct sim *s,
    const unsigned *order, size_t count, bool write, struct err *e);
/* A clean stop, then the end. */
MUST_CHECK int rig_close(struct rig *r, struct err *e);
/* The end, as in a crash of the program. */
void rig_drop(struct rig *r);

/* Fact number n with a value of `size` bytes that follow from n; one flush.
 * Folds when the log wants to. */
MUST_CHECK int rig_put(struct rig *r, unsigned n, size_t size, struct err *e);
MUST_CHECK int rig_delete(struct rig *r, unsigned n, struct err *e);
/* Facts 0..count-1 are there and right, and at most one more; `size` as in
 * rig_put. */
MUST_CHECK int rig_check(const struct rig *r, unsigned count, size_t size,
    struct err *e);
bool rig_has(const struct rig *r, unsigned n);

#endif
