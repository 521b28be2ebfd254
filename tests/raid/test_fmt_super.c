/*
 * The superblock: what is written is read back; what is damaged is refused and
 * leaves the output alone.  Method: golden bytes, every bit of a good one
 * flipped, every field out of range with a right checksum.
 */
#include "base/hash.h"
#include "base/le.h"
#include "raid/fmt_super.h"
#include "raid/log.h"

#include <check.h>
#include <string.h>

static struct super sample(void)
{
	struct super s = {
		.index = 1, .count = 2, .slot = 3, .parity = 1,
		.write_seq = 0x0102030405060708, .event = 9,
		.extent_size = 2u << 20, .generation = 5,
		.created_s = 1714720500,
	};

	memset(s.array, 0xa1, sizeof(s.array));
	for (size_t i = 0; i < 2; i++) {
		struct super_entry *p = &s.table[i];

		memset(p->uuid, (int)(0xb0 + i), sizeof(p->uuid));
		p->size = 128u << 20;
		p->extent_count = 60;
		p->root = i == 0 ? 7 : LOG_NO_EXTENT;
		p->state = i == 0 ? MEMBER_REPLACING : MEMBER_ACTIVE;
	}
	memset(s.table[0].replaced_by, 0xb1, 16);
	memcpy(s.member, s.table[1].uuid, sizeof(s.member));
	return s;
}

static const uint8_t golden_head[96] = {
	'B', 'K', 'A', 'R', 'R', 'A', 'Y', '\n', 1, 0, 0, 0, 0, 0, 0, 0,
	0xa1, 0xa1, 0xa1, 0xa1, 0xa1, 0xa1, 0xa1, 0xa1,
	0xa1, 0xa1, 0xa1, 0xa1, 0xa1, 0xa1, 0xa1, 0xa1,
	0xb1, 0xb1, 0xb1, 0xb1, 0xb1, 0xb1, 0xb1, 0xb1,
	0xb1, 0xb1, 0xb1, 0xb1, 0xb1, 0xb1, 0xb1, 0xb1,
	1, 0, 2, 0, 3, 1, 0, 0, 8, 7, 6, 5, 4, 3, 2, 1,
	9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0,
	5, 0, 0, 0, 0, 0, 0, 0, 0xf4, 0x8e, 0x34, 0x66, 0, 0, 0, 0,
};

static const uint8_t golden_entry[64] = {
	0xb0, 0xb0, 0xb0, 0xb0, 0xb0, 0xb0, 0xb0, 0xb0,
	0xb0, 0xb0, 0xb0, 0xb0, 0xb0, 0xb0, 0xb0, 0xb0,
	0xb1, 0xb1, 0xb1, 0xb1, 0xb1, 0xb1, 0xb1, 0xb1,
	0xb1, 0xb1, 0xb1, 0xb1, 0xb1, 0xb1, 0xb1, 0xb1,
	0, 0, 0, 8, 0, 0, 0, 0, 60, 0, 0, 0, 7, 0, 0, 0, 4,
};

START_TEST(writes_the_golden_bytes)
{
	static const uint8_t zero[SUPER_SIZE];
	struct super s = sample();
	uint8_t raw[SUPER_SIZE];

	super_put(raw, &s);
	ck_assert_mem_eq(raw, golden_head, sizeof(golden_head));
	ck_assert_mem_eq(raw + 96, zero, 160);
	ck_assert_mem_eq(raw + 256, golden_entry, sizeof(golden_entry));
	ck_assert_mem_eq(raw + 256 + 128, zero, 8184 - 384);
	ck_assert_uint_eq(le64_get(raw + 8184), 0xe58ad484803235e9);
}
END_TEST

START_TEST(reads_back_what_it_wrote)
{
	struct super s = sample(), got;
	uint8_t raw[SUPER_SIZE], again[SUPER_SIZE];
	struct err e;

	super_put(raw, &s);
	ck_assert_msg(super_get(&got, raw, sizeof(raw), &e) == 0, "%s",
	    e.text);
	ck_assert_uint_eq(got.write_seq, s.write_seq);
	ck_assert_uint_eq(got.table[0].state, MEMBER_REPLACING);
	ck_assert_uint_eq(got.table[1].root, LOG_NO_EXTENT);
	super_put(again, &got);
	ck_assert_mem_eq(again, raw, sizeof(raw));
}
END_TEST

