/*
 * Collection: what nobody reaches goes and its space comes back; what a
 * snapshot, a session or another domain needs stays (G1 to G3 of store/gc.c,
 * S4).  Method: pushes, forgets and prunes by hand; then everything is fetched,
 * also after a crash and with the index built anew from the tables.
 */
#include "tests/store/help.h"

#include "tests/support/temp_dir.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 60000

static struct bench b;

static void setup(void)
{
	bench_open(&b, 128);
}

static void teardown(void)
{
	bench_close(&b);
}

static void forget(const char *client, uint8_t id)
{
	uint8_t snapshot[SNAPSHOT_ID_SIZE];
	struct err e;

	memset(snapshot, id, sizeof(snapshot));
	ck_assert_msg(store_forget(b.store, client, snapshot, &e) == 0, "%s",
	    e.text);
}

START_TEST(space_comes_back)
{
	struct array_info before, full, after;
	struct prune_report r;
	struct id id = chunk_id(100, SIZE);

	array_info(b.array, &before);
	push_simple(&b, "anna", 1, 100, 200, SIZE);
	array_info(b.array, &full);
	forget("anna", 1);
	r = prune_now(&b);
	array_info(b.array, &after);
	ck_assert_uint_gt(r.segments_freed, 0);
	ck_assert_uint_ge(r.objects_dead, 200);
	ck_assert_uint_eq(r.objects_live, 0);
	ck_assert_uint_gt(full.used_bytes, before.used_bytes + 200 * SIZE);
	ck_assert_uint_lt(after.used_bytes, before.used_bytes + 100000);
	ck_assert_int_eq(fetch_one(&b, "anna", &id, NULL, 0),
	    ERR_NOT_FOUND);
}
END_TEST

/* _i: 0 as it is, 1 after a crash, 2 with a new index */
static void look_again(int how)
{
	if (how == 0)
		return;
	bench_stop(&b, how == 1);
	if (how == 2)
		temp_dir_remove(b.index);
	bench_start(&b);
}

START_TEST(what_another_snapshot_needs_stays)
{
	struct id mine, other;
	struct prune_report r;

	push_simple(&b, "anna", 1, 100, 100, SIZE);
	mine = push_simple(&b, "anna", 2, 150, 100, SIZE);
	other = push_simple(&b, "bert", 3, 120, 20, SIZE);
	forget("anna", 1);
	r = prune_now(&b);
	ck_assert_uint_gt(r.bytes_moved, 0);
	look_again(_i);
	check_simple(&b, "anna", 150, 100, SIZE, &mine);
	check_simple(&b, "bert", 120, 20, SIZE, &other);
	ck_assert_uint_eq(verify_now(&b, true).damaged_objects, 0);
	forget("anna", 2);
	prune_now(&b);
	look_again(_i);
	check_simple(&b, "bert", 120, 20, SIZE, &other);
}
END_TEST

START_TEST(ownership_ends_with_the_last_root)
{
	struct pusher p;
	struct id id = chunk_id(100, SIZE), root;

	push_simple(&b, "anna", 1, 100, 20, SIZE);
	root = push_simple(&b, "bert", 2, 100, 20, SIZE);
	forget("anna", 1);
	prune_now(&b);
	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 9);
	ck_assert(!pusher_has(&p, &id));
	ck_assert(!pusher_has(&p, &root));
	pusher_close(&p);
	check_simple(&b, "bert", 100, 20, SIZE, &root);
	ck_assert_int_eq(fetch_one(&b, "anna", &id, NULL, 0),
	    ERR_NOT_FOUND);
}
END_TEST

START_TEST(what_was_collected_is_stored_anew)
{
	struct id root;

	push_simple(&b, "anna", 1, 100, 20, SIZE);
	forget("anna", 1);
	prune_now(&b);
	root = push_simple(&b, "anna", 2, 100, 20, SIZE);
	look_again(_i);
	check_simple(&b, "anna", 100, 20, SIZE, &root);
}
END_TEST

START_TEST(a_session_keeps_what_it_was_told)
{
	struct id ids[20], root, facts;
	struct snapshot_record r;
	struct pusher p;
	struct err e;

	push_simple(&b, "anna", 1, 100, 20, SIZE);
	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 2);
	for (int i = 0; i < 20; i++) {
		ids[i] = chunk_id(100 + (uint64_t)i, SIZE);
		ck_assert(pusher_has(&p, &ids[i]));
	}
	forget("anna", 1);
	prune_now(&b);
	ck_assert_int_eq(pusher_tree(&p, ids, 20, &root, &e), 0);
	facts = pusher_facts(&p, "/x");
	prune_now(&b);
	ck_assert_int_eq(pusher_commit(&p, &root, &facts, &r, &e), 0);
	pusher_close(&p);
	prune_now(&b);
	check_simple(&b, "anna", 100, 20, SIZE, &root);
}
END_TEST

/* A page that only a session of long ago named is dead together with what it
 * names, and both come back together. */
