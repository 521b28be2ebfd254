/*
 * Members that fail, vanish, come back and are replaced: nothing that was
 * acked is lost, what has less redundancy is told, and mending gives it back.
 * Method: faults of the simulated disks at run time; after each story every
 * frame is read, and again with any p other members away.
 */
#include "tests/raid/bed.h"

#include "raid/stripe_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Everything on the disks that are active now, with p of those away. */
static void check_losing_active(struct bed *r)
{
	struct member_info info[RAID_MEMBERS_MAX];
	size_t n = array_members(r->a, info, RAID_MEMBERS_MAX);
	uint64_t away = 0, all = (UINT64_C(1) << sim_disks(r->sim)) - 1;

	for (size_t i = 0; i < n; i++)
		if (info[i].state != MEMBER_ACTIVE && info[i].path[0])
			away |= UINT64_C(1) << strtoul(info[i].path + 4, NULL,
			    10);
	bed_close(r);
	for (uint64_t set = 0; set <= all; set++) {
		struct bed *c;

		if ((set & away) != 0 || (unsigned)__builtin_popcountll(set) !=
		    r->parity)
			continue;
		c = bed_clone(r);
		OK(bed_open(c, set | away, false, E));
		bed_check(c);
		bed_free(c);
	}
	OK(bed_open(r, away, false, E));
}

static enum member_state state(struct bed *r, unsigned i)
{
	struct member_info info[RAID_MEMBERS_MAX];

	ck_assert_uint_gt(array_members(r->a, info, RAID_MEMBERS_MAX), i);
	return info[i].state;
}

static void fault(struct bed *r, unsigned disk, enum sim_op op,
    enum sim_fault_kind kind)
{
	struct sim_fault f = { .kind = kind, .disk = disk, .ops = op };

	sim_arm(r->sim, &f);
}

