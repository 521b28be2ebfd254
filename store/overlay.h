/*
 * store/overlay.h - a table of entries in memory, by key.
 *
 * Three of them stand before the index: `pending` takes what comes in,
 * `flushing` is what a group flush is making durable, `durable` waits to be
 * folded into LMDB.  Looked up in this order, so the newest value wins.
 *
 * Units: counts are entries.  Memory: about 120 bytes an entry.
 * Threads: none of its own; the store's cut lock guards it.
 */
#ifndef STORE_OVERLAY_H
#define STORE_OVERLAY_H

#include "base/err.h"
#include "store/entry.h"

#include <stddef.h>
#include <stdint.h>

struct overlay_node {
	struct overlay_node *next;
	struct key key;
	struct entry *entry;		/* owned */
};

struct overlay {
	struct overlay_node **buckets;	/* NULL while empty */
	size_t bucket_count;		/* a power of two, or 0 */
	size_t count;
};

void overlay_init(struct overlay *o);
void overlay_release(struct overlay *o);	/* empties it */
/* NULL if absent. */
struct entry *overlay_find(const struct overlay *o, const struct key *k);
/* Takes `en` over, also on failure; replaces an older one.
 * ERR_NO_MEMORY. */
MUST_CHECK int overlay_put(struct overlay *o, const struct key *k,
    struct entry *en, struct err *e);
/* Moves all of `from` into `to`, replacing; `from` is empty then.  Cannot
 * fail: nodes move, and a table that cannot grow gets longer chains. */
void overlay_merge(struct overlay *to, struct overlay *from);
/* Calls `each` for every entry, in no order; it may change entry->place. */
void overlay_each(struct overlay *o,
    void (*each)(void *arg, struct overlay_node *n), void *arg);
/* The nodes by key, malloc'd; valid while the table is unchanged. */
MUST_CHECK int overlay_sorted(const struct overlay *o,
    struct overlay_node ***out, struct err *e);

#endif
