/*
 * client/verify.c - what differs between a snapshot and the live files.
 *
 * The same stream of events as a restore; each entry is looked up in the live
 * directory that goes along with the snapshot's.  The names of a live
 * directory are gone through in parallel, so that new ones are seen too.
 */
#include "client/verify.h"

#include "base/buf.h"
#include "base/io.h"
#include "client/attr.h"
#include "client/client.h"
#include "client/flow.h"
#include "client/match.h"
#include "client/out.h"
#include "client/walk.h"
#include "client/walk_int.h"
#include "proto/fmt_frame.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct live_dir {
	struct live_dir *up;
	struct flow_dir *flow;
	int fd;			/* -1: not there, nothing below is compared */
	struct walk_names *names;
	size_t budget;
	char next[256];
	bool has_next;
};

struct verify {
	struct client *client;
	struct flow *flow;
	const struct verify_options *o;
	struct verify_result *result;
	const char *prefix;
	struct match *include, *exclude;
	struct live_dir *top;
	struct buf path, diff;
	uint8_t *bytes;
	int file;		/* the live file being compared, or -1 */
	bool content_differs;
};

static const struct buf *path_of(struct verify *v, const struct flow_dir *dir,
    const struct slice *name)
{
	buf_reset(&v->path);
	if (strcmp(v->prefix, "/") != 0)
		buf_add(&v->path, v->prefix, strlen(v->prefix));
	flow_path(&v->path, dir, name);
	if (v->path.size == 0)
		buf_u8(&v->path, '/');
	return &v->path;
}

static void say(struct verify *v, const char *what,
    const struct flow_dir *dir, const struct slice *name)
{
	const struct buf *path = path_of(v, dir, name);

	progress_clear(&v->client->progress);
	printf("%s ", what);
	out_name(path->data, path->size);
	if (v->diff.size > 0)
		printf(": %.*s", (int)v->diff.size, (char *)v->diff.data);
	putchar('\n');
}

static void note_diff(struct verify *v, const char *what)
{
	if (v->diff.size > 0)
		buf_add(&v->diff, ", ", 2);
	buf_add(&v->diff, what, strlen(what));
}

/* ---- attributes --------------------------------------------------------- */

static void ignore_trouble(void *arg, const char *name, int os)
{
	(void)arg;
	(void)name;
	(void)os;
}

static void compare_xattrs(struct verify *v, int dir, const char *name,
    const struct tree_entry *n)
{
	struct buf live;
	struct err ignored;
	struct id id;

	buf_init(&live, TREE_XATTRS_MAX);
	if (attr_xattrs(&live, -1, dir, name, ignore_trouble, NULL,
	    &ignored) != 0)
		buf_reset(&live);
	if (n->has_xattr_ref) {
		if (live.size == 0 || id_of(&id, OBJECT_CHUNK, live.data,
		    live.size, &ignored) != 0 ||
		    !id_equal(&id, &n->xattr_ref))
			note_diff(v, "extended attributes");
	} else if (live.size != n->xattrs.size || (live.size > 0 &&
	    memcmp(live.data, n->xattrs.data, live.size) != 0)) {
		note_diff(v, "extended attributes");
	}
	buf_release(&live);
}

static void compare_attr(struct verify *v, const struct attr *a,
    const struct tree_entry *n, int dir, const char *name)
{
	if (a->mtime_s != n->mtime_s || a->mtime_ns != n->mtime_ns)
		note_diff(v, "mtime");
	if (v->o->to)
		return;
	if (!S_ISLNK(n->mode) && (a->mode & 07777) != (n->mode & 07777))
		note_diff(v, "mode");
	if (a->uid != n->uid || a->gid != n->gid)
		note_diff(v, "owner");
	compare_xattrs(v, dir, name, n);
}

static void compare_symlink(struct verify *v, const struct tree_entry *n,
    int dir, const char *name)
{
	uint8_t text[TREE_SYMLINK_MAX + 1];
	struct err ignored;
	size_t size;

	if (attr_symlink(text, &size, dir, name, &ignored) != 0 ||
	    size != n->symlink.size ||
	    memcmp(text, n->symlink.data, size) != 0)
		note_diff(v, "target");
}

