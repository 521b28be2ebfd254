/*
 * proto/fmt_frame.h - a frame: the unit of compression, transfer, disk reads.
 *
 * One large chunk, or many small objects of one kind, at most FRAME_PLAIN_MAX
 * bytes plain.  Header, object table and refs are in the clear, so that the
 * store can collect, close and verify without any key; the payload is the
 * objects one after the other, compressed together.  [format]
 *
 *   0  magic        4   "bkF1"
 *   4  version      1   1
 *   5  flags        1   low half must-know, high half may be ignored
 *   6  codec        1   base/codec.h
 *   7  reserved     1   zero
 *   8  keyspace     4   0 = plain
 *  12  epoch        4   of the key; 0 in the plain keyspace
 *  16  objects      2   1 .. FRAME_OBJECTS_MAX
 *  18  reserved     2   zero
 *  20  refs         4   0 .. FRAME_REFS_MAX
 *  24  plain_size   4   sum of the objects' sizes
 *  28  payload_size 4   stored bytes of the payload
 *  32  reserved     4   zero
 *  36  table_crc    4   CRC-32C of bytes 0..35, object table and refs
 *  40  objects x FRAME_OBJECT_SIZE:
 *        0 id 32 | 32 size 4 | 36 refs 2 | 38 type 1 | 39 reserved 1
 *      refs x ID_SIZE, in the order of the objects
 *      payload
 *      hash         16  XXH3-128 of everything before it
 *
 * The hash is what the array's reads are judged by; ids are checked after
 * decompression.  An unknown must-know flag, version or keyspace is
 * ERR_VERSION.
 */
#ifndef PROTO_FMT_FRAME_H
#define PROTO_FMT_FRAME_H

#include "base/codec.h"
#include "base/err.h"
#include "proto/fmt_id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

#define FRAME_PLAIN_MAX (1u << 20)
#define FRAME_GROUP_MAX (256u << 10)	/* plain bytes of many small chunks */
#define FRAME_TREE_MAX (64u << 10)	/* plain bytes of tree and list pages */
#define FRAME_OBJECTS_MAX 1024
#define FRAME_REFS_MAX 2048
#define FRAME_HEADER_SIZE 40
#define FRAME_OBJECT_SIZE 40
#define FRAME_HASH_SIZE 16
/* Largest stored frame: raw payload, full tables. */
#define FRAME_STORED_MAX (FRAME_PLAIN_MAX + FRAME_HEADER_SIZE + \
    FRAME_OBJECTS_MAX * FRAME_OBJECT_SIZE + FRAME_REFS_MAX * ID_SIZE + \
    FRAME_HASH_SIZE)

struct frame_object {
	struct id id;
	enum object_type type;
	uint32_t size;		/* plain bytes */
	uint32_t offset;	/* in the plain payload */
	uint32_t first_ref;	/* index into the refs */
	uint16_t refs;
};

#define FRAME_MARK 64	/* rows: frame_object_at() adds up no more */

/* A parsed frame; points into the caller's bytes. */
struct frame_view {
	uint32_t keyspace, epoch;
	enum codec codec;
	uint32_t object_count, ref_count;
	uint32_t plain_size, payload_size;
	const uint8_t *objects;		/* table */
	const uint8_t *refs;
	const uint8_t *payload;
	size_t stored_size;		/* whole frame */
	struct {			/* sums before row i * FRAME_MARK */
		uint32_t offset, ref;
	} marks[FRAME_OBJECTS_MAX / FRAME_MARK];
};

/*
 * Parse and bound everything in the clear; checks table_crc but neither the
 * hash nor the ids.  `size` must be the whole frame.  ERR_CORRUPT,
 * ERR_VERSION.
 */
MUST_CHECK int frame_parse(struct frame_view *v, const void *data,
    size_t size, struct err *e);
/* From the first FRAME_HEADER_SIZE bytes: size of header + tables, and of the
 * whole frame.  For scans without a table of contents. */
MUST_CHECK int frame_sizes(const uint8_t header[static FRAME_HEADER_SIZE],
    size_t *tables_size, size_t *stored_size, struct err *e);
/* Does the trailing hash agree?  Any bytes, any size. */
bool frame_hash_ok(const void *data, size_t size);
/* Object `i` of the table (i < object_count). */
void frame_object_at(const struct frame_view *v, uint32_t i,
    struct frame_object *out);
void frame_ref_at(const struct frame_view *v, uint32_t i, struct id *out);
/* Decompress into `plain` (v->plain_size bytes, checked <= FRAME_PLAIN_MAX by
 * frame_parse). */
MUST_CHECK int frame_unpack(const struct frame_view *v, uint8_t *plain,
    struct err *e);
/* Check every object's id against the plain payload, and the refs of pages
 * against what the page says (proto/fmt_tree.h, fmt_list.h). */
MUST_CHECK int frame_check_objects(const struct frame_view *v,
    const uint8_t *plain, struct err *e);

/*
 * Building:  frame_builder_new --> frame_builder_add ... -->
 *            frame_builder_finish --> (again) --> frame_builder_free
 * Objects are copied.  Threads: one builder, one thread.
 */
struct frame_builder;

MUST_CHECK int frame_builder_new(struct frame_builder **out, struct err *e);
void frame_builder_free(struct frame_builder *b);
/* True if an object of this size and these refs fits within `plain_max`; an
 * empty builder takes any object of at most FRAME_PLAIN_MAX. */
bool frame_builder_fits(const struct frame_builder *b, size_t size,
    size_t refs, size_t plain_max);
/* ERR_LIMIT if it does not fit, ERR_USAGE for an empty object or refs of a type
 * that has none; the builder is as before then. */
MUST_CHECK int frame_builder_add(struct frame_builder *b, const struct id *id,
    enum object_type type, const void *plain, size_t size,
    const struct id *refs, size_t ref_count, struct err *e);
uint32_t frame_builder_objects(const struct frame_builder *b);
size_t frame_builder_plain(const struct frame_builder *b);
/* Compress and put the whole frame into `out` (emptied first; a bound of
 * FRAME_STORED_MAX is enough for any frame).  The builder is empty afterwards;
 * after a failure it is as before.  ERR_USAGE without any object. */
MUST_CHECK int frame_builder_finish(struct frame_builder *b, enum codec codec,
    int level, struct buf *out, struct err *e);

#endif
