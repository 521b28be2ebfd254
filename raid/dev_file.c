/*
 * raid/dev_file.c - a member on a block device or in a regular file.
 *
 * Two descriptors on the same inode: one through the page cache, for reads that
 * may be repeated, one around it (O_DIRECT), for writes and for reads that must
 * come from the medium.  Linux keeps the two coherent on one machine: a direct
 * write drops the cached pages it covers.  Where the file system refuses direct
 * I/O, everything goes through the cache, and an uncached read drops the pages
 * first.
 *
 * A flush is fdatasync, which also flushes the cache of the drive.  Its first
 * error is final for the caller: the kernel reports it once and forgets the
 * pages, so a second flush proves nothing.
 */
#include "raid/dev.h"

#include "base/io.h"
#include "raid/array.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct dev_file {
	struct dev dev;		/* first: a struct dev * is one of these */
	int fd;			/* through the page cache; holds the lock */
	int direct;		/* around it; -1 = not possible here */
	atomic_bool no_direct;	/* it was refused at the first transfer */
	bool is_block;
	dev_t st_dev, st_rdev;
	ino_t st_ino;
};

static struct dev_file *dev_file_of(struct dev *d)
{
	return (struct dev_file *)d;
}

static bool use_direct(struct dev_file *f)
{
	return f->direct >= 0 && !atomic_load(&f->no_direct);
}

/* True if the failure only says that direct I/O is not possible here. */
static bool direct_refused(struct dev_file *f, const struct err *e)
{
	if (e->os != EINVAL && e->os != EOPNOTSUPP)
		return false;
	atomic_store(&f->no_direct, true);
	return true;
}

static int file_read(struct dev *d, void *buf, size_t size, uint64_t offset,
    bool uncached, struct err *e)
{
	struct dev_file *f = dev_file_of(d);

	if (uncached && use_direct(f)) {
		if (io_pread_all(f->direct, buf, size, offset, d->name,
		    e) == 0)
			return 0;
		if (!direct_refused(f, e))
			return -1;
	}
	if (uncached)
		posix_fadvise(f->fd, (off_t)offset, (off_t)size,
		    POSIX_FADV_DONTNEED);
	return io_pread_all(f->fd, buf, size, offset, d->name, e);
}

static int file_write(struct dev *d, const void *buf, size_t size,
    uint64_t offset, struct err *e)
{
	struct dev_file *f = dev_file_of(d);

	if (d->read_only)
		return err_os(e, EROFS, "write %s", d->name);
	if (use_direct(f)) {
		if (io_pwrite_all(f->direct, buf, size, offset, d->name,
		    e) == 0)
			return 0;
		if (!direct_refused(f, e))
			return -1;
	}
	return io_pwrite_all(f->fd, buf, size, offset, d->name, e);
}

static int file_flush(struct dev *d, struct err *e)
{
	struct dev_file *f = dev_file_of(d);

	if (fdatasync(f->fd) != 0)
		return err_os(e, errno, "flush %s", d->name);
	return 0;
}

static uint64_t size_of(int fd, const struct stat *st)
{
	uint64_t size = 0;

	if (!S_ISBLK(st->st_mode))
		return (uint64_t)st->st_size;
	return ioctl(fd, BLKGETSIZE64, &size) == 0 ? size : 0;
}

static enum dev_seen file_look(struct dev *d)
{
	struct dev_file *f = dev_file_of(d);
	struct stat st, held;

	if (stat(d->name, &st) != 0)
		return DEV_GONE;
	if (f->is_block)
		return S_ISBLK(st.st_mode) && st.st_rdev == f->st_rdev &&
		    fstat(f->fd, &held) == 0 &&
		    size_of(f->fd, &held) >= d->size ? DEV_SAME : DEV_OTHER;
	if (!S_ISREG(st.st_mode) || st.st_dev != f->st_dev ||
	    st.st_ino != f->st_ino || (uint64_t)st.st_size < d->size)
		return DEV_OTHER;
	return DEV_SAME;
}

static void file_close(struct dev *d)
{
	struct dev_file *f = dev_file_of(d);

	io_close(&f->direct);
	io_close(&f->fd);
	free(d->name);
	free(f);
}

static const struct dev_ops file_ops = {
	.read = file_read, .write = file_write, .flush = file_flush,
	.look = file_look, .close = file_close,
};

/* The whole disk below a partition, so that two partitions of one disk are
 * seen to be on one. */
