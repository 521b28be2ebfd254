/*
 * A restore writes what the snapshot has, and nothing else: partial restores,
 * each way of meeting what is there already, directories that cannot be
 * written, hostile trees, lost and false objects.  What cannot be had is
 * absent and named.
 */
#include "tests/client/fixture.h"

#include "base/buf.h"
#include "proto/fmt_tree.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

Suite *client_restore_suite(void);

static struct fixture fx;

static void setup(void)
{
	fixture_init(&fx);
}

static void teardown(void)
{
	fixture_release(&fx);
}

static const char *latest(void)
{
	return at("latest:", fx.src + 1);
}

static void same_trees(void)
{
	struct buf why;

	buf_init(&why, 1 << 20);
	ck_assert_msg(compare_trees(fx.src, fx.dst, &why) == 0, "%s",
	    (char *)why.data);
	buf_release(&why);
}

static ino_t inode(const char *path)
{
	struct stat s;

	ck_assert_msg(lstat(path, &s) == 0, "%s", path);
	return s.st_ino;
}

static mode_t mode_of(const char *path)
{
	struct stat s;

	ck_assert_msg(lstat(path, &s) == 0, "%s", path);
	return s.st_mode;
}

static bool no_temporary_files(const char *dir)
{
	char command[512];

	(void)snprintf(command, sizeof(command),
	    "find %s -name '.bk-*' | grep -q .", dir);
	return WEXITSTATUS(pclose(popen(command, "r"))) != 0;
}

/* ---- what is there already ---------------------------------------------- */

START_TEST(an_equal_file_is_kept_and_its_attributes_repaired)
{
	ino_t before;

	put_text(at(fx.src, "f"), "text");
	ck_assert_int_eq(chmod(at(fx.src, "f"), 0640), 0);
	run_ok(&fx, "push", fx.src);
	put_text(at(fx.dst, "f"), "text");
	ck_assert_int_eq(chmod(at(fx.dst, "f"), 0777), 0);
	before = inode(at(fx.dst, "f"));
	run_ok(&fx, "restore", latest(), "--to", fx.dst);
	ck_assert_uint_eq(inode(at(fx.dst, "f")), before);
	same_trees();
}
END_TEST

START_TEST(a_different_file_is_named_and_kept)
{
	put_text(at(fx.src, "f"), "text");
	put_text(at(fx.src, "g"), "more");
	run_ok(&fx, "push", fx.src);
	put_text(at(fx.dst, "f"), "mine");
	run_is(&fx, 1, "restore", latest(), "--to", fx.dst);
	ck_assert(says(&fx.err, "/f: has other content"));
	ck_assert(has_text(at(fx.dst, "f"), "mine"));
	ck_assert(has_text(at(fx.dst, "g"), "more"));
}
END_TEST

START_TEST(changed_fetches_only_what_differs)
{
	const size_t size = 4 << 20;
	uint8_t *data = malloc(size);
	unsigned given = 0;

	ck_assert_ptr_nonnull(data);
	fill_random(data, size, 7);
	put_file(at(fx.src, "f"), data, size);
	run_ok(&fx, "push", fx.src);
	data[size / 2] ^= 1;
	put_file(at(fx.dst, "f"), data, size);
	free(data);
	fake_counts_reset(fx.store);
	run_ok(&fx, "restore", latest(), "--to", fx.dst, "--overwrite",
	    "changed");
	same_trees();
	for (size_t i = 0; i < fake_count(fx.store, OBJECT_CHUNK); i++)
		given += fake_nth(fx.store, OBJECT_CHUNK, i)->given;
	ck_assert_uint_eq(given, 1);
	ck_assert(no_temporary_files(fx.dst));
}
END_TEST

START_TEST(changed_mends_shorter_and_longer_files)
{
	put_text(at(fx.src, "a"), "0123456789");
	put_text(at(fx.src, "b"), "0123456789");
	put_text(at(fx.src, "c"), "");
	run_ok(&fx, "push", fx.src);
	put_text(at(fx.dst, "a"), "01234");
	put_text(at(fx.dst, "b"), "0123456789abc");
	put_text(at(fx.dst, "c"), "x");
	run_ok(&fx, "restore", latest(), "--to", fx.dst, "--overwrite",
	    "changed");
	same_trees();
}
END_TEST

