/*
 * client/restore_file.c - regular files.
 *
 *   WRITE    nothing is there, or it is to be replaced: a temporary file gets
 *            the content, the attributes, then the name
 *   COMPARE  a regular file of the same size is there: it is read and compared
 *            chunk by chunk with the ids of the snapshot, without fetching
 *            any.  If all are equal it is kept.  With --overwrite changed the
 *            first difference starts a temporary file, which takes the equal
 *            pieces from the old file and fetches the others.
 */
#include "client/restore_int.h"

#include "base/io.h"
#include "proto/fmt_frame.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void file_reset(struct restore *r)
{
	memset(&r->file, 0, sizeof(r->file));
	r->file.fd = r->file.old = -1;
}

/* Told once a file; the rest of its events pass by. */
static void file_fail(struct restore *r, const struct flow_event *ev,
    const char *what, int os)
{
	if (r->file.failed)
		return;
	r->file.failed = true;
	r->result->failed++;
	restore_warn(r, ev->dir, &ev->entry->name, "%s: %s", what,
	    strerror(os));
}

static void temp_open(struct restore *r, const struct flow_event *ev)
{
	struct restore_file *f = &r->file;
	int dir = restore_dir_fd(r);

	if (dir < 0) {
		f->failed = true;
		return;
	}
	restore_temp_name(f->temp);
	f->fd = openat(dir, f->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW |
	    O_CLOEXEC, 0600);
	if (f->fd < 0)
		file_fail(r, ev, "cannot be created", errno);
}

void restore_file_abandon(struct restore *r)
{
	if (r->file.fd >= 0 && r->top && r->top->fd >= 0)
		(void)unlinkat(r->top->fd, r->file.temp, 0);
	io_close(&r->file.fd);
	io_close(&r->file.old);
	file_reset(r);
}

/* ---- what to do --------------------------------------------------------- */

static void refuse(struct restore *r, const struct flow_event *ev,
    const char *why)
{
	r->file.what = FILE_NONE;
	r->result->differ++;
	restore_warn(r, ev->dir, &ev->entry->name, "%s", why);
	flow_set_need(r->flow, FLOW_NEED_NOTHING);
}

static void write_new(struct restore *r, const struct flow_event *ev,
    bool replace)
{
	r->file.what = FILE_WRITE;
	r->file.replace = replace;
	flow_set_need(r->flow, FLOW_NEED_DATA);
	temp_open(r, ev);
}

static void compare(struct restore *r, const struct flow_event *ev, int dir,
    const char *name)
{
	struct restore_file *f = &r->file;

	f->old = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK |
	    O_CLOEXEC);
	if (f->old < 0) {
		if (r->o->overwrite == OVERWRITE_CHANGED)
			write_new(r, ev, true);
		else
			refuse(r, ev, "is there and cannot be read; kept");
		return;
	}
	f->what = FILE_COMPARE;
	f->replace = true;
	flow_set_need(r->flow, FLOW_NEED_IDS);
}

/* Something is there. */
static void meet(struct restore *r, const struct flow_event *ev, int dir,
    const char *name, const struct attr *a)
{
	bool regular = S_ISREG(a->mode);

	switch (r->o->overwrite) {
	case OVERWRITE_ALWAYS:
		write_new(r, ev, true);
		return;
	case OVERWRITE_OLDER:
		if (restore_may_replace(r, a, ev->entry)) {
			write_new(r, ev, true);
			return;
		}
		r->result->kept++;
		flow_set_need(r->flow, FLOW_NEED_NOTHING);
		return;
	case OVERWRITE_CHANGED:
		if (regular)
			compare(r, ev, dir, name);
		else
			write_new(r, ev, true);
		return;
	default:
		if (regular && a->size == ev->entry->size)
			compare(r, ev, dir, name);
		else
			refuse(r, ev, "something else is there; kept");
	}
}

void restore_file_begin(struct restore *r, const struct flow_event *ev)
{
	enum there look = THERE_NOTHING;
	struct attr a;
	char name[256];
	int dir = -1;

	file_reset(r);
	if (!restore_name(r, ev->dir, &ev->entry->name, name) ||
	    (dir = restore_dir_fd(r)) < 0) {
		flow_set_need(r->flow, FLOW_NEED_NOTHING);
		return;
	}
	progress_file(&r->client->progress, name, ev->entry->name.size);
	if (restore_link_to_first(r, ev, dir, name, false) != 0) {
		flow_set_need(r->flow, FLOW_NEED_NOTHING);
		return;
	}
	if (!r->top->fresh)
		look = restore_look(r, dir, name, &a);
	if (look == THERE_NOTHING) {
		write_new(r, ev, false);
	} else if (look == THERE_SOMETHING) {
		meet(r, ev, dir, name, &a);
	} else {
		file_fail(r, ev, "cannot be looked at", errno);
		flow_set_need(r->flow, FLOW_NEED_NOTHING);
	}
}