static uint64_t whole_disk(dev_t dev)
{
	unsigned major_no, minor_no;
	char path[80], text[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition",
	    major(dev), minor(dev));
	if (access(path, F_OK) != 0)
		return (uint64_t)dev;
	snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/../dev",
	    major(dev), minor(dev));
	f = fopen(path, "re");
	if (!f)
		return (uint64_t)dev;
	if (fgets(text, sizeof(text), f) &&
	    sscanf(text, "%u:%u", &major_no, &minor_no) == 2)
		dev = makedev(major_no, minor_no);
	fclose(f);
	return (uint64_t)dev;
}

static int open_locked(struct dev_file *f, const char *path, bool read_only,
    struct stat *st, struct err *e)
{
	int flags = (read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC;

	if (stat(path, st) != 0)
		return errno == ENOENT ? err_set(e, ERR_NOT_FOUND,
		    "%s: no such file or device", path) :
		    err_os(e, errno, "look at %s", path);
	if (!S_ISREG(st->st_mode) && !S_ISBLK(st->st_mode))
		return err_set(e, ERR_USAGE,
		    "%s is neither a block device nor a regular file", path);
	if (S_ISBLK(st->st_mode) && !read_only)
		flags |= O_EXCL;	/* refuses what is mounted or in use */
	f->fd = open(path, flags);
	if (f->fd < 0)
		return errno == EBUSY ? err_set(e, ERR_BUSY,
		    "%s is mounted or in use by the system", path) :
		    err_os(e, errno, "open %s", path);
	if (fstat(f->fd, st) != 0)
		return err_os(e, errno, "look at %s", path);
	if (flock(f->fd, (read_only ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0)
		return errno == EWOULDBLOCK ? err_set(e, ERR_BUSY,
		    "%s is in use by another program", path) :
		    err_os(e, errno, "lock %s", path);
	return 0;
}

static int dev_fill(struct dev_file *f, const char *path, bool read_only,
    const struct stat *st, struct err *e)
{
	f->is_block = S_ISBLK(st->st_mode);
	f->st_dev = st->st_dev;
	f->st_rdev = st->st_rdev;
	f->st_ino = st->st_ino;
	f->dev.size = size_of(f->fd, st) / RAID_ROW * RAID_ROW;
	f->dev.read_only = read_only;
	f->dev.disk = whole_disk(f->is_block ? st->st_rdev : st->st_dev);
	f->dev.name = strdup(path);
	if (!f->dev.name)
		return err_set(e, ERR_NO_MEMORY, "no memory to open %s", path);
	return 0;
}

/* The second descriptor, by way of the first: the same inode for certain,
 * whatever has become of the path. */
static void open_direct(struct dev_file *f)
{
	char self[48];

	snprintf(self, sizeof(self), "/proc/self/fd/%d", f->fd);
	f->direct = open(self, (f->dev.read_only ? O_RDONLY : O_RDWR) |
	    O_DIRECT | O_CLOEXEC);
}

int dev_file_open(struct dev **out, const char *path, bool read_only,
    struct err *e)
{
	struct dev_file *f = calloc(1, sizeof(*f));
	struct stat st;

	if (!f)
		return err_set(e, ERR_NO_MEMORY, "no memory to open %s", path);
	f->dev.ops = &file_ops;
	f->fd = f->direct = -1;
	if (open_locked(f, path, read_only, &st, e) != 0 ||
	    dev_fill(f, path, read_only, &st, e) != 0) {
		dev_close(&f->dev);
		return -1;
	}
	open_direct(f);
	*out = &f->dev;
	return 0;
}

/* A new file is there after a crash only once its directory is flushed. */
static int flush_directory(const char *path)
{
	char *copy = strdup(path);
	int fd, os = 0;

	if (!copy)
		return ENOMEM;
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) != 0)
		os = errno;
	io_close(&fd);
	free(copy);
	return os;
}

int dev_file_create(const char *path, uint64_t size, struct err *e)
{
	int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int os;

	if (fd < 0)
		return errno == EEXIST ? err_set(e, ERR_EXISTS,
		    "%s exists already", path) :
		    err_os(e, errno, "create %s", path);
	os = posix_fallocate(fd, 0, (off_t)size);
	if (os == 0 && fsync(fd) != 0)
		os = errno;
	io_close(&fd);
	if (os == 0)
		os = flush_directory(path);
	if (os != 0) {
		unlink(path);
		return err_os(e, os, "allocate %" PRIu64 " bytes for %s",
		    size, path);
	}
	return 0;
}

void dev_close(struct dev *d)
{
	if (d)
		d->ops->close(d);
}
