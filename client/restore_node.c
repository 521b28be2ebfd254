/*
 * client/restore_node.c - putting things in place; links and nodes.
 *
 * Everything is made under a temporary name in its directory, gets its
 * attributes there, and is renamed: RENAME_NOREPLACE when nothing may be
 * replaced, so that what appeared meanwhile is not lost either.  A link that
 * somebody planted under the final name is renamed over, never followed.
 */
#include "client/restore_int.h"

#include "base/hash.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

void restore_temp_name(char out[static RESTORE_TEMP_SIZE])
{
	uint8_t bytes[8];
	struct err ignored;

	if (random_bytes(bytes, sizeof(bytes), &ignored) != 0)
		memset(bytes, 0x5a, sizeof(bytes));
	memcpy(out, ".bk-", 4);
	hex_put(out + 4, bytes, sizeof(bytes));
}

bool restore_name(struct restore *r, const struct flow_dir *dir,
    const struct slice *name, char out[static 256])
{
	if (!tree_name_ok(name->data, name->size)) {
		r->result->failed++;
		restore_warn(r, dir, name, "is not a name; refused");
		return false;
	}
	memcpy(out, name->data, name->size);
	out[name->size] = '\0';
	return true;
}

enum there restore_look(struct restore *r, int dir, const char *name,
    struct attr *a)
{
	struct err e;

	(void)r;
	if (attr_get(a, dir, name, &e) == 0)
		return THERE_SOMETHING;
	return e.code == ERR_NOT_FOUND ? THERE_NOTHING : THERE_ERROR;
}

bool restore_may_replace(const struct restore *r, const struct attr *there,
    const struct tree_entry *entry)
{
	switch (r->o->overwrite) {
	case OVERWRITE_ALWAYS:
	case OVERWRITE_CHANGED:
		return true;
	case OVERWRITE_OLDER:
		return there->mtime_s < entry->mtime_s ||
		    (there->mtime_s == entry->mtime_s &&
		    there->mtime_ns < entry->mtime_ns);
	default:
		return false;
	}
}

/* A directory in the way goes if it is empty, or with --delete. */
static bool clear_directory(struct restore *r, int dir, const char *name)
{
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return true;
	return errno == ENOTEMPTY && r->o->delete && restore_remove(dir, name);
}

bool restore_place(struct restore *r, int dir, const char *temp,
    const struct flow_event *ev, bool replace)
{
	const struct slice *name = &ev->entry->name;
	char text[256];
	int os;

	memcpy(text, name->data, name->size);
	text[name->size] = '\0';
	if (renameat2(dir, temp, dir, text, replace ? 0 :
	    RENAME_NOREPLACE) == 0)
		return true;
	if (errno == EINVAL && !replace &&	/* not every system can */
	    faccessat(dir, text, F_OK, AT_SYMLINK_NOFOLLOW) != 0 &&
	    renameat(dir, temp, dir, text) == 0)
		return true;
	os = errno;
	if (replace && os == EISDIR && clear_directory(r, dir, text) &&
	    renameat(dir, temp, dir, text) == 0)
		return true;
	(void)unlinkat(dir, temp, 0);
	if (os == EISDIR || os == EEXIST) {
		r->result->differ++;
		restore_warn(r, ev->dir, name, os == EISDIR ?
		    "a directory that is not empty is there; kept" :
		    "something appeared there; kept");
	} else {
		r->result->failed++;
		restore_warn(r, ev->dir, name, "cannot be put in place: %s",
		    strerror(os));
	}
	return false;
}

/* ---- removing ----------------------------------------------------------- */

static bool remove_below(int fd, uint64_t dev, unsigned depth);

static bool remove_one(int dir, const char *name, uint64_t dev,
    unsigned depth)
{
	struct err ignored;
	struct attr a;
	bool ok;
	int fd;

	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return true;
	if (errno != EISDIR && errno != EPERM)
		return false;
	if (unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return true;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_CLOEXEC);
	if (fd < 0)
		return false;
	ok = attr_get(&a, fd, "", &ignored) == 0 &&
	    (dev == 0 || a.dev == dev) && depth < RESTORE_OPEN_MAX * 4 &&
	    remove_below(fd, a.dev, depth + 1);
	close(fd);
	return ok && unlinkat(dir, name, AT_REMOVEDIR) == 0;
}