/* ---- live directories --------------------------------------------------- */

static bool next_live(struct live_dir *d)
{
	struct err ignored;
	unsigned char type;
	const char *name;
	size_t size;

	if (d->has_next)
		return true;
	if (!d->names ||
	    walk_names_next(d->names, &name, &size, &type, &ignored) != 1)
		return false;
	memcpy(d->next, name, size + 1);
	d->has_next = true;
	return true;
}

static void extra(struct verify *v, struct live_dir *d)
{
	struct slice name = { (const uint8_t *)d->next, strlen(d->next) };
	const struct buf *path = path_of(v, d->flow, &name);
	struct err ignored;
	struct attr a;

	if (attr_get(&a, d->fd, d->next, &ignored) != 0 ||
	    match_path(v->exclude, path->data, path->size, 0,
	    S_ISDIR(a.mode)) == MATCH_YES)
		return;
	v->result->extra++;
	buf_reset(&v->diff);
	say(v, "new    ", d->flow, &name);
}

/* Live names before this one (NULL: all) are new. */
static void pass_names(struct verify *v, const struct slice *name)
{
	struct live_dir *d = v->top;

	while (d && next_live(d)) {
		size_t size = strlen(d->next);
		int c = -1;

		if (name) {
			c = memcmp(d->next, name->data,
			    size < name->size ? size : name->size);
			if (c == 0)
				c = (size > name->size) - (size < name->size);
		}
		if (c > 0)
			return;
		if (c < 0)
			extra(v, d);
		d->has_next = false;
	}
}

static int dir_push(struct verify *v, struct flow_dir *flow, int fd,
    struct err *e)
{
	struct live_dir *d = calloc(1, sizeof(*d));
	struct err ignored;

	if (!d) {
		io_close(&fd);
		return err_set(e, ERR_NO_MEMORY, "no memory for a directory");
	}
	d->fd = fd;
	d->flow = flow;
	d->up = v->top;
	v->top = d;
	d->budget = WALK_NAMES_MAX / 8;
	if (fd >= 0 && !v->o->to && walk_names_read(&d->names, fd,
	    &d->budget, fd, &ignored) != 0)
		d->names = NULL;
	return 0;
}

static void dir_pop(struct verify *v)
{
	struct live_dir *d = v->top;

	v->top = d->up;
	walk_names_free(d->names);
	io_close(&d->fd);
	free(d);
}

static bool name_text(const struct slice *name, char out[static 256])
{
	if (!tree_name_ok(name->data, name->size))
		return false;
	memcpy(out, name->data, name->size);
	out[name->size] = '\0';
	return true;
}

/* ---- events ------------------------------------------------------------- */

static void tell(struct verify *v, const struct flow_dir *dir,
    const struct slice *name)
{
	if (v->diff.size == 0) {
		v->result->equal++;
		return;
	}
	v->result->differ++;
	say(v, "changed", dir, name);
}

static void missing(struct verify *v, const struct flow_dir *dir,
    const struct slice *name)
{
	v->result->missing++;
	buf_reset(&v->diff);
	say(v, "missing", dir, name);
}

static int on_enter(struct verify *v, const struct flow_event *ev,
    struct err *e)
{
	const struct tree_entry *n = &ev->dir->entry;
	struct live_dir *up = v->top;
	struct attr a;
	char name[256];
	int fd;

	if (!ev->dir->parent) {
		v->top->flow = ev->dir;
		return 0;
	}
	if (up->fd < 0 || !name_text(&n->name, name))
		return dir_push(v, ev->dir, -1, e);
	pass_names(v, &n->name);
	fd = openat(up->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 || attr_get(&a, fd, "", e) != 0) {
		io_close(&fd);
		missing(v, ev->dir, NULL);
		return dir_push(v, ev->dir, -1, e);
	}
	buf_reset(&v->diff);
	compare_attr(v, &a, n, up->fd, name);
	tell(v, ev->dir, NULL);
	return dir_push(v, ev->dir, fd, e);
}

