/*
 * Proves base/extsort.h against qsort on the same records: in memory, with
 * spills, with more runs than fit one merge, and with a disk that fails.
 * Seeds are fixed: record i of a test depends on i alone.
 */
#include "base/extsort.h"
#include "tests/support/pace.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

Suite *base_extsort_suite(void);

static char path[256];
static int dir;

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(path, sizeof(path), "%s/bk-sort-XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(dir, 0);
}

static void teardown(void)
{
	close(dir);
	ck_assert_int_eq(rmdir(path), 0);	/* no spill file has a name */
}

struct rec {
	size_t size;
	uint8_t *data;
};

static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/* Few distinct first bytes, so that prefixes and whole records tie. */
static void make(struct rec *r, size_t i, size_t size_max)
{
	uint64_t x = mix(i + 1);

	r->size = x % (size_max + 1);
	r->data = malloc(r->size + 1);
	for (size_t j = 0; j < r->size; j++) {
		if (j % 8 == 0)
			x = mix(x + j);
		r->data[j] = (uint8_t)(x >> (j < 7 ? 60 : j % 8 * 8));
	}
}

static int compare(const void *left, const void *right)
{
	const struct rec *a = left, *b = right;
	size_t least = a->size < b->size ? a->size : b->size;
	int c = memcmp(a->data, b->data, least);

	if (c != 0)
		return c;
	return a->size < b->size ? -1 : a->size > b->size;
}

static void same_as_qsort(size_t count, size_t size_max, size_t memory)
{
	struct rec *all = calloc(count + 1, sizeof(*all));
	const uint8_t *data;
	struct extsort *s;
	struct err e;
	size_t size;

	ck_assert_int_eq(extsort_new(&s, dir, memory, &e), 0);
	for (size_t i = 0; i < count; i++) {
		make(&all[i], i, size_max);
		ck_assert_int_eq(extsort_add(s, all[i].data, all[i].size, &e),
		    0);
	}
	qsort(all, count, sizeof(*all), compare);
	ck_assert_uint_eq(extsort_count(s), count);
	ck_assert_int_eq(extsort_finish(s, &e), 0);
	for (size_t i = 0; i < count; i++) {
		ck_assert_int_eq(extsort_next(s, &data, &size, &e), 1);
		ck_assert_uint_eq(size, all[i].size);
		ck_assert_int_eq(memcmp(data, all[i].data, size), 0);
		free(all[i].data);
	}
	ck_assert_int_eq(extsort_next(s, &data, &size, &e), 0);
	ck_assert_int_eq(extsort_next(s, &data, &size, &e), 0);
	extsort_free(s);
	free(all);
}

START_TEST(nothing_sorts_to_nothing)
{
	same_as_qsort(0, 0, 1 << 20);
}
END_TEST

START_TEST(records_sort_in_memory)
{
	same_as_qsort(5000, 60, 8 << 20);
}
END_TEST

START_TEST(records_sort_with_spills)
{
	same_as_qsort(pace() > 1 ? 20000 : 40000, 60, 1 << 20);
}
END_TEST

START_TEST(more_runs_than_slots_are_merged_first)
{
	/* 278528 bytes are four slots; some 8 to 16 runs */
	same_as_qsort(pace() > 1 ? 25000 : 50000, 60, 1);
}
END_TEST

START_TEST(the_longest_records_sort_with_spills)
{
	same_as_qsort(300, EXTSORT_RECORD_MAX, 1);
}
END_TEST

START_TEST(empty_and_equal_records_sort)
{
	same_as_qsort(30000, 1, 1);
}
END_TEST

START_TEST(a_record_too_long_is_refused_and_nothing_breaks)
{
	static uint8_t big[EXTSORT_RECORD_MAX + 1];
	const uint8_t *data;
	struct extsort *s;
	struct err e;
	size_t size;

	ck_assert_int_eq(extsort_new(&s, dir, 1, &e), 0);
	ck_assert_int_eq(extsort_add(s, big, sizeof(big), &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT);
	ck_assert_int_eq(extsort_add(s, big, sizeof(big) - 1, &e), 0);
	ck_assert_int_eq(extsort_finish(s, &e), 0);
	ck_assert_int_eq(extsort_next(s, &data, &size, &e), 1);
	ck_assert_uint_eq(size, EXTSORT_RECORD_MAX);
	extsort_free(s);
	extsort_free(NULL);
}
END_TEST

START_TEST(a_spill_that_fails_is_an_error)
{
	struct rlimit small = { 100000, 100000 };	/* bytes of a file */
	struct extsort *s;
	struct err e;
	struct rec r;
	int rc = 0;

	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
	ck_assert_int_eq(extsort_new(&s, dir, 1, &e), 0);
	for (size_t i = 0; i < 100000 && rc == 0; i++) {
		make(&r, i, 60);
		rc = extsort_add(s, r.data, r.size, &e);
		free(r.data);
	}
	ck_assert_int_eq(rc, -1);
	ck_assert_int_eq(e.code, ERR_IO);
	extsort_free(s);
}
END_TEST

/* The spill file as /proc shows it, to damage it behind the sorter's back. */
static int find_spill(void)
{
	char link[64], target[512];
	int found = -1;

	for (int fd = 3; fd < 64 && found < 0; fd++) {
		ssize_t n;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, target, sizeof(target) - 1);
		if (n <= 0)
			continue;
		target[n] = '\0';
		if (strstr(target, "bk-sort-") && strstr(target, "(deleted)"))
			found = fd;
	}
	return found;
}

START_TEST(other_bytes_in_the_spill_file_never_step_out_of_bounds)
{
	const uint8_t *data;
	struct extsort *s;
	struct err e;
	struct rec r;
	size_t size;
	int fd, rc;

	ck_assert_int_eq(extsort_new(&s, dir, 1, &e), 0);
	for (size_t i = 0; i < 30000; i++) {
		make(&r, i, 60);
		ck_assert_int_eq(extsort_add(s, r.data, r.size, &e), 0);
		free(r.data);
	}
	fd = find_spill();
	ck_assert_int_ge(fd, 0);
	for (int i = 0; i < 2000; i++)
		ck_assert_int_eq(pwrite(fd, "\xff\xff", 2, i * 97), 2);
	rc = extsort_finish(s, &e);
	while (rc >= 0) {
		rc = extsort_next(s, &data, &size, &e);
		if (rc <= 0)
			break;
		ck_assert_uint_le(size, EXTSORT_RECORD_MAX);
	}
	ck_assert_int_eq(rc, -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	extsort_free(s);
}
END_TEST

Suite *base_extsort_suite(void)
{
	Suite *s = suite_create("extsort");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, nothing_sorts_to_nothing);
	tcase_add_test(t, records_sort_in_memory);
	tcase_add_test(t, records_sort_with_spills);
	tcase_add_test(t, more_runs_than_slots_are_merged_first);
	tcase_add_test(t, the_longest_records_sort_with_spills);
	tcase_add_test(t, empty_and_equal_records_sort);
	tcase_add_test(t, a_record_too_long_is_refused_and_nothing_breaks);
	tcase_add_test(t, a_spill_that_fails_is_an_error);
	tcase_add_test(t,
	    other_bytes_in_the_spill_file_never_step_out_of_bounds);
	suite_add_tcase(s, t);
	return s;
}
