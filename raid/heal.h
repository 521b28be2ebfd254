/*
 * raid/heal.h - bad strips of a stripe, written again in place.
 *
 * Threads: any; the caller holds neither a lease nor a lock.
 */
#ifndef RAID_HEAL_H
#define RAID_HEAL_H

#include "raid/stripe_io.h"

struct stripe_at {
	uint32_t row;
	uint8_t units;
};

/*
 * Hold the segment, read the stripe anew, and if at most p strips are wrong
 * write those again, flush, and read them back.  Counts at the members, in
 * report (may be NULL) and tells ops (may be NULL) of each.  Nothing is written
 * when more are wrong, to a member that does not take writes, or when readers
 * leave no time to hold the segment.
 */
void heal_stripe(struct array *a, uint64_t segment, struct stripe_at at,
    struct scan_report *report, const struct scan_ops *ops);

/* Tell of the bad strips of an image, and count them. */
void heal_report(struct array *a, const struct stripe_img *img,
    const bool *healed, struct scan_report *report,
    const struct scan_ops *ops);

/*
 * Write these strips (by number) of a right image, header and payload, each
 * to `extent` of `member`; flush; read back uncached and compare.  done[] tells
 * which are there.
 */
struct heal_target {
	unsigned strip, member;
	uint32_t extent;
	bool done;
};
void heal_write(struct array *a, const struct stripe_img *img,
    struct heal_target *targets, unsigned count);

#endif
