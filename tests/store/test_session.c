/*
 * Sessions: closure, domains, durability, commit.  S2: a page that names what
 * is not there, or not the domain's, is refused with just the missing ids.
 * S3: what another domain has answers like nothing, yet is stored once.
 * Commit is idempotent; two pushes of one client do not run at once.
 */
#include "tests/store/help.h"

#include "base/clock.h"
#include "store/fmt_table.h"
#include "store/impl.h"

#include "tests/support/temp_dir.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SIZE 5000

static struct bench b;

static void setup(void)
{
	bench_open(&b, 128);
}

static void teardown(void)
{
	bench_close(&b);
}

START_TEST(a_page_needs_all_it_names)
{
	struct id ids[3], root;
	struct pusher p;
	struct err e;

	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 1);
	ids[0] = pusher_chunk(&p, 1, SIZE);
	ids[1] = chunk_id(2, SIZE);
	ids[2] = chunk_id(3, SIZE);
	ck_assert_int_eq(pusher_tree(&p, ids, 3, &root, &e), 1);
	ck_assert_uint_eq(p.missing_count, 2);
	ck_assert(id_equal(&p.missing[0], &ids[1]));
	ck_assert(id_equal(&p.missing[1], &ids[2]));
	ck_assert(!pusher_has(&p, &root));
	pusher_chunk(&p, 2, SIZE);
	pusher_chunk(&p, 3, SIZE);
	ck_assert_int_eq(pusher_tree(&p, ids, 3, &root, &e), 0);
	ck_assert(pusher_has(&p, &root));
	pusher_close(&p);
}
END_TEST

START_TEST(a_commit_needs_its_root_and_facts)
{
	struct id ids[1], root, facts, none;
	struct snapshot_record r;
	struct pusher p;
	struct err e;

	memset(&none, 7, sizeof(none));
	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 1);
	ids[0] = pusher_chunk(&p, 1, SIZE);
	ck_assert_int_eq(pusher_tree(&p, ids, 1, &root, &e), 0);
	facts = pusher_facts(&p, "/x");
	ck_assert_int_eq(pusher_commit(&p, &none, &facts, &r, &e), 1);
	ck_assert_uint_eq(p.missing_count, 1);
	ck_assert(id_equal(&p.missing[0], &none));
	ck_assert_int_eq(pusher_commit(&p, &facts, &facts, &r, &e), -1);
	ck_assert_int_eq(e.code, ERR_PROTOCOL);
	ck_assert_uint_eq(count_snapshots(&b, "anna"), 0);
	ck_assert_int_eq(pusher_commit(&p, &root, &facts, &r, &e), 0);
	ck_assert_uint_eq(count_snapshots(&b, "anna"), 1);
	pusher_close(&p);
}
END_TEST

START_TEST(a_foreign_object_answers_like_none)
{
	struct id ids[2], root, below;
	struct pusher p;
	struct err e;

	below = push_simple(&b, "anna", 1, 10, 5, SIZE);
	pusher_open(&p, &b, "bert");
	pusher_begin(&p, 1);
	ids[0] = chunk_id(10, SIZE);
	ids[1] = chunk_id(999, SIZE);
	ck_assert(!pusher_has(&p, &ids[0]));
	ck_assert(!pusher_has(&p, &below));
	ck_assert_int_eq(pusher_tree(&p, ids, 2, &root, &e), 1);
	ck_assert_uint_eq(p.missing_count, 2);
	ck_assert_int_eq(pusher_tree_of(&p, &below, &root, &e), 1);
	ck_assert_uint_eq(p.missing_count, 1);
	ck_assert(id_equal(&p.missing[0], &below));
	ck_assert_int_eq(fetch_one(&b, "bert", &ids[0], NULL, 0),
	    ERR_NOT_FOUND);
	ck_assert_int_eq(fetch_one(&b, "bert", &ids[1], NULL, 0),
	    ERR_NOT_FOUND);
	pusher_close(&p);
}
END_TEST

