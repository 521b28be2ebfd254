/*
 * client/push_read.c - a file becomes chunks and a list of them.
 *
 * A file is read up to the size it had when it was opened, so that one that
 * grows faster than we read has an end; a file of size 0 is read to its end
 * (files of /proc say 0 and have content).  Holes are asked for (SEEK_DATA)
 * only when fewer blocks are allocated than the size needs.
 *
 * After the read its attributes must be what they were before; else it is read
 * again, PUSH_READ_TRIES times at most, then stored as read and marked.  A
 * read error, on the other hand, leaves the file out: half a file under a good
 * name is worse than none.
 */
#include "client/push_int.h"

#include "base/clock.h"
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(PUSH_READ_BYTES >= 2 * CHUNK_MAX, "room for a chunk and more");

#define CHECK_BATCH 64

enum outcome { READ_DONE, READ_CHANGED, READ_ABSENT, READ_FATAL };

struct content {		/* of the file being read */
	struct push_reader *r;
	struct list_builder *list;	/* the reader's */
	struct list_entry first;	/* while it is the only one */
	uint64_t entries, size;
};

struct state {			/* of one reader */
	struct push_reader *r;
	struct list_builder *list;
	uint8_t *bytes;		/* PUSH_READ_BYTES */
	struct err error;	/* of READ_FATAL */
};

/* ---- the list of a file ------------------------------------------------- */

static int content_add(struct content *c, const struct list_entry *entry,
    struct err *e)
{
	c->size += entry->size;
	c->entries++;
	if (c->entries == 1) {
		c->first = *entry;
		return 0;
	}
	if (c->entries == 2 && list_builder_add(c->list, &c->first, e) != 0)
		return -1;
	return list_builder_add(c->list, entry, e);
}

/* A file of one chunk and no hole needs no list. */
static int content_finish(struct content *c, struct push_item *n,
    struct err *e)
{
	n->size = c->size;
	n->content = CONTENT_NONE;
	if (c->entries == 0)
		return 0;
	if (c->entries == 1 && c->first.kind == LIST_CHUNK) {
		n->content = CONTENT_CHUNK;
		n->id = c->first.id;
		return 0;
	}
	if (c->entries == 1 && list_builder_add(c->list, &c->first, e) != 0)
		return -1;
	n->content = CONTENT_LIST;
	return list_builder_finish(c->list, &n->id, e);
}

/* Leave nothing of a file that was given up in the builder. */
static void content_abandon(struct content *c)
{
	struct err ignored;
	struct id id;

	if (c->entries >= 2)
		(void)!list_builder_finish(c->list, &id, &ignored);
}

static int add_chunk(struct content *c, const uint8_t *data, size_t size,
    struct err *e)
{
	struct list_entry entry = { .kind = LIST_CHUNK, .size = size };
	struct push *p = c->r->push;

	if (id_of(&entry.id, OBJECT_CHUNK, data, size, e) != 0 ||
	    push_chunk(p, c->r->lane, &entry.id, data, size, e) != 0)
		return -1;
	atomic_fetch_add(&p->counts.read_bytes, size);
	atomic_fetch_add(&p->client->progress.bytes, size);
	return content_add(c, &entry, e);
}

static int add_hole(struct content *c, uint64_t size, struct err *e)
{
	struct list_entry entry = { .kind = LIST_HOLE, .size = size };

	return size > 0 ? content_add(c, &entry, e) : 0;
}

/* ---- bytes -------------------------------------------------------------- */

/* Cut what is in the buffer, all of it with `end`; the rest moves to the
 * front. */
static int cut(struct state *s, struct content *c, size_t *have, bool end,
    struct err *e)
{
	const struct chunker *cut = &s->r->push->chunker;
	size_t at = 0, size;

	while (at < *have) {
		size = chunker_next(cut, s->bytes + at, *have - at, end);
		if (size == 0)
			break;
		if (add_chunk(c, s->bytes + at, size, e) != 0)
			return -1;
		at += size;
	}
	memmove(s->bytes, s->bytes + at, *have - at);
	*have -= at;
	return 0;
}

/* Read [from, to) as data; *ended if the file is shorter.  -1 and a code of
 * ERR_IO is the file's trouble, anything else ours. */
