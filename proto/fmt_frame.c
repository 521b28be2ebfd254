/*
 * proto/fmt_frame.c - parse, check and build frames.
 *
 * Order of trust: bounds of the header, then its checksum, then the rows of
 * the table (which must add up to the header's sums), then on demand the hash
 * of the whole, the decompression to exactly plain_size bytes, and the ids.
 * Nothing is allocated here for what a frame claims: the caller allocates
 * v->plain_size after frame_parse() has bounded it.
 */
#include "proto/fmt_frame.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/le.h"
#include "proto/fmt_list.h"
#include "proto/fmt_snapshot.h"
#include "proto/fmt_tree.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FRAME_VERSION 1
#define FLAGS_MUST_KNOW 0x0f
#define CRC_AT 36

static const uint8_t magic[4] = { 'b', 'k', 'F', '1' };

_Static_assert(FRAME_HASH_SIZE == XXH128_SIZE, "the hash is one XXH3-128");

/* ---- parsing ------------------------------------------------------------ */

static int header_known(const uint8_t *h, struct err *e)
{
	if (memcmp(h, magic, sizeof(magic)) != 0)
		return err_set(e, ERR_CORRUPT, "not a frame");
	if (h[4] != FRAME_VERSION)
		return err_set(e, ERR_VERSION, "frame of version %u", h[4]);
	if (h[5] & FLAGS_MUST_KNOW)
		return err_set(e, ERR_VERSION, "frame with flags %#x", h[5]);
	if (!codec_known(h[6]))
		return err_set(e, ERR_VERSION, "frame of codec %u", h[6]);
	if (le32_get(h + 8) != 0)
		return err_set(e, ERR_VERSION, "frame of keyspace %u",
		    le32_get(h + 8));
	if (h[7] != 0 || le32_get(h + 12) != 0 || le16_get(h + 18) != 0 ||
	    le32_get(h + 32) != 0)
		return err_set(e, ERR_CORRUPT,
		    "frame: a reserved field is not zero");
	return 0;
}

static int header_get(struct frame_view *v, const uint8_t *h, struct err *e)
{
	if (header_known(h, e) != 0)
		return -1;
	v->keyspace = le32_get(h + 8);
	v->epoch = le32_get(h + 12);
	v->codec = (enum codec)h[6];
	v->object_count = le16_get(h + 16);
	v->ref_count = le32_get(h + 20);
	v->plain_size = le32_get(h + 24);
	v->payload_size = le32_get(h + 28);
	if (v->object_count == 0 || v->object_count > FRAME_OBJECTS_MAX ||
	    v->ref_count > FRAME_REFS_MAX)
		return err_set(e, ERR_CORRUPT, "frame of %u objects, %u refs",
		    v->object_count, v->ref_count);
	if (v->plain_size == 0 || v->plain_size > FRAME_PLAIN_MAX)
		return err_set(e, ERR_CORRUPT, "frame of %u plain bytes",
		    v->plain_size);
	if (v->payload_size == 0 || v->payload_size > v->plain_size ||
	    (v->codec == CODEC_RAW) != (v->payload_size == v->plain_size))
		return err_set(e, ERR_CORRUPT,
		    "frame of %u stored for %u plain bytes", v->payload_size,
		    v->plain_size);
	return 0;
}

static size_t tables_size_of(const struct frame_view *v)
{
	return FRAME_HEADER_SIZE +
	    (size_t)v->object_count * FRAME_OBJECT_SIZE +
	    (size_t)v->ref_count * ID_SIZE;
}

int frame_sizes(const uint8_t header[static FRAME_HEADER_SIZE],
    size_t *tables_size, size_t *stored_size, struct err *e)
{
	struct frame_view v;

	if (header_get(&v, header, e) != 0)
		return -1;
	*tables_size = tables_size_of(&v);
	*stored_size = *tables_size + v.payload_size + FRAME_HASH_SIZE;
	return 0;
}

