/*
 * client/restore_dir.c - directories of the target.
 *
 *   D1  A directory is opened by its one name in its parent's descriptor, with
 *       O_NOFOLLOW: nothing planted in the target leads out of it.  Only the
 *       target itself may be reached through the operator's own links.
 *   D2  At most RESTORE_OPEN_MAX are open; one that was given up is found
 *       again through ".." of its child, and must be the same inode.
 *   D3  A new directory is 0700 until everything below is done; an existing one
 *       that we cannot write gets the bits for that long.  Attributes come
 *       last, so that a directory of mode 0555 can be filled and its time is
 *       the archived one.
 *   D4  The target itself, and directories on the way to what was selected,
 *       keep what they have if they were there before.
 *   D5  --delete goes through the sorted names of an existing directory along
 *       with the snapshot's; what is excluded, and everything in a directory
 *       of which a page was lost, stays.
 */
#include "client/restore_int.h"

#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

static int open_in(int dir, const char *name)
{
	return openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_NONBLOCK | O_CLOEXEC);
}

/* D2: before one more is opened. */
static void give_up_shallowest(struct restore *r)
{
	struct restore_dir *found = NULL;

	if (r->open < RESTORE_OPEN_MAX)
		return;
	for (struct restore_dir *d = r->top; d; d = d->up)
		if (d->fd >= 0)
			found = d;
	if (found && found != r->top && found->up) {
		io_close(&found->fd);
		r->open--;
		return;
	}
	/* The target stays open: take the next one. */
	found = NULL;
	for (struct restore_dir *d = r->top; d; d = d->up)
		if (d->fd >= 0 && d->up && d != r->top)
			found = d;
	if (found) {
		io_close(&found->fd);
		r->open--;
	}
}

/* D2 */
static void find_again(struct restore *r, struct restore_dir *parent,
    int child)
{
	struct err ignored;
	struct attr a;
	int fd = open_in(child, "..");

	if (fd >= 0 && attr_get(&a, fd, "", &ignored) == 0 &&
	    a.dev == parent->dev && a.ino == parent->ino) {
		parent->fd = fd;
		r->open++;
		return;
	}
	io_close(&fd);
	parent->skip = true;
	parent->incomplete = true;
	r->result->failed++;
	restore_warn(r, parent->flow, NULL, "was moved away while it was "
	    "restored; what was still to come is missing");
}

/* Note what it is, once it is open. */
static void adopt(struct restore *r, struct restore_dir *d, int fd)
{
	struct err ignored;
	struct attr a = { .dev = 0 };

	d->fd = fd;
	r->open++;
	if (attr_get(&a, fd, "", &ignored) == 0) {
		d->dev = a.dev;
		d->ino = a.ino;
		d->mode_before = a.mode;
	}
	d->there = true;
	if (d->fresh)
		return;
	d->inherits = fgetxattr(fd, "system.posix_acl_default", NULL, 0) > 0;
	if (!r->root && (a.mode & 0700) != 0700 &&
	    fchmod(fd, (a.mode & 07777) | 0700) == 0)
		d->mode_changed = true;
	if (r->o->delete && !r->o->dry_run && d->ours) {
		d->budget = WALK_NAMES_MAX / 8;
		if (walk_names_read(&d->names, fd, &d->budget, fd,
		    &ignored) != 0)
			d->names = NULL;
	}
}

static struct restore_dir *dir_push(struct restore *r, struct flow_dir *flow)
{
	struct restore_dir *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->fd = -1;
	d->up = r->top;
	d->flow = flow;
	d->fresh = r->top && r->top->fresh;
	d->skip = r->top && r->top->skip;
	d->inherits = r->top && r->top->inherits;
	r->top = d;
	return d;
}

