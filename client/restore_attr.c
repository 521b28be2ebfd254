/*
 * client/restore_attr.c - attributes, in the one order that works.
 *
 *   owner         clears set-id bits and capabilities: first
 *   mode          with the set-id bits; rewrites the mask of an ACL
 *   ACLs, others  after the mode
 *   capability    after everything that the kernel answers by clearing it
 *   times         after the last change of content or attributes
 *   inode flags   after the final name: an immutable file cannot be renamed
 *
 * What an ordinary user may not set is counted, and told in one line at the
 * end; what a file system cannot hold is told for each item.
 */
#include "client/restore_int.h"

#include "proto/fmt_frame.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define CAPABILITY "security.capability"
#define LIST_MAX 65536

static bool not_permitted(int os)
{
	return os == EPERM || os == EACCES;
}

/* "/proc/self/fd/DIR/NAME": for what cannot be opened. */
struct proc_path {
	char text[sizeof("/proc/self/fd/2147483648/") + 256];
};

static void proc_path(struct proc_path *out, const struct restore_subject *s)
{
	(void)snprintf(out->text, sizeof(out->text), "/proc/self/fd/%d/%s",
	    s->dir, s->name);
}

/* ---- owner, mode, times ------------------------------------------------- */

static int do_chown(const struct restore_subject *s, uint32_t uid,
    uint32_t gid)
{
	return s->fd >= 0 ? fchown(s->fd, uid, gid) :
	    fchownat(s->dir, s->name, uid, gid, AT_SYMLINK_NOFOLLOW);
}

/* True if the item has the archived owner now. */
static bool set_owner(struct restore *r, const struct restore_subject *s,
    const struct flow_dir *dir, const struct tree_entry *entry)
{
	uint32_t uid = entry->uid, gid = entry->gid;
	struct attr a;
	struct err ignored;

	if (!r->o->numeric_ids) {
		uid = names_id(r->names, NAMES_USER, entry->user.data,
		    entry->user.size, uid);
		gid = names_id(r->names, NAMES_GROUP, entry->group.data,
		    entry->group.size, gid);
	}
	if (!r->root) {
		if (attr_get(&a, s->fd >= 0 ? s->fd : s->dir,
		    s->fd >= 0 ? "" : s->name, &ignored) == 0 &&
		    a.uid == uid && a.gid == gid)
			return true;
	}
	if (do_chown(s, uid, gid) == 0)
		return true;
	if (not_permitted(errno) || errno == EINVAL) {
		(void)!do_chown(s, (uint32_t)-1, gid);
		r->result->owners++;
		return false;
	}
	restore_warn(r, dir, &entry->name, "owner %u:%u cannot be set: %s",
	    uid, gid, strerror(errno));
	return false;
}

static void set_mode(struct restore *r, const struct restore_subject *s,
    const struct flow_dir *dir, const struct tree_entry *entry, bool owned)
{
	mode_t mode = entry->mode & 07777;
	int rc;

	if (S_ISLNK(entry->mode))
		return;
	if (!owned)
		mode &= (mode_t)~06000;	/* not ours to run as */
	rc = s->fd >= 0 ? fchmod(s->fd, mode) :
	    fchmodat(s->dir, s->name, mode, AT_SYMLINK_NOFOLLOW);
	if (rc == 0)
		return;
	if (not_permitted(errno))
		r->result->attributes++;
	else
		restore_warn(r, dir, &entry->name,
		    "mode %04o cannot be set: %s", (unsigned)mode,
		    strerror(errno));
}

/* Beyond 32 bits a file system may clamp without a word. */
static bool is_extreme(int64_t s)
{
	return s < 0 || s > INT32_MAX;
}

