/*
 * store/verify_segment.c - one segment, in one pass; see verify.c.
 *
 * The tables say where frames begin and how long they are; raid/ hands over
 * the payload of each stripe in order, and frames are put together from it.
 * What the pass does not give (a lost stripe, a wrong hash) is read by itself
 * afterwards.  All tables of the segment are held meanwhile: a few MiB.
 */
#include "store/verify_impl.h"

#include "base/str.h"
#include "proto/fmt_frame.h"
#include "store/cache.h"
#include "store/commit.h"
#include "store/impl.h"
#include "store/looks.h"
#include "store/toc.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct table_held {
	uint8_t *raw;
	struct table_view view;
};

struct frame_ref {		/* one frame of the segment */
	uint32_t table, frame, first;	/* first: its first object there */
	bool done;
};

struct pass {
	struct verify *v;
	uint64_t segment;
	struct table_held *tables;
	size_t table_count;
	struct frame_ref *frames;	/* in the order in which they lie */
	size_t frame_count, at;
	uint8_t *buf;		/* of the frame at `at` */
	size_t have;
	int rc;			/* first failure of a callback */
	struct err err;
};

/* ---- loading ------------------------------------------------------------ */

static int frames_list(struct pass *p, struct err *e)
{
	size_t n = 0;

	for (size_t i = 0; i < p->table_count; i++)
		n += p->tables[i].view.frame_count;
	p->frames = calloc(n + 1, sizeof(*p->frames));
	if (!p->frames)
		return err_set(e, ERR_NO_MEMORY, "no memory for frames");
	for (uint32_t t = 0; t < p->table_count; t++) {
		const struct table_view *v = &p->tables[t].view;
		uint32_t first = 0;

		for (uint32_t i = 0; i < v->frame_count; i++) {
			struct table_frame f;

			table_frame_at(v, i, &f);
			p->frames[p->frame_count++] = (struct frame_ref){
				t, i, first, false };
			first += f.object_count;
		}
	}
	return 0;
}

static int tables_load(struct pass *p, const struct segment_info *info,
    struct err *e)
{
	struct store *s = p->v->store;
	struct toc_place *list = NULL;
	size_t count = 0;
	int rc = 0;

	if (info->table.size != 0 &&
	    toc_chain(s, info, 0, &list, &count, e) != 0)
		return -1;
	p->tables = calloc(count + 1, sizeof(*p->tables));
	if (!p->tables)
		rc = err_set(e, ERR_NO_MEMORY, "no memory for tables");
	for (size_t i = count; i-- > 0 && rc == 0;) {
		struct table_held *t = &p->tables[p->table_count];

		rc = toc_read(s, &list[i].place, &t->raw, &t->view, e);
		p->table_count += rc == 0;
	}
	free(list);
	return rc == 0 ? frames_list(p, e) : -1;
}

static void pass_release(struct pass *p)
{
	for (size_t i = 0; i < p->table_count; i++)
		free(p->tables[i].raw);
	free(p->tables);
	free(p->frames);
	free(p->buf);
}

/* ---- objects and index -------------------------------------------------- */

static bool place_same(const struct place *a, const struct place *b)
{
	return a->segment == b->segment && a->row == b->row &&
	    a->offset == b->offset && a->size == b->size &&
	    a->last == b->last;
}

static void name_object(const struct table_object *o, char *out, size_t size)
{
	static const char *const types[] = { "?", "chunk", "list page",
		"tree page", "facts" };
	char hex[2 * ID_SIZE + 1];

	hex_put(hex, o->id.bytes, ID_SIZE);
	snprintf(out, size, "%s %s", types[o->type <= 4 ? o->type : 0], hex);
}

struct object_at {		/* an object, where its table says it is */
	const struct table_view *t;
	struct table_frame f;
	struct table_object o;
	uint32_t ordinal;
};

/* The object cannot be read right from this place.  *lost says whether there
 * is no other copy.  Cut lock held. */
