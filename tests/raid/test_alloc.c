/*
 * The allocator: extents ascending and never twice; the widest set of members;
 * free space as the choice itself finds it.  Method: small cases by hand, and
 * the report held against choosing one segment after another.
 */
#include "raid/alloc.h"

#include <check.h>
#include <string.h>

static struct alloc_room rooms(const uint32_t *room, size_t count)
{
	struct alloc_room r = { .count = count };

	for (size_t i = 0; i < count; i++) {
		r.room[i] = room[i];
		r.writable[i] = true;
	}
	return r;
}

START_TEST(takes_each_extent_once_in_order)
{
	struct alloc a;
	uint32_t extent;
	struct err e;

	alloc_init(&a);
	ck_assert_int_eq(alloc_add(&a, 3, 100, &e), 0);
	ck_assert(alloc_mark(&a, 3, 5));
	ck_assert(!alloc_mark(&a, 3, 5));
	ck_assert(!alloc_mark(&a, 3, 100));
	for (uint32_t i = 0; i < 99; i++) {
		ck_assert(alloc_take(&a, 3, &extent));
		ck_assert_uint_eq(extent, i < 5 ? i : i + 1);
	}
	ck_assert(!alloc_take(&a, 3, &extent));
	alloc_give(&a, 3, 17);
	alloc_give(&a, 3, 17);
	alloc_give(&a, 3, 1000);
	ck_assert_uint_eq(alloc_free(&a, 3), 1);
	ck_assert(alloc_take(&a, 3, &extent));
	ck_assert_uint_eq(extent, 17);
	alloc_release(&a);
}
END_TEST

START_TEST(chooses_the_widest_set)
{
	static const uint32_t room[] = { 3, 0, 9, 5 };
	struct alloc_room r = rooms(room, 4);
	struct alloc_choice c;

	ck_assert(alloc_choose(&r, 1, SEG_DATA, &c));
	ck_assert_uint_eq(c.width, 3);
	ck_assert_uint_eq(c.parity, 1);
	ck_assert_uint_eq(c.member[0], 2);
	ck_assert_uint_eq(c.member[1], 3);
	ck_assert_uint_eq(c.member[2], 0);
	ck_assert(alloc_choose(&r, 1, SEG_META, &c));
	ck_assert_uint_eq(c.parity, 2);
	ck_assert(alloc_choose(&r, 2, SEG_META, &c));
	ck_assert_uint_eq(c.parity, 2);
}
END_TEST

START_TEST(a_full_array_is_full_and_not_narrower)
{
	static const uint32_t room[] = { 9, 0, 0 };
	struct alloc_room r = rooms(room, 3);
	struct alloc_choice c;

	ck_assert(!alloc_choose(&r, 1, SEG_DATA, &c));
	/* With the others away it is narrower, and reduced. */
	r.writable[1] = r.writable[2] = false;
	ck_assert(alloc_choose(&r, 1, SEG_DATA, &c));
	ck_assert_uint_eq(c.width, 1);
	ck_assert_uint_eq(c.parity, 0);
	r.writable[0] = false;
	ck_assert(!alloc_choose(&r, 1, SEG_DATA, &c));
}
END_TEST

START_TEST(is_at_most_sixteen_wide)
{
	struct alloc_room r = { .count = 40 };
	struct alloc_choice c;

	for (size_t i = 0; i < 40; i++) {
		r.room[i] = 100 + (uint32_t)i;
		r.writable[i] = true;
	}
	ck_assert(alloc_choose(&r, 2, SEG_DATA, &c));
	ck_assert_uint_eq(c.width, 16);
	for (size_t i = 0; i < 16; i++)
		ck_assert_uint_eq(c.member[i], 39 - i);
}
END_TEST

static const struct {
	uint32_t room[6];
	size_t count;
	unsigned parity;
	uint64_t extents;	/* of data, in all */
} mixes[] = {
	{ { 2, 2, 4, 4 }, 4, 1, 8 },
	{ { 4, 8, 8, 12 }, 4, 1, 20 },
	{ { 1, 2, 3, 10 }, 4, 1, 6 },
	{ { 4, 4, 8, 8, 16, 16 }, 6, 1, 40 },
	{ { 4, 4, 8, 8, 16, 16 }, 6, 2, 24 },
	{ { 7, 7, 7 }, 3, 0, 21 },
};

START_TEST(reports_what_the_choice_gives)
{
	struct alloc_room r = rooms(mixes[_i].room, mixes[_i].count), copy = r;
	uint64_t one = alloc_strip_room(512, 0), extents = 0;
	struct alloc_choice c;

	while (alloc_choose(&copy, mixes[_i].parity, SEG_DATA, &c)) {
		extents += (unsigned)c.width - c.parity;
		for (size_t i = 0; i < c.width; i++)
			copy.room[c.member[i]]--;
	}
	ck_assert_uint_eq(alloc_free_bytes(&r, mixes[_i].parity, 512),
	    extents * one);
	ck_assert_uint_eq(extents, mixes[_i].extents);
}
END_TEST

START_TEST(an_extent_holds_full_strips_and_a_shorter_one)
{
	ck_assert_uint_eq(alloc_strip_room(512, 0),
	    (7 * 64 + 56) * UINT64_C(4096));
	ck_assert_uint_eq(alloc_strip_room(512, 512 - 65),
	    64 * UINT64_C(4096));
	ck_assert_uint_eq(alloc_strip_room(512, 510), UINT64_C(4096));
	ck_assert_uint_eq(alloc_strip_room(512, 511), 0);
	ck_assert_uint_eq(alloc_strip_room(512, 600), 0);
}
END_TEST

Suite *raid_alloc_suite(void);
Suite *raid_alloc_suite(void)
{
	Suite *s = suite_create("alloc");
	TCase *t = tcase_create("choice");

	tcase_add_test(t, takes_each_extent_once_in_order);
	tcase_add_test(t, chooses_the_widest_set);
	tcase_add_test(t, a_full_array_is_full_and_not_narrower);
	tcase_add_test(t, is_at_most_sixteen_wide);
	tcase_add_loop_test(t, reports_what_the_choice_gives, 0,
	    sizeof(mixes) / sizeof(mixes[0]));
	tcase_add_test(t, an_extent_holds_full_strips_and_a_shorter_one);
	suite_add_tcase(s, t);
	return s;
}
