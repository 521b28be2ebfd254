/*
 * Which history is taken when the members tell different ones.  Method: halves
 * of an array written apart and brought together again, members that come back
 * late, blocks lost in the middle, flushes that reached some members only; in
 * every order of the members.  F1-F3 of raid/log_load.c.
 */
#include "raid/fmt_log.h"
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

static void must_open(struct rig *r, struct sim *s, uint64_t skip, bool write)
{
	struct err e;

	ck_assert_msg(rig_open(r, s, skip, write, &e) == 0, "%s", e.text);
}

static void must_put(struct rig *r, unsigned n)
{
	struct err e;

	ck_assert_msg(rig_put(r, n, 10, &e) == 0, "put %u: %s", n, e.text);
}

/* One opening without the disks in `skip`, with facts from..to-1. */
static void session(struct sim *s, uint64_t skip, unsigned from, unsigned to)
{
	struct rig r;

	must_open(&r, s, skip, true);
	for (unsigned n = from; n < to; n++)
		must_put(&r, n);
	rig_drop(&r);
}

/* Facts from..to-1 are there, also if the disks come in another order. */
static void must_hold(struct sim *s, unsigned from, unsigned to)
{
	unsigned disks = sim_disks(s), order[SIM_DISKS_MAX];
	struct rig r;
	struct err e;

	for (unsigned turn = 0; turn < disks; turn++) {
		for (unsigned i = 0; i < disks; i++)
			order[i] = (i * (disks - 1) + turn) % disks;
		ck_assert_msg(rig_open_order(&r, s, order, disks, false,
		    &e) == 0, "%s", e.text);
		for (unsigned n = from; n < to; n++)
			ck_assert_msg(rig_has(&r, n), "fact %u", n);
		ck_assert_uint_eq(facts_count(r.facts), to - from);
		rig_drop(&r);
	}
}

static void must_refuse(struct sim *s)
{
	struct rig r;
	struct err e;

	ck_assert_int_eq(rig_open(&r, s, 0, true, &e), -1);
	ck_assert_msg(e.code == ERR_CONFLICT, "%s", e.text);
	ck_assert_ptr_nonnull(strstr(e.text, "diverged"));
	ck_assert_ptr_nonnull(strstr(e.text, "sim:0"));
}

