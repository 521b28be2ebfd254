/*
 * Clients: what is added is found by name and key, in order, and is there
 * after a crash; keys belong to one client; removal needs snapshots to be gone;
 * quotas count what is new to the domain, whoever else has it, and what
 * pushes brought that were not committed.
 */
#include "tests/store/help.h"

#include "store/impl.h"

#include "store/fmt_client.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct bench b;
static struct client_record c;

static void setup(void)
{
	bench_open(&b, 112);
	memset(&c, 0, sizeof(c));
}

static void teardown(void)
{
	bench_close(&b);
}

static int note_names(void *arg, const struct client_record *r)
{
	char *names = arg;
	size_t n = strlen(names);

	snprintf(names + n, 200 - n, "%s ", r->name);
	return 0;
}

START_TEST(clients_are_found_by_name_and_key)
{
	char names[200] = "", name[CLIENT_NAME_MAX + 1];
	struct err e;

	bench_client(&b, "Zoe.1", "");
	bench_crash(&b);
	ck_assert_int_eq(store_client_each(b.store, note_names, names), 0);
	ck_assert_str_eq(names, "Zoe.1 anna bert ");
	ck_assert(store_client_by_key(b.store, "ssh-ed25519 bert", name));
	ck_assert_str_eq(name, "bert");
	ck_assert(!store_client_by_key(b.store, "ssh-ed25519 ber", name));
	ck_assert(!store_client_by_key(b.store, "", name));
	ck_assert_int_eq(store_client_get(b.store, "Zoe.1", &c, &e), 0);
	ck_assert_uint_eq(c.domain, 3);
	ck_assert_int_eq(store_client_get(b.store, "nobody", &c, &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	ck_assert_int_eq(store_client_get(b.store, "../x", &c, &e), -1);
}
END_TEST

START_TEST(names_and_keys_are_given_once)
{
	struct err e;

	snprintf(c.name, sizeof(c.name), "anna");
	ck_assert_int_eq(store_client_add(b.store, &c, &e), -1);
	ck_assert_int_eq(e.code, ERR_EXISTS);
	snprintf(c.name, sizeof(c.name), "carl");
	snprintf(c.keys[0], sizeof(c.keys[0]), "ssh-ed25519 anna");
	c.key_count = 1;
	ck_assert_int_eq(store_client_add(b.store, &c, &e), -1);
	ck_assert_int_eq(e.code, ERR_EXISTS);
	ck_assert_ptr_nonnull(strstr(e.text, "anna"));
	snprintf(c.name, sizeof(c.name), ".carl");
	ck_assert_int_eq(store_client_add(b.store, &c, &e), -1);
	ck_assert_int_eq(e.code, ERR_USAGE);
}
END_TEST

START_TEST(removal_needs_purge_while_there_are_snapshots)
{
	struct err e;

	push_simple(&b, "anna", 1, 10, 3, 3000);
	ck_assert_int_eq(store_client_remove(b.store, "anna", false, &e), -1);
	ck_assert_int_eq(e.code, ERR_EXISTS);
	ck_assert_int_eq(store_client_get(b.store, "anna", &c, &e), 0);
	c.keep.min_age_s = 1000;
	ck_assert_int_eq(store_client_set(b.store, &c, &e), 0);
	ck_assert_int_eq(store_client_remove(b.store, "anna", true, &e), -1);
	ck_assert_int_eq(e.code, ERR_DENIED);
	c.keep.min_age_s = 0;
	ck_assert_int_eq(store_client_set(b.store, &c, &e), 0);
	ck_assert_int_eq(store_client_remove(b.store, "anna", true, &e), 0);
	ck_assert_uint_eq(count_snapshots(&b, NULL), 0);
	ck_assert_int_eq(store_client_get(b.store, "anna", &c, &e), -1);
	prune_now(&b);
}
END_TEST

START_TEST(the_domain_stays_while_snapshots_are_in_it)
{
	struct err e;

	ck_assert_int_eq(store_client_get(b.store, "anna", &c, &e), 0);
	snprintf(c.domain_name, sizeof(c.domain_name), "family");
	push_simple(&b, "anna", 1, 10, 3, 3000);
	ck_assert_int_eq(store_client_set(b.store, &c, &e), -1);
	ck_assert_int_eq(e.code, ERR_EXISTS);
}
END_TEST

START_TEST(a_quota_counts_what_is_new_to_the_domain)
{
	struct pusher p;
	struct err e;
	int rc = 0, n;

	push_simple(&b, "bert", 1, 10, 40, 10000);
	ck_assert_int_eq(store_client_get(b.store, "anna", &c, &e), 0);
	c.quota = 105000;
	ck_assert_int_eq(store_client_set(b.store, &c, &e), 0);
	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 1);
	/* _i: what bert has, or what nobody has: no difference. */
	for (n = 0; rc == 0 && n < 30; n++) {
		pusher_add_chunk(&p, (uint64_t)(_i ? 10 : 1000) +
		    (uint64_t)n, 10000);
		rc = pusher_send(&p, &e);
	}
	ck_assert_int_eq(rc, -1);
	ck_assert_int_eq(e.code, ERR_NO_SPACE);
	ck_assert_int_eq(n, 11);
	/* Its own once more costs nothing. */
	p.number = 100;
	pusher_add_chunk(&p, (uint64_t)(_i ? 10 : 1000), 10000);
	ck_assert_int_eq(pusher_send(&p, &e), 0);
	pusher_close(&p);
}
END_TEST

/* Chunks from `seed` on until one is refused; how many were taken. */
static int fill(struct pusher *p, uint64_t seed)
{
	struct err e;
	int n;

	for (n = 0; n < 30; n++) {
		pusher_add_chunk(p, seed + (uint64_t)n, 10000);
		if (pusher_send(p, &e) != 0)
			break;
	}
	ck_assert_int_eq(e.code, ERR_NO_SPACE);
	return n;
}

/* _i: the push is aborted, its session ends, or a new one takes its place */
START_TEST(pushes_that_break_off_count_for_the_quota)
{
	struct pusher p, q;
	struct err e;

	ck_assert_int_eq(store_client_get(b.store, "anna", &c, &e), 0);
	c.quota = 105000;
	ck_assert_int_eq(store_client_set(b.store, &c, &e), 0);
	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 1);
	ck_assert_int_eq(fill(&p, 1000), 10);
	if (_i == 0)
		store_session_abort(p.ss);
	if (_i == 2)
		atomic_store(&p.ss->alive_ms, 0);
	if (_i == 1)
		pusher_close(&p);
	pusher_open(&q, &b, "anna");
	pusher_begin(&q, 2);
	ck_assert_int_eq(fill(&q, 2000), 0);
	pusher_close(&q);
	if (_i != 1)
		pusher_close(&p);
	/* Once more: what was counted is counted once. */
	c.quota = 205000;
	ck_assert_int_eq(store_client_set(b.store, &c, &e), 0);
	pusher_open(&q, &b, "anna");
	pusher_begin(&q, 3);
	ck_assert_int_eq(fill(&q, 3000), 10);
	pusher_close(&q);
}
END_TEST

