/* Proves base/io.h in a temporary directory. */
#include "base/buf.h"
#include "base/io.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Suite *base_io_suite(void);

static char path[256];
static int dir = -1;

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(path, sizeof(path), "%s/bk-io-XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(dir, 0);
}

static void teardown(void)
{
	static const char *const names[] = { "f", "pipe", "sub/a/b", "sub/a" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		unlinkat(dir, names[i], i < 2 ? 0 : AT_REMOVEDIR);
	unlinkat(dir, "sub", AT_REMOVEDIR);
	io_close(&dir);
	ck_assert_int_eq(rmdir(path), 0);	/* nothing else was left */
}

static void content_is(const char *name, const char *want)
{
	struct buf b;
	struct err e;

	buf_init(&b, 1000);
	ck_assert_int_eq(io_file_load(dir, name, &b, &e), 0);
	ck_assert_uint_eq(b.size, strlen(want));
	if (b.size > 0)
		ck_assert_mem_eq(b.data, want, b.size);
	buf_release(&b);
}

START_TEST(replace_makes_changes_and_leaves_no_other_file)
{
	struct stat st;
	struct err e;

	umask(077);	/* the mode is what was asked for all the same */
	ck_assert_int_eq(io_file_replace(dir, "f", 0644, "one", 3, &e), 0);
	content_is("f", "one");
	ck_assert_int_eq(io_file_replace(dir, "f", 0600, "", 0, &e), 0);
	content_is("f", "");
	ck_assert_int_eq(io_file_replace(dir, "f", 0640, "three", 5, &e), 0);
	content_is("f", "three");
	ck_assert_int_eq(fstatat(dir, "f", &st, 0), 0);
	ck_assert_int_eq(st.st_mode & 0777, 0640);
}
END_TEST

START_TEST(a_replacement_that_fails_keeps_the_old_file)
{
	char name[300];
	struct err e;

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	ck_assert_int_eq(io_file_replace(dir, name, 0600, "x", 1, &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT);
	ck_assert_int_eq(mkdirat(dir, "sub", 0700), 0);
	ck_assert_int_eq(io_file_replace(dir, "sub", 0600, "x", 1, &e), -1);
	ck_assert_int_eq(e.os, EISDIR);
	ck_assert_int_eq(io_file_replace(dir, "none/f", 0600, "x", 1, &e),
	    -1);
	ck_assert_int_eq(e.os, ENOENT);
}
END_TEST

static void *replace_often(void *arg)
{
	struct err e;
	char text[4000];

	memset(text, *(char *)arg, sizeof(text));
	for (int i = 0; i < 20; i++)
		if (io_file_replace(dir, "f", 0600, text, sizeof(text), &e))
			return arg;
	return NULL;
}

START_TEST(two_writers_never_mix)
{
	char letters[] = "ab";
	pthread_t t[2];
	void *failed;
	struct buf b;
	struct err e;

	for (int i = 0; i < 2; i++)
		pthread_create(&t[i], NULL, replace_often, &letters[i]);
	for (int i = 0; i < 2; i++) {
		pthread_join(t[i], &failed);
		ck_assert_ptr_null(failed);
	}
	buf_init(&b, 10000);
	ck_assert_int_eq(io_file_load(dir, "f", &b, &e), 0);
	ck_assert_uint_eq(b.size, 4000);
	for (size_t i = 1; i < b.size; i++)
		ck_assert_uint_eq(b.data[i], b.data[0]);
	buf_release(&b);
}
END_TEST

START_TEST(loading_is_bounded)
{
	struct buf b;
	struct err e;

	ck_assert_int_eq(io_file_replace(dir, "f", 0600, "0123456789", 10,
	    &e), 0);
	buf_init(&b, 10);
	ck_assert_int_eq(io_file_load(dir, "f", &b, &e), 0);
	ck_assert_uint_eq(b.size, 10);
	buf_release(&b);
	buf_init(&b, 9);
	ck_assert_int_eq(io_file_load(dir, "f", &b, &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT);
	buf_release(&b);
	ck_assert_int_eq(io_file_load(dir, "none", &b, &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	ck_assert_int_eq(mkfifoat(dir, "pipe", 0600), 0);
	ck_assert_int_eq(io_file_load(dir, "pipe", &b, &e), 0);	/* no hang */
	buf_release(&b);
}
END_TEST

START_TEST(a_short_file_is_corrupt_and_a_failed_write_is_named)
{
	char data[10];
	struct err e;
	int fd = openat(dir, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0600);

	ck_assert_int_eq(io_pwrite_all(fd, "12345", 5, 0, "f", &e), 0);
	ck_assert_int_eq(io_pread_all(fd, data, 5, 0, "f", &e), 0);
	ck_assert_mem_eq(data, "12345", 5);
	ck_assert_int_eq(io_pread_all(fd, data, 6, 0, "the file", &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	ck_assert_str_eq(e.text, "the file ends 1 bytes early");
	io_close(&fd);
	ck_assert_int_eq(fd, -1);
	io_close(&fd);
	fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
	ck_assert_int_eq(io_write_all(fd, "x", 1, "full", &e), -1);
	ck_assert_int_eq(e.code, ERR_NO_SPACE);
	io_close(&fd);
	ck_assert_int_eq(io_write_all(-1, "x", 1, "nothing", &e), -1);
	ck_assert_int_eq(e.os, EBADF);
}
END_TEST

START_TEST(directories_are_made_on_the_way)
{
	char deep[400], text[400];
	struct err e;
	struct stat st;

	snprintf(deep, sizeof(deep), "%s//sub/a/b/", path);
	ck_assert_int_eq(io_mkdirs(deep, 0700, &e), 0);
	ck_assert_int_eq(io_mkdirs(deep, 0700, &e), 0);
	ck_assert_int_eq(fstatat(dir, "sub/a/b", &st, 0), 0);
	ck_assert(S_ISDIR(st.st_mode));
	ck_assert_int_eq(io_file_replace(dir, "f", 0600, "x", 1, &e), 0);
	snprintf(text, sizeof(text), "%s/f/a", path);
	ck_assert_int_eq(io_mkdirs(text, 0700, &e), -1);
	snprintf(text, sizeof(text), "%s/f", path);
	ck_assert_int_eq(io_mkdirs(text, 0700, &e), -1);
}
END_TEST

Suite *base_io_suite(void)
{
	Suite *s = suite_create("io");
	TCase *t = tcase_create("all");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, replace_makes_changes_and_leaves_no_other_file);
	tcase_add_test(t, a_replacement_that_fails_keeps_the_old_file);
	tcase_add_test(t, two_writers_never_mix);
	tcase_add_test(t, loading_is_bounded);
	tcase_add_test(t, a_short_file_is_corrupt_and_a_failed_write_is_named);
	tcase_add_test(t, directories_are_made_on_the_way);
	suite_add_tcase(s, t);
	return s;
}
