/*
 * raid/map.h - the segments of the array, in memory.
 *
 * Sorted by id; ids only grow, so a new segment goes to the end.  What is
 * durable of a segment is its seg_state; the rest is about who uses it now.
 *
 * Threads: the array's state lock guards all of it.
 */
#ifndef RAID_MAP_H
#define RAID_MAP_H

#include "base/err.h"
#include "raid/fmt_map.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct open_seg;

struct seg {
	struct seg_state s;
	struct open_seg *open;	/* takes frames, or has rows not yet durable */
	bool durable;		/* a durable record names it */
	bool freed;		/* FREED is durable; leases are left */
	bool exclusive;		/* someone changes strips in place */
	bool verify_noted;	/* verified_s is newer than the log's */
	uint32_t leases;	/* readers; no extent is reused while > 0 */
};

struct map {
	struct seg **segs;	/* ascending ids */
	size_t count, cap;
};

void map_init(struct map *m);
/* Frees all segments. */
void map_release(struct map *m);
/* NULL if absent. */
struct seg *map_find(const struct map *m, uint64_t id);
/* Index of the first segment with an id above `id`. */
size_t map_after(const struct map *m, uint64_t id);
/* A new, empty one (state zero but the id).  ERR_EXISTS, ERR_NO_MEMORY. */
MUST_CHECK int map_add(struct map *m, uint64_t id, struct seg **out,
    struct err *e);
/* Takes it out and frees it. */
void map_drop(struct map *m, struct seg *s);

/* Apply one record of types 100-199 while the log is replayed (and nobody
 * else looks).  FREED and LAST_FREE set *last_free. */
MUST_CHECK int map_replay(struct map *m, uint16_t type, const uint8_t *body,
    size_t size, uint64_t flush, uint64_t *last_free, struct err *e);

#endif
