/*
 * Parity: any p of w strips can be computed again, at every width and p.
 * Method: all geometries up to 16 wide, every set of at most p lost strips;
 * the first parity strip is compared with a plain XOR.
 */
#include "raid/parity.h"

#include "tests/support/dev_sim.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define SIZE (2 * RAID_ROW)

static uint8_t *strips_new(uint8_t **strips)
{
	uint8_t *mem = aligned_alloc(RAID_ROW, SEG_WIDTH_MAX * SIZE);
	uint64_t seed = 5;

	for (size_t i = 0; i < SEG_WIDTH_MAX * SIZE; i += 8) {
		uint64_t v = sim_random(&seed);

		memcpy(mem + i, &v, 8);
	}
	for (size_t i = 0; i < SEG_WIDTH_MAX; i++)
		strips[i] = mem + i * SIZE;
	return mem;
}

static void lose(const struct parity *c, uint8_t **strips, uint32_t set,
    unsigned w)
{
	uint8_t *kept = malloc(SEG_WIDTH_MAX * SIZE);
	bool good[SEG_WIDTH_MAX];
	struct err e;

	for (unsigned i = 0; i < w; i++) {
		good[i] = (set >> i & 1) == 0;
		memcpy(kept + i * SIZE, strips[i], SIZE);
		if (!good[i])
			memset(strips[i], 0xee, SIZE);
	}
	ck_assert_int_eq(parity_decode(c, strips, good, SIZE, &e), 0);
	for (unsigned i = 0; i < w; i++)
		ck_assert_mem_eq(strips[i], kept + i * SIZE, SIZE);
	free(kept);
}

START_TEST(any_p_lost_strips_come_back)
{
	unsigned w = (unsigned)_i / 3 + 1, p = (unsigned)_i % 3;
	uint8_t *strips[SEG_WIDTH_MAX], *mem;
	struct parity c;

	if (p >= w)
		return;
	mem = strips_new(strips);
	parity_init(&c, w - p, p);
	parity_encode(&c, strips, SIZE);
	for (uint32_t set = 0; set < UINT32_C(1) << w; set++)
		if ((unsigned)__builtin_popcount(set) <= p)
			lose(&c, strips, set, w);
	free(mem);
}
END_TEST

START_TEST(the_first_parity_is_the_xor)
{
	uint8_t *strips[SEG_WIDTH_MAX], *mem = strips_new(strips);
	struct parity c;

	parity_init(&c, 5, 2);
	parity_encode(&c, strips, SIZE);
	for (size_t i = 0; i < SIZE; i++)
		ck_assert_uint_eq(strips[5][i], strips[0][i] ^ strips[1][i] ^
		    strips[2][i] ^ strips[3][i] ^ strips[4][i]);
	free(mem);
}
END_TEST

START_TEST(too_few_strips_are_refused)
{
	uint8_t *strips[SEG_WIDTH_MAX], *mem = strips_new(strips);
	bool good[SEG_WIDTH_MAX] = { true, true, false, false, true };
	struct parity c;
	struct err e;

	parity_init(&c, 4, 1);
	ck_assert_int_eq(parity_decode(&c, strips, good, SIZE, &e), -1);
	parity_init(&c, 1, 2);
	memset(good, 0, sizeof(good));
	ck_assert_int_eq(parity_decode(&c, strips, good, SIZE, &e), -1);
	free(mem);
}
END_TEST

Suite *raid_parity_suite(void);
Suite *raid_parity_suite(void)
{
	Suite *s = suite_create("parity");
	TCase *t = tcase_create("codes");

	tcase_add_loop_test(t, any_p_lost_strips_come_back, 0,
	    3 * SEG_WIDTH_MAX);
	tcase_add_test(t, the_first_parity_is_the_xor);
	tcase_add_test(t, too_few_strips_are_refused);
	suite_add_tcase(s, t);
	return s;
}
