/*
 * store/verify_hits.c - which snapshots and paths are hit by what is lost.
 *
 * Complete bits are right by now (closure.c), so a walk from each root goes
 * only where something is missing below: its cost follows the damage.
 *
 * Memory: the pages still to be visited, with their paths, along one way
 * down and its neighbours, at most STACK_MAX bytes.
 *
 * A client chooses its trees: two entries that name one directory, and so on a
 * hundred levels down, have more paths than can be told.  So beyond PAGES_MAX
 * pages of a snapshot, a path of PATH_SIZE_MAX or a full stack, a directory is
 * told as hit as a whole, and nothing of it by itself.
 */
#include "store/verify_impl.h"

#include "base/buf.h"
#include "proto/fmt_tree.h"
#include "store/impl.h"
#include "store/looks.h"
#include "store/object.h"
#include "store/snapshot.h"

#include <stdlib.h>
#include <string.h>

#define PAGES_MAX 65536u
#define PATH_SIZE_MAX 65536u
#define STACK_MAX ((size_t)16 << 20)

struct visit {			/* a tree page that is not whole */
	struct visit *next;
	struct id page;
	size_t path_size;
	uint8_t path[];		/* of its directory, without the last '/' */
};

struct walk {
	struct verify *v;
	const struct snapshot_item *snapshot;
	struct visit *stack;
	size_t stack_bytes;
	uint64_t pages;
	bool hit;
	struct buf path;
};

enum state { STATE_WHOLE, STATE_BROKEN, STATE_GONE };

static int state_of(struct walk *w, const struct id *id, enum state *out,
    struct err *e)
{
	struct entry *en;
	struct key k;

	key_of(&k, KEYSPACE_PLAIN, id);
	if (look_up(w->v->store, &k, &en, e) != 0)
		return -1;
	*out = !en ? STATE_GONE : entry_whole(en) ? STATE_WHOLE :
	    STATE_BROKEN;
	free(en);
	return 0;
}

static void hit(struct walk *w, const void *path, size_t size)
{
	const struct verify_ops *ops = w->v->ops;

	w->hit = true;
	if (ops && ops->hit)
		ops->hit(ops->arg, w->snapshot->client,
		    &w->snapshot->record, path, size);
}

/* All of a directory. */
static void hit_dir(struct walk *w, const void *path, size_t size)
{
	if (size > 0)
		hit(w, path, size);
	else
		hit(w, "/", 1);
}

/* Path of an entry below the directory of `at`. */
static int path_of(struct walk *w, const struct visit *at,
    const struct slice *name, struct err *e)
{
	buf_reset(&w->path);
	buf_add(&w->path, at->path, at->path_size);
	buf_u8(&w->path, '/');
	buf_add(&w->path, name->data, name->size);
	return buf_ok(&w->path, "a path", e);
}

static int push(struct walk *w, const struct id *page, const void *path,
    size_t size, struct err *e)
{
	struct visit *n;

	if (size > PATH_SIZE_MAX ||
	    w->stack_bytes + sizeof(*n) + size > STACK_MAX) {
		hit_dir(w, path, size);
		return 0;
	}
	n = malloc(sizeof(*n) + size);
	if (!n)
		return err_set(e, ERR_NO_MEMORY, "no memory for a path");
	w->stack_bytes += sizeof(*n) + size;
	n->page = *page;
	n->path_size = size;
	if (size > 0)
		memcpy(n->path, path, size);
	n->next = w->stack;
	w->stack = n;
	return 0;
}

/* What an entry names besides a directory. */
static int file_check(struct walk *w, const struct visit *at,
    const struct tree_entry *n, struct err *e)
{
	enum state content = STATE_WHOLE, xattrs = STATE_WHOLE;

	if (n->content != CONTENT_NONE &&
	    state_of(w, &n->content_id, &content, e) != 0)
		return -1;
	if (n->has_xattr_ref && state_of(w, &n->xattr_ref, &xattrs, e) != 0)
		return -1;
	if (content == STATE_WHOLE && xattrs == STATE_WHOLE)
		return 0;
	if (path_of(w, at, &n->name, e) != 0)
		return -1;
	hit(w, w->path.data, w->path.size);
	return 0;
}

