/*
 * The cache: what was committed is found, what was only staged is not; every
 * flipped bit of a record is a miss; another store finds nothing; it grows; and
 * the unchanged rule, one field at a time.
 */
#include "client/cache.h"

#include "tests/client/fixture.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Suite *client_cache_suite(void);

#define S INT64_C(1000000000)

static const uint8_t store[16] = { 1 }, domain[16] = { 2 };
static struct fixture fx;

static void setup(void)
{
	fixture_init(&fx);
}

static void teardown(void)
{
	fixture_release(&fx);
}

static struct cache *open_cache(const uint8_t *domain_id)
{
	struct cache *c;
	struct err e;

	ck_assert_int_eq(cache_open(&c, at(fx.dir, "cache"), store,
	    domain_id, &e), 0);
	return c;
}

static struct cache_record sample(uint64_t ino)
{
	return (struct cache_record){ .dev = 0, .ino = ino, .size = 3,
		.mtime_s = -1, .ctime_s = 100, .mtime_ns = 5, .ctime_ns = 6,
		.read_ns = 200 * S, .content = CONTENT_CHUNK,
		.id = { { 1, 2, (uint8_t)ino } }, .xattrs = true };
}

static void commit(struct cache *c)
{
	struct err e;

	ck_assert_msg(cache_commit(c, &e) == 0, "%s", e.text);
}

START_TEST(what_was_committed_is_found_and_nothing_else)
{
	struct cache *c = open_cache(domain);
	struct cache_record r = sample(7), got;

	cache_stage(c, &r);
	ck_assert(!cache_find(c, 0, 7, &got));
	cache_restart(c);
	commit(c);
	ck_assert(!cache_find(c, 0, 7, &got));
	cache_stage(c, &r);
	commit(c);
	cache_close(c);
	c = open_cache(domain);
	ck_assert(cache_find(c, 0, 7, &got));
	ck_assert_mem_eq(&got.id, &r.id, sizeof(r.id));
	ck_assert_int_eq(got.mtime_s, -1);
	ck_assert(got.xattrs);
	ck_assert(!cache_find(c, 1, 7, &got));
	ck_assert(!cache_find(c, 0, 8, &got));
	cache_close(c);
}
END_TEST

START_TEST(another_domain_finds_nothing)
{
	static const uint8_t other[16] = { 3 };
	struct cache *c = open_cache(domain);
	struct cache_record r = sample(7), got;

	cache_stage(c, &r);
	commit(c);
	cache_close(c);
	c = open_cache(other);
	ck_assert(!cache_find(c, 0, 7, &got));
	cache_close(c);
}
END_TEST

START_TEST(it_grows_and_keeps_what_it_had)
{
	struct cache *c = open_cache(domain);
	struct cache_record r, got;
	unsigned found = 0;

	for (uint64_t i = 1; i <= 20000; i++) {
		r = sample(i);
		cache_stage(c, &r);
		if (i % 5000 == 0)
			commit(c);
	}
	for (uint64_t i = 1; i <= 20000; i++)
		found += cache_find(c, 0, i, &got) && got.ino == i;
	/* Buckets fill unevenly; a few losses are allowed. */
	ck_assert_uint_gt(found, 19900);
	cache_close(c);
}
END_TEST

START_TEST(every_flipped_bit_of_a_record_is_a_miss)
{
	struct cache *c = open_cache(domain);
	struct cache_record r = sample(7), got;
	char command[256], path[256];
	struct stat s;
	FILE *list;
	int fd;

	cache_stage(c, &r);
	commit(c);
	(void)snprintf(command, sizeof(command), "ls %s/cache/*/inodes",
	    fx.dir);
	list = popen(command, "r");
	ck_assert_ptr_nonnull(fgets(path, sizeof(path), list));
	pclose(list);
	path[strcspn(path, "\n")] = '\0';
	fd = open(path, O_RDWR);
	ck_assert_int_eq(fstat(fd, &s), 0);
	for (off_t i = 4096; i < s.st_size; i++) {
		uint8_t byte, other;

		ck_assert_int_eq(pread(fd, &byte, 1, i), 1);
		if (byte == 0)
			continue;
		for (int bit = 0; bit < 8; bit++) {
			other = (uint8_t)(byte ^ (1 << bit));
			ck_assert_int_eq(pwrite(fd, &other, 1, i), 1);
			ck_assert(!cache_find(c, 0, 7, &got));
		}
		ck_assert_int_eq(pwrite(fd, &byte, 1, i), 1);
	}
	ck_assert(cache_find(c, 0, 7, &got));
	close(fd);
	cache_close(c);
}
END_TEST

