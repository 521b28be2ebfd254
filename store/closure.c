/*
 * store/closure.c - see closure.h.
 *
 * Trees have no cycles (an id cannot name what names it), so setting each bit
 * from the bits below, over and over, ends: after pass n all pages of height n
 * are right.  Pages are stored after what they name, and one pass sees its own
 * changes, so two passes are the rule.
 *
 * Where a bit is set again, the page's owners are handed to what it names:
 * each of them had it all once (C2 of commit.c).
 */
#include "store/closure.h"

#include "proto/fmt_frame.h"
#include "store/cache.h"
#include "store/commit.h"
#include "store/impl.h"
#include "store/looks.h"
#include "store/rebuild_impl.h"
#include "store/toc.h"

#include <inttypes.h>
#include <stdlib.h>

#define SEGMENTS_AT_ONCE 256

struct pass {
	struct store *store;
	struct closure_report *report;
	struct job_ctl *ctl;
	uint64_t changed;
};

/* Cut lock held. */
static int put(struct store *s, const struct key *k, struct entry *en,
    struct err *e)
{
	if (!en)
		return err_set(e, ERR_NO_MEMORY, "no memory for an entry");
	if (!s->committer_on)
		return overlay_put(&s->durable, k, en, e);
	committer_note_pending(s);
	return overlay_put(&s->pending, k, en, e);
}

/* looks: 0 is the page, then what it names.  Cut lock held. */
static int owners_down(struct store *s, struct looks *l,
    const struct entry *page, struct err *e)
{
	for (size_t i = 1; i < l->count; i++)
		for (uint32_t n = 0; n < page->owner_count; n++) {
			const struct entry *en = looks_raw(s, l, i);

			if (!entry_owned(en, page->owners[n]) && put(s,
			    &l->keys[i], entry_copy(en, page->owners[n]),
			    e) != 0)
				return -1;
		}
	return 0;
}

/* Cut lock held. */
static int judge(struct pass *p, struct looks *l, const struct place *at,
    uint32_t ordinal, bool readable, struct err *e)
{
	struct store *s = p->store;
	const struct entry *page = looks_raw(s, l, 0);
	bool whole = readable;
	struct entry *en;

	/* Not the page's newest place: nobody uses it. */
	if (!page || page->place.segment != at->segment ||
	    page->ordinal != ordinal)
		return 0;
	whole = whole && !entry_quarantined(s, page);
	for (size_t i = 1; i < l->count && whole; i++) {
		const struct entry *ref = looks_entry(s, l, i);

		whole = ref && entry_whole(ref);
	}
	if (whole == ((page->flags & ENTRY_COMPLETE) != 0))
		return 0;
	if (whole && owners_down(s, l, page, e) != 0)
		return -1;
	en = entry_copy(page, 0);
	if (en)
		en->flags = (uint8_t)(whole ? en->flags | ENTRY_COMPLETE :
		    en->flags & ~ENTRY_COMPLETE);
	p->changed++;
	p->report->set += whole;
	p->report->cleared += !whole;
	return put(s, &l->keys[0], en, e);
}

static int page_check(struct pass *p, const struct id *id,
    const struct frame_view *v, const struct place *at, uint32_t ordinal,
    struct err *e)
{
	struct looks l;
	struct frame_object o;
	int rc;

	looks_init(&l);
	rc = looks_add(&l, id, e);
	for (uint32_t i = 0; v && i < v->object_count && rc == 0; i++) {
		frame_object_at(v, i, &o);
		if (!id_equal(&o.id, id))
			continue;
		for (uint32_t r = 0; r < o.refs && rc == 0; r++) {
			struct id ref;

			frame_ref_at(v, o.first_ref + r, &ref);
			rc = looks_add(&l, &ref, e);
		}
		break;
	}
	if (rc == 0)
		rc = looks_lock(p->store, &l, false, e);
	if (rc == 0) {
		rc = judge(p, &l, at, ordinal, v != NULL, e);
		pthread_mutex_unlock(&p->store->cut);
	}
	looks_release(&l);
	return rc;
}

