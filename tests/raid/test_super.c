/*
 * Superblocks on members: a torn or lost write never leaves a member without a
 * good one (S1), and a lone newer slot does not win (S2).  Method: the power
 * cut driver over one write of all superblocks; damage at each slot.
 */
#include "raid/mio.h"
#include "raid/super.h"
#include "tests/raid/log_rig.h"
#include "tests/support/crash.h"
#include "tests/support/dev_sim.h"

#include <check.h>
#include <string.h>

static struct sim *fresh(unsigned disks)
{
	struct sim *s = sim_new(disks, RIG_DISK);
	struct err e;

	ck_assert_msg(rig_create(s, &e) == 0, "%s", e.text);
	return s;
}

static struct super_slots slots_of(struct sim *s, unsigned disk)
{
	struct super_slots slots;
	struct mio *m;
	struct err e;

	ck_assert_int_eq(mio_new(&m, sim_dev(s, disk), 0, &e), 0);
	ck_assert_int_eq(super_read(&slots, m, &e), 0);
	mio_free(m);
	return slots;
}

START_TEST(a_new_array_has_four_good_slots_on_each_member)
{
	struct sim *s = fresh(3);

	for (unsigned d = 0; d < 3; d++) {
		struct super_slots x = slots_of(s, d);

		for (unsigned i = 0; i < MEMBER_SLOTS; i++) {
			ck_assert(x.good[i]);
			ck_assert_uint_eq(x.slot[i].slot, i);
			ck_assert_uint_eq(x.slot[i].index, d);
			ck_assert_uint_eq(x.slot[i].count, 3);
		}
	}
	sim_free(s);
}
END_TEST

START_TEST(any_slot_alone_is_enough)
{
	struct sim *s = fresh(2);
	struct rig r;
	struct err e;

	for (unsigned i = 0; i < MEMBER_SLOTS; i++)
		if (i != (unsigned)_i)
			sim_garbage(s, 0, member_slot_offset(RIG_DISK, i),
			    SUPER_SIZE, 7);
	ck_assert_msg(rig_open(&r, s, 2, true, &e) == 0, "%s", e.text);
	rig_drop(&r);
	/* And opening for writing has made all of them good again. */
	for (unsigned i = 0; i < MEMBER_SLOTS; i++)
		ck_assert(slots_of(s, 0).good[i]);
	sim_free(s);
}
END_TEST

START_TEST(a_lone_newer_slot_does_not_win)	/* S2 */
{
	struct sim *s = fresh(2);
	struct super_slots x = slots_of(s, 0);
	struct super forged = x.slot[_i];
	uint8_t raw[SUPER_SIZE];

	forged.write_seq += 100;
	forged.slot = (uint8_t)_i;
	super_put(raw, &forged);
	sim_poke(s, 0, member_slot_offset(RIG_DISK, (unsigned)_i), raw,
	    sizeof(raw));
	x = slots_of(s, 0);
	ck_assert(x.good[_i]);
	ck_assert_int_ne(super_best(&x), _i);
	ck_assert_int_ge(super_best(&x), 0);
	sim_free(s);
}
END_TEST

START_TEST(a_slot_in_the_place_of_another_is_not_good)
{
	struct sim *s = fresh(2);
	uint8_t raw[SUPER_SIZE];
	struct super_slots x;

	sim_peek(s, 0, member_slot_offset(RIG_DISK, 2), raw, sizeof(raw));
	sim_poke(s, 0, member_slot_offset(RIG_DISK, 1), raw, sizeof(raw));
	x = slots_of(s, 0);
	ck_assert(!x.good[1]);
	ck_assert(x.good[2]);
	ck_assert_int_eq(x.why.code, ERR_CORRUPT);
	sim_free(s);
}
END_TEST

/* S1, for every member: the old or the new one is found, nothing else. */
static int check_old_or_new(void *arg, struct sim *s, uint64_t note,
    struct err *e)
{
	const uint64_t *old = arg;

	for (unsigned d = 0; d < sim_disks(s); d++) {
		struct super_slots x = slots_of(s, d);
		int best = super_best(&x);
		uint64_t seq;

		if (best < 0)
			return err_set(e, ERR_CORRUPT, "disk %u: none", d);
		seq = x.slot[best].write_seq;
		if (seq < *old + note || seq > *old + 1)
			return err_set(e, ERR_CORRUPT, "disk %u: seq %llu", d,
			    (unsigned long long)seq);
	}
	return 0;
}

START_TEST(a_cut_in_any_write_leaves_the_old_or_the_new)
{
	struct sim *s = fresh(2);
	struct crash_plan plan = { .name = "superblocks",
		.seed = crash_seed(20240503), .exhaustive = true,
		.samples = 20, .check = check_old_or_new };
	uint64_t old;
	struct rig r;
	struct err e;

	ck_assert_int_eq(rig_open(&r, s, 0, true, &e), 0);
	old = r.as->base.write_seq;
	plan.arg = &old;
	sim_record(s);
	ck_assert_int_eq(log_write_roots(r.log, &e), 0);
	sim_note(s, 1);
	sim_record_end(s);
	ck_assert_msg(crash_explore(&plan, s, NULL, &e) == 0, "%s", e.text);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(a_member_that_fails_is_told_and_the_others_are_written)
{
	struct sim *s = fresh(3);
	struct sim_fault f = { .kind = SIM_ERROR, .disk = 1,
		.ops = SIM_WRITE | SIM_FLUSH, .nth = (uint64_t)_i + 1 };
	struct rig r;
	struct err e;

	ck_assert_int_eq(rig_open(&r, s, 0, true, &e), 0);
	sim_arm(s, &f);
	ck_assert_int_eq(log_write_roots(r.log, &e), 0);
	ck_assert_uint_eq(r.failures, 1);
	ck_assert_int_eq(r.as->members[1]->state, MEMBER_FAILED);
	for (unsigned i = 0; i < MEMBER_SLOTS; i++)
		ck_assert_uint_eq(slots_of(s, 2).slot[i].write_seq,
		    r.as->base.write_seq);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

Suite *raid_super_suite(void);
Suite *raid_super_suite(void)
{
	Suite *s = suite_create("raid/super");
	TCase *t = tcase_create("slots");

	tcase_add_test(t, a_new_array_has_four_good_slots_on_each_member);
	tcase_add_loop_test(t, any_slot_alone_is_enough, 0, MEMBER_SLOTS);
	tcase_add_loop_test(t, a_lone_newer_slot_does_not_win, 0,
	    MEMBER_SLOTS);
	tcase_add_test(t, a_slot_in_the_place_of_another_is_not_good);
	tcase_add_test(t, a_cut_in_any_write_leaves_the_old_or_the_new);
	tcase_add_loop_test(t,
	    a_member_that_fails_is_told_and_the_others_are_written, 0, 6);
	suite_add_tcase(s, t);
	return s;
}
