/*
 * raid/super.h - superblocks on the members: reading, choosing, writing.
 *
 * Each member has MEMBER_SLOTS slots, written in two phases (0 and 2, flush, 1
 * and 3, flush), so at every moment two good ones exist.  A superblock holds
 * the whole member table and the root of the log on every member: any one
 * finds all.
 *
 * Threads: none of its own; writes are serialised by the log's lock.
 */
#ifndef RAID_SUPER_H
#define RAID_SUPER_H

#include "base/err.h"
#include "raid/fmt_super.h"
#include "raid/member.h"

#include <stdbool.h>
#include <stddef.h>

struct mio;

struct super_slots {
	struct super slot[MEMBER_SLOTS];
	bool good[MEMBER_SLOTS];
	bool newer;		/* a sound one of a newer version was seen */
	struct err why;		/* of the last bad slot */
};

/* Read all slots.  Unreadable or damaged ones are just not good; fails only
 * for lack of memory. */
MUST_CHECK int super_read(struct super_slots *out, struct mio *io,
    struct err *e);
/* The newest that two slots agree on, else the newest good one; -1 = none. */
int super_best(const struct super_slots *s);

/*
 * Write `base` (its table and root complete; own index, UUID and slot number
 * are filled in) to every slot of each writable member, both phases, flushed.
 * A member that fails is told to `failed` and left out.  -1 when none is left.
 */
MUST_CHECK int super_write(const struct super *base, struct member **members,
    size_t count, void (*failed)(void *arg, unsigned member,
    const struct err *why), void *arg, struct err *e);

/* Fill the table of `s` from the members. */
void super_table(struct super *s, struct member *const *members,
    size_t count);

#endif
