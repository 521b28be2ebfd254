/*
 * Proves base/codec.h: what is packed comes back, what does not shrink is
 * stored as it is, and no claimed size or hostile byte steps out of bounds.
 */
#include "base/codec.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

Suite *base_codec_suite(void);

#define SIZE 100000

static uint8_t plain[SIZE], back[SIZE + 1];
static uint8_t *packed;

static void setup(void)
{
	for (size_t i = 0; i < SIZE; i++)
		plain[i] = (uint8_t)((size_t)"the quick brown fox "[i % 20] +
		    (i / 5000) % 3);
	packed = malloc(codec_bound(SIZE));
}

static void teardown(void)
{
	free(packed);
}

static const enum codec codecs[] = { CODEC_LZ4, CODEC_ZSTD };

START_TEST(packed_data_come_back)	/* loop test: _i is the codec */
{
	enum codec used;
	size_t size;
	struct err e;

	ck_assert_int_eq(codec_pack(codecs[_i], 3, plain, SIZE, packed, &size,
	    &used, &e), 0);
	ck_assert_int_eq(used, codecs[_i]);
	ck_assert_uint_lt(size, SIZE / 10);
	ck_assert_int_eq(codec_unpack(used, packed, size, back, SIZE, &e), 0);
	ck_assert_mem_eq(back, plain, SIZE);
}
END_TEST

START_TEST(a_lying_plain_size_is_corrupt)
{
	enum codec used;
	size_t size;
	struct err e;

	ck_assert_int_eq(codec_pack(codecs[_i], 1, plain, SIZE, packed, &size,
	    &used, &e), 0);
	ck_assert_int_eq(codec_unpack(used, packed, size, back, SIZE - 1, &e),
	    -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	ck_assert_int_eq(codec_unpack(used, packed, size, back, SIZE + 1, &e),
	    -1);
	ck_assert_int_eq(codec_unpack(used, packed, size, back, 0, &e), -1);
	ck_assert_int_eq(codec_unpack(used, packed, size - 1, back, SIZE, &e),
	    -1);
	ck_assert_int_eq(codec_unpack(used, packed, 0, back, SIZE, &e), -1);
}
END_TEST

START_TEST(flipped_bits_never_step_out_of_bounds)
{
	uint8_t *exact, *room = malloc(2000);
	enum codec used;
	size_t size;
	struct err e;

	ck_assert_int_eq(codec_pack(codecs[_i], 1, plain, 2000, packed, &size,
	    &used, &e), 0);
	exact = malloc(size);	/* so that sanitizers see one byte beyond */
	for (size_t bit = 0; bit < size * 8; bit++) {
		memcpy(exact, packed, size);
		exact[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (codec_unpack(used, exact, size, room, 2000, &e) != 0)
			ck_assert_int_eq(e.code, ERR_CORRUPT);
	}
	free(exact);
	free(room);
}
END_TEST

START_TEST(noise_is_stored_as_it_is)
{
	uint32_t x = 1;
	enum codec used;
	size_t size;
	struct err e;

	for (size_t i = 0; i < SIZE; i++) {
		x = x * 1664525 + 1013904223;
		plain[i] = (uint8_t)(x >> 24);
	}
	ck_assert_int_eq(codec_pack(codecs[_i], 1, plain, SIZE, packed, &size,
	    &used, &e), 0);
	ck_assert_int_eq(used, CODEC_RAW);
	ck_assert_uint_eq(size, SIZE);
	ck_assert_int_eq(codec_unpack(used, packed, size, back, SIZE, &e), 0);
	ck_assert_mem_eq(back, plain, SIZE);
}
END_TEST

START_TEST(empty_and_tiny_blocks_work)
{
	enum codec used;
	size_t size;
	struct err e;

	for (size_t n = 0; n < 40; n++) {
		ck_assert_int_eq(codec_pack(codecs[_i], 19, plain, n, packed,
		    &size, &used, &e), 0);
		ck_assert_uint_le(size, codec_bound(n));
		ck_assert_int_eq(codec_unpack(used, packed, size, back, n,
		    &e), 0);
		ck_assert_mem_eq(back, plain, n);
	}
}
END_TEST

START_TEST(raw_must_have_its_exact_size)
{
	struct err e;

	ck_assert_int_eq(codec_unpack(CODEC_RAW, plain, 10, back, 11, &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	ck_assert_int_eq(codec_unpack((enum codec)3, plain, 10, back, 10, &e),
	    -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	ck_assert(codec_known(0) && codec_known(1) && codec_known(2));
	ck_assert(!codec_known(3) && !codec_known(4) && !codec_known(255));
}
END_TEST

Suite *base_codec_suite(void)
{
	Suite *s = suite_create("codec");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t, packed_data_come_back, 0, 2);
	tcase_add_loop_test(t, a_lying_plain_size_is_corrupt, 0, 2);
	tcase_add_loop_test(t, flipped_bits_never_step_out_of_bounds, 0, 2);
	tcase_add_loop_test(t, noise_is_stored_as_it_is, 0, 2);
	tcase_add_loop_test(t, empty_and_tiny_blocks_work, 0, 2);
	tcase_add_test(t, raw_must_have_its_exact_size);
	suite_add_tcase(s, t);
	return s;
}
