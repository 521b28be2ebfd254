/*
 * The store as a whole: what was committed is listed and can be fetched, also
 * after a clean stop, after a crash, and with an index that is lost, old,
 * damaged or of another store (S1, S5).  Method: pushes by hand on simulated
 * disks, every chunk compared.
 */
#include "tests/store/help.h"

#include "tests/support/temp_dir.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK 3000
#define COUNT 20

static struct bench b;

static void setup(void)
{
	bench_open(&b, 128);
}

static void teardown(void)
{
	bench_close(&b);
}

START_TEST(gives_back_what_was_pushed)
{
	struct id root = push_simple(&b, "anna", 1, 100, COUNT, CHUNK);

	check_simple(&b, "anna", 100, COUNT, CHUNK, &root);
	ck_assert_uint_eq(count_snapshots(&b, "anna"), 1);
	ck_assert_uint_eq(count_snapshots(&b, "bert"), 0);
	ck_assert_uint_eq(count_snapshots(&b, NULL), 1);
}
END_TEST

START_TEST(is_the_same_after_a_clean_stop)
{
	struct id root = push_simple(&b, "anna", 1, 100, COUNT, CHUNK);
	struct id more;

	bench_reopen(&b);
	ck_assert_str_eq(b.warnings, "");
	check_simple(&b, "anna", 100, COUNT, CHUNK, &root);
	more = push_simple(&b, "anna", 2, 200, COUNT, CHUNK);
	bench_reopen(&b);
	check_simple(&b, "anna", 100, COUNT, CHUNK, &root);
	check_simple(&b, "anna", 200, COUNT, CHUNK, &more);
	ck_assert_uint_eq(count_snapshots(&b, "anna"), 2);
	ck_assert_str_eq(b.warnings, "");
}
END_TEST

START_TEST(catches_up_after_a_crash)
{
	struct id root = push_simple(&b, "anna", 1, 100, COUNT, CHUNK);
	struct id other, more;

	bench_reopen(&b);
	other = push_simple(&b, "bert", 2, 110, COUNT, CHUNK);
	more = push_simple(&b, "anna", 3, 105, COUNT, CHUNK);
	bench_crash(&b);
	ck_assert_str_eq(b.warnings, "");
	check_simple(&b, "anna", 100, COUNT, CHUNK, &root);
	check_simple(&b, "bert", 110, COUNT, CHUNK, &other);
	check_simple(&b, "anna", 105, COUNT, CHUNK, &more);
}
END_TEST

START_TEST(builds_a_lost_index_again)
{
	struct id root = push_simple(&b, "anna", 1, 100, COUNT, CHUNK);
	struct id other = push_simple(&b, "bert", 2, 110, COUNT, CHUNK);

	bench_stop(&b, _i != 0);
	temp_dir_remove(b.index);
	bench_start(&b);
	ck_assert_ptr_nonnull(strstr(b.warnings, "built again"));
	check_simple(&b, "anna", 100, COUNT, CHUNK, &root);
	check_simple(&b, "bert", 110, COUNT, CHUNK, &other);
	root = push_simple(&b, "anna", 3, 100, COUNT, CHUNK);
	check_simple(&b, "anna", 100, COUNT, CHUNK, &root);
}
END_TEST

START_TEST(takes_an_old_copy_of_the_index)
{
	struct id root = push_simple(&b, "anna", 1, 100, COUNT, CHUNK), more;
	char old[4096];

	bench_stop(&b, false);
	snprintf(old, sizeof(old), "%s/old", b.dir);
	temp_dir_copy(b.index, old);
	bench_start(&b);
	more = push_simple(&b, "anna", 2, 110, COUNT, CHUNK);
	bench_stop(&b, false);
	temp_dir_remove(b.index);
	temp_dir_copy(old, b.index);
	bench_start(&b);
	ck_assert_str_eq(b.warnings, "");
	check_simple(&b, "anna", 100, COUNT, CHUNK, &root);
	check_simple(&b, "anna", 110, COUNT, CHUNK, &more);
}
END_TEST