static bool remove_below(int fd, uint64_t dev, unsigned depth)
{
	size_t budget = WALK_NAMES_MAX;
	struct walk_names *names;
	struct err ignored;
	unsigned char type;
	const char *name;
	bool ok = true;
	size_t size;

	if (walk_names_read(&names, fd, &budget, fd, &ignored) != 0)
		return false;
	while (walk_names_next(names, &name, &size, &type, &ignored) == 1)
		ok &= remove_one(fd, name, dev, depth);
	walk_names_free(names);
	return ok;
}

bool restore_remove(int dir, const char *name)
{
	struct err ignored;
	struct attr a;

	if (attr_get(&a, dir, "", &ignored) != 0)
		return false;
	return remove_one(dir, name, a.dev, 0);
}

/* ---- link groups -------------------------------------------------------- */

/* Open the directory of a path below the target, component by component. */
static int open_parent(struct restore *r, struct buf *path,
    const char **last)
{
	struct restore_dir *d = r->top;
	char *at = (char *)path->data, *slash;
	int fd, next;

	while (d->up)
		d = d->up;
	fd = d->fd >= 0 ? dup(d->fd) : open(r->o->to,
	    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	while (fd >= 0 && (slash = strchr(at, '/')) != NULL) {
		*slash = '\0';
		next = *at ? openat(fd, at, O_RDONLY | O_DIRECTORY |
		    O_NOFOLLOW | O_CLOEXEC) : dup(fd);
		close(fd);
		fd = next;
		at = slash + 1;
	}
	*last = at;
	return fd;
}

/* Where an item is below the target: its path in the flow. */
static void target_path(struct buf *out, const struct flow_event *ev)
{
	buf_reset(out);
	flow_path(out, ev->dir, &ev->entry->name);
}

void restore_link_first(struct restore *r, const struct flow_event *ev)
{
	struct buf path;
	struct err e;

	if (ev->entry->link == 0)
		return;
	buf_init(&path, SIZE_MAX / 2);
	target_path(&path, ev);
	if (buf_ok(&path, "a path", &e) != 0 ||
	    link_table_put(r->links, ev->entry->link, path.data, path.size,
	    &e) != 0)
		restore_warn(r, ev->dir, &ev->entry->name,
		    "its further names cannot be linked: %s", e.text);
	buf_release(&path);
}

/* Link the first name to `name`; 1 = done, 0 = cannot, -1 = told. */
static int link_in_place(struct restore *r, const struct flow_event *ev,
    int from, const char *first, int dir, bool there)
{
	char temp[RESTORE_TEMP_SIZE];

	restore_temp_name(temp);
	if (linkat(from, first, dir, temp, 0) != 0) {
		if (errno == ENOENT || errno == EMLINK || errno == EXDEV ||
		    errno == EPERM)
			return 0;
		r->result->failed++;
		restore_warn(r, ev->dir, &ev->entry->name,
		    "cannot be linked: %s", strerror(errno));
		return -1;
	}
	if (!restore_place(r, dir, temp, ev, there))
		return -1;
	/* Renaming one name of an inode onto another does nothing. */
	(void)unlinkat(dir, temp, 0);
	r->result->files++;
	return 1;
}

int restore_link_to_first(struct restore *r, const struct flow_event *ev,
    int dir, const char *name, bool equal)
{
	struct attr first, there;
	const char *last;
	struct buf path;
	enum there look;
	struct err e;
	int from, rc = 0;

	buf_init(&path, SIZE_MAX / 2);
	if (ev->entry->link == 0 || link_table_get(r->links, ev->entry->link,
	    &path, &e) != 1)
		goto out;
	buf_u8(&path, '\0');
	if (path.bad)
		goto out;
	from = open_parent(r, &path, &last);
	if (from < 0)
		goto out;
	look = restore_look(r, dir, name, &there);
	if (attr_get(&first, from, last, &e) != 0)
		rc = 0;
	else if (look == THERE_SOMETHING && there.dev == first.dev &&
	    there.ino == first.ino)
		rc = 1;		/* linked already */
	else if (look == THERE_NOTHING || equal ||
	    restore_may_replace(r, &there, ev->entry))
		rc = link_in_place(r, ev, from, last, dir,
		    look == THERE_SOMETHING);
	close(from);
out:
	buf_release(&path);
	return rc;
}

/* ---- symbolic links, devices, FIFOs, sockets ---------------------------- */

static bool same_node(int dir, const char *name, const struct attr *a,
    const struct tree_entry *n)
{
	uint8_t text[TREE_SYMLINK_MAX + 1];
	struct err ignored;
	size_t size;

	if ((a->mode & S_IFMT) != (n->mode & S_IFMT))
		return false;
	if (S_ISLNK(n->mode))
		return attr_symlink(text, &size, dir, name, &ignored) == 0 &&
		    size == n->symlink.size &&
		    memcmp(text, n->symlink.data, size) == 0;
	if (S_ISCHR(n->mode) || S_ISBLK(n->mode))
		return a->dev_major == n->dev_major &&
		    a->dev_minor == n->dev_minor;
	return true;
}

static int make_node(int dir, const char *name, const struct tree_entry *n)
{
	char text[TREE_SYMLINK_MAX + 1];

	if (!S_ISLNK(n->mode))
		return mknodat(dir, name, (n->mode & S_IFMT) | 0600,
		    makedev(n->dev_major, n->dev_minor));
	if (memchr(n->symlink.data, '\0', n->symlink.size)) {
		errno = EINVAL;
		return -1;
	}
	memcpy(text, n->symlink.data, n->symlink.size);
	text[n->symlink.size] = '\0';
	return symlinkat(text, dir, name);
}

/* Make it under a temporary name, with all its attributes. */
static int create_node(struct restore *r, const struct flow_event *ev,
    int dir, bool replace, struct err *e)
{
	char temp[RESTORE_TEMP_SIZE];
	const struct restore_subject s = { .fd = -1, .dir = dir,
		.name = temp, .clean = r->top->inherits };
	struct buf xattrs;
	int rc;

	restore_temp_name(temp);
	if (make_node(dir, temp, ev->entry) != 0) {
		r->result->failed++;
		restore_warn(r, ev->dir, &ev->entry->name,
		    "cannot be made: %s", strerror(errno));
		return 0;
	}
	buf_init(&xattrs, TREE_XATTRS_MAX);
	rc = restore_xattrs_get(r, &xattrs, ev->dir, ev->entry, e);
	if (rc != 0) {
		(void)unlinkat(dir, temp, 0);
	} else {
		restore_attributes(r, &s, ev->dir, ev->entry, &xattrs);
		if (restore_place(r, dir, temp, ev, replace)) {
			r->result->files++;
			restore_link_first(r, ev);
		}
	}
	buf_release(&xattrs);
	return rc;
}

/* It is there already: repair its attributes. */
static int keep_node(struct restore *r, const struct flow_event *ev, int dir,
    const char *name, struct err *e)
{
	const struct restore_subject s = { .fd = -1, .dir = dir,
		.name = name, .clean = true };
	struct buf xattrs;
	int rc;

	if (restore_link_to_first(r, ev, dir, name, true) != 0)
		return 0;
	buf_init(&xattrs, TREE_XATTRS_MAX);
	rc = restore_xattrs_get(r, &xattrs, ev->dir, ev->entry, e);
	if (rc == 0) {
		restore_attributes(r, &s, ev->dir, ev->entry, &xattrs);
		r->result->kept++;
		restore_link_first(r, ev);
	}
	buf_release(&xattrs);
	return rc;
}

int restore_node(struct restore *r, const struct flow_event *ev,
    struct err *e)
{
	enum there look;
	struct attr a;
	char name[256];
	bool same;
	int dir;

	if (!restore_name(r, ev->dir, &ev->entry->name, name))
		return 0;
	dir = restore_dir_fd(r);
	if (dir < 0)
		return 0;
	look = r->top->fresh ? THERE_NOTHING :
	    restore_look(r, dir, name, &a);
	if (restore_link_to_first(r, ev, dir, name, false) != 0)
		return 0;
	if (look == THERE_NOTHING)
		return create_node(r, ev, dir, false, e);
	if (look == THERE_ERROR) {
		r->result->failed++;
		restore_warn(r, ev->dir, &ev->entry->name,
		    "cannot be looked at");
		return 0;
	}
	same = same_node(dir, name, &a, ev->entry);
	if (same && r->o->overwrite != OVERWRITE_ALWAYS)
		return keep_node(r, ev, dir, name, e);
	if (restore_may_replace(r, &a, ev->entry))
		return create_node(r, ev, dir, true, e);
	if (r->o->overwrite == OVERWRITE_OLDER) {
		r->result->kept++;
		return 0;
	}
	r->result->differ++;
	restore_warn(r, ev->dir, &ev->entry->name,
	    "something else is there; kept");
	return 0;
}