START_TEST(older_replaces_only_what_is_older)
{
	struct timespec past[2] = { { 1000, 0 }, { 1000, 0 } };

	put_text(at(fx.src, "old"), "text");
	put_text(at(fx.src, "new"), "text");
	run_ok(&fx, "push", fx.src);
	put_text(at(fx.dst, "old"), "mine");
	ck_assert_int_eq(utimensat(AT_FDCWD, at(fx.dst, "old"), past, 0), 0);
	put_text(at(fx.dst, "new"), "mine");
	run_ok(&fx, "restore", latest(), "--to", fx.dst, "--overwrite",
	    "older");
	ck_assert(has_text(at(fx.dst, "old"), "text"));
	ck_assert(has_text(at(fx.dst, "new"), "mine"));
}
END_TEST

/* Everything that can sit where something else belongs. */
static void plant(void)
{
	put_text(at(fx.src, "file1"), "text");
	put_text(at(fx.src, "file2"), "text");
	put_text(at(fx.src, "file3"), "text");
	put_text(at(fx.src, "dir/inner"), "text");
	ck_assert_int_eq(symlink("there", at(fx.src, "link")), 0);
	ck_assert_int_eq(symlink("same", at(fx.src, "samelink")), 0);
	run_ok(&fx, "push", fx.src);
	put_text(at(fx.dir, "outside"), "mine");
	make_dir(fx.dst);
	ck_assert_int_eq(symlink(at(fx.dir, "outside"),
	    at(fx.dst, "file1")), 0);
	ck_assert_int_eq(mkfifo(at(fx.dst, "file2"), 0600), 0);
	put_text(at(fx.dst, "file3/full"), "mine");
	put_text(at(fx.dst, "dir"), "mine");
	ck_assert_int_eq(symlink("elsewhere", at(fx.dst, "link")), 0);
	ck_assert_int_eq(symlink("same", at(fx.dst, "samelink")), 0);
}

START_TEST(nothing_is_replaced_without_being_told_to)
{
	plant();
	run_is(&fx, 1, "restore", latest(), "--to", fx.dst);
	ck_assert(S_ISLNK(mode_of(at(fx.dst, "file1"))));
	ck_assert(S_ISFIFO(mode_of(at(fx.dst, "file2"))));
	ck_assert(S_ISDIR(mode_of(at(fx.dst, "file3"))));
	ck_assert(S_ISREG(mode_of(at(fx.dst, "dir"))));
	ck_assert(says(&fx.err, "/file1"));
	ck_assert(says(&fx.err, "/file2"));
	ck_assert(says(&fx.err, "/file3"));
	ck_assert(says(&fx.err, "/dir"));
	ck_assert(says(&fx.err, "/link"));
	ck_assert(!says(&fx.err, "/samelink"));
}
END_TEST

START_TEST(always_replaces_all_but_a_full_directory)
{
	plant();
	run_is(&fx, 1, "restore", latest(), "--to", fx.dst, "--overwrite",
	    "always");
	ck_assert(has_text(at(fx.dst, "file1"), "text"));
	ck_assert(has_text(at(fx.dir, "outside"), "mine"));
	ck_assert(has_text(at(fx.dst, "file2"), "text"));
	ck_assert(has_text(at(fx.dst, "file3/full"), "mine"));
	ck_assert(has_text(at(fx.dst, "dir/inner"), "text"));
	ck_assert(no_temporary_files(fx.dst));
}
END_TEST

START_TEST(delete_removes_what_the_snapshot_does_not_have)
{
	put_text(at(fx.src, "keep/f"), "text");
	put_text(at(fx.src, "z"), "text");
	run_ok(&fx, "push", fx.src);
	run_ok(&fx, "restore", latest(), "--to", fx.dst);
	put_text(at(fx.dst, "keep/extra/deep/f"), "mine");
	put_text(at(fx.dst, "keep/a"), "mine");
	put_text(at(fx.dst, "keep/zz.log"), "mine");
	put_text(at(fx.dst, "beside"), "mine");
	run_ok(&fx, "restore", latest(), "--to", fx.dst, "--delete",
	    "--exclude", "*.log");
	ck_assert(!is_there(at(fx.dst, "keep/extra")));
	ck_assert(!is_there(at(fx.dst, "keep/a")));
	ck_assert(is_there(at(fx.dst, "keep/zz.log")));
	ck_assert(has_text(at(fx.dst, "keep/f"), "text"));
	/* The target itself is not a restored directory. */
	ck_assert(is_there(at(fx.dst, "beside")));
	run_is(&fx, 64, "restore", latest(), "--to", "/", "--delete");
}
END_TEST