static bool has_pages(const struct table_view *t,
    const struct table_frame *f, uint32_t first)
{
	struct table_object o;

	for (uint32_t i = 0; i < f->object_count; i++) {
		table_object_at(t, first + i, &o);
		if (object_has_refs((enum object_type)o.type))
			return true;
	}
	return false;
}

static int frame_check(struct pass *p, const struct table_view *t,
    const struct table_frame *f, uint32_t first, struct err *e)
{
	struct store *s = p->store;
	struct table_object o;
	struct cached *c = NULL;
	struct frame_view v;
	enum array_read got;
	struct err why;
	bool good;
	int rc = 0;

	if (!has_pages(t, f, first))
		return 0;
	got = cache_frame(s->cache, s->array, &f->place, &c, &why);
	if (got == ARRAY_READ_UNAVAILABLE || got == ARRAY_READ_FREED)
		return 0;
	good = got == ARRAY_READ_OK &&
	    frame_parse(&v, c->data, c->size, &why) == 0;
	for (uint32_t i = 0; i < f->object_count && rc == 0; i++) {
		table_object_at(t, first + i, &o);
		if (!object_has_refs((enum object_type)o.type))
			continue;
		rc = page_check(p, &o.id, good ? &v : NULL, &f->place,
		    t->base + first + i, e);
	}
	cache_drop(s->cache, c);
	return rc;
}

static int table_check(struct pass *p, const struct place *at,
    struct err *e)
{
	struct table_view t;
	uint32_t object = 0;
	uint8_t *raw;
	int rc = 0;

	if (toc_read(p->store, at, &raw, &t, e) != 0)
		return -1;
	for (uint32_t i = 0; i < t.frame_count && rc == 0; i++) {
		struct table_frame f;

		if (p->ctl && atomic_load(&p->ctl->cancel)) {
			rc = err_set(e, ERR_CANCELLED, "cancelled");
			break;
		}
		table_frame_at(&t, i, &f);
		rc = frame_check(p, &t, &f, object, e);
		object += f.object_count;
	}
	free(raw);
	if (rc == 0 && !p->store->committer_on &&
	    p->store->durable.count >= FOLD_ENTRIES) {
		rc = overlay_write_out(p->store, e);
		p->store->generation++;
	}
	return rc;
}

/* Oldest table first.  What cannot be read is left out. */
static int segment_check(struct pass *p, uint64_t segment, struct err *e)
{
	struct segment_info info;
	struct toc_place *list;
	struct err why;
	size_t count;
	int rc = 0;

	if (array_segment(p->store->array, segment, &info, &why) != 0 ||
	    info.class != SEG_META || info.table.size == 0 ||
	    toc_chain(p->store, &info, 0, &list, &count, &why) != 0)
		return 0;
	while (count > 0 && rc == 0)
		rc = table_check(p, &list[--count].place, e);
	free(list);
	return rc;
}

static int pass_once(struct pass *p, struct err *e)
{
	uint64_t ids[SEGMENTS_AT_ONCE], after = 0;
	size_t n;

	while ((n = array_segments(p->store->array, after, ids,
	    SEGMENTS_AT_ONCE)) > 0) {
		for (size_t i = 0; i < n; i++)
			if (segment_check(p, ids[i], e) != 0)
				return -1;
		after = ids[n - 1];
	}
	return 0;
}

int closure_recheck(struct store *s, struct closure_report *report,
    struct job_ctl *ctl, struct err *e)
{
	struct pass p = { s, report, ctl, 0 };

	*report = (struct closure_report){ .passes = 0 };
	do {
		p.changed = 0;
		report->passes++;
		if (pass_once(&p, e) != 0)
			return -1;
	} while (p.changed > 0);
	return 0;
}
