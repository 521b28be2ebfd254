/* tests/client/compare.c - two trees, attribute by attribute */
#include "tests/client/fixture.h"

#include "base/str.h"
#include "client/attr.h"
#include "client/walk.h"
#include "client/walk_int.h"
#include "proto/fmt_tree.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINKS_MAX 1024

struct pairing {		/* inodes of link groups, a's and b's */
	uint64_t a, b;
};

struct comparison {
	struct buf *why;
	struct buf path;
	unsigned count;
	struct pairing links[LINKS_MAX];
	size_t link_count;
};

static void differ(struct comparison *c, const char *what)
{
	c->count++;
	str_escape(c->why, c->path.data, c->path.size);
	buf_add(c->why, ": ", 2);
	buf_add(c->why, what, strlen(what));
	buf_u8(c->why, '\n');
}

static void no_trouble(void *arg, const char *name, int os)
{
	(void)arg;
	(void)name;
	(void)os;
}

static void compare_xattrs(struct comparison *c, int a, int b,
    const char *name)
{
	struct buf x, y;
	struct err e;

	buf_init(&x, TREE_XATTRS_MAX);
	buf_init(&y, TREE_XATTRS_MAX);
	ck_assert_int_eq(attr_xattrs(&x, -1, a, name, no_trouble, NULL, &e),
	    0);
	ck_assert_int_eq(attr_xattrs(&y, -1, b, name, no_trouble, NULL, &e),
	    0);
	if (x.size != y.size || (x.size > 0 &&
	    memcmp(x.data, y.data, x.size) != 0))
		differ(c, "extended attributes");
	buf_release(&x);
	buf_release(&y);
}

static void compare_content(struct comparison *c, int fa, int fb)
{
	static char x[1 << 16], y[1 << 16];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fa, x, sizeof(x), at)) > 0) {
		if (pread(fb, y, sizeof(y), at) != n ||
		    memcmp(x, y, (size_t)n) != 0) {
			differ(c, "content");
			return;
		}
		at += n;
	}
	if (lseek(fa, 0, SEEK_HOLE) != lseek(fb, 0, SEEK_HOLE))
		differ(c, "first hole");
}

static void compare_file(struct comparison *c, int a, int b,
    const char *name, bool directory)
{
	const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	int fa = openat(a, name, flags), fb = openat(b, name, flags);
	struct attr x = { 0 }, y = { 0 };

	ck_assert_int_ge(fa, 0);
	ck_assert_int_ge(fb, 0);
	attr_flags(&x, fa);
	attr_flags(&y, fb);
	if (x.flags != y.flags)
		differ(c, "inode flags");
	if (!directory)
		compare_content(c, fa, fb);
	close(fa);
	close(fb);
}

static void compare_links(struct comparison *c, const struct attr *x,
    const struct attr *y)
{
	if (x->nlink != y->nlink)
		differ(c, "link count");
	for (size_t i = 0; i < c->link_count; i++) {
		if (c->links[i].a == x->ino && c->links[i].b != y->ino)
			differ(c, "link group is split");
		if (c->links[i].a == x->ino)
			return;
	}
	ck_assert_uint_lt(c->link_count, LINKS_MAX);
	c->links[c->link_count++] = (struct pairing){ x->ino, y->ino };
}

static void compare_target(struct comparison *c, int a, int b,
    const char *name)
{
	char x[4096], y[4096];
	ssize_t n = readlinkat(a, name, x, sizeof(x));

	if (n < 0 || readlinkat(b, name, y, sizeof(y)) != n ||
	    memcmp(x, y, (size_t)n) != 0)
		differ(c, "target");
}

static void compare_dirs(struct comparison *c, int a, int b);

static void compare_entry(struct comparison *c, int a, int b,
    const char *name)
{
	struct attr x, y;
	struct err e;
	int da, db;

	ck_assert_int_eq(attr_get(&x, a, name, &e), 0);
	ck_assert_int_eq(attr_get(&y, b, name, &e), 0);
	if (x.mode != y.mode)
		differ(c, "mode");
	if (x.uid != y.uid || x.gid != y.gid)
		differ(c, "owner");
	if (x.mtime_s != y.mtime_s || x.mtime_ns != y.mtime_ns)
		differ(c, "mtime");
	if (x.dev_major != y.dev_major || x.dev_minor != y.dev_minor)
		differ(c, "device");
	compare_xattrs(c, a, b, name);
	if ((x.mode & S_IFMT) != (y.mode & S_IFMT))
		return;
	if (!S_ISDIR(x.mode) && x.nlink > 1)
		compare_links(c, &x, &y);
	if (S_ISREG(x.mode) && x.size != y.size)
		differ(c, "size");
	if (S_ISREG(x.mode) || S_ISDIR(x.mode))
		compare_file(c, a, b, name, S_ISDIR(x.mode));
	if (S_ISLNK(x.mode))
		compare_target(c, a, b, name);
	if (!S_ISDIR(x.mode))
		return;
	da = openat(a, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	db = openat(b, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	compare_dirs(c, da, db);
	close(da);
	close(db);
}

/* Takes names in step; both lists are sorted. */
static void compare_dirs(struct comparison *c, int a, int b)
{
	size_t budget = 1 << 26, size_a, size_b, depth = c->path.size;
	struct walk_names *na, *nb;
	const char *x, *y;
	unsigned char type;
	struct err e;
	int ra, rb;

	ck_assert_int_eq(walk_names_read(&na, a, &budget, a, &e), 0);
	ck_assert_int_eq(walk_names_read(&nb, b, &budget, b, &e), 0);
	ra = walk_names_next(na, &x, &size_a, &type, &e);
	rb = walk_names_next(nb, &y, &size_b, &type, &e);
	while (ra == 1 || rb == 1) {
		int order = ra != 1 ? 1 : rb != 1 ? -1 : strcmp(x, y);

		c->path.size = depth;
		buf_u8(&c->path, '/');
		buf_add(&c->path, order <= 0 ? x : y,
		    strlen(order <= 0 ? x : y));
		if (order < 0)
			differ(c, "only in the first");
		else if (order > 0)
			differ(c, "only in the second");
		else
			compare_entry(c, a, b, x);
		if (order <= 0)
			ra = walk_names_next(na, &x, &size_a, &type, &e);
		if (order >= 0)
			rb = walk_names_next(nb, &y, &size_b, &type, &e);
	}
	c->path.size = depth;
	walk_names_free(na);
	walk_names_free(nb);
}

unsigned compare_trees(const char *a, const char *b, struct buf *why)
{
	struct comparison *c = calloc(1, sizeof(*c));
	int da = open(a, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int db = open(b, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned count;

	ck_assert_ptr_nonnull(c);
	ck_assert_int_ge(da, 0);
	ck_assert_msg(db >= 0, "%s is not there", b);
	c->why = why;
	buf_init(&c->path, 1 << 20);
	buf_reset(why);
	compare_dirs(c, da, db);
	buf_u8(why, '\0');
	count = c->count;
	buf_release(&c->path);
	free(c);
	close(da);
	close(db);
	return count;
}