static int read_range(struct state *s, struct content *c, int fd,
    uint64_t from, uint64_t to, bool *ended, struct err *e)
{
	size_t have = 0;

	while (from < to && !*ended) {
		size_t want = PUSH_READ_BYTES - have;
		ssize_t got;

		if (want > to - from)
			want = (size_t)(to - from);
		got = pread(fd, s->bytes + have, want, (off_t)from);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_os(e, errno, "read at %llu",
			    (unsigned long long)from);
		*ended = got == 0;
		from += (size_t)got;
		have += (size_t)got;
		if (cut(s, c, &have, false, e) != 0)
			return -1;
		if (atomic_load(&s->r->push->failed))
			return push_check(s->r->push, e);
	}
	return cut(s, c, &have, true, e);
}

/* Data and holes in turn. */
static int read_sparse(struct state *s, struct content *c, int fd,
    uint64_t size, struct err *e)
{
	uint64_t at = 0;
	bool ended = false;

	while (at < size && !ended) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			data = (off_t)size;
		if (data < 0)		/* it cannot tell: all is data */
			return read_range(s, c, fd, at, size, &ended, e);
		if ((uint64_t)data > size)
			data = (off_t)size;
		if (add_hole(c, (uint64_t)data - at, e) != 0)
			return -1;
		at = (uint64_t)data;
		if (at == size)
			break;
		hole = lseek(fd, data, SEEK_HOLE);
		if (hole <= data || (uint64_t)hole > size)
			hole = (off_t)size;
		if (read_range(s, c, fd, at, (uint64_t)hole, &ended, e) != 0)
			return -1;
		at = (uint64_t)hole;
	}
	return 0;
}

static int read_content(struct state *s, struct content *c, int fd,
    const struct attr *a, struct err *e)
{
	bool ended = false;

	if (a->size == 0)
		return read_range(s, c, fd, 0, INT64_MAX, &ended, e);
	if (a->blocks < a->size / 512)
		return read_sparse(s, c, fd, a->size, e);
	return read_range(s, c, fd, 0, a->size, &ended, e);
}

/* ---- one file ----------------------------------------------------------- */

static int open_file(int dir, const char *name)
{
	const int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
	int fd = openat(dir, name, flags | O_NOATIME);

	if (fd < 0 && errno == EPERM)
		fd = openat(dir, name, flags);
	return fd;
}

static enum outcome absent(struct push *p, struct push_item *n, int os,
    const char *why)
{
	n->absent = true;
	if (os == ENOENT || os == ESTALE || os == ELOOP || os == ENOTDIR)
		atomic_fetch_add(&p->counts.vanished, 1);
	else
		push_unreadable(p, n, why);
	return READ_ABSENT;
}

struct xattr_told {
	struct push *push;
	struct push_item *item;
};

static void xattr_trouble(void *arg, const char *name, int os)
{
	struct xattr_told *t = arg;

	if (os != ENOTSUP && os != EINVAL && os != ENOSYS)
		warn_add(&t->push->client->warn, t->item->path,
		    t->item->path_size, "extended attribute %.255s cannot "
		    "be read: %s", name, strerror(os));
}

static void read_attributes(struct push *p, struct push_item *n, int fd)
{
	struct xattr_told told = { p, n };
	struct err e;

	attr_flags(&n->attr, fd);
	buf_reset(&n->xattrs);
	if (attr_xattrs(&n->xattrs, fd, -1, n->name, xattr_trouble, &told,
	    &e) != 0) {
		buf_reset(&n->xattrs);
		warn_add(&p->client->warn, n->path, n->path_size, "%s",
		    e.text);
	}
}

/* Read the open file once; says whether it stood still. */
static enum outcome read_open(struct state *s, struct push_item *n, int fd)
{
	struct content c = { .r = s->r, .list = s->list };
	struct push *p = s->r->push;
	struct attr before, after;
	struct err e;