static void set_times(struct restore *r, const struct restore_subject *s,
    const struct flow_dir *dir, const struct tree_entry *entry)
{
	const struct timespec times[2] = {
		{ .tv_nsec = UTIME_OMIT },
		{ .tv_sec = (time_t)entry->mtime_s,
		    .tv_nsec = (long)entry->mtime_ns },
	};
	struct err ignored;
	struct attr a;
	int rc;

	rc = s->fd >= 0 ? futimens(s->fd, times) :
	    utimensat(s->dir, s->name, times, AT_SYMLINK_NOFOLLOW);
	if (rc != 0) {
		if (not_permitted(errno))
			r->result->attributes++;
		else
			restore_warn(r, dir, &entry->name,
			    "time cannot be set: %s", strerror(errno));
		return;
	}
	if (!is_extreme(entry->mtime_s))
		return;
	if (attr_get(&a, s->fd >= 0 ? s->fd : s->dir,
	    s->fd >= 0 ? "" : s->name, &ignored) == 0 &&
	    (a.mtime_s != entry->mtime_s || a.mtime_ns != entry->mtime_ns))
		restore_warn(r, dir, &entry->name, "the file system cannot "
		    "hold the time %lld.%09u; it has %lld.%09u now",
		    (long long)entry->mtime_s, entry->mtime_ns,
		    (long long)a.mtime_s, a.mtime_ns);
}

/* ---- extended attributes ------------------------------------------------ */

static int do_setxattr(const struct restore_subject *s, const char *name,
    const struct slice *value)
{
	struct proc_path path;

	if (s->fd >= 0)
		return fsetxattr(s->fd, name, value->data, value->size, 0);
	proc_path(&path, s);
	return lsetxattr(path.text, name, value->data, value->size, 0);
}

static int do_removexattr(const struct restore_subject *s, const char *name)
{
	struct proc_path path;

	if (s->fd >= 0)
		return fremovexattr(s->fd, name);
	proc_path(&path, s);
	return lremovexattr(path.text, name);
}

static void set_one(struct restore *r, const struct restore_subject *s,
    const struct flow_dir *dir, const struct tree_entry *entry,
    const char *name, const struct slice *value)
{
	if (do_setxattr(s, name, value) == 0)
		return;
	if (not_permitted(errno))
		r->result->attributes++;
	else
		restore_warn(r, dir, &entry->name, "extended attribute %s of "
		    "%zu bytes cannot be set: %s", name, value->size,
		    strerror(errno));
}

static bool name_of(const struct slice *s, char out[static 256])
{
	if (s->size == 0 || s->size > 255 || memchr(s->data, '\0', s->size))
		return false;
	memcpy(out, s->data, s->size);
	out[s->size] = '\0';
	return true;
}

/* All but capabilities, or those alone. */
static void set_xattrs(struct restore *r, const struct restore_subject *s,
    const struct flow_dir *dir, const struct tree_entry *entry,
    const struct slice *list, bool capability)
{
	struct slice name, value;
	char text[256];
	size_t pos = 0;

	while (xattrs_next(list, &pos, &name, &value) == 1) {
		if (!name_of(&name, text) ||
		    (strcmp(text, CAPABILITY) == 0) != capability)
			continue;
		set_one(r, s, dir, entry, text, &value);
	}
}

static bool in_list(const struct slice *list, const char *want)
{
	struct slice name, value;
	size_t pos = 0, size = strlen(want);

	while (xattrs_next(list, &pos, &name, &value) == 1)
		if (name.size == size && memcmp(name.data, want, size) == 0)
			return true;
	return false;
}

/* Labels that the system gives by itself are left alone. */
static bool is_removable(const char *name)
{
	return strncmp(name, "user.", 5) == 0 ||
	    strncmp(name, "system.posix_acl_", 17) == 0 ||
	    strncmp(name, "trusted.", 8) == 0 || strcmp(name, CAPABILITY) == 0;
}

