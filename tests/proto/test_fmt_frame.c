/*
 * Frames: what is built is read back and pinned byte by byte; what is damaged,
 * too large or foreign is refused before anything is believed; ids and refs
 * are compared with the payload.  The golden bytes were worked out by another
 * program, written from the document.  Seeds: 1.
 */
#include "proto/fmt_frame.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/str.h"
#include "proto/fmt_list.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char golden[] =
    "626b463101000000000000000000000002000000010000003f0000003f00"
    "000000000000bafbc0bdcceeb7a985ecc3dabcb4c8f666cd637f16f008e3"
    "c963db6aa6f83a7b288c54ef0500000000000100abc62312685d708baf41"
    "b8847902ce3bb055cf83d0e4170f39c5e1cf8048a2063a00000001000200"
    "cceeb7a985ecc3dabcb4c8f666cd637f16f008e3c963db6aa6f83a7b288c"
    "54ef68656c6c6f624c010002000000010500000000000000cceeb7a985ec"
    "c3dabcb4c8f666cd637f16f008e3c963db6aa6f83a7b288c54ef02090000"
    "0000000000508d468edb541a21c30762e9772bf9e9";

/* The golden frame's objects: a chunk, and a list of it and a hole. */
static uint8_t list_plain[8 + 41 + 9] = "bL\1\0\2\0\0\0\1\5";
static struct id chunk_id, list_id;

static struct frame_builder *builder;
static struct buf out;

static void setup(void)
{
	struct err e;

	ck_assert_int_eq(id_of(&chunk_id, OBJECT_CHUNK, "hello", 5, &e), 0);
	memcpy(list_plain + 17, chunk_id.bytes, ID_SIZE);
	list_plain[49] = LIST_HOLE;
	list_plain[50] = 9;
	ck_assert_int_eq(id_of(&list_id, OBJECT_LIST, list_plain,
	    sizeof(list_plain), &e), 0);
	ck_assert_int_eq(frame_builder_new(&builder, &e), 0);
	buf_init(&out, FRAME_STORED_MAX);
}

static void teardown(void)
{
	frame_builder_free(builder);
	buf_release(&out);
}

static void add(const struct id *id, enum object_type type, const void *plain,
    size_t size, const struct id *refs, size_t ref_count)
{
	struct err e = { .text = "" };

	ck_assert_msg(frame_builder_add(builder, id, type, plain, size, refs,
	    ref_count, &e) == 0, "%s", e.text);
}

static void add_golden(void)
{
	add(&chunk_id, OBJECT_CHUNK, "hello", 5, NULL, 0);
	add(&list_id, OBJECT_LIST, list_plain, sizeof(list_plain), &chunk_id,
	    1);
}

static void finish(enum codec codec)
{
	struct err e = { .text = "" };

	ck_assert_msg(frame_builder_finish(builder, codec, 0, &out, &e) == 0,
	    "%s", e.text);
}

/* Make the sums right again after a change, so that the next check is seen. */
static void seal_tables(uint8_t *f, size_t size)
{
	size_t tables = FRAME_HEADER_SIZE + le16_get(f + 16) *
	    (size_t)FRAME_OBJECT_SIZE + le32_get(f + 20) * (size_t)ID_SIZE;
	uint32_t crc = crc32c(0, f, 36);

	if (tables > size)
		return;
	le32_put(f + 36, crc32c(crc, f + 40, tables - 40));
}

/* Parse, unpack and check all; the code of the first error. */
static enum err_code check_all(const void *frame, size_t size)
{
	struct frame_view v;
	uint8_t *plain;
	struct err e = { .code = ERR_NONE };

	if (frame_parse(&v, frame, size, &e) != 0)
		return e.code;
	plain = malloc(v.plain_size);
	ck_assert_ptr_nonnull(plain);
	if (frame_unpack(&v, plain, &e) == 0)
		(void)!frame_check_objects(&v, plain, &e);
	free(plain);
	return e.code;
}

START_TEST(writes_the_golden_frame)
{
	uint8_t want[400];
	size_t size = sizeof(golden) / 2;

	ck_assert_int_eq(hex_get(want, size, golden), 0);
	add_golden();
	ck_assert_uint_eq(frame_builder_objects(builder), 2);
	ck_assert_uint_eq(frame_builder_plain(builder), 63);
	finish(CODEC_RAW);
	ck_assert_uint_eq(out.size, size);
	ck_assert_mem_eq(out.data, want, size);
	ck_assert(frame_hash_ok(want, size));
	ck_assert_int_eq(check_all(want, size), ERR_NONE);
	ck_assert_uint_eq(frame_builder_objects(builder), 0);
}
END_TEST