/* ---- content ------------------------------------------------------------ */

static void put(struct restore *r, const struct flow_event *ev,
    const uint8_t *data, size_t size)
{
	struct err e;

	if (r->file.fd < 0 || r->file.failed)
		return;
	if (io_pwrite_all(r->file.fd, data, size, ev->offset, "file",
	    &e) != 0) {
		file_fail(r, ev, "cannot be written", e.os ? e.os : EIO);
		return;
	}
	r->file.written += size;
}

/* The old file's bytes at the event's place, in r->bytes; false if it is
 * shorter. */
static bool old_bytes(struct restore *r, const struct flow_event *ev)
{
	struct err e;

	return ev->size <= FRAME_PLAIN_MAX && io_pread_all(r->file.old,
	    r->bytes, (size_t)ev->size, ev->offset, "file", &e) == 0;
}

/* COMPARE meets the first difference. */
static void differ(struct restore *r, const struct flow_event *ev)
{
	struct restore_file *f = &r->file;
	off_t from = 0, to = 0;
	uint64_t left = ev->offset;

	f->differs = true;
	if (r->o->overwrite != OVERWRITE_CHANGED)
		return;
	temp_open(r, ev);
	while (f->fd >= 0 && !f->failed && left > 0) {
		ssize_t got = copy_file_range(f->old, &from, f->fd, &to,
		    left < (1u << 30) ? (size_t)left : 1u << 30, 0);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			file_fail(r, ev, "cannot be copied",
			    got < 0 ? errno : EIO);
		else
			left -= (uint64_t)got;
	}
}

/* A piece that the old file does not have. */
static int fetch_piece(struct restore *r, const struct flow_event *ev,
    struct err *e)
{
	struct fetch_object *o;
	int rc;

	if (fetch_want(&o, r->fetch, ev->id, OBJECT_CHUNK,
	    (uint32_t)ev->size, e) != 0)
		return -1;
	rc = fetch_wait(r->fetch, o, e);
	if (rc == 0) {
		if (o->state == FETCH_HERE && o->size == ev->size)
			put(r, ev, o->data, o->size);
		else if (!r->file.failed) {
			r->file.failed = true;
			r->result->lost++;
			restore_warn(r, ev->dir, &ev->entry->name,
			    "is lost: its content cannot be had");
		}
	}
	fetch_drop(r->fetch, o);
	return rc;
}

static int compare_chunk(struct restore *r, const struct flow_event *ev,
    struct err *e)
{
	struct restore_file *f = &r->file;
	struct id id;
	bool same;

	if (f->differs && f->fd < 0)
		return 0;		/* refused already */
	same = old_bytes(r, ev);
	if (same) {
		if (id_of(&id, OBJECT_CHUNK, r->bytes, (size_t)ev->size,
		    e) != 0)
			return -1;
		same = id_equal(&id, ev->id);
	}
	if (!same && !f->differs)
		differ(r, ev);
	if (f->fd < 0 || f->failed)
		return 0;
	if (!same)
		return fetch_piece(r, ev, e);
	put(r, ev, r->bytes, (size_t)ev->size);
	return 0;
}

int restore_file_chunk(struct restore *r, const struct flow_event *ev,
    struct err *e)
{
	if (r->file.what == FILE_COMPARE)
		return compare_chunk(r, ev, e);
	if (r->file.what == FILE_WRITE && ev->data)
		put(r, ev, ev->data, (size_t)ev->size);
	atomic_fetch_add(&r->client->progress.bytes, ev->size);
	return 0;
}

static bool is_zero(const uint8_t *p, size_t size)
{
	return size == 0 || (p[0] == 0 && memcmp(p, p + 1, size - 1) == 0);
}

/* Are the old file's bytes zero where the snapshot has a hole? */
static bool old_is_zero(struct restore *r, const struct flow_event *ev)
{
	struct flow_event piece = *ev;
	uint64_t end = ev->offset + ev->size;
	off_t data;

	while (piece.offset < end) {
		data = lseek(r->file.old, (off_t)piece.offset, SEEK_DATA);
		if (data >= 0 && (uint64_t)data >= end)
			return true;
		if (data < 0 && errno == ENXIO)
			return true;
		if (data > (off_t)piece.offset)
			piece.offset = (uint64_t)data;
		piece.size = end - piece.offset;
		if (piece.size > FRAME_PLAIN_MAX)
			piece.size = FRAME_PLAIN_MAX;
		if (!old_bytes(r, &piece) ||
		    !is_zero(r->bytes, (size_t)piece.size))
			return false;
		piece.offset += piece.size;
	}
	return true;
}