START_TEST(two_domains_store_the_same_once)
{
	struct array_info before, after;
	struct id root;

	root = push_simple(&b, "anna", 1, 10, 50, 20000);
	bench_reopen(&b);
	array_info(b.array, &before);
	ck_assert(id_equal(&root, &(struct id){ 0 }) == false);
	root = push_simple(&b, "bert", 1, 10, 50, 20000);
	bench_reopen(&b);
	array_info(b.array, &after);
	ck_assert_uint_lt(after.used_bytes - before.used_bytes, 20000);
	check_simple(&b, "anna", 10, 50, 20000, &root);
	check_simple(&b, "bert", 10, 50, 20000, &root);
}
END_TEST

/* What is adopted is not stored, but waits in memory as well. */
START_TEST(adopting_does_not_fill_the_memory)
{
	struct pusher p;
	struct err e;
	size_t most = 0;

	for (int who = 0; who < 2; who++) {
		pusher_open(&p, &b, who ? "bert" : "anna");
		pusher_begin(&p, 1);
		for (uint64_t i = 0; i < 40000; i++) {
			pusher_add_chunk(&p, 1 + i, 16);
			if (i % 1000 != 999)
				continue;
			ck_assert_msg(pusher_send(&p, &e) == 0, "%s", e.text);
			pthread_mutex_lock(&b.store->cut);
			if (b.store->pending.count > most)
				most = b.store->pending.count;
			pthread_mutex_unlock(&b.store->cut);
		}
		ck_assert_uint_le(most, TABLE_OBJECTS_MAX);
		pusher_close(&p);
	}
}
END_TEST

#define MANY 40000u

/* A push of MANY small chunks, a thousand to a frame. */
static void push_many(const char *client)
{
	struct id *ids = calloc(MANY, sizeof(*ids)), root, facts;
	struct snapshot_record r;
	struct pusher p;
	struct err e;

	pusher_open(&p, &b, client);
	pusher_begin(&p, 1);
	for (uint64_t i = 0; i < MANY; i++) {
		pusher_add_chunk(&p, i, 16);
		ids[i] = chunk_id(i, 16);
		if (i % 1000 == 999)
			ck_assert_int_eq(pusher_send(&p, &e), 0);
	}
	ck_assert_int_eq(pusher_tree(&p, ids, MANY, &root, &e), 0);
	facts = pusher_facts(&p, "/many");
	ck_assert_int_eq(pusher_commit(&p, &root, &facts, &r, &e), 0);
	pusher_close(&p);
	free(ids);
}

static bool same_time(const struct stat *x, const struct stat *y)
{
	return x->st_mtim.tv_sec == y->st_mtim.tv_sec &&
	    x->st_mtim.tv_nsec == y->st_mtim.tv_nsec;
}

/* A start in a process of its own, killed when it has written to the index
 * for the n-th time. */
