/* Proves base/buf.h: growth, the bound, and that `bad` is sticky. */
#include "base/buf.h"
#include "base/reader.h"

#include <check.h>
#include <string.h>

Suite *base_buf_suite(void);

START_TEST(what_was_added_is_read_back)
{
	struct reader r;
	struct buf b;
	struct err e;

	buf_init(&b, 1000);
	buf_u8(&b, 0x12);
	buf_le16(&b, 0x3456);
	buf_le32(&b, 0x789abcde);
	buf_le64(&b, 0x1122334455667788);
	buf_add(&b, "text", 4);
	ck_assert_int_eq(buf_ok(&b, "record", &e), 0);
	ck_assert_uint_eq(b.size, 19);
	ck_assert_uint_eq(b.data[1], 0x56);	/* little-endian */
	reader_init(&r, b.data, b.size);
	ck_assert_uint_eq(reader_u8(&r), 0x12);
	ck_assert_uint_eq(reader_le16(&r), 0x3456);
	ck_assert_uint_eq(reader_le32(&r), 0x789abcde);
	ck_assert_uint_eq(reader_le64(&r), 0x1122334455667788);
	ck_assert_mem_eq(reader_bytes(&r, 4), "text", 4);
	ck_assert(reader_done(&r));
	buf_release(&b);
}
END_TEST

START_TEST(the_bound_is_reached_and_never_passed)
{
	struct buf b;
	struct err e;

	buf_init(&b, 10);
	buf_add(&b, "12345", 5);
	buf_add(&b, "67890", 5);
	ck_assert_int_eq(buf_ok(&b, "record", &e), 0);
	buf_u8(&b, 1);
	ck_assert_int_eq(buf_ok(&b, "record", &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT);
	ck_assert_ptr_nonnull(strstr(e.text, "record"));
	ck_assert_uint_eq(b.size, 10);
	ck_assert_uint_le(b.cap, 10);
	buf_release(&b);
}
END_TEST

START_TEST(bad_stays_until_reset)
{
	struct buf b;
	struct err e;

	buf_init(&b, 4);
	buf_add(&b, "12345", 5);
	buf_u8(&b, 1);		/* would fit, but the record is broken */
	ck_assert_uint_eq(b.size, 0);
	ck_assert_ptr_null(buf_room(&b, 1));
	buf_reset(&b);
	buf_u8(&b, 1);
	ck_assert_int_eq(buf_ok(&b, "record", &e), 0);
	ck_assert_uint_eq(b.size, 1);
	buf_release(&b);
}
END_TEST

START_TEST(room_is_usable_and_counts)
{
	struct buf b;
	uint8_t *room;

	buf_init(&b, 1 << 20);
	for (int i = 0; i < 100; i++) {
		room = buf_room(&b, 1000);
		ck_assert_ptr_nonnull(room);
		memset(room, i, 1000);
	}
	ck_assert_uint_eq(b.size, 100000);
	for (size_t i = 0; i < b.size; i++)
		ck_assert_uint_eq(b.data[i], i / 1000);
	buf_release(&b);
	ck_assert_ptr_null(b.data);
}
END_TEST

START_TEST(sizes_near_the_end_of_the_world_do_not_wrap)
{
	struct buf b;

	buf_init(&b, 100);
	buf_u8(&b, 1);
	ck_assert_ptr_null(buf_room(&b, SIZE_MAX));
	ck_assert(b.bad);
	buf_release(&b);
}
END_TEST

START_TEST(a_short_read_makes_a_reader_bad_for_good)
{
	static const uint8_t raw[] = { 1, 2, 3 };
	struct reader r;

	reader_init(&r, raw, sizeof(raw));
	ck_assert_uint_eq(reader_le32(&r), 0);
	ck_assert(r.bad);
	ck_assert_uint_eq(reader_u8(&r), 0);
	ck_assert(!reader_done(&r));
	reader_init(&r, raw, sizeof(raw));
	reader_u8(&r);
	ck_assert(!reader_done(&r));	/* two bytes left over */
	ck_assert_ptr_null(reader_bytes(&r, SIZE_MAX));
}
END_TEST

Suite *base_buf_suite(void)
{
	Suite *s = suite_create("buf");
	TCase *t = tcase_create("all");

	tcase_add_test(t, what_was_added_is_read_back);
	tcase_add_test(t, the_bound_is_reached_and_never_passed);
	tcase_add_test(t, bad_stays_until_reset);
	tcase_add_test(t, room_is_usable_and_counts);
	tcase_add_test(t, sizes_near_the_end_of_the_world_do_not_wrap);
	tcase_add_test(t, a_short_read_makes_a_reader_bad_for_good);
	suite_add_tcase(s, t);
	return s;
}