/* ---- directories -------------------------------------------------------- */

START_TEST(directories_that_cannot_be_written_are_filled)
{
	struct timespec past[2] = { { 981173106, 0 }, { 981173106, 0 } };

	put_text(at(fx.src, "d/e/f/g"), "text");
	ck_assert_int_eq(utimensat(AT_FDCWD, at(fx.src, "d"), past, 0), 0);
	ck_assert_int_eq(chmod(at(fx.src, "d/e"), 0555), 0);
	ck_assert_int_eq(chmod(at(fx.src, "d"), 0555), 0);
	run_ok(&fx, "push", fx.src);
	run_ok(&fx, "restore", latest(), "--to", fx.dst);
	same_trees();
	ck_assert_int_eq(chmod(at(fx.dst, "d/e"), 0755), 0);
	ck_assert_int_eq(unlink(at(fx.dst, "d/e/f/g")), 0);
	ck_assert_int_eq(chmod(at(fx.dst, "d/e"), 0555), 0);
	run_ok(&fx, "restore", latest(), "--to", fx.dst);
	same_trees();
}
END_TEST

/* The child restores as nobody; its status is the result. */
static int restore_as_nobody(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (setgid(65534) != 0 || setuid(65534) != 0)
			_exit(99);
		status = run(&fx, "restore", latest(), "--to", fx.dst, NULL);
		_exit(status == 1 && says(&fx.err, "not permitted to set") &&
		    strstr((char *)fx.err.data, "\n")[1] == '\0' ? 1 :
		    100 + status);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return WEXITSTATUS(status);
}

START_TEST(an_ordinary_user_gets_all_content_and_one_line)
{
	if (geteuid() != 0)
		return;
	put_text(at(fx.src, "d/f"), "text");
	put_text(at(fx.src, "d/suid"), "text");
	ck_assert_int_eq(chmod(at(fx.src, "d/suid"), 04755), 0);
	ck_assert_int_eq(chmod(at(fx.src, "d"), 0555), 0);
	run_ok(&fx, "push", fx.src);
	ck_assert_int_eq(chmod(fx.dir, 0777), 0);
	remove_tree(at(fx.dir, "cache"));
	unlink(at(fx.dir, "stdout"));
	unlink(at(fx.dir, "stderr"));
	ck_assert_int_eq(restore_as_nobody(), 1);
	ck_assert(has_text(at(fx.dst, "d/f"), "text"));
	ck_assert_uint_eq(mode_of(at(fx.dst, "d")) & 07777, 0555);
	ck_assert_uint_eq(mode_of(at(fx.dst, "d/suid")) & 07777, 0755);
}
END_TEST

START_TEST(new_parents_get_attributes_and_existing_ones_keep_theirs)
{
	put_text(at(fx.src, "home/u/x/f"), "text");
	put_text(at(fx.src, "home/other"), "text");
	ck_assert_int_eq(chmod(at(fx.src, "home"), 0755), 0);
	ck_assert_int_eq(chmod(at(fx.src, "home/u"), 0711), 0);
	run_ok(&fx, "push", fx.src);
	make_dir(at(fx.dst, "home"));
	ck_assert_int_eq(chmod(at(fx.dst, "home"), 0700), 0);
	run_ok(&fx, "restore", latest(), "--to", fx.dst, "--include",
	    at(fx.src, "home/u/x"));
	ck_assert(has_text(at(fx.dst, "home/u/x/f"), "text"));
	ck_assert(!is_there(at(fx.dst, "home/other")));
	ck_assert_uint_eq(mode_of(at(fx.dst, "home")) & 07777, 0700);
	ck_assert_uint_eq(mode_of(at(fx.dst, "home/u")) & 07777, 0711);
}
END_TEST

