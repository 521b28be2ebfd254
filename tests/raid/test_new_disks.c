/*
 * A disk that is offered as a new member: one that holds something is refused,
 * named and left as it is until that very thing may be wiped; one that is too
 * small is refused before a byte is written, with the size that would do; other
 * sizes are taken, and no number goes below zero.  Method: arrays of all
 * geometries on simulated disks, compared byte by byte.
 */
#include "raid/fmt_super.h"
#include "tests/raid/bed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

/* Of bed_shapes, all but (4,1). */
#define SHAPES 5
static int shape(int i)
{
	return i < 2 ? i : i + 1;
}

/* ---- foreign disks offered -------------------------------------------- */

/* A swap area: the smallest signature with a name. */
static void make_swap(struct sim *s, unsigned disk)
{
	uint8_t page[4096] = { 0 };

	page[1024] = 1;			/* version */
	page[1029] = 1;			/* last page: 256 */
	memset(page + 1036, 0x3c, 16);	/* UUID */
	memcpy(page + 4086, "SWAPSPACE2", 10);
	sim_poke(s, disk, 0, page, sizeof(page));
}
#define SWAP_UUID "3c3c3c3c-3c3c-3c3c-3c3c-3c3c3c3c3c3c"

START_TEST(a_used_disk_as_replacement_is_refused_and_kept)
{
	struct bed *r = bed_new_shape(shape(_i));
	unsigned new = sim_add(r->sim, BED_DISK);
	struct sim *before;
	struct err e;

	bed_fill(r, 1, 6, 100000);
	make_swap(r->sim, new);
	before = sim_clone(r->sim);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(array_replace_begin(r->a, "sim:0",
		    sim_dev(r->sim, new), i ? "ext4" : NULL, &e), -1);
		ck_assert_int_eq(e.code, ERR_EXISTS);
		ck_assert_ptr_nonnull(strstr(e.text, "swap"));
		ck_assert_ptr_nonnull(strstr(e.text, "--wipe=" SWAP_UUID));
	}
	ck_assert(sim_same_all(before, r->sim, NULL, NULL));
	OK(array_replace_begin(r->a, "sim:0", sim_dev(r->sim, new), SWAP_UUID,
	    E));
	bed_mend(r);
	bed_close(r);
	OK(bed_open(r, 1, false, E));	/* without the old one */
	bed_check(r);
	ck_assert_uint_eq(bed_scan(r, false, NULL).strips_absent, 0);
	sim_free(before);
	bed_free(r);
}
END_TEST

static int create_on(struct sim *s, const char *wipe, struct err *e)
{
	struct array_create c = { .parity = 1, .wipe = wipe,
		.extent_size = 2 * MIB };
	int rc;

	c.devs = sim_devs(s, 0, &c.dev_count);
	rc = array_create(&c, e);
	free(c.devs);
	return rc;
}

START_TEST(a_new_array_takes_no_members_of_another)	/* _i: torn slots */
{
	struct bed *r = bed_new(4, 1, BED_DISK);
	struct sim *before;
	struct err e;

	bed_fill(r, 1, 6, 100000);
	bed_close(r);
	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 0; k < (unsigned)_i; k++)
			sim_zero(r->sim, i, member_slot_offset(BED_DISK, k),
			    SUPER_SIZE);
	before = sim_clone(r->sim);
	ck_assert_int_eq(create_on(r->sim, NULL, &e), -1);
	ck_assert_int_eq(e.code, ERR_EXISTS);
	ck_assert_ptr_nonnull(strstr(e.text, "bk"));
	ck_assert_int_eq(create_on(r->sim, "swap", &e), -1);
	ck_assert_int_eq(e.code, ERR_EXISTS);
	ck_assert(sim_same_all(before, r->sim, NULL, NULL));
	OK(bed_open(r, 0, false, E));
	bed_check(r);
	sim_free(before);
	bed_free(r);
}
END_TEST

START_TEST(one_used_disk_among_blank_ones_leaves_all_untouched)
{
	struct sim *s = sim_new(3, BED_DISK), *before;
	struct err e;

	make_swap(s, 2);	/* the last to be looked at */
	before = sim_clone(s);
	ck_assert_int_eq(create_on(s, NULL, &e), -1);
	ck_assert_int_eq(e.code, ERR_EXISTS);
	ck_assert_ptr_nonnull(strstr(e.text, "sim:2"));
	ck_assert(sim_same_all(before, s, NULL, NULL));
	OK(create_on(s, "swap", E));
	sim_free(before);
	sim_free(s);
}
END_TEST

/* ---- replacements of other sizes -------------------------------------- */

