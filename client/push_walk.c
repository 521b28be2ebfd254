/*
 * client/push_walk.c - the walk becomes items, and jobs for the readers.
 *
 * A regular file whose cached record passes the unchanged rule is done here,
 * without being opened.  In a pass that distrusts the cache it becomes a job
 * all the same: a reader asks whether its content is there.
 */
#include "client/push_int.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/le.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct trouble {
	struct push *push;
	const uint8_t *path;
	size_t path_size;
};

static void xattr_trouble(void *arg, const char *name, int os)
{
	struct trouble *t = arg;

	if (os != ENOTSUP && os != EINVAL && os != ENOSYS)
		warn_add(&t->push->client->warn, t->path, t->path_size,
		    "extended attribute %.255s cannot be read: %s", name,
		    strerror(os));
}

static void read_xattrs(struct push *p, struct push_item *n, int fd,
    const struct walk_item *it)
{
	struct trouble t = { p, it->path, it->path_size };
	struct err e;

	if (attr_xattrs(&n->xattrs, fd, it->dir ? it->dir->fd : -1, n->name,
	    xattr_trouble, &t, &e) == 0 || e.code == ERR_NOT_FOUND)
		return;
	buf_reset(&n->xattrs);
	warn_add(&p->client->warn, it->path, it->path_size, "%s", e.text);
}

/* ---- names of one inode ------------------------------------------------- */

static struct push_link **link_slot(struct push *p, uint64_t dev,
    uint64_t ino)
{
	const size_t slots = sizeof(p->links) / sizeof(p->links[0]);
	struct push_link **at = &p->links[(ino ^ dev * 31) % slots];

	while (*at && ((*at)->dev != dev || (*at)->ino != ino))
		at = &(*at)->next;
	return at;
}

/* The record that the names of this inode share, NULL when it is the only one
 * or there are too many.  *first: nobody has met it yet. */
static struct push_link *link_meet(struct push *p, const struct attr *a,
    bool *first)
{
	struct push_link **at = link_slot(p, a->dev, a->ino), *l = *at;

	*first = !l;
	if (!l) {
		if (p->link_count == PUSH_LINKS_MAX)
			return NULL;
		l = calloc(1, sizeof(*l));
		if (!l)
			return NULL;
		l->dev = a->dev;
		l->ino = a->ino;
		l->nlink = a->nlink;
		*at = l;
		p->link_count++;
	}
	l->seen++;
	return l;
}

/* ---- kinds of entries --------------------------------------------------- */

/* True if the cache knows the content. */
static bool from_cache(struct push *p, struct push_item *n,
    const struct walk_item *it)
{
	struct cache_record r;

	if (p->o->force_read ||
	    !cache_find(p->cache, n->attr.dev, n->attr.ino, &r) ||
	    !cache_unchanged(&r, &n->attr))
		return false;
	n->content = r.content;
	n->id = r.id;
	n->size = r.size;
	n->attr.flags = r.flags;
	n->attr.project = r.project;
	if (r.xattrs)
		read_xattrs(p, n, -1, it);
	n->check = p->distrust && r.content != CONTENT_NONE;
	return true;
}

static void regular(struct push *p, struct push_item *n,
    const struct walk_item *it)
{
	bool first;

	if (n->attr.nlink > 1) {
		n->link = link_meet(p, &n->attr, &first);
		if (n->link && !first)
			return;		/* has what the first name has */
	}
	n->done = from_cache(p, n, it) && !n->check;
	if (!n->done)
		n->dir = walk_dir_hold(it->dir);
}

static void symlink_entry(struct push *p, struct push_item *n,
    const struct walk_item *it)
{
	struct err e;

	n->symlink = malloc(TREE_SYMLINK_MAX + 1);
	if (!n->symlink) {
		n->absent = true;
		return;
	}
	if (attr_symlink(n->symlink, &n->symlink_size, it->dir->fd, n->name,
	    &e) != 0) {
		n->absent = true;
		if (e.code == ERR_NOT_FOUND || e.os == EINVAL) {
			atomic_fetch_add(&p->counts.vanished, 1);
			return;
		}
		atomic_fetch_add(&p->counts.unreadable, 1);
		warn_add(&p->client->warn, it->path, it->path_size, "%s",
		    e.text);
		return;
	}
	read_xattrs(p, n, -1, it);
}

static void prepare(struct push *p, struct push_item *n,
    const struct walk_item *it)
{
	if (n->kind == ITEM_ENTER) {
		if (it->dir)
			read_xattrs(p, n, it->dir->fd, it);
	} else if (S_ISREG(n->attr.mode)) {
		regular(p, n, it);
	} else if (S_ISLNK(n->attr.mode)) {
		symlink_entry(p, n, it);
	} else {
		read_xattrs(p, n, -1, it);
	}
}

static int emit(void *arg, const struct walk_item *it, struct err *e)
{
	struct push *p = arg;
	struct push_item *n = push_item_new(it);
	bool job;

	if (!n)
		return err_set(e, ERR_NO_MEMORY, "no memory for a file");
	if (n->kind != ITEM_LEAVE)
		prepare(p, n, it);
	job = !n->done;
	if (job)
		atomic_fetch_add(&n->refs, 1);
	if (queue_push(p->order, n, push_item_weight(n)) != 0) {
		if (job)
			push_item_drop(n);
		push_item_drop(n);
		return err_set(e, ERR_CANCELLED, "the push has ended");
	}
	if (job && queue_push(p->jobs, n, push_item_weight(n)) != 0) {
		push_item_drop(n);
		return err_set(e, ERR_CANCELLED, "the push has ended");
	}
	return 0;
}

void *push_walk_thread(void *arg)
{
	struct push *p = arg;
	struct walk_counts counts;
	struct walk_options o = {
		.roots = p->roots, .exclude = p->exclude,
		.exclude_caches = p->o->exclude_caches,
		.one_file_system = p->o->one_file_system,
		.warn = &p->client->warn,
		.spill_dir = cache_dir_fd(p->cache),
		.stop = &p->client->stop,
	};
	struct err e;

	if (walk_run(&o, emit, p, &counts, &e) != 0)
		push_fail(p, &e);
	atomic_fetch_add(&p->counts.vanished, counts.vanished);
	atomic_fetch_add(&p->counts.unreadable, counts.unreadable);
	atomic_fetch_add(&p->counts.excluded, counts.excluded);
	queue_close(p->order);
	queue_close(p->jobs);
	return NULL;
}