/* The checksum covers the header before it, and the tables after it. */
static uint32_t tables_crc(const uint8_t *frame, size_t tables_size)
{
	uint32_t crc = crc32c(0, frame, CRC_AT);

	return crc32c(crc, frame + FRAME_HEADER_SIZE,
	    tables_size - FRAME_HEADER_SIZE);
}

/* Check each row, and note the sums on the way. */
static int rows_check(struct frame_view *v, struct err *e)
{
	uint64_t plain = 0, refs = 0;

	for (uint32_t i = 0; i < v->object_count; i++) {
		const uint8_t *row = v->objects + i * FRAME_OBJECT_SIZE;
		uint32_t size = le32_get(row + 32);
		uint16_t some = le16_get(row + 36);

		if (i % FRAME_MARK == 0) {
			v->marks[i / FRAME_MARK].offset = (uint32_t)plain;
			v->marks[i / FRAME_MARK].ref = (uint32_t)refs;
		}
		if (!object_type_known(row[38]))
			return err_set(e, ERR_VERSION,
			    "frame: object %u of type %u", i, row[38]);
		if (size == 0 || row[39] != 0 ||
		    (some > 0 && !object_has_refs(row[38])))
			return err_set(e, ERR_CORRUPT,
			    "frame: row %u is damaged", i);
		plain += size;
		refs += some;
	}
	if (plain != v->plain_size || refs != v->ref_count)
		return err_set(e, ERR_CORRUPT, "frame: rows do not add up");
	return 0;
}

int frame_parse(struct frame_view *v, const void *data, size_t size,
    struct err *e)
{
	const uint8_t *frame = data;
	struct frame_view got;
	size_t tables_size;

	if (size < FRAME_HEADER_SIZE)
		return err_set(e, ERR_CORRUPT, "frame of %zu bytes", size);
	if (header_get(&got, frame, e) != 0)
		return -1;
	tables_size = tables_size_of(&got);
	got.stored_size = tables_size + got.payload_size + FRAME_HASH_SIZE;
	if (size != got.stored_size)
		return err_set(e, ERR_CORRUPT,
		    "frame of %zu bytes that says %zu", size,
		    got.stored_size);
	if (le32_get(frame + CRC_AT) != tables_crc(frame, tables_size))
		return err_set(e, ERR_CORRUPT, "frame: header is damaged");
	got.objects = frame + FRAME_HEADER_SIZE;
	got.refs = got.objects + (size_t)got.object_count * FRAME_OBJECT_SIZE;
	got.payload = frame + tables_size;
	if (rows_check(&got, e) != 0)
		return -1;
	*v = got;
	return 0;
}

bool frame_hash_ok(const void *data, size_t size)
{
	uint8_t hash[XXH128_SIZE];
	const uint8_t *frame = data;

	if (size < FRAME_HEADER_SIZE + FRAME_HASH_SIZE)
		return false;
	xxh128(hash, frame, size - FRAME_HASH_SIZE);
	return memcmp(hash, frame + size - FRAME_HASH_SIZE,
	    FRAME_HASH_SIZE) == 0;
}

static void row_get(const uint8_t *row, struct frame_object *out)
{
	memcpy(out->id.bytes, row, ID_SIZE);
	out->size = le32_get(row + 32);
	out->refs = le16_get(row + 36);
	out->type = (enum object_type)row[38];
}

void frame_object_at(const struct frame_view *v, uint32_t i,
    struct frame_object *out)
{
	uint32_t offset = v->marks[i / FRAME_MARK].offset;
	uint32_t first_ref = v->marks[i / FRAME_MARK].ref;

	for (uint32_t k = i - i % FRAME_MARK; k < i; k++) {
		const uint8_t *row = v->objects + k * FRAME_OBJECT_SIZE;

		offset += le32_get(row + 32);
		first_ref += le16_get(row + 36);
	}
	row_get(v->objects + i * FRAME_OBJECT_SIZE, out);
	out->offset = offset;
	out->first_ref = first_ref;
}

void frame_ref_at(const struct frame_view *v, uint32_t i, struct id *out)
{
	memcpy(out->bytes, v->refs + (size_t)i * ID_SIZE, ID_SIZE);
}

