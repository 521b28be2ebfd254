/*
 * client/attr.c - attributes without following, without racing.
 *
 * Extended attributes of something that is not open are read through
 * /proc/self/fd/DIR/NAME: the kernel has no l*xattrat() before 6.13, and a
 * whole path may be longer than PATH_MAX.  The last component is never
 * followed, the ones before it are ours.
 */
#include "client/attr.h"

#include "proto/fmt_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

/* The kernel's own bound for one list (XATTR_LIST_MAX) and more: file systems
 * with larger lists answer E2BIG or grow between two calls. */
#define LIST_MAX (1u << 20)
#define LIST_START 512u

static int attr_fail(struct err *e, int os, const char *what,
    const char *name)
{
	err_os(e, os, "%s %.200s", what, name);
	if (os == ENOENT || os == ENOTDIR || os == ESTALE)
		e->code = ERR_NOT_FOUND;
	else if (os == EACCES || os == EPERM)
		e->code = ERR_DENIED;
	return -1;
}

int attr_get(struct attr *a, int dir, const char *name, struct err *e)
{
	struct statx s;
	unsigned mask = STATX_BASIC_STATS | STATX_BTIME;

#ifdef STATX_MNT_ID
	mask |= STATX_MNT_ID;
#endif
	if (statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT |
	    AT_EMPTY_PATH | AT_STATX_SYNC_AS_STAT, mask, &s) != 0)
		return attr_fail(e, errno, "stat", name);
	memset(a, 0, sizeof(*a));
	a->dev = makedev(s.stx_dev_major, s.stx_dev_minor);
	a->ino = s.stx_ino;
	a->size = s.stx_size;
	a->blocks = s.stx_blocks;
	a->mode = s.stx_mode;
	a->uid = s.stx_uid;
	a->gid = s.stx_gid;
	a->nlink = s.stx_nlink;
	a->mtime_s = s.stx_mtime.tv_sec;
	a->mtime_ns = s.stx_mtime.tv_nsec;
	a->ctime_s = s.stx_ctime.tv_sec;
	a->ctime_ns = s.stx_ctime.tv_nsec;
	if (s.stx_mask & STATX_BTIME) {
		a->has_birth = true;
		a->birth_s = s.stx_btime.tv_sec;
		a->birth_ns = s.stx_btime.tv_nsec;
	}
	a->dev_major = s.stx_rdev_major;
	a->dev_minor = s.stx_rdev_minor;
#ifdef STATX_MNT_ID
	if (s.stx_mask & STATX_MNT_ID)
		a->mount = s.stx_mnt_id;
#endif
#ifdef STATX_ATTR_MOUNT_ROOT
	a->mount_root = (s.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
#endif
	return 0;
}

bool attr_same_content(const struct attr *a, const struct attr *b)
{
	return a->dev == b->dev && a->ino == b->ino && a->size == b->size &&
	    a->mtime_s == b->mtime_s && a->mtime_ns == b->mtime_ns &&
	    a->ctime_s == b->ctime_s && a->ctime_ns == b->ctime_ns;
}

uint32_t attr_flags_kept(void)
{
	return FS_SYNC_FL | FS_IMMUTABLE_FL | FS_APPEND_FL | FS_NODUMP_FL |
	    FS_NOATIME_FL | FS_COMPR_FL | FS_DIRSYNC_FL | FS_TOPDIR_FL |
	    FS_NOCOW_FL | FS_PROJINHERIT_FL;
}

void attr_flags(struct attr *a, int fd)
{
	struct fsxattr x;
	int flags = 0;

	a->flags = 0;
	a->project = 0;
	if (ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0)
		a->flags = (uint32_t)flags & attr_flags_kept();
	else
		return;
	if (ioctl(fd, FS_IOC_FSGETXATTR, &x) == 0)
		a->project = x.fsx_projid;
}

/* One inode whose attributes are read: by descriptor or by path. */
struct subject {
	int fd;
	char path[sizeof("/proc/self/fd/2147483648/") + 256];
};

static ssize_t subject_list(const struct subject *s, char *out, size_t size)
{
	return s->fd >= 0 ? flistxattr(s->fd, out, size) :
	    llistxattr(s->path, out, size);
}

static ssize_t subject_value(const struct subject *s, const char *name,
    void *out, size_t size)
{
	return s->fd >= 0 ? fgetxattr(s->fd, name, out, size) :
	    lgetxattr(s->path, name, out, size);
}

/* The list of names into *out (malloc'd, may be NULL when there is none). */
static int read_list(const struct subject *s, char **out, size_t *size)
{
	size_t room = LIST_START;
	char *list = NULL, *more;
	ssize_t got;

	for (;;) {
		more = realloc(list, room);
		if (!more) {
			free(list);
			return ENOMEM;
		}
		list = more;
		got = subject_list(s, list, room);
		if (got >= 0)
			break;
		if ((errno != ERANGE && errno != E2BIG) || room >= LIST_MAX) {
			int os = errno;

			free(list);
			return os;
		}
		room *= 4;
	}
	*out = list;
	*size = (size_t)got;
	return 0;
}

