/*
 * raid/heartbeat.h - one owner, also where two hosts see the same disks.
 *
 *      heartbeat_new --> heartbeat_look --> (log_load) --> heartbeat_claim -->
 *          heartbeat_check, heartbeat_join ... --> heartbeat_end
 *
 * Each writable member carries an owner record (raid/fmt_owner.h) with a
 * counter, which a thread moves on.  Whether an owner lives is told by change
 * alone, never by clocks.
 *
 * Errors: ERR_BUSY (another holds the array; before we write), ERR_CONFLICT
 *   (another has taken it from us; the caller stops the array), ERR_CANCELLED.
 *   Sentences name host and process.
 * Threads: look, claim and end by one thread, with none other in the array;
 *   the rest by any, without the state lock.
 */
#ifndef RAID_HEARTBEAT_H
#define RAID_HEARTBEAT_H

#include "base/err.h"
#include "raid/array.h"

#include <stdbool.h>

struct array;
struct heartbeat;
struct member;

MUST_CHECK int heartbeat_new(struct heartbeat **out, struct array *a,
    const struct array_open *o, struct err *e);

/* Is somebody there?  Waits 4 beats of a foreign host's owner that has not
 * ended cleanly.  Writes nothing. */
MUST_CHECK int heartbeat_look(struct heartbeat *h, struct err *e);
/* For those who only read: tell, and go on. */
void heartbeat_tell(struct heartbeat *h);

/* Nothing has moved since heartbeat_look(): writes our record on every
 * writable member, looks again, and begins to beat. */
MUST_CHECK int heartbeat_claim(struct heartbeat *h, struct err *e);

/* Before anything goes to the log: are all records ours?  NULL is fine. */
MUST_CHECK int heartbeat_check(struct heartbeat *h, struct err *e);

/* A new member: gets our record. */
MUST_CHECK int heartbeat_join(struct heartbeat *h, struct member *m,
    struct err *e);

/* No more beats.  `clear`: takes our record away where it is still ours.
 * Frees.  NULL is fine. */
void heartbeat_end(struct heartbeat *h, bool clear);

#endif
