/*
 * A flush that loses a member is done again without it: what it makes durable
 * has full redundancy, whatever call of the flush the member failed in, and
 * nothing that was given up is ever named.  Method: the member fails at its
 * n-th write or flush of a flush, for every n there is, over several shapes;
 * then each set of p further disks is left away and all frames of that flush
 * are read.
 */
#include "tests/raid/bed.h"

#include <inttypes.h>
#include <stdlib.h>

/* (4,1) (4,2) (5,1) (3,1). */
static const struct bed_shape shapes[] = {
	{ 4, 1 }, { 4, 2 }, { 5, 1 }, { 3, 1 },
};
#define SHAPES 4

static void frame_redo(struct bed *r, struct bed_frame *f)
{
	uint8_t *data = malloc(f->place.size);
	enum seg_class class;
	struct err e;

	e.text[0] = '\0';
	class = (enum seg_class)map_find(&r->a->map,
	    f->place.segment)->s.class;
	ck_assert_msg(array_redo_read(r->a, &f->place, data, bed_right, f,
	    &e) == ARRAY_READ_OK, "read back: %s", e.text);
	array_use_reserve(r->a, true);
	OK(array_append(r->a, class, data, f->place.size, 512, &f->place, E));
	array_use_reserve(r->a, false);
	free(data);
}

static void redo(struct bed *r)
{
	array_redo_close(r->a);
	for (size_t i = 0; i < r->count; i++)
		if (!r->frames[i].flushed &&
		    array_redo_wants(r->a, r->frames[i].place.segment))
			frame_redo(r, &r->frames[i]);
	array_redo_end(r->a);
}

/* Appends between cut and flush, if `late`. */
static int cut_flush(struct bed *r, bool late, struct flush_result *result)
{
	struct array_cut *c;
	size_t count = r->count;
	int rc;

	OK(array_cut_begin(r->a, &c, E));
	for (size_t i = 0; i < count; i++)
		if (!r->frames[i].flushed) {
			r->frames[i].place.last = 0;
			array_cut_finish(c, &r->frames[i].place);
		}
	array_cut_end(c);
	if (late) {
		bed_append(r, SEG_DATA, 300000);
		bed_append(r, SEG_META, 5000);
	}
	OK((rc = array_flush_or_redo(r->a, c, result, E)) < 0 ? -1 : 0);
	for (size_t i = 0; i < count && rc == 0; i++)
		r->frames[i].flushed = true;
	return rc;
}

/* How often it was done again. */
static unsigned flush_redo(struct bed *r, bool late,
    struct flush_result *result)
{
	unsigned n = 0;

	while (cut_flush(r, late && n == 0, result) == 1) {
		redo(r);
		ck_assert_uint_le(++n, 4);
	}
	return n;
}

/* Frames from `first` on are read without `gone` and any p others. */
static void check_losing(struct bed *r, size_t first, unsigned gone)
{
	unsigned disks = sim_disks(r->sim);

	for (uint64_t set = 0; set < UINT64_C(1) << disks; set++) {
		struct bed *c;

		if ((set >> gone & 1) != 0 ||
		    (unsigned)__builtin_popcountll(set) != r->parity)
			continue;
		c = bed_clone(r);
		for (size_t i = 0; i < first; i++)
			c->frames[i].freed = true;	/* not looked at */
		OK(bed_open(c, set | UINT64_C(1) << gone, false, E));
		bed_check(c);
		bed_free(c);
	}
}

/* One flush with a member that dies at its n-th call of this kind.  False
 * when it had fewer. */
static bool dies_at(const struct bed_shape *shape, unsigned op, uint64_t nth)
{
	struct bed *r = bed_new(shape->disks, shape->parity, BED_DISK);
	unsigned disk = (unsigned)(nth % shape->disks), again, fault;
	struct flush_result result;
	struct sim_fault f = { .kind = SIM_ERROR, .disk = disk, .ops = op,
		.nth = nth };
	bool fired;
	size_t first;

	bed_fill(r, 2, 4, 200000);
	first = r->count;
	fault = sim_arm(r->sim, &f);
	for (unsigned i = 0; i < 3; i++) {
		bed_append(r, SEG_DATA, 700000);
		bed_append(r, SEG_META, 20000);
	}
	again = flush_redo(r, true, &result);
	fired = sim_fired(r->sim, fault) > 0;
	ck_assert(again == 0 || !result.reduced);
	ck_assert(fired || !result.reduced);
	bed_check(r);
	/* One that failed at the log is told of; strips are done again. */
	if (fired && !result.reduced)
		check_losing(r, first, disk);
	if (!fired)
		sim_disarm(r->sim);
	flush_redo(r, false, &result);
	ck_assert(!result.reduced);
	if (fired)
		check_losing(r, r->count - 2, disk);
	if (nth % 3 == 0)
		bed_crash(r, UINT64_C(1) << disk);
	else
		bed_reopen(r, UINT64_C(1) << disk);
	bed_check(r);
	bed_free(r);
	return fired;
}

START_TEST(a_member_that_fails_in_a_flush_costs_nothing)
{
	uint64_t nth, flushes;

	for (nth = 1; dies_at(&shapes[_i], SIM_WRITE, nth); nth++)
		;
	ck_assert_uint_gt(nth, 4);
	for (flushes = 1; dies_at(&shapes[_i], SIM_FLUSH, flushes); flushes++)
		;
	ck_assert_uint_gt(flushes, 1);
}
END_TEST

