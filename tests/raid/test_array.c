/*
 * The array as a whole: what was flushed is read back, by whoever opens it
 * later, with any p members away.  Method: seeded frames of all sizes in both
 * classes over all geometries; reopen cleanly, after a power cut, and without
 * each set of p disks.
 */
#include "tests/raid/bed.h"

#include <stdlib.h>

START_TEST(reads_back_what_was_flushed)
{
	struct bed *r = bed_new_shape(_i);

	bed_fill(r, 4, 12, 300000);
	bed_append(r, SEG_DATA, RAID_FRAME_MAX);
	bed_append(r, SEG_DATA, 1);
	bed_flush(r);
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(opens_without_any_p_members)
{
	struct bed *r = bed_new_shape(_i);

	bed_fill(r, 3, 10, 400000);
	bed_close(r);
	bed_check_losing_any(r);
	bed_free(r);
}
END_TEST

START_TEST(goes_on_in_the_same_segment_after_a_clean_stop)
{
	struct bed *r = bed_new_shape(_i);
	uint64_t id;

	bed_append(r, SEG_DATA, 50000);
	bed_flush(r);
	id = r->frames[0].place.segment;
	bed_reopen(r, 0);
	bed_append(r, SEG_DATA, 50000);
	ck_assert_uint_eq(r->frames[1].place.segment, id);
	ck_assert_uint_gt(r->frames[1].place.row, r->frames[0].place.row);
	bed_flush(r);
	bed_reopen(r, 0);
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(seals_after_a_crash_what_was_open)
{
	struct bed *r = bed_new_shape(_i);
	struct segment_info info;
	uint64_t id;

	bed_append(r, SEG_DATA, 50000);
	bed_flush(r);
	id = r->frames[0].place.segment;
	bed_append(r, SEG_DATA, RAID_FRAME_MAX);	/* not flushed */
	bed_crash(r, 0);
	OK(array_segment(r->a, id, &info, E));
	ck_assert(info.sealed);
	bed_append(r, SEG_DATA, 50000);
	ck_assert_uint_gt(r->frames[1].place.segment, id);
	bed_flush(r);
	bed_crash(r, 0);
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(a_stop_with_unflushed_rows_seals_the_segment)
{
	struct bed *r = bed_new(3, 1, BED_DISK);
	struct segment_info info;

	bed_append(r, SEG_DATA, 50000);
	bed_flush(r);
	bed_append(r, SEG_DATA, RAID_FRAME_MAX);
	bed_close(r);
	r->count = 1;
	OK(bed_open(r, 0, false, E));
	OK(array_segment(r->a, r->frames[0].place.segment, &info, E));
	ck_assert(info.sealed);
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(a_crash_while_degraded_needs_nobody)
{
	struct bed *r = bed_new_shape(_i);

	bed_fill(r, 2, 8, 200000);
	bed_append(r, SEG_DATA, RAID_FRAME_MAX);
	bed_crash(r, 1);
	bed_check(r);
	bed_fill(r, 1, 4, 100000);
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(reports_as_free_what_can_be_written)
{
	static const unsigned sizes[][4] = {
		{ 54, 54, 54, 54 }, { 50, 50, 100, 100 }, { 50, 60, 70, 150 },
		{ 48, 48, 48, 300 },
	};
	/* The other half of the eight cases with BK_LONG. */
	bool odd = (_i / 2 + _i) % 2 != 0;
	struct bed *r;
	const size_t frame = 60000;
	struct array_info before, after;
	uint64_t written = 0;
	struct flush_result result;
	struct err e;

	if (odd && !getenv("BK_LONG"))
		return;
	r = bed_new_mixed(sizes[_i / 2], 4, 1 + (unsigned)_i % 2);
	array_info(r->a, &before);
	while (bed_try_append(r, SEG_DATA, frame, &e) == 0) {
		written += frame;
		if (array_unflushed(r->a) > 16 << 20)
			bed_flush(r);
	}
	ck_assert_int_eq(e.code, ERR_NO_SPACE);
	OK(bed_try_flush(r, false, &result, E));
	array_info(r->a, &after);
	/* Within one stripe of each segment. */
	ck_assert_uint_le(written, before.free_bytes);
	ck_assert_uint_ge(written + after.segments * 3 * RAID_STRIP_MAX,
	    before.free_bytes);
	ck_assert_uint_lt(after.free_bytes, 3 * (2u << 20));
	array_use_reserve(r->a, true);
	bed_append(r, SEG_DATA, frame);
	bed_flush(r);
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(gives_freed_segments_back)
{
	struct bed *r = bed_new(3, 1, BED_DISK);
	struct array_info before, after;
	struct segment_info info;
	struct err e;

	array_info(r->a, &before);
	bed_append(r, SEG_DATA, 300000);
	bed_seal(r);
	bed_free_segment(r, r->frames[0].place.segment);
	array_info(r->a, &after);
	ck_assert_uint_eq(before.free_bytes, after.free_bytes);
	ck_assert_uint_eq(after.segments, 0);
	ck_assert_int_eq(array_segment(r->a, r->frames[0].place.segment,
	    &info, &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	r->frames[0].freed = false;
	ck_assert_uint_eq(bed_count(r, ARRAY_READ_FREED), 1);
	ck_assert_uint_eq(array_last_free_flush(r->a), after.flush);
	bed_reopen(r, 0);
	ck_assert_uint_eq(array_last_free_flush(r->a), after.flush);
	bed_free(r);
}
END_TEST

START_TEST(keeps_facts_and_positions)
{
	struct bed *r = bed_new(3, 1, BED_DISK);
	struct array_position p, later;
	struct flush_result result;
	struct array_cut *c;
	uint8_t *value;
	size_t size;

	OK(array_cut_begin(r->a, &c, E));
	OK(array_cut_kv(c, "a/1", 3, "one", 3, E));
	OK(array_cut_kv(c, "a/2", 3, "two", 3, E));
	OK(array_cut_kv(c, "a/1", 3, NULL, 0, E));
	ck_assert_uint_eq(array_cut_flush(c), log_next_flush(r->a->log));
	OK(array_flush(r->a, c, &result, E));
	array_position(r->a, &p);
	ck_assert_uint_eq(p.flush, result.flush);
	bed_reopen(r, 0);
	OK(array_kv_get(r->a, "a/2", 3, &value, &size, E));
	ck_assert_uint_eq(size, 3);
	ck_assert_mem_eq(value, "two", 3);
	free(value);
	ck_assert(array_position_known(r->a, &p));
	array_position(r->a, &later);
	ck_assert_uint_gt(later.flush, p.flush);
	p.flush += 1000;
	ck_assert(!array_position_known(r->a, &p));
	bed_free(r);
}
END_TEST

Suite *raid_array_suite(void);
Suite *raid_array_suite(void)
{
	Suite *s = suite_create("array");
	TCase *t = tcase_create("life");

	tcase_add_loop_test(t, reads_back_what_was_flushed, 0, BED_SHAPES);
	tcase_add_loop_test(t, opens_without_any_p_members, 0, BED_SHAPES);
	tcase_add_loop_test(t, goes_on_in_the_same_segment_after_a_clean_stop,
	    0, BED_SHAPES);
	tcase_add_loop_test(t, seals_after_a_crash_what_was_open, 0,
	    BED_SHAPES);
	tcase_add_test(t, a_stop_with_unflushed_rows_seals_the_segment);
	tcase_add_loop_test(t, a_crash_while_degraded_needs_nobody, 0,
	    BED_SHAPES);
	tcase_add_loop_test(t, reports_as_free_what_can_be_written, 0, 8);
	tcase_add_test(t, gives_freed_segments_back);
	tcase_add_test(t, keeps_facts_and_positions);
	suite_add_tcase(s, t);
	return s;
}