int restore_dir_top(struct restore *r, struct err *e)
{
	struct restore_dir *d = dir_push(r, NULL);
	const char *to = r->o->to;
	int fd;

	if (!d)
		return err_set(e, ERR_NO_MEMORY, "no memory for a directory");
	fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT && !r->o->dry_run) {
		if (io_mkdirs(to, 0777, e) != 0)
			return -1;
		d->fresh = d->ours = true;
		fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0 && errno == ENOENT && r->o->dry_run) {
		d->fresh = true;
		return 0;
	}
	if (fd < 0)
		return err_os(e, errno, "%.300s", to);
	adopt(r, d, fd);
	/* A new target may lie below a directory with a default ACL. */
	d->inherits = fgetxattr(fd, "system.posix_acl_default", NULL, 0) > 0;
	return 0;
}

/* ---- making one --------------------------------------------------------- */

static bool dir_fail(struct restore *r, struct restore_dir *d,
    const char *what, int os)
{
	d->skip = true;
	r->result->failed++;
	restore_warn(r, d->flow, NULL, "%s: %s", what, strerror(os));
	return false;
}

/* Something that is no directory has its name.  True if it is gone. */
static bool clear_name(struct restore *r, struct restore_dir *d, int parent,
    const char *name)
{
	struct err e;
	struct attr a;

	if (attr_get(&a, parent, name, &e) != 0)
		return e.code == ERR_NOT_FOUND;
	if (!restore_may_replace(r, &a, &d->flow->entry)) {
		d->skip = true;
		r->result->differ++;
		restore_warn(r, d->flow, NULL,
		    "something that is no directory is there; kept");
		return false;
	}
	if (unlinkat(parent, name, 0) != 0)
		return dir_fail(r, d, "cannot be replaced", errno);
	return true;
}

/* `d` in its parent, which is open. */
static bool make(struct restore *r, struct restore_dir *d)
{
	int parent = d->up->fd, fd;
	char name[256];

	if (!restore_name(r, d->flow, &d->flow->entry.name, name)) {
		d->skip = true;
		return false;
	}
	if (!d->up->fresh) {
		fd = open_in(parent, name);
		if (fd >= 0) {
			adopt(r, d, fd);
			return true;
		}
		if (errno == EACCES && fchmodat(parent, name, 0700,
		    AT_SYMLINK_NOFOLLOW) == 0 &&
		    (fd = open_in(parent, name)) >= 0) {
			adopt(r, d, fd);
			return true;
		}
		if (errno != ENOENT && !clear_name(r, d, parent, name))
			return false;
	}
	if (mkdirat(parent, name, 0700) != 0)
		return dir_fail(r, d, "cannot be made", errno);
	fd = open_in(parent, name);
	if (fd < 0)
		return dir_fail(r, d, "cannot be opened", errno);
	d->fresh = d->ours = true;
	adopt(r, d, fd);
	return true;
}

/* The lowest ancestor that is there; then down again.  A lazy chain is as long
 * as the path to what was selected. */
int restore_dir_fd(struct restore *r)
{
	struct restore_dir *d;

	while (!r->top->there) {
		for (d = r->top; d->up && !d->up->there;)
			d = d->up;
		if (!d->up || d->skip || d->up->skip || d->up->fd < 0 ||
		    !make(r, d)) {
			for (d = r->top; d && !d->there; d = d->up)
				d->skip = true;
			return -1;
		}
	}
	return r->top->skip ? -1 : r->top->fd;
}

int restore_dir_enter(struct restore *r, struct flow_dir *flow,
    bool selected, struct err *e)
{
	struct restore_dir *d;

	give_up_shallowest(r);
	d = dir_push(r, flow);
	if (!d)
		return err_set(e, ERR_NO_MEMORY, "no memory for a directory");
	flow->user = d;
	d->ours = selected;
	d->lazy = !selected;
	if (!d->skip && !d->lazy && !r->o->dry_run)
		(void)!restore_dir_fd(r);
	flow->mark = d->fresh ? AHEAD_NEW : AHEAD_THERE;
	return 0;
}

/* ---- --delete ----------------------------------------------------------- */

