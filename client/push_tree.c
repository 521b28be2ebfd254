/*
 * client/push_tree.c - items, in the order of the walk, become a tree.
 *
 * A stack of directories, each with the builder of its pages.  A directory's
 * entry is added to its parent when it ends; since the walk is in byte order of
 * names, entries come in the order that pages want.
 */
#include "client/push_int.h"

#include "base/hash.h"
#include "base/le.h"
#include "client/names.h"
#include "client/out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct open_dir {
	struct open_dir *up;
	struct push_item *item;		/* its ENTER */
	struct tree_builder *builder;
	uint64_t files, bytes;
};

struct assembly {
	struct push *push;
	struct names *names;
	struct open_dir *top;		/* the deepest */
	struct id root;
	bool complete;
};

/* Extended attributes in the entry, or as a chunk that it names. */
static int put_xattrs(struct push *p, struct tree_entry *n,
    const struct push_item *it, size_t inline_max, struct err *e)
{
	const struct buf *x = &it->xattrs;

	if (x->size <= inline_max) {
		n->xattrs.data = x->data;
		n->xattrs.size = x->size;
		return 0;
	}
	n->has_xattr_ref = true;
	if (id_of(&n->xattr_ref, OBJECT_CHUNK, x->data, x->size, e) != 0)
		return -1;
	return push_chunk(p, PUSH_MAIN_LANE, &n->xattr_ref, x->data, x->size,
	    e);
}

static void put_name(struct slice *out, const char *name)
{
	if (!name)
		return;
	out->data = (const uint8_t *)name;
	out->size = strlen(name);
}

static void put_attributes(struct assembly *a, struct tree_entry *n,
    const struct push_item *it)
{
	n->name.data = (const uint8_t *)it->name;
	n->name.size = it->name_size;
	n->mode = it->attr.mode & (S_IFMT | 07777);
	n->uid = it->attr.uid;
	n->gid = it->attr.gid;
	n->mtime_s = it->attr.mtime_s;
	n->mtime_ns = it->attr.mtime_ns;
	n->has_birth = it->attr.has_birth;
	n->birth_s = it->attr.birth_s;
	n->birth_ns = it->attr.birth_ns;
	n->flags = it->attr.flags;
	n->project = it->attr.project;
	n->state = it->state;
	put_name(&n->user, names_of(a->names, NAMES_USER, n->uid));
	put_name(&n->group, names_of(a->names, NAMES_GROUP, n->gid));
}

/* Names of one inode have this number in common, and nobody else learns the
 * inode from it. */
static int link_number(struct push *p, const struct attr *a, uint64_t *out,
    struct err *e)
{
	uint8_t where[16], hash[SHA256_SIZE];
	struct bytes pieces[] = {
		{ link_welcome(p->link)->cut_seed, 32 },
		{ where, sizeof(where) },
	};

	le64_put(where, a->dev);
	le64_put(where + 8, a->ino);
	if (sha256(hash, pieces, 2, e) != 0)
		return -1;
	*out = le64_get(hash);
	if (*out == 0)
		*out = 1;
	return 0;
}

/* What the first name has, the others get. */
static void link_keep(struct push_link *l, const struct push_item *it,
    const struct tree_entry *n)
{
	l->done = true;
	l->absent = it->absent;
	l->content = it->content;
	l->id = it->id;
	l->size = it->size;
	l->flags = it->attr.flags;
	l->project = it->attr.project;
	l->state = it->state;
	l->has_xattr_ref = n->has_xattr_ref;
	l->xattr_ref = n->xattr_ref;
	if (n->xattrs.size > 0) {
		l->xattrs = malloc(n->xattrs.size);
		if (l->xattrs) {
			memcpy(l->xattrs, n->xattrs.data, n->xattrs.size);
			l->xattrs_size = n->xattrs.size;
		}
	}
}

static void link_use(const struct push_link *l, struct push_item *it,
    struct tree_entry *n)
{
	it->absent = l->absent;
	it->content = l->content;
	it->id = l->id;
	it->size = l->size;
	n->flags = l->flags;
	n->project = l->project;
	n->state = l->state;
	n->xattrs.data = l->xattrs;
	n->xattrs.size = l->xattrs_size;
	n->has_xattr_ref = l->has_xattr_ref;
	n->xattr_ref = l->xattr_ref;
}

static void remember(struct push *p, const struct push_item *it)
{
	struct cache_record r = {
		.dev = it->attr.dev, .ino = it->attr.ino, .size = it->size,
		.mtime_s = it->attr.mtime_s, .mtime_ns = it->attr.mtime_ns,
		.ctime_s = it->attr.ctime_s, .ctime_ns = it->attr.ctime_ns,
		.read_ns = it->read_ns, .content = it->content,
		.id = it->id, .flags = it->attr.flags,
		.project = it->attr.project, .xattrs = it->xattrs.size > 0,
	};

	if (it->fresh)
		cache_stage(p->cache, &r);
}