START_TEST(a_member_that_fails_writes_is_set_aside)
{
	struct bed *r = bed_new_shape(_i);
	struct flush_result result;
	struct array_info info;

	bed_fill(r, 2, 6, 300000);
	fault(r, 1, SIM_WRITE, SIM_ERROR);
	bed_append(r, SEG_DATA, RAID_FRAME_MAX);
	result = bed_flush(r);
	ck_assert(result.reduced);
	ck_assert_int_eq(state(r, 1), MEMBER_FAILED);
	array_info(r->a, &info);
	ck_assert(info.degraded);
	ck_assert(info.reduced);
	/* Later segments do without it. */
	bed_fill(r, 1, 4, 300000);
	bed_check(r);
	bed_reopen(r, 2);
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(a_flush_error_makes_absent_what_it_should_have_kept)
{
	struct bed *r = bed_new_shape(_i);
	struct seg_state g;
	struct flush_result result;
	bool absent = false;

	bed_append(r, SEG_DATA, 200000);
	bed_flush(r);
	bed_append(r, SEG_DATA, 700000);
	fault(r, 0, SIM_FLUSH, SIM_FLUSH_LOSE);
	result = bed_flush(r);
	ck_assert(result.reduced);
	g = bed_state(r, r->frames[1].place.segment);
	ck_assert(g.sealed);
	for (unsigned i = 0; i < g.width; i++)
		absent = absent || (g.member[i] == 0 &&
		    g.absent_from[i] == r->frames[1].place.row);
	ck_assert(absent);
	bed_check(r);
	bed_crash(r, 0);
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(stops_when_more_fail_than_there_is_parity)
{
	struct bed *r = bed_new_shape(_i);
	struct flush_result result;
	struct err e;

	bed_fill(r, 1, 4, 200000);
	for (unsigned i = 0; i <= r->parity; i++)
		fault(r, i, SIM_WRITE, SIM_ERROR);
	if (bed_try_append(r, SEG_DATA, RAID_FRAME_MAX, &e) == 0)
		ck_assert_int_eq(bed_try_flush(r, false, &result, &e), -1);
	ck_assert_int_eq(bed_try_append(r, SEG_DATA, 10, &e), -1);
	bed_crash(r, 0);
	bed_check(r);
	bed_fill(r, 1, 4, 200000);
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(a_member_that_vanished_comes_back)
{
	struct bed *r = bed_new_shape(_i);
	struct scan_report rep;

	bed_fill(r, 2, 6, 300000);
	bed_append(r, SEG_DATA, 100000);
	sim_drop(r->sim, 0);
	ck_assert(bed_flush(r).reduced);
	ck_assert_int_eq(state(r, 0), MEMBER_MISSING);
	bed_fill(r, 2, 6, 300000);
	bed_check(r);
	bed_close(r);
	sim_return(r->sim, 0);
	OK(bed_open(r, 0, false, E));
	ck_assert_int_eq(state(r, 0), MEMBER_ACTIVE);
	ck_assert(array_wants_mend(r->a));
	rep = bed_mend(r);
	ck_assert_uint_gt(rep.strips_healed, 0);
	ck_assert_uint_eq(rep.stripes_lost, 0);
	ck_assert(!array_wants_mend(r->a));
	rep = bed_scan(r, false, NULL);
	ck_assert_uint_eq(rep.strips_bad + rep.strips_absent, 0);
	bed_close(r);
	if (sim_disks(r->sim) - 1 > r->parity)
		bed_check_losing_any(r);
	bed_free(r);
}
END_TEST

START_TEST(a_path_that_leads_elsewhere_is_noticed)
{
	struct bed *r = bed_new(4, 1, BED_DISK);

	bed_fill(r, 1, 4, 200000);
	sim_look(r->sim, 2, DEV_OTHER);
	array_check_members(r->a);
	ck_assert_int_eq(state(r, 2), MEMBER_MISSING);
	bed_fill(r, 1, 4, 200000);
	bed_check(r);
	bed_reopen(r, 4);
	bed_check(r);
	bed_free(r);
}
END_TEST

static void replace(struct bed *r, unsigned old, unsigned new)
{
	char name[16];

	snprintf(name, sizeof(name), "sim:%u", old);
	OK(array_replace_begin(r->a, name, sim_dev(r->sim, new), NULL, E));
}

START_TEST(replaces_a_member_that_is_there)
{
	struct bed *r = bed_new_shape(_i);
	unsigned new = sim_add(r->sim, BED_DISK);
	struct scan_report rep;

	bed_fill(r, 3, 8, 400000);
	replace(r, 0, new);
	ck_assert(array_wants_mend(r->a));
	bed_fill(r, 1, 8, 200000);
	rep = bed_mend(r);
	ck_assert_uint_gt(rep.strips_healed, 0);
	ck_assert_int_eq(state(r, 0), MEMBER_REMOVED);
	ck_assert(!array_wants_mend(r->a));
	rep = bed_scan(r, false, NULL);
	ck_assert_uint_eq(rep.strips_bad + rep.strips_absent, 0);
	bed_fill(r, 1, 8, 200000);
	check_losing_active(r);
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(replaces_a_member_that_is_gone)
{
	struct bed *r = bed_new_shape(_i);
	unsigned new = sim_add(r->sim, BED_DISK);
	struct scan_report rep;

	bed_fill(r, 3, 8, 400000);
	sim_drop(r->sim, 1);
	bed_append(r, SEG_DATA, 100000);
	bed_flush(r);
	replace(r, 1, new);
	rep = bed_mend(r);
	ck_assert_uint_gt(rep.strips_healed, 0);
	ck_assert_uint_eq(rep.stripes_lost, 0);
	ck_assert_int_eq(state(r, 1), MEMBER_REMOVED);
	rep = bed_scan(r, false, NULL);
	ck_assert_uint_eq(rep.strips_bad + rep.strips_absent, 0);
	check_losing_active(r);
	bed_free(r);
}
END_TEST

START_TEST(the_old_member_dies_while_it_is_replaced)
{
	struct bed *r = bed_new_shape(_i);
	unsigned new = sim_add(r->sim, BED_DISK);
	struct scan_report rep;

	bed_fill(r, 2, 8, 400000);
	replace(r, 0, new);
	sim_drop(r->sim, 0);
	bed_fill(r, 1, 8, 200000);
	ck_assert_int_eq(state(r, 0), MEMBER_FAILED);
	bed_check(r);
	rep = bed_mend(r);
	ck_assert_uint_eq(rep.stripes_lost, 0);
	ck_assert_int_eq(state(r, 0), MEMBER_REMOVED);
	check_losing_active(r);
	bed_free(r);
}
END_TEST

START_TEST(a_latent_error_elsewhere_does_not_stop_a_replacement)
{
	struct bed *r = bed_new(4, 1, BED_DISK);
	unsigned new = sim_add(r->sim, BED_DISK);
	struct place p;
	struct scan_report rep;
	uint64_t at;
	unsigned disk;

	bed_append(r, SEG_DATA, RAID_FRAME_MAX);
	bed_fill(r, 1, 8, 400000);
	p = r->frames[0].place;
	disk = bed_strip(r, p.segment, p.row, 0, &at);
	sim_unreadable(r->sim, disk, at + RAID_ROW, RAID_ROW);
	disk = bed_strip(r, p.segment, p.row, 1, &at);
	/* The disk with the other strip dies: that stripe is lost. */
	sim_drop(r->sim, disk);
	array_check_members(r->a);
	replace(r, disk, new);
	rep = bed_mend(r);
	ck_assert_uint_eq(rep.stripes_lost, 1);
	ck_assert_uint_ge(bed_count(r, ARRAY_READ_DAMAGED), 1);
	ck_assert_uint_eq(bed_count(r, ARRAY_READ_UNAVAILABLE), 0);
	ck_assert_uint_gt(bed_count(r, ARRAY_READ_OK), r->count / 2);
	bed_free(r);
}
END_TEST

START_TEST(a_replacement_is_resumed_after_a_crash)
{
	struct bed *r = bed_new(4, 1, BED_DISK);
	unsigned new = sim_add(r->sim, BED_DISK);
	struct scan_report rep = { 0 };
	uint64_t changes;

	bed_fill(r, 8, 8, 400000);
	replace(r, 2, new);
	changes = 20 + 30 * (uint64_t)_i;
	sim_crash_at(r->sim, changes);
	while (!sim_crashed(r->sim)) {
		struct err e;

		if (array_mend(r->a, &rep, NULL, &e) != 0 ||
		    !array_wants_mend(r->a))
			break;
	}
	bed_crash(r, 0);
	bed_check(r);
	bed_mend(r);
	ck_assert(!array_wants_mend(r->a));
	ck_assert_int_eq(state(r, 2), MEMBER_REMOVED);
	rep = bed_scan(r, false, NULL);
	ck_assert_uint_eq(rep.strips_bad + rep.strips_absent, 0);
	check_losing_active(r);
	bed_free(r);
}
END_TEST

START_TEST(a_move_that_the_log_names_is_there)
{
	struct bed *r = bed_new(3, 1, BED_DISK);
	unsigned new = sim_add(r->sim, BED_DISK);
	/* The log is durable on the others before it is on the new one. */
	struct sim_fault slow = { .kind = SIM_SLOW, .disk = new,
		.ops = SIM_FLUSH, .ms = 30 };

	bed_fill(r, 2, 4, 300000);
	bed_seal(r);
	replace(r, 1, new);
	sim_arm(r->sim, &slow);
	sim_record(r->sim);
	bed_mend(r);
	sim_record_end(r->sim);
	ck_assert_uint_gt(sim_records(r->sim), 5);
	for (size_t i = 0; i < sim_records(r->sim); i++) {
		struct bed *c = bed_clone(r);

		sim_free(c->sim);
		c->sim = sim_recorded(r->sim, i);
		sim_power_cut_all_lost(c->sim);
		OK(bed_open(c, 0, false, E));
		ck_assert_uint_eq(bed_scan(c, false, NULL).strips_bad, 0);
		bed_check(c);
		bed_free(c);
	}
	bed_free(r);
}
END_TEST

START_TEST(calling_a_replacement_again_goes_on_with_it)
{
	struct bed *r = bed_new(3, 1, BED_DISK);
	unsigned new = sim_add(r->sim, BED_DISK);
	unsigned third = sim_add(r->sim, BED_DISK);
	struct err e;

	bed_fill(r, 1, 8, 200000);
	replace(r, 0, new);
	replace(r, 0, new);
	ck_assert_int_eq(array_replace_begin(r->a, "sim:0",
	    sim_dev(r->sim, third), NULL, &e), -1);
	ck_assert_int_eq(e.code, ERR_EXISTS);
	bed_mend(r);
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(refuses_a_disk_that_is_too_small_before_it_writes)
{
	struct bed *r = bed_new(3, 1, BED_DISK * 2);
	unsigned new = sim_add(r->sim, BED_DISK);
	struct sim_counts counts;
	struct err e;

	while (bed_try_append(r, SEG_DATA, 900000, &e) == 0)
		if (array_unflushed(r->a) > 8 << 20)
			bed_flush(r);
	bed_flush(r);
	ck_assert_int_eq(array_replace_begin(r->a, "sim:0",
	    sim_dev(r->sim, new), NULL, &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT);
	sim_counts(r->sim, new, &counts);
	ck_assert_uint_eq(counts.writes, 0);
	bed_free(r);
}
END_TEST

START_TEST(takes_a_smaller_disk_if_what_is_used_fits)
{
	struct bed *r = bed_new(3, 1, BED_DISK * 2);
	unsigned new = sim_add(r->sim, BED_DISK);

	bed_fill(r, 2, 8, 400000);
	replace(r, 0, new);
	bed_mend(r);
	ck_assert_int_eq(state(r, 0), MEMBER_REMOVED);
	check_losing_active(r);
	bed_free(r);
}
END_TEST

START_TEST(rebuilds_onto_members_that_have_room)
{
	struct bed *r = bed_new(4, 1, BED_DISK);
	struct segment_info info;
	struct scan_report rep;

	/* Segments of three members: the fourth is away when they are born. */
	bed_reopen(r, 8);
	bed_fill(r, 2, 8, 400000);
	bed_seal(r);
	bed_reopen(r, 0);
	OK(array_fail(r->a, "sim:0", E));
	OK(array_segment(r->a, r->frames[0].place.segment, &info, E));
	ck_assert(info.reduced);
	ck_assert(!info.wants_rewrite);
	rep = bed_mend(r);
	ck_assert_uint_gt(rep.strips_healed, 0);
	OK(array_segment(r->a, r->frames[0].place.segment, &info, E));
	ck_assert(!info.reduced);
	ck_assert_uint_eq(bed_scan(r, false, NULL).strips_absent, 0);
	check_losing_active(r);
	bed_free(r);
}
END_TEST

START_TEST(a_segment_as_wide_as_the_array_wants_to_be_rewritten)
{
	struct bed *r = bed_new(3, 1, BED_DISK);
	struct segment_info info;

	bed_fill(r, 1, 4, 400000);
	bed_seal(r);
	OK(array_fail(r->a, "sim:0", E));
	OK(array_segment(r->a, r->frames[0].place.segment, &info, E));
	ck_assert(info.reduced);
	ck_assert(info.wants_rewrite);
	ck_assert(!array_wants_mend(r->a));
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(refuses_to_set_aside_what_is_needed)
{
	struct bed *r = bed_new(3, 1, BED_DISK);
	struct err e;

	bed_fill(r, 1, 4, 100000);
	OK(array_fail(r->a, "sim:1", E));
	ck_assert_int_eq(array_fail(r->a, "sim:2", &e), -1);
	ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
	ck_assert_int_eq(array_fail(r->a, "sim:7", &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	bed_reopen(r, 0);
	ck_assert_int_eq(state(r, 1), MEMBER_FAILED);
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(with_too_few_members_segments_are_born_reduced)
{
	struct bed *r = bed_new(2, 1, BED_DISK);
	struct segment_info info;

	bed_reopen(r, 2);
	bed_append(r, SEG_DATA, 100000);
	ck_assert(bed_flush(r).reduced);
	bed_seal(r);
	OK(array_segment(r->a, r->frames[0].place.segment, &info, E));
	ck_assert_uint_eq(info.width, 1);
	ck_assert_uint_eq(info.parity, 0);
	ck_assert(info.reduced);
	bed_reopen(r, 0);
	OK(array_segment(r->a, r->frames[0].place.segment, &info, E));
	ck_assert(info.wants_rewrite);
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(a_hung_member_is_read_around)
{
	struct bed *r = bed_new(3, 1, BED_DISK);

	bed_append(r, SEG_DATA, 300000);
	bed_flush(r);
	fault(r, 0, SIM_READ, SIM_HANG);
	bed_check(r);
	bed_check(r);
	sim_disarm(r->sim);
	bed_free(r);
}
END_TEST

START_TEST(benches)
{
	struct bed *r = bed_new(4, 1, BED_DISK);
	struct bench_result b;
	struct array_info before, after;

	bed_fill(r, 1, 4, 100000);
	bed_seal(r);
	array_info(r->a, &before);
	OK(array_bench(r->a, 20 << 20, &b, E));
	array_info(r->a, &after);
	ck_assert_uint_eq(b.width, 4);
	ck_assert_uint_eq(b.parity, 1);
	ck_assert(b.raw_write > 0 && b.raw_read > 0 && b.append > 0 &&
	    b.read > 0 && b.scrub > 0);
	ck_assert_uint_eq(before.segments, after.segments);
	ck_assert_uint_eq(before.free_bytes, after.free_bytes);
	bed_check(r);
	bed_free(r);
}
END_TEST

Suite *raid_mend_suite(void);
Suite *raid_mend_suite(void)
{
	Suite *s = suite_create("mend");
	TCase *t = tcase_create("members");

	tcase_add_loop_test(t, a_member_that_fails_writes_is_set_aside, 0,
	    BED_SHAPES);
	tcase_add_loop_test(t,
	    a_flush_error_makes_absent_what_it_should_have_kept, 0,
	    BED_SHAPES);
	tcase_add_loop_test(t, stops_when_more_fail_than_there_is_parity, 0,
	    BED_SHAPES);
	tcase_add_loop_test(t, a_member_that_vanished_comes_back, 0,
	    BED_SHAPES);
	tcase_add_test(t, a_path_that_leads_elsewhere_is_noticed);
	tcase_add_loop_test(t, replaces_a_member_that_is_there, 0,
	    BED_SHAPES);
	tcase_add_loop_test(t, replaces_a_member_that_is_gone, 0, BED_SHAPES);
	tcase_add_loop_test(t, the_old_member_dies_while_it_is_replaced, 0,
	    BED_SHAPES);
	tcase_add_test(t,
	    a_latent_error_elsewhere_does_not_stop_a_replacement);
	tcase_add_loop_test(t, a_replacement_is_resumed_after_a_crash, 0, 6);
	tcase_add_test(t, a_move_that_the_log_names_is_there);
	tcase_add_test(t, calling_a_replacement_again_goes_on_with_it);
	tcase_add_test(t, refuses_a_disk_that_is_too_small_before_it_writes);
	tcase_add_test(t, takes_a_smaller_disk_if_what_is_used_fits);
	tcase_add_test(t, rebuilds_onto_members_that_have_room);
	tcase_add_test(t,
	    a_segment_as_wide_as_the_array_wants_to_be_rewritten);
	tcase_add_test(t, refuses_to_set_aside_what_is_needed);
	tcase_add_test(t, with_too_few_members_segments_are_born_reduced);
	tcase_add_test(t, a_hung_member_is_read_around);
	tcase_add_test(t, benches);
	suite_add_tcase(s, t);
	return s;
}
