/*
 * The state directory: made once, private, locked by one, its hints read back;
 * a config that is wrong names its line.  Method: real directories below a
 * temporary one.
 */
#include "server/state.h"

#include "base/io.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Suite *server_state_suite(void);

static char root[64];
static char dir[96];

static void set_up(void)
{
	snprintf(root, sizeof(root), "/tmp/bk-test-state.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	snprintf(dir, sizeof(dir), "%s/a/b", root);
}

static void tear_down(void)
{
	static const char *const names[] = { "a/b/members", "a/b/config",
	    "a/b", "a", "" };
	char path[160];

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", root, names[i]);
		(void)remove(path);
	}
}

static void make(struct state *s, const char *index)
{
	struct path_list l = { .count = 0 };
	struct err e;

	ck_assert_int_eq(path_list_add(&l, "/disks", "m0", true, &e), 0);
	ck_assert_int_eq(path_list_add(&l, "/disks", "/m1", false, &e), 0);
	ck_assert_msg(state_create(s, dir, index, &l, &e) == 0, "%s", e.text);
	path_list_release(&l);
}

static void config(const char *text)
{
	struct err e;
	int fd = open(dir, O_RDONLY | O_DIRECTORY);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(io_file_replace(fd, "config", 0600, text,
	    strlen(text), &e), 0);
	close(fd);
}

START_TEST(is_private_and_read_back)
{
	struct state s;
	struct stat st;
	struct err e;

	make(&s, NULL);
	state_release(&s);
	ck_assert_int_eq(stat(dir, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0700);
	ck_assert_int_eq(state_open(&s, dir, &e), 0);
	ck_assert_uint_eq(s.members.count, 2);
	ck_assert_str_eq(s.members.paths[0], "/disks/m0");
	ck_assert(s.members.wait[0]);
	ck_assert_str_eq(s.members.paths[1], "/m1");
	ck_assert(!s.members.wait[1]);
	ck_assert_str_eq(s.config.listen, "127.0.0.1:2222");
	state_release(&s);
}
END_TEST

START_TEST(is_not_made_twice)
{
	struct path_list l = { .count = 0 };
	struct state s;
	struct err e;

	make(&s, NULL);
	state_release(&s);
	ck_assert_int_eq(state_create(&s, dir, NULL, &l, &e), -1);
	ck_assert_int_eq(e.code, ERR_EXISTS);
	state_release(&s);
}
END_TEST

START_TEST(has_one_owner)
{
	struct state a, b;
	struct err e;

	make(&a, NULL);		/* holds the lock */
	ck_assert_int_eq(state_open(&b, dir, &e), 0);
	ck_assert_int_eq(state_lock(&b, &e), -1);
	ck_assert_int_eq(e.code, ERR_BUSY);
	state_release(&a);
	ck_assert_int_eq(state_lock(&b, &e), 0);
	state_release(&b);
}
END_TEST

START_TEST(is_missed_in_words)
{
	struct state s;
	struct err e;

	ck_assert_int_eq(state_open(&s, "/nonexistent/bk", &e), -1);
	ck_assert_int_eq(e.code, ERR_NOT_FOUND);
	ck_assert_ptr_nonnull(strstr(e.text, "bkserver init"));
	state_release(&s);
}
END_TEST

START_TEST(reads_its_config)
{
	struct state s;
	struct err e;
	char *index;

	make(&s, "/fast/index");
	index = state_index_dir(&s, &e);
	ck_assert_str_eq(index, "/fast/index");
	free(index);
	state_release(&s);
	config("# comment\nlisten = 0.0.0.0:77\nmember = /a\nmember = /b\n"
	    "wait_members = 2m\nsessions = 3\n");
	ck_assert_int_eq(state_open(&s, dir, &e), 0);
	ck_assert_str_eq(s.config.listen, "0.0.0.0:77");
	ck_assert_uint_eq(s.config.members.count, 2);
	ck_assert_str_eq(s.config.members.items[1], "/b");
	ck_assert_uint_eq(s.config.wait_members_s, 120);
	ck_assert_uint_eq(s.config.sessions_max, 3);
	ck_assert_uint_eq(s.config.unauthenticated_max, 16);
	state_release(&s);
}
END_TEST

START_TEST(names_the_line_that_is_wrong)
{
	static const char *const bad[] = {
		"\n\nnonsense = 1\n", "\n\nlisten\n", "\n\nsessions = many\n",
	};
	struct state s;
	struct err e;

	make(&s, NULL);
	state_release(&s);
	config(bad[_i]);
	ck_assert_int_eq(state_open(&s, dir, &e), -1);
	ck_assert_int_eq(e.code, ERR_USAGE);
	ck_assert_msg(strstr(e.text, "config:3") != NULL, "%s", e.text);
	state_release(&s);
}
END_TEST

START_TEST(keeps_a_path_once)
{
	struct path_list l = { .count = 0 };
	struct err e;

	ck_assert_int_eq(path_list_add(&l, "/x", "a", false, &e), 0);
	ck_assert_int_eq(path_list_add(&l, NULL, "/x/a", true, &e), 0);
	ck_assert_uint_eq(l.count, 1);
	ck_assert(l.wait[0]);
	for (int i = 0; i < RAID_MEMBERS_MAX - 1; i++) {
		char name[16];

		snprintf(name, sizeof(name), "m%d", i);
		ck_assert_int_eq(path_list_add(&l, "/y", name, true, &e), 0);
	}
	ck_assert_int_eq(path_list_add(&l, "/y", "one more", true, &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT);
	path_list_release(&l);
}
END_TEST

Suite *server_state_suite(void)
{
	Suite *s = suite_create("server/state");
	TCase *t = tcase_create("state");

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, is_private_and_read_back);
	tcase_add_test(t, is_not_made_twice);
	tcase_add_test(t, has_one_owner);
	tcase_add_test(t, is_missed_in_words);
	tcase_add_test(t, reads_its_config);
	tcase_add_loop_test(t, names_the_line_that_is_wrong, 0, 3);
	tcase_add_test(t, keeps_a_path_once);
	suite_add_tcase(s, t);
	return s;
}