START_TEST(an_aborted_push_is_collected_after_the_next_commit)
{
	struct id ids[3], root, keep;
	struct pusher p;
	struct err e;

	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 1);
	for (int i = 0; i < 3; i++)
		ids[i] = pusher_chunk(&p, 500 + (uint64_t)i, SIZE);
	ck_assert_int_eq(pusher_tree(&p, ids, 3, &root, &e), 0);
	pusher_settle(&p);
	pusher_close(&p);
	prune_now(&b);
	keep = push_simple(&b, "anna", 2, 100, 20, SIZE);
	prune_now(&b);
	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 3);
	ck_assert(!pusher_has(&p, &ids[0]));
	ck_assert(!pusher_has(&p, &root));
	pusher_close(&p);
	check_simple(&b, "anna", 100, 20, SIZE, &keep);
}
END_TEST

/* ---- beside pushes ------------------------------------------------------ */

struct racer {
	const char *client;
	uint64_t seed;
	atomic_bool *stop;
	unsigned rounds;
	struct id last;
	uint64_t last_seed;
};

static void *race_push(void *arg)
{
	struct racer *r = arg;

	for (uint8_t n = 1; !atomic_load(r->stop) || n < 4; n++) {
		r->last_seed = r->seed + (n % 5) * 4;
		r->last = push_simple(&b, r->client, (uint8_t)(n % 250 + 1),
		    r->last_seed, 12, 3000);
		if (n % 250 + 1 > 1 && n > 1)
			forget(r->client, (uint8_t)((n - 1) % 250 + 1));
		r->rounds++;
		if (n == 249)
			break;
	}
	return NULL;
}

START_TEST(runs_beside_pushes)
{
	atomic_bool stop = false;
	struct racer r[2] = { { "anna", 100, &stop, 0, { { 0 } }, 0 },
		{ "bert", 104, &stop, 0, { { 0 } }, 0 } };
	pthread_t t[2];

	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, race_push, &r[i]);
	for (int i = 0; i < 8; i++)
		prune_now(&b);
	atomic_store(&stop, true);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < 2; i++)
		check_simple(&b, r[i].client, r[i].last_seed, 12, 3000,
		    &r[i].last);
	prune_now(&b);
	bench_crash(&b);
	for (int i = 0; i < 2; i++)
		check_simple(&b, r[i].client, r[i].last_seed, 12, 3000,
		    &r[i].last);
	ck_assert_uint_eq(verify_now(&b, true).damaged_objects, 0);
}
END_TEST

START_TEST(can_be_cancelled)
{
	struct job_ctl ctl;
	struct prune_report r;
	struct id root;
	struct err e;

	memset(&ctl, 0, sizeof(ctl));
	push_simple(&b, "anna", 1, 100, 20, SIZE);
	root = push_simple(&b, "anna", 2, 110, 20, SIZE);
	forget("anna", 1);
	atomic_store(&ctl.cancel, true);
	ck_assert_int_eq(store_prune(b.store, NULL, false, NULL, &r, &ctl,
	    &e), -1);
	ck_assert_int_eq(e.code, ERR_CANCELLED);
	check_simple(&b, "anna", 110, 20, SIZE, &root);
	prune_now(&b);
	check_simple(&b, "anna", 110, 20, SIZE, &root);
}
END_TEST

START_TEST(a_full_array_can_be_pruned)
{
	struct snapshot_record r;
	struct id ids[60], root, facts;
	unsigned pushes = 0;
	struct pusher p;
	struct err e;
	int rc = 0;

	bench_close(&b);
	bench_open_two(&b, 108);
	for (uint8_t n = 1; rc == 0 && n < 200; n++) {
		pusher_open(&p, &b, "anna");
		pusher_begin(&p, n);
		for (unsigned i = 0; i < 60 && rc == 0; i++) {
			uint64_t seed = n * 1000u + i;

			pusher_add_chunk(&p, seed, 60000);
			rc = pusher_send(&p, &e);
			ids[i] = chunk_id(seed, 60000);
		}
		if (rc == 0)
			rc = pusher_tree(&p, ids, 60, &root, &e);
		if (rc == 0) {
			facts = pusher_facts(&p, "/x");
			rc = pusher_commit(&p, &root, &facts, &r, &e);
		}
		pushes += rc == 0;
		pusher_close(&p);
	}
	ck_assert_int_eq(rc, -1);
	ck_assert_msg(e.code == ERR_NO_SPACE, "%s", e.text);
	ck_assert_uint_gt(pushes, 5);
	for (uint8_t n = 1; n < pushes; n++)
		forget("anna", n);
	prune_now(&b);
	root = push_simple(&b, "bert", 1, 77, 60, 60000);
	check_simple(&b, "bert", 77, 60, 60000, &root);
	ck_assert_uint_eq(verify_now(&b, true).damaged_objects, 0);
}
END_TEST

