/*
 * store/retention.h - which snapshots stay, and why.  Pure: no clock, no I/O.
 *
 * The rules see one group at a time: snapshots of one client with one set of
 * paths, in the order of their commits.  Times are the server's commit times,
 * in the client's zone of each snapshot.
 *
 *   last n            the n newest
 *   hourly n ...      the newest of each of the n newest hours (days, weeks
 *                     from Monday, months, years) that have one; hours without
 *                     a snapshot do not count
 *   within t          no older than the group's newest by more than t
 *   min age t         younger than t by the clock: stays whatever the rules say
 *
 * Partial and future-dated snapshots are judged among themselves, with as many
 * places of their own: they never push out a complete one.  No rule at all
 * keeps everything.
 */
#ifndef STORE_RETENTION_H
#define STORE_RETENTION_H

#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RETENTION_REASON_SIZE 160

struct retention_item {
	int64_t commit_s;
	int32_t zone_s;
	bool incomplete;	/* partial or future-dated */
	/* Results. */
	bool keep;
	char reason[RETENTION_REASON_SIZE];	/* "last 1, daily 3" */
};

/* `items` of one group, oldest commit first. */
void retention_decide(const struct retention *rules,
    struct retention_item *items, size_t count, int64_t now_s);
/* True if some rule but min age is set. */
bool retention_has_rules(const struct retention *rules);

#endif
