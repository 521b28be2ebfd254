/*
 * client/restore_ahead.c - what may be fetched before its turn.
 *
 * Content is requested ahead where the file is not in the target yet; where it
 * is, it will perhaps only be compared.  Whether it is there is looked up when
 * its page is read, from the nearest directory above that is open.  The answer
 * may be out of date when its turn comes: then it is looked up again, and a
 * wrong guess has cost a fetch or a wait, nothing else.
 */
#include "client/restore_int.h"

#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Directories between what is open and what is looked at; beyond, it counts
 * as there. */
#define AHEAD_DEPTH 16

static int step_into(int fd, const struct slice *name)
{
	char text[256];
	int next = -1;

	if (tree_name_ok(name->data, name->size)) {
		memcpy(text, name->data, name->size);
		text[name->size] = '\0';
		next = openat(fd, text, O_PATH | O_DIRECTORY | O_NOFOLLOW |
		    O_CLOEXEC);
	}
	close(fd);
	return next;
}

/* Open `dir` from the nearest one above that is open; -1 when it is not there
 * or too far. */
static int open_ahead(struct flow_dir *dir)
{
	const struct flow_dir *chain[AHEAD_DEPTH], *d = dir;
	const struct restore_dir *open = NULL;
	size_t count = 0;
	int fd;

	while (d && !d->user && count < AHEAD_DEPTH) {
		chain[count++] = d;
		d = d->parent;
	}
	if (d)
		open = d->user;
	if (!open || open->fd < 0) {
		errno = EAGAIN;
		return -1;
	}
	fd = fcntl(open->fd, F_DUPFD_CLOEXEC, 0);
	while (fd >= 0 && count > 0)
		fd = step_into(fd, &chain[--count]->entry.name);
	return fd;
}

/* Make r->ahead_fd the directory; false if it is known to be new. */
static bool look_into(struct restore *r, struct flow_dir *dir)
{
	if (r->ahead == dir && r->ahead_fd >= 0)
		return true;
	io_close(&r->ahead_fd);
	r->ahead = dir;
	r->ahead_fd = open_ahead(dir);
	if (r->ahead_fd >= 0)
		return true;
	if (errno != ENOENT)
		return true;
	dir->mark = AHEAD_NEW;
	return false;
}

bool restore_is_new(struct restore *r, struct flow_dir *dir,
    const struct slice *name)
{
	const struct flow_dir *d = dir;
	char text[256];
	struct stat s;

	while (d && d->mark == AHEAD_UNKNOWN)
		d = d->parent;
	if (d && d->mark == AHEAD_NEW) {
		dir->mark = AHEAD_NEW;
		return true;
	}
	if (!look_into(r, dir))
		return true;
	if (r->ahead_fd < 0 || !tree_name_ok(name->data, name->size))
		return false;
	memcpy(text, name->data, name->size);
	text[name->size] = '\0';
	return fstatat(r->ahead_fd, text, &s, AT_SYMLINK_NOFOLLOW) != 0 &&
	    errno == ENOENT;
}
