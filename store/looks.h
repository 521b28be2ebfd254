/*
 * store/looks.h - looking objects up: the one way to know what is there.
 *
 * LMDB may touch the disk, so it is asked outside the cut lock; the overlays
 * are asked under it.  A fold between the two moves entries from the overlay
 * to LMDB: then the LMDB part is asked again.
 *
 *      looks_init --> looks_add ... --> looks_lock   (cut lock held)
 *                 --> looks_entry ... --> unlock --> looks_release
 *
 * Threads: a struct looks belongs to one thread.
 */
#ifndef STORE_LOOKS_H
#define STORE_LOOKS_H

#include "base/err.h"
#include "proto/fmt_id.h"
#include "store/entry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

struct looks {
	struct key *keys;
	struct entry **bases;	/* what LMDB says */
	size_t count, cap;
	bool read;
};

void looks_init(struct looks *l);
void looks_release(struct looks *l);
/* Forget the keys, keep the memory. */
void looks_reset(struct looks *l);
/* The index of the key is the number of keys added before it. */
MUST_CHECK int looks_add(struct looks *l, const struct id *id,
    struct err *e);
/* Takes the cut lock with all keys looked up; on -1 it is not held.  With
 * `room` it waits until one more frame may be taken. */
MUST_CHECK int looks_lock(struct store *s, struct looks *l, bool room,
    struct err *e);

/* With the cut lock held: the newest entry, whatever its state, or NULL. */
const struct entry *looks_raw(const struct store *s, const struct looks *l,
    size_t i);
/* The same, but NULL when quarantined or condemned: what is really there. */
const struct entry *looks_entry(const struct store *s,
    const struct looks *l, size_t i);
/* Is this entry (of looks_entry, not NULL) the domain's own and whole? */
bool entry_present(const struct store *s, const struct entry *en,
    uint32_t domain);
/* The newest entry that is durable, or NULL: its place can be read, also while
 * the object is on its way to another one. */
const struct entry *looks_durable(const struct store *s,
    const struct looks *l, size_t i);

/* One object by id, for readers: a copy of its entry, or NULL in *out when it
 * is absent, hidden or not yet durable.  Takes the cut lock itself. */
MUST_CHECK int look_up(struct store *s, const struct key *k,
    struct entry **out, struct err *e);

#endif