static void open_live(struct verify *v, int dir, const char *name)
{
	v->file = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK |
	    O_CLOEXEC);
	if (v->file < 0)
		note_diff(v, "it cannot be read");
}

static void on_item(struct verify *v, const struct flow_event *ev)
{
	const struct tree_entry *n = ev->entry;
	int dir = v->top->fd;
	struct attr a;
	struct err e;
	char name[256];

	v->file = -1;
	v->content_differs = false;
	buf_reset(&v->diff);
	if (dir < 0 || !name_text(&n->name, name)) {
		flow_set_need(v->flow, FLOW_NEED_NOTHING);
		return;
	}
	pass_names(v, &n->name);
	progress_file(&v->client->progress, name, n->name.size);
	if (attr_get(&a, dir, name, &e) != 0) {
		missing(v, ev->dir, &n->name);
		flow_set_need(v->flow, FLOW_NEED_NOTHING);
		return;
	}
	if ((a.mode & S_IFMT) != (n->mode & S_IFMT)) {
		note_diff(v, "type");
	} else {
		compare_attr(v, &a, n, dir, name);
		if (S_ISREG(n->mode) && a.size != n->size)
			note_diff(v, "size");
		else if (S_ISREG(n->mode))
			open_live(v, dir, name);
		else if (S_ISLNK(n->mode))
			compare_symlink(v, n, dir, name);
		else if (a.dev_major != n->dev_major ||
		    a.dev_minor != n->dev_minor)
			note_diff(v, "device");
	}
	if (v->file < 0)
		flow_set_need(v->flow, FLOW_NEED_NOTHING);
	if (v->file < 0)
		tell(v, ev->dir, &n->name);
}

static int on_chunk(struct verify *v, const struct flow_event *ev,
    struct err *e)
{
	struct err ignored;
	struct id id;

	atomic_fetch_add(&v->client->progress.bytes, ev->size);
	if (v->file < 0 || v->content_differs)
		return 0;
	if (ev->size > FRAME_PLAIN_MAX || io_pread_all(v->file, v->bytes,
	    (size_t)ev->size, ev->offset, "file", &ignored) != 0) {
		v->content_differs = true;
		return 0;
	}
	if (id_of(&id, OBJECT_CHUNK, v->bytes, (size_t)ev->size, e) != 0)
		return -1;
	v->content_differs = !id_equal(&id, ev->id);
	return 0;
}

/* A hole reads as zeros, whether it is one here or not. */
static void on_hole(struct verify *v, const struct flow_event *ev)
{
	uint64_t at = ev->offset, end = ev->offset + ev->size;
	struct err ignored;

	while (v->file >= 0 && !v->content_differs && at < end) {
		off_t data = lseek(v->file, (off_t)at, SEEK_DATA);
		size_t size;

		if (data < 0 || (uint64_t)data >= end)
			return;
		at = (uint64_t)data;
		size = end - at < FRAME_PLAIN_MAX ? (size_t)(end - at) :
		    FRAME_PLAIN_MAX;
		if (io_pread_all(v->file, v->bytes, size, at, "file",
		    &ignored) != 0 || v->bytes[0] != 0 ||
		    memcmp(v->bytes, v->bytes + 1, size - 1) != 0)
			v->content_differs = true;
		at += size;
	}
}

static void on_end(struct verify *v, const struct flow_event *ev)
{
	if (v->file < 0)
		return;
	if (ev->lost) {
		v->result->lost++;
		note_diff(v, "the snapshot's list of its content is lost");
	}
	if (v->content_differs)
		note_diff(v, "content");
	tell(v, ev->dir, &ev->entry->name);
	io_close(&v->file);
	atomic_fetch_add(&v->client->progress.files, 1);
}

static int take(struct verify *v, const struct flow_event *ev, struct err *e)
{
	switch (ev->kind) {
	case FLOW_ENTER:
		return on_enter(v, ev, e);
	case FLOW_LEAVE:
		pass_names(v, NULL);
		dir_pop(v);
		return 0;
	case FLOW_ITEM:
		on_item(v, ev);
		return 0;
	case FLOW_CHUNK:
		return on_chunk(v, ev, e);
	case FLOW_HOLE:
		on_hole(v, ev);
		return 0;
	case FLOW_END:
		on_end(v, ev);
		return 0;
	default:
		v->result->lost++;
		buf_reset(&v->diff);
		say(v, "lost   ", ev->dir, NULL);
		return 0;
	}
}

