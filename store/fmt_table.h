/*
 * store/fmt_table.h - the table of contents that ends each flush of a
 * segment.  [format]
 *
 * From the tables alone the index can be built again: which objects, of which
 * type, where.  They are stored raw, so that no key and no codec is needed.
 * Objects are numbered through the segment in table order: `base` is the
 * number of the first one here (their ordinal).
 *
 *   0  magic       4   "bkT1"
 *   4  crc         4   CRC-32C of all that follows
 *   8  version     1   1
 *   9  flags       1   low half must-know, high half may be ignored
 *  10  last_strip  1   strip length (4 KiB units) of the flush's last stripe
 *  11  reserved    1   zero
 *  12  last_row    4   its row
 *  16  size        4   of the whole table
 *  20  frames      4
 *  24  objects     4
 *  28  base        4   ordinal of the first object
 *  32  segment     8
 *  40  flush       8
 *  48  previous   16   place of the table before it in this segment, or zero
 *  64  frames x TABLE_FRAME_SIZE:
 *        0 row 4 | 4 offset 4 | 8 size 4 | 12 domain 4 | 16 keyspace 4 |
 *        20 objects 2 | 22 reserved 2
 *      objects x TABLE_OBJECT_SIZE: 0 id 32 | 32 size 4 | 36 type 1
 *
 * Frames are in the order in which they lie, the table right behind the last:
 * so where one ends is where the next begins, and whether it touches the short
 * last stripe follows without knowing the segment's geometry.  `domain` is
 * whose session stored it; 0 = a move by collection, which says nothing about
 * owners.
 */
#ifndef STORE_FMT_TABLE_H
#define STORE_FMT_TABLE_H

#include "base/err.h"
#include "proto/fmt_id.h"
#include "raid/place.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

#define TABLE_HEADER_SIZE 64
#define TABLE_FRAME_SIZE 24
#define TABLE_OBJECT_SIZE 37

/* A flush is forced before a segment has more; the largest table stays below
 * what one append may take (RAID_FRAME_MAX, 1200 KiB). */
#define TABLE_FRAMES_MAX 12288u
#define TABLE_OBJECTS_MAX 24576u
#define TABLE_SIZE_MAX (TABLE_HEADER_SIZE + \
    TABLE_FRAMES_MAX * TABLE_FRAME_SIZE + \
    TABLE_OBJECTS_MAX * TABLE_OBJECT_SIZE)

struct table_frame {
	struct place place;
	uint32_t domain, keyspace;
	uint32_t object_count;
};

struct table_object {
	struct id id;
	uint32_t size;
	uint8_t type;
};

/* Of a table that was checked; points into the caller's bytes. */
struct table_view {
	uint64_t segment, flush;
	uint32_t frame_count, object_count, base;
	uint32_t last_row;	/* of the flush's last stripe */
	uint8_t last_strip;	/* its strip length, 4 KiB units */
	bool has_previous;
	struct place previous;
	uint32_t row, offset;	/* where the table itself lies */
	const uint8_t *frames, *objects;
};

/* Bytes of a table. */
size_t table_size(uint32_t frames, uint32_t objects);
void table_frame_put(struct buf *b, const struct table_frame *f);
void table_object_put(struct buf *b, const struct table_object *o);
/* Append the whole table; v->frames and v->objects are bytes as the two above
 * put them.  v->row and v->offset are not part of it. */
void table_put(struct buf *out, const struct table_view *v);

/*
 * Parse the table that was read from `at`; every count, frame and object is
 * checked.  ERR_CORRUPT, ERR_VERSION; *v is written only on success.
 */
MUST_CHECK int table_parse(struct table_view *v, const struct place *at,
    const void *data, size_t size, struct err *e);
/* The array's judge of a table that it reads. */
bool table_good(void *arg, const void *data, size_t size);
/* Frame `i` (below frame_count) with its whole place; object `i` (below
 * object_count). */
void table_frame_at(const struct table_view *v, uint32_t i,
    struct table_frame *out);
void table_object_at(const struct table_view *v, uint32_t i,
    struct table_object *out);

#endif