static int object_bad(struct pass *p, const struct object_at *at,
    const struct entry *en, bool *lost, struct err *e)
{
	if (!en)		/* nobody wants it any more */
		return 0;
	*lost = en->place.segment == p->segment &&
	    en->ordinal == at->ordinal;
	return qset_add(&p->v->bad, p->segment, at->ordinal, e);
}

static void tell_lost(struct pass *p, const struct object_at *first,
    const bool *lost)
{
	struct verify *v = p->v;
	struct table_object o;
	char name[128];

	for (uint32_t i = 0; i < first->f.object_count; i++) {
		if (!lost[i])
			continue;
		table_object_at(first->t, first->ordinal - first->t->base +
		    i, &o);
		name_object(&o, name, sizeof(name));
		verify_line(v, "segment %" PRIu64 "%s%s: %s is lost",
		    p->segment, v->members[0] ? ", wrong on" : "",
		    v->members, name);
		v->report->damaged_objects++;
	}
}

/* Cut lock held.  The index must name just this place if it names the
 * ordinal. */
static int index_repair(struct pass *p, const struct looks *l, size_t i,
    const struct object_at *at, struct err *e)
{
	const struct entry *en = looks_raw(p->v->store, l, i);
	struct store *s = p->v->store;
	struct entry *fixed;

	if (!en || en->place.segment != p->segment ||
	    en->ordinal != at->ordinal || (place_same(&en->place,
	    &at->f.place) && en->type == at->o.type &&
	    en->size == at->o.size))
		return 0;
	if (!p->v->may_write)
		return 0;
	fixed = entry_copy(en, 0);
	if (!fixed)
		return err_set(e, ERR_NO_MEMORY, "no memory for an entry");
	fixed->place = at->f.place;
	fixed->type = at->o.type;
	fixed->size = at->o.size;
	committer_note_pending(s);
	return overlay_put(&s->pending, &l->keys[i], fixed, e);
}

/* Cut lock held.  A complete page names only what is there. */
static bool refs_there(const struct store *s, const struct looks *l,
    size_t page, size_t first, size_t count)
{
	const struct entry *en = looks_entry(s, l, page);

	if (!en || !(en->flags & ENTRY_COMPLETE))
		return true;
	for (size_t i = first; i < first + count; i++) {
		const struct entry *ref = looks_entry(s, l, i);

		if (!ref || !entry_whole(ref))
			return false;
	}
	return true;
}

/* Which objects of the frame are right? */
static void objects_judge(struct pass *p, const struct frame_view *fv,
    bool readable, const struct object_at *first, bool *good)
{
	uint32_t count = first->f.object_count;
	struct frame_object o;
	struct err why;
	struct id id;

	memset(good, 0, count * sizeof(*good));
	if (!readable || fv->object_count != count ||
	    frame_unpack(fv, p->v->plain, &why) != 0)
		return;
	if (frame_check_objects(fv, p->v->plain, &why) == 0) {
		for (uint32_t i = 0; i < count; i++) {
			struct table_object t;

			frame_object_at(fv, i, &o);
			table_object_at(first->t, first->ordinal -
			    first->t->base + i, &t);
			good[i] = id_equal(&o.id, &t.id);
		}
		return;
	}
	for (uint32_t i = 0; i < count; i++) {	/* one by one */
		frame_object_at(fv, i, &o);
		good[i] = !object_has_refs(o.type) && id_of(&id, o.type,
		    p->v->plain + o.offset, o.size, &why) == 0 &&
		    id_equal(&id, &o.id);
	}
}

static int looks_fill(struct looks *l, const struct object_at *first,
    const struct frame_view *fv, struct err *e)
{
	struct table_object o;
	struct id ref;

	for (uint32_t i = 0; i < first->f.object_count; i++) {
		table_object_at(first->t, first->ordinal - first->t->base +
		    i, &o);
		if (looks_add(l, &o.id, e) != 0)
			return -1;
	}
	for (uint32_t r = 0; fv && r < fv->ref_count; r++) {
		frame_ref_at(fv, r, &ref);
		if (looks_add(l, &ref, e) != 0)
			return -1;
	}
	return 0;
}

