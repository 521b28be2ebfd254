/*
 * store/catch_up.c - the index from its position to the array's.
 *
 * The tables of flushes after the position are read in the order of flushes;
 * the newest place of an id wins.  What is not in tables is derived:
 *
 *   owners    A table says whose session stored a frame.  That a domain also
 *             adopted what others had stored is only known from the pages: a
 *             page is stored, or a snapshot committed, when all below it is
 *             the domain's.  So from each new page and each new snapshot the
 *             owner is handed down, until a page is met that had it in the
 *             index before: below that one all is well (C2 of commit.c).
 *   complete  A page is only ever stored complete.
 *
 * CRASH   What is written before the end may be half of it: a page that has its
 * owner while what it names has not.  So the first such write takes the
 * position back, and a crash from then on costs a rebuild.
 *
 * MEMORY   Pages that wait for their turn are bounded by WORK_MAX.  An index
 * that is farther behind was brought back from a copy: it is built anew, which
 * sorts on disk.
 */
#include "store/rebuild_impl.h"

#include "proto/fmt_frame.h"
#include "store/cache.h"
#include "store/client.h"
#include "store/impl.h"
#include "store/index.h"
#include "store/looks.h"
#include "store/snapshot.h"
#include "store/toc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENTS_AT_ONCE 256
#define WORK_MAX 250000u	/* 64 bytes each */

struct work {			/* a page whose owner is to be handed down */
	struct key key;
	uint32_t domain;
};

struct catch {
	struct store *store;
	uint64_t after;			/* flush */
	struct toc_place *tables;
	size_t table_count, table_cap;
	struct work *work;
	size_t work_count, work_cap;
	bool held;			/* the index has no position */
};

/* ---- which tables ------------------------------------------------------- */

static int tables_add(struct catch *c, const struct toc_place *list,
    size_t count, struct err *e)
{
	size_t cap = c->table_cap;
	struct toc_place *more;

	while (c->table_count + count > cap)
		cap = cap ? cap * 2 : 64;
	more = realloc(c->tables, (cap + 1) * sizeof(*more));
	if (!more)
		return err_set(e, ERR_NO_MEMORY, "no memory for tables");
	c->tables = more;
	c->table_cap = cap;
	if (count > 0)
		memcpy(more + c->table_count, list, count * sizeof(*list));
	c->table_count += count;
	return 0;
}

static int tables_of(struct catch *c, uint64_t segment, struct err *e)
{
	struct segment_info info;
	struct toc_place *list;
	size_t count;
	int rc;

	if (array_segment(c->store->array, segment, &info, e) != 0)
		return -1;
	if (info.table.size == 0 || info.last_flush <= c->after)
		return 0;
	if (toc_chain(c->store, &info, c->after, &list, &count, e) != 0)
		return -1;
	rc = tables_add(c, list, count, e);
	free(list);
	return rc;
}

static int by_flush(const void *a, const void *b)
{
	const struct toc_place *x = a, *y = b;

	if (x->flush != y->flush)
		return x->flush < y->flush ? -1 : 1;
	return x->place.segment < y->place.segment ? -1 :
	    x->place.segment > y->place.segment;
}

static int tables_find(struct catch *c, struct err *e)
{
	uint64_t ids[SEGMENTS_AT_ONCE], after = 0;
	size_t n;

	while ((n = array_segments(c->store->array, after, ids,
	    SEGMENTS_AT_ONCE)) > 0) {
		for (size_t i = 0; i < n; i++)
			if (tables_of(c, ids[i], e) != 0)
				return -1;
		after = ids[n - 1];
	}
	if (c->table_count > 0)
		qsort(c->tables, c->table_count, sizeof(*c->tables),
		    by_flush);
	return 0;
}

/* ---- entries ------------------------------------------------------------ */

static int work_add(struct catch *c, const struct key *k, uint32_t domain,
    struct err *e)
{
	size_t cap = c->work_cap ? c->work_cap * 2 : 256;
	struct work *more;

	if (c->work_count == WORK_MAX)
		return err_set(e, ERR_LIMIT, "is too far behind");
	if (c->work_count == c->work_cap) {
		more = realloc(c->work, cap * sizeof(*more));
		if (!more)
			return err_set(e, ERR_NO_MEMORY, "no memory for pages");
		c->work = more;
		c->work_cap = cap;
	}
	c->work[c->work_count++] = (struct work){ *k, domain };
	return 0;
}

/* Newest value of a key, as a copy to be changed; NULL in *out if none. */
static int entry_now(struct store *s, const struct key *k, uint32_t domain,
    struct entry **out, struct err *e)
{
	const struct entry *en = overlay_find(&s->durable, k);
	struct entry *base = NULL;

	*out = NULL;
	if (!en) {
		if (index_read_one(s->index, k, &base, e) != 0)
			return -1;
		en = base;
	}
	if (en) {
		*out = entry_copy(en, domain);
		if (!*out)
			err_set(e, ERR_NO_MEMORY, "no memory for an entry");
	}
	free(base);
	return en && !*out ? -1 : 0;
}

static int take_object(struct catch *c, const struct table_frame *f,
    const struct table_object *o, uint32_t ordinal, struct err *e)
{
	struct entry *en;
	struct key k;

	key_of(&k, f->keyspace, &o->id);
	if (entry_now(c->store, &k, f->domain, &en, e) != 0)
		return -1;
	if (!en) {
		if (f->domain == 0)	/* moved, and deleted since */
			return 0;
		en = entry_new(1);
		if (!en)
			return err_set(e, ERR_NO_MEMORY,
			    "no memory for an entry");
		en->owners[0] = f->domain;
		en->owner_count = 1;
	}
	en->place = f->place;
	en->ordinal = ordinal;
	en->size = o->size;
	en->type = o->type;
	if (object_has_refs((enum object_type)o->type) && f->domain != 0) {
		en->flags |= ENTRY_COMPLETE;
		if (work_add(c, &k, f->domain, e) != 0) {
			free(en);
			return -1;
		}
	}
	return overlay_put(&c->store->durable, &k, en, e);
}