int frame_unpack(const struct frame_view *v, uint8_t *plain, struct err *e)
{
	if (codec_unpack(v->codec, v->payload, v->payload_size, plain,
	    v->plain_size, e) != 0)
		return err_add(e, "frame");
	return 0;
}

/* ---- objects against the payload ---------------------------------------- */

/* The ids that the page names, at most FRAME_REFS_MAX. */
static int page_refs(enum object_type type, const uint8_t *plain, size_t size,
    struct id *out, size_t *count, struct err *e)
{
	struct list_page list;
	struct tree_page tree;

	*count = 0;
	if (type == OBJECT_LIST) {
		if (list_page_parse(&list, plain, size, e) != 0)
			return -1;
		*count = list_page_refs(&list, out, FRAME_REFS_MAX);
	} else if (type == OBJECT_TREE) {
		if (tree_page_parse(&tree, plain, size, e) != 0)
			return -1;
		*count = tree_page_refs(&tree, out, FRAME_REFS_MAX);
	} else if (type == OBJECT_FACTS) {
		return facts_check(plain, size, e);
	}
	assert(*count <= FRAME_REFS_MAX);
	return 0;
}

static int object_check(const struct frame_view *v,
    const struct frame_object *o, const uint8_t *plain, struct id *scratch,
    struct err *e)
{
	const uint8_t *data = plain + o->offset;
	struct id id;
	size_t count;

	if (id_of(&id, o->type, data, o->size, e) != 0)
		return -1;
	if (!id_equal(&id, &o->id))
		return err_set(e, ERR_CORRUPT, "its id is another");
	if (page_refs(o->type, data, o->size, scratch, &count, e) != 0)
		return -1;
	if (count != o->refs || memcmp(scratch, v->refs +
	    (size_t)o->first_ref * ID_SIZE, count * ID_SIZE) != 0)
		return err_set(e, ERR_CORRUPT, "its refs are others");
	return 0;
}

int frame_check_objects(const struct frame_view *v, const uint8_t *plain,
    struct err *e)
{
	struct id *scratch = malloc(FRAME_REFS_MAX * sizeof(*scratch));
	struct frame_object o = { .size = 0 };
	uint32_t offset = 0, first_ref = 0;
	int r = 0;

	if (!scratch)
		return err_set(e, ERR_NO_MEMORY, "frame: out of memory");
	for (uint32_t i = 0; r == 0 && i < v->object_count; i++) {
		row_get(v->objects + i * FRAME_OBJECT_SIZE, &o);
		o.offset = offset;
		o.first_ref = first_ref;
		r = object_check(v, &o, plain, scratch, e);
		if (r != 0)
			err_add(e, "frame, object %u", i);
		offset += o.size;
		first_ref += o.refs;
	}
	free(scratch);
	return r;
}

/* ---- building ----------------------------------------------------------- */

struct frame_builder {
	struct buf plain;
	struct buf refs;
	struct buf packed;	/* may need more than `out` is allowed */
	uint32_t object_count;
	uint8_t rows[FRAME_OBJECTS_MAX * FRAME_OBJECT_SIZE];
};

int frame_builder_new(struct frame_builder **out, struct err *e)
{
	struct frame_builder *b = malloc(sizeof(*b));

	if (!b)
		return err_set(e, ERR_NO_MEMORY, "frame: out of memory");
	buf_init(&b->plain, FRAME_PLAIN_MAX);
	buf_init(&b->refs, FRAME_REFS_MAX * ID_SIZE);
	buf_init(&b->packed, codec_bound(FRAME_PLAIN_MAX));
	b->object_count = 0;
	*out = b;
	return 0;
}

void frame_builder_free(struct frame_builder *b)
{
	if (!b)
		return;
	buf_release(&b->plain);
	buf_release(&b->refs);
	buf_release(&b->packed);
	free(b);
}

bool frame_builder_fits(const struct frame_builder *b, size_t size,
    size_t refs, size_t plain_max)
{
	if (b->object_count == 0)
		plain_max = FRAME_PLAIN_MAX;
	return b->object_count < FRAME_OBJECTS_MAX &&
	    plain_max <= FRAME_PLAIN_MAX && b->plain.size <= plain_max &&
	    size <= plain_max - b->plain.size &&
	    refs <= FRAME_REFS_MAX - b->refs.size / ID_SIZE;
}