/* Cut lock held. */
static int object_settle(struct pass *p, const struct looks *l, uint32_t i,
    struct object_at *at, const struct frame_view *fv, bool *good,
    struct err *e)
{
	struct store *s = p->v->store;
	bool was_bad = qset_has(&s->quarantined, p->segment, at->ordinal);
	struct frame_object o;

	if (!*good)		/* from here on: is it lost? */
		return was_bad ? 0 :
		    object_bad(p, at, looks_raw(s, l, i), good, e);
	*good = false;
	if (was_bad && qset_add(&p->v->good, p->segment, at->ordinal,
	    e) != 0)
		return -1;
	frame_object_at(fv, i, &o);
	if (!refs_there(s, l, i, at->f.object_count + o.first_ref, o.refs))
		p->v->recheck = true;
	return index_repair(p, l, i, at, e);
}

/* The frame's bytes, right or (readable false) not to be had. */
static int frame_judge(struct pass *p, const struct frame_ref *r,
    const void *data, size_t size, struct err *e)
{
	struct store *s = p->v->store;
	struct object_at at = { .t = &p->tables[r->table].view };
	struct frame_view fv = { .object_count = 0 };
	struct looks l;
	struct err why;
	bool readable, *good;
	int rc;

	table_frame_at(at.t, r->frame, &at.f);
	at.ordinal = at.t->base + r->first;
	good = calloc(at.f.object_count, sizeof(*good));
	if (!good)
		return err_set(e, ERR_NO_MEMORY, "no memory for a frame");
	readable = data && frame_parse(&fv, data, size, &why) == 0;
	objects_judge(p, &fv, readable, &at, good);
	looks_init(&l);
	rc = looks_fill(&l, &at, readable ? &fv : NULL, e);
	if (rc == 0)
		rc = looks_lock(s, &l, false, e);
	if (rc == 0) {
		for (uint32_t i = 0; i < at.f.object_count && rc == 0; i++) {
			table_object_at(at.t, r->first + i, &at.o);
			rc = object_settle(p, &l, i, &at, &fv, &good[i], e);
			at.ordinal++;
		}
		pthread_mutex_unlock(&s->cut);
		at.ordinal = at.t->base + r->first;
		if (rc == 0)
			tell_lost(p, &at, good);
	}
	looks_release(&l);
	free(good);
	p->v->report->frames++;
	p->v->report->objects += at.f.object_count;
	p->v->report->bytes += at.f.place.size;
	return rc;
}

/* ---- the pass ----------------------------------------------------------- */

static void note_failure(struct pass *p, int rc, const struct err *e)
{
	if (rc == 0 || p->rc != 0)
		return;
	p->rc = rc;
	p->err = *e;
}

static void place_of(const struct pass *p, size_t i, struct place *out)
{
	struct table_frame f;

	table_frame_at(&p->tables[p->frames[i].table].view,
	    p->frames[i].frame, &f);
	*out = f.place;
}

/* The frame at hand is whole.  A wrong one is left for the second look. */
static void frame_whole(struct pass *p, size_t size)
{
	struct frame_ref *r = &p->frames[p->at++];
	struct err e;

	p->have = 0;
	if (!frame_hash_ok(p->buf, size))
		return;
	r->done = true;
	note_failure(p, frame_judge(p, r, p->buf, size, &e), &e);
}

static void stripe_lost(struct pass *p, uint32_t row)
{
	struct place f;

	if (p->have > 0)
		p->at++;
	p->have = 0;
	while (p->at < p->frame_count) {
		place_of(p, p->at, &f);
		if (f.row > row)
			break;
		p->at++;
	}
}