static int take_table(struct catch *c, const struct table_view *v,
    struct err *e)
{
	uint32_t object = 0;

	for (uint32_t i = 0; i < v->frame_count; i++) {
		struct table_frame f;

		table_frame_at(v, i, &f);
		for (uint32_t n = 0; n < f.object_count; n++, object++) {
			struct table_object o;

			table_object_at(v, object, &o);
			if (take_object(c, &f, &o, v->base + object, e) != 0)
				return -1;
		}
	}
	return 0;
}

static int room(struct catch *c, struct err *e)
{
	if (c->store->durable.count < FOLD_ENTRIES)
		return 0;
	if (!c->held && index_hold(c->store->index, e) != 0)
		return -1;
	c->held = true;
	return overlay_write_out(c->store, e);
}

static int take_tables(struct catch *c, struct err *e)
{
	for (size_t i = 0; i < c->table_count; i++) {
		struct table_view v;
		uint8_t *raw;
		int rc;

		if (toc_read(c->store, &c->tables[i].place, &raw, &v, e) != 0)
			return -1;
		rc = take_table(c, &v, e);
		free(raw);
		if (rc != 0 || room(c, e) != 0)
			return -1;
	}
	return 0;
}

/* ---- owners ------------------------------------------------------------- */

/* The domain owns this object; if it is a page that did not have the owner
 * before, what it names has to follow. */
static int hand_to(struct catch *c, const struct id *id, uint32_t domain,
    struct err *e)
{
	struct entry *en;
	struct key k;

	key_of(&k, KEYSPACE_PLAIN, id);
	if (entry_now(c->store, &k, 0, &en, e) != 0)
		return -1;
	if (!en || entry_owned(en, domain)) {
		free(en);
		return 0;
	}
	free(en);
	if (entry_now(c->store, &k, domain, &en, e) != 0)
		return -1;
	if (object_has_refs((enum object_type)en->type) &&
	    work_add(c, &k, domain, e) != 0) {
		free(en);
		return -1;
	}
	return overlay_put(&c->store->durable, &k, en, e);
}

static int hand_down_page(struct catch *c, const struct work *w,
    const struct cached *frame, struct err *e)
{
	struct frame_object o;
	struct frame_view v;
	struct id id;

	if (frame_parse(&v, frame->data, frame->size, e) != 0)
		return -1;
	key_id(&w->key, &id);
	for (uint32_t i = 0; i < v.object_count; i++) {
		frame_object_at(&v, i, &o);
		if (!id_equal(&o.id, &id))
			continue;
		for (uint32_t r = 0; r < o.refs; r++) {
			struct id ref;

			frame_ref_at(&v, o.first_ref + r, &ref);
			if (hand_to(c, &ref, w->domain, e) != 0)
				return -1;
		}
		return 0;
	}
	return err_set(e, ERR_CORRUPT, "a page is not in its frame");
}

static int hand_down(struct catch *c, struct err *e)
{
	struct store *s = c->store;

	while (c->work_count > 0) {
		struct work w = c->work[--c->work_count];
		struct cached *frame;
		struct entry *en;
		struct place at;
		int rc;

		if (entry_now(s, &w.key, 0, &en, e) != 0)
			return -1;
		if (!en)
			continue;
		at = en->place;
		free(en);
		if (cache_frame(s->cache, s->array, &at, &frame, e) !=
		    ARRAY_READ_OK)
			return err_add(e, "a page written lately");
		rc = hand_down_page(c, &w, frame, e);
		cache_drop(s->cache, frame);
		if (rc != 0 || room(c, e) != 0)
			return -1;
	}
	return 0;
}

/* Roots of the snapshots that the index has not seen. */
static int hand_to_roots(struct catch *c, struct err *e)
{
	uint64_t order = index_order(c->store->index);
	struct snapshot_item *items;
	uint32_t domain;
	size_t count;
	int rc = 0;

	if (snapshots_list(c->store, NULL, &items, &count, e) != 0)
		return -1;
	for (size_t i = 0; i < count && rc == 0; i++) {
		if (items[i].record.order < order)
			continue;
		rc = client_domain(c->store, items[i].client, &domain, e);
		if (rc == 0)
			rc = hand_to(c, &items[i].record.root, domain, e);
		if (rc == 0)
			rc = hand_to(c, &items[i].record.facts, domain, e);
	}
	free(items);
	return rc;
}

int catch_up(struct store *s, const struct array_position *from,
    struct err *e)
{
	struct catch c = { .store = s, .after = from->flush };
	int rc = -1;

	if (tables_find(&c, e) == 0 && take_tables(&c, e) == 0 &&
	    hand_to_roots(&c, e) == 0 && hand_down(&c, e) == 0 &&
	    overlay_write_out(s, e) == 0)
		rc = index_suspect(s->index) ?
		    err_set(e, ERR_CORRUPT, "holds damaged entries") :
		    index_mark_now(s, e);
	if (c.held && rc == 0)		/* else rebuild_all() resets it */
		rc = index_release(s->index, e);
	free(c.tables);
	free(c.work);
	return rc;
}
