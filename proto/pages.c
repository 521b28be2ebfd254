/*
 * proto/pages.c - see proto/pages.h for the rules P1 .. P4.
 */
#include "proto/pages.h"

#include "base/buf.h"
#include "base/le.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct level {
	struct buf page;	/* header, then items */
	struct buf refs;
	unsigned count;		/* items in the page */
	uint64_t weight;
	size_t first_size;
	uint8_t first[PAGES_FIRST_MAX];
	bool emitted;		/* a page of this level was written */
	/* Index pages only. */
	bool full;		/* waits for two more children (P4) */
	bool has_held;
	struct pages_child held;	/* the first of these two */
	struct pages_child last;	/* last child in the page */
	size_t last_at;			/* where it begins */
};

struct pages {
	const struct pages_kind *kind;
	page_emit emit;
	void *arg;
	struct level *levels[PAGES_LEVEL_MAX + 1];
};

static int child_add(struct pages *p, unsigned l, const struct pages_child *c,
    struct err *e);

int pages_new(struct pages **out, const struct pages_kind *kind,
    page_emit emit, void *arg, struct err *e)
{
	struct pages *p = calloc(1, sizeof(*p));

	if (!p)
		return err_set(e, ERR_NO_MEMORY, "pages: out of memory");
	p->kind = kind;
	p->emit = emit;
	p->arg = arg;
	*out = p;
	return 0;
}

void pages_free(struct pages *p)
{
	if (!p)
		return;
	for (unsigned l = 0; l <= PAGES_LEVEL_MAX; l++) {
		if (!p->levels[l])
			continue;
		buf_release(&p->levels[l]->page);
		buf_release(&p->levels[l]->refs);
		free(p->levels[l]);
	}
	free(p);
}

/* Empty the page; what is known of the level stays. */
static void page_begin(struct level *lv)
{
	static const uint8_t header[PAGES_HEADER_SIZE];

	buf_reset(&lv->page);
	buf_add(&lv->page, header, sizeof(header));
	buf_reset(&lv->refs);
	lv->count = 0;
	lv->weight = 0;
	lv->first_size = 0;
	lv->full = false;
}

static int level_get(struct pages *p, unsigned l, struct level **out,
    struct err *e)
{
	struct level *lv;

	if (l > PAGES_LEVEL_MAX)
		return err_set(e, ERR_LIMIT, "more than %d levels of pages",
		    PAGES_LEVEL_MAX);
	if (!p->levels[l]) {
		lv = calloc(1, sizeof(*lv));
		if (!lv)
			return err_set(e, ERR_NO_MEMORY,
			    "pages: out of memory");
		buf_init(&lv->page, p->kind->page_max);
		buf_init(&lv->refs, p->kind->page_max);
		page_begin(lv);
		p->levels[l] = lv;
	}
	*out = p->levels[l];
	return 0;
}

/* Put the item into the page, which has room for it. */
static void item_append(struct level *lv, const struct pages_item *item)
{
	if (lv->count == 0 && item->first_size > 0) {
		memcpy(lv->first, item->first, item->first_size);
		lv->first_size = item->first_size;
	}
	buf_add(&lv->page, item->data, item->size);
	for (size_t i = 0; i < item->ref_count; i++)
		buf_add(&lv->refs, item->refs[i].bytes, ID_SIZE);
	lv->count++;
	lv->weight += item->weight;
}

static bool item_fits(const struct pages *p, const struct level *lv,
    size_t size)
{
	return lv->page.size + size <= p->kind->page_max &&
	    lv->count < UINT16_MAX;
}

static bool item_fills(const struct pages *p, const struct level *lv,
    unsigned l, const struct pages_item *item)
{
	return lv->page.size >= p->kind->page_min && p->kind->cut(l, item);
}

static int page_emit_now(struct pages *p, unsigned l, struct pages_child *out,
    struct err *e)
{
	struct level *lv = p->levels[l];
	uint8_t *h = lv->page.data;

	if (buf_ok(&lv->page, "page", e) != 0 ||
	    buf_ok(&lv->refs, "refs of a page", e) != 0)
		return -1;
	h[0] = (uint8_t)p->kind->magic[0];
	h[1] = (uint8_t)p->kind->magic[1];
	h[2] = PAGES_VERSION;
	h[3] = (uint8_t)l;
	le16_put(h + 4, (uint16_t)lv->count);
	if (id_of(&out->id, p->kind->type, h, lv->page.size, e) != 0)
		return -1;
	out->weight = lv->weight;
	out->first_size = lv->first_size;
	memcpy(out->first, lv->first, lv->first_size);
	if (p->emit(p->arg, p->kind->type, &out->id, h, lv->page.size,
	    (const struct id *)lv->refs.data, lv->refs.size / ID_SIZE, e) != 0)
		return -1;
	lv->emitted = true;
	page_begin(lv);
	return 0;
}