START_TEST(a_second_one_at_once_works_without)
{
	struct cache *a = open_cache(domain), *b;
	struct cache_record r = sample(7), got;

	cache_stage(a, &r);
	commit(a);
	b = open_cache(domain);
	ck_assert(!cache_find(b, 0, 7, &got));
	cache_stage(b, &r);
	commit(b);
	ck_assert(cache_find(a, 0, 7, &got));
	cache_close(a);
	cache_close(b);
}
END_TEST

START_TEST(a_broken_push_leaves_a_mark_and_a_commit_removes_it)
{
	struct cache *c = open_cache(domain);

	ck_assert(!cache_unfinished(c));
	cache_begin(c);
	cache_close(c);
	c = open_cache(domain);
	ck_assert(cache_unfinished(c));
	commit(c);
	cache_close(c);
	c = open_cache(domain);
	ck_assert(!cache_unfinished(c));
	cache_close(c);
}
END_TEST

START_TEST(nothing_works_as_well_as_a_cache_that_cannot_be_made)
{
	struct cache_record r = sample(7), got;
	struct cache *c;
	struct err e;

	ck_assert_int_eq(cache_open(&c, "/proc/nowhere", store, domain, &e),
	    0);
	cache_begin(c);
	cache_stage(c, &r);
	commit(c);
	ck_assert(!cache_find(c, 0, 7, &got));
	ck_assert_int_ge(cache_dir_fd(c), 0);
	cache_close(c);
}
END_TEST

/* ---- the unchanged rule ------------------------------------------------- */

static struct attr same_as(const struct cache_record *r)
{
	return (struct attr){ .dev = r->dev, .ino = r->ino, .size = r->size,
		.mtime_s = r->mtime_s, .mtime_ns = r->mtime_ns,
		.ctime_s = r->ctime_s, .ctime_ns = r->ctime_ns };
}

START_TEST(each_field_alone_makes_a_file_changed)
{
	struct cache_record r = sample(7);
	struct attr a = same_as(&r);

	ck_assert(cache_unchanged(&r, &a));
#define CHANGES(field) do { \
	a = same_as(&r); \
	a.field++; \
	ck_assert(!cache_unchanged(&r, &a)); \
} while (0)
	CHANGES(dev);
	CHANGES(ino);
	CHANGES(size);
	CHANGES(mtime_s);
	CHANGES(mtime_ns);
	CHANGES(ctime_s);
	CHANGES(ctime_ns);
}
END_TEST

START_TEST(a_file_as_young_as_its_read_is_racy)
{
	struct cache_record r = sample(7);
	struct attr a;

	r.mtime_s = r.ctime_s = 100;
	r.mtime_ns = r.ctime_ns = 500;
	r.read_ns = 100 * S + 500 + 60000000;
	a = same_as(&r);
	ck_assert(cache_unchanged(&r, &a));
	r.read_ns = 100 * S + 500 + 40000000;
	ck_assert(!cache_unchanged(&r, &a));
	/* Only one of the two is young. */
	r.mtime_s = 10;
	a = same_as(&r);
	ck_assert(!cache_unchanged(&r, &a));
	/* Whole seconds: the clock may count in twos. */
	r.mtime_s = r.ctime_s = 100;
	r.mtime_ns = r.ctime_ns = 0;
	r.read_ns = 102 * S;
	a = same_as(&r);
	ck_assert(!cache_unchanged(&r, &a));
	r.read_ns = 103 * S;
	ck_assert(cache_unchanged(&r, &a));
	/* The future, and the edge of time. */
	r.mtime_s = INT64_MAX;
	a = same_as(&r);
	ck_assert(!cache_unchanged(&r, &a));
	r.mtime_s = INT64_MIN;
	a = same_as(&r);
	ck_assert(cache_unchanged(&r, &a));
}
END_TEST

Suite *client_cache_suite(void)
{
	Suite *s = suite_create("client/cache");
	TCase *t = tcase_create("cache");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, what_was_committed_is_found_and_nothing_else);
	tcase_add_test(t, another_domain_finds_nothing);
	tcase_add_test(t, it_grows_and_keeps_what_it_had);
	tcase_add_test(t, every_flipped_bit_of_a_record_is_a_miss);
	tcase_add_test(t, a_second_one_at_once_works_without);
	tcase_add_test(t, a_broken_push_leaves_a_mark_and_a_commit_removes_it);
	tcase_add_test(t,
	    nothing_works_as_well_as_a_cache_that_cannot_be_made);
	tcase_add_test(t, each_field_alone_makes_a_file_changed);
	tcase_add_test(t, a_file_as_young_as_its_read_is_racy);
	suite_add_tcase(s, t);
	return s;
}
