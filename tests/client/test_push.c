/*
 * A push against a server in memory: what is restored from it is the tree that
 * was there, whatever the tree holds; nothing is sent twice; a second push
 * sends nothing; lies of cache and server are found out; and the failures that
 * must leave no snapshot leave none.
 */
#include "tests/client/fixture.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

Suite *client_push_suite(void);

static struct fixture fx;

static void setup(void)
{
	fixture_init(&fx);
}

static void teardown(void)
{
	fixture_release(&fx);
}

/* Push src, restore it to dst, compare. */
static void round_trip(void)
{
	struct buf why;

	run_ok(&fx, "push", fx.src);
	ck_assert_int_eq(fx.store->duplicates, 0);
	ck_assert_int_eq(fx.store->missing_sent, 0);
	run_ok(&fx, "restore", at("latest:", fx.src + 1), "--to", fx.dst);
	buf_init(&why, 1 << 20);
	ck_assert_msg(compare_trees(fx.src, fx.dst, &why) == 0, "%s",
	    (char *)why.data);
	buf_release(&why);
}

static void big_file(const char *name, size_t size, uint64_t seed)
{
	uint8_t *data = malloc(size);

	ck_assert_ptr_nonnull(data);
	fill_random(data, size, seed);
	put_file(at(fx.src, name), data, size);
	free(data);
}

static const char *const odd_names[] = {
	"a\nb", "%s%n.%202018", "\033[2J", "-rf", " ", "a\\b", "...",
	"\xff\xfe", "\xc3\xa4", "..a", "~", "*", "a'b\"c", "\x7f\x01",
};

START_TEST(odd_names_come_back)
{
	char name[256];

	for (size_t i = 0; i < sizeof(odd_names) / sizeof(odd_names[0]); i++)
		put_text(at(fx.src, odd_names[i]), odd_names[i]);
	memset(name, 'n', 255);
	name[255] = '\0';
	put_text(at(fx.src, name), "long");
	make_dir(at(fx.src, "d\n/\xfe"));
	round_trip();
}
END_TEST

START_TEST(every_type_of_file_comes_back)
{
	put_text(at(fx.src, "file"), "text");
	put_text(at(fx.src, "empty"), "");
	ck_assert_int_eq(mkfifo(at(fx.src, "fifo"), 0640), 0);
	ck_assert_int_eq(symlink("nowhere", at(fx.src, "dangling")), 0);
	ck_assert_int_eq(symlink("/etc/hostname", at(fx.src, "link")), 0);
	ck_assert_int_eq(mknod(at(fx.src, "socket"), S_IFSOCK | 0600, 0), 0);
	if (geteuid() == 0) {
		ck_assert_int_eq(mknod(at(fx.src, "null"), S_IFCHR | 0666,
		    makedev(1, 3)), 0);
		ck_assert_int_eq(mknod(at(fx.src, "loop"), S_IFBLK | 0600,
		    makedev(7, 200)), 0);
	}
	round_trip();
}
END_TEST

static void set_time(const char *path, int64_t s, long ns)
{
	struct timespec t[2] = { { s, ns }, { s, ns } };

	ck_assert_int_eq(utimensat(AT_FDCWD, path, t, AT_SYMLINK_NOFOLLOW),
	    0);
}

START_TEST(times_before_1970_and_far_away_come_back)
{
	static const int64_t times[] = { -1, 0, INT32_MIN,
		(int64_t)INT32_MAX + 1, 4294967296, 15032385535 };

	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "t%zu", i);
		put_text(at(fx.src, name), "x");
		set_time(at(fx.src, name), times[i], 999999999);
	}
	make_dir(at(fx.src, "d/e"));
	ck_assert_int_eq(symlink("x", at(fx.src, "d/l")), 0);
	set_time(at(fx.src, "d/l"), 981173106, 5);
	set_time(at(fx.src, "d/e"), 981173106, 7);
	set_time(at(fx.src, "d"), 981173106, 9);
	round_trip();
}
END_TEST