/* _i: where the file is hit, in 1/64 of its length; 64 = cut short. */
START_TEST(builds_a_damaged_index_again)
{
	struct id root = push_simple(&b, "anna", 1, 100, COUNT, CHUNK);
	uint8_t noise[512];
	char path[4096];
	off_t size;
	int fd;

	bench_stop(&b, false);
	snprintf(path, sizeof(path), "%s/data.mdb", b.index);
	fd = open(path, O_RDWR);
	ck_assert_int_ge(fd, 0);
	size = lseek(fd, 0, SEEK_END);
	memset(noise, 0xa5, sizeof(noise));
	if (_i == 64)
		ck_assert_int_eq(ftruncate(fd, size / 2), 0);
	else
		ck_assert_int_eq(pwrite(fd, noise, sizeof(noise),
		    size * _i / 64), sizeof(noise));
	close(fd);
	bench_start(&b);
	check_simple(&b, "anna", 100, COUNT, CHUNK, &root);
}
END_TEST

START_TEST(does_not_believe_another_stores_index)
{
	struct id root = push_simple(&b, "anna", 1, 100, COUNT, CHUNK);
	struct bench other;

	bench_open(&other, 128);
	push_simple(&other, "anna", 1, 500, COUNT, CHUNK);
	bench_stop(&other, false);
	bench_stop(&b, false);
	temp_dir_remove(b.index);
	temp_dir_copy(other.index, b.index);
	bench_start(&b);
	ck_assert_ptr_nonnull(strstr(b.warnings, "not of this store"));
	check_simple(&b, "anna", 100, COUNT, CHUNK, &root);
	bench_close(&other);
}
END_TEST

START_TEST(keeps_host_key_and_seed)
{
	uint8_t seed[32];
	char *text;
	struct err e;

	memcpy(seed, store_cut_seed(b.store), 32);
	bench_reopen(&b);
	ck_assert_mem_eq(seed, store_cut_seed(b.store), 32);
	ck_assert_int_eq(store_host_key(b.store, &text, &e), 0);
	ck_assert_str_eq(text, "the host key");
	free(text);
}
END_TEST

START_TEST(changes_the_domain_token_after_a_rebuild)
{
	uint8_t before[16], after[16];
	struct pusher p;

	push_simple(&b, "anna", 1, 100, COUNT, CHUNK);
	pusher_open(&p, &b, "anna");
	store_session_domain_token(p.ss, before);
	pusher_close(&p);
	bench_reopen(&b);
	pusher_open(&p, &b, "anna");
	store_session_domain_token(p.ss, after);
	ck_assert_mem_eq(before, after, 16);
	pusher_close(&p);
	bench_stop(&b, false);
	temp_dir_remove(b.index);
	bench_start(&b);
	pusher_open(&p, &b, "anna");
	store_session_domain_token(p.ss, after);
	ck_assert_mem_ne(before, after, 16);
	pusher_close(&p);
}
END_TEST

/* The tables of open segments cannot be read: new ones are begun. */
START_TEST(goes_on_beside_a_lost_table)
{
	struct id root, more;

	bench_close(&b);
	bench_open_bare(&b, 112);
	root = push_simple(&b, "anna", 1, 100, COUNT, CHUNK);
	bench_stop(&b, false);
	ck_assert_uint_ge(bench_damage_bytes(&b, "bkT1", 4), 2);
	bench_start(&b);
	ck_assert_ptr_nonnull(strstr(b.warnings, "are sealed"));
	check_simple(&b, "anna", 100, COUNT, CHUNK, &root);
	more = push_simple(&b, "bert", 2, 110, COUNT, CHUNK);
	bench_reopen(&b);
	check_simple(&b, "anna", 100, COUNT, CHUNK, &root);
	check_simple(&b, "bert", 110, COUNT, CHUNK, &more);
}
END_TEST

Suite *store_store_suite(void);
Suite *store_store_suite(void)
{
	Suite *s = suite_create("store_store");
	TCase *t = tcase_create("store");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, gives_back_what_was_pushed);
	tcase_add_test(t, is_the_same_after_a_clean_stop);
	tcase_add_test(t, catches_up_after_a_crash);
	tcase_add_loop_test(t, builds_a_lost_index_again, 0, 2);
	tcase_add_test(t, takes_an_old_copy_of_the_index);
	tcase_add_loop_test(t, builds_a_damaged_index_again, 0, 65);
	tcase_add_test(t, does_not_believe_another_stores_index);
	tcase_add_test(t, keeps_host_key_and_seed);
	tcase_add_test(t, changes_the_domain_token_after_a_rebuild);
	tcase_add_test(t, goes_on_beside_a_lost_table);
	suite_add_tcase(s, t);
	return s;
}
