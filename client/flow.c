/*
 * client/flow.c - a list of nodes that is expanded where it will be read.
 *
 * The rest of the tree is a list of nodes in the order of events.  A node is
 * an event to come, or a page that stands for all the nodes it will become:
 *
 *      [ITEM a] [CHUNK] [END] [PAGE of d, from entry 17] [LEAVE d] [PAGE of /]
 *
 * pump() goes along the list from its head, requests what is not requested,
 * and expands pages that have arrived, entry by entry, until there are
 * NODES_MAX nodes or BYTES_MAX bytes are held or on the way.  So the requests
 * in flight are always the ones needed next, and a round trip is waited for
 * only at the very beginning of each level.
 *
 *   F1  The first node is served whatever the bounds say: no deadlock.
 *   F2  Chunks that lie behind a page which has not arrived may use half of
 *       BYTES_MAX: the other half is for what the page becomes.
 *   F3  When the bytes are used up, pages further back are given up and
 *       requested again when their turn comes: a directory a thousand levels
 *       deep does not hold a thousand pages.
 */
#include "client/flow.h"

#include "base/buf.h"
#include "proto/fmt_list.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define NODES_MAX 8192
#define BYTES_MAX (16u << 20)
#define PAGE_GUESS (32u << 10)
/* How long the list may be worked off before pump() looks again. */
#define PUMP_EVENTS 256
#define PUMP_BYTES (512u << 10)
#define LEVEL_ANY (-1)

struct flow_file {
	unsigned refs;
	struct tree_entry entry;
	struct fetch_object *page;	/* holds the entry's bytes */
	struct flow_dir *dir;
	enum flow_need need;
	uint64_t listed;	/* bytes that the list has named so far */
	uint64_t given;		/* bytes that events have covered */
	bool lost;
};

enum node_kind { NODE_PAGE, NODE_LIST, NODE_CHUNK, NODE_HOLE, NODE_ENTER,
	NODE_LEAVE, NODE_ITEM, NODE_END };

struct node {
	struct node *next;
	enum node_kind kind;
	int level;			/* PAGE, LIST: what it must have */
	struct flow_dir *dir;		/* PAGE, ENTER, LEAVE */
	struct flow_file *file;		/* the others */
	struct fetch_object *object;	/* PAGE, LIST, CHUNK: once wanted */
	struct id id;			/* of it */
	uint64_t size;			/* CHUNK, HOLE */
	size_t pos;			/* PAGE, LIST: expanded up to here */
	bool parsed;			/* object was, into one of these */
	union {
		struct tree_page tree;
		struct list_page list;
	} page;
};

struct flow {
	struct fetch *fetch;
	struct flow_ops ops;
	struct node *head;
	struct node *current;		/* of the last event */
	size_t nodes;
	unsigned events;		/* since the last pump() */
	uint64_t bytes;
};

/* ---- dirs, files, nodes ------------------------------------------------- */

static const uint8_t *slice_move(uint8_t **at, struct slice *s)
{
	if (s->size > 0)
		memcpy(*at, s->data, s->size);
	s->data = *at;
	*at += s->size;
	return s->data;
}

static struct flow_dir *dir_new(struct flow_dir *parent,
    const struct tree_entry *entry)
{
	struct flow_dir *d = calloc(1, sizeof(*d));
	uint8_t *at;

	if (!d)
		return NULL;
	d->entry = *entry;
	d->bytes = malloc(1 + entry->name.size + entry->xattrs.size +
	    entry->user.size + entry->group.size + entry->symlink.size);
	if (!d->bytes) {
		free(d);
		return NULL;
	}
	at = d->bytes;
	slice_move(&at, &d->entry.name);
	slice_move(&at, &d->entry.xattrs);
	slice_move(&at, &d->entry.user);
	slice_move(&at, &d->entry.group);
	slice_move(&at, &d->entry.symlink);
	d->refs = 1;
	d->parent = parent;
	if (parent) {
		d->depth = parent->depth + 1;
		parent->refs++;
	}
	return d;
}

