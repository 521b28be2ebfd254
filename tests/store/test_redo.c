/*
 * A member dies while the store flushes: the push ends well, and all of it
 * survives the loss of one more (store/redo.c).  Method: the member fails at
 * its n-th write or flush of a push, for every n there is; then each other
 * disk is left away and everything is fetched.  And a storm: pushes of two
 * clients and collections while a member vanishes.
 */
#include "tests/store/help.h"

#include "proto/fmt_snapshot.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define CHUNKS 24
#define SIZE 60000

/* Shares some chunks with the push before it. */
static struct snapshot_record push(struct bench *b, uint8_t id, uint64_t seed,
    struct id *root)
{
	struct id chunks[CHUNKS], facts;
	struct snapshot_record record;
	struct pusher p;
	struct err e;

	pusher_open(&p, b, "anna");
	pusher_begin(&p, id);
	for (size_t i = 0; i < CHUNKS; i++)
		chunks[i] = pusher_chunk(&p, seed + i, SIZE);
	ck_assert_int_eq(pusher_tree(&p, chunks, CHUNKS, root, &e), 0);
	facts = pusher_facts(&p, "/redo");
	ck_assert_msg(pusher_commit(&p, root, &facts, &record, &e) == 0,
	    "%s", e.text);
	pusher_close(&p);
	return record;
}

static void check_without(struct bench *b, uint64_t skip, const struct id *root)
{
	struct bench c = *b;

	c.disks = sim_clone(b->disks);
	c.skip = skip;
	bench_start(&c);
	ck_assert_uint_eq(count_snapshots(&c, "anna"), 2);
	check_simple(&c, "anna", 500, CHUNKS, SIZE, root);
	store_abandon(c.store);
	array_abandon(c.array);
	sim_free(c.disks);
}

static bool dies_at(unsigned op, uint64_t nth, unsigned *reduced)
{
	struct sim_fault f = { .kind = SIM_ERROR, .disk = (unsigned)nth % 4,
		.ops = op, .nth = nth };
	struct snapshot_record record;
	struct id root, old;
	unsigned fault;
	struct bench b;
	bool fired;

	bench_open(&b, 128);
	push(&b, 1, 100, &old);
	fault = sim_arm(b.disks, &f);
	record = push(&b, 2, 500, &root);
	fired = sim_fired(b.disks, fault) > 0;
	check_simple(&b, "anna", 100, CHUNKS, SIZE, &old);
	check_simple(&b, "anna", 500, CHUNKS, SIZE, &root);
	bench_stop(&b, true);
	*reduced += (record.flags & SNAPSHOT_REDUCED) != 0;
	for (unsigned i = 0; fired && i < 4 &&
	    (record.flags & SNAPSHOT_REDUCED) == 0; i++)
		if (i != f.disk)
			check_without(&b, UINT64_C(1) << f.disk |
			    UINT64_C(1) << i, &root);
	check_without(&b, UINT64_C(1) << f.disk, &root);
	bench_start(&b);
	ck_assert_uint_eq(verify_now(&b, true).damaged_objects, 0);
	bench_close(&b);
	return fired;
}

START_TEST(a_push_survives_the_death_of_a_member)
{
	unsigned op = _i == 0 ? SIM_WRITE : SIM_FLUSH, reduced = 0;
	uint64_t n;

	for (n = 1; dies_at(op, n, &reduced); n++)
		;
	/* What is told of is a member that fails at the log alone. */
	ck_assert_uint_gt(n, op == SIM_WRITE ? 4 : 2);
	ck_assert_uint_le(reduced, 2);
}
END_TEST

/* ---- for good ------------------------------------------------------------ */

static struct prune_report mend_now(struct bench *b)
{
	struct prune_report r;
	struct err e;

	ck_assert_msg(store_mend(b->store, &r, NULL, &e) == 0, "%s", e.text);
	return r;
}

/* Nobody takes the strips of a member that is gone: what it held is written
 * anew on the others. */
START_TEST(redundancy_comes_back_without_the_member)
{
	struct member_info m[4];
	struct array_info info;
	struct id old, root;
	struct bench b;
	struct err e;

	bench_open(&b, 128);
	push(&b, 1, 100, &old);
	sim_drop(b.disks, 1);
	ck_assert_uint_eq(push(&b, 2, 500, &root).flags & SNAPSHOT_REDUCED, 0);
	array_info(b.array, &info);
	ck_assert(info.degraded);
	ck_assert(info.reduced);
	ck_assert(!info.writes_reduced);
	ck_assert(!array_wants_rewrite(b.array));	/* may come back */
	ck_assert_int_eq(array_fail(b.array, "sim:1", &e), 0);
	ck_assert(array_wants_rewrite(b.array));
	ck_assert_uint_ge(mend_now(&b).segments_rewritten, 1);
	ck_assert(!array_wants_rewrite(b.array));
	array_info(b.array, &info);
	ck_assert(!info.reduced);
	array_members(b.array, m, 4);
	ck_assert(m[1].empty);
	ck_assert(!info.degraded);
	ck_assert_uint_eq(mend_now(&b).segments_rewritten, 0);
	ck_assert_uint_eq(verify_now(&b, true).strips.strips_absent, 0);
	bench_stop(&b, true);
	for (unsigned i = 0; i < 4; i++)
		if (i != 1)
			check_without(&b, UINT64_C(2) | UINT64_C(1) << i,
			    &root);
	b.skip = 2;
	bench_start(&b);
	check_simple(&b, "anna", 100, CHUNKS, SIZE, &old);
	bench_close(&b);
}
END_TEST

/* ---- a storm ------------------------------------------------------------ */

struct racer {
	struct bench *b;
	const char *client;
	uint64_t seed;
	struct id root;
};

#define ROUNDS 12

static void *race(void *arg)
{
	struct racer *r = arg;

	for (uint8_t n = 0; n < ROUNDS; n++)
		r->root = push_simple(r->b, r->client, n + 1,
		    r->seed + n * 7u, 16, 40000);
	return NULL;
}

START_TEST(pushes_and_collections_go_on_while_a_member_dies)
{
	struct bench b;
	struct racer r[2] = { { &b, "anna", 1000, { { 0 } } },
		{ &b, "bert", 9000, { { 0 } } } };
	pthread_t t[2];

	bench_open(&b, 256);
	b.flush_bytes = 400000;
	bench_reopen(&b);
	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, race, &r[i]);
	prune_now(&b);
	sim_drop(b.disks, (unsigned)_i % 4);
	prune_now(&b);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	prune_now(&b);
	for (int i = 0; i < 2; i++)
		ck_assert_uint_eq(count_snapshots(&b, r[i].client), ROUNDS);
	b.skip = UINT64_C(1) << _i % 4;
	bench_crash(&b);
	for (int i = 0; i < 2; i++)
		for (unsigned n = 0; n < ROUNDS; n++)
			check_simple(&b, r[i].client, r[i].seed + n * 7u, 16,
			    40000, &r[i].root);
	ck_assert_uint_eq(verify_now(&b, true).damaged_objects, 0);
	bench_close(&b);
}
END_TEST

Suite *store_redo_suite(void);
Suite *store_redo_suite(void)
{
	Suite *s = suite_create("store_redo");
	TCase *tc = tcase_create("redo");

	tcase_set_timeout(tc, 120);
	tcase_add_loop_test(tc, a_push_survives_the_death_of_a_member, 0, 2);
	tcase_add_test(tc, redundancy_comes_back_without_the_member);
	tcase_add_loop_test(tc,
	    pushes_and_collections_go_on_while_a_member_dies, 0, 4);
	suite_add_tcase(s, tc);
	return s;
}