START_TEST(owners_modes_acls_and_capabilities_come_back)
{
	/* cap_net_raw+ep, as the kernel stores it */
	static const uint8_t cap[20] = { 1, 0, 0, 2, 0, 0x20 };
	/* user::rwx user:7:rw- group::r-x mask::rwx other::--- */
	static const uint8_t acl[] = { 2, 0, 0, 0,
		1, 0, 7, 0, 0xff, 0xff, 0xff, 0xff,
		2, 0, 6, 0, 7, 0, 0, 0,
		4, 0, 5, 0, 0xff, 0xff, 0xff, 0xff,
		0x10, 0, 7, 0, 0xff, 0xff, 0xff, 0xff,
		0x20, 0, 0, 0, 0xff, 0xff, 0xff, 0xff };
	const char *caps = at(fx.src, "caps"), *suid = at(fx.src, "suid"),
	    *with_acl = at(fx.src, "acl");

	if (geteuid() != 0)
		return;
	put_text(caps, "1");
	ck_assert_int_eq(chown(caps, 1000, 1000), 0);
	ck_assert_int_eq(setxattr(caps, "security.capability", cap,
	    sizeof(cap), 0), 0);
	put_text(suid, "2");
	ck_assert_int_eq(chown(suid, 5, 42), 0);
	ck_assert_int_eq(chmod(suid, 06755), 0);
	put_text(with_acl, "3");
	ck_assert_int_eq(chmod(with_acl, 02750), 0);
	if (setxattr(with_acl, "system.posix_acl_access", acl, sizeof(acl),
	    0) != 0)
		ck_assert_int_eq(errno, ENOTSUP);
	make_dir(at(fx.src, "sticky"));
	ck_assert_int_eq(chmod(at(fx.src, "sticky"), 03777), 0);
	ck_assert_int_eq(chown(at(fx.src, "sticky"), 3000000000u,
	    4000000000u), 0);
	ck_assert_int_eq(symlink("x", at(fx.src, "l")), 0);
	ck_assert_int_eq(lchown(at(fx.src, "l"), 1, 2), 0);
	round_trip();
}
END_TEST

START_TEST(extended_attributes_small_and_large_come_back)
{
	const char *path = at(fx.src, "f"), *dir = at(fx.src, "d");
	char value[3000];

	memset(value, 'v', sizeof(value));
	put_text(path, "text");
	make_dir(dir);
	if (setxattr(path, "user.small", "1", 1, 0) != 0)
		return;			/* not here */
	ck_assert_int_eq(setxattr(path, "user.empty", "", 0, 0), 0);
	ck_assert_int_eq(setxattr(path, "user.large", value, sizeof(value),
	    0), 0);
	ck_assert_int_eq(setxattr(dir, "user.dir", value, 100, 0), 0);
	round_trip();
}
END_TEST

START_TEST(link_groups_of_every_type_stay_together)
{
	make_dir(at(fx.src, "a"));
	make_dir(at(fx.src, "b"));
	put_text(at(fx.src, "a/f"), "content");
	put_text(at(fx.src, "a/empty"), "");
	ck_assert_int_eq(mkfifo(at(fx.src, "a/p"), 0600), 0);
	ck_assert_int_eq(symlink("t", at(fx.src, "a/l")), 0);
	ck_assert_int_eq(link(at(fx.src, "a/f"), at(fx.src, "b/f")), 0);
	ck_assert_int_eq(link(at(fx.src, "a/f"), at(fx.src, "b/g")), 0);
	ck_assert_int_eq(link(at(fx.src, "a/empty"), at(fx.src, "b/e")), 0);
	ck_assert_int_eq(link(at(fx.src, "a/p"), at(fx.src, "b/p")), 0);
	ck_assert_int_eq(linkat(AT_FDCWD, at(fx.src, "a/l"), AT_FDCWD,
	    at(fx.src, "b/l"), 0), 0);
	round_trip();
}
END_TEST

START_TEST(holes_stay_holes)
{
	int fd = open(at(fx.src, "sparse"), O_RDWR | O_CREAT, 0600);

	ck_assert_int_eq(ftruncate(fd, INT64_C(8) << 30), 0);
	ck_assert_int_eq(pwrite(fd, "a", 1, INT64_C(1) << 30), 1);
	ck_assert_int_eq(pwrite(fd, "z", 1, (INT64_C(8) << 30) - 1), 1);
	close(fd);
	fd = open(at(fx.src, "all hole"), O_RDWR | O_CREAT, 0600);
	ck_assert_int_eq(ftruncate(fd, 12345678), 0);
	close(fd);
	run_ok(&fx, "push", fx.src);
	run_ok(&fx, "restore", at("latest:", fx.src + 1), "--to", fx.dst);
	{
		struct stat s;

		ck_assert_int_eq(stat(at(fx.dst, "sparse"), &s), 0);
		ck_assert_int_eq(s.st_size, INT64_C(8) << 30);
		ck_assert_int_lt(s.st_blocks, 64);
		ck_assert_int_eq(stat(at(fx.dst, "all hole"), &s), 0);
		ck_assert_int_eq(s.st_size, 12345678);
	}
	run_ok(&fx, "verify", at("latest:", fx.src + 1));
}
END_TEST