START_TEST(includes_make_no_empty_directories)
{
	put_text(at(fx.src, "a/b/want.txt"), "text");
	put_text(at(fx.src, "c/d/other"), "text");
	run_ok(&fx, "push", fx.src);
	run_ok(&fx, "restore", latest(), "--to", fx.dst, "--include",
	    "*.txt");
	ck_assert(has_text(at(fx.dst, "a/b/want.txt"), "text"));
	ck_assert(!is_there(at(fx.dst, "c")));
}
END_TEST

START_TEST(a_file_lands_under_its_own_name)
{
	put_text(at(fx.src, "d/f"), "text");
	run_ok(&fx, "push", fx.src);
	run_ok(&fx, "restore", at(latest(), "d/f"), "--to", fx.dst);
	ck_assert(has_text(at(fx.dst, "f"), "text"));
	run_ok(&fx, "restore", "latest", "--to", at(fx.dir, "whole"));
	ck_assert(has_text(at(at(fx.dir, "whole"),
	    at(fx.src + 1, "d/f")), "text"));
	run_is(&fx, 2, "restore", at(latest(), "nothing"), "--to", fx.dst);
}
END_TEST

START_TEST(a_target_behind_the_operators_own_link_works)
{
	put_text(at(fx.src, "f"), "text");
	run_ok(&fx, "push", fx.src);
	make_dir(at(fx.dir, "real"));
	ck_assert_int_eq(symlink(at(fx.dir, "real"), fx.dst), 0);
	run_ok(&fx, "restore", latest(), "--to", fx.dst);
	ck_assert(has_text(at(fx.dir, "real/f"), "text"));
}
END_TEST

/* ---- link groups -------------------------------------------------------- */

static void make_links(void)
{
	put_text(at(fx.src, "a"), "text");
	ck_assert_int_eq(link(at(fx.src, "a"), at(fx.src, "b")), 0);
	ck_assert_int_eq(link(at(fx.src, "a"), at(fx.src, "c")), 0);
	run_ok(&fx, "push", fx.src);
}

static void one_inode(void)
{
	struct stat s;

	ck_assert_int_eq(stat(at(fx.dst, "a"), &s), 0);
	ck_assert_uint_eq(s.st_nlink, 3);
	ck_assert_uint_eq(inode(at(fx.dst, "b")), s.st_ino);
	ck_assert_uint_eq(inode(at(fx.dst, "c")), s.st_ino);
	ck_assert(has_text(at(fx.dst, "a"), "text"));
}

START_TEST(a_resumed_restore_keeps_link_groups_together)
{
	make_links();
	run_ok(&fx, "restore", latest(), "--to", fx.dst);
	one_inode();
	ck_assert_int_eq(unlink(at(fx.dst, "c")), 0);
	run_ok(&fx, "restore", latest(), "--to", fx.dst);
	one_inode();
	ck_assert_int_eq(unlink(at(fx.dst, "a")), 0);
	run_ok(&fx, "restore", latest(), "--to", fx.dst);
	one_inode();
	ck_assert_int_eq(unlink(at(fx.dst, "b")), 0);
	put_text(at(fx.dst, "b"), "text");
	run_ok(&fx, "restore", latest(), "--to", fx.dst);
	one_inode();
	run_ok(&fx, "restore", latest(), "--to", fx.dst, "--overwrite",
	    "always");
	one_inode();
}
END_TEST

START_TEST(a_partial_restore_links_among_what_was_selected)
{
	struct stat s;

	make_dir(at(fx.src, "one"));
	make_dir(at(fx.src, "two"));
	ck_assert_int_eq(mkfifo(at(fx.src, "one/p"), 0600), 0);
	ck_assert_int_eq(link(at(fx.src, "one/p"), at(fx.src, "two/p")), 0);
	ck_assert_int_eq(link(at(fx.src, "one/p"), at(fx.src, "two/q")), 0);
	put_text(at(fx.src, "one/e"), "");
	ck_assert_int_eq(link(at(fx.src, "one/e"), at(fx.src, "two/e")), 0);
	run_ok(&fx, "push", fx.src);
	run_ok(&fx, "restore", at(latest(), "two"), "--to", fx.dst);
	ck_assert_int_eq(stat(at(fx.dst, "p"), &s), 0);
	ck_assert(S_ISFIFO(s.st_mode));
	ck_assert_uint_eq(s.st_nlink, 2);
	ck_assert_uint_eq(inode(at(fx.dst, "q")), s.st_ino);
	ck_assert(has_text(at(fx.dst, "e"), ""));
}
END_TEST