static void dir_drop(struct flow_dir *d)
{
	while (d && --d->refs == 0) {
		struct flow_dir *parent = d->parent;

		free(d->bytes);
		free(d);
		d = parent;
	}
}

static void file_drop(struct flow *f, struct flow_file *file)
{
	if (!file || --file->refs > 0)
		return;
	fetch_drop(f->fetch, file->page);
	dir_drop(file->dir);
	free(file);
}

static void node_free(struct flow *f, struct node *n)
{
	if (!n)
		return;
	fetch_drop(f->fetch, n->object);
	file_drop(f, n->file);
	dir_drop(n->dir);
	free(n);
}

static void chain_free(struct flow *f, struct node *n)
{
	while (n) {
		struct node *next = n->next;

		node_free(f, n);
		n = next;
	}
}

/* A node at the end of a chain whose last pointer is *end. */
static struct node *chain_add(struct node ***end, enum node_kind kind,
    struct flow_dir *dir, struct flow_file *file)
{
	struct node *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	n->kind = kind;
	n->level = LEVEL_ANY;
	n->dir = dir;
	n->file = file;
	if (dir)
		dir->refs++;
	if (file)
		file->refs++;
	**end = n;
	*end = &n->next;
	return n;
}

/* ---- an entry becomes nodes --------------------------------------------- */

static bool chain_content(struct node ***end, struct flow_file *file)
{
	struct node *n;

	if (file->entry.content == CONTENT_NONE ||
	    file->need == FLOW_NEED_NOTHING)
		return true;
	n = chain_add(end, file->entry.content == CONTENT_LIST ? NODE_LIST :
	    NODE_CHUNK, NULL, file);
	if (!n)
		return false;
	n->id = file->entry.content_id;
	n->size = file->entry.size;
	if (n->kind == NODE_CHUNK)
		file->listed = n->size;
	return true;
}

static bool chain_file(struct flow *f, struct node ***end,
    struct flow_dir *dir, const struct tree_entry *entry,
    struct fetch_object *page)
{
	struct flow_file *file = calloc(1, sizeof(*file));
	bool ok;

	if (!file)
		return false;
	file->refs = 1;
	file->entry = *entry;
	file->dir = dir;
	dir->refs++;
	file->page = page;
	if (page)
		fetch_hold(f->fetch, page);
	file->need = FLOW_NEED_NOTHING;
	if (S_ISREG(entry->mode))
		file->need = f->ops.need ?
		    f->ops.need(f->ops.arg, dir, entry) : FLOW_NEED_DATA;
	ok = chain_add(end, NODE_ITEM, NULL, file) &&
	    (!S_ISREG(entry->mode) || (chain_content(end, file) &&
	    chain_add(end, NODE_END, NULL, file)));
	file_drop(f, file);
	return ok;
}

static bool chain_dir(struct node ***end, struct flow_dir *parent,
    const struct tree_entry *entry)
{
	struct flow_dir *d = dir_new(parent, entry);
	struct node *page = NULL;
	bool ok = false;

	if (!d)
		return false;
	if (chain_add(end, NODE_ENTER, d, NULL))
		page = chain_add(end, NODE_PAGE, d, NULL);
	if (page) {
		page->id = entry->tree;
		ok = chain_add(end, NODE_LEAVE, d, NULL) != NULL;
	}
	dir_drop(d);
	return ok;
}

/* Put a chain before *at; *at is its first node afterwards. */
static int insert(struct flow *f, struct node **at, struct node *chain,
    struct node **end, bool ok, struct err *e)
{
	if (!ok) {
		*end = NULL;
		chain_free(f, chain);
		return err_set(e, ERR_NO_MEMORY, "no memory to read ahead");
	}
	for (struct node *n = chain; n; n = n->next)
		f->nodes++;
	*end = *at;
	*at = chain;
	return 0;
}

static void remove_at(struct flow *f, struct node **at)
{
	struct node *n = *at;

	*at = n->next;
	f->nodes--;
	node_free(f, n);
}