START_TEST(reads_the_golden_frame)
{
	uint8_t raw[400];
	size_t size = sizeof(golden) / 2, tables, stored;
	struct frame_view v;
	struct frame_object o;
	struct id ref;
	struct err e;

	ck_assert_int_eq(hex_get(raw, size, golden), 0);
	ck_assert_int_eq(frame_parse(&v, raw, size, &e), 0);
	ck_assert_uint_eq(v.object_count, 2);
	ck_assert_uint_eq(v.ref_count, 1);
	ck_assert_uint_eq(v.plain_size, 63);
	ck_assert_uint_eq(v.stored_size, size);
	frame_object_at(&v, 0, &o);
	ck_assert(o.type == OBJECT_CHUNK && o.size == 5 && o.offset == 0 &&
	    o.refs == 0 && id_equal(&o.id, &chunk_id));
	frame_object_at(&v, 1, &o);
	ck_assert(o.type == OBJECT_LIST && o.size == 58 && o.offset == 5 &&
	    o.refs == 1 && o.first_ref == 0 && id_equal(&o.id, &list_id));
	frame_ref_at(&v, 0, &ref);
	ck_assert(id_equal(&ref, &chunk_id));
	ck_assert_int_eq(frame_sizes(raw, &tables, &stored, &e), 0);
	ck_assert_uint_eq(stored, size);
	ck_assert_uint_eq(tables, (size_t)(v.payload - raw));
}
END_TEST