void restore_file_hole(struct restore *r, const struct flow_event *ev)
{
	struct restore_file *f = &r->file;

	if (f->what == FILE_COMPARE && !f->differs && !old_is_zero(r, ev))
		differ(r, ev);
}

/* ---- the end ------------------------------------------------------------ */

static int finish_write(struct restore *r, const struct flow_event *ev,
    struct err *e)
{
	struct restore_file *f = &r->file;
	struct restore_subject s = { .fd = f->fd,
		.clean = r->top->inherits };
	struct buf xattrs;
	int rc;

	if (ftruncate(f->fd, (off_t)ev->entry->size) != 0) {
		file_fail(r, ev, "cannot be sized", errno);
		return 0;
	}
	buf_init(&xattrs, TREE_XATTRS_MAX);
	rc = restore_xattrs_get(r, &xattrs, ev->dir, ev->entry, e);
	if (rc == 0) {
		restore_attributes(r, &s, ev->dir, ev->entry, &xattrs);
		if (restore_place(r, r->top->fd, f->temp, ev, f->replace)) {
			restore_flags(r, f->fd, ev->dir, ev->entry);
			r->result->files++;
			r->result->bytes += f->written;
			restore_link_first(r, ev);
		}
		io_close(&f->fd);	/* no temporary file any more */
	}
	buf_release(&xattrs);
	return rc;
}

/* An equal file: its attributes are made right.  In a link group one that is
 * an inode of its own becomes a link of the first. */
static int finish_kept(struct restore *r, const struct flow_event *ev,
    struct err *e)
{
	struct restore_subject s = { .fd = r->file.old, .clean = true };
	struct buf xattrs;
	char name[256];
	int rc;

	if (!restore_name(r, ev->dir, &ev->entry->name, name) ||
	    restore_link_to_first(r, ev, r->top->fd, name, true) != 0)
		return 0;
	buf_init(&xattrs, TREE_XATTRS_MAX);
	rc = restore_xattrs_get(r, &xattrs, ev->dir, ev->entry, e);
	if (rc == 0) {
		restore_unlock(s.fd);
		restore_attributes(r, &s, ev->dir, ev->entry, &xattrs);
		restore_flags(r, s.fd, ev->dir, ev->entry);
		r->result->kept++;
		restore_link_first(r, ev);
	}
	buf_release(&xattrs);
	return rc;
}

static void tell_lost(struct restore *r, const struct flow_event *ev)
{
	r->result->lost++;
	restore_warn(r, ev->dir, &ev->entry->name,
	    "is lost: its content cannot be had");
}

/* The old file may be longer than what was compared. */
static bool same_length(struct restore *r, const struct flow_event *ev)
{
	struct err ignored;
	struct attr a;

	return attr_get(&a, r->file.old, "", &ignored) == 0 &&
	    a.size == ev->entry->size;
}

/* COMPARE is over. */
static int finish_compare(struct restore *r, const struct flow_event *ev,
    struct err *e)
{
	struct restore_file *f = &r->file;
	struct flow_event at_end = *ev;

	if (!f->differs && !same_length(r, ev)) {
		at_end.offset = ev->entry->size;
		differ(r, &at_end);
	}
	if (f->fd >= 0)
		return finish_write(r, ev, e);
	if (!f->differs)
		return finish_kept(r, ev, e);
	if (!f->failed) {
		r->result->differ++;
		restore_warn(r, ev->dir, &ev->entry->name,
		    "has other content there; kept");
	}
	return 0;
}

int restore_file_end(struct restore *r, const struct flow_event *ev,
    struct err *e)
{
	struct restore_file *f = &r->file;
	int rc = 0;

	if (f->what != FILE_NONE && ev->lost && !f->failed)
		tell_lost(r, ev);
	else if (f->failed)
		rc = 0;
	else if (f->what == FILE_WRITE)
		rc = finish_write(r, ev, e);
	else if (f->what == FILE_COMPARE)
		rc = finish_compare(r, ev, e);
	restore_file_abandon(r);
	atomic_fetch_add(&r->client->progress.files, 1);
	return rc;
}
