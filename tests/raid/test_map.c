/*
 * The segment map: its records, its order, and what a replay makes of them.
 * Method: round trips, every field out of its bounds, ids added in any order.
 */
#include "raid/map.h"

#include <check.h>
#include <string.h>

static struct seg_state sample(uint64_t id)
{
	struct seg_state s = { .id = id, .nonce = 5, .used_bytes = 1 << 20,
		.frame_bytes = 1 << 19, .birth_flush = 3, .last_flush = 4,
		.rows = 130, .class = SEG_META, .width = 3, .parity = 1,
		.sealed = true, .member = { 0, 2, 1 }, .extent = { 7, 8, 9 },
		.table = { .segment = id, .row = 65, .size = 100, .last = 2 } };

	memset(s.absent_from, 0xff, sizeof(s.absent_from));
	s.absent_from[1] = 65;
	return s;
}

static void add(struct map *m, const struct seg_state *s)
{
	uint8_t raw[REC_SEGMENT_MAX];
	uint64_t last_free = 0;
	struct err e;

	ck_assert_int_eq(map_replay(m, REC_SEGMENT, raw,
	    rec_segment_put(raw, s), 1, &last_free, &e), 0);
}

START_TEST(records_are_read_back)
{
	uint8_t raw[REC_SEGMENT_MAX], again[REC_SEGMENT_MAX];
	struct seg_state s = sample(9), got;
	size_t n = rec_segment_put(raw, &s);
	struct err e;

	ck_assert_uint_eq(n, 80 + 3 * 12);
	ck_assert_int_eq(rec_segment_get(&got, raw, n, &e), 0);
	ck_assert(got.sealed);
	ck_assert_uint_eq(got.absent_from[1], 65);
	ck_assert_uint_eq(rec_segment_put(again, &got), n);
	ck_assert_mem_eq(raw, again, n);
	for (size_t cut = 0; cut < n; cut++)
		ck_assert_int_eq(rec_segment_get(&got, raw, cut, &e), -1);
}
END_TEST

static const struct {
	size_t at;
	uint8_t value;
} out_of_bounds[] = {
	{ 0, 0 }, { 5, 1 }, { 16, 2 }, { 17, 0 }, { 17, 17 }, { 17, 2 },
	{ 18, 3 }, { 19, 2 }, { 23, 1 }, { 79, 1 }, { 80, 64 }, { 80, 2 },
	{ 81, 1 },
};

START_TEST(records_out_of_bounds_are_refused)
{
	uint8_t raw[REC_SEGMENT_MAX];
	struct seg_state s = sample(9), got = { .id = 77 };
	size_t n = rec_segment_put(raw, &s);
	struct err e;

	raw[out_of_bounds[_i].at] = out_of_bounds[_i].value;
	ck_assert_int_eq(rec_segment_get(&got, raw, n, &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	ck_assert_uint_eq(got.id, 77);
}
END_TEST

START_TEST(keeps_ids_in_order)
{
	static const uint64_t ids[] = { 5, 1, 9, 3, 7, 100, 2 };
	struct map m;
	struct seg *s;
	struct err e;

	map_init(&m);
	for (size_t i = 0; i < 7; i++)
		ck_assert_int_eq(map_add(&m, ids[i], &s, &e), 0);
	ck_assert_int_eq(map_add(&m, 9, &s, &e), -1);
	ck_assert_int_eq(e.code, ERR_EXISTS);
	for (size_t i = 1; i < m.count; i++)
		ck_assert_uint_lt(m.segs[i - 1]->s.id, m.segs[i]->s.id);
	ck_assert_uint_eq(map_after(&m, 4), 3);
	ck_assert_ptr_null(map_find(&m, 4));
	map_drop(&m, map_find(&m, 5));
	ck_assert_ptr_null(map_find(&m, 5));
	ck_assert_ptr_nonnull(map_find(&m, 7));
	map_release(&m);
}
END_TEST

START_TEST(replays_moves_frees_and_verifies)
{
	struct seg_state s = sample(4);
	uint8_t raw[64];
	uint64_t last_free = 0;
	struct map m;
	struct err e;

	map_init(&m);
	add(&m, &s);
	rec_moved_put(raw, &(struct rec_moved){ 4, 55, 1, 6 });
	ck_assert_int_eq(map_replay(&m, REC_SEGMENT_MOVED, raw,
	    REC_MOVED_SIZE, 2, &last_free, &e), 0);
	ck_assert_uint_eq(map_find(&m, 4)->s.member[1], 6);
	ck_assert_uint_eq(map_find(&m, 4)->s.extent[1], 55);
	ck_assert_uint_eq(map_find(&m, 4)->s.absent_from[1], ROW_NONE);
	rec_verified_put(raw, &(struct rec_verified){ 4, 1234 });
	rec_verified_put(raw + 16, &(struct rec_verified){ 5, 1 });
	ck_assert_int_eq(map_replay(&m, REC_SEGMENT_VERIFIED, raw, 32, 3,
	    &last_free, &e), 0);
	ck_assert_uint_eq(map_find(&m, 4)->s.verified_s, 1234);
	rec_moved_put(raw, &(struct rec_moved){ 4, 55, 3, 6 });
	ck_assert_int_eq(map_replay(&m, REC_SEGMENT_MOVED, raw,
	    REC_MOVED_SIZE, 4, &last_free, &e), -1);
	rec_u64_put(raw, 4);
	ck_assert_int_eq(map_replay(&m, REC_SEGMENT_FREED, raw, 8, 5,
	    &last_free, &e), 0);
	ck_assert_uint_eq(last_free, 5);
	ck_assert_int_eq(map_replay(&m, REC_SEGMENT_FREED, raw, 8, 6,
	    &last_free, &e), -1);
	ck_assert_int_eq(map_replay(&m, 199, raw, 8, 7, &last_free, &e), -1);
	ck_assert_int_eq(e.code, ERR_VERSION);
	map_release(&m);
}
END_TEST

Suite *raid_map_suite(void);
Suite *raid_map_suite(void)
{
	Suite *s = suite_create("map");
	TCase *t = tcase_create("records");

	tcase_add_test(t, records_are_read_back);
	tcase_add_loop_test(t, records_out_of_bounds_are_refused, 0,
	    sizeof(out_of_bounds) / sizeof(out_of_bounds[0]));
	tcase_add_test(t, keeps_ids_in_order);
	tcase_add_test(t, replays_moves_frees_and_verifies);
	suite_add_tcase(s, t);
	return s;
}
