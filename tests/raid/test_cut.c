/*
 * Cuts: places are complete, the last stripe is what was foretold, appends of
 * the next flush keep apart, and all of it holds while others read, scan, heal
 * and append at once.  Method: seeded sizes; a storm of threads on one array
 * with bits flipped under it.
 */
#include "tests/raid/bed.h"

#include "raid/segment.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

START_TEST(foretells_the_last_stripe)
{
	struct bed *r = bed_new_shape(_i);
	uint8_t *table = calloc(1, 100000);
	uint64_t seed = 3;

	for (unsigned round = 0; round < 12; round++) {
		size_t size = 1 + sim_random(&seed) % 90000, i = 0;
		struct flush_result result;
		struct array_cut *c;
		struct place p, last;
		uint64_t segment;
		uint32_t row;
		uint8_t units;

		OK(array_append(r->a, SEG_DATA, table, 1 + sim_random(&seed) %
		    100000, 100000, &p, E));
		OK(array_cut_begin(r->a, &c, E));
		ck_assert(array_cut_next(c, &i, &segment));
		ck_assert_uint_eq(segment, p.segment);
		array_cut_last(c, segment, size, &row, &units);
		array_cut_finish(c, &p);
		OK(array_cut_table(c, segment, table, size, &last, E));
		ck_assert_uint_eq(last.last, units);
		ck_assert(!array_cut_next(c, &i, &segment));
		array_cut_end(c);
		OK(array_flush(r->a, c, &result, E));
		/* The segment goes on just behind that stripe. */
		ck_assert_uint_eq(bed_state(r, p.segment).rows,
		    row + 1u + units);
		ck_assert_uint_eq(bed_state(r, p.segment).table.row,
		    last.row);
	}
	free(table);
	bed_free(r);
}
END_TEST