static int page_close(struct pages *p, unsigned l, struct err *e)
{
	struct pages_child c;

	if (page_emit_now(p, l, &c, e) != 0)
		return -1;
	return child_add(p, l + 1, &c, e);
}

int pages_add(struct pages *p, const struct pages_item *item, struct err *e)
{
	struct level *lv;

	assert(item->size <= PAGES_ITEM_MAX);
	assert(item->first_size <= PAGES_FIRST_MAX);
	if (level_get(p, 0, &lv, e) != 0)
		return -1;
	if (!item_fits(p, lv, item->size) && page_close(p, 0, e) != 0)
		return -1;
	item_append(lv, item);
	if (buf_ok(&lv->page, "page", e) != 0)
		return -1;
	if (!item_fills(p, lv, 0, item))
		return 0;
	return page_close(p, 0, e);
}

/* Put the child into the page; false, and nothing done, if it has no room. */
static bool child_append(struct pages *p, unsigned l,
    const struct pages_child *c)
{
	struct level *lv = p->levels[l];
	uint8_t raw[PAGES_ITEM_MAX];
	struct pages_item item = {
		.data = raw, .weight = c->weight, .first = c->first,
		.first_size = c->first_size, .refs = &c->id, .ref_count = 1,
	};

	item.size = p->kind->put_child(raw, c);
	if (!item_fits(p, lv, item.size))
		return false;
	lv->last = *c;
	lv->last_at = lv->page.size;
	item_append(lv, &item);
	if (item_fills(p, lv, l, &item))
		lv->full = true;
	return true;
}

static int child_add(struct pages *p, unsigned l, const struct pages_child *c,
    struct err *e)
{
	struct level *lv;

	if (level_get(p, l, &lv, e) != 0)
		return -1;
	if (lv->has_held) {
		if (page_close(p, l, e) != 0)
			return -1;
		child_append(p, l, &lv->held);
		lv->has_held = false;
	}
	if (lv->full || !child_append(p, l, c)) {
		lv->full = true;
		lv->held = *c;
		lv->has_held = true;
	}
	return buf_ok(&lv->page, "page", e);
}

/* P4: one child is left over after a full page. */
static int held_place(struct pages *p, unsigned l, struct err *e)
{
	struct level *lv = p->levels[l];
	struct pages_child last = lv->last;

	if (child_append(p, l, &lv->held))
		return 0;
	assert(lv->count > 2);
	lv->page.size = lv->last_at;
	lv->refs.size -= ID_SIZE;
	lv->count--;
	lv->weight -= last.weight;
	if (page_close(p, l, e) != 0)
		return -1;
	child_append(p, l, &last);
	child_append(p, l, &lv->held);
	return 0;
}

/* Write the end of a level.  Sets *done when it had the root. */
static int level_finish(struct pages *p, unsigned l, struct id *root,
    bool *done, struct err *e)
{
	struct level *lv;
	struct pages_child c;

	if (level_get(p, l, &lv, e) != 0)
		return -1;
	if (l > 0 && !lv->emitted && lv->count == 1 && !lv->has_held) {
		*root = lv->last.id;	/* P3 */
		*done = true;
		return 0;
	}
	if (lv->has_held && held_place(p, l, e) != 0)
		return -1;
	if (lv->count == 0 && lv->emitted)
		return 0;
	if (page_emit_now(p, l, &c, e) != 0)
		return -1;
	return child_add(p, l + 1, &c, e);
}

int pages_finish(struct pages *p, struct id *root, struct err *e)
{
	bool done = false;

	for (unsigned l = 0; !done; l++)
		if (level_finish(p, l, root, &done, e) != 0)
			return -1;
	for (unsigned l = 0; l <= PAGES_LEVEL_MAX; l++) {
		if (!p->levels[l])
			continue;
		page_begin(p->levels[l]);
		p->levels[l]->emitted = false;
		p->levels[l]->has_held = false;
	}
	return 0;
}

int pages_header_get(const char magic[static 2], const void *plain,
    size_t size, unsigned *level, unsigned *count, struct err *e)
{
	const uint8_t *h = plain;

	if (size < PAGES_HEADER_SIZE || memcmp(h, magic, 2) != 0)
		return err_set(e, ERR_CORRUPT, "not a page");
	if (h[2] != PAGES_VERSION)
		return err_set(e, ERR_VERSION, "page of version %u", h[2]);
	if (h[3] > PAGES_LEVEL_MAX || le16_get(h + 6) != 0)
		return err_set(e, ERR_CORRUPT, "page header is damaged");
	if (h[3] > 0 && le16_get(h + 4) < 2)
		return err_set(e, ERR_CORRUPT, "index page of %u children",
		    le16_get(h + 4));
	*level = h[3];
	*count = le16_get(h + 4);
	return 0;
}