/* ---- lost and false ----------------------------------------------------- */

/* The chunk that holds these bytes. */
static struct fake_object *chunk_of(const char *text)
{
	for (size_t i = 0; i < fake_count(fx.store, OBJECT_CHUNK); i++) {
		struct fake_object *o = fake_nth(fx.store, OBJECT_CHUNK, i);

		if (o->size == strlen(text) &&
		    memcmp(o->data, text, o->size) == 0)
			return o;
	}
	ck_abort_msg("no chunk with %s", text);
}

START_TEST(a_lost_chunk_costs_its_file_alone)
{
	char name[32];

	for (unsigned i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof(name), "f%u", i);
		put_text(at(fx.src, name), name);
	}
	run_ok(&fx, "push", fx.src);
	if (_i == 0)
		fake_remove(fx.store, &chunk_of("f10")->id);
	else
		chunk_of("f10")->lie = true;
	run_is(&fx, 2, "restore", latest(), "--to", fx.dst);
	ck_assert(says(&fx.err, "/f10: is lost"));
	ck_assert(!is_there(at(fx.dst, "f10")));
	for (unsigned i = 0; i < 100; i++) {
		(void)snprintf(name, sizeof(name), "f%u", i);
		if (i != 10)
			ck_assert(has_text(at(fx.dst, name), name));
	}
	ck_assert(no_temporary_files(fx.dst));
}
END_TEST

START_TEST(a_chunk_lost_in_mid_file_leaves_no_half_file)
{
	const size_t size = 3 << 20;
	uint8_t *data = malloc(size);

	ck_assert_ptr_nonnull(data);
	fill_random(data, size, 9);
	put_file(at(fx.src, "big"), data, size);
	free(data);
	put_text(at(fx.src, "small"), "text");
	run_ok(&fx, "push", fx.src);
	fake_nth(fx.store, OBJECT_CHUNK, 5)->lie = true;
	run_is(&fx, 2, "restore", latest(), "--to", fx.dst);
	ck_assert(!is_there(at(fx.dst, "big")));
	ck_assert(has_text(at(fx.dst, "small"), "text"));
	ck_assert(no_temporary_files(fx.dst));
}
END_TEST

START_TEST(a_lost_page_costs_its_directory_alone)
{
	struct fake_object *page = NULL;

	put_text(at(fx.src, "a/in a"), "text");
	put_text(at(fx.src, "b/in b"), "text");
	run_ok(&fx, "push", fx.src);
	for (size_t i = 0; i < fake_count(fx.store, OBJECT_TREE); i++) {
		struct fake_object *o = fake_nth(fx.store, OBJECT_TREE, i);

		if (memmem(o->data, o->size, "in a", 4))
			page = o;
	}
	ck_assert_ptr_nonnull(page);
	page->lie = true;
	run_is(&fx, 2, "restore", latest(), "--to", fx.dst);
	ck_assert(says(&fx.err, "/a: a part of this directory is lost"));
	ck_assert(has_text(at(fx.dst, "b/in b"), "text"));
	/* ... and deletes nothing there. */
	put_text(at(fx.dst, "a/mine"), "mine");
	run_is(&fx, 2, "restore", latest(), "--to", fx.dst, "--delete");
	ck_assert(has_text(at(fx.dst, "a/mine"), "mine"));
}
END_TEST

/* ---- hostile trees ------------------------------------------------------ */

static void field(struct buf *b, uint8_t tag, const void *data, size_t size)
{
	buf_u8(b, tag);
	buf_le16(b, (uint16_t)size);
	buf_add(b, data, size);
}

