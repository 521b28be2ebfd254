/*
 * Files as members: created whole, opened by one program at a time, read back,
 * and noticed when the name leads elsewhere.  Method: real files in a
 * directory of the test.
 */
#include "raid/array.h"
#include "raid/dev.h"
#include "tests/support/temp_dir.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIZE (UINT64_C(1) << 20)

static char *dir;
static char path[300];

static void setup(void)
{
	struct err e;

	dir = temp_dir_new();
	snprintf(path, sizeof(path), "%s/member", dir);
	ck_assert_msg(dev_file_create(path, SIZE, &e) == 0, "%s", e.text);
}

static void teardown(void)
{
	temp_dir_remove(dir);
	free(dir);
}

static struct dev *must_open(bool read_only)
{
	struct dev *d;
	struct err e;

	ck_assert_msg(dev_file_open(&d, path, read_only, &e) == 0, "%s",
	    e.text);
	return d;
}

START_TEST(a_new_file_has_its_size_and_its_blocks)
{
	struct stat st;
	struct err e;

	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_size, SIZE);
	ck_assert_int_ge(st.st_blocks * 512, (long)SIZE);
	ck_assert_int_eq(dev_file_create(path, SIZE, &e), -1);
	ck_assert_int_eq(e.code, ERR_EXISTS);
}
END_TEST

START_TEST(what_is_written_is_read_back_cached_or_not)
{
	struct dev *d = must_open(false);
	uint8_t *out = aligned_alloc(RAID_ROW, 8192);
	uint8_t *in = aligned_alloc(RAID_ROW, 8192);
	struct err e;

	ck_assert_uint_eq(d->size, SIZE);
	for (int round = 0; round < 3; round++) {
		memset(out, 'a' + round, 8192);
		ck_assert_msg(d->ops->write(d, out, 8192, 4096, &e) == 0,
		    "%s", e.text);
		for (int uncached = 0; uncached < 2; uncached++) {
			memset(in, 0, 8192);
			ck_assert_int_eq(d->ops->read(d, in, 8192, 4096,
			    uncached, &e), 0);
			ck_assert_mem_eq(in, out, 8192);
		}
	}
	ck_assert_int_eq(d->ops->flush(d, &e), 0);
	ck_assert_int_eq(d->ops->read(d, in, 8192, SIZE - 4096, false, &e),
	    -1);
	free(out);
	free(in);
	dev_close(d);
	dev_close(NULL);
}
END_TEST

START_TEST(a_second_opening_is_refused_naming_the_path)
{
	struct dev *d = must_open(false), *other;
	struct err e;

	ck_assert_int_eq(dev_file_open(&other, path, false, &e), -1);
	ck_assert_int_eq(e.code, ERR_BUSY);
	ck_assert_ptr_nonnull(strstr(e.text, path));
	ck_assert_int_eq(dev_file_open(&other, path, true, &e), -1);
	dev_close(d);
	d = must_open(false);
	dev_close(d);
}
END_TEST

START_TEST(read_only_devices_are_not_written)
{
	uint8_t *out = aligned_alloc(RAID_ROW, 4096);
	struct dev *d = must_open(true);
	struct err e;

	memset(out, 1, 4096);
	ck_assert(d->read_only);
	ck_assert_int_eq(d->ops->write(d, out, 4096, 0, &e), -1);
	free(out);
	dev_close(d);
}
END_TEST

START_TEST(looks_tell_same_gone_other_and_shrunk)
{
	struct dev *d = must_open(false);
	char away[400];
	struct err e;

	ck_assert_int_eq(d->ops->look(d), DEV_SAME);
	snprintf(away, sizeof(away), "%s.away", path);
	ck_assert_int_eq(rename(path, away), 0);
	ck_assert_int_eq(d->ops->look(d), DEV_GONE);
	ck_assert_int_eq(dev_file_create(path, SIZE, &e), 0);
	ck_assert_int_eq(d->ops->look(d), DEV_OTHER);
	ck_assert_int_eq(rename(away, path), 0);
	ck_assert_int_eq(d->ops->look(d), DEV_SAME);
	ck_assert_int_eq(truncate(path, SIZE / 2), 0);
	ck_assert_int_eq(d->ops->look(d), DEV_OTHER);
	dev_close(d);
}
END_TEST

START_TEST(what_is_no_disk_is_refused)
{
	struct dev *d;
	struct err e;

	ck_assert_int_eq(dev_file_open(&d, dir, false, &e), -1);
	ck_assert_int_eq(e.code, ERR_USAGE);
	ck_assert_int_eq(dev_file_open(&d, "/nonexistent/x", false, &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	ck_assert_int_eq(dev_file_create("/nonexistent/x", SIZE, &e), -1);
	ck_assert_int_eq(e.code, ERR_IO);
}
END_TEST

START_TEST(files_of_one_file_system_are_known_to_share_a_disk)
{
	struct dev *a = must_open(false), *b;
	char other[400];
	struct err e;

	snprintf(other, sizeof(other), "%s2", path);
	ck_assert_int_eq(dev_file_create(other, SIZE, &e), 0);
	ck_assert_int_eq(dev_file_open(&b, other, false, &e), 0);
	ck_assert_uint_ne(a->disk, 0);
	ck_assert_uint_eq(a->disk, b->disk);
	dev_close(a);
	dev_close(b);
}
END_TEST

Suite *raid_dev_file_suite(void);
Suite *raid_dev_file_suite(void)
{
	Suite *s = suite_create("raid/dev_file");
	TCase *t = tcase_create("files");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_new_file_has_its_size_and_its_blocks);
	tcase_add_test(t, what_is_written_is_read_back_cached_or_not);
	tcase_add_test(t, a_second_opening_is_refused_naming_the_path);
	tcase_add_test(t, read_only_devices_are_not_written);
	tcase_add_test(t, looks_tell_same_gone_other_and_shrunk);
	tcase_add_test(t, what_is_no_disk_is_refused);
	tcase_add_test(t,
	    files_of_one_file_system_are_known_to_share_a_disk);
	suite_add_tcase(s, t);
	return s;
}