START_TEST(keeps_room_for_what_was_reserved)
{
	struct bed *r = bed_new(3, 1, BED_DISK);
	struct segment_info info;
	size_t tables = 0;
	uint64_t id = 0;

	for (unsigned i = 0; i < 200; i++) {
		bed_append(r, SEG_DATA, 40000);
		if (i % 7 == 6)
			bed_flush(r);	/* its tables fit, or the test ends */
	}
	bed_flush(r);
	while (array_segments(r->a, id, &id, 1) == 1) {
		OK(array_segment(r->a, id, &info, E));
		tables += info.table.size > 0;
		ck_assert_uint_le(info.frame_bytes, info.used_bytes);
		ck_assert_uint_le(info.used_bytes, info.capacity);
	}
	ck_assert_uint_ge(tables, 2);
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(takes_appends_between_cut_and_flush)
{
	struct bed *r = bed_new(4, 1, BED_DISK);
	struct flush_result result;
	struct array_cut *c;

	bed_append(r, SEG_DATA, 100000);
	OK(array_cut_begin(r->a, &c, E));
	array_cut_finish(c, &r->frames[0].place);
	array_cut_end(c);
	bed_append(r, SEG_DATA, 100000);
	ck_assert_uint_eq(r->frames[1].place.segment,
	    r->frames[0].place.segment);
	ck_assert_uint_gt(r->frames[1].place.row, r->frames[0].place.row);
	OK(array_flush(r->a, c, &result, E));
	r->frames[0].flushed = true;
	ck_assert_uint_eq(array_unflushed(r->a), 100000);
	bed_check(r);
	bed_flush(r);
	bed_crash(r, 0);
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(does_not_free_what_is_open_or_twice)
{
	struct bed *r = bed_new(3, 1, BED_DISK);
	struct flush_result result;
	struct array_cut *c;
	struct err e;

	bed_append(r, SEG_DATA, 1000);
	bed_flush(r);
	OK(array_cut_begin(r->a, &c, E));
	ck_assert_int_eq(array_cut_free(c, r->frames[0].place.segment, &e),
	    -1);
	ck_assert_int_eq(e.code, ERR_BUSY);
	ck_assert_int_eq(array_cut_free(c, 999, &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	array_cut_seal_all(c);
	OK(array_flush(r->a, c, &result, E));
	OK(array_cut_begin(r->a, &c, E));
	OK(array_cut_free(c, r->frames[0].place.segment, E));
	ck_assert_int_eq(array_cut_free(c, r->frames[0].place.segment, &e),
	    -1);
	ck_assert_int_eq(e.code, ERR_EXISTS);
	OK(array_flush(r->a, c, &result, E));
	bed_free(r);
}
END_TEST

START_TEST(extents_wait_for_the_last_lease)
{
	struct bed *r = bed_new(3, 1, BED_DISK);
	struct array_info before, after;
	struct seg_state g;
	uint64_t id;

	array_info(r->a, &before);
	bed_append(r, SEG_DATA, 1000);
	bed_seal(r);
	id = r->frames[0].place.segment;
	ck_assert(seg_lease(r->a, id, &g));
	bed_free_segment(r, id);
	ck_assert(!seg_lease(r->a, id, &g));
	array_info(r->a, &after);
	ck_assert_uint_lt(after.free_bytes, before.free_bytes);
	seg_lease_end(r->a, id);
	array_info(r->a, &after);
	ck_assert_uint_eq(after.free_bytes, before.free_bytes);
	bed_free(r);
}
END_TEST

/* ---- a storm --------------------------------------------------------- */

struct storm {
	struct bed *r;
	atomic_bool end;
	size_t known;		/* frames that may be read */
	pthread_mutex_t lock;
};

static void *storm_read(void *arg)
{
	struct storm *st = arg;
	uint8_t *out = malloc(RAID_FRAME_MAX);
	uint64_t seed = 8;

	while (!atomic_load(&st->end)) {
		struct bed_frame f;
		struct err e;

		pthread_mutex_lock(&st->lock);
		f = st->r->frames[sim_random(&seed) % st->known];
		pthread_mutex_unlock(&st->lock);
		ck_assert_int_eq(array_read(st->r->a, &f.place, out, bed_right,
		    &f, &e), ARRAY_READ_OK);
	}
	free(out);
	return NULL;
}

static void *storm_scan(void *arg)
{
	struct storm *st = arg;

	while (!atomic_load(&st->end)) {
		struct scan_report rep = { 0 };
		struct err e;

		ck_assert_int_eq(array_scrub(st->r->a, true, NULL, &rep, NULL,
		    &e), 0);
		ck_assert_uint_eq(rep.stripes_lost, 0);
	}
	return NULL;
}

static void *storm_flip(void *arg)
{
	struct storm *st = arg;
	uint64_t seed = 21;

	/* One member only: what is flipped can always be healed. */
	while (!atomic_load(&st->end)) {
		sim_flip(st->r->sim, 2, (2 << 20) + sim_random(&seed) %
		    (16 << 20), 1);
		array_check_members(st->r->a);
		(void)array_wants_mend(st->r->a);
	}
	return NULL;
}

static void *storm_mend(void *arg)
{
	struct storm *st = arg;

	while (!atomic_load(&st->end)) {
		struct scan_report rep = { 0 };
		struct array_info info;
		struct err e;

		ck_assert_int_eq(array_mend(st->r->a, &rep, NULL, &e), 0);
		array_info(st->r->a, &info);
	}
	return NULL;
}

START_TEST(holds_in_a_storm)
{
	static void *(*const runs[])(void *) = { storm_read, storm_read,
		storm_scan, storm_flip, storm_mend };
	struct storm st = { .r = bed_new(4, 1, BED_DISK) };
	unsigned new = sim_add(st.r->sim, BED_DISK);
	unsigned rounds = getenv("BK_LONG") ? 400 : 12;
	struct bed_frame *frames;
	pthread_t threads[5];

	/* Readers look at the list while it grows: all of it at once. */
	st.r->cap = 100000;
	st.r->frames = calloc(st.r->cap, sizeof(*frames));
	pthread_mutex_init(&st.lock, NULL);
	bed_fill(st.r, 1, 8, 100000);
	st.known = st.r->count;
	for (size_t i = 0; i < 5; i++)
		pthread_create(&threads[i], NULL, runs[i], &st);
	for (unsigned i = 0; i < rounds; i++) {
		for (unsigned j = 0; j < 6 && i < 60; j++)
			bed_append(st.r, j % 2 ? SEG_META : SEG_DATA, 60000);
		bed_flush(st.r);
		pthread_mutex_lock(&st.lock);
		st.known = st.r->count;
		pthread_mutex_unlock(&st.lock);
		if (i == rounds / 2)
			OK(array_replace_begin(st.r->a, "sim:0",
			    sim_dev(st.r->sim, new), NULL, E));
	}
	atomic_store(&st.end, true);
	for (size_t i = 0; i < 5; i++)
		pthread_join(threads[i], NULL);
	bed_mend(st.r);
	bed_check(st.r);
	pthread_mutex_destroy(&st.lock);
	bed_free(st.r);
}
END_TEST

Suite *raid_cut_suite(void);
Suite *raid_cut_suite(void)
{
	Suite *s = suite_create("cut");
	TCase *t = tcase_create("flushes");

	tcase_add_loop_test(t, foretells_the_last_stripe, 0, BED_SHAPES);
	tcase_add_test(t, keeps_room_for_what_was_reserved);
	tcase_add_test(t, takes_appends_between_cut_and_flush);
	tcase_add_test(t, does_not_free_what_is_open_or_twice);
	tcase_add_test(t, extents_wait_for_the_last_lease);
	tcase_add_test(t, holds_in_a_storm);
	suite_add_tcase(s, t);
	return s;
}