	n->read_ns = clock_real_ns();
	if (attr_get(&before, fd, "", &e) != 0)
		return absent(p, n, e.os, e.text);
	if (!S_ISREG(before.mode))
		return absent(p, n, ENOENT, "");
	n->attr = before;
	read_attributes(p, n, fd);
	if (read_content(s, &c, fd, &before, &e) != 0) {
		content_abandon(&c);
		if (e.code == ERR_IO && e.os != 0 && !atomic_load(&p->failed))
			return absent(p, n, e.os, e.text);
		s->error = e;
		return READ_FATAL;
	}
	if (content_finish(&c, n, &s->error) != 0)
		return READ_FATAL;
	if (attr_get(&after, fd, "", &e) != 0)
		return absent(p, n, e.os, e.text);
	if (!attr_same_content(&before, &after) ||
	    (before.size != 0 && n->size != before.size))
		return READ_CHANGED;
	n->fresh = before.size == n->size;
	return READ_DONE;
}

static enum outcome read_file(struct state *s, struct push_item *n)
{
	struct push *p = s->r->push;
	enum outcome out = READ_CHANGED;

	progress_file(&p->client->progress, n->path, n->path_size);
	for (unsigned i = 0; i < PUSH_READ_TRIES && out == READ_CHANGED; i++) {
		int fd = open_file(n->dir->fd, n->name);

		if (fd < 0)
			return absent(p, n, errno, strerror(errno));
		out = read_open(s, n, fd);
		io_close(&fd);
	}
	atomic_fetch_add(&p->counts.read_files, 1);
	if (out != READ_CHANGED)
		return out;
	n->state |= TREE_STATE_CHANGED;
	atomic_fetch_add(&p->counts.changed, 1);
	warn_add(&p->client->warn, n->path, n->path_size,
	    "changed while it was read; stored as read");
	return READ_DONE;
}

/* ---- the thread --------------------------------------------------------- */

static int job(struct state *s, struct push_item *n)
{
	struct push *p = s->r->push;
	enum outcome out = read_file(s, n);

	walk_dir_drop(n->dir);		/* one descriptor less */
	n->dir = NULL;
	push_item_done(p, n);
	push_item_drop(n);
	if (out != READ_FATAL)
		return 0;
	return push_fail(p, &s->error);
}

/* Cached contents: one question for up to CHECK_BATCH of them. */
static int check(struct state *s, struct push_item **items, size_t count)
{
	struct push *p = s->r->push;
	struct id ids[CHECK_BATCH];
	struct push_ask *ask = NULL;
	struct err e;
	int rc = 0;

	memset(ids, 0, sizeof(ids));
	for (size_t i = 0; i < count; i++)
		ids[i] = items[i]->id;
	if (push_ask_send(&ask, p, ids, count, &e) != 0)
		rc = push_fail(p, &e);
	else if (push_ask_ready(p, ask, true) < 0)
		rc = -1;
	for (size_t i = 0; i < count; i++) {
		if (rc == 0 && !push_ask_has(ask, i)) {
			rc = job(s, items[i]);
			continue;
		}
		push_item_done(p, items[i]);
		push_item_drop(items[i]);
	}
	if (ask)
		push_ask_drop(p, ask);
	return rc;
}

static int work(struct state *s)
{
	struct push *p = s->r->push;
	struct push_item *items[CHECK_BATCH], *n;
	size_t count = 0;
	int ended, rc = 0;

	n = queue_pop(p->jobs);
	if (!n)
		return -1;
	while (n && n->check) {
		items[count++] = n;
		n = count < CHECK_BATCH ? queue_try_pop(p->jobs, &ended) :
		    NULL;
	}
	if (count > 0)
		rc = check(s, items, count);
	if (!n)
		return rc;
	if (rc == 0)
		return job(s, n);
	push_item_done(p, n);
	push_item_drop(n);
	return rc;
}

void *push_read_thread(void *arg)
{
	struct state s = { .r = arg };
	struct push *p = s.r->push;
	struct err e;

	s.bytes = malloc(PUSH_READ_BYTES);
	if (!s.bytes) {
		err_set(&e, ERR_NO_MEMORY, "no memory to read files");
		push_fail(p, &e);
	} else if (list_builder_new(&s.list, push_page, p, &e) != 0) {
		push_fail(p, &e);
	} else {
		while (work(&s) == 0)
			;
	}
	list_builder_free(s.list);
	free(s.bytes);
	return NULL;
}
