/*
 * Tables of contents: what is written is read back with whole places; what is
 * damaged is refused.  Method: golden bytes, every flipped byte, every
 * truncation, and places compared with where the frames were put.
 */
#include "store/fmt_table.h"

#include "base/buf.h"
#include "raid/array.h"

#include <check.h>
#include <string.h>

static const struct place where = { .segment = 9, .row = 65, .offset = 700,
	.size = 0, .last = 3 };

/* Two frames (one of two objects), the second up to the last stripe. */
static void make(struct buf *out)
{
	struct table_view v = { .segment = 9, .flush = 77, .frame_count = 2,
		.object_count = 3, .base = 40, .last_row = 65,
		.last_strip = 3, .has_previous = true,
		.previous = { .segment = 9, .row = 1, .offset = 2,
		.size = 200, .last = 64 } };
	struct table_frame f = { .domain = 5, .keyspace = 0 };
	struct table_object o = { .size = 11, .type = OBJECT_CHUNK };
	struct buf frames, objects;
	struct err e;

	buf_init(&frames, 4096);
	buf_init(&objects, 4096);
	f.place = (struct place){ .segment = 9, .row = 0, .offset = 100,
		.size = 300 };
	f.object_count = 1;
	table_frame_put(&frames, &f);
	f.place = (struct place){ .segment = 9, .row = 0, .offset = 400,
		.size = 786332 };
	f.object_count = 2;
	table_frame_put(&frames, &f);
	for (uint8_t i = 0; i < 3; i++) {
		memset(o.id.bytes, i + 1, ID_SIZE);
		o.type = i == 0 ? OBJECT_CHUNK : OBJECT_TREE;
		table_object_put(&objects, &o);
	}
	v.frames = frames.data;
	v.objects = objects.data;
	buf_init(out, TABLE_SIZE_MAX);
	table_put(out, &v);
	ck_assert_int_eq(buf_ok(out, "table", &e), 0);
	buf_release(&frames);
	buf_release(&objects);
}

START_TEST(reads_back_what_it_wrote)
{
	struct table_view v;
	struct table_frame f;
	struct table_object o;
	struct buf b;
	struct err e;

	make(&b);
	ck_assert_uint_eq(b.size, table_size(2, 3));
	ck_assert_msg(table_parse(&v, &where, b.data, b.size, &e) == 0,
	    "%s", e.text);
	ck_assert_uint_eq(v.flush, 77);
	ck_assert_uint_eq(v.base, 40);
	ck_assert(v.has_previous);
	ck_assert_uint_eq(v.previous.size, 200);
	table_frame_at(&v, 0, &f);
	ck_assert_uint_eq(f.place.size, 300);
	ck_assert_uint_eq(f.place.last, RAID_STRIP_MAX / RAID_ROW);
	table_frame_at(&v, 1, &f);
	ck_assert_uint_eq(f.place.offset, 400);
	ck_assert_uint_eq(f.place.last, 3);	/* reaches the last stripe */
	ck_assert_uint_eq(f.domain, 5);
	table_object_at(&v, 2, &o);
	ck_assert_uint_eq(o.id.bytes[0], 3);
	ck_assert_uint_eq(o.type, OBJECT_TREE);
	ck_assert(table_good(NULL, b.data, b.size));
	buf_release(&b);
}
END_TEST

START_TEST(a_frame_that_ends_with_a_stripe_does_not_touch_the_next)
{
	struct place at = where;
	struct table_frame f;
	struct table_view v;
	struct buf b;
	struct err e;

	make(&b);
	at.offset = 0;
	ck_assert_int_eq(table_parse(&v, &at, b.data, b.size, &e), 0);
	table_frame_at(&v, 1, &f);
	ck_assert_uint_eq(f.place.last, RAID_STRIP_MAX / RAID_ROW);
	buf_release(&b);
}
END_TEST

START_TEST(refuses_any_flipped_bit)
{
	struct table_view v = { .flush = 1 };
	struct buf b;
	struct err e;

	make(&b);
	for (size_t bit = 0; bit < b.size * 8; bit++) {
		b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert_int_eq(table_parse(&v, &where, b.data, b.size,
		    &e), -1);
		ck_assert_uint_eq(v.flush, 1);
		b.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	buf_release(&b);
}
END_TEST

START_TEST(refuses_any_other_length)
{
	struct table_view v;
	struct buf b;
	struct err e;

	make(&b);
	for (size_t size = 0; size < b.size; size++)
		ck_assert_int_eq(table_parse(&v, &where, b.data, size, &e),
		    -1);
	buf_release(&b);
}
END_TEST

START_TEST(refuses_a_table_of_another_segment)
{
	struct place at = where;
	struct table_view v;
	struct buf b;
	struct err e;

	make(&b);
	at.segment = 10;
	ck_assert_int_eq(table_parse(&v, &at, b.data, b.size, &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	buf_release(&b);
}
END_TEST

START_TEST(writes_the_golden_header)
{
	static const uint8_t golden[] = {
		1, 0, 3, 0, 65, 0, 0, 0, 223, 0, 0, 0, 2, 0, 0, 0,
		3, 0, 0, 0, 40, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0,
		77, 0, 0, 0, 0, 0, 0, 0,
	};
	struct buf b;

	make(&b);
	ck_assert_mem_eq(b.data, "bkT1", 4);
	ck_assert_mem_eq(b.data + 8, golden, sizeof(golden));
	buf_release(&b);
}
END_TEST

Suite *store_fmt_table_suite(void);
Suite *store_fmt_table_suite(void)
{
	Suite *s = suite_create("store_fmt_table");
	TCase *t = tcase_create("table");

	tcase_add_test(t, reads_back_what_it_wrote);
	tcase_add_test(t,
	    a_frame_that_ends_with_a_stripe_does_not_touch_the_next);
	tcase_add_test(t, refuses_any_flipped_bit);
	tcase_add_test(t, refuses_any_other_length);
	tcase_add_test(t, refuses_a_table_of_another_segment);
	tcase_add_test(t, writes_the_golden_header);
	suite_add_tcase(s, t);
	return s;
}