/* A page with one entry, written by hand. */
static struct id hostile_page(const void *name, size_t size, uint32_t mode,
    const char *target, const struct id *tree)
{
	struct buf page, entry, one;
	struct id id;

	buf_init(&page, 65536);
	buf_init(&entry, 8192);
	buf_init(&one, 16);
	field(&entry, 128, name, size);
	buf_le32(&one, mode);
	field(&entry, 129, one.data, one.size);
	if (tree)
		field(&entry, 134, tree->bytes, ID_SIZE);
	if (target)
		field(&entry, 135, target, strlen(target));
	buf_add(&page, "bT\1\0", 4);
	buf_le16(&page, 1);
	buf_le16(&page, 0);
	buf_le16(&page, (uint16_t)entry.size);
	buf_add(&page, entry.data, entry.size);
	id = fake_add(fx.store, OBJECT_TREE, page.data, page.size, tree,
	    tree ? 1 : 0);
	buf_release(&page);
	buf_release(&entry);
	buf_release(&one);
	return id;
}

static const struct {
	const char *name;
	size_t size;
} hostile_names[] = {
	{ "../x", 4 }, { "/tmp/x", 6 }, { "a/../../x", 9 }, { ".", 1 },
	{ "..", 2 }, { "a/b", 3 }, { "a\0b", 3 }, { "", 0 },
};

START_TEST(hostile_names_are_refused)		/* _i: which */
{
	struct id page = hostile_page(hostile_names[_i].name,
	    hostile_names[_i].size, S_IFREG | 0644, NULL, NULL), root;

	root = hostile_page("d", 1, S_IFDIR | 0755, NULL, &page);
	fake_snapshot(fx.store, &root);
	run_is(&fx, 2, "restore", "latest", "--to", at(fx.dst, "in"));
	ck_assert(!is_there(at(fx.dst, "x")));
	ck_assert(!is_there(at(fx.dir, "x")));
	ck_assert(!is_there("/tmp/x"));
}
END_TEST

START_TEST(a_link_planted_in_the_target_leads_nowhere)
{
	put_text(at(fx.src, "l/f"), "text");
	run_ok(&fx, "push", fx.src);
	make_dir(at(fx.dir, "outside"));
	make_dir(fx.dst);
	ck_assert_int_eq(symlink(at(fx.dir, "outside"), at(fx.dst, "l")), 0);
	run_is(&fx, 1, "restore", latest(), "--to", fx.dst);
	ck_assert(!is_there(at(fx.dir, "outside/f")));
	run_ok(&fx, "restore", latest(), "--to", fx.dst, "--overwrite",
	    "always");
	ck_assert(!is_there(at(fx.dir, "outside/f")));
	ck_assert(has_text(at(fx.dst, "l/f"), "text"));
}
END_TEST

START_TEST(a_tree_that_names_itself_is_a_lost_page)
{
	struct id none = { { 7 } };
	struct id root = hostile_page("d", 1, S_IFDIR | 0755, NULL, &none);

	fake_snapshot(fx.store, &root);
	run_is(&fx, 2, "restore", "latest", "--to", fx.dst);
	ck_assert(says(&fx.err, "/d: a part of this directory is lost"));
}
END_TEST

/* Pages of equal directories are one object, and so there at once: several are
 * expanded in one step, each freed where the next may be made. */
START_TEST(many_equal_directories_are_restored)
{
	const struct timespec when[2] = { { 1000, 0 }, { 1000, 0 } };
	static const char *const below[] = { "/a/b/c/f", "/a/b/c", "/a/b",
		"/a", "" };
	char name[128];

	for (unsigned i = 0; i < 600; i++) {
		(void)snprintf(name, sizeof(name), "d%03u/a/b/c", i);
		make_dir(at(fx.src, name));
		(void)snprintf(name, sizeof(name), "d%03u/a/b/c/f", i);
		put_text(at(fx.src, name), "the same everywhere");
		for (size_t k = 0; k < sizeof(below) / sizeof(*below); k++) {
			(void)snprintf(name, sizeof(name), "d%03u%s", i,
			    below[k]);
			ck_assert_int_eq(utimensat(AT_FDCWD, at(fx.src, name),
			    when, 0), 0);
		}
	}
	run_ok(&fx, "push", fx.src);
	run_ok(&fx, "restore", latest(), "--to", fx.dst);
	same_trees();
}
END_TEST

