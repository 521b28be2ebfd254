/*
 * The log as its user sees it: what was appended comes back, in order, from
 * any member, whatever fails.  Method: facts as the state of a small rig
 * (log_rig.h), simulated disks, faults at single members, a power cut at every
 * device operation of a run with appends and folds.  Invariants L1-L4 of
 * raid/log_write.c.
 */
#include "raid/fmt_log.h"
#include "tests/raid/log_rig.h"
#include "tests/support/crash.h"
#include "tests/support/dev_sim.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#define BIG (40u << 10)		/* ten blocks and a bit */

static struct sim *fresh(unsigned disks)
{
	struct sim *s = sim_new(disks, RIG_DISK);
	struct err e;

	ck_assert_msg(rig_create(s, &e) == 0, "%s", e.text);
	return s;
}

static void must_open(struct rig *r, struct sim *s, uint64_t skip, bool write)
{
	struct err e;

	ck_assert_msg(rig_open(r, s, skip, write, &e) == 0, "%s", e.text);
}

static void must_put(struct rig *r, unsigned n, size_t size)
{
	struct err e;

	ck_assert_msg(rig_put(r, n, size, &e) == 0, "put %u: %s", n, e.text);
}

static void must_close(struct rig *r)
{
	struct err e;

	ck_assert_msg(rig_close(r, &e) == 0, "%s", e.text);
}

static void must_hold(const struct rig *r, unsigned count, size_t size)
{
	struct err e;

	ck_assert_msg(rig_check(r, count, size, &e) == 0, "%s", e.text);
	ck_assert_uint_eq(facts_count(r->facts), count);
}