/* What is reported stays within what there is. */
static void sizes_are_sane(struct bed *r)
{
	struct member_info m[RAID_MEMBERS_MAX];
	size_t count = array_members(r->a, m, RAID_MEMBERS_MAX);
	struct array_info info;
	uint64_t all = 0;

	for (size_t i = 0; i < count; i++) {
		ck_assert_uint_le(m[i].used_bytes, m[i].size);
		ck_assert_uint_le(m[i].free_bytes, m[i].size);
		ck_assert_uint_le(m[i].used_bytes + m[i].free_bytes,
		    m[i].size);
		all += m[i].size;
	}
	array_info(r->a, &info);
	ck_assert_uint_le(info.free_bytes, all);
	ck_assert_uint_le(info.used_bytes + info.free_bytes, all);
}

/* _i: shape.  A little smaller, larger, and back again. */
START_TEST(a_member_is_replaced_by_other_sizes_and_back)
{
	static const int64_t more[] = { -100 * 1024, 44 << 20, 0 };
	struct bed *r = bed_new_shape(shape(_i));
	unsigned old = 0;

	for (size_t i = 0; i < 3; i++) {
		uint64_t size = (uint64_t)((int64_t)BED_DISK + more[i]) /
		    4096 * 4096;
		unsigned new = sim_add(r->sim, size);
		char name[16];

		bed_fill(r, 1, 6, 100000);
		snprintf(name, sizeof(name), "sim:%u", old);
		OK(array_replace_begin(r->a, name, sim_dev(r->sim, new), NULL,
		    E));
		sizes_are_sane(r);
		bed_mend(r);
		sizes_are_sane(r);
		old = new;
	}
	bed_reopen(r, 7 & ~(UINT64_C(6)));	/* not the first one */
	sizes_are_sane(r);
	bed_check(r);
	bed_free(r);
}
END_TEST

static uint64_t number_before(const char *text, const char *words)
{
	const char *p = strstr(text, words);

	ck_assert_msg(p != NULL, "%s", text);
	while (p > text && p[-1] == ' ')
		p--;
	while (p > text && p[-1] >= '0' && p[-1] <= '9')
		p--;
	return strtoull(p, NULL, 10);
}

START_TEST(a_replacement_that_cannot_hold_it_is_refused_before_a_byte)
{
	const struct bed_shape *of = &bed_shapes[shape(_i)];
	struct bed *r = bed_new(of->disks, of->parity, 2 * BED_DISK);
	unsigned new = sim_add(r->sim, BED_DISK);
	uint64_t needed;
	struct sim *before;
	struct err e;

	for (int i = 0; i < 200; i++) {
		struct member_info m[RAID_MEMBERS_MAX];

		array_members(r->a, m, RAID_MEMBERS_MAX);
		if (m[0].used_bytes > BED_DISK - (10 << 20))
			break;
		bed_fill(r, 1, 4, RAID_FRAME_MAX);
	}
	before = sim_clone(r->sim);
	ck_assert_int_eq(array_replace_begin(r->a, "sim:0",
	    sim_dev(r->sim, new), NULL, &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT);
	needed = number_before(e.text, " bytes are needed");
	ck_assert_uint_eq(number_before(e.text, " found"), BED_DISK);
	ck_assert_uint_gt(needed, BED_DISK);
	ck_assert(sim_same_all(before, r->sim, NULL, NULL));
	sizes_are_sane(r);
	/* What it says is true. */
	new = sim_add(r->sim, needed / 4096 * 4096 + (8 << 20));
	OK(array_replace_begin(r->a, "sim:0", sim_dev(r->sim, new), NULL, E));
	bed_mend(r);
	sizes_are_sane(r);
	bed_check(r);
	sim_free(before);
	bed_free(r);
}
END_TEST

Suite *raid_new_disks_suite(void);
Suite *raid_new_disks_suite(void)
{
	Suite *s = suite_create("raid/new_disks");
	TCase *t = tcase_create("used disks");

	tcase_add_loop_test(t, a_used_disk_as_replacement_is_refused_and_kept,
	    0, SHAPES);
	tcase_add_loop_test(t, a_new_array_takes_no_members_of_another, 0,
	    MEMBER_SLOTS);
	tcase_add_test(t,
	    one_used_disk_among_blank_ones_leaves_all_untouched);
	suite_add_tcase(s, t);
	t = tcase_create("sizes");
	tcase_add_loop_test(t, a_member_is_replaced_by_other_sizes_and_back,
	    0, SHAPES);
	tcase_add_loop_test(t,
	    a_replacement_that_cannot_hold_it_is_refused_before_a_byte, 0,
	    SHAPES);
	suite_add_tcase(s, t);
	return s;
}