START_TEST(a_member_that_was_away_catches_up)
{
	struct sim *s = fresh(3);
	struct rig r;

	session(s, 0, 0, 5);
	session(s, 4, 5, 10);
	must_hold(s, 0, 10);
	must_open(&r, s, 0, true);
	ck_assert(r.as->members[2]->stale);
	ck_assert(!r.as->members[0]->stale);
	ck_assert_int_eq(r.as->members[2]->state, MEMBER_ACTIVE);
	rig_drop(&r);
	must_open(&r, s, 3, false);	/* now it knows, alone */
	ck_assert_uint_eq(facts_count(r.facts), 10);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(a_member_that_was_away_for_hundreds_of_openings_catches_up)
{
	struct sim *s = fresh(2);

	session(s, 0, 0, 1);
	for (unsigned n = 0; n < 300; n++)
		session(s, 2, n + 1, n + 2);
	must_hold(s, 0, 301);
	session(s, 0, 301, 302);
	must_hold(s, 0, 302);
	sim_free(s);
}
END_TEST

START_TEST(a_stale_member_alone_gives_what_it_knew)
{
	struct sim *s = fresh(2);
	struct rig r;

	session(s, 0, 0, 3);
	session(s, 2, 3, 6);
	must_open(&r, s, 1, false);
	ck_assert_uint_eq(facts_count(r.facts), 3);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(halves_that_were_both_written_are_refused)
{
	struct sim *s = fresh(2);

	session(s, 0, 0, 3);
	session(s, 2, 3, 5);		/* disk 0 alone */
	session(s, 1, 5, 6);		/* disk 1 alone */
	must_refuse(s);
	sim_free(s);
}
END_TEST

START_TEST(halves_that_folded_apart_are_refused)
{
	struct sim *s = fresh(2);
	struct rig r;
	struct err e;

	session(s, 0, 0, 3);
	for (uint64_t skip = 1; skip <= 2; skip++) {
		must_open(&r, s, skip, true);
		must_put(&r, 3);
		ck_assert_int_eq(log_fold(r.log, &e), 0);
		must_put(&r, 4);
		rig_drop(&r);
	}
	must_refuse(s);
	sim_free(s);
}
END_TEST

START_TEST(a_half_that_was_only_opened_gives_way)
{
	struct sim *s = fresh(2);

	session(s, 0, 0, 3);
	session(s, 2, 0, 0);		/* disk 0: epochs only, higher events */
	session(s, 2, 0, 0);
	session(s, 2, 0, 0);
	session(s, 1, 3, 6);		/* disk 1: content */
	must_hold(s, 0, 6);
	session(s, 0, 6, 7);
	must_hold(s, 0, 7);
	sim_free(s);
}
END_TEST

START_TEST(halves_that_were_only_opened_join_again)
{
	struct sim *s = fresh(2);

	session(s, 0, 0, 3);
	session(s, 2, 0, 0);
	session(s, 1, 0, 0);
	must_hold(s, 0, 3);
	session(s, 0, 3, 4);
	must_hold(s, 0, 4);
	sim_free(s);
}
END_TEST

static uint64_t log_at(struct sim *s, unsigned member, uint64_t *end)
{
	uint32_t x[RIG_EXTENTS];
	struct rig r;
	uint64_t at;

	must_open(&r, s, 0, false);
	ck_assert_uint_eq(log_extents(r.log, member, x, RIG_EXTENTS), 1);
	at = member_extent_offset(r.as->members[member], x[0]);
	*end = at + log_bytes(r.log);
	rig_drop(&r);
	return at;
}

/* The flush of fact n reaches disk 0 only; nobody is told that it was acked. */
static void unacked_on_disk_0(struct sim *s, unsigned n)
{
	struct sim *before;
	struct rig r;

	must_open(&r, s, 0, true);
	before = sim_clone(s);
	must_put(&r, n);
	rig_drop(&r);
	sim_stale(s, 1, 0, RIG_DISK, before);
	sim_free(before);
}

START_TEST(a_whole_flush_on_one_member_is_taken_over)
{
	struct sim *s = fresh(2);

	session(s, 0, 0, 3);
	unacked_on_disk_0(s, 3);
	must_hold(s, 0, 4);
	session(s, 0, 4, 5);
	must_hold(s, 0, 5);
	sim_free(s);
}
END_TEST

START_TEST(what_was_never_acked_gives_way_to_what_was)
{
	struct sim *s = fresh(2);
	struct rig r;
	struct err e;

	session(s, 0, 0, 3);
	unacked_on_disk_0(s, 100);
	session(s, 1, 3, 5);		/* disk 1 goes on without it */
	must_hold(s, 0, 5);
	ck_assert_msg(rig_open(&r, s, 0, true, &e) == 0, "%s", e.text);
	ck_assert_ptr_nonnull(strstr(r.warned, "never acknowledged"));
	rig_drop(&r);
	must_hold(s, 0, 5);
	sim_free(s);
}
END_TEST

/*
 * A flush of six blocks that disk 0 has whole, and disk 2, which had to hold
 * it, has not (_i = 0) or only by its END (_i = 1).  Disk 1 goes on alone, so
 * there is no witness in its log.
 */
START_TEST(what_a_present_member_lacks_was_never_acked)
{
	struct sim *s = fresh(3), *before;
	uint8_t block[LOG_BLOCK];
	uint64_t at, end;
	struct rig r;
	struct err e;

	session(s, 0, 0, 3);
	must_open(&r, s, 2, true);
	before = sim_clone(s);
	ck_assert_int_eq(rig_put(&r, 100, 20000, &e), 0);
	rig_drop(&r);
	at = log_at(s, 2, &end);
	sim_peek(s, 2, end - LOG_BLOCK, block, sizeof(block));
	sim_stale(s, 2, at, end - at, before);
	if (_i == 1)
		sim_poke(s, 2, end - LOG_BLOCK, block, sizeof(block));
	session(s, 5, 3, 5);
	must_hold(s, 0, 5);
	sim_free(before);
	sim_free(s);
}
END_TEST

START_TEST(a_witness_that_is_away_speaks_through_the_log)
{
	struct sim *s = fresh(3), *before;
	struct rig r;

	session(s, 0, 0, 3);
	must_open(&r, s, 1, true);	/* disks 1 and 2 */
	before = sim_clone(s);
	must_put(&r, 100);		/* reaches disk 2 only */
	rig_drop(&r);
	sim_stale(s, 1, 0, RIG_DISK, before);
	sim_free(before);
	session(s, 4, 3, 5);		/* disks 0 and 1 */
	must_open(&r, s, 2, true);	/* disks 0 and 2 */
	ck_assert(rig_has(&r, 4) && !rig_has(&r, 100));
	rig_drop(&r);
	must_hold(s, 0, 5);
	sim_free(s);
}
END_TEST

START_TEST(a_witness_does_not_hide_what_was_acked_without_it)
{
	struct sim *s = fresh(3);

	session(s, 0, 0, 3);
	session(s, 1, 3, 4);		/* disks 1 and 2 */
	session(s, 3, 4, 5);		/* disk 2 alone */
	session(s, 4, 5, 6);		/* disks 0 and 1: did not see it */
	session(s, 4, 6, 7);
	must_refuse(s);
	sim_free(s);
}
END_TEST

START_TEST(a_flush_acked_after_a_member_was_lost_never_gives_way)
{
	struct sim *s = fresh(2);
	struct sim_fault f = { .kind = SIM_ERROR, .disk = 1, .ops = SIM_WRITE };
	struct rig r;

	must_open(&r, s, 0, true);
	must_put(&r, 0);
	sim_arm(s, &f);
	must_put(&r, 1);	/* acked by disk 0 alone */
	rig_drop(&r);
	sim_disarm(s);
	session(s, 1, 2, 3);	/* disk 1 does not know, and goes on */
	must_refuse(s);
	sim_free(s);
}
END_TEST

START_TEST(each_member_may_lack_other_blocks)
{
	struct sim *s = fresh(3);
	uint64_t at, end;

	session(s, 0, 0, 60);
	for (unsigned i = 0; i < 3; i++) {
		at = log_at(s, i, &end);
		for (uint64_t b = i; at + b * LOG_BLOCK < end; b += 3)
			sim_zero(s, i, at + b * LOG_BLOCK, LOG_BLOCK);
	}
	must_hold(s, 0, 60);
	session(s, 0, 60, 61);
	must_hold(s, 0, 61);
	sim_free(s);
}
END_TEST

START_TEST(a_hole_on_all_members_opens_for_reading_only)
{
	struct sim *s = fresh(2);
	uint64_t at, end;
	struct rig r;
	struct err e;

	session(s, 0, 0, 20);
	for (unsigned i = 0; i < 2; i++) {
		at = log_at(s, i, &end);
		sim_zero(s, i, end - 5 * LOG_BLOCK, LOG_BLOCK);
	}
	must_open(&r, s, 0, false);
	ck_assert(r.pos.damaged_tail);
	ck_assert_uint_eq(facts_count(r.facts), 15);
	ck_assert_ptr_nonnull(strstr(r.warned, "damaged"));
	rig_drop(&r);
	ck_assert_int_eq(rig_open(&r, s, 0, true, &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	(void)at;
	sim_free(s);
}
END_TEST

START_TEST(a_torn_last_flush_is_no_damage)
{
	struct sim *s = fresh(2);
	uint64_t at, end;

	session(s, 0, 0, 20);
	for (unsigned i = 0; i < 2; i++) {
		at = log_at(s, i, &end);
		sim_zero(s, i, end - LOG_BLOCK, 512);
	}
	must_hold(s, 0, 19);
	session(s, 0, 19, 25);
	must_hold(s, 0, 25);
	(void)at;
	sim_free(s);
}
END_TEST

START_TEST(unreadable_sectors_hide_one_block_each)
{
	struct sim *s = fresh(2);
	uint64_t at, end;

	session(s, 0, 0, 20);
	at = log_at(s, 0, &end);
	sim_unreadable(s, 0, at, LOG_BLOCK);
	sim_unreadable(s, 0, at + 6 * LOG_BLOCK, LOG_BLOCK);
	at = log_at(s, 1, &end);
	sim_unreadable(s, 1, at + 7 * LOG_BLOCK, LOG_BLOCK);
	must_hold(s, 0, 20);
	sim_free(s);
}
END_TEST

START_TEST(a_member_that_hangs_does_not_keep_the_others_from_opening)
{
	struct sim *s = fresh(3);
	struct sim_fault f = { .kind = SIM_HANG, .disk = 1, .ops = SIM_READ,
		.nth = 5 };	/* after the superblocks */
	struct rig r;
	struct err e;

	session(s, 0, 0, 5);
	sim_arm(s, &f);
	ck_assert_msg(rig_open(&r, s, 0, false, &e) == 0, "%s", e.text);
	ck_assert_uint_eq(facts_count(r.facts), 5);
	sim_release(s);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(no_whole_log_is_said)
{
	struct sim *s = fresh(2);
	uint64_t at, end;
	struct rig r;
	struct err e;

	for (unsigned i = 0; i < 2; i++) {
		at = log_at(s, i, &end);
		sim_garbage(s, i, at, 65536, 7);
	}
	ck_assert_int_eq(rig_open(&r, s, 0, false, &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	sim_free(s);
}
END_TEST

/*
 * Seeded lives of three members: each session takes some of them, writes, and
 * may end by a power cut that keeps or loses what was not flushed.  As long as
 * two of three are always there, no two sessions are disjoint, so no open may
 * ever be refused, and all that was acked must be there.
 */
static unsigned lived_session(struct sim *s, uint64_t *state, unsigned count)
{
	uint64_t draw = sim_random(state);
	uint64_t skip = draw % 4 == 3 ? 0 : UINT64_C(1) << draw % 4;
	unsigned puts = (unsigned)(draw >> 8) % 4;
	struct rig r;
	struct err e;

	if ((draw >> 16) % 3 == 0)
		sim_crash_at(s, 1 + (draw >> 24) % 20);
	if (rig_open(&r, s, skip, true, &e) != 0) {
		ck_assert_msg(sim_crashed(s), "%s", e.text);
	} else {
		ck_assert_uint_ge(facts_count(r.facts), count);
		count = (unsigned)facts_count(r.facts);
		for (unsigned i = 0; i < puts; i++) {
			if (rig_put(&r, count, 10, &e) != 0)
				break;
			count++;
		}
		if ((draw >> 40) % 8 == 0 && !sim_crashed(s))
			ck_assert(log_fold(r.log, &e) == 0 || sim_crashed(s));
		rig_drop(&r);
	}
	if ((draw >> 48) % 2)
		sim_power_cut_all_lost(s);
	else
		sim_power_cut_all_kept(s);
	return count;
}

START_TEST(seeded_lives_never_lose_and_are_never_refused)
{
	uint64_t state = 20240503u + (uint64_t)_i;
	struct sim *s = fresh(3);
	unsigned count = 0;

	for (unsigned n = 0; n < 60; n++)
		count = lived_session(s, &state, count);
	sim_free(s);
}
END_TEST

Suite *raid_log_load_suite(void);
Suite *raid_log_load_suite(void)
{
	Suite *s = suite_create("raid/log_load");
	TCase *t = tcase_create("histories");

	tcase_add_test(t, a_member_that_was_away_catches_up);
	tcase_add_test(t,
	    a_member_that_was_away_for_hundreds_of_openings_catches_up);
	tcase_add_test(t, a_stale_member_alone_gives_what_it_knew);
	tcase_add_test(t, halves_that_were_both_written_are_refused);
	tcase_add_test(t, halves_that_folded_apart_are_refused);
	tcase_add_test(t, a_half_that_was_only_opened_gives_way);
	tcase_add_test(t, halves_that_were_only_opened_join_again);
	tcase_add_test(t, a_whole_flush_on_one_member_is_taken_over);
	tcase_add_test(t, what_was_never_acked_gives_way_to_what_was);
	tcase_add_loop_test(t, what_a_present_member_lacks_was_never_acked,
	    0, 2);
	tcase_add_test(t, a_witness_that_is_away_speaks_through_the_log);
	tcase_add_test(t, a_witness_does_not_hide_what_was_acked_without_it);
	tcase_add_test(t,
	    a_flush_acked_after_a_member_was_lost_never_gives_way);
	tcase_add_test(t, each_member_may_lack_other_blocks);
	tcase_add_test(t, a_hole_on_all_members_opens_for_reading_only);
	tcase_add_test(t, a_torn_last_flush_is_no_damage);
	tcase_add_test(t, unreadable_sectors_hide_one_block_each);
	tcase_add_test(t,
	    a_member_that_hangs_does_not_keep_the_others_from_opening);
	tcase_add_test(t, no_whole_log_is_said);
	tcase_add_loop_test(t,
	    seeded_lives_never_lose_and_are_never_refused, 0,
	    crash_long() ? 400 : 40);
	suite_add_tcase(s, t);
	return s;
}