START_TEST(a_new_log_is_empty_and_whole)
{
	struct sim *s = fresh(3);
	struct rig r;

	must_open(&r, s, 0, false);
	must_hold(&r, 0, 0);
	ck_assert(!r.pos.damaged_tail);
	ck_assert_uint_eq(r.pos.event, 1);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(what_was_appended_comes_back_from_each_member_alone)
{
	struct sim *s = fresh(3);
	struct rig r;

	must_open(&r, s, 0, true);
	for (unsigned n = 0; n < 50; n++)
		must_put(&r, n, 100);
	must_close(&r);
	for (unsigned i = 0; i < 3; i++) {
		must_open(&r, s, 7u & ~(1u << i), false);
		must_hold(&r, 50, 100);
		ck_assert(r.pos.clean);
		rig_drop(&r);
	}
	sim_free(s);
}
END_TEST

START_TEST(a_clean_stop_is_known_and_forgotten_by_the_next_opening)
{
	struct sim *s = fresh(2);
	struct rig r;

	must_open(&r, s, 0, true);
	must_close(&r);
	must_open(&r, s, 0, true);
	ck_assert(r.pos.clean);
	must_put(&r, 0, 10);
	rig_drop(&r);
	must_open(&r, s, 0, false);
	ck_assert(!r.pos.clean);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(the_chain_goes_on_over_many_extents_and_folds)
{
	struct sim *s = fresh(2);
	uint32_t x[RIG_EXTENTS];
	struct rig r;

	must_open(&r, s, 0, true);
	for (unsigned n = 0; n < 160; n++)	/* 6 MiB of state */
		must_put(&r, n, BIG);
	ck_assert_uint_gt(log_extents(r.log, 0, x, RIG_EXTENTS), 3);
	must_close(&r);
	must_open(&r, s, 1, false);
	must_hold(&r, 160, BIG);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(folding_keeps_the_log_within_twice_the_state)
{
	struct sim *s = fresh(2);
	struct rig r;
	uint64_t limit;

	must_open(&r, s, 0, true);
	for (unsigned n = 0; n < 400; n++) {
		must_put(&r, n % 20, BIG);
		limit = 2 * (facts_bytes(r.facts) + facts_bytes(r.facts) / 8) +
		    (2u << 20);
		ck_assert_uint_le(log_bytes(r.log), limit);
	}
	must_close(&r);
	sim_free(s);
}
END_TEST

START_TEST(deleted_facts_stay_away)
{
	struct sim *s = fresh(2);
	struct rig r;
	struct err e;

	must_open(&r, s, 0, true);
	must_put(&r, 0, 10);
	must_put(&r, 1, 10);
	ck_assert_int_eq(rig_delete(&r, 1, &e), 0);
	rig_drop(&r);
	must_open(&r, s, 0, true);
	must_hold(&r, 1, 10);
	ck_assert_int_eq(log_fold(r.log, &e), 0);
	rig_drop(&r);
	must_open(&r, s, 0, false);
	must_hold(&r, 1, 10);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

static const struct sim_fault failing[] = {	/* by loop index */
	{ .kind = SIM_ERROR, .disk = 1, .ops = SIM_WRITE, .nth = 3 },
	{ .kind = SIM_ERROR, .disk = 1, .ops = SIM_FLUSH, .nth = 2 },
	{ .kind = SIM_FLUSH_LOSE, .disk = 1, .ops = SIM_FLUSH, .nth = 2,
	    .times = 1 },
	{ .kind = SIM_GONE, .disk = 1, .ops = SIM_WRITE, .nth = 2 },
	{ .kind = SIM_HANG, .disk = 1, .ops = SIM_WRITE, .nth = 2 },
};

START_TEST(a_member_that_fails_leaves_and_nothing_acked_is_lost)
{
	struct sim *s = fresh(3);
	struct rig r;
	uint64_t event;

	must_open(&r, s, 0, true);
	log_position(r.log, &r.pos);
	event = r.pos.event;
	sim_arm(s, &failing[_i]);
	for (unsigned n = 0; n < 20; n++)
		must_put(&r, n, 1000);
	ck_assert_uint_eq(r.failures, 1);
	ck_assert_int_eq(r.as->members[1]->state, MEMBER_FAILED);
	log_position(r.log, &r.pos);
	ck_assert_uint_eq(r.pos.event, event + 1);
	sim_release(s);
	rig_drop(&r);
	sim_disarm(s);
	sim_return(s, 1);
	for (unsigned alone = 0; alone < 3; alone += 2) {
		must_open(&r, s, 7u & ~(1u << alone), false);
		must_hold(&r, 20, 1000);
		rig_drop(&r);
	}
	must_open(&r, s, 0, true);	/* the failed one is back, but failed */
	must_hold(&r, 20, 1000);
	ck_assert_int_eq(r.as->members[1]->state, MEMBER_FAILED);
	ck_assert(r.as->members[1]->stale);
	must_close(&r);
	sim_free(s);
}
END_TEST

START_TEST(a_member_that_fails_in_a_fold_leaves)
{
	struct sim *s = fresh(3);
	struct sim_fault f = { .kind = SIM_ERROR, .disk = 2, .ops = SIM_WRITE,
		.nth = (uint64_t)_i + 1 };
	struct rig r;
	struct err e;

	must_open(&r, s, 0, true);
	for (unsigned n = 0; n < 40; n++)	/* over one extent */
		must_put(&r, n, BIG);
	sim_arm(s, &f);
	ck_assert_msg(log_fold(r.log, &e) == 0, "%s", e.text);
	must_put(&r, 40, BIG);
	ck_assert_int_eq(r.as->members[2]->state, MEMBER_FAILED);
	rig_drop(&r);
	sim_disarm(s);
	must_open(&r, s, 0, true);
	must_hold(&r, 41, BIG);
	must_close(&r);
	sim_free(s);
}
END_TEST

START_TEST(when_all_members_fail_the_log_stops_for_good)
{
	struct sim *s = fresh(2);
	struct sim_fault f = { .kind = SIM_ERROR, .disk = SIM_ALL_DISKS,
		.ops = SIM_FLUSH };
	struct rig r;
	struct err e;

	must_open(&r, s, 0, true);
	must_put(&r, 0, 10);
	sim_arm(s, &f);
	ck_assert_int_eq(rig_put(&r, 1, 10, &e), -1);
	sim_disarm(s);
	ck_assert_int_eq(rig_put(&r, 1, 10, &e), -1);
	ck_assert_ptr_nonnull(strstr(e.text, "the log stopped"));
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(a_member_without_room_leaves_the_log_and_comes_back)
{
	struct sim *s = fresh(3);
	struct rig r;
	struct err e;

	must_open(&r, s, 0, true);
	r.no_room = 2;
	for (unsigned n = 0; n < 60; n++)
		must_put(&r, n, BIG);
	ck_assert_int_eq(r.as->members[1]->state, MEMBER_ACTIVE);
	ck_assert_uint_eq(r.failures, 0);
	r.no_room = 0;
	ck_assert_msg(log_fold(r.log, &e) == 0, "%s", e.text);
	must_put(&r, 60, BIG);
	must_close(&r);
	must_open(&r, s, 5, false);	/* it alone */
	must_hold(&r, 61, BIG);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(a_fold_that_cannot_dump_changes_nothing)
{
	struct sim *s = fresh(2);
	struct rig r;
	struct err e;

	must_open(&r, s, 0, true);
	must_put(&r, 0, 10);
	err_set(&r.dump_error, ERR_NO_MEMORY, "no");
	ck_assert_int_eq(log_fold(r.log, &e), -1);
	ck_assert_int_eq(e.code, ERR_NO_MEMORY);
	must_put(&r, 1, 10);
	r.dump_error.code = ERR_NONE;
	ck_assert_int_eq(log_fold(r.log, &e), 0);
	must_put(&r, 2, 10);
	must_close(&r);
	must_open(&r, s, 0, false);
	must_hold(&r, 3, 10);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(a_member_that_joins_gets_the_whole_chain)
{
	struct sim *s = fresh(2);
	unsigned disk = sim_add(s, RIG_DISK);
	struct member *m;
	struct rig r;
	struct err e;

	must_open(&r, s, 4, true);
	for (unsigned n = 0; n < 60; n++)
		must_put(&r, n, BIG);
	ck_assert_msg(assembly_add(r.as, sim_dev(s, disk), &m, &e) == 0,
	    "%s", e.text);
	r.host.member_count = r.as->member_count;
	ck_assert_msg(log_join(r.log, m->index, &e) == 0, "%s", e.text);
	must_put(&r, 60, BIG);
	must_close(&r);
	must_open(&r, s, 3, true);	/* it alone, and it knows the others */
	must_hold(&r, 61, BIG);
	ck_assert_uint_eq(r.as->member_count, 3);
	ck_assert_int_eq(r.as->members[0]->state, MEMBER_MISSING);
	must_close(&r);
	sim_free(s);
}
END_TEST

START_TEST(a_joining_member_that_fails_is_told_and_left_out)
{
	struct sim *s = fresh(2);
	unsigned disk = sim_add(s, RIG_DISK);
	struct sim_fault f = { .kind = SIM_ERROR, .disk = disk,
		.ops = SIM_WRITE };
	struct member *m;
	struct rig r;
	struct err e;

	must_open(&r, s, 4, true);
	must_put(&r, 0, 10);
	ck_assert_int_eq(assembly_add(r.as, sim_dev(s, disk), &m, &e), 0);
	r.host.member_count = r.as->member_count;
	sim_arm(s, &f);
	ck_assert_int_eq(log_join(r.log, m->index, &e), -1);
	must_put(&r, 1, 10);
	must_close(&r);
	must_open(&r, s, 4, false);
	must_hold(&r, 2, 10);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(positions_of_this_history_are_known_and_no_others)
{
	struct sim *s = fresh(2);
	struct log_position old, now;
	struct rig r;
	uint8_t other[16] = { 1 };

	must_open(&r, s, 0, true);
	must_put(&r, 0, 10);
	log_position(r.log, &old);
	must_close(&r);
	must_open(&r, s, 0, true);
	must_put(&r, 1, 10);
	log_position(r.log, &now);
	ck_assert(log_knows(r.log, old.run, old.flush));
	ck_assert(log_knows(r.log, now.run, now.flush));
	ck_assert(!log_knows(r.log, now.run, now.flush + 1));
	ck_assert(!log_knows(r.log, old.run, now.flush));
	ck_assert(!log_knows(r.log, other, old.flush));
	ck_assert_uint_eq(log_next_flush(r.log), now.flush + 1);
	must_close(&r);
	sim_free(s);
}
END_TEST

START_TEST(hundreds_of_openings_do_not_outgrow_the_history)
{
	struct sim *s = fresh(1);
	struct log_position pos;
	struct rig r;

	for (unsigned n = 0; n < 300; n++) {
		must_open(&r, s, 0, true);
		must_put(&r, n, 10);
		must_close(&r);
	}
	must_open(&r, s, 0, true);
	must_hold(&r, 300, 10);
	log_position(r.log, &pos);
	ck_assert(log_knows(r.log, pos.run, pos.flush));
	must_close(&r);
	sim_free(s);
}
END_TEST

/* ---- scrub ------------------------------------------------------------ */

struct bads {
	unsigned count[3], healed;
	char kind[32];
};

static void on_bad(void *arg, unsigned member, const char *path,
    uint64_t segment, uint32_t row, const char *kind, bool healed)
{
	struct bads *b = arg;

	(void)path;
	(void)segment;
	(void)row;
	b->count[member]++;
	b->healed += healed;
	snprintf(b->kind, sizeof(b->kind), "%s", kind);
}

static struct scan_report scrub(struct rig *r, struct bads *b)
{
	struct scan_report report = { 0 };
	struct scan_ops ops = { .bad_strip = on_bad, .arg = b };
	struct err e;

	memset(b, 0, sizeof(*b));
	ck_assert_msg(log_scrub(r->log, true, &report, &ops, &e) == 0, "%s",
	    e.text);
	return report;
}

static uint64_t block_at(struct rig *r, unsigned member, unsigned block)
{
	uint32_t x[RIG_EXTENTS];

	ck_assert_uint_gt(log_extents(r->log, member, x, RIG_EXTENTS), 0);
	return member_extent_offset(r->as->members[member], x[0]) +
	    block * LOG_BLOCK;
}

START_TEST(scrub_heals_the_copy_that_differs_and_no_other)
{
	struct sim *s = fresh(3), *before;
	struct scan_report report;
	struct bads b;
	struct rig r;

	must_open(&r, s, 0, true);
	for (unsigned n = 0; n < 20; n++)
		must_put(&r, n, BIG);
	before = sim_clone(s);
	sim_flip(s, 1, block_at(&r, 1, 5) + 200, 1);
	sim_unreadable(s, 1, block_at(&r, 1, 9), LOG_BLOCK);
	report = scrub(&r, &b);
	ck_assert_uint_eq(b.count[1], 2);
	ck_assert_uint_eq(b.count[0] + b.count[2], 0);
	ck_assert_uint_eq(b.healed, 2);
	ck_assert_str_eq(b.kind, "log");
	ck_assert_uint_eq(report.strips_healed, 2);
	ck_assert(sim_same_all(s, before, &(unsigned){ 0 },
	    &(uint64_t){ 0 }));
	report = scrub(&r, &b);
	ck_assert_uint_eq(report.strips_bad, 0);
	/* And it is on the medium. */
	sim_power_cut_all_lost(s);
	ck_assert(sim_same_all(s, before, &(unsigned){ 0 },
	    &(uint64_t){ 0 }));
	rig_drop(&r);
	sim_free(before);
	sim_free(s);
}
END_TEST

START_TEST(a_block_lost_on_all_members_is_written_anew_by_a_fold)
{
	struct sim *s = fresh(2);
	struct scan_report report;
	struct bads b;
	struct rig r;

	must_open(&r, s, 0, true);
	for (unsigned n = 0; n < 20; n++)
		must_put(&r, n, BIG);
	for (unsigned i = 0; i < 2; i++)
		sim_zero(s, i, block_at(&r, i, 30), LOG_BLOCK);
	report = scrub(&r, &b);
	ck_assert_uint_eq(report.stripes_lost, 1);
	report = scrub(&r, &b);
	ck_assert_uint_eq(report.stripes_lost + report.strips_bad, 0);
	must_close(&r);
	must_open(&r, s, 0, false);
	must_hold(&r, 20, BIG);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(damaged_superblock_slots_are_told_and_rewritten)
{
	struct sim *s = fresh(2);
	struct scan_report report = { 0 };
	struct bads b = { .healed = 0 };
	struct scan_ops ops = { .bad_strip = on_bad, .arg = &b };
	struct rig r;
	struct err e;

	must_open(&r, s, 0, true);
	for (unsigned slot = 0; slot < MEMBER_SLOTS; slot++)
		sim_zero(s, 1, member_slot_offset(RIG_DISK, slot), 4096);
	ck_assert_int_eq(assembly_scrub(r.as, r.log, true, &report, &ops,
	    &e), 0);
	ck_assert_uint_eq(report.strips_bad, 4);
	ck_assert_uint_eq(report.strips_healed, 4);
	ck_assert_uint_eq(b.count[1], 4);
	must_close(&r);
	must_open(&r, s, 1, false);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

/* ---- power cuts ------------------------------------------------------- */

#define CRASH_SIZE 9000u

static int check_acked(void *arg, struct sim *s, uint64_t note, struct err *e)
{
	unsigned disks = sim_disks(s), acked = (unsigned)note;
	struct rig r;
	int rc;

	(void)arg;
	if (rig_open(&r, s, 0, true, e) != 0)
		return err_add(e, "first open");
	rc = rig_check(&r, acked, CRASH_SIZE, e);
	acked = (unsigned)facts_count(r.facts);
	if (rc == 0)
		rc = rig_put(&r, acked, CRASH_SIZE, e);
	rig_drop(&r);
	/* From then on each member alone knows it all. */
	for (unsigned i = 0; i < disks && rc == 0; i++) {
		rc = rig_open(&r, s, ~(UINT64_C(1) << i), false, e);
		if (rc != 0)
			return err_add(e, "member %u alone", i);
		rc = rig_check(&r, acked + 1, CRASH_SIZE, e);
		rig_drop(&r);
	}
	return rc;
}

static void recover(void *arg, struct sim *s)
{
	struct rig r;
	struct err e;

	(void)arg;
	if (rig_open(&r, s, 0, true, &e) == 0)
		rig_drop(&r);
}

/* Puts, a fold, puts, a close, an opening, puts. */
static void crash_script(struct sim *s)
{
	struct rig r;
	struct err e;
	unsigned n = 0;

	must_open(&r, s, 0, true);
	for (; n < 4; n++) {
		must_put(&r, n, CRASH_SIZE);
		sim_note(s, n + 1);
	}
	ck_assert_int_eq(log_fold(r.log, &e), 0);
	for (; n < 6; n++) {
		must_put(&r, n, CRASH_SIZE);
		sim_note(s, n + 1);
	}
	must_close(&r);
	must_open(&r, s, 0, true);
	must_put(&r, n, CRASH_SIZE);
	sim_note(s, n + 1);
	rig_drop(&r);
}

START_TEST(survives_a_power_cut_at_every_operation)
{
	struct crash_plan plan = {
		.name = "log", .seed = crash_seed(20240503),
		.exhaustive = crash_long(), .samples = 3,
		.images_max = crash_long() ? 0 : 4,
		.cuts_max = crash_long() ? 0 : 40,
		.second_one_in = crash_long() ? 2 : 40, .second_max = 6,
		.check = check_acked, .recover = recover,
	};
	struct sim *s = fresh(_i == 0 ? 2 : 3);
	struct crash_stats stats = { 0 };
	struct err e;

	sim_record(s);
	crash_script(s);
	sim_record_end(s);
	ck_assert_msg(crash_explore(&plan, s, &stats, &e) == 0, "%s", e.text);
	printf("log: seed %llu, %llu cuts, %llu images, %llu second\n",
	    (unsigned long long)plan.seed, (unsigned long long)stats.cuts,
	    (unsigned long long)stats.images,
	    (unsigned long long)stats.second_images);
	sim_free(s);
}
END_TEST

Suite *raid_log_suite(void);
Suite *raid_log_suite(void)
{
	Suite *s = suite_create("raid/log");
	TCase *t = tcase_create("log");

	tcase_add_test(t, a_new_log_is_empty_and_whole);
	tcase_add_test(t,
	    what_was_appended_comes_back_from_each_member_alone);
	tcase_add_test(t,
	    a_clean_stop_is_known_and_forgotten_by_the_next_opening);
	tcase_add_test(t, the_chain_goes_on_over_many_extents_and_folds);
	tcase_add_test(t, folding_keeps_the_log_within_twice_the_state);
	tcase_add_test(t, deleted_facts_stay_away);
	tcase_add_loop_test(t,
	    a_member_that_fails_leaves_and_nothing_acked_is_lost, 0, 5);
	tcase_add_loop_test(t, a_member_that_fails_in_a_fold_leaves, 0, 7);
	tcase_add_test(t, when_all_members_fail_the_log_stops_for_good);
	tcase_add_test(t, a_member_without_room_leaves_the_log_and_comes_back);
	tcase_add_test(t, a_fold_that_cannot_dump_changes_nothing);
	tcase_add_test(t, a_member_that_joins_gets_the_whole_chain);
	tcase_add_test(t, a_joining_member_that_fails_is_told_and_left_out);
	tcase_add_test(t, positions_of_this_history_are_known_and_no_others);
	tcase_add_test(t, hundreds_of_openings_do_not_outgrow_the_history);
	tcase_add_test(t, scrub_heals_the_copy_that_differs_and_no_other);
	tcase_add_test(t,
	    a_block_lost_on_all_members_is_written_anew_by_a_fold);
	tcase_add_test(t, damaged_superblock_slots_are_told_and_rewritten);
	tcase_add_loop_test(t, survives_a_power_cut_at_every_operation, 0, 2);
	suite_add_tcase(s, t);
	return s;
}