static int read_value(const struct subject *s, const char *name,
    uint8_t **out, size_t *size)
{
	size_t room = 256;
	uint8_t *value = NULL;
	ssize_t got;

	for (;;) {
		uint8_t *more = realloc(value, room);

		if (!more) {
			free(value);
			return ENOMEM;
		}
		value = more;
		got = subject_value(s, name, value, room);
		if (got >= 0)
			break;
		if (errno != ERANGE || room >= LIST_MAX) {
			int os = errno;

			free(value);
			return os;
		}
		room *= 4;
	}
	*out = value;
	*size = (size_t)got;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Pointers to the names in `list`, sorted; malloc'd, *count of them. */
static const char **sort_names(const char *list, size_t size, size_t *count)
{
	const char **names;
	size_t n = 0;

	for (size_t i = 0; i < size; i++)
		n += list[i] == '\0';
	names = malloc((n + 1) * sizeof(*names));
	if (!names)
		return NULL;
	*count = n;
	n = 0;
	for (size_t i = 0; n < *count; i += strlen(list + i) + 1)
		names[n++] = list + i;
	qsort(names, n, sizeof(*names), by_name);
	return names;
}

static void add_one(struct buf *out, const struct subject *s,
    const char *name, attr_trouble trouble, void *arg)
{
	size_t name_size = strlen(name), size = 0;
	uint8_t *value = NULL;
	int os;

	if (name_size == 0 || name_size > 255)
		return;
	os = read_value(s, name, &value, &size);
	if (os == ENODATA)
		return;			/* gone since it was listed */
	if (os != 0) {
		trouble(arg, name, os);
		return;
	}
	buf_u8(out, (uint8_t)name_size);
	buf_add(out, name, name_size);
	buf_le32(out, (uint32_t)size);
	buf_add(out, value, size);
	free(value);
}

static bool no_xattrs_here(int os)
{
	return os == ENOTSUP || os == ENOSYS || os == EPERM || os == EINVAL;
}

int attr_xattrs(struct buf *out, int fd, int dir, const char *name,
    attr_trouble trouble, void *arg, struct err *e)
{
	struct subject s = { .fd = fd };
	const char **names;
	char *list = NULL;
	size_t size = 0, count;
	int os;

	if (fd < 0 && (size_t)snprintf(s.path, sizeof(s.path),
	    "/proc/self/fd/%d/%s", dir, name) >= sizeof(s.path))
		return err_set(e, ERR_LIMIT, "a name is too long");
	os = read_list(&s, &list, &size);
	if (no_xattrs_here(os))
		return 0;
	if (os != 0)
		return attr_fail(e, os, "list extended attributes of", name);
	if (size == 0) {
		free(list);
		return 0;
	}
	names = sort_names(list, size, &count);
	for (size_t i = 0; names && i < count; i++)
		add_one(out, &s, names[i], trouble, arg);
	free(list);
	if (!names)
		return err_set(e, ERR_NO_MEMORY, "no memory for names of "
		    "extended attributes");
	free(names);
	return buf_ok(out, "extended attributes", e);
}

int attr_symlink(uint8_t *out, size_t *size, int dir, const char *name,
    struct err *e)
{
	ssize_t got = readlinkat(dir, name, (char *)out, TREE_SYMLINK_MAX + 1);

	if (got < 0)
		return attr_fail(e, errno, "read the link", name);
	if (got == 0 || got > TREE_SYMLINK_MAX)
		return err_set(e, ERR_LIMIT, "a link of %zd bytes", got);
	*size = (size_t)got;
	return 0;
}

bool attr_pseudo_fs(int dir)
{
	static const unsigned magic[] = {
		PROC_SUPER_MAGIC, SYSFS_MAGIC, DEVPTS_SUPER_MAGIC,
		DEBUGFS_MAGIC, TRACEFS_MAGIC, SECURITYFS_MAGIC,
		CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, SELINUX_MAGIC,
		PSTOREFS_MAGIC, EFIVARFS_MAGIC, BPF_FS_MAGIC,
		BINFMTFS_MAGIC, HUGETLBFS_MAGIC, NSFS_MAGIC,
		0x19800202,	/* POSIX message queues */
		0x62656570,	/* configfs */
		0x65735543,	/* fusectl */
	};
	struct statfs s;

	if (fstatfs(dir, &s) != 0)
		return false;
	for (size_t i = 0; i < sizeof(magic) / sizeof(magic[0]); i++)
		if ((unsigned)s.f_type == magic[i])
			return true;
	return false;
}
