/*
 * store/gc_sweep.c - the space of the candidates; see gc.c.
 *
 *   wholly dead                      freed at once
 *   a quarter or more of garbage,    live frames appended anew; then freed
 *   or raid wants it rewritten,
 *   or space is short
 *   a live object is quarantined,    left alone
 *   or a live frame cannot be read
 *
 * Unused tails and tables are garbage too.  A frame whose objects all live is
 * copied as it is, of others the live objects are put into a new one.  The
 * table of a moved frame names domain 0: owners stay what they are.
 *
 * Appends are made with the reserve that raid keeps for this, switched on for
 * just the append: all appends are serialised by the cut lock.
 */
#include "store/gc_impl.h"

#include "base/buf.h"
#include "base/le.h"
#include "proto/fmt_frame.h"
#include "store/cache.h"
#include "store/commit.h"
#include "store/impl.h"
#include "store/index.h"
#include "store/keys.h"
#include "store/looks.h"
#include "store/mark.h"
#include "store/toc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Segments are freed after so many bytes moved, or so many segments. */
#define BATCH_BYTES (UINT64_C(64) << 20)
#define BATCH_SEGMENTS 64u
/* Garbage that is worth a rewrite, in percent; and any at all, when less than
 * so many percent of the array are free. */
#define GARBAGE_PERCENT 25u
#define SHORT_PERCENT 10u

struct sweep {
	struct gc *gc;
	struct frame_builder *builder;
	struct buf again;
	uint8_t *plain;
	bool space_short;
	uint64_t frees[BATCH_SEGMENTS];		/* moved or dead */
	uint64_t freed_bytes;
	size_t free_count;
	uint64_t batch_bytes;
};

/* ---- what is in it ------------------------------------------------------ */

/* A frame is live while one of its objects is. */
static int count_frame(struct gc *g, void *arg, const struct table_view *t,
    const struct table_frame *f, uint32_t first, struct err *e)
{
	struct gc_segment *seg = arg;

	(void)e;
	for (uint32_t i = 0; i < f->object_count; i++)
		if (mark_reached(g->mark, t->segment, t->base + first + i,
		    0)) {
			seg->live_bytes += f->place.size;
			break;
		}
	return 0;
}

static int count_all(struct gc *g, struct err *e)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->segments[i].candidate &&
		    gc_frames(g, g->segments[i].id, 0, UINT64_MAX,
		    count_frame, &g->segments[i], e) != 0)
			return -1;
	return 0;
}

/* What costs nothing first, then what raid wants (least redundant first), then
 * what costs least. */
static int class_of_segment(const struct gc_segment *s)
{
	return s->live_bytes == 0 ? 0 : s->wants_rewrite ? 1 : 2;
}