/* Take away what the archived item does not have. */
static void clean_xattrs(const struct restore_subject *s,
    const struct slice *list)
{
	struct proc_path path;
	char *names = malloc(LIST_MAX);
	ssize_t size;

	if (!names)
		return;
	if (s->fd >= 0) {
		size = flistxattr(s->fd, names, LIST_MAX);
	} else {
		proc_path(&path, s);
		size = llistxattr(path.text, names, LIST_MAX);
	}
	for (ssize_t at = 0; at < size;) {
		const char *name = names + at;

		if (is_removable(name) && !in_list(list, name))
			(void)!do_removexattr(s, name);
		at += (ssize_t)strlen(name) + 1;
	}
	free(names);
}

int restore_xattrs_get(struct restore *r, struct buf *out,
    const struct flow_dir *dir, const struct tree_entry *entry,
    struct err *e)
{
	struct fetch_object *o;
	int rc;

	buf_reset(out);
	if (!entry->has_xattr_ref) {
		if (entry->xattrs.size > 0)
			buf_add(out, entry->xattrs.data, entry->xattrs.size);
		return buf_ok(out, "extended attributes", e);
	}
	if (fetch_want(&o, r->fetch, &entry->xattr_ref, OBJECT_CHUNK,
	    FRAME_PLAIN_MAX, e) != 0)
		return -1;
	rc = fetch_wait(r->fetch, o, e);
	if (rc == 0 && o->state == FETCH_LOST) {
		r->result->lost++;
		restore_warn(r, dir, &entry->name, "its extended attributes "
		    "are lost");
	} else if (rc == 0) {
		buf_add(out, o->data, o->size);
		rc = buf_ok(out, "extended attributes", e);
	}
	fetch_drop(r->fetch, o);
	return rc;
}

void restore_attributes(struct restore *r, const struct restore_subject *s,
    const struct flow_dir *dir, const struct tree_entry *entry,
    const struct buf *xattrs)
{
	const struct slice list = { xattrs->data, xattrs->size };
	bool owned = set_owner(r, s, dir, entry);

	if (s->clean)
		clean_xattrs(s, &list);
	set_mode(r, s, dir, entry, owned);
	if (list.size > 0) {
		set_xattrs(r, s, dir, entry, &list, false);
		set_xattrs(r, s, dir, entry, &list, true);
	}
	set_times(r, s, dir, entry);
}

/* ---- inode flags -------------------------------------------------------- */

static void set_project(struct restore *r, int fd,
    const struct tree_entry *entry)
{
	struct fsxattr x;

	if (entry->project == 0 || ioctl(fd, FS_IOC_FSGETXATTR, &x) != 0 ||
	    x.fsx_projid == entry->project)
		return;
	x.fsx_projid = entry->project;
	if (ioctl(fd, FS_IOC_FSSETXATTR, &x) != 0)
		r->result->attributes++;
}

void restore_flags(struct restore *r, int fd, const struct flow_dir *dir,
    const struct tree_entry *entry)
{
	uint32_t want = entry->flags & attr_flags_kept();
	int now = 0, next;

	set_project(r, fd, entry);
	if (want == 0)
		return;
	if (ioctl(fd, FS_IOC_GETFLAGS, &now) != 0) {
		r->result->attributes++;
		return;
	}
	next = (int)(((uint32_t)now & ~attr_flags_kept()) | want);
	if (next == now || ioctl(fd, FS_IOC_SETFLAGS, &next) == 0)
		return;
	if (not_permitted(errno))
		r->result->attributes++;
	else
		restore_warn(r, dir, &entry->name, "inode flags %#x cannot "
		    "be set: %s", want, strerror(errno));
}

void restore_unlock(int fd)
{
	int now = 0, next;

	if (ioctl(fd, FS_IOC_GETFLAGS, &now) != 0)
		return;
	next = now & ~(FS_IMMUTABLE_FL | FS_APPEND_FL);
	if (next != now)
		(void)!ioctl(fd, FS_IOC_SETFLAGS, &next);
}