/* 1 = nodes were put before the page, 0 = its end: it is gone, -1. */
static int expand_tree(struct flow *f, struct node **at, struct err *e)
{
	struct node *n = *at, *chain = NULL, **end = &chain, *child;
	struct flow_dir *dir = n->dir;
	const struct tree_page *page = &n->page.tree;
	struct tree_entry entry;
	struct tree_child sub;
	bool ok = true;

	if (page->level > 0 && tree_page_child(page, &n->pos, &sub)) {
		child = chain_add(&end, NODE_PAGE, dir, NULL);
		ok = child != NULL;
		if (ok) {
			child->id = sub.id;
			child->level = (int)page->level - 1;
		}
		return insert(f, at, chain, end, ok, e) != 0 ? -1 : 1;
	}
	while (page->level == 0 && tree_page_entry(page, &n->pos, &entry)) {
		if (f->ops.pick && f->ops.pick(f->ops.arg, dir, &entry) ==
		    FLOW_SKIP)
			continue;
		ok = S_ISDIR(entry.mode) ? chain_dir(&end, dir, &entry) :
		    chain_file(f, &end, dir, &entry, n->object);
		return insert(f, at, chain, end, ok, e) != 0 ? -1 : 1;
	}
	remove_at(f, at);
	return 0;
}

static int expand_list(struct flow *f, struct node **at, struct err *e)
{
	struct node *n = *at, *chain = NULL, **end = &chain, *child;
	const struct list_page *page = &n->page.list;
	struct list_entry entry;
	struct list_child sub;

	if (page->level > 0 && list_page_child(page, &n->pos, &sub)) {
		child = chain_add(&end, NODE_LIST, NULL, n->file);
		if (child) {
			child->id = sub.id;
			child->level = (int)page->level - 1;
		}
		return insert(f, at, chain, end, child != NULL, e) != 0 ?
		    -1 : 1;
	}
	if (page->level == 0 && list_page_entry(page, &n->pos, &entry)) {
		child = chain_add(&end, entry.kind == LIST_CHUNK ?
		    NODE_CHUNK : NODE_HOLE, NULL, n->file);
		if (child) {
			child->id = entry.id;
			child->size = entry.size;
			n->file->listed += entry.size;
		}
		return insert(f, at, chain, end, child != NULL, e) != 0 ?
		    -1 : 1;
	}
	remove_at(f, at);
	return 0;
}

/* Is the page here, whole, and of the level that its parent said? */
static bool page_sound(struct node *n)
{
	struct err damage;
	unsigned level;

	if (n->parsed)
		return true;
	if (n->object->state != FETCH_HERE)
		return false;
	if (n->kind == NODE_PAGE) {
		if (tree_page_parse(&n->page.tree, n->object->data,
		    n->object->size, &damage) != 0)
			return false;
		level = n->page.tree.level;
	} else {
		if (list_page_parse(&n->page.list, n->object->data,
		    n->object->size, &damage) != 0)
			return false;
		level = n->page.list.level;
	}
	n->parsed = n->level == LEVEL_ANY || (unsigned)n->level == level;
	return n->parsed;
}

/* ---- reading ahead ------------------------------------------------------ */

struct pump {
	struct node **at;
	unsigned pending;	/* pages passed that are not here */
	bool full;		/* no more bytes */
};

static int want_node(struct flow *f, struct node *n, struct err *e)
{
	bool chunk = n->kind == NODE_CHUNK;
	uint32_t guess = PAGE_GUESS;

	if (chunk)
		guess = n->size < (1u << 20) ? (uint32_t)n->size : 1u << 20;
	return fetch_want(&n->object, f->fetch, &n->id, chunk ? OBJECT_CHUNK :
	    n->kind == NODE_LIST ? OBJECT_LIST : OBJECT_TREE, guess, e);
}

static bool may_ask(struct flow *f, const struct pump *p,
    const struct node *n)
{
	size_t bound = BYTES_MAX;

	if (n == f->head)
		return true;		/* F1 */
	if (n->kind == NODE_CHUNK && p->pending > 0)
		bound /= 2;		/* F2 */
	return fetch_bytes(f->fetch) < bound;
}