static int dir_check(struct walk *w, const struct visit *at,
    const struct tree_entry *n, struct err *e)
{
	enum state below;

	if (state_of(w, &n->tree, &below, e) != 0)
		return -1;
	if (below == STATE_WHOLE)
		return 0;
	if (path_of(w, at, &n->name, e) != 0)
		return -1;
	return push(w, &n->tree, w->path.data, w->path.size, e);
}

static int leaf_walk(struct walk *w, const struct visit *at,
    const struct tree_page *p, struct err *e)
{
	struct tree_entry n;
	size_t pos = 0;

	while (tree_page_entry(p, &pos, &n)) {
		if (file_check(w, at, &n, e) != 0)
			return -1;
		if (!id_is_zero(&n.tree) && dir_check(w, at, &n, e) != 0)
			return -1;
	}
	return 0;
}

static int index_walk(struct walk *w, const struct visit *at,
    const struct tree_page *p, struct err *e)
{
	struct tree_child c;
	enum state below;
	size_t pos = 0;

	while (tree_page_child(p, &pos, &c)) {
		if (state_of(w, &c.id, &below, e) != 0)
			return -1;
		if (below != STATE_WHOLE &&
		    push(w, &c.id, at->path, at->path_size, e) != 0)
			return -1;
	}
	return 0;
}

/* A page that cannot be had: its directory is hit as a whole. */
static int page_walk(struct walk *w, const struct visit *at, struct err *e)
{
	struct tree_page p;
	struct err why;
	uint8_t *plain;
	size_t size;
	int rc;

	if (object_load(w->v->store, &at->page, OBJECT_TREE, &plain, &size,
	    &why) != 0) {
		if (why.code == ERR_NO_MEMORY) {
			*e = why;
			return -1;
		}
		hit_dir(w, at->path, at->path_size);
		return 0;
	}
	rc = tree_page_parse(&p, plain, size, e);
	if (rc == 0)
		rc = p.level == 0 ? leaf_walk(w, at, &p, e) :
		    index_walk(w, at, &p, e);
	free(plain);
	return rc;
}

static int visit_next(struct walk *w, struct err *e)
{
	const struct job_ctl *ctl = w->v->ctl;
	struct visit *at = w->stack;
	int rc = 0;

	w->stack = at->next;
	w->stack_bytes -= sizeof(*at) + at->path_size;
	if (ctl && atomic_load(&ctl->cancel))
		rc = err_set(e, ERR_CANCELLED, "cancelled");
	else if (w->pages++ < PAGES_MAX)
		rc = page_walk(w, at, e);
	else
		hit_dir(w, at->path, at->path_size);
	free(at);
	return rc;
}

static int snapshot_walk(struct verify *v, const struct snapshot_item *it,
    struct err *e)
{
	struct walk w = { .v = v, .snapshot = it };
	enum state root, facts;
	int rc = -1;

	buf_init(&w.path, 1u << 20);
	if (state_of(&w, &it->record.root, &root, e) == 0 &&
	    state_of(&w, &it->record.facts, &facts, e) == 0)
		rc = 0;
	if (rc == 0 && facts != STATE_WHOLE)
		hit(&w, "", 0);
	if (rc == 0 && root != STATE_WHOLE)
		rc = push(&w, &it->record.root, NULL, 0, e);
	while (w.stack && rc == 0)
		rc = visit_next(&w, e);
	while (w.stack) {
		struct visit *at = w.stack;

		w.stack = at->next;
		free(at);
	}
	v->report->snapshots_hit += w.hit;
	buf_release(&w.path);
	return rc;
}

int verify_hits(struct verify *v, struct err *e)
{
	struct snapshot_item *items;
	size_t count;
	int rc = 0;

	if (snapshots_list(v->store, NULL, &items, &count, e) != 0)
		return -1;
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = snapshot_walk(v, &items[i], e);
	free(items);
	return rc;
}
