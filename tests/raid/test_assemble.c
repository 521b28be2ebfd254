/*
 * From disks to members: any order, any subset, and a clear word about every
 * disk that does not belong.  Method: simulated disks of one or two arrays.
 */
#include "raid/mio.h"
#include "raid/super.h"
#include "tests/raid/log_rig.h"
#include "tests/support/dev_sim.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static struct sim *fresh(unsigned disks)
{
	struct sim *s = sim_new(disks, RIG_DISK);
	struct err e;

	ck_assert_msg(rig_create(s, &e) == 0, "%s", e.text);
	return s;
}

START_TEST(members_are_found_in_any_order)	/* _i: a permutation of 4 */
{
	struct sim *s = fresh(4);
	unsigned order[4] = { 0, 1, 2, 3 };
	int n = _i;
	struct rig r;
	struct err e;

	for (unsigned i = 3; i > 0; n /= (int)(i + 1), i--) {
		unsigned k = (unsigned)n % (i + 1), t = order[i];

		order[i] = order[k];
		order[k] = t;
	}
	ck_assert_msg(rig_open_order(&r, s, order, 4, false, &e) == 0, "%s",
	    e.text);
	for (unsigned i = 0; i < 4; i++) {
		char name[16] = { 's', 'i', 'm', ':', (char)('0' + i), 0 };

		ck_assert_str_eq(r.as->members[i]->path, name);
		ck_assert_int_eq(r.as->members[i]->state, MEMBER_ACTIVE);
		ck_assert_uint_eq(r.as->members[i]->extent_count, 61);
	}
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(a_disk_that_is_not_there_is_missing)
{
	struct sim *s = fresh(3);
	struct rig r;
	struct err e;

	ck_assert_int_eq(rig_open(&r, s, 2, false, &e), 0);
	ck_assert_uint_eq(r.as->member_count, 3);
	ck_assert_int_eq(r.as->members[1]->state, MEMBER_MISSING);
	ck_assert_ptr_null(r.as->members[1]->io);
	ck_assert(!member_readable(r.as->members[1]));
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(a_copy_of_a_member_is_refused_naming_both)
{
	struct sim *s = fresh(2);
	unsigned extra = sim_add(s, RIG_DISK);
	struct rig r;
	struct err e;

	for (unsigned i = 0; i < MEMBER_SLOTS; i++) {
		uint8_t raw[SUPER_SIZE];

		sim_peek(s, 1, member_slot_offset(RIG_DISK, i), raw,
		    sizeof(raw));
		sim_poke(s, extra, member_slot_offset(RIG_DISK, i), raw,
		    sizeof(raw));
	}
	ck_assert_int_eq(rig_open(&r, s, 0, false, &e), -1);
	ck_assert_int_eq(e.code, ERR_CONFLICT);
	ck_assert_ptr_nonnull(strstr(e.text, "sim:1"));
	ck_assert_ptr_nonnull(strstr(e.text, "sim:2"));
	sim_free(s);
}
END_TEST

START_TEST(a_member_of_another_array_is_refused)
{
	struct sim *s = fresh(2), *other = fresh(2);
	struct assembly *as;
	struct dev *devs[3] = { sim_dev(s, 0), sim_dev(s, 1),
		sim_dev(other, 1) };
	struct err e;

	ck_assert_int_eq(assemble(&as, devs, 3, 0, NULL, &e), -1);
	ck_assert_int_eq(e.code, ERR_CONFLICT);
	ck_assert_ptr_nonnull(strstr(e.text, "different arrays"));
	sim_free(s);
	sim_free(other);
}
END_TEST

START_TEST(a_blank_or_garbled_disk_is_told_and_left_out)
{
	struct sim *s = fresh(3);
	struct rig r;
	struct err e;

	if (_i == 0)
		sim_zero(s, 1, 0, RIG_DISK);
	else
		sim_garbage(s, 1, 0, RIG_DISK, 5);
	ck_assert_msg(rig_open(&r, s, 0, true, &e) == 0, "%s", e.text);
	ck_assert_int_eq(r.as->members[1]->state, MEMBER_MISSING);
	ck_assert_uint_eq(warn_count(&r.warn), 1);
	ck_assert_ptr_nonnull(strstr(r.warned, "sim:1"));
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(a_disk_that_shrank_is_left_out)
{
	struct sim *s = fresh(3);
	struct rig r;
	struct err e;

	sim_resize(s, 1, RIG_DISK - 65536);
	ck_assert_int_eq(rig_open(&r, s, 0, true, &e), 0);
	ck_assert_int_eq(r.as->members[1]->state, MEMBER_MISSING);
	ck_assert_ptr_nonnull(strstr(r.warned, "smaller"));
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(a_file_of_a_few_bytes_is_no_member)	/* _i: pages */
{
	struct sim *s = fresh(2);
	unsigned disk = sim_add(s, 4096u * (unsigned)_i);
	struct rig r;
	struct err e;

	ck_assert_msg(rig_open(&r, s, 0, false, &e) == 0, "%s", e.text);
	ck_assert_ptr_nonnull(strstr(r.warned, "too small"));
	rig_drop(&r);
	ck_assert_int_eq(rig_open(&r, s, 3, false, &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	ck_assert_uint_eq(disk, 2);
	sim_free(s);
}
END_TEST

START_TEST(a_disk_that_grew_keeps_its_places)
{
	struct sim *s = fresh(2);
	struct rig r;
	struct err e;

	sim_resize(s, 1, 2 * RIG_DISK);
	for (int round = 0; round < 2; round++) {
		ck_assert_int_eq(rig_open(&r, s, 0, true, &e), 0);
		ck_assert_uint_eq(r.as->members[1]->size, RIG_DISK);
		ck_assert_int_eq(rig_put(&r, (unsigned)round, 10, &e), 0);
		rig_drop(&r);
	}
	ck_assert_int_eq(rig_open(&r, s, 1, false, &e), 0);
	ck_assert_uint_eq(facts_count(r.facts), 2);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(nothing_but_blank_disks_is_an_error)
{
	struct sim *s = sim_new(2, RIG_DISK);
	struct rig r;
	struct err e;

	ck_assert_int_eq(rig_open(&r, s, 0, false, &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	ck_assert_ptr_nonnull(strstr(e.text, "sim:0"));
	ck_assert_int_eq(rig_open(&r, s, 3, false, &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	sim_free(s);
}
END_TEST

START_TEST(a_member_added_later_is_known_through_the_others)
{
	struct sim *s = fresh(2);
	unsigned disk = sim_add(s, RIG_DISK * 2);
	struct member *m;
	struct rig r;
	struct err e;

	ck_assert_int_eq(rig_open(&r, s, 4, true, &e), 0);
	ck_assert_int_eq(assembly_add(r.as, sim_dev(s, disk), &m, &e), 0);
	r.host.member_count = r.as->member_count;
	ck_assert_int_eq(log_join(r.log, 2, &e), 0);
	rig_drop(&r);
	ck_assert_int_eq(rig_open(&r, s, 6, false, &e), 0);	/* disk 0 */
	ck_assert_uint_eq(r.as->member_count, 3);
	ck_assert_uint_eq(r.as->members[2]->size, 2 * RIG_DISK);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(a_device_too_small_is_refused_naming_what_would_fit)
{
	struct sim *s = fresh(2);
	unsigned disk = sim_add(s, 64u << 20);
	struct member *m;
	struct rig r;
	struct err e;

	ck_assert_int_eq(rig_open(&r, s, 4, true, &e), 0);
	ck_assert_int_eq(assembly_add(r.as, sim_dev(s, disk), &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT);
	ck_assert_ptr_nonnull(strstr(e.text, "at least 106 MiB"));
	ck_assert_uint_eq(r.as->member_count, 2);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

Suite *raid_assemble_suite(void);
Suite *raid_assemble_suite(void)
{
	Suite *s = suite_create("raid/assemble");
	TCase *t = tcase_create("assembly");

	tcase_add_loop_test(t, members_are_found_in_any_order, 0, 24);
	tcase_add_test(t, a_disk_that_is_not_there_is_missing);
	tcase_add_test(t, a_copy_of_a_member_is_refused_naming_both);
	tcase_add_test(t, a_member_of_another_array_is_refused);
	tcase_add_loop_test(t, a_blank_or_garbled_disk_is_told_and_left_out,
	    0, 2);
	tcase_add_test(t, a_disk_that_shrank_is_left_out);
	tcase_add_loop_test(t, a_file_of_a_few_bytes_is_no_member, 1, 4);
	tcase_add_test(t, a_disk_that_grew_keeps_its_places);
	tcase_add_test(t, nothing_but_blank_disks_is_an_error);
	tcase_add_test(t, a_member_added_later_is_known_through_the_others);
	tcase_add_test(t,
	    a_device_too_small_is_refused_naming_what_would_fit);
	suite_add_tcase(s, t);
	return s;
}