static int entry_extra(struct assembly *a, struct tree_entry *n,
    struct push_item *it, struct err *e)
{
	bool many = it->attr.nlink > 1;
	int rc;

	if (many && link_number(a->push, &it->attr, &n->link, e) != 0)
		return -1;
	if (it->link && it->link->done) {
		link_use(it->link, it, n);
	} else {
		rc = put_xattrs(a->push, n, it, many ? PUSH_LINK_XATTRS :
		    TREE_XATTRS_INLINE, e);
		if (rc != 0)
			return -1;
		if (it->link)
			link_keep(it->link, it, n);
	}
	if (S_ISREG(n->mode)) {
		n->content = it->content;
		n->content_id = it->id;
		n->size = it->size;
	} else if (S_ISLNK(n->mode)) {
		n->symlink.data = it->symlink;
		n->symlink.size = it->symlink_size;
	} else if (S_ISCHR(n->mode) || S_ISBLK(n->mode)) {
		n->dev_major = it->attr.dev_major;
		n->dev_minor = it->attr.dev_minor;
	}
	return 0;
}

/* -v */
static void name_it(struct push *p, const struct push_item *it)
{
	progress_clear(&p->client->progress);
	out_name(it->path, it->path_size);
	putchar('\n');
}

static int add_entry(struct assembly *a, struct push_item *it, struct err *e)
{
	struct push *p = a->push;
	struct tree_entry n = { .mode = 0 };

	if (push_item_wait(p, it) != 0)
		return push_check(p, e);
	if (it->absent && !it->link)
		return 0;
	put_attributes(a, &n, it);
	if (entry_extra(a, &n, it, e) != 0)
		return -1;
	if (it->absent)
		return 0;
	remember(p, it);
	if (p->client->verbose && it->path)
		name_it(p, it);
	a->top->files++;
	a->top->bytes += n.size;
	atomic_fetch_add(&p->counts.files, 1);
	atomic_fetch_add(&p->counts.bytes, n.size);
	atomic_fetch_add(&p->client->progress.files, 1);
	return tree_builder_add(a->top->builder, &n, e);
}

static int enter(struct assembly *a, struct push_item *it, struct err *e)
{
	struct open_dir *d = calloc(1, sizeof(*d));

	if (!d)
		return err_set(e, ERR_NO_MEMORY, "no memory for a directory");
	if (tree_builder_new(&d->builder, push_page, a->push, e) != 0) {
		free(d);
		return -1;
	}
	if (it->unreadable)
		it->state |= TREE_STATE_DAMAGED;
	atomic_fetch_add(&it->refs, 1);
	d->item = it;
	d->up = a->top;
	a->top = d;
	atomic_fetch_add(&a->push->counts.dirs, 1);
	return 0;
}

static void dir_free(struct open_dir *d)
{
	tree_builder_free(d->builder);
	push_item_drop(d->item);
	free(d);
}

static int leave(struct assembly *a, struct err *e)
{
	struct open_dir *d = a->top, *up = d->up;
	struct tree_entry n = { .mode = 0 };
	int rc;

	rc = tree_builder_finish(d->builder, &n.tree, e);
	if (rc == 0 && !up) {
		a->root = n.tree;
		a->complete = true;
	} else if (rc == 0) {
		put_attributes(a, &n, d->item);
		n.files_below = d->files;
		n.bytes_below = d->bytes;
		up->files += d->files;
		up->bytes += d->bytes;
		rc = put_xattrs(a->push, &n, d->item, TREE_XATTRS_INLINE, e);
		if (rc == 0)
			rc = tree_builder_add(up->builder, &n, e);
	}
	a->top = up;
	dir_free(d);
	return rc;
}

static int take(struct assembly *a, struct push_item *it, struct err *e)
{
	if (it->kind == ITEM_ENTER)
		return enter(a, it, e);
	if (!a->top)
		return err_set(e, ERR_PROTOCOL, "the walk has no beginning");
	return it->kind == ITEM_LEAVE ? leave(a, e) : add_entry(a, it, e);
}

int push_tree(struct push *p, struct id *root, struct err *e)
{
	struct assembly a = { .push = p };
	struct push_item *it;
	int rc;

	rc = names_new(&a.names, e);
	while (rc == 0 && (it = queue_pop(p->order)) != NULL) {
		rc = take(&a, it, e);
		push_item_drop(it);
		progress_tick(&p->client->progress);
	}
	if (rc == 0)
		rc = push_check(p, e);
	if (rc == 0 && !a.complete)
		rc = err_set(e, ERR_CANCELLED, "the walk did not end");
	while (a.top) {
		struct open_dir *d = a.top;

		a.top = d->up;
		dir_free(d);
	}
	names_free(a.names);
	*root = a.root;
	return rc;
}