static bool next_there(struct restore_dir *d)
{
	struct err ignored;
	unsigned char type;
	const char *name;
	size_t size;

	if (d->has_next)
		return true;
	if (walk_names_next(d->names, &name, &size, &type, &ignored) != 1)
		return false;
	memcpy(d->next_name, name, size + 1);
	d->has_next = true;
	return true;
}

static bool is_protected(struct restore *r, struct restore_dir *d,
    const char *name)
{
	struct slice s = { (const uint8_t *)name, strlen(name) };
	const struct buf *path = restore_path(r, d->flow, &s);
	struct err ignored;
	struct attr a;
	bool is_dir;

	if (attr_get(&a, d->fd, name, &ignored) != 0)
		return true;
	is_dir = S_ISDIR(a.mode);
	if (match_path(r->exclude, path->data, path->size, 0, is_dir) ==
	    MATCH_YES)
		return true;
	return !match_empty(r->include) && match_path(r->include, path->data,
	    path->size, 0, is_dir) != MATCH_YES;
}

static void delete_one(struct restore *r, struct restore_dir *d)
{
	struct slice s = { (const uint8_t *)d->next_name,
		strlen(d->next_name) };

	if (is_protected(r, d, d->next_name))
		return;
	if (restore_remove(d->fd, d->next_name)) {
		r->result->deleted++;
		return;
	}
	r->result->failed++;
	restore_warn(r, d->flow, &s, "cannot be deleted");
}

static int name_cmp(const char *a, const struct slice *b)
{
	size_t size = strlen(a), least = size < b->size ? size : b->size;
	int c = memcmp(a, b->data, least);

	return c != 0 ? c : (size > b->size) - (size < b->size);
}

void restore_delete_until(struct restore *r, const struct slice *name)
{
	struct restore_dir *d = r->top;
	int c;

	while (d->names && d->fd >= 0 && next_there(d)) {
		c = name ? name_cmp(d->next_name, name) : -1;
		if (c > 0)
			return;
		if (c < 0 && !d->incomplete)
			delete_one(r, d);
		d->has_next = false;
	}
}

/* ---- the end of one ----------------------------------------------------- */

static void finish(struct restore *r, struct restore_dir *d)
{
	const struct restore_subject s = { .fd = d->fd,
		.clean = !d->fresh || d->inherits };
	struct buf xattrs;
	struct err e;

	buf_init(&xattrs, TREE_XATTRS_MAX);
	if (d->ours && d->flow) {
		if (restore_xattrs_get(r, &xattrs, d->flow, &d->flow->entry,
		    &e) != 0)
			restore_warn(r, d->flow, NULL, "%s", e.text);
		if (!d->fresh)
			restore_unlock(d->fd);
		restore_attributes(r, &s, d->flow->parent, &d->flow->entry,
		    &xattrs);
		restore_flags(r, d->fd, d->flow->parent, &d->flow->entry);
	} else if (d->mode_changed) {
		(void)!fchmod(d->fd, d->mode_before & 07777);
	}
	buf_release(&xattrs);
}

static void dir_pop(struct restore *r)
{
	struct restore_dir *d = r->top;

	r->top = d->up;
	if (d->flow)
		d->flow->user = NULL;
	if (d->fd >= 0) {
		r->open--;
		io_close(&d->fd);
	}
	walk_names_free(d->names);
	free(d);
}

void restore_dir_leave(struct restore *r)
{
	struct restore_dir *d = r->top;

	if (d->there && d->fd >= 0) {
		restore_delete_until(r, NULL);
		finish(r, d);
		if (d->up && d->up->there && d->up->fd < 0 && !d->up->skip)
			find_again(r, d->up, d->fd);
	}
	dir_pop(r);
}

void restore_dir_free_all(struct restore *r)
{
	while (r->top) {
		struct restore_dir *d = r->top;

		if (d->mode_changed && d->fd >= 0)
			(void)!fchmod(d->fd, d->mode_before & 07777);
		dir_pop(r);
	}
}