/* A page: ask for it, or expand it.  1 = look at *p->at again, 0 = go on. */
static int pump_page(struct flow *f, struct pump *p, struct err *e)
{
	struct node *n = *p->at;
	int rc;

	if (n->kind == NODE_LIST && n->file->need == FLOW_NEED_NOTHING)
		return 0;
	if (!n->object) {
		if (p->full || !may_ask(f, p, n)) {
			p->full = true;
			return 0;
		}
		if (want_node(f, n, e) != 0)
			return -1;
	}
	fetch_look(f->fetch, n->object);
	if (n->object->state == FETCH_WANTED) {
		p->pending++;
		return 0;
	}
	if (!page_sound(n))
		return 0;		/* flow_next() tells */
	if (p->full && n != f->head) {	/* F3 */
		fetch_drop(f->fetch, n->object);
		n->object = NULL;
		n->parsed = false;
		return 0;
	}
	if (f->nodes >= NODES_MAX && n != f->head)
		return 0;
	rc = n->kind == NODE_PAGE ? expand_tree(f, p->at, e) :
	    expand_list(f, p->at, e);
	return rc < 0 ? -1 : 1;
}

static int pump(struct flow *f, struct err *e)
{
	struct pump p = { .at = &f->head };
	struct node *n;
	int rc;

	while ((n = *p.at) != NULL) {
		rc = 0;
		if (n->kind == NODE_PAGE || n->kind == NODE_LIST) {
			rc = pump_page(f, &p, e);
		} else if (n->kind == NODE_CHUNK && !n->object && !p.full &&
		    n->file->need == FLOW_NEED_DATA) {
			if (may_ask(f, &p, n))
				rc = want_node(f, n, e);
			else if (p.pending == 0)
				p.full = true;
		}
		if (rc < 0)
			return -1;
		if (rc == 0)
			p.at = &n->next;
	}
	f->events = 0;
	f->bytes = 0;
	return fetch_send(f->fetch, e);
}

/* ---- events ------------------------------------------------------------- */

int flow_new(struct flow **out, struct fetch *fetch,
    const struct flow_ops *ops, struct err *e)
{
	struct flow *f = calloc(1, sizeof(*f));

	if (!f)
		return err_set(e, ERR_NO_MEMORY, "no memory to read a tree");
	f->fetch = fetch;
	if (ops)
		f->ops = *ops;
	*out = f;
	return 0;
}

void flow_free(struct flow *f)
{
	if (!f)
		return;
	node_free(f, f->current);
	chain_free(f, f->head);
	free(f);
}

int flow_start(struct flow *f, const struct tree_entry *entry,
    struct err *e)
{
	struct node *chain = NULL, **end = &chain;
	struct flow_dir *top;
	struct tree_entry none = { .mode = S_IFDIR };
	bool ok;

	assert(!f->head);
	if (S_ISDIR(entry->mode)) {
		ok = chain_dir(&end, NULL, entry);
		return insert(f, &f->head, chain, end, ok, e);
	}
	/* A directory of its own keeps the bytes of the entry alive. */
	none.name = entry->name;
	none.symlink = entry->symlink;
	none.xattrs = entry->xattrs;
	none.user = entry->user;
	none.group = entry->group;
	top = dir_new(NULL, &none);
	if (!top)
		return err_set(e, ERR_NO_MEMORY, "no memory to read a tree");
	none = *entry;
	none.name = top->entry.name;
	none.symlink = top->entry.symlink;
	none.xattrs = top->entry.xattrs;
	none.user = top->entry.user;
	none.group = top->entry.group;
	ok = chain_file(f, &end, top, &none, NULL);
	dir_drop(top);
	return insert(f, &f->head, chain, end, ok, e);
}

static void event_of(struct flow_event *ev, struct node *n)
{
	memset(ev, 0, sizeof(*ev));
	ev->dir = n->dir;
	if (n->file) {
		ev->dir = n->file->dir;
		ev->entry = &n->file->entry;
		ev->offset = n->file->given;
		ev->size = n->size;
	}
}

