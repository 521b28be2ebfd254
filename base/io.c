/*
 * base/io.c - whole transfers, and the one place that replaces files.
 *
 * THE PROMISE of io_file_replace(): after a crash at any moment the name holds
 * the old content or the new, never a mixture; after a return of 0, the new.
 *
 * THE ORDER
 *
 *   1 write "NAME.<thread>.tmp" -> fsync it -> 2 rename -> 3 fsync directory
 *
 *   A crash before 2 leaves the old file and a stray temporary one, which
 *   nobody reads.  The thread's number in the name keeps two writers of one
 *   name apart: each renames only what it wrote itself, the last one wins.
 */
#include "base/io.h"

#include "base/buf.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOAD_STEP 65536

int io_write_all(int fd, const void *data, size_t size, const char *what,
    struct err *e)
{
	const uint8_t *at = data;

	while (size > 0) {
		ssize_t n = write(fd, at, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_os(e, errno, "write %s", what);
		at += n;
		size -= (size_t)n;
	}
	return 0;
}

int io_pwrite_all(int fd, const void *data, size_t size, uint64_t offset,
    const char *what, struct err *e)
{
	const uint8_t *at = data;

	while (size > 0) {
		ssize_t n = pwrite(fd, at, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_os(e, errno, "write %s", what);
		if (n == 0)	/* a device that ends here */
			return err_os(e, ENOSPC, "write %s", what);
		at += n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

int io_pread_all(int fd, void *data, size_t size, uint64_t offset,
    const char *what, struct err *e)
{
	uint8_t *at = data;

	while (size > 0) {
		ssize_t n = pread(fd, at, size, (off_t)offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_os(e, errno, "read %s", what);
		if (n == 0)
			return err_set(e, ERR_CORRUPT, "%s ends %zu bytes "
			    "early", what, size);
		at += n;
		offset += (uint64_t)n;
		size -= (size_t)n;
	}
	return 0;
}

/* Create, fill, and bring to stable storage.  Nothing is left on failure. */
static int write_temp(int dir, const char *temp, mode_t mode,
    const void *data, size_t size, struct err *e)
{
	int rc = -1;
	int fd;

	unlinkat(dir, temp, 0);		/* left by a crash, same number */
	fd = openat(dir, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_os(e, errno, "create %s", temp);
	if (fchmod(fd, mode) != 0) {	/* whatever the umask */
		err_os(e, errno, "set the mode of %s", temp);
		goto out;
	}
	if (io_write_all(fd, data, size, temp, e) != 0)
		goto out;
	if (fsync(fd) != 0) {		/* the content before the name */
		err_os(e, errno, "fsync %s", temp);
		goto out;
	}
	rc = 0;
out:
	close(fd);	/* nothing left to lose: fsync has spoken */
	if (rc != 0)
		unlinkat(dir, temp, 0);
	return rc;
}

int io_file_replace(int dir, const char *name, mode_t mode, const void *data,
    size_t size, struct err *e)
{
	char temp[NAME_MAX + 1];

	if (snprintf(temp, sizeof(temp), "%s.%d.tmp", name, (int)gettid()) >=
	    (int)sizeof(temp))
		return err_set(e, ERR_LIMIT, "%s: name too long", name);
	if (write_temp(dir, temp, mode, data, size, e) != 0)
		return -1;
	if (renameat(dir, temp, dir, name) != 0) {
		err_os(e, errno, "rename %s to %s", temp, name);
		unlinkat(dir, temp, 0);
		return -1;
	}
	/* fsync needs a descriptor that was opened for reading. */
	if (dir == AT_FDCWD) {
		dir = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (dir < 0)
			return err_os(e, errno, "open the directory of %s",
			    name);
		if (fsync(dir) != 0) {
			err_os(e, errno, "fsync the directory of %s", name);
			close(dir);
			return -1;
		}
		close(dir);
		return 0;
	}
	if (fsync(dir) != 0)		/* the name itself */
		return err_os(e, errno, "fsync the directory of %s", name);
	return 0;
}

static int load(int fd, const char *name, struct buf *out, struct err *e)
{
	for (;;) {
		size_t left = out->max - out->size;
		size_t want = left < LOAD_STEP ? left + 1 : LOAD_STEP;
		uint8_t step[LOAD_STEP];
		ssize_t n = read(fd, step, want);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_os(e, errno, "read %s", name);
		if (n == 0)
			return 0;
		buf_add(out, step, (size_t)n);
		if (buf_ok(out, name, e) != 0)
			return -1;
	}
}

int io_file_load(int dir, const char *name, struct buf *out, struct err *e)
{
	/* O_NONBLOCK: a FIFO in the place of the file must not hang us. */
	int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int rc;

	if (fd < 0 && errno == ENOENT) {
		err_os(e, errno, "open %s", name);
		e->code = ERR_NOT_FOUND;
		return -1;
	}
	if (fd < 0)
		return err_os(e, errno, "open %s", name);
	rc = load(fd, name, out, e);
	close(fd);
	return rc;
}

int io_mkdirs(const char *path, mode_t mode, struct err *e)
{
	char part[PATH_MAX];
	size_t size = strlen(path);
	struct stat st;

	if (size >= sizeof(part))
		return err_set(e, ERR_LIMIT, "%s: path too long", path);
	for (size_t i = 1; i <= size; i++) {
		if (path[i] != '/' && path[i] != '\0')
			continue;
		memcpy(part, path, i);
		part[i] = '\0';
		if (mkdir(part, mode) != 0 && errno != EEXIST) {
			int os = errno;

			/* EACCES, EROFS: fine if it is there all the same. */
			if (stat(part, &st) != 0)
				return err_os(e, os, "create directory %s",
				    part);
		}
	}
	if (stat(path, &st) != 0)
		return err_os(e, errno, "open directory %s", path);
	if (!S_ISDIR(st.st_mode))
		return err_os(e, ENOTDIR, "create directory %s", path);
	return 0;
}

void io_close(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}
