/*
 * client/walk.c - a stack of open directories.
 *
 *   W1  At most WALK_OPEN_MAX levels hold a descriptor.  The deepest always
 *       does; a level that gave its own up finds it again through ".." of its
 *       child, and believes it only if device and inode are those it knew.
 *   W2  A name is opened only after the patterns had their say, and only with
 *       O_NOFOLLOW, O_NONBLOCK (a FIFO must not hang us) and, where we may,
 *       O_NOATIME.
 *   W3  Whether a directory is on another file system is asked before it is
 *       opened, without asking the file system itself for news
 *       (AT_STATX_DONT_SYNC): a mount whose server hangs must not hang us.
 */
#include "client/walk.h"
#include "client/walk_int.h"

#include "base/buf.h"
#include "base/io.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATH_BYTES_MAX (64u << 20)

static const char cache_tag[] = "Signature: 8a477f597d28d172789f06886806bc55";

struct level {
	struct level *up;
	struct walk_dir *dir;		/* NULL: given up (W1) */
	struct walk_names *names;	/* NULL: only the roots below */
	struct walk_node *node;		/* roots below here, or NULL */
	struct walk_node *next_root;	/* when names is NULL */
	uint64_t dev, ino, mount;
	size_t path_size, root_size;
	bool cache_only;		/* --exclude-caches found a tag */
};

struct walk {
	const struct walk_options *o;
	walk_emit emit;
	void *arg;
	struct walk_counts *counts;
	struct level *top;		/* the deepest */
	unsigned open;			/* levels that hold a descriptor */
	size_t budget;
	struct buf path;
};

/* What is known about a name before it is entered. */
struct visit {
	const char *name;
	size_t name_size;
	unsigned char type;
	struct walk_node *node;
	bool partial;			/* only what leads to a root */
};

struct walk_dir *walk_dir_hold(struct walk_dir *d)
{
	if (d)
		atomic_fetch_add(&d->refs, 1);
	return d;
}

void walk_dir_drop(struct walk_dir *d)
{
	if (d && atomic_fetch_sub(&d->refs, 1) == 1) {
		io_close(&d->fd);
		free(d);
	}
}

static struct walk_dir *dir_of(int fd)
{
	struct walk_dir *d = malloc(sizeof(*d));

	if (!d)
		return NULL;
	atomic_init(&d->refs, 1);
	d->fd = fd;
	return d;
}

static int open_dir(int at, const char *name, bool follow)
{
	int flags = O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC |
	    (follow ? 0 : O_NOFOLLOW);
	int fd = openat(at, name, flags | O_NOATIME);

	if (fd < 0 && errno == EPERM)
		fd = openat(at, name, flags);
	return fd;
}

/* ---- levels ------------------------------------------------------------- */

/* W1: before one more level is opened. */
static void give_up_shallowest(struct walk *w)
{
	struct level *found = NULL;

	if (w->open < WALK_OPEN_MAX)
		return;
	for (struct level *l = w->top; l; l = l->up)
		if (l->dir)
			found = l;
	if (found && found != w->top) {
		walk_dir_drop(found->dir);
		found->dir = NULL;
		w->open--;
	}
}

/* W1: the parent of `child`, found again.  NULL if it is not the same. */
static struct walk_dir *find_again(const struct level *parent,
    const struct walk_dir *child)
{
	struct walk_dir *d = NULL;
	struct err ignored;
	struct attr a;
	int fd = open_dir(child->fd, "..", false);

	if (fd >= 0 && attr_get(&a, fd, "", &ignored) == 0 &&
	    a.dev == parent->dev && a.ino == parent->ino)
		d = dir_of(fd);
	if (!d)
		io_close(&fd);
	return d;
}

static void level_free(struct walk *w, struct level *l)
{
	if (l->dir)
		w->open--;
	walk_dir_drop(l->dir);
	walk_names_free(l->names);
	free(l);
}

/* The deepest level ends. */
static int pop(struct walk *w, struct err *e)
{
	struct level *l = w->top;
	struct walk_item item = { .kind = WALK_LEAVE, .name = "",
		.path = w->path.data, .path_size = l->path_size };
	int rc;

	w->top = l->up;
	rc = w->emit(w->arg, &item, e);
	if (l->up && !l->up->dir) {
		l->up->dir = find_again(l->up, l->dir);
		if (l->up->dir)
			w->open++;
	}
	level_free(w, l);
	if (w->top) {
		w->path.size = w->top->path_size;
		if (!w->top->dir) {
			warn_add(w->o->warn, w->path.data, w->path.size,
			    "was moved while it was read; the rest of it is "
			    "not in the snapshot");
			w->counts->unreadable++;
			walk_names_free(w->top->names);
			w->top->names = NULL;
			w->top->next_root = NULL;
			w->top->dir = dir_of(-1);
			w->open++;
		}
	}
	return rc;
}

