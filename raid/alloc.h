/*
 * raid/alloc.h - which extents are free, and which members a new segment gets.
 *
 * Extents are found next-fit, ascending, so that appends are sequential on
 * each member.  The choice of members is a pure function of counts, so that
 * the report of free space can run the very same choice on a copy.
 *
 * Units: extents.  Threads: the array's state lock guards struct alloc.
 */
#ifndef RAID_ALLOC_H
#define RAID_ALLOC_H

#include "base/err.h"
#include "raid/array.h"
#include "raid/fmt_strip.h"

#include <stdbool.h>
#include <stdint.h>

struct alloc_member {
	uint8_t *bits;		/* 1 = in use; owned */
	uint32_t count;		/* extents in all */
	uint32_t used;
	uint32_t next;		/* where the search goes on */
};

struct alloc {
	struct alloc_member m[RAID_MEMBERS_MAX];
};

void alloc_init(struct alloc *a);
void alloc_release(struct alloc *a);
/* All extents of member `index` free. */
MUST_CHECK int alloc_add(struct alloc *a, unsigned index, uint32_t count,
    struct err *e);
/* False if out of range or already in use. */
bool alloc_mark(struct alloc *a, unsigned index, uint32_t extent);
/* False if none is free. */
bool alloc_take(struct alloc *a, unsigned index, uint32_t *extent);
/* Nothing happens if it is out of range or free. */
void alloc_give(struct alloc *a, unsigned index, uint32_t extent);
uint32_t alloc_free(const struct alloc *a, unsigned index);

/* ---- the choice ------------------------------------------------------- */

struct alloc_room {
	uint32_t room[RAID_MEMBERS_MAX];	/* extents it may give */
	bool writable[RAID_MEMBERS_MAX];
	size_t count;
};

struct alloc_choice {
	uint8_t member[SEG_WIDTH_MAX];
	uint8_t width, parity;
};

/*
 * The widest set (at most SEG_WIDTH_MAX) of writable members with room, those
 * with most room first; `parity` as asked, one more for SEG_META where the
 * members allow.  With fewer writable members than parity + 1 the parity is
 * narrower: the segment is born reduced.  False when there is no room (which
 * never makes it narrower: a full array says so).
 */
bool alloc_choose(const struct alloc_room *r, unsigned parity,
    enum seg_class class, struct alloc_choice *out);

/* Payload bytes of an extent of `rows` rows, per data strip, from row `row`
 * on: what full strips and the last, shorter one hold. */
uint64_t alloc_strip_room(uint32_t rows, uint32_t row);

/* Payload bytes that new SEG_DATA segments can still take, by running the
 * choice until it fails.  Changes *r. */
uint64_t alloc_free_bytes(struct alloc_room *r, unsigned parity,
    uint32_t rows);

#endif