START_TEST(large_files_and_many_small_ones_come_back)
{
	big_file("big", 20 << 20, 1);
	big_file("big too", (5 << 20) + 1, 2);
	for (unsigned i = 0; i < 800; i++) {
		char name[32];

		(void)snprintf(name, sizeof(name), "d%u/f%u", i % 7, i);
		big_file(name, i % 5000, i);
	}
	round_trip();
	ck_assert_uint_gt(fx.store->largest_group, 128 << 10);
	ck_assert_uint_le(fx.store->largest_group, 256 << 10);
}
END_TEST

START_TEST(a_directory_of_a_hundred_thousand_files_comes_back)
{
	const unsigned count = getenv("BK_LONG") ? 100000 : 2500;
	int dir;

	make_dir(at(fx.src, "d"));
	dir = open(at(fx.src, "d"), O_RDONLY | O_DIRECTORY);
	for (unsigned i = 0; i < count; i++) {
		char name[32];
		int fd;

		(void)snprintf(name, sizeof(name), "name%u", i * 7919);
		fd = openat(dir, name, O_WRONLY | O_CREAT, 0600);
		ck_assert_int_ge(fd, 0);
		close(fd);
	}
	close(dir);
	round_trip();
}
END_TEST

/* `deep` directories with names of `size` bytes, and a file at the bottom. */
static void make_deep(unsigned deep, size_t size)
{
	int dir = open(fx.src, O_RDONLY | O_DIRECTORY), next, fd;
	char name[256];

	memset(name, 'd', size);
	name[size] = '\0';
	for (unsigned i = 0; i < deep; i++) {
		ck_assert_int_eq(mkdirat(dir, name, 0755), 0);
		next = openat(dir, name, O_RDONLY | O_DIRECTORY);
		ck_assert_int_ge(next, 0);
		close(dir);
		dir = next;
	}
	fd = openat(dir, "bottom", O_WRONLY | O_CREAT, 0600);
	ck_assert_int_eq(write(fd, "deep", 4), 4);
	close(fd);
	close(dir);
}

START_TEST(paths_beyond_path_max_come_back)
{
	make_deep(30, 255);
	round_trip();
}
END_TEST

START_TEST(hundreds_of_levels_need_few_descriptors)
{
	struct rlimit old, few;
	struct buf why;

	make_deep(400, 1);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	few.rlim_cur = 200;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
	run_ok(&fx, "push", fx.src);
	run_ok(&fx, "restore", at("latest:", fx.src + 1), "--to", fx.dst);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
	buf_init(&why, 1 << 20);
	ck_assert_msg(compare_trees(fx.src, fx.dst, &why) == 0, "%s",
	    (char *)why.data);
	buf_release(&why);
}
END_TEST

/* ---- the second push ---------------------------------------------------- */

/* The unchanged rule wants files that are not brand new. */
static void age(void)
{
	usleep(120000);
}

START_TEST(an_unchanged_tree_is_not_read_and_not_sent)
{
	big_file("big", 3 << 20, 1);
	put_text(at(fx.src, "d/small"), "text");
	age();
	run_ok(&fx, "push", fx.src);
	fake_counts_reset(fx.store);
	run_ok(&fx, "push", fx.src, "--stats");
	ck_assert(says(&fx.out, "read       0 files"));
	ck_assert_uint_eq(fx.store->duplicates, 0);
	/* The facts, and pages above src: /tmp changes all the time. */
	ck_assert_uint_le(fx.store->frames, 2);
	ck_assert_uint_gt(fx.store->have_ids, 0);
}
END_TEST

START_TEST(a_racy_file_is_read_again)
{
	put_text(at(fx.src, "f"), "one");
	set_time(at(fx.src, "f"), time(NULL) + 3600, 0);
	age();
	run_ok(&fx, "push", fx.src);
	run_ok(&fx, "push", fx.src, "--stats");
	ck_assert(says(&fx.out, "read       1 files"));
}
END_TEST

