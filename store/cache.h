/*
 * store/cache.h - frames as they were read, the least recently used go first.
 *
 * A restore asks for small objects one after the other; most lie in the frame
 * that was read for the one before.
 *
 * Memory: CACHE_BYTES, and what readers still hold.
 * Threads: any.
 */
#ifndef STORE_CACHE_H
#define STORE_CACHE_H

#include "base/err.h"
#include "raid/array.h"

#include <stddef.h>
#include <stdint.h>

#define CACHE_BYTES ((size_t)16 << 20)

struct cache;

struct cached {			/* read-only to those who hold it */
	struct place place;
	size_t size;
	uint8_t *data;
	struct cached *newer, *older;
	unsigned holders;
};

MUST_CHECK int cache_new(struct cache **out, struct err *e);
void cache_free(struct cache *c);	/* nobody may hold anything */
/*
 * The frame at `at`, from memory or from the array, its hash checked.  Give it
 * back with cache_drop().  The result is the array's; on anything but
 * ARRAY_READ_OK *e says why.
 */
enum array_read cache_frame(struct cache *c, struct array *a,
    const struct place *at, struct cached **out, struct err *e);
void cache_drop(struct cache *c, struct cached *f);	/* NULL is fine */
/* Segment ids are never used again, but a quarantined or freed place should
 * not be served from memory. */
void cache_forget(struct cache *c, uint64_t segment);

#endif