/* One snapshot of `count` chunks with every `step`-th seed from `first`. */
static int push_steps(const char *client, uint8_t id, uint64_t first,
    unsigned count, unsigned step, struct err *e)
{
	struct snapshot_record r;
	struct id ids[60], root, facts;
	struct pusher p;
	int rc = 0;

	pusher_open(&p, &b, client);
	pusher_begin(&p, id);
	for (unsigned i = 0; i < count && rc == 0; i++) {
		pusher_add_chunk(&p, first + i * step, 60000);
		rc = pusher_send(&p, e);
		ids[i] = chunk_id(first + i * step, 60000);
	}
	if (rc == 0)
		rc = pusher_tree(&p, ids, count, &root, e);
	if (rc == 0) {
		facts = pusher_facts(&p, "/x");
		rc = pusher_commit(&p, &root, &facts, &r, e);
	}
	pusher_close(&p);
	return rc;
}

/* No segment is wholly dead, and the reserve holds less than a batch: what was
 * emptied must be freed before the rest can be moved. */
START_TEST(a_full_array_of_half_garbage_can_be_pruned)
{
	unsigned pushes = 0;
	struct prune_report r;
	struct err e;

	bench_close(&b);
	bench_open_two(&b, 256);
	for (uint8_t n = 1; n < 250; n++) {
		if (push_steps("anna", n, n * 1000u, 60, 1, &e) != 0 ||
		    push_steps("bert", n, n * 1000u, 30, 2, &e) != 0)
			break;
		pushes++;
	}
	ck_assert_msg(e.code == ERR_NO_SPACE, "%s", e.text);
	ck_assert_uint_gt(pushes, 40);
	for (uint8_t n = 1; n <= pushes; n++)
		forget("anna", n);
	r = prune_now(&b);
	ck_assert_uint_gt(r.segments_rewritten, 10);
	ck_assert_uint_gt(r.bytes_freed - r.bytes_moved, pushes * 1000000u);
	ck_assert_int_eq(push_steps("anna", 251, 77, 60, 1, &e), 0);
	ck_assert_uint_eq(verify_now(&b, true).damaged_objects, 0);
	ck_assert_uint_eq(count_snapshots(&b, "bert"), pushes);
}
END_TEST

/* ---- rules -------------------------------------------------------------- */

struct verdicts {
	unsigned kept, gone;
	char last[200];
};

static void note_verdict(void *arg, const char *client,
    const struct snapshot_record *r, bool keep, const char *reason)
{
	struct verdicts *v = arg;

	(void)client;
	(void)r;
	v->kept += keep;
	v->gone += !keep;
	memcpy(v->last, reason, strlen(reason) + 1);
}

START_TEST(the_rules_of_a_client_are_applied)
{
	struct client_record *c = malloc(sizeof(*c));
	struct verdicts v = { 0, 0, "" };
	struct prune_ops ops = { note_verdict, &v };
	struct prune_report r;
	struct err e;

	for (uint8_t i = 1; i <= 5; i++)
		push_simple(&b, "anna", i, 100, 5, SIZE);
	ck_assert_int_eq(store_client_get(b.store, "anna", c, &e), 0);
	c->keep.last = 2;
	ck_assert_int_eq(store_client_set(b.store, c, &e), 0);
	ck_assert_int_eq(store_prune(b.store, "anna", true, &ops, &r, NULL,
	    &e), 0);
	ck_assert_uint_eq(v.kept, 2);
	ck_assert_uint_eq(v.gone, 3);
	ck_assert_str_eq(v.last, "last 1");
	ck_assert_uint_eq(count_snapshots(&b, "anna"), 5);
	c->keep.min_age_s = 3600;
	ck_assert_int_eq(store_client_set(b.store, c, &e), 0);
	r = prune_now(&b);
	ck_assert_uint_eq(r.snapshots_gone, 0);
	c->keep.min_age_s = 0;
	ck_assert_int_eq(store_client_set(b.store, c, &e), 0);
	r = prune_now(&b);
	ck_assert_uint_eq(r.snapshots_gone, 3);
	ck_assert_uint_eq(count_snapshots(&b, "anna"), 2);
	free(c);
}
END_TEST

Suite *store_gc_suite(void);
Suite *store_gc_suite(void)
{
	Suite *s = suite_create("store_gc");
	TCase *t = tcase_create("gc");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, space_comes_back);
	tcase_add_loop_test(t, what_another_snapshot_needs_stays, 0, 3);
	tcase_add_test(t, ownership_ends_with_the_last_root);
	tcase_add_loop_test(t, what_was_collected_is_stored_anew, 0, 3);
	tcase_add_test(t, a_session_keeps_what_it_was_told);
	tcase_add_test(t, an_aborted_push_is_collected_after_the_next_commit);
	tcase_add_test(t, runs_beside_pushes);
	tcase_add_test(t, can_be_cancelled);
	tcase_add_test(t, a_full_array_can_be_pruned);
	tcase_add_test(t, a_full_array_of_half_garbage_can_be_pruned);
	tcase_add_test(t, the_rules_of_a_client_are_applied);
	suite_add_tcase(s, t);
	return s;
}