static void start_and_kill(unsigned n)
{
	struct timespec nap = { 0, 200000 };
	struct stat before, now;
	char path[4096];
	pid_t child;

	snprintf(path, sizeof(path), "%s/data.mdb", b.index);
	ck_assert_int_eq(stat(path, &before), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (child == 0) {
		bench_start(&b);
		_exit(0);
	}
	while (n > 0) {
		if (waitpid(child, NULL, WNOHANG) == child)
			return;		/* it came to its end */
		nanosleep(&nap, NULL);
		if (stat(path, &now) == 0 && !same_time(&before, &now)) {
			before = now;
			n--;
		}
	}
	(void)kill(child, SIGKILL);
	(void)waitpid(child, NULL, 0);
}

/* bert has all that anna had before, which no table says: an index of before
 * that is told so, and the same after kills in the midst of that. */
START_TEST(an_old_index_catches_up_or_begins_again)
{
	char old[4096];

	push_many("anna");
	bench_stop(&b, false);
	snprintf(old, sizeof(old), "%s/old", b.dir);
	temp_dir_copy(b.index, old);
	bench_start(&b);
	push_many("bert");
	for (unsigned round = 0; round < 6; round++) {
		bench_stop(&b, false);
		temp_dir_remove(b.index);
		temp_dir_copy(old, b.index);
		b.warnings[0] = '\0';
		if (round > 0)
			start_and_kill(round);
		bench_start(&b);
		if (round == 0)
			ck_assert_str_eq(b.warnings, "");
		for (uint64_t i = 0; i < MANY; i += 401) {
			struct id id = chunk_id(i, 16);

			ck_assert_int_eq(fetch_one(&b, "bert", &id, NULL, 0),
			    ERR_NONE);
		}
	}
	b.warnings[0] = '\0';
	bench_reopen(&b);
	ck_assert_str_eq(b.warnings, "");
}
END_TEST

START_TEST(clients_of_one_domain_share)
{
	struct pusher p;
	struct id id;

	bench_client(&b, "carl", "family");
	bench_client(&b, "dora", "family");
	push_simple(&b, "carl", 1, 10, 3, SIZE);
	id = chunk_id(10, SIZE);
	pusher_open(&p, &b, "dora");
	pusher_begin(&p, 1);
	ck_assert(pusher_has(&p, &id));
	ck_assert_uint_eq(store_session_snapshots(p.ss), 1);
	pusher_close(&p);
	ck_assert_int_eq(fetch_one(&b, "anna", &id, NULL, 0), ERR_NOT_FOUND);
}
END_TEST

START_TEST(a_frame_known_in_part_is_stored_in_part)
{
	struct array_info before, after;
	struct id ids[3];
	struct pusher p;
	struct err e;

	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 1);
	ids[0] = pusher_chunk(&p, 1, 50000);
	pusher_settle(&p);
	array_info(b.array, &before);
	ids[1] = chunk_id(2, 50000);
	pusher_add_chunk(&p, 1, 50000);
	pusher_add_chunk(&p, 2, 50000);
	pusher_add_chunk(&p, 2, 50000);
	ck_assert_msg(pusher_send(&p, &e) == 0, "%s", e.text);
	pusher_settle(&p);
	array_info(b.array, &after);
	ck_assert_uint_lt(after.used_bytes - before.used_bytes, 60000);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(fetch_one(&b, "anna", &ids[i], NULL, 0),
		    ERR_NONE);
	pusher_close(&p);
	bench_crash(&b);
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(fetch_one(&b, "anna", &ids[i], NULL, 0),
		    ERR_NONE);
}
END_TEST

START_TEST(a_commit_can_be_repeated)
{
	struct snapshot_record first, again;
	struct id ids[1], root, other, facts;
	bool committed;
	struct pusher p;
	struct err e;

	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 1);
	ids[0] = pusher_chunk(&p, 1, SIZE);
	ck_assert_int_eq(pusher_tree(&p, ids, 1, &root, &e), 0);
	ck_assert_int_eq(pusher_tree(&p, ids, 0, &other, &e), 0);
	facts = pusher_facts(&p, "/x");
	ck_assert_int_eq(pusher_commit(&p, &root, &facts, &first, &e), 0);
	ck_assert_int_eq(pusher_commit(&p, &root, &facts, &again, &e), 0);
	ck_assert_uint_eq(first.order, again.order);
	ck_assert_int_eq(pusher_commit(&p, &other, &facts, &again, &e), -1);
	ck_assert_int_eq(e.code, ERR_CONFLICT);
	ck_assert_int_eq(store_session_begin(p.ss, p.snapshot, &committed,
	    &again, &e), 0);
	ck_assert(committed);
	ck_assert_uint_eq(again.order, first.order);
	ck_assert_uint_eq(count_snapshots(&b, "anna"), 1);
	pusher_close(&p);
	bench_reopen(&b);
	pusher_open(&p, &b, "anna");
	memset(p.snapshot, 1, sizeof(p.snapshot));
	ck_assert_int_eq(pusher_commit(&p, &root, &facts, &again, &e), 0);
	ck_assert_uint_eq(again.order, first.order);
	pusher_close(&p);
}
END_TEST

START_TEST(one_push_of_a_client_at_a_time)
{
	struct snapshot_record r;
	struct pusher p, q;
	uint8_t id[SNAPSHOT_ID_SIZE] = { 9 };
	uint32_t number;
	bool committed;
	struct err e;

	pusher_open(&p, &b, "anna");
	pusher_open(&q, &b, "anna");
	pusher_begin(&p, 1);
	ck_assert_int_eq(store_session_begin(q.ss, id, &committed, &r, &e),
	    -1);
	ck_assert_int_eq(e.code, ERR_BUSY);
	store_session_abort(p.ss);
	ck_assert_int_eq(store_session_begin(q.ss, id, &committed, &r, &e),
	    0);
	ck_assert_int_eq(store_session_durable(q.ss, &number, &e), 0);
	pusher_close(&p);
	pusher_close(&q);
}
END_TEST

