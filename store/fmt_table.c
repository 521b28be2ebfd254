/* store/fmt_table.c - see fmt_table.h. */
#include "store/fmt_table.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/le.h"
#include "proto/fmt_frame.h"
#include "raid/array.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static const uint8_t table_magic[4] = { 'b', 'k', 'T', '1' };

enum { AT_CRC = 4, AT_VERSION = 8, AT_FLAGS = 9, AT_LAST_STRIP = 10,
	AT_RESERVED = 11, AT_LAST_ROW = 12, AT_SIZE = 16, AT_FRAMES = 20,
	AT_OBJECTS = 24, AT_BASE = 28, AT_SEGMENT = 32, AT_FLUSH = 40,
	AT_PREVIOUS = 48 };

enum { FRAME_ROW = 0, FRAME_OFFSET = 4, FRAME_SIZE = 8, FRAME_DOMAIN = 12,
	FRAME_KEYSPACE = 16, FRAME_OBJECTS = 20, FRAME_RESERVED = 22 };

#define TABLE_VERSION 1
#define FLAGS_MUST_KNOW 0x0fu
#define FULL_STRIP (RAID_STRIP_MAX / RAID_ROW)

_Static_assert(AT_PREVIOUS + PLACE_SIZE == TABLE_HEADER_SIZE, "header");
_Static_assert(FRAME_RESERVED + 2 == TABLE_FRAME_SIZE, "frame entry");
_Static_assert(TABLE_SIZE_MAX <= RAID_FRAME_MAX, "a table is one append");
_Static_assert(FRAME_OBJECTS_MAX <= UINT16_MAX, "objects of a frame");

size_t table_size(uint32_t frames, uint32_t objects)
{
	return TABLE_HEADER_SIZE + (size_t)frames * TABLE_FRAME_SIZE +
	    (size_t)objects * TABLE_OBJECT_SIZE;
}

void table_frame_put(struct buf *b, const struct table_frame *f)
{
	assert(f->object_count <= FRAME_OBJECTS_MAX);
	buf_le32(b, f->place.row);
	buf_le32(b, f->place.offset);
	buf_le32(b, f->place.size);
	buf_le32(b, f->domain);
	buf_le32(b, f->keyspace);
	buf_le16(b, (uint16_t)f->object_count);
	buf_le16(b, 0);
}

void table_object_put(struct buf *b, const struct table_object *o)
{
	buf_add(b, o->id.bytes, ID_SIZE);
	buf_le32(b, o->size);
	buf_u8(b, o->type);
}

void table_put(struct buf *out, const struct table_view *v)
{
	size_t size = table_size(v->frame_count, v->object_count);
	uint8_t *p = buf_room(out, TABLE_HEADER_SIZE);
	size_t start = out->size - TABLE_HEADER_SIZE;

	assert(size <= TABLE_SIZE_MAX);
	if (!p)
		return;
	memset(p, 0, TABLE_HEADER_SIZE);
	memcpy(p, table_magic, sizeof(table_magic));
	p[AT_VERSION] = TABLE_VERSION;
	p[AT_LAST_STRIP] = v->last_strip;
	le32_put(p + AT_LAST_ROW, v->last_row);
	le32_put(p + AT_SIZE, (uint32_t)size);
	le32_put(p + AT_FRAMES, v->frame_count);
	le32_put(p + AT_OBJECTS, v->object_count);
	le32_put(p + AT_BASE, v->base);
	le64_put(p + AT_SEGMENT, v->segment);
	le64_put(p + AT_FLUSH, v->flush);
	if (v->has_previous)
		place_put(p + AT_PREVIOUS, &v->previous);
	buf_add(out, v->frames, (size_t)v->frame_count * TABLE_FRAME_SIZE);
	buf_add(out, v->objects,
	    (size_t)v->object_count * TABLE_OBJECT_SIZE);
	if (out->bad)
		return;
	p = out->data + start;
	le32_put(p + AT_CRC, crc32c(0, p + AT_VERSION, size - AT_VERSION));
}

static int previous_get(struct table_view *v, const uint8_t *in,
    struct err *e)
{
	static const uint8_t none[PLACE_SIZE];

	v->has_previous = memcmp(in + AT_PREVIOUS, none, PLACE_SIZE) != 0;
	if (!v->has_previous)
		return 0;
	if (place_get(&v->previous, in + AT_PREVIOUS, e) != 0)
		return -1;
	if (v->previous.segment != v->segment ||
	    v->previous.size < TABLE_HEADER_SIZE ||
	    v->previous.size > TABLE_SIZE_MAX)
		return err_set(e, ERR_CORRUPT,
		    "table of segment %" PRIu64 " has a wrong predecessor",
		    v->segment);
	return 0;
}

