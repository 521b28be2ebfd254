/*
 * tests/support/crash.h - all the ways a power cut can leave the disks.
 *
 * A test records a run (sim_record), in which it tells with sim_note() what
 * has been acked.  crash_explore() then goes through the recorded cuts, makes
 * images of what each may have left on the media, and lets the test check
 * every image:
 *
 *      sim_record --> the run, sim_note after each ack --> sim_record_end
 *                 --> crash_explore --> plan->check for each image
 *
 * IMAGES OF ONE CUT
 *
 *   Always: all unflushed writes lost; all kept; each disk alone kept; each
 *   disk alone lost; the last write of each disk only, and of all disks; the
 *   last write of a disk torn (first half, second half, every other sector)
 *   with all else kept; all writes torn.
 *   Exhaustive: every subset, when no more than CRASH_SUBSETS_MAX writes are
 *   unflushed.  A subset that an earlier cut with the same note has shown
 *   is not made again: only those that hold the newest write are.
 *   Samples: seeded subsets in a seeded order, a third of the writes torn.
 *
 * SECOND CUTS
 *
 *   Some images are also recovered under recording, and each write or flush of
 *   the recovery is a cut again, of which all lost, all kept and one sample are
 *   checked.
 *
 * Errors: the first image that fails ends it: -1, and the sentence names seed,
 *   cut and image, so that a run with BK_SEED set to the seed repeats it.
 * Threads: one.
 */
#ifndef TESTS_SUPPORT_CRASH_H
#define TESTS_SUPPORT_CRASH_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

struct sim;

#define CRASH_SUBSETS_MAX 10

struct crash_plan {
	const char *name;	/* of the run, for the sentence */
	uint64_t seed;		/* see crash_seed() */
	bool exhaustive;
	unsigned samples;	/* seeded images of each cut */
	unsigned images_max;	/* of each cut, drawn from the above; 0 = all */
	unsigned cuts_max;	/* of the run, drawn; 0 = all.  The end of the
				 * run is always among them */
	unsigned second_one_in;	/* images with second cuts: one in so many,
				 * 0 = none */
	unsigned second_max;	/* cuts of one recovery, drawn; 0 = all */
	/* Open what is there and prove that everything acked up to `note` is
	 * whole, and all else whole or absent.  The disks belong to the driver,
	 * have power, and may be written and damaged. */
	int (*check)(void *arg, struct sim *s, uint64_t note, struct err *e);
	/* Open and close again, as a restart does; under recording. */
	void (*recover)(void *arg, struct sim *s);
	void *arg;
};

struct crash_stats {
	uint64_t cuts, images, second_cuts, second_images;
};

/* All recorded cuts of `run`.  `stats` adds up; may be NULL. */
MUST_CHECK int crash_explore(const struct crash_plan *p, struct sim *run,
    struct crash_stats *stats, struct err *e);
/* One state of disks with unflushed writes, e.g. after sim_crash_at(); it is
 * cloned for each image.  The note is sim_noted(). */
MUST_CHECK int crash_explore_state(const struct crash_plan *p,
    struct sim *state, struct crash_stats *stats, struct err *e);

/* `otherwise`, or what BK_SEED says. */
uint64_t crash_seed(uint64_t otherwise);
/* Is BK_LONG set? */
bool crash_long(void);
/* Is BK_CRASH_WIDE set: every cut, with the images that are always made and few
 * seeded ones (what tests/flush_sites.sh needs)? */
bool crash_wide(void);

#endif