START_TEST(refuses_any_flipped_bit)
{
	struct super s = sample(), got = { .event = 99 };
	uint8_t raw[SUPER_SIZE];
	struct err e;

	super_put(raw, &s);
	for (size_t bit = 0; bit < 8 * sizeof(raw); bit++) {
		raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_eq(super_get(&got, raw, sizeof(raw), &e), -1);
		ck_assert(e.code == ERR_CORRUPT ||
		    (bit < 64 && e.code == ERR_NOT_FOUND));
		raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	ck_assert_uint_eq(got.event, 99);
	ck_assert_int_eq(super_get(&got, raw, sizeof(raw) - 1, &e), -1);
}
END_TEST

static const struct {
	size_t at;
	uint8_t value;
	enum err_code code;
} wrong[] = {
	{ 8, 2, ERR_VERSION },		/* version */
	{ 12, 1, ERR_VERSION },		/* a flag that must be known */
	{ 48, 2, ERR_CORRUPT },		/* index beyond the table */
	{ 50, 0, ERR_CORRUPT },		/* no members */
	{ 50, 65, ERR_CORRUPT },	/* too many */
	{ 52, 4, ERR_CORRUPT },		/* slot */
	{ 53, 3, ERR_CORRUPT },		/* parity */
	{ 72, 1, ERR_CORRUPT },		/* extent size: no power of two */
	{ 75, 0xff, ERR_CORRUPT },	/* too large */
	{ 100, 1, ERR_CORRUPT },	/* reserved */
	{ 256 + 43, 1, ERR_CORRUPT },	/* more extents than bytes */
	{ 256 + 44, 60, ERR_CORRUPT },	/* root beyond the extents */
	{ 256 + 48, 0, ERR_CORRUPT },	/* state */
	{ 256 + 48, 6, ERR_CORRUPT },
	{ 256 + 50, 1, ERR_CORRUPT },	/* reserved in an entry */
	{ 256 + 64, 1, ERR_CORRUPT },	/* not in its own table */
	{ 8000, 1, ERR_CORRUPT },	/* reserved */
};
#define WRONG (int)(sizeof(wrong) / sizeof(wrong[0]))

START_TEST(refuses_fields_out_of_range)
{
	struct super s = sample(), got;
	uint8_t raw[SUPER_SIZE];
	struct err e;

	super_put(raw, &s);
	raw[wrong[_i].at] = wrong[_i].value;
	le64_put(raw + 8184, crc64(0, raw, 8184));
	ck_assert_int_eq(super_get(&got, raw, sizeof(raw), &e), -1);
	ck_assert_msg(e.code == wrong[_i].code, "%s", e.text);
}
END_TEST

START_TEST(ignores_flags_that_may_be_ignored)
{
	struct super s = sample(), got;
	uint8_t raw[SUPER_SIZE];
	struct err e;

	super_put(raw, &s);
	raw[14] = 1;
	le64_put(raw + 8184, crc64(0, raw, 8184));
	ck_assert_int_eq(super_get(&got, raw, sizeof(raw), &e), 0);
}
END_TEST

Suite *raid_fmt_super_suite(void);
Suite *raid_fmt_super_suite(void)
{
	Suite *s = suite_create("raid/fmt_super");
	TCase *t = tcase_create("format");

	tcase_add_test(t, writes_the_golden_bytes);
	tcase_add_test(t, reads_back_what_it_wrote);
	tcase_add_test(t, refuses_any_flipped_bit);
	tcase_add_loop_test(t, refuses_fields_out_of_range, 0, WRONG);
	tcase_add_test(t, ignores_flags_that_may_be_ignored);
	suite_add_tcase(s, t);
	return s;
}