START_TEST(any_flipped_bit_fails_the_hash_and_most_the_parser)
{
	uint8_t raw[400];
	size_t size = sizeof(golden) / 2;

	ck_assert_int_eq(hex_get(raw, size, golden), 0);
	for (size_t bit = 0; bit < size * 8; bit++) {
		enum err_code code;

		raw[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert(!frame_hash_ok(raw, size));
		code = check_all(raw, size);
		if (bit / 8 < size - FRAME_HASH_SIZE)
			ck_assert(code == ERR_CORRUPT || code == ERR_VERSION);
		raw[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}
END_TEST

START_TEST(any_other_size_is_refused)
{
	uint8_t raw[400] = { 0 };
	size_t size = sizeof(golden) / 2;

	ck_assert_int_eq(hex_get(raw, size, golden), 0);
	for (size_t n = 0; n < sizeof(raw); n++) {
		ck_assert(frame_hash_ok(raw, n) == (n == size));
		ck_assert_int_eq(check_all(raw, n),
		    n == size ? ERR_NONE : ERR_CORRUPT);
	}
}
END_TEST

static const struct {
	const char *what;
	unsigned at, value;
	enum err_code code;
} headers[] = {
	{ "magic", 3, '2', ERR_CORRUPT },
	{ "version", 4, 2, ERR_VERSION },
	{ "a flag that must be known", 5, 0x08, ERR_VERSION },
	{ "a flag that may be ignored", 5, 0x10, ERR_NONE },
	{ "codec of tomorrow", 6, 4, ERR_VERSION },
	{ "codec that would have to shrink", 6, CODEC_LZ4, ERR_CORRUPT },
	{ "reserved", 7, 1, ERR_CORRUPT },
	{ "keyspace", 8, 1, ERR_VERSION },
	{ "epoch", 12, 1, ERR_CORRUPT },
	{ "no object", 16, 0, ERR_CORRUPT },
	{ "objects beyond the frame", 16, 3, ERR_CORRUPT },
	{ "objects beyond the limit", 17, 5, ERR_CORRUPT },
	{ "reserved", 18, 1, ERR_CORRUPT },
	{ "no ref", 20, 0, ERR_CORRUPT },
	{ "refs beyond the limit", 21, 9, ERR_CORRUPT },
	{ "plain size", 24, 62, ERR_CORRUPT },
	{ "plain size above the limit", 26, 0x11, ERR_CORRUPT },
	{ "payload size", 28, 62, ERR_CORRUPT },
	{ "payload size above the limit", 31, 0xff, ERR_CORRUPT },
	{ "reserved", 35, 1, ERR_CORRUPT },
	{ "another id", 40, 0, ERR_CORRUPT },
	{ "an empty object", 72, 0, ERR_CORRUPT },
	{ "refs of a chunk", 76, 1, ERR_CORRUPT },
	{ "type of tomorrow", 78, 5, ERR_VERSION },
	{ "type 0", 78, 0, ERR_VERSION },
	{ "another type", 78, OBJECT_FACTS, ERR_CORRUPT },
	{ "reserved", 79, 1, ERR_CORRUPT },
	{ "refs of the list", 116, 0, ERR_CORRUPT },
	{ "another ref", 120, 0, ERR_CORRUPT },
	{ "another content", 152, 'H', ERR_CORRUPT },
};

/* Damage that carries a right checksum: a liar, not a bad disk. */
START_TEST(a_liar_is_refused)			/* _i: the row */
{
	uint8_t raw[400];
	size_t size = sizeof(golden) / 2;

	ck_assert_int_eq(hex_get(raw, size, golden), 0);
	raw[headers[_i].at] = (uint8_t)headers[_i].value;
	seal_tables(raw, size);
	ck_assert_msg(check_all(raw, size) == headers[_i].code, "%s: %d",
	    headers[_i].what, (int)check_all(raw, size));
}
END_TEST

START_TEST(refs_must_be_in_the_order_of_the_page)
{
	static uint8_t page[8 + 2 * 41] = "bL\1\0\2\0\0\0\1\1";
	struct id ids[2], id;
	struct err e;

	page[49] = page[50] = 1;
	memset(&ids[0], 1, ID_SIZE);
	memset(&ids[1], 2, ID_SIZE);
	memcpy(page + 17, &ids[0], ID_SIZE);
	memcpy(page + 58, &ids[1], ID_SIZE);
	ck_assert_int_eq(id_of(&id, OBJECT_LIST, page, sizeof(page), &e), 0);
	add(&id, OBJECT_LIST, page, sizeof(page), ids, 2);
	finish(CODEC_RAW);
	ck_assert_int_eq(check_all(out.data, out.size), ERR_NONE);
	memset(&ids[0], 2, ID_SIZE);
	memset(&ids[1], 1, ID_SIZE);
	add(&id, OBJECT_LIST, page, sizeof(page), ids, 2);
	finish(CODEC_RAW);
	ck_assert_int_eq(check_all(out.data, out.size), ERR_CORRUPT);
}
END_TEST

START_TEST(a_page_that_is_none_is_refused)
{
	struct id id;
	struct err e;

	for (int type = OBJECT_LIST; type <= OBJECT_FACTS; type++) {
		ck_assert_int_eq(id_of(&id, (enum object_type)type, "hello",
		    5, &e), 0);
		add(&id, (enum object_type)type, "hello", 5, NULL, 0);
		finish(CODEC_RAW);
		ck_assert_int_eq(check_all(out.data, out.size), ERR_CORRUPT);
	}
}
END_TEST

START_TEST(compressible_frames_shrink_and_come_back)	/* _i: the codec */
{
	static uint8_t plain[FRAME_GROUP_MAX];
	struct frame_view v;
	struct id id;
	struct err e;
	uint8_t *got;

	memset(plain, 'z', sizeof(plain));
	ck_assert_int_eq(id_of(&id, OBJECT_CHUNK, plain, sizeof(plain), &e),
	    0);
	add(&id, OBJECT_CHUNK, plain, sizeof(plain), NULL, 0);
	finish((enum codec)_i);
	ck_assert_int_eq(check_all(out.data, out.size), ERR_NONE);
	ck_assert_int_eq(frame_parse(&v, out.data, out.size, &e), 0);
	ck_assert_int_eq(v.codec, _i);
	if (_i != CODEC_RAW)
		ck_assert_uint_lt(out.size, sizeof(plain) / 50);
	got = malloc(v.plain_size);
	ck_assert_ptr_nonnull(got);
	ck_assert_int_eq(frame_unpack(&v, got, &e), 0);
	ck_assert_mem_eq(got, plain, sizeof(plain));
	if (_i != CODEC_RAW) {	/* a payload that does not give plain_size */
		le32_put(out.data + 24, sizeof(plain) - 1);
		le32_put(out.data + 72, sizeof(plain) - 1);
		seal_tables(out.data, out.size);
		ck_assert_int_eq(check_all(out.data, out.size), ERR_CORRUPT);
	}
	free(got);
}
END_TEST

/* Vigna, splitmix64. */
static void fill_random(uint8_t *data, size_t size, uint64_t state)
{
	for (size_t i = 0; i + 8 <= size; i += 8) {
		uint64_t z = state += 0x9e3779b97f4a7c15u;

		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		le64_put(data + i, z ^ z >> 31);
	}
}

START_TEST(the_largest_frame_has_the_stated_size)
{
	static uint8_t plain[FRAME_PLAIN_MAX];
	static struct id refs[2];
	struct id id = chunk_id;
	struct frame_view v;
	struct frame_object o;
	struct err e;

	fill_random(plain, sizeof(plain), 1);
	for (size_t i = 0; i < FRAME_OBJECTS_MAX; i++) {
		ck_assert(frame_builder_fits(builder, 1024, 2,
		    FRAME_PLAIN_MAX));
		add(&id, OBJECT_LIST, plain + i * 1024, 1024, refs, 2);
	}
	ck_assert(!frame_builder_fits(builder, 0, 0, FRAME_PLAIN_MAX));
	ck_assert_int_eq(frame_builder_add(builder, &id, OBJECT_CHUNK, plain,
	    1, NULL, 0, &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT);
	finish(CODEC_LZ4);	/* does not shrink: stored as it is */
	ck_assert_uint_eq(out.size, FRAME_STORED_MAX);
	ck_assert(frame_hash_ok(out.data, out.size));
	/* The objects are none, but the frame as such is sound. */
	ck_assert_int_eq(check_all(out.data, out.size), ERR_CORRUPT);
	ck_assert_int_eq(frame_parse(&v, out.data, out.size, &e), 0);
	for (uint32_t i = 0; i < FRAME_OBJECTS_MAX; i++) {
		frame_object_at(&v, i, &o);
		ck_assert_uint_eq(o.offset, i * 1024);
		ck_assert_uint_eq(o.first_ref, i * 2);
	}
}
END_TEST

START_TEST(limits_of_a_builder)
{
	static uint8_t plain[FRAME_PLAIN_MAX + 1];
	static struct id refs[FRAME_REFS_MAX + 1];
	struct err e;

	/* Alone, a large object may pass the limit of a group. */
	ck_assert(frame_builder_fits(builder, FRAME_PLAIN_MAX, 0,
	    FRAME_GROUP_MAX));
	ck_assert(!frame_builder_fits(builder, FRAME_PLAIN_MAX + 1, 0,
	    FRAME_GROUP_MAX));
	ck_assert(!frame_builder_fits(builder, 1, FRAME_REFS_MAX + 1,
	    FRAME_GROUP_MAX));
	ck_assert_int_eq(frame_builder_finish(builder, CODEC_LZ4, 0, &out,
	    &e), -1);
	ck_assert_int_eq(e.code, ERR_USAGE);
	ck_assert_int_eq(frame_builder_add(builder, &chunk_id, OBJECT_CHUNK,
	    plain, 0, NULL, 0, &e), -1);
	ck_assert_int_eq(e.code, ERR_USAGE);
	ck_assert_int_eq(frame_builder_add(builder, &chunk_id, OBJECT_CHUNK,
	    plain, 1, refs, 1, &e), -1);
	ck_assert_int_eq(e.code, ERR_USAGE);
	ck_assert_int_eq(frame_builder_add(builder, &chunk_id, OBJECT_TREE,
	    plain, 1, refs, FRAME_REFS_MAX + 1, &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT);
	ck_assert_int_eq(frame_builder_add(builder, &chunk_id, OBJECT_CHUNK,
	    plain, FRAME_PLAIN_MAX + 1, NULL, 0, &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT);
	add(&chunk_id, OBJECT_CHUNK, plain, FRAME_GROUP_MAX - 1, NULL, 0);
	ck_assert(frame_builder_fits(builder, 1, 0, FRAME_GROUP_MAX));
	ck_assert(!frame_builder_fits(builder, 2, 0, FRAME_GROUP_MAX));
	ck_assert(frame_builder_fits(builder, 2, 0, FRAME_PLAIN_MAX));
}
END_TEST

Suite *proto_fmt_frame_suite(void);
Suite *proto_fmt_frame_suite(void)
{
	Suite *s = suite_create("fmt_frame");
	TCase *t = tcase_create("frames");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, writes_the_golden_frame);
	tcase_add_test(t, reads_the_golden_frame);
	tcase_add_test(t, any_flipped_bit_fails_the_hash_and_most_the_parser);
	tcase_add_test(t, any_other_size_is_refused);
	tcase_add_loop_test(t, a_liar_is_refused, 0,
	    (int)(sizeof(headers) / sizeof(headers[0])));
	tcase_add_test(t, refs_must_be_in_the_order_of_the_page);
	tcase_add_test(t, a_page_that_is_none_is_refused);
	tcase_add_loop_test(t, compressible_frames_shrink_and_come_back,
	    CODEC_RAW, CODEC_ZSTD + 1);
	tcase_add_test(t, the_largest_frame_has_the_stated_size);
	tcase_add_test(t, limits_of_a_builder);
	suite_add_tcase(s, t);
	return s;
}
