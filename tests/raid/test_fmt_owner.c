/*
 * The owner record: what is written is read back; what is damaged is refused
 * and leaves the output alone.  Method: golden bytes, every bit of a good one
 * flipped, every field out of range with a right checksum.
 */
#include "base/hash.h"
#include "base/le.h"
#include "raid/fmt_owner.h"

#include <check.h>
#include <string.h>

static struct owner_rec sample(void)
{
	struct owner_rec r = {
		.counter = 0x0102030405060708, .interval_ms = 5000,
		.by = { .host = "backup-1.example", .pid = 4711,
		    .started = 77 },
	};

	memset(r.array, 0xa1, sizeof(r.array));
	memset(r.owner, 0xb2, sizeof(r.owner));
	memset(r.by.machine, 0xc3, sizeof(r.by.machine));
	memset(r.by.boot, 0xd4, sizeof(r.by.boot));
	return r;
}

static const uint8_t golden_head[168] = {
	'B', 'K', 'O', 'W', 'N', 'E', 'R', '\n', 1, 0, 0, 0, 0, 0, 0, 0,
	0xa1, 0xa1, 0xa1, 0xa1, 0xa1, 0xa1, 0xa1, 0xa1,
	0xa1, 0xa1, 0xa1, 0xa1, 0xa1, 0xa1, 0xa1, 0xa1,
	0xb2, 0xb2, 0xb2, 0xb2, 0xb2, 0xb2, 0xb2, 0xb2,
	0xb2, 0xb2, 0xb2, 0xb2, 0xb2, 0xb2, 0xb2, 0xb2,
	0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3,
	0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3,
	0xd4, 0xd4, 0xd4, 0xd4, 0xd4, 0xd4, 0xd4, 0xd4,
	0xd4, 0xd4, 0xd4, 0xd4, 0xd4, 0xd4, 0xd4, 0xd4,
	8, 7, 6, 5, 4, 3, 2, 1, 77, 0, 0, 0, 0, 0, 0, 0,
	0x67, 0x12, 0, 0, 0x88, 0x13, 0, 0,
	'b', 'a', 'c', 'k', 'u', 'p', '-', '1', '.',
	'e', 'x', 'a', 'm', 'p', 'l', 'e',
};

START_TEST(writes_the_golden_bytes)
{
	static const uint8_t zero[OWNER_SIZE];
	struct owner_rec r = sample();
	uint8_t raw[OWNER_SIZE];

	owner_put(raw, &r);
	ck_assert_mem_eq(raw, golden_head, sizeof(golden_head));
	ck_assert_mem_eq(raw + 168, zero, 3920);
	ck_assert_uint_eq(le64_get(raw + 4088), 0x6a7b131506389c9);
}
END_TEST

START_TEST(reads_back_what_it_wrote)
{
	struct owner_rec r = sample(), got;
	uint8_t raw[OWNER_SIZE], again[OWNER_SIZE];
	struct err e;

	memset(r.by.host, 'h', ARRAY_HOST_MAX);		/* the longest */
	owner_put(raw, &r);
	ck_assert_msg(owner_get(&got, raw, sizeof(raw), &e) == 0, "%s",
	    e.text);
	ck_assert_uint_eq(got.counter, r.counter);
	ck_assert_uint_eq(got.by.pid, r.by.pid);
	ck_assert_str_eq(got.by.host, r.by.host);
	owner_put(again, &got);
	ck_assert_mem_eq(again, raw, sizeof(raw));
}
END_TEST

START_TEST(a_block_of_zeros_or_garbage_is_nobodys)
{
	uint8_t raw[OWNER_SIZE];
	struct owner_rec got;
	struct err e;

	memset(raw, _i ? 0x5a : 0, sizeof(raw));
	ck_assert_int_eq(owner_get(&got, raw, sizeof(raw), &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
}
END_TEST

START_TEST(refuses_any_flipped_bit)
{
	struct owner_rec r = sample(), got = { .counter = 99 };
	uint8_t raw[OWNER_SIZE];
	struct err e;

	owner_put(raw, &r);
	for (size_t bit = 0; bit < 8 * sizeof(raw); bit++) {
		raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_eq(owner_get(&got, raw, sizeof(raw), &e), -1);
		ck_assert(e.code == ERR_CORRUPT ||
		    (bit < 64 && e.code == ERR_NOT_FOUND));
		raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	ck_assert_uint_eq(got.counter, 99);
	ck_assert_int_eq(owner_get(&got, raw, sizeof(raw) - 1, &e), -1);
}
END_TEST

static const struct {
	size_t at;
	uint8_t value;
	enum err_code code;
} wrong[] = {
	{ 8, 2, ERR_VERSION },		/* version */
	{ 12, 1, ERR_VERSION },		/* a flag that must be known */
	{ 103, 1, ERR_CORRUPT },	/* an interval of months */
	{ 105, 0x1b, ERR_CORRUPT },	/* ESC in the name of the host */
	{ 105, 0x80, ERR_CORRUPT },
	{ 130, 'x', ERR_CORRUPT },	/* bytes after the name */
	{ 168, 1, ERR_CORRUPT },	/* reserved */
	{ 4087, 1, ERR_CORRUPT },
};
#define WRONG (int)(sizeof(wrong) / sizeof(wrong[0]))

START_TEST(refuses_fields_out_of_range)
{
	struct owner_rec r = sample(), got;
	uint8_t raw[OWNER_SIZE];
	struct err e;

	owner_put(raw, &r);
	raw[wrong[_i].at] = wrong[_i].value;
	le64_put(raw + 4088, crc64(0, raw, 4088));
	ck_assert_int_eq(owner_get(&got, raw, sizeof(raw), &e), -1);
	ck_assert_msg(e.code == wrong[_i].code, "%s", e.text);
}
END_TEST

START_TEST(refuses_an_owner_or_an_interval_of_zero)
{
	struct owner_rec r = sample(), got;
	uint8_t raw[OWNER_SIZE];
	struct err e;

	owner_put(raw, &r);
	memset(raw + (_i ? 32 : 100), 0, _i ? 16 : 4);
	le64_put(raw + 4088, crc64(0, raw, 4088));
	ck_assert_int_eq(owner_get(&got, raw, sizeof(raw), &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
}
END_TEST

START_TEST(ignores_flags_that_may_be_ignored)
{
	struct owner_rec r = sample(), got;
	uint8_t raw[OWNER_SIZE];
	struct err e;

	owner_put(raw, &r);
	raw[14] = 1;
	le64_put(raw + 4088, crc64(0, raw, 4088));
	ck_assert_int_eq(owner_get(&got, raw, sizeof(raw), &e), 0);
}
END_TEST

Suite *raid_fmt_owner_suite(void);
Suite *raid_fmt_owner_suite(void)
{
	Suite *s = suite_create("raid/fmt_owner");
	TCase *t = tcase_create("format");

	tcase_add_test(t, writes_the_golden_bytes);
	tcase_add_test(t, reads_back_what_it_wrote);
	tcase_add_loop_test(t, a_block_of_zeros_or_garbage_is_nobodys, 0, 2);
	tcase_add_test(t, refuses_any_flipped_bit);
	tcase_add_loop_test(t, refuses_fields_out_of_range, 0, WRONG);
	tcase_add_loop_test(t, refuses_an_owner_or_an_interval_of_zero, 0, 2);
	tcase_add_test(t, ignores_flags_that_may_be_ignored);
	suite_add_tcase(s, t);
	return s;
}
