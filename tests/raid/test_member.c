/*
 * Where things lie on a member.  Method: for many sizes and extent sizes,
 * nothing overlaps anything else, and the first and last MiB stay untouched.
 */
#include "raid/fmt_super.h"
#include "raid/member.h"

#include <check.h>

#define MIB (UINT64_C(1) << 20)

static const uint64_t sizes[] = {
	16 * MIB, 16 * MIB + 4096, 100 * MIB, 128 * MIB,
	128 * MIB + 65536 - 4096, 777 * MIB + 12288, 4096 * MIB + 8192,
	(UINT64_C(20) << 40) / 512 * 511 / 4096 * 4096,
};
#define SIZES (int)(sizeof(sizes) / sizeof(sizes[0]))

static bool apart(uint64_t a, uint64_t a_size, uint64_t b, uint64_t b_size)
{
	return a + a_size <= b || b + b_size <= a;
}

static void check_layout(uint64_t size, uint64_t x)
{
	uint64_t count = member_extents_in(size, x);
	struct member m = { .size = size, .extent_size = x };
	uint64_t end = MIB;
	uint64_t step = count > 5000 ? count / 5000 : 1;

	for (uint64_t i = 0; i < count; i += i + 2 * step < count ? step : 1) {
		uint64_t at = member_extent_offset(&m, (uint32_t)i);

		ck_assert_uint_ge(at, end);
		ck_assert_uint_eq(at % RAID_ROW, 0);
		end = at + x;
		ck_assert_uint_le(end, size - 2 * MIB);
		for (unsigned k = 0; k < MEMBER_SLOTS; k++)
			ck_assert(apart(at, x, member_slot_offset(size, k),
			    SUPER_SIZE));
	}
	/* No more than one extent and the grain of 64 KiB is lost at each
	 * side of the middle. */
	ck_assert_uint_ge(count * x + 2 * x + 5 * MIB, size);
}

START_TEST(nothing_overlaps)
{
	for (uint64_t x = RAID_EXTENT_MIN; x <= RAID_EXTENT_MAX; x *= 2)
		check_layout(sizes[_i], x);
	for (unsigned a = 0; a < MEMBER_SLOTS; a++) {
		uint64_t at = member_slot_offset(sizes[_i], a);

		ck_assert_uint_ge(at, MIB);
		ck_assert_uint_le(at + SUPER_SIZE, sizes[_i] - MIB);
		for (unsigned b = 0; b < a; b++)
			ck_assert(apart(at, SUPER_SIZE,
			    member_slot_offset(sizes[_i], b), SUPER_SIZE));
	}
}
END_TEST

START_TEST(a_small_member_has_enough_extents)
{
	ck_assert_uint_ge(member_extents_in(128 * MIB, RAID_EXTENT_MIN),
	    RAID_EXTENTS_MIN);
	ck_assert_uint_eq(member_extents_in(8 * MIB, RAID_EXTENT_MIN), 0);
}
END_TEST

START_TEST(the_places_are_the_format)	/* golden numbers */
{
	struct member m = { .size = 128 * MIB, .extent_size = 2 * MIB };

	ck_assert_uint_eq(member_slot_offset(m.size, 0), 0x100000);
	ck_assert_uint_eq(member_slot_offset(m.size, 1), 0x110000);
	ck_assert_uint_eq(member_slot_offset(m.size, 2), 0x4000000);
	ck_assert_uint_eq(member_slot_offset(m.size, 3), 0x7e00000);
	ck_assert_uint_eq(member_extents_in(m.size, m.extent_size), 61);
	ck_assert_uint_eq(member_extent_offset(&m, 0), 0x200000);
	ck_assert_uint_eq(member_extent_offset(&m, 30), 0x3e00000);
	ck_assert_uint_eq(member_extent_offset(&m, 31), 0x4010000);
}
END_TEST

Suite *raid_member_suite(void);
Suite *raid_member_suite(void)
{
	Suite *s = suite_create("raid/member");
	TCase *t = tcase_create("layout");

	tcase_add_loop_test(t, nothing_overlaps, 0, SIZES);
	tcase_add_test(t, a_small_member_has_enough_extents);
	tcase_add_test(t, the_places_are_the_format);
	suite_add_tcase(s, t);
	return s;
}