static int header_get(struct table_view *v, const uint8_t *in, size_t size,
    struct err *e)
{
	if (size < TABLE_HEADER_SIZE || size > TABLE_SIZE_MAX ||
	    memcmp(in, table_magic, sizeof(table_magic)) != 0 ||
	    le32_get(in + AT_SIZE) != size || le32_get(in + AT_CRC) !=
	    crc32c(0, in + AT_VERSION, size - AT_VERSION))
		return err_set(e, ERR_CORRUPT, "not a table of contents");
	if (in[AT_VERSION] != TABLE_VERSION ||
	    (in[AT_FLAGS] & FLAGS_MUST_KNOW) != 0)
		return err_set(e, ERR_VERSION,
		    "table of contents of version %u", in[AT_VERSION]);
	v->last_strip = in[AT_LAST_STRIP];
	v->last_row = le32_get(in + AT_LAST_ROW);
	v->frame_count = le32_get(in + AT_FRAMES);
	v->object_count = le32_get(in + AT_OBJECTS);
	v->base = le32_get(in + AT_BASE);
	v->segment = le64_get(in + AT_SEGMENT);
	v->flush = le64_get(in + AT_FLUSH);
	if (in[AT_RESERVED] != 0 || v->last_strip == 0 ||
	    v->last_strip > FULL_STRIP ||
	    v->frame_count > TABLE_FRAMES_MAX ||
	    v->object_count > TABLE_OBJECTS_MAX ||
	    v->base > UINT32_MAX - v->object_count ||
	    table_size(v->frame_count, v->object_count) != size)
		return err_set(e, ERR_CORRUPT,
		    "table of segment %" PRIu64 " is out of range",
		    v->segment);
	v->frames = in + TABLE_HEADER_SIZE;
	v->objects = v->frames + (size_t)v->frame_count * TABLE_FRAME_SIZE;
	return previous_get(v, in, e);
}

/* Do the frames account for the objects, each within bounds? */
static int contents_check(const struct table_view *v, struct err *e)
{
	struct table_frame f;
	struct table_object o;
	uint64_t objects = 0;

	for (uint32_t i = 0; i < v->frame_count; i++) {
		table_frame_at(v, i, &f);
		objects += f.object_count;
		if (f.object_count == 0 ||
		    f.object_count > FRAME_OBJECTS_MAX ||
		    f.place.size == 0 || f.place.size > RAID_FRAME_MAX ||
		    f.place.row > 0xffffff || f.place.offset > 0xffffff)
			return err_set(e, ERR_CORRUPT, "frame %" PRIu32
			    " in a table of segment %" PRIu64, i, v->segment);
	}
	for (uint32_t i = 0; i < v->object_count; i++) {
		table_object_at(v, i, &o);
		if (!object_type_known(o.type) || o.size > FRAME_PLAIN_MAX)
			return err_set(e, ERR_CORRUPT, "object %" PRIu32
			    " in a table of segment %" PRIu64, i, v->segment);
	}
	if (objects != v->object_count)
		return err_set(e, ERR_CORRUPT,
		    "table of segment %" PRIu64 " does not add up",
		    v->segment);
	return 0;
}

int table_parse(struct table_view *v, const struct place *at,
    const void *data, size_t size, struct err *e)
{
	struct table_view got = { .row = at->row, .offset = at->offset };

	if (header_get(&got, data, size, e) != 0)
		return -1;
	if (got.segment != at->segment)
		return err_set(e, ERR_CORRUPT, "table of segment %" PRIu64
		    " found in segment %" PRIu64, got.segment, at->segment);
	if (contents_check(&got, e) != 0)
		return -1;
	*v = got;
	return 0;
}

bool table_good(void *arg, const void *data, size_t size)
{
	struct table_view v;
	struct err e;

	(void)arg;
	return header_get(&v, data, size, &e) == 0;
}

void table_frame_at(const struct table_view *v, uint32_t i,
    struct table_frame *out)
{
	const uint8_t *p = v->frames + (size_t)i * TABLE_FRAME_SIZE;
	const uint8_t *next = p + TABLE_FRAME_SIZE;
	bool last = i + 1 == v->frame_count;
	uint32_t row = last ? v->row : le32_get(next + FRAME_ROW);
	uint32_t offset = last ? v->offset : le32_get(next + FRAME_OFFSET);

	out->place = (struct place){
		.segment = v->segment,
		.row = le32_get(p + FRAME_ROW),
		.offset = le32_get(p + FRAME_OFFSET),
		.size = le32_get(p + FRAME_SIZE),
		/* It ends where the next begins. */
		.last = row == v->last_row && offset > 0 ? v->last_strip :
		    FULL_STRIP,
	};
	out->domain = le32_get(p + FRAME_DOMAIN);
	out->keyspace = le32_get(p + FRAME_KEYSPACE);
	out->object_count = le16_get(p + FRAME_OBJECTS);
}

void table_object_at(const struct table_view *v, uint32_t i,
    struct table_object *out)
{
	const uint8_t *p = v->objects + (size_t)i * TABLE_OBJECT_SIZE;

	memcpy(out->id.bytes, p, ID_SIZE);
	out->size = le32_get(p + ID_SIZE);
	out->type = p[ID_SIZE + 4];
}