static int by_live(const void *a, const void *b)
{
	const struct gc_segment *x = a, *y = b;
	int c = class_of_segment(x) - class_of_segment(y);

	if (c == 0 && x->wants_rewrite)
		c = x->spare - y->spare;
	if (c != 0)
		return c;
	if (x->live_bytes != y->live_bytes)
		return x->live_bytes < y->live_bytes ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static bool worth_it(const struct sweep *w, const struct gc_segment *seg)
{
	uint64_t garbage = seg->capacity > seg->live_bytes ?
	    seg->capacity - seg->live_bytes : 0;

	if (seg->live_bytes == 0 || seg->wants_rewrite)
		return true;
	if (w->gc->mend)
		return false;
	return garbage * 100 >= seg->capacity *
	    (w->space_short ? 5 : GARBAGE_PERCENT);
}

/* ---- moving one frame --------------------------------------------------- */

/* One frame on its way; looks has its objects in order. */
struct move {
	struct sweep *w;
	const struct table_view *t;
	const struct table_frame *f;
	uint32_t first;
	struct frame_view view;
	struct looks looks;
	uint32_t live;
	bool *is_live;
};

/* Cut lock held. */
static void find_live(struct move *m)
{
	struct store *s = m->w->gc->store;

	m->live = 0;
	for (uint32_t i = 0; i < m->f->object_count; i++) {
		const struct entry *en = looks_entry(s, &m->looks, i);

		m->is_live[i] = en && en->place.segment == m->t->segment &&
		    en->ordinal == m->t->base + m->first + i;
		m->live += m->is_live[i];
	}
}

static int again_add(struct move *m, uint32_t i, struct err *e)
{
	struct frame_object o;
	struct id *refs;
	int rc;

	frame_object_at(&m->view, i, &o);
	refs = calloc(o.refs + 1u, sizeof(*refs));
	if (!refs)
		return err_set(e, ERR_NO_MEMORY, "no memory for refs");
	for (uint32_t r = 0; r < o.refs; r++)
		frame_ref_at(&m->view, o.first_ref + r, &refs[r]);
	rc = frame_builder_add(m->w->builder, &o.id, o.type,
	    m->w->plain + o.offset, o.size, refs, o.refs, e);
	free(refs);
	return rc;
}

/* The live objects alone, into w->again. */
static int make_again(struct move *m, struct err *e)
{
	if (frame_unpack(&m->view, m->w->plain, e) != 0)
		return -1;
	for (uint32_t i = 0; i < m->f->object_count; i++)
		if (m->is_live[i] && again_add(m, i, e) != 0)
			return -1;
	return frame_builder_finish(m->w->builder, m->view.codec, 0,
	    &m->w->again, e);
}

/* Cut lock held.  Entries follow their objects. */
static int repoint(struct move *m, const struct place *at,
    uint32_t ordinal, struct err *e)
{
	struct store *s = m->w->gc->store;

	for (uint32_t i = 0; i < m->f->object_count; i++) {
		struct entry *en;

		if (!m->is_live[i])
			continue;
		en = entry_copy(looks_raw(s, &m->looks, i), 0);
		if (!en)
			return err_set(e, ERR_NO_MEMORY,
			    "no memory for an entry");
		en->place = *at;
		en->ordinal = ordinal++;
		if (overlay_put(&s->pending, &m->looks.keys[i], en, e) != 0)
			return -1;
	}
	return 0;
}

/* Cut lock held. */
static int append(struct move *m, const void *data, size_t size,
    enum seg_class class, struct err *e)
{
	struct store *s = m->w->gc->store;
	struct table_object *objects = calloc(m->live, sizeof(*objects));
	struct table_frame f = { .keyspace = m->f->keyspace,
		.object_count = m->live };
	uint32_t n = 0, ordinal;
	int rc;

	if (!objects)
		return err_set(e, ERR_NO_MEMORY, "no memory for a table");
	for (uint32_t i = 0; i < m->f->object_count; i++)
		if (m->is_live[i])
			table_object_at(m->t, m->first + i, &objects[n++]);
	array_use_reserve(s->array, true);
	rc = array_append(s->array, class, data, size, toc_reserve(m->live),
	    &f.place, e);
	array_use_reserve(s->array, false);
	if (rc == 0 && (toc_add(s, &f, objects, &ordinal, e) != 0 ||
	    repoint(m, &f.place, ordinal, e) != 0)) {
		store_fail(s, e);
		rc = -1;
	}
	free(objects);
	if (rc != 0)
		return -1;
	s->pending_frames++;
	s->pending_objects += m->live;
	committer_note_pending(s);
	return 0;
}

/* The class it had: chunks are data. */
static enum seg_class class_of(const struct move *m)
{
	struct table_object o;

	for (uint32_t i = 0; i < m->f->object_count; i++) {
		table_object_at(m->t, m->first + i, &o);
		if (o.type != OBJECT_CHUNK)
			return SEG_META;
	}
	return SEG_DATA;
}

/* Takes the cut lock when it returns 0: then all live, or none, or w->again
 * holds just what lives. */
static int lock_made(struct move *m, bool *before, struct err *e)
{
	size_t size = m->f->object_count * sizeof(bool);
	struct store *s = m->w->gc->store;

	for (bool made = false;; made = true) {
		if (looks_lock(s, &m->looks, true, e) != 0)
			return -1;
		find_live(m);
		if (m->live == 0 || m->live == m->f->object_count ||
		    (made && memcmp(m->is_live, before, size) == 0))
			return 0;
		memcpy(before, m->is_live, size);
		pthread_mutex_unlock(&s->cut);
		if (make_again(m, e) != 0)
			return -1;
	}
}

static int move_live(struct move *m, const struct cached *c, bool *before,
    struct err *e)
{
	struct store *s = m->w->gc->store;
	const void *data = c->data;
	size_t size = c->size;
	int rc = 0;

	if (lock_made(m, before, e) != 0)
		return -1;
	if (m->live < m->f->object_count) {
		data = m->w->again.data;
		size = m->w->again.size;
	}
	if (m->live > 0)
		rc = append(m, data, size, class_of(m), e);
	if (m->live > 0 && rc == 0) {
		m->w->batch_bytes += size;
		m->w->gc->report->bytes_moved += size;
	}
	pthread_mutex_unlock(&s->cut);
	return rc;
}

static int move_frame(struct gc *g, void *arg, const struct table_view *t,
    const struct table_frame *f, uint32_t first, struct err *e)
{
	struct move m = { .w = arg, .t = t, .f = f, .first = first };
	struct store *s = g->store;
	struct cached *c = NULL;
	struct table_object o;
	bool *flags;
	int rc = -1;

	if (gc_cancelled(g))
		return err_set(e, ERR_CANCELLED, "cancelled");
	flags = calloc(f->object_count, 2 * sizeof(bool));
	if (!flags)
		return err_set(e, ERR_NO_MEMORY, "no memory to move a frame");
	m.is_live = flags;
	looks_init(&m.looks);
	for (uint32_t i = 0; i < f->object_count; i++) {
		table_object_at(t, first + i, &o);
		if (looks_add(&m.looks, &o.id, e) != 0)
			goto out;
	}
	if (looks_lock(s, &m.looks, false, e) != 0)
		goto out;
	find_live(&m);
	pthread_mutex_unlock(&s->cut);
	rc = 0;
	if (m.live == 0)
		goto out;
	rc = -1;
	if (cache_frame(s->cache, s->array, &f->place, &c, e) !=
	    ARRAY_READ_OK) {
		e->code = ERR_CORRUPT;	/* this segment is left alone */
		goto out;
	}
	if (frame_parse(&m.view, c->data, c->size, e) == 0)
		rc = move_live(&m, c, flags + f->object_count, e);
out:
	cache_drop(s->cache, c);
	looks_release(&m.looks);
	free(flags);
	return rc;
}

/* ---- segments ----------------------------------------------------------- */

static int free_facts(struct sweep *w, struct change *c, struct err *e)
{
	struct store *s = w->gc->store;
	struct array_position at;
	struct fact_key k;
	uint8_t floor[8];
	int rc = 0;

	/* G2: the fold before this one took the last names away. */
	if (!index_position(s->index, &at))
		return err_set(e, ERR_CORRUPT, "the index has no position");
	le64_put(floor, at.flush);
	k = key_text(KEY_FLOOR);
	if (change_put(c, k.bytes, k.size, floor, sizeof(floor), e) != 0)
		return -1;
	pthread_mutex_lock(&s->cut);
	for (size_t i = 0; i < s->quarantined.count && rc == 0; i++)
		for (size_t n = 0; n < w->free_count && rc == 0; n++) {
			const struct qplace *q = &s->quarantined.items[i];

			if (q->segment != w->frees[n])
				continue;
			k = key_quarantine(q->segment, q->ordinal);
			rc = change_put(c, k.bytes, k.size, NULL, 0, e);
		}
	pthread_mutex_unlock(&s->cut);
	return rc;
}

static void freed(struct sweep *w)
{
	struct store *s = w->gc->store;

	pthread_mutex_lock(&s->cut);
	for (size_t i = 0; i < w->free_count; i++)
		qset_drop_segment(&s->quarantined, w->frees[i]);
	pthread_mutex_unlock(&s->cut);
	for (size_t i = 0; i < w->free_count; i++)
		cache_forget(s->cache, w->frees[i]);
	w->gc->report->segments_freed += w->free_count;
	w->gc->report->bytes_freed += w->freed_bytes;
	w->free_count = 0;
	w->freed_bytes = 0;
	w->batch_bytes = 0;
}

/* What was moved becomes durable and known to the index; then the segments it
 * came from are freed. */
static int batch_end(struct sweep *w, struct err *e)
{
	struct store *s = w->gc->store;
	struct change moved, gone;
	int rc;

	if (w->free_count == 0)
		return 0;
	change_init(&moved);
	change_init(&gone);
	moved.fold = true;
	rc = change_commit(s, &moved, e);
	if (rc == 0)
		rc = free_facts(w, &gone, e);
	if (rc == 0) {
		gone.frees = w->frees;
		gone.free_count = w->free_count;
		rc = change_commit(s, &gone, e);
	}
	change_release(&moved);
	change_release(&gone);
	if (rc == 0)
		freed(w);
	return rc;
}

static bool has_quarantined_live(struct gc *g, uint64_t segment)
{
	struct store *s = g->store;
	bool found = false;

	pthread_mutex_lock(&s->cut);
	for (size_t i = 0; i < s->quarantined.count && !found; i++)
		found = s->quarantined.items[i].segment == segment &&
		    mark_reached(g->mark, segment,
		    s->quarantined.items[i].ordinal, 0);
	pthread_mutex_unlock(&s->cut);
	return found;
}

/*
 * Append its live frames anew.  The reserve holds less than a batch on a small
 * array: then what was emptied before is freed first, and gives the space for
 * the rest (what went already is not live here any more).
 */
static int segment_move(struct sweep *w, const struct gc_segment *seg,
    struct err *e)
{
	if (gc_frames(w->gc, seg->id, 0, UINT64_MAX, move_frame, w, e) == 0)
		return 0;
	if (e->code != ERR_NO_SPACE || w->free_count == 0)
		return -1;
	if (batch_end(w, e) != 0)
		return -1;
	return gc_frames(w->gc, seg->id, 0, UINT64_MAX, move_frame, w, e);
}

/* 1: no space even for the emptiest; what is left stays as it is. */
static int sweep_one(struct sweep *w, struct gc_segment *seg,
    struct err *e)
{
	struct gc *g = w->gc;
	struct err why;

	if (!worth_it(w, seg) || has_quarantined_live(g, seg->id))
		return 0;
	if (seg->live_bytes > 0) {
		if (segment_move(w, seg, &why) != 0) {
			if (why.code == ERR_CORRUPT)
				return 0;
			*e = why;
			return why.code == ERR_NO_SPACE &&
			    g->report->segments_freed > 0 ? 1 : -1;
		}
		g->report->segments_rewritten++;
	}
	w->frees[w->free_count++] = seg->id;
	w->freed_bytes += seg->used_bytes;
	if (w->free_count < BATCH_SEGMENTS && w->batch_bytes < BATCH_BYTES)
		return 0;
	return batch_end(w, e);
}

static bool space_short(struct gc *g)
{
	struct array_info info;

	array_info(g->store->array, &info);
	return info.free_bytes <
	    (info.used_bytes + info.free_bytes) / 100 * SHORT_PERCENT;
}

/* Redundancy does not take the last space from those who push.  At the
 * beginning of a batch. */
static int room_check(struct sweep *w, const struct gc_segment *seg,
    struct err *e)
{
	if (!w->gc->mend || w->free_count > 0 || seg->live_bytes == 0 ||
	    !seg->wants_rewrite || !space_short(w->gc))
		return 0;
	return err_set(e, ERR_NO_SPACE, "too little is free to write anew "
	    "what has less redundancy than it should");
}

static int sweep_all(struct sweep *w, struct err *e)
{
	struct gc *g = w->gc;
	int rc = 0;

	w->space_short = space_short(g);
	if (g->ctl)
		atomic_store(&g->ctl->total, g->count);
	for (size_t i = 0; i < g->count && rc == 0; i++) {
		if (gc_cancelled(g))
			return err_set(e, ERR_CANCELLED, "cancelled");
		if (g->segments[i].candidate) {
			if (room_check(w, &g->segments[i], e) != 0)
				return -1;
			rc = sweep_one(w, &g->segments[i], e);
		}
		if (rc < 0)
			return -1;
		/* The dead ones come first: their space is needed now. */
		if (i + 1 < g->count && g->segments[i].live_bytes == 0 &&
		    g->segments[i + 1].live_bytes > 0 &&
		    batch_end(w, e) != 0)
			return -1;
		if (g->ctl)
			atomic_store(&g->ctl->done, i + 1);
	}
	return batch_end(w, e);
}

int gc_sweep(struct gc *g, struct err *e)
{
	struct sweep w = { .gc = g };
	int rc = -1;

	if (count_all(g, e) != 0)
		return -1;
	if (g->count > 0)
		qsort(g->segments, g->count, sizeof(*g->segments), by_live);
	buf_init(&w.again, FRAME_STORED_MAX);
	w.plain = malloc(FRAME_PLAIN_MAX);
	if (!w.plain)
		err_set(e, ERR_NO_MEMORY, "no memory to sweep");
	else if (frame_builder_new(&w.builder, e) == 0)
		rc = sweep_all(&w, e);
	frame_builder_free(w.builder);
	buf_release(&w.again);
	free(w.plain);
	return rc;
}
