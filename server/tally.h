/*
 * server/tally.h - what a scan of the array found wrong, by member and kind.
 *
 * A member that was overwritten has thousands of wrong strips: the first few
 * are told one by one, the rest in one line for each member at the end.
 *
 * Threads: bad_strip may come from several threads; the rest from one.
 */
#ifndef SERVER_TALLY_H
#define SERVER_TALLY_H

#include "raid/array.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct job;

#define TALLY_KINDS 8
#define TALLY_LINES 5		/* told one by one, for each member */

struct tally_member {
	char path[512];
	uint64_t wrong, healed;
	const char *kinds[TALLY_KINDS];	/* constants of raid/ */
	uint64_t counts[TALLY_KINDS];
};

struct tally {
	struct job *job;
	bool heal;
	pthread_mutex_t lock;	/* guards: members */
	struct tally_member members[RAID_MEMBERS_MAX];
};

void tally_init(struct tally *t, struct job *job, bool heal);
void tally_release(struct tally *t);
/* For struct scan_ops; arg is the tally. */
void tally_bad_strip(void *arg, unsigned member, const char *path,
    uint64_t segment, uint32_t row, const char *kind, bool healed);
/* A line (and a JSON line of type "member") for each member with something. */
void tally_say(struct tally *t);
/*
 * The exit status of a scan: 2 damage that is not healed, 1 healed or
 * something away, 0 all good; with a line that says so.
 */
int tally_status(struct tally *t, const struct scan_report *r);

#endif