int frame_builder_add(struct frame_builder *b, const struct id *id,
    enum object_type type, const void *plain, size_t size,
    const struct id *refs, size_t ref_count, struct err *e)
{
	uint8_t *row;

	if (size == 0 || !object_type_known(type) ||
	    (ref_count > 0 && !object_has_refs(type)))
		return err_set(e, ERR_USAGE, "frame: an object of type %d, "
		    "%zu bytes, %zu refs", (int)type, size, ref_count);
	if (!frame_builder_fits(b, size, ref_count, FRAME_PLAIN_MAX))
		return err_set(e, ERR_LIMIT,
		    "frame: no room for %zu bytes, %zu refs", size, ref_count);
	buf_add(&b->plain, plain, size);
	if (ref_count > 0)
		buf_add(&b->refs, refs, ref_count * ID_SIZE);
	if (buf_ok(&b->plain, "frame", e) != 0 ||
	    buf_ok(&b->refs, "refs of a frame", e) != 0)
		return -1;
	row = b->rows + b->object_count++ * FRAME_OBJECT_SIZE;
	memcpy(row, id->bytes, ID_SIZE);
	le32_put(row + 32, (uint32_t)size);
	le16_put(row + 36, (uint16_t)ref_count);
	row[38] = (uint8_t)type;
	row[39] = 0;
	return 0;
}

uint32_t frame_builder_objects(const struct frame_builder *b)
{
	return b->object_count;
}

size_t frame_builder_plain(const struct frame_builder *b)
{
	return b->plain.size;
}

static void header_put(uint8_t *h, const struct frame_builder *b,
    enum codec used, size_t payload_size)
{
	memset(h, 0, FRAME_HEADER_SIZE);
	memcpy(h, magic, sizeof(magic));
	h[4] = FRAME_VERSION;
	h[6] = (uint8_t)used;
	le16_put(h + 16, (uint16_t)b->object_count);
	le32_put(h + 20, (uint32_t)(b->refs.size / ID_SIZE));
	le32_put(h + 24, (uint32_t)b->plain.size);
	le32_put(h + 28, (uint32_t)payload_size);
}

/* Add the compressed payload behind the tables, and fill in the header. */
static int payload_put(struct frame_builder *b, enum codec codec, int level,
    struct buf *out, struct err *e)
{
	const size_t tables = out->size;
	enum codec used;
	size_t size;
	uint8_t *room;

	buf_reset(&b->packed);
	room = buf_room(&b->packed, codec_bound(b->plain.size));
	if (buf_ok(&b->packed, "frame", e) != 0)
		return -1;
	if (codec_pack(codec, level, b->plain.data, b->plain.size, room, &size,
	    &used, e) != 0)
		return -1;
	buf_add(out, room, size);
	if (buf_ok(out, "frame", e) != 0)
		return -1;
	header_put(out->data, b, used, size);
	le32_put(out->data + CRC_AT, tables_crc(out->data, tables));
	return 0;
}

int frame_builder_finish(struct frame_builder *b, enum codec codec, int level,
    struct buf *out, struct err *e)
{
	uint8_t hash[XXH128_SIZE];

	if (b->object_count == 0)
		return err_set(e, ERR_USAGE, "frame: it has no object");
	buf_reset(out);
	buf_room(out, FRAME_HEADER_SIZE);
	buf_add(out, b->rows, (size_t)b->object_count * FRAME_OBJECT_SIZE);
	if (b->refs.size > 0)
		buf_add(out, b->refs.data, b->refs.size);
	if (payload_put(b, codec, level, out, e) != 0)
		return -1;
	xxh128(hash, out->data, out->size);
	buf_add(out, hash, sizeof(hash));
	if (buf_ok(out, "frame", e) != 0)
		return -1;
	buf_reset(&b->plain);
	buf_reset(&b->refs);
	b->object_count = 0;
	return 0;
}