static void on_stripe(void *arg, uint64_t segment, uint32_t row,
    const uint8_t *data, size_t size, uint32_t strip_size)
{
	struct pass *p = arg;
	size_t from, take;
	struct place f;

	(void)segment;
	(void)strip_size;
	if (!data) {
		stripe_lost(p, row);
		return;
	}
	while (p->at < p->frame_count) {
		place_of(p, p->at, &f);
		if (p->have == 0 && f.row > row)
			return;
		from = p->have == 0 ? f.offset : 0;
		if (p->have == 0 && (f.row < row || from > size)) {
			p->at++;	/* its beginning was not shown */
			continue;
		}
		take = f.size - p->have;
		if (take > size - from)
			take = size - from;
		memcpy(p->buf + p->have, data + from, take);
		p->have += take;
		if (p->have < f.size)
			return;
		frame_whole(p, f.size);
	}
}

static void on_bad_strip(void *arg, unsigned member_index,
    const char *member_path, uint64_t segment, uint32_t row,
    const char *kind, bool healed)
{
	struct pass *p = arg;
	struct verify *v = p->v;
	size_t used = strlen(v->members);

	if (!strstr(v->members, member_path))
		snprintf(v->members + used, sizeof(v->members) - used,
		    " %s", member_path);
	if (v->ops && v->ops->strips.bad_strip)
		v->ops->strips.bad_strip(v->ops->strips.arg, member_index,
		    member_path, segment, row, kind, healed);
}

/* Frames that the pass did not give: by themselves. */
static int second_look(struct pass *p, struct err *e)
{
	struct store *s = p->v->store;

	cache_forget(s->cache, p->segment);
	for (size_t i = 0; i < p->frame_count; i++) {
		struct cached *c = NULL;
		struct place at;
		struct err why;
		int rc = 0;

		if (p->frames[i].done)
			continue;
		place_of(p, i, &at);
		switch (cache_frame(s->cache, s->array, &at, &c, &why)) {
		case ARRAY_READ_OK:
			rc = frame_judge(p, &p->frames[i], c->data, c->size,
			    e);
			break;
		case ARRAY_READ_DAMAGED:
			rc = frame_judge(p, &p->frames[i], NULL, 0, e);
			break;
		case ARRAY_READ_UNAVAILABLE:
			verify_line(p->v, "segment %" PRIu64 ": a frame is "
			    "not available now: %s", p->segment, why.text);
			break;
		case ARRAY_READ_FREED:
			return err_set(e, ERR_NOT_FOUND, "freed meanwhile");
		}
		cache_drop(s->cache, c);
		if (rc != 0)
			return -1;
	}
	return 0;
}

static int scan(struct pass *p, struct err *e)
{
	struct scan_ops ops = { on_bad_strip, on_stripe, p };
	struct verify *v = p->v;

	if (array_scan_segment(v->store->array, p->segment, v->options->heal,
	    &ops, &v->report->strips, v->ctl, e) != 0)
		return -1;
	if (p->rc != 0) {
		*e = p->err;
		return -1;
	}
	return second_look(p, e);
}

int verify_segment(struct verify *v, uint64_t segment, struct err *e)
{
	struct pass p = { .v = v, .segment = segment };
	struct segment_info info;
	struct err why;
	int rc = -1;

	v->members[0] = '\0';
	if (array_segment(v->store->array, segment, &info, e) != 0)
		return -1;
	if (tables_load(&p, &info, &why) != 0) {
		if (why.code == ERR_NO_MEMORY || why.code == ERR_NOT_FOUND) {
			*e = why;
			goto out;
		}
		/* Its strips can still be looked at. */
		verify_line(v, "segment %" PRIu64 ": %s", segment, why.text);
		v->report->damaged_objects += why.code == ERR_CORRUPT;
		p.frame_count = 0;
	}
	p.buf = malloc(RAID_FRAME_MAX);
	if (!p.buf) {
		err_set(e, ERR_NO_MEMORY, "no memory for a frame");
		goto out;
	}
	rc = scan(&p, e);
	v->report->segments += rc == 0;
out:
	pass_release(&p);
	return rc;
}
