/*
 * Strip headers and places: what is written is read back, what is damaged is
 * refused and leaves the output alone.  Method: every bit of a header flipped;
 * fields at and beyond their bounds with the checksum put right; the seed of a
 * payload checksum changed in each of its parts.
 */
#include "raid/fmt_strip.h"

#include "base/hash.h"
#include "base/le.h"

#include <check.h>
#include <string.h>

static struct strip_header sample(void)
{
	struct strip_header h = { .segment = 7, .nonce = 0x1122334455667788,
		.birth = 3, .extent = 9, .row = 65, .fill = 5000, .strip = 1,
		.width = 4, .parity = 1, .units = 2, .class = SEG_META };

	memset(h.array, 0xa1, sizeof(h.array));
	memset(h.member, 0xb2, sizeof(h.member));
	for (unsigned i = 0; i < 4; i++) {
		h.sums[i] = 1000 + i;
		h.peers[i].extent = 20 + i;
		memset(h.peers[i].member, (int)i + 1, RAID_UUID_SIZE);
	}
	return h;
}

START_TEST(reads_back_what_it_wrote)
{
	uint8_t raw[STRIP_HEADER_SIZE], again[STRIP_HEADER_SIZE];
	struct strip_header h = sample(), got;
	struct err e;

	strip_header_put(raw, &h);
	ck_assert_int_eq(strip_header_get(&got, raw, &e), 0);
	ck_assert_uint_eq(got.segment, h.segment);
	ck_assert_uint_eq(got.row, h.row);
	ck_assert_mem_eq(got.sums, h.sums, sizeof(h.sums));
	strip_header_put(again, &got);
	ck_assert_mem_eq(raw, again, sizeof(raw));
}
END_TEST

START_TEST(keeps_its_place_for_each_field)
{
	uint8_t raw[STRIP_HEADER_SIZE];
	struct strip_header h = sample();

	strip_header_put(raw, &h);
	ck_assert_mem_eq(raw, "BKSTRIP\n\1\0\0\0", 12);
	ck_assert_uint_eq(le64_get(raw + 48), 7);
	ck_assert_uint_eq(le32_get(raw + 76), 65);
	ck_assert_uint_eq(raw[84], 1);
	ck_assert_uint_eq(raw[87], 2);
	ck_assert_uint_eq(le64_get(raw + 96 + 8 * 3), 1003);
	ck_assert_uint_eq(le32_get(raw + 224 + 20 * 2 + 16), 22);
	ck_assert_uint_eq(le64_get(raw + 4088), crc64(0, raw, 4088));
}
END_TEST

START_TEST(refuses_any_flipped_bit)
{
	uint8_t raw[STRIP_HEADER_SIZE];
	struct strip_header h = sample(), got = { .segment = 99 };
	struct err e;

	strip_header_put(raw, &h);
	for (size_t bit = 0; bit < sizeof(raw) * 8; bit++) {
		raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_eq(strip_header_get(&got, raw, &e), -1);
		ck_assert_uint_eq(got.segment, 99);
		raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}
END_TEST

static const struct {
	size_t at;
	uint8_t value;
} out_of_bounds[] = {
	{ 12, 1 }, { 84, 4 }, { 85, 0 }, { 85, 17 }, { 86, 4 }, { 86, 3 },
	{ 87, 0 }, { 87, 65 }, { 88, 2 }, { 89, 0 }, { 90, 1 }, { 96 + 33, 1 },
	{ 224 + 81, 1 }, { 600, 1 }, { 83, 1 },
};

START_TEST(refuses_fields_out_of_bounds)
{
	uint8_t raw[STRIP_HEADER_SIZE];
	struct strip_header h = sample(), got;
	struct err e;

	strip_header_put(raw, &h);
	raw[out_of_bounds[_i].at] = out_of_bounds[_i].value;
	le64_put(raw + 4088, crc64(0, raw, 4088));
	ck_assert_int_eq(strip_header_get(&got, raw, &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
}
END_TEST

START_TEST(tells_a_newer_version)
{
	uint8_t raw[STRIP_HEADER_SIZE];
	struct strip_header h = sample(), got;
	struct err e;

	strip_header_put(raw, &h);
	raw[8] = 2;
	le64_put(raw + 4088, crc64(0, raw, 4088));
	ck_assert_int_eq(strip_header_get(&got, raw, &e), -1);
	ck_assert_int_eq(e.code, ERR_VERSION);
}
END_TEST

START_TEST(payload_sums_know_what_a_move_keeps)
{
	static const uint8_t payload[RAID_ROW] = { 1, 2, 3 };
	struct strip_header h = sample(), o = h;
	uint64_t sum = strip_sum(&h, 1, payload, sizeof(payload));

	o.member[0]++;
	o.extent++;
	ck_assert_uint_eq(strip_sum(&o, 1, payload, sizeof(payload)), sum);
	ck_assert_uint_ne(strip_sum(&h, 2, payload, sizeof(payload)), sum);
	o = h;
	o.array[3]++;
	ck_assert_uint_ne(strip_sum(&o, 1, payload, sizeof(payload)), sum);
	o = h;
	o.segment++;
	ck_assert_uint_ne(strip_sum(&o, 1, payload, sizeof(payload)), sum);
	o = h;
	o.nonce++;
	ck_assert_uint_ne(strip_sum(&o, 1, payload, sizeof(payload)), sum);
	o = h;
	o.row++;
	ck_assert_uint_ne(strip_sum(&o, 1, payload, sizeof(payload)), sum);
}
END_TEST

START_TEST(places_are_sixteen_bytes)
{
	struct place p = { .segment = (UINT64_C(1) << 40) - 2, .row = 0xabcdef,
		.offset = 0x123456, .size = 0xfffffe, .last = 64 }, got;
	uint8_t raw[PLACE_SIZE];
	struct err e;

	place_put(raw, &p);
	ck_assert_int_eq(place_get(&got, raw, &e), 0);
	ck_assert_uint_eq(got.segment, p.segment);
	ck_assert_uint_eq(got.row, p.row);
	ck_assert_uint_eq(got.offset, p.offset);
	ck_assert_uint_eq(got.size, p.size);
	ck_assert_uint_eq(got.last, 64);
	raw[14] = 65;
	ck_assert_int_eq(place_get(&got, raw, &e), -1);
	raw[14] = 64;
	raw[15] = 1;
	ck_assert_int_eq(place_get(&got, raw, &e), -1);
}
END_TEST

Suite *raid_fmt_strip_suite(void);
Suite *raid_fmt_strip_suite(void)
{
	Suite *s = suite_create("fmt_strip");
	TCase *t = tcase_create("bytes");

	tcase_add_test(t, reads_back_what_it_wrote);
	tcase_add_test(t, keeps_its_place_for_each_field);
	tcase_add_test(t, refuses_any_flipped_bit);
	tcase_add_loop_test(t, refuses_fields_out_of_bounds, 0,
	    sizeof(out_of_bounds) / sizeof(out_of_bounds[0]));
	tcase_add_test(t, tells_a_newer_version);
	tcase_add_test(t, payload_sums_know_what_a_move_keeps);
	tcase_add_test(t, places_are_sixteen_bytes);
	suite_add_tcase(s, t);
	return s;
}