/* ---- reading ahead ------------------------------------------------------ */

START_TEST(slow_answers_are_waited_for_a_few_times_only)
{
	unsigned few;
	char name[32];

	for (unsigned i = 0; i < 600; i++) {
		(void)snprintf(name, sizeof(name), "d%u/f%u", i % 60, i);
		put_text(at(fx.src, name), name);
	}
	run_ok(&fx, "push", fx.src);
	if (_i >= 1)			/* into an existing directory */
		make_dir(fx.dst);
	if (_i >= 2) {			/* with something in it */
		put_text(at(fx.dst, "d7/f7"), "d7/f7");
		put_text(at(fx.dst, "z"), "mine");
	}
	fake_counts_reset(fx.store);
	fx.store->give_delay_us = 2000;
	run_ok(&fx, "restore", latest(), "--to", fx.dst);
	few = fx.store->fetch_requests;
	if (_i >= 2)
		ck_assert_int_eq(unlink(at(fx.dst, "z")), 0);
	same_trees();
	/* 600 contents, 60 directories: far fewer requests than either. */
	ck_assert_uint_lt(few, 40);
}
END_TEST

START_TEST(dry_run_writes_nothing)
{
	put_text(at(fx.src, "d/f"), "text");
	run_ok(&fx, "push", fx.src);
	run_ok(&fx, "restore", latest(), "--to", fx.dst, "--dry-run");
	ck_assert(says(&fx.out, "/d/f"));
	ck_assert(!is_there(fx.dst));
	run_ok(&fx, "restore", latest(), "--to", fx.dst, "--verify");
	same_trees();
}
END_TEST

static void add_tests(TCase *t)
{
	tcase_add_test(t, an_equal_file_is_kept_and_its_attributes_repaired);
	tcase_add_test(t, a_different_file_is_named_and_kept);
	tcase_add_test(t, changed_fetches_only_what_differs);
	tcase_add_test(t, changed_mends_shorter_and_longer_files);
	tcase_add_test(t, older_replaces_only_what_is_older);
	tcase_add_test(t, nothing_is_replaced_without_being_told_to);
	tcase_add_test(t, always_replaces_all_but_a_full_directory);
	tcase_add_test(t, delete_removes_what_the_snapshot_does_not_have);
	tcase_add_test(t, directories_that_cannot_be_written_are_filled);
	tcase_add_test(t, an_ordinary_user_gets_all_content_and_one_line);
	tcase_add_test(t,
	    new_parents_get_attributes_and_existing_ones_keep_theirs);
	tcase_add_test(t, includes_make_no_empty_directories);
	tcase_add_test(t, a_file_lands_under_its_own_name);
	tcase_add_test(t, a_target_behind_the_operators_own_link_works);
	tcase_add_test(t, a_resumed_restore_keeps_link_groups_together);
	tcase_add_test(t, a_partial_restore_links_among_what_was_selected);
	tcase_add_loop_test(t, a_lost_chunk_costs_its_file_alone, 0, 2);
	tcase_add_test(t, a_chunk_lost_in_mid_file_leaves_no_half_file);
	tcase_add_test(t, a_lost_page_costs_its_directory_alone);
	tcase_add_loop_test(t, hostile_names_are_refused, 0,
	    sizeof(hostile_names) / sizeof(hostile_names[0]));
	tcase_add_test(t, a_link_planted_in_the_target_leads_nowhere);
	tcase_add_test(t, a_tree_that_names_itself_is_a_lost_page);
	tcase_add_test(t, many_equal_directories_are_restored);
	tcase_add_loop_test(t, slow_answers_are_waited_for_a_few_times_only,
	    0, 3);
	tcase_add_test(t, dry_run_writes_nothing);
}

Suite *client_restore_suite(void)
{
	Suite *s = suite_create("client/restore");
	TCase *t = tcase_create("restore");

	tcase_add_checked_fixture(t, setup, teardown);
	add_tests(t);
	suite_add_tcase(s, t);
	return s;
}
