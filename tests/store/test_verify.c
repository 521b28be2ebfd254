/*
 * Verify: rot is healed or named.  What cannot be healed is quarantined,
 * absent to pushes from then on, named with its paths; a push that brings the
 * bytes again makes old snapshots whole.  Method: chunks are found on the
 * simulated disks and flipped there.
 */
#include "tests/store/help.h"

#include "base/buf.h"
#include "tests/support/temp_dir.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 9000

static struct bench b;

static void teardown(void)
{
	bench_close(&b);
}

START_TEST(a_sound_store_is_sound)
{
	struct verify_report r;

	bench_open(&b, 112);
	push_simple(&b, "anna", 1, 100, 30, SIZE);
	bench_reopen(&b);
	r = verify_now(&b, _i != 0);
	ck_assert_uint_eq(r.damaged_objects, 0);
	ck_assert_uint_eq(r.snapshots_hit, 0);
	ck_assert_uint_eq(r.strips.strips_bad, 0);
	ck_assert_uint_eq(r.objects, 32);
	ck_assert_uint_ge(r.segments, 2);
	ck_assert(r.finished);
}
END_TEST

START_TEST(one_wrong_strip_is_healed)
{
	struct verify_report r;
	struct id root;

	bench_open(&b, 112);
	root = push_simple(&b, "anna", 1, 100, 30, SIZE);
	bench_reopen(&b);
	ck_assert_uint_eq(bench_damage(&b, 110, SIZE), 1);
	r = verify_now(&b, true);
	ck_assert_uint_eq(r.strips.strips_bad, 1);
	ck_assert_uint_eq(r.strips.strips_healed, 1);
	ck_assert_uint_eq(r.damaged_objects, 0);
	r = verify_now(&b, true);
	ck_assert_uint_eq(r.strips.strips_bad, 0);
	check_simple(&b, "anna", 100, 30, SIZE, &root);
}
END_TEST

/* The first of the superblock's slots is 1 MiB into each disk. */
START_TEST(a_wrong_superblock_is_healed)
{
	struct verify_report r;

	bench_open(&b, 112);
	push_simple(&b, "anna", 1, 100, 30, SIZE);
	bench_reopen(&b);
	sim_zero(b.disks, 2, 1 << 20, 4096);
	r = verify_now(&b, false);
	ck_assert_uint_ge(r.strips.strips_bad, 1);
	ck_assert_uint_eq(r.strips.strips_healed, 0);
	r = verify_now(&b, true);
	ck_assert_uint_ge(r.strips.strips_healed, 1);
	r = verify_now(&b, true);
	ck_assert_uint_eq(r.strips.strips_bad, 0);
}
END_TEST

struct told {
	char lines[4096];
	char hits[4096];
	unsigned hit_count;
};

static void on_line(void *arg, const char *text)
{
	struct told *t = arg;
	size_t n = strlen(t->lines);

	snprintf(t->lines + n, sizeof(t->lines) - n, "%s\n", text);
}

static void on_hit(void *arg, const char *client,
    const struct snapshot_record *r, const void *path, size_t size)
{
	struct told *t = arg;
	size_t n = strlen(t->hits);

	snprintf(t->hits + n, sizeof(t->hits) - n, "%s/%d:%.*s\n", client,
	    r->id[0], (int)size, (const char *)path);
	t->hit_count++;
}

static struct verify_report verify_told(struct told *t, bool heal)
{
	struct verify_options o = { .heal = heal, .all = true };
	struct verify_ops ops = { .line = on_line, .hit = on_hit, .arg = t };
	struct verify_report r;
	struct err e;

	memset(t, 0, sizeof(*t));
	ck_assert_msg(store_verify(b.store, &o, &ops, &r, NULL, &e) == 0,
	    "%s", e.text);
	return r;
}

START_TEST(what_is_lost_is_named)
{
	struct verify_report r;
	struct told t;
	struct id root;

	bench_open_bare(&b, 112);
	push_simple(&b, "anna", 1, 100, 30, SIZE);
	push_simple(&b, "bert", 2, 110, 30, SIZE);
	push_simple(&b, "anna", 3, 200, 30, SIZE);
	bench_reopen(&b);
	ck_assert_uint_eq(bench_damage(&b, 115, SIZE), 1);
	r = verify_told(&t, false);
	ck_assert_uint_eq(r.damaged_objects, 1);
	r = verify_told(&t, true);
	ck_assert_uint_eq(r.damaged_objects, 1);
	ck_assert_uint_eq(r.snapshots_hit, 2);
	ck_assert_str_eq(t.hits, "anna/1:/f00015\nbert/2:/f00005\n");
	ck_assert_ptr_nonnull(strstr(t.lines, "sim:"));
	ck_assert_ptr_nonnull(strstr(t.lines, "chunk"));
	root = push_simple(&b, "anna", 4, 200, 30, SIZE);
	check_simple(&b, "anna", 200, 30, SIZE, &root);
}
END_TEST