START_TEST(a_commit_takes_over_what_broken_pushes_brought)
{
	struct snapshot_record r;
	struct id ids[2], root, facts;
	struct pusher p;
	struct err e;

	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 1);
	ids[0] = pusher_chunk(&p, 1, 10000);
	pusher_close(&p);
	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 1);
	ck_assert(pusher_has(&p, &ids[0]));
	ids[1] = pusher_chunk(&p, 2, 10000);
	ck_assert_int_eq(pusher_tree(&p, ids, 2, &root, &e), 0);
	facts = pusher_facts(&p, "/x");
	ck_assert_int_eq(pusher_commit(&p, &root, &facts, &r, &e), 0);
	ck_assert_uint_ge(r.new_bytes, 20000);
	ck_assert_uint_lt(r.new_bytes, 21000);
	pusher_begin(&p, 2);
	ck_assert_int_eq(pusher_commit(&p, &root, &facts, &r, &e), 0);
	ck_assert_uint_eq(r.new_bytes, 0);
	pusher_close(&p);
}
END_TEST

START_TEST(last_seen_survives_a_clean_stop)
{
	struct err e;

	store_client_seen(b.store, "anna");
	ck_assert_int_eq(store_client_get(b.store, "anna", &c, &e), 0);
	ck_assert_int_gt(c.last_seen_s, 0);
	bench_reopen(&b);
	ck_assert_int_eq(store_client_get(b.store, "anna", &c, &e), 0);
	ck_assert_int_gt(c.last_seen_s, 0);
}
END_TEST

Suite *store_client_suite(void);
Suite *store_client_suite(void)
{
	Suite *s = suite_create("store_client");
	TCase *t = tcase_create("client");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, clients_are_found_by_name_and_key);
	tcase_add_test(t, names_and_keys_are_given_once);
	tcase_add_test(t, removal_needs_purge_while_there_are_snapshots);
	tcase_add_test(t, the_domain_stays_while_snapshots_are_in_it);
	tcase_add_loop_test(t, a_quota_counts_what_is_new_to_the_domain, 0,
	    2);
	tcase_add_loop_test(t, pushes_that_break_off_count_for_the_quota, 0,
	    3);
	tcase_add_test(t, a_commit_takes_over_what_broken_pushes_brought);
	tcase_add_test(t, last_seen_survives_a_clean_stop);
	suite_add_tcase(s, t);
	return s;
}