static enum flow_pick pick(void *arg, struct flow_dir *dir,
    const struct tree_entry *entry)
{
	struct verify *v = arg;
	const struct buf *path;
	bool is_dir = S_ISDIR(entry->mode);

	if (match_empty(v->exclude) && match_empty(v->include))
		return FLOW_TAKE;
	path = path_of(v, dir, &entry->name);
	if (match_path(v->exclude, path->data, path->size, 0, is_dir) ==
	    MATCH_YES)
		return FLOW_SKIP;
	if (match_empty(v->include))
		return FLOW_TAKE;
	for (size_t at = 1; at <= path->size; at++)
		if ((at == path->size || path->data[at] == '/') &&
		    match_path(v->include, path->data, at, 0,
		    is_dir || at < path->size) == MATCH_YES)
			return FLOW_TAKE;
	return FLOW_SKIP;
}

static enum flow_need need(void *arg, struct flow_dir *dir,
    const struct tree_entry *entry)
{
	(void)arg;
	(void)dir;
	(void)entry;
	return FLOW_NEED_IDS;
}

/* ---- life --------------------------------------------------------------- */

static int add_patterns(struct match *m, const struct opt_list *list,
    struct err *e)
{
	for (size_t i = 0; list && i < list->count; i++)
		if (match_add(m, list->items[i], NULL, e) != 0)
			return -1;
	return 0;
}

static int prepare(struct verify *v, struct fetch *f,
    const struct tree_entry *entry, struct err *e)
{
	const struct flow_ops ops = { .pick = pick, .need = need, .arg = v };
	int fd;

	v->bytes = malloc(FRAME_PLAIN_MAX);
	if (!v->bytes)
		return err_set(e, ERR_NO_MEMORY, "no memory to compare");
	if (match_new(&v->include, e) != 0 || match_new(&v->exclude, e) != 0 ||
	    add_patterns(v->include, v->o->includes, e) != 0 ||
	    add_patterns(v->exclude, v->o->excludes, e) != 0 ||
	    add_patterns(v->exclude, v->o->more_excludes, e) != 0 ||
	    flow_new(&v->flow, f, &ops, e) != 0)
		return -1;
	fd = open(v->o->live, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_os(e, errno, "%.300s", v->o->live);
	if (dir_push(v, NULL, fd, e) != 0)
		return -1;
	if (!S_ISDIR(entry->mode)) {	/* its neighbours are not ours */
		walk_names_free(v->top->names);
		v->top->names = NULL;
	}
	return flow_start(v->flow, entry, e);
}

static int events(struct verify *v, struct err *e)
{
	struct flow_event ev;

	for (;;) {
		if (atomic_load(&v->client->stop))
			return err_set(e, ERR_CANCELLED, "stopped");
		if (flow_next(v->flow, &ev, e) != 0)
			return -1;
		if (ev.kind == FLOW_DONE)
			return 0;
		if (take(v, &ev, e) != 0)
			return -1;
		progress_tick(&v->client->progress);
	}
}

int verify_run(struct client *c, struct fetch *f,
    const struct tree_entry *entry, const char *path,
    const struct verify_options *o, struct verify_result *result,
    struct err *e)
{
	struct verify v = { .client = c, .o = o, .result = result,
		.prefix = path, .file = -1 };
	int rc;

	memset(result, 0, sizeof(*result));
	buf_init(&v.path, SIZE_MAX / 2);
	buf_init(&v.diff, 4096);
	rc = prepare(&v, f, entry, e);
	if (rc == 0)
		rc = events(&v, e);
	io_close(&v.file);
	while (v.top)
		dir_pop(&v);
	flow_free(v.flow);
	match_free(v.include);
	match_free(v.exclude);
	buf_release(&v.path);
	buf_release(&v.diff);
	free(v.bytes);
	return rc;
}
