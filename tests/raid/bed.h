/*
 * tests/raid/bed.h - an array on simulated disks, and the frames that were put
 * into it.
 *
 *      bed_new --> bed_append ... bed_flush ... --> bed_reopen ... --> bed_free
 *
 * Frames are seeded; bed_check() reads every flushed one and compares all of
 * its bytes.  What must not fail ends the test with the array's sentence.
 */
#ifndef TESTS_RAID_BED_H
#define TESTS_RAID_BED_H

#include "raid/array_impl.h"
#include "tests/support/dev_sim.h"

#include <check.h>

#define BED_DISK (UINT64_C(112) << 20)	/* 54 extents of 2 MiB */

struct bed_frame {
	struct place place;
	uint64_t seed;
	bool flushed;
	bool freed;		/* its segment was */
};

struct bed {
	struct sim *sim;
	struct array *a;
	unsigned parity;
	uint64_t seed;
	struct bed_frame *frames;
	size_t count, cap;
};

struct bed_shape {
	unsigned disks, parity;
};
/* (2,1) (3,1) (4,1) (5,1) (4,2) (6,2). */
#define BED_SHAPES 6
extern const struct bed_shape bed_shapes[BED_SHAPES];

struct bed *bed_new(unsigned disks, unsigned parity, uint64_t disk_size);
/* The same on disks of different sizes, in extents of 2 MiB. */
struct bed *bed_new_mixed(const unsigned *extents, unsigned disks,
    unsigned parity);
struct bed *bed_new_shape(int i);
void bed_free(struct bed *r);

/* Append a frame of this size; its place is complete after bed_flush(). */
void bed_append(struct bed *r, enum seg_class class, size_t size);
/* -1 when the array says so. */
int bed_try_append(struct bed *r, enum seg_class class, size_t size,
    struct err *e);
/* Cut (with a table for each segment that took frames) and flush. */
struct flush_result bed_flush(struct bed *r);
int bed_try_flush(struct bed *r, bool seal, struct flush_result *result,
    struct err *e);
void bed_seal(struct bed *r);
/* `frames` frames of up to `size` bytes in both classes, `flushes` times. */
void bed_fill(struct bed *r, unsigned flushes, unsigned frames, size_t size);
/* Free this segment in a flush of its own. */
void bed_free_segment(struct bed *r, uint64_t id);

/* All flushed frames are read right. */
void bed_check(struct bed *r);
/* How many of them are not OK. */
size_t bed_count(struct bed *r, enum array_read what);
bool bed_right(void *arg, const void *data, size_t size);

/* Close cleanly; open again without the disks in `skip` (bit i = disk i). */
void bed_reopen(struct bed *r, uint64_t skip);
/* The power goes: nothing that was not flushed is kept; then open. */
void bed_crash(struct bed *r, uint64_t skip);
int bed_open(struct bed *r, uint64_t skip, bool read_only, struct err *e);
void bed_close(struct bed *r);
/* The frames on other disks (a clone), to be opened and freed by itself. */
struct bed *bed_clone(const struct bed *r);
/* For every set of p disks: the frames can be read without them. */
void bed_check_losing_any(struct bed *r);

/* The disk and the offset on it of strip number `strip` of the stripe at
 * `row`: header first. */
unsigned bed_strip(struct bed *r, uint64_t segment, uint32_t row,
    unsigned strip, uint64_t *offset);
struct seg_state bed_state(struct bed *r, uint64_t segment);
unsigned bed_disk_of(const struct member *m);

/* Scan every segment; sums. */
struct scan_report bed_scan(struct bed *r, bool heal,
    const struct scan_ops *ops);
/* array_mend, to the end. */
struct scan_report bed_mend(struct bed *r);

#define OK(call) do { \
	struct err e_; \
	e_.text[0] = '\0'; \
	ck_assert_msg((call) == 0, "%s: %s", #call, e_.text); \
} while (0)
#define E (&e_)

#endif