START_TEST(a_broken_push_goes_on_where_it_was)
{
	struct pusher p;
	struct id id;

	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 1);
	id = pusher_chunk(&p, 1, SIZE);
	pusher_settle(&p);
	pusher_close(&p);
	prune_now(&b);
	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 1);
	ck_assert(pusher_has(&p, &id));
	pusher_close(&p);
	bench_crash(&b);
	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 1);
	ck_assert(pusher_has(&p, &id));
	pusher_close(&p);
}
END_TEST

START_TEST(hostile_frames_are_refused)
{
	struct id missing[4];
	size_t count;
	struct pusher p;
	struct err e;

	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 1);
	pusher_add_chunk(&p, 1, SIZE);
	ck_assert_int_eq(frame_builder_finish(p.builder, CODEC_LZ4, 0,
	    &p.frame, &e), 0);
	for (size_t i = 0; i < p.frame.size; i += 7) {
		p.frame.data[i] ^= 0x55;
		ck_assert_int_eq(store_session_frame(p.ss, 1, p.frame.data,
		    p.frame.size, missing, 4, &count, &e), -1);
		p.frame.data[i] ^= 0x55;
	}
	ck_assert_int_eq(store_session_frame(p.ss, 1, p.frame.data,
	    p.frame.size, missing, 4, &count, &e), 0);
	ck_assert_int_eq(store_session_frame(p.ss, 1, p.frame.data,
	    p.frame.size, missing, 4, &count, &e), -1);
	ck_assert_int_eq(e.code, ERR_PROTOCOL);
	pusher_close(&p);
}
END_TEST

/* A failed flush: the session hears it, and nothing is listed. */
START_TEST(a_failed_flush_breaks_sessions_off)
{
	struct sim_fault f = { .kind = SIM_ERROR, .disk = SIM_ALL_DISKS,
		.ops = SIM_WRITE | SIM_FLUSH };
	struct id ids[1], root, facts;
	struct snapshot_record r;
	uint32_t number;
	struct pusher p;
	struct err e;

	pusher_open(&p, &b, "anna");
	pusher_begin(&p, 1);
	ids[0] = pusher_chunk(&p, 1, SIZE);
	ck_assert_int_eq(pusher_tree(&p, ids, 1, &root, &e), 0);
	facts = pusher_facts(&p, "/x");
	sim_arm(b.disks, &f);
	ck_assert_int_eq(pusher_commit(&p, &root, &facts, &r, &e), -1);
	ck_assert_int_eq(store_session_durable(p.ss, &number, &e), -1);
	ck_assert_uint_eq(count_snapshots(&b, "anna"), 0);
	sim_disarm(b.disks);
	pusher_close(&p);
	bench_stop(&b, true);
	bench_start(&b);
	ck_assert_uint_eq(count_snapshots(&b, "anna"), 0);
	push_simple(&b, "anna", 1, 1, 3, SIZE);
}
END_TEST

Suite *store_session_suite(void);
Suite *store_session_suite(void)
{
	Suite *s = suite_create("store_session");
	TCase *t = tcase_create("session");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_page_needs_all_it_names);
	tcase_add_test(t, a_commit_needs_its_root_and_facts);
	tcase_add_test(t, a_foreign_object_answers_like_none);
	tcase_add_test(t, two_domains_store_the_same_once);
	tcase_add_test(t, adopting_does_not_fill_the_memory);
	tcase_add_test(t, an_old_index_catches_up_or_begins_again);
	tcase_add_test(t, clients_of_one_domain_share);
	tcase_add_test(t, a_frame_known_in_part_is_stored_in_part);
	tcase_add_test(t, a_commit_can_be_repeated);
	tcase_add_test(t, one_push_of_a_client_at_a_time);
	tcase_add_test(t, a_broken_push_goes_on_where_it_was);
	tcase_add_test(t, hostile_frames_are_refused);
	tcase_add_test(t, a_failed_flush_breaks_sessions_off);
	suite_add_tcase(s, t);
	return s;
}