static void chunk_event(struct flow_event *ev, struct node *n)
{
	struct flow_file *file = n->file;

	ev->kind = FLOW_CHUNK;
	ev->id = &n->id;
	if (file->need == FLOW_NEED_DATA) {
		ev->lost = n->object->state != FETCH_HERE ||
		    n->object->size != n->size;
		if (!ev->lost)
			ev->data = n->object->data;
		file->lost |= ev->lost;
	}
	file->given += n->size;
}

static void fill_event(struct flow *f, struct flow_event *ev, struct node *n)
{
	event_of(ev, n);
	switch (n->kind) {
	case NODE_ENTER:
		ev->kind = FLOW_ENTER;
		break;
	case NODE_LEAVE:
		ev->kind = FLOW_LEAVE;
		break;
	case NODE_ITEM:
		ev->kind = FLOW_ITEM;
		break;
	case NODE_CHUNK:
		chunk_event(ev, n);
		f->bytes += n->size;
		break;
	case NODE_HOLE:
		ev->kind = FLOW_HOLE;
		n->file->given += n->size;
		break;
	case NODE_END:
		ev->kind = FLOW_END;
		ev->lost = n->file->lost;
		if (n->file->need != FLOW_NEED_NOTHING)
			ev->lost |= n->file->given != n->file->entry.size;
		break;
	default:		/* a page that cannot be had */
		ev->kind = FLOW_LOST;
		break;
	}
}

/* Make the first node one that can be told.  1 = yes, 0 = look again. */
static int settle_head(struct flow *f, struct err *e)
{
	struct node *n = f->head;
	bool page = n->kind == NODE_PAGE || n->kind == NODE_LIST;

	if (!page && (n->kind != NODE_CHUNK ||
	    n->file->need != FLOW_NEED_DATA))
		return 1;
	if (n->kind == NODE_LIST && n->file->need == FLOW_NEED_NOTHING) {
		remove_at(f, &f->head);
		return 0;
	}
	/* What pump() leaves at the head may be a new node at the address of
	 * the old one: nothing is concluded from pointers, the head is looked
	 * at again. */
	if (!n->object)
		return pump(f, e);
	if (fetch_wait(f->fetch, n->object, e) != 0)
		return -1;
	if (!page)
		return 1;
	if (page_sound(n))
		return pump(f, e);
	if (n->kind == NODE_PAGE)
		return 1;		/* FLOW_LOST */
	n->file->lost = true;
	remove_at(f, &f->head);
	return 0;
}

int flow_next(struct flow *f, struct flow_event *ev, struct err *e)
{
	int rc = 0;

	node_free(f, f->current);
	f->current = NULL;
	if (++f->events >= PUMP_EVENTS || f->bytes >= PUMP_BYTES)
		rc = pump(f, e);
	while (rc == 0 && f->head)
		rc = settle_head(f, e);
	if (rc < 0)
		return -1;
	if (!f->head) {
		memset(ev, 0, sizeof(*ev));
		ev->kind = FLOW_DONE;
		return 0;
	}
	f->current = f->head;
	f->head = f->head->next;
	f->current->next = NULL;
	f->nodes--;
	fill_event(f, ev, f->current);
	return 0;
}

void flow_set_need(struct flow *f, enum flow_need need)
{
	if (f->current && f->current->file)
		f->current->file->need = need;
}

void flow_path(struct buf *out, const struct flow_dir *dir,
    const struct slice *name)
{
	size_t size = name ? 1 + name->size : 0, at;
	const struct flow_dir *d;
	uint8_t *room;

	for (d = dir; d && d->parent; d = d->parent)
		size += 1 + d->entry.name.size;
	room = size > 0 ? buf_room(out, size) : NULL;
	if (!room)
		return;
	at = size;
	if (name) {
		at -= 1 + name->size;
		room[at] = '/';
		memcpy(room + at + 1, name->data, name->size);
	}
	for (d = dir; d && d->parent; d = d->parent) {
		at -= 1 + d->entry.name.size;
		room[at] = '/';
		memcpy(room + at + 1, d->entry.name.data, d->entry.name.size);
	}
}