START_TEST(same_size_and_mtime_but_other_content_is_seen)
{
	struct stat s;

	put_text(at(fx.src, "f"), "one");
	put_text(at(fx.src, "g"), "one");
	age();
	run_ok(&fx, "push", fx.src);
	ck_assert_int_eq(stat(at(fx.src, "f"), &s), 0);
	put_text(at(fx.src, "f"), "two");
	set_time(at(fx.src, "f"), s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
	put_text(at(fx.src, "new"), "six");
	set_time(at(fx.src, "new"), s.st_mtim.tv_sec, s.st_mtim.tv_nsec);
	ck_assert_int_eq(rename(at(fx.src, "new"), at(fx.src, "g")), 0);
	run_ok(&fx, "push", fx.src);
	run_ok(&fx, "restore", at("latest:", fx.src + 1), "--to", fx.dst);
	ck_assert(has_text(at(fx.dst, "f"), "two"));
	ck_assert(has_text(at(fx.dst, "g"), "six"));
}
END_TEST

START_TEST(a_byte_in_front_sends_little)
{
	const size_t size = 8 << 20;
	uint8_t *data = malloc(size + 1);
	uint64_t before;

	ck_assert_ptr_nonnull(data);
	fill_random(data + 1, size, 5);
	put_file(at(fx.src, "f"), data + 1, size);
	run_ok(&fx, "push", fx.src);
	data[0] = 'x';
	put_file(at(fx.src, "f"), data, size + 1);
	free(data);
	fake_counts_reset(fx.store);
	run_ok(&fx, "push", fx.src);
	before = fx.store->frame_bytes;
	ck_assert_uint_lt(before, 3 * (256 << 10) + 65536);
	ck_assert_uint_eq(fx.store->duplicates, 0);
}
END_TEST

START_TEST(a_lost_cache_costs_reading_but_no_sending)
{
	big_file("big", 3 << 20, 1);
	run_ok(&fx, "push", fx.src);
	remove_tree(at(fx.dir, "cache"));
	fake_counts_reset(fx.store);
	run_ok(&fx, "push", fx.src);
	ck_assert_uint_eq(fx.store->duplicates, 0);
	ck_assert_uint_le(fx.store->frames, 2);
}
END_TEST

/* ---- lies --------------------------------------------------------------- */

START_TEST(a_chunk_the_server_lost_is_sent_again)
{
	struct fake_object *chunk;
	struct buf why;

	big_file("big", 3 << 20, 1);
	put_text(at(fx.src, "small"), "text");
	age();
	run_ok(&fx, "push", fx.src);
	for (int i = 0; i < 3; i++) {
		chunk = fake_nth(fx.store, OBJECT_CHUNK, 0);
		fake_remove(fx.store, &chunk->id);
	}
	/* Pages above what is lost are not complete any more. */
	while (fake_nth(fx.store, OBJECT_TREE, 0))
		fake_remove(fx.store, &fake_nth(fx.store, OBJECT_TREE, 0)->id);
	while (fake_nth(fx.store, OBJECT_LIST, 0))
		fake_remove(fx.store, &fake_nth(fx.store, OBJECT_LIST, 0)->id);
	run_ok(&fx, "push", fx.src, "--json");
	ck_assert(says(&fx.out, "\"passes\":2"));
	run_ok(&fx, "restore", at("latest:", fx.src + 1), "--to", fx.dst);
	buf_init(&why, 1 << 20);
	ck_assert_msg(compare_trees(fx.src, fx.dst, &why) == 0, "%s",
	    (char *)why.data);
	buf_release(&why);
}
END_TEST

START_TEST(a_server_that_says_it_has_everything_gets_no_snapshot)
{
	put_text(at(fx.src, "f"), "one");
	run_ok(&fx, "push", fx.src);
	put_text(at(fx.src, "g"), "two");
	fx.store->says_have = true;
	run_is(&fx, 2, "push", fx.src);
	ck_assert_uint_eq(fx.store->snapshot_count, 1);
}
END_TEST

START_TEST(flipped_bits_in_the_cache_do_no_harm)	/* _i: where */
{
	char path[256];
	struct buf why;
	FILE *list;
	int fd;

	big_file("big", 1 << 20, 1);
	put_text(at(fx.src, "small"), "text");
	age();
	run_ok(&fx, "push", fx.src);
	list = popen("ls $XDG_CACHE_HOME/bkclient/*/inodes", "r");
	ck_assert_ptr_nonnull(fgets(path, sizeof(path), list));
	pclose(list);
	path[strcspn(path, "\n")] = '\0';
	fd = open(path, O_RDWR);
	ck_assert_int_ge(fd, 0);
	for (off_t at_byte = _i; ; at_byte += 13) {
		uint8_t byte;

		if (pread(fd, &byte, 1, at_byte) != 1)
			break;
		byte ^= 0x10;
		ck_assert_int_eq(pwrite(fd, &byte, 1, at_byte), 1);
	}
	close(fd);
	put_text(at(fx.src, "more"), "text");
	run_ok(&fx, "push", fx.src);
	run_ok(&fx, "restore", at("latest:", fx.src + 1), "--to", fx.dst);
	buf_init(&why, 1 << 20);
	ck_assert_msg(compare_trees(fx.src, fx.dst, &why) == 0, "%s",
	    (char *)why.data);
	buf_release(&why);
}
END_TEST

START_TEST(a_cache_of_another_store_is_not_believed)
{
	big_file("big", 1 << 20, 1);
	age();
	run_ok(&fx, "push", fx.src);
	fake_store_free(fx.store);
	fx.store = fake_store_new();
	fx.store->domain[0] = 0x77;
	round_trip();
}
END_TEST

START_TEST(a_broken_push_goes_on_where_it_ended)
{
	uint64_t first;

	big_file("big", 8 << 20, 1);
	fx.store->die_after = 25;
	run_is(&fx, 2, "push", fx.src);
	ck_assert_uint_eq(fx.store->snapshot_count, 0);
	first = fx.store->frame_bytes;
	fx.store->die_after = 0;
	fake_counts_reset(fx.store);
	run_ok(&fx, "push", fx.src);
	ck_assert_uint_eq(fx.store->duplicates, 0);
	ck_assert_uint_lt(fx.store->frame_bytes, (9 << 20) - first / 2);
}
END_TEST

/* ---- what must fail, what may pass -------------------------------------- */

START_TEST(a_missing_root_leaves_no_snapshot)
{
	put_text(at(fx.src, "f"), "one");
	run_is(&fx, 2, "push", fx.src, at(fx.dir, "not there"));
	ck_assert_uint_eq(fx.store->snapshot_count, 0);
	ck_assert(says(&fx.err, "not there"));
}
END_TEST

START_TEST(a_second_push_at_once_is_told_and_ends)
{
	put_text(at(fx.src, "f"), "one");
	fx.store->busy = true;
	run_is(&fx, 2, "push", fx.src);
	ck_assert(says(&fx.err, "another push"));
}
END_TEST

START_TEST(roots_merge_into_one_tree)
{
	put_text(at(fx.src, "a/b/f"), "one");
	put_text(at(fx.src, "a/c/g"), "two");
	put_text(at(fx.src, "d/h"), "three");
	ck_assert_int_eq(chmod(at(fx.src, "a"), 0711), 0);
	run_ok(&fx, "push", at(fx.src, "d/h"), at(fx.src, "a/b"),
	    at(fx.src, "a/b/f"), at(fx.src, "a/b/"));
	run_ok(&fx, "restore", at("latest:", fx.src + 1), "--to", fx.dst);
	ck_assert(has_text(at(fx.dst, "a/b/f"), "one"));
	ck_assert(has_text(at(fx.dst, "d/h"), "three"));
	ck_assert(!is_there(at(fx.dst, "a/c")));
	{
		struct stat s;

		ck_assert_int_eq(stat(at(fx.dst, "a"), &s), 0);
		ck_assert_uint_eq(s.st_mode & 07777, 0711);
	}
}
END_TEST

START_TEST(what_is_excluded_is_not_there)
{
	put_text(at(fx.src, "keep/f.o"), "1");
	put_text(at(fx.src, "keep/f.c"), "2");
	put_text(at(fx.src, "cache/x"), "3");
	put_text(at(fx.src, "cache/CACHEDIR.TAG"),
	    "Signature: 8a477f597d28d172789f06886806bc55\n");
	put_text(at(fx.src, "tmp/x"), "4");
	run_ok(&fx, "push", fx.src, "--exclude", "*.o", "--exclude", "tmp/",
	    "--exclude-caches", "--exclude", "nothing");
	ck_assert(says(&fx.err, "the pattern nothing matched nothing"));
	run_ok(&fx, "restore", at("latest:", fx.src + 1), "--to", fx.dst);
	ck_assert(!is_there(at(fx.dst, "keep/f.o")));
	ck_assert(has_text(at(fx.dst, "keep/f.c"), "2"));
	ck_assert(!is_there(at(fx.dst, "cache/x")));
	ck_assert(is_there(at(fx.dst, "cache/CACHEDIR.TAG")));
	ck_assert(!is_there(at(fx.dst, "tmp")));
}
END_TEST

START_TEST(an_unreadable_file_is_named_and_the_rest_is_stored)
{
	if (geteuid() != 0)
		return;
	/* EPERM and EACCES do not stop root; a file of /proc that fails on
	 * read does. */
	put_text(at(fx.src, "f"), "one");
	run_is(&fx, 1, "push", fx.src, "/proc/self/mem");
	ck_assert(says(&fx.err, "/proc/self/mem"));
	ck_assert_uint_eq(fx.store->snapshot_count, 1);
	ck_assert_uint_eq(fx.store->snapshots[0].flags & SNAPSHOT_PARTIAL,
	    SNAPSHOT_PARTIAL);
	run_ok(&fx, "restore", "latest", "--to", fx.dst);
	ck_assert(has_text(at(at(fx.dst, fx.src), "f"), "one"));
}
END_TEST

START_TEST(a_file_of_proc_is_read_to_its_end)
{
	run_ok(&fx, "push", "/proc/self/mounts");
	run_ok(&fx, "cat", "latest:/proc/self/mounts");
	ck_assert_uint_gt(fx.out.size, 10);
}
END_TEST

START_TEST(memory_stays_within_the_promise)
{
	struct rusage u;

	big_file("big", 64 << 20, 3);
	for (unsigned i = 0; i < 1000; i++) {
		char name[64];

		(void)snprintf(name, sizeof(name), "d/%u", i);
		put_text(at(fx.src, name), name);
	}
	run_ok(&fx, "push", fx.src);
	getrusage(RUSAGE_SELF, &u);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	/* The server in this process holds all data once. */
	ck_assert_int_lt(u.ru_maxrss, (96 + 64 + 40) * 1024);
#else
	(void)u;
#endif
}
END_TEST

Suite *client_push_suite(void)
{
	Suite *s = suite_create("client/push");
	TCase *t = tcase_create("push");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, odd_names_come_back);
	tcase_add_test(t, every_type_of_file_comes_back);
	tcase_add_test(t, times_before_1970_and_far_away_come_back);
	tcase_add_test(t, owners_modes_acls_and_capabilities_come_back);
	tcase_add_test(t, extended_attributes_small_and_large_come_back);
	tcase_add_test(t, link_groups_of_every_type_stay_together);
	tcase_add_test(t, holes_stay_holes);
	tcase_add_test(t, large_files_and_many_small_ones_come_back);
	tcase_add_test(t, a_directory_of_a_hundred_thousand_files_comes_back);
	tcase_add_test(t, paths_beyond_path_max_come_back);
	tcase_add_test(t, hundreds_of_levels_need_few_descriptors);
	tcase_add_test(t, an_unchanged_tree_is_not_read_and_not_sent);
	tcase_add_test(t, a_racy_file_is_read_again);
	tcase_add_test(t, same_size_and_mtime_but_other_content_is_seen);
	tcase_add_test(t, a_byte_in_front_sends_little);
	tcase_add_test(t, a_lost_cache_costs_reading_but_no_sending);
	tcase_add_test(t, a_chunk_the_server_lost_is_sent_again);
	tcase_add_test(t,
	    a_server_that_says_it_has_everything_gets_no_snapshot);
	tcase_add_loop_test(t, flipped_bits_in_the_cache_do_no_harm, 0, 13);
	tcase_add_test(t, a_cache_of_another_store_is_not_believed);
	tcase_add_test(t, a_broken_push_goes_on_where_it_ended);
	tcase_add_test(t, a_missing_root_leaves_no_snapshot);
	tcase_add_test(t, a_second_push_at_once_is_told_and_ends);
	tcase_add_test(t, roots_merge_into_one_tree);
	tcase_add_test(t, what_is_excluded_is_not_there);
	tcase_add_test(t,
	    an_unreadable_file_is_named_and_the_rest_is_stored);
	tcase_add_test(t, a_file_of_proc_is_read_to_its_end);
	tcase_add_test(t, memory_stays_within_the_promise);
	suite_add_tcase(s, t);
	return s;
}