static void count_hit(void *arg, const char *client,
    const struct snapshot_record *r, const void *path, size_t size)
{
	(void)client;
	(void)r;
	ck_assert_uint_gt(size, 0);
	ck_assert_int_eq(*(const char *)path, '/');
	++*(uint64_t *)arg;
}

/* Sixty levels with two names for each: 2^60 paths to one lost chunk. */
START_TEST(a_tree_of_endless_paths_is_told_in_bounds)
{
	struct verify_options o = { .heal = true, .all = true };
	struct id ids[1], root, facts;
	struct snapshot_record record;
	struct verify_report r;
	uint64_t hits = 0;
	struct verify_ops ops = { .hit = count_hit, .arg = &hits };
	struct pusher p;
	struct err e;

	bench_open_bare(&b, 112);
	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 1);
	ids[0] = pusher_chunk(&p, 5, SIZE);
	ck_assert_int_eq(pusher_tree(&p, ids, 1, &root, &e), 0);
	for (int i = 0; i < 60; i++)
		ck_assert_int_eq(pusher_tree_of_two(&p, &root, &root, &e), 0);
	facts = pusher_facts(&p, "/x");
	ck_assert_int_eq(pusher_commit(&p, &root, &facts, &record, &e), 0);
	pusher_close(&p);
	bench_reopen(&b);
	ck_assert_uint_eq(bench_damage(&b, 5, SIZE), 1);
	ck_assert_msg(store_verify(b.store, &o, &ops, &r, NULL, &e) == 0,
	    "%s", e.text);
	ck_assert_uint_eq(r.snapshots_hit, 1);
	ck_assert_uint_gt(hits, 1000);
	ck_assert_uint_lt(hits, 100000);
}
END_TEST

/* _i: 0 as it is, 1 after a crash, 2 with a new index, 3 an index of before */
START_TEST(a_quarantined_object_is_absent_until_stored_anew)
{
	struct verify_report r;
	struct pusher p;
	struct told t;
	struct id lost = chunk_id(115, SIZE), root;
	char old[4096];

	bench_open_bare(&b, 112);
	root = push_simple(&b, "anna", 1, 100, 30, SIZE);
	bench_stop(&b, false);
	snprintf(old, sizeof(old), "%s/old", b.dir);
	temp_dir_copy(b.index, old);
	bench_start(&b);
	bench_damage(&b, 115, SIZE);
	r = verify_told(&t, true);
	ck_assert_uint_eq(r.damaged_objects, 1);
	if (_i > 0) {
		bench_stop(&b, _i == 1);
		if (_i >= 2)
			temp_dir_remove(b.index);
		if (_i == 3)
			temp_dir_copy(old, b.index);
		bench_start(&b);
	}
	ck_assert_int_eq(fetch_one(&b, "anna", &lost, NULL, 0), ERR_CORRUPT);
	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 2);
	ck_assert(!pusher_has(&p, &lost));
	ck_assert(!pusher_has(&p, &root));
	ck_assert(id_equal(&lost, &(struct id){ 0 }) == false);
	pusher_close(&p);
	root = push_simple(&b, "anna", 2, 100, 30, SIZE);
	check_simple(&b, "anna", 100, 30, SIZE, &root);
	r = verify_told(&t, true);
	ck_assert_uint_eq(r.damaged_objects, 0);
	ck_assert_uint_eq(r.snapshots_hit, 0);
	bench_stop(&b, false);
	temp_dir_remove(b.index);
	bench_start(&b);
	check_simple(&b, "anna", 100, 30, SIZE, &root);
}
END_TEST

/* Another client brings the lost bytes: the first one's snapshot is whole
 * again, and a later verify says so to its pushes. */