START_TEST(with_too_few_members_it_is_told)
{
	struct bed *r = bed_new(2, 1, BED_DISK);
	struct flush_result result;

	bed_append(r, SEG_DATA, 100000);
	sim_drop(r->sim, 1);
	ck_assert_uint_eq(flush_redo(r, false, &result), 0);
	ck_assert(result.reduced);
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(without_room_it_is_told)
{
	struct bed *r = bed_new(3, 1, BED_DISK);
	struct flush_result result;
	struct err e;

	while (bed_try_append(r, SEG_DATA, 1000000, &e) == 0)
		if (array_unflushed(r->a) > 20000000)
			bed_flush(r);
	ck_assert_int_eq(e.code, ERR_NO_SPACE);
	sim_drop(r->sim, 2);
	ck_assert_uint_eq(flush_redo(r, false, &result), 0);
	ck_assert(result.reduced);
	bed_check(r);
	bed_free(r);
}
END_TEST

/* What was given up is not named: rows of old segments end where they did. */
START_TEST(old_segments_end_at_their_durable_end)
{
	struct bed *r = bed_new(4, 1, BED_DISK);
	struct flush_result result;
	struct seg_state was, is;
	uint64_t free_was, free_is;
	struct array_info info;

	bed_append(r, SEG_DATA, 300000);
	bed_flush(r);
	was = bed_state(r, r->frames[0].place.segment);
	array_info(r->a, &info);
	free_was = info.free_bytes;
	bed_append(r, SEG_DATA, 3000000 / 4);
	bed_append(r, SEG_META, 3000);
	sim_drop(r->sim, 1);
	ck_assert_uint_eq(flush_redo(r, false, &result), 1);
	ck_assert(!result.reduced);
	is = bed_state(r, was.id);
	ck_assert_uint_eq(is.rows, was.rows);
	ck_assert(is.sealed);
	for (unsigned i = 0; i < is.width; i++)
		ck_assert_uint_eq(is.absent_from[i], UINT32_MAX);
	ck_assert_uint_ne(r->frames[1].place.segment, was.id);
	/* The metadata segment that no record names is free again. */
	for (size_t i = 0; i < r->a->map.count; i++)
		ck_assert(r->a->map.segs[i]->durable);
	array_info(r->a, &info);
	free_is = info.free_bytes;
	ck_assert_uint_lt(free_is, free_was);
	bed_check(r);
	bed_crash(r, UINT64_C(1) << 1);
	bed_check(r);
	bed_free(r);
}
END_TEST

/* Two members, one after the other: (4,1) ends as a mirror. */
START_TEST(members_may_fail_one_after_the_other)
{
	struct bed *r = bed_new(4, 1, BED_DISK);
	struct flush_result result;
	size_t first;

	bed_append(r, SEG_DATA, 500000);
	sim_drop(r->sim, 3);
	ck_assert_uint_eq(flush_redo(r, false, &result), 1);
	first = r->count;
	bed_append(r, SEG_DATA, 600000);
	bed_append(r, SEG_META, 600000);
	sim_drop(r->sim, 0);
	ck_assert_uint_eq(flush_redo(r, true, &result), 1);
	ck_assert(!result.reduced);
	ck_assert_uint_eq(bed_state(r, r->frames[first].place.segment).width,
	    2);
	bed_check(r);
	bed_free(r);
}
END_TEST

/* The power goes at this write or flush of a redo. */
static void check_cut_at(struct bed *r, size_t i, size_t before, bool kept)
{
	struct bed *c = bed_clone(r);
	uint64_t acked;

	sim_free(c->sim);
	c->sim = sim_recorded(r->sim, i);
	acked = sim_noted(c->sim);
	if (kept)
		sim_power_cut_all_kept(c->sim);
	else
		sim_power_cut_all_lost(c->sim);
	for (size_t k = before; k < c->count; k++)
		c->frames[k].freed = acked == 0;	/* or may be there */
	OK(bed_open(c, 0, false, E));
	bed_check(c);
	bed_append(c, SEG_DATA, 100000);
	bed_append(c, SEG_META, 100000);
	bed_flush(c);
	bed_check(c);
	bed_free(c);
}

/* The member that failed is there again after the crash. */
START_TEST(the_power_may_go_at_any_moment_of_it)
{
	struct bed *r = bed_new(4, 1, BED_DISK);
	struct sim_fault f = { .kind = SIM_ERROR, .disk = 2,
		.ops = SIM_WRITE | SIM_FLUSH, .nth = 1 + (uint64_t)_i };
	struct flush_result result;
	size_t before;

	bed_fill(r, 2, 4, 100000);
	before = r->count;
	bed_append(r, SEG_DATA, 700000);
	bed_append(r, SEG_META, 20000);
	sim_arm(r->sim, &f);
	sim_note(r->sim, 0);
	sim_record(r->sim);
	ck_assert_uint_eq(flush_redo(r, false, &result), 1);
	ck_assert(!result.reduced);
	sim_note(r->sim, 1);
	sim_record_end(r->sim);
	sim_disarm(r->sim);
	ck_assert_uint_gt(sim_records(r->sim), 20);
	for (size_t i = 0; i < sim_records(r->sim); i++) {
		check_cut_at(r, i, before, false);
		check_cut_at(r, i, before, true);
	}
	sim_record_clear(r->sim);
	bed_free(r);
}
END_TEST

Suite *raid_redo_suite(void);
Suite *raid_redo_suite(void)
{
	Suite *s = suite_create("redo");
	TCase *tc = tcase_create("redo");

	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, a_member_that_fails_in_a_flush_costs_nothing,
	    0, SHAPES);
	tcase_add_loop_test(tc, the_power_may_go_at_any_moment_of_it, 0, 3);
	tcase_add_test(tc, with_too_few_members_it_is_told);
	tcase_add_test(tc, without_room_it_is_told);
	tcase_add_test(tc, old_segments_end_at_their_durable_end);
	tcase_add_test(tc, members_may_fail_one_after_the_other);
	suite_add_tcase(s, tc);
	return s;
}