static bool has_cache_tag(int dir)
{
	char text[sizeof(cache_tag) - 1];
	struct err ignored;
	int fd = openat(dir, "CACHEDIR.TAG",
	    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool yes;

	if (fd < 0)
		return false;
	yes = io_pread_all(fd, text, sizeof(text), 0, "tag", &ignored) == 0 &&
	    memcmp(text, cache_tag, sizeof(text)) == 0;
	io_close(&fd);
	return yes;
}

static int level_new(struct level **out, struct walk *w, int fd,
    const struct attr *a, const struct visit *v, struct err *e)
{
	struct level *l = calloc(1, sizeof(*l));

	give_up_shallowest(w);
	if (l)
		l->dir = dir_of(fd);
	if (!l || !l->dir) {
		free(l);
		io_close(&fd);
		return err_set(e, ERR_NO_MEMORY, "no memory for a directory");
	}
	w->open++;
	l->up = w->top;
	l->node = v->node;
	l->next_root = v->node ? v->node->child : NULL;
	l->dev = a->dev;
	l->ino = a->ino;
	l->mount = a->mount;
	l->path_size = w->path.size;
	l->root_size = v->node && v->node->root ? w->path.size :
	    w->top ? w->top->root_size : 0;
	if (l->root_size == 1)
		l->root_size = 0;	/* "/" */
	*out = l;
	return 0;
}

/* ---- entries ------------------------------------------------------------ */

static void path_add(struct walk *w, const struct visit *v)
{
	w->path.size = w->top ? w->top->path_size : 0;
	if (w->path.size != 1)
		buf_u8(&w->path, '/');
	buf_add(&w->path, v->name, v->name_size);
}

static void item_init(struct walk_item *it, struct walk *w,
    enum walk_kind kind, const struct visit *v)
{
	memset(it, 0, sizeof(*it));
	it->kind = kind;
	it->name = v->name;
	it->name_size = v->name_size;
	it->path = w->path.data;
	it->path_size = w->path.size;
	it->partial = v->partial;
}

/* It could not be read: gone, or told.  Never an error of the walk. */
static int skip(struct walk *w, const struct err *why)
{
	if (why->code == ERR_NOT_FOUND || why->os == ENOENT ||
	    why->os == ESTALE || why->os == ENOTDIR || why->os == ELOOP) {
		w->counts->vanished++;
		return 0;
	}
	w->counts->unreadable++;
	warn_add(w->o->warn, w->path.data, w->path.size, "%s",
	    why->os ? strerror(why->os) : why->text);
	return 0;
}

static int emit_entry(struct walk *w, const struct visit *v,
    const struct attr *a, struct err *e)
{
	struct walk_item it;

	item_init(&it, w, WALK_ENTRY, v);
	it.dir = w->top->dir;
	it.attr = *a;
	return w->emit(w->arg, &it, e);
}

/* A directory that is there and not entered. */
static int emit_closed(struct walk *w, const struct visit *v,
    const struct attr *a, bool unreadable, struct err *e)
{
	struct walk_item it;

	item_init(&it, w, WALK_ENTER, v);
	it.attr = *a;
	it.unreadable = unreadable;
	if (w->emit(w->arg, &it, e) != 0)
		return -1;
	item_init(&it, w, WALK_LEAVE, v);
	return w->emit(w->arg, &it, e);
}

/* Read the names, tell ENTER, and make it the deepest level. */
static int push_level(struct walk *w, const struct visit *v, int fd,
    struct attr *a, struct err *e)
{
	struct err why = { .code = ERR_NONE };
	struct walk_item it;
	struct level *l = NULL;
	int rc;

	if (level_new(&l, w, fd, a, v, e) != 0)
		return -1;
	item_init(&it, w, WALK_ENTER, v);
	if (!v->partial) {
		l->next_root = NULL;
		if (walk_names_read(&l->names, fd, &w->budget,
		    w->o->spill_dir, &why) != 0) {
			it.unreadable = true;
			skip(w, &why);
		}
		l->cache_only = w->o->exclude_caches && has_cache_tag(fd);
	}
	it.dir = l->dir;
	attr_flags(a, fd);
	it.attr = *a;
	rc = w->emit(w->arg, &it, e);
	if (rc != 0) {
		level_free(w, l);
		return -1;
	}
	w->top = l;
	return 0;
}

/* W3.  1 = it is a mount point that is not to be entered; *a is filled. */
static int stays_out(struct walk *w, const struct visit *v, struct attr *a)
{
	struct statx s;
	struct err ignored;
	const struct level *l = w->top;
	bool other;

	if (!w->o->one_file_system || (v->node && v->node->root))
		return 0;
	if (statx(l->dir->fd, v->name, AT_SYMLINK_NOFOLLOW |
	    AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC, STATX_BASIC_STATS, &s) != 0)
		return 0;
	other = (s.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
	if (!other && (s.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0)
		return 0;
	if (!other) {
		if (attr_get(a, l->dir->fd, v->name, &ignored) != 0)
			return 0;
		return a->dev != l->dev;
	}
	memset(a, 0, sizeof(*a));
	a->mode = s.stx_mode;
	a->uid = s.stx_uid;
	a->gid = s.stx_gid;
	a->mtime_s = s.stx_mtime.tv_sec;
	a->mtime_ns = s.stx_mtime.tv_nsec;
	a->ino = s.stx_ino;
	return 1;
}

static int visit_dir(struct walk *w, const struct visit *v, struct err *e)
{
	int at = w->top ? w->top->dir->fd : AT_FDCWD;
	bool follow = v->partial || (v->node && v->node->follow) || !w->top;
	struct err why;
	struct attr a;
	int fd;

	if (w->top && stays_out(w, v, &a) && !v->partial)
		return emit_closed(w, v, &a, false, e);
	fd = open_dir(at, w->top ? v->name : "/", follow);
	if (fd < 0 && !w->top)
		return err_os(e, errno, "open /");
	if (fd < 0) {
		err_os(&why, errno, "open");
		skip(w, &why);
		if (why.os == ENOENT || why.os == ENOTDIR || why.os == ELOOP ||
		    attr_get(&a, at, v->name, &why) != 0)
			return 0;
		return emit_closed(w, v, &a, true, e);
	}
	if (attr_get(&a, fd, "", &why) != 0) {
		io_close(&fd);
		return skip(w, &why);
	}
	if (w->top && a.dev != w->top->dev && !v->partial &&
	    !(v->node && v->node->root) && attr_pseudo_fs(fd)) {
		io_close(&fd);
		return emit_closed(w, v, &a, false, e);
	}
	return push_level(w, v, fd, &a, e);
}

static int visit_any(struct walk *w, struct visit *v, struct err *e)
{
	struct err why;
	struct attr a;

	if (v->type == DT_DIR || v->partial)
		return visit_dir(w, v, e);
	if (attr_get(&a, w->top->dir->fd, v->name, &why) != 0)
		return skip(w, &why);
	if (S_ISDIR(a.mode))
		return visit_dir(w, v, e);
	if (S_ISLNK(a.mode) && v->node && v->node->follow)
		return visit_dir(w, v, e);
	return emit_entry(w, v, &a, e);
}

/* Is this name wanted?  The type is found out if a pattern needs it. */
static bool is_excluded(struct walk *w, struct visit *v)
{
	struct err ignored;
	struct attr a;

	if (w->top->cache_only && strcmp(v->name, "CACHEDIR.TAG") != 0)
		return true;
	if (!w->o->exclude || match_empty(w->o->exclude))
		return false;
	if (v->type == DT_UNKNOWN && attr_get(&a, w->top->dir->fd, v->name,
	    &ignored) == 0)
		v->type = S_ISDIR(a.mode) ? DT_DIR : DT_REG;
	return match_path(w->o->exclude, w->path.data, w->path.size,
	    w->top->root_size, v->type == DT_DIR) == MATCH_YES;
}

static int visit_name(struct walk *w, struct visit *v, struct err *e)
{
	v->node = walk_node_find(w->top->node, v->name);
	path_add(w, v);
	if (buf_ok(&w->path, "a path", e) != 0)
		return -1;
	if (!v->node || !v->node->root) {
		if (w->top->names && is_excluded(w, v)) {
			w->counts->excluded++;
			if (!v->node)
				return 0;
			v->partial = true;
		}
		if (!w->top->names)
			v->partial = true;
	}
	return visit_any(w, v, e);
}

/* 1 = something was visited, 0 = the level is at its end. */
static int step(struct walk *w, struct err *e)
{
	struct level *l = w->top;
	struct visit v = { .type = DT_UNKNOWN };
	struct err why;
	int rc;

	if (l->names) {
		rc = walk_names_next(l->names, &v.name, &v.name_size, &v.type,
		    &why);
		if (rc < 0)
			skip(w, &why);
		if (rc <= 0)
			return 0;
	} else {
		if (!l->next_root)
			return 0;
		v.name = l->next_root->name;
		v.name_size = strlen(v.name);
		l->next_root = l->next_root->next;
	}
	return visit_name(w, &v, e) != 0 ? -1 : 1;
}

int walk_run(const struct walk_options *o, walk_emit emit, void *arg,
    struct walk_counts *counts, struct err *e)
{
	struct walk w = { .o = o, .emit = emit, .arg = arg,
		.counts = counts, .budget = WALK_NAMES_MAX };
	struct walk_node *node = walk_roots_top(o->roots);
	struct visit top = { .name = "", .type = DT_DIR, .node = node,
		.partial = !node->root };
	int rc;

	memset(counts, 0, sizeof(*counts));
	buf_init(&w.path, PATH_BYTES_MAX);
	buf_u8(&w.path, '/');
	rc = buf_ok(&w.path, "a path", e);
	if (rc == 0)
		rc = visit_dir(&w, &top, e);
	while (rc == 0 && w.top) {
		if (o->stop && atomic_load(o->stop)) {
			rc = err_set(e, ERR_CANCELLED, "stopped");
			break;
		}
		rc = step(&w, e);
		rc = rc > 0 ? 0 : rc < 0 ? -1 : pop(&w, e);
	}
	while (w.top) {
		struct level *l = w.top;

		w.top = l->up;
		level_free(&w, l);
	}
	buf_release(&w.path);
	return rc;
}