START_TEST(anothers_push_heals_too)
{
	struct id root, lost = chunk_id(115, SIZE);
	struct pusher p;
	struct told t;

	bench_open_bare(&b, 112);
	root = push_simple(&b, "anna", 1, 100, 30, SIZE);
	bench_reopen(&b);
	bench_damage(&b, 115, SIZE);
	verify_told(&t, true);
	ck_assert_int_eq(fetch_one(&b, "anna", &lost, NULL, 0), ERR_CORRUPT);
	push_simple(&b, "bert", 1, 115, 3, SIZE);
	check_simple(&b, "anna", 100, 30, SIZE, &root);
	ck_assert_uint_eq(verify_told(&t, true).snapshots_hit, 0);
	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 2);
	ck_assert(pusher_has(&p, &lost));
	pusher_close(&p);
}
END_TEST

START_TEST(a_quarantined_segment_is_not_swept)
{
	struct prune_report pr;
	struct told t;
	struct id root;
	uint8_t snapshot[SNAPSHOT_ID_SIZE];
	struct store_info info;
	struct err e;

	bench_open_bare(&b, 112);
	push_simple(&b, "anna", 1, 100, 30, SIZE);
	root = push_simple(&b, "anna", 2, 125, 30, SIZE);
	bench_reopen(&b);
	bench_damage(&b, 126, SIZE);
	verify_told(&t, true);
	memset(snapshot, 1, sizeof(snapshot));
	ck_assert_int_eq(store_forget(b.store, "anna", snapshot, &e), 0);
	prune_now(&b);
	store_info(b.store, &info);
	ck_assert_uint_eq(info.quarantined, 1);
	root = push_simple(&b, "anna", 3, 125, 30, SIZE);
	check_simple(&b, "anna", 125, 30, SIZE, &root);
	pr = prune_now(&b);
	ck_assert_uint_gt(pr.segments_freed, 0);
	store_info(b.store, &info);
	ck_assert_uint_eq(info.quarantined, 0);
	check_simple(&b, "anna", 125, 30, SIZE, &root);
}
END_TEST

START_TEST(verify_read_only_writes_nothing)
{
	struct verify_report r;
	struct sim *before;
	struct told t;

	bench_open(&b, 112);
	push_simple(&b, "anna", 1, 100, 30, SIZE);
	bench_reopen(&b);
	ck_assert_uint_eq(bench_damage(&b, 110, SIZE), 1);
	before = sim_clone(b.disks);
	r = verify_told(&t, false);
	ck_assert_uint_eq(r.strips.strips_bad, 1);
	ck_assert_uint_eq(r.strips.strips_healed, 0);
	ck_assert(sim_same_all(before, b.disks, NULL, NULL));
	sim_free(before);
}
END_TEST

START_TEST(the_index_can_be_built_again_on_demand)
{
	struct pusher p;
	struct id root;
	struct err e;

	bench_open(&b, 112);
	root = push_simple(&b, "anna", 1, 100, 30, SIZE);
	pusher_open(&p, &b, "anna");
	ck_assert_int_eq(store_rebuild_index(b.store, &e), -1);
	ck_assert_int_eq(e.code, ERR_BUSY);
	pusher_close(&p);
	ck_assert_msg(store_rebuild_index(b.store, &e) == 0, "%s", e.text);
	check_simple(&b, "anna", 100, 30, SIZE, &root);
	root = push_simple(&b, "anna", 2, 110, 30, SIZE);
	check_simple(&b, "anna", 110, 30, SIZE, &root);
}
END_TEST

Suite *store_verify_suite(void);
Suite *store_verify_suite(void)
{
	Suite *s = suite_create("store_verify");
	TCase *t = tcase_create("verify");

	tcase_add_checked_fixture(t, NULL, teardown);
	tcase_add_loop_test(t, a_sound_store_is_sound, 0, 2);
	tcase_add_test(t, one_wrong_strip_is_healed);
	tcase_add_test(t, a_wrong_superblock_is_healed);
	tcase_add_test(t, what_is_lost_is_named);
	tcase_add_test(t, a_tree_of_endless_paths_is_told_in_bounds);
	tcase_add_loop_test(t,
	    a_quarantined_object_is_absent_until_stored_anew, 0, 4);
	tcase_add_test(t, anothers_push_heals_too);
	tcase_add_test(t, a_quarantined_segment_is_not_swept);
	tcase_add_test(t, verify_read_only_writes_nothing);
	tcase_add_test(t, the_index_can_be_built_again_on_demand);
	suite_add_tcase(s, t);
	return s;
}
