/*
 * client/attr.h - the attributes of one inode, read as a push needs them.
 *
 * Nothing here follows a symbolic link.  An inode is named by a directory
 * descriptor and a name, or by a descriptor of its own (name "").
 *
 * Errors: ERR_IO with errno in e->os; ERR_NOT_FOUND when it vanished;
 * ERR_DENIED.
 * Threads: no state.
 */
#ifndef CLIENT_ATTR_H
#define CLIENT_ATTR_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct attr {
	uint64_t dev, ino, size, blocks;	/* blocks of 512 bytes */
	uint64_t mount;		/* id of the mount, 0 = not known */
	uint32_t mode, uid, gid, nlink;
	int64_t mtime_s, ctime_s, birth_s;
	uint32_t mtime_ns, ctime_ns, birth_ns;
	bool has_birth;
	bool mount_root;	/* something is mounted here */
	uint32_t dev_major, dev_minor;	/* of a device node */
	uint32_t flags;		/* FS_*_FL worth keeping (attr_flags) */
	uint32_t project;
};

/* statx without following; `name` "" asks for `dir` itself. */
MUST_CHECK int attr_get(struct attr *a, int dir, const char *name,
    struct err *e);
/* True if nothing that a change of content changes differs. */
bool attr_same_content(const struct attr *a, const struct attr *b);

/* Inode flags and project of an open file or directory; fills a->flags and
 * a->project, with 0 where the file system has none. */
void attr_flags(struct attr *a, int fd);
/* The flags that are kept and that a restore may set. */
uint32_t attr_flags_kept(void);

/* What became of one attribute that could not be read. */
typedef void (*attr_trouble)(void *arg, const char *name, int os);

/*
 * Append the encoded extended attributes (proto/fmt_tree.h) to `out`, sorted
 * by name; ACLs and capabilities are among them.  `fd` >= 0 is a descriptor
 * of the inode itself; else it is `name` in `dir`.  One that cannot be read is
 * told to `trouble` and left out.  ERR_LIMIT when all together are more than
 * TREE_XATTRS_MAX.
 */
MUST_CHECK int attr_xattrs(struct buf *out, int fd, int dir,
    const char *name, attr_trouble trouble, void *arg, struct err *e);

/* The text of a link into `out` (room for TREE_SYMLINK_MAX + 1 bytes). */
MUST_CHECK int attr_symlink(uint8_t *out, size_t *size, int dir,
    const char *name, struct err *e);

/* True if this is a file system that holds no files of anybody's (proc,
 * sysfs, cgroup ...): it is never entered, only named. */
bool attr_pseudo_fs(int dir);

#endif
