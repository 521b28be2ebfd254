/* store/gc_mark.c - seal, watch, settle, mark, condemn; see gc.c. */
#include "store/gc_impl.h"

#include "proto/fmt_frame.h"
#include "store/cache.h"
#include "store/commit.h"
#include "store/impl.h"
#include "store/looks.h"
#include "store/mark.h"
#include "store/roots.h"
#include "store/session.h"
#include "store/toc.h"

#include <inttypes.h>
#include <stdlib.h>

#define SEGMENTS_AT_ONCE 256

/* A flush, folded; its number. */
static int flush_now(struct store *s, bool seal, uint64_t *flush,
    struct err *e)
{
	struct change c;
	int rc;

	change_init(&c);
	c.seal = seal;
	c.fold = true;
	rc = change_commit(s, &c, e);
	*flush = c.flush;
	change_release(&c);
	return rc;
}

/* ---- watch -------------------------------------------------------------- */

static int segment_add(struct gc *g, uint64_t id, struct err *e)
{
	struct segment_info info;
	struct gc_segment *more;
	struct table_view v;
	uint8_t *raw;

	if (array_segment(g->store->array, id, &info, e) != 0)
		return -1;
	if (!info.sealed || info.table.size == 0 ||
	    info.last_flush > g->sealed_flush)
		return 0;
	if (g->count == g->cap) {
		g->cap = g->cap ? g->cap * 2 : 64;
		more = realloc(g->segments, g->cap * sizeof(*more));
		if (!more)
			return err_set(e, ERR_NO_MEMORY,
			    "no memory for segments");
		g->segments = more;
	}
	if (toc_read(g->store, &info.table, &raw, &v, e) != 0)
		return -1;
	free(raw);
	g->segments[g->count++] = (struct gc_segment){
		.id = id, .objects = v.base + v.object_count,
		.wants_rewrite = info.wants_rewrite,
		.spare = info.parity - info.away,
		.capacity = info.capacity, .used_bytes = info.used_bytes };
	return 0;
}

static int segments_find(struct gc *g, struct err *e)
{
	uint64_t ids[SEGMENTS_AT_ONCE], after = 0;
	size_t n;

	while ((n = array_segments(g->store->array, after, ids,
	    SEGMENTS_AT_ONCE)) > 0) {
		for (size_t i = 0; i < n; i++)
			if (segment_add(g, ids[i], e) != 0)
				return -1;
		after = ids[n - 1];
	}
	return 0;
}

/* Which of them nobody pins, now, under the lock that pins are taken with;
 * and from now on whoever names something says so. */
static int watch(struct gc *g, struct err *e)
{
	struct store *s = g->store;

	if (mark_new(&g->mark, s, e) != 0 ||
	    roots_domains(s, g->mark, e) != 0)
		return -1;
	for (size_t i = 0; i < g->count; i++)
		if (mark_segment(g->mark, g->segments[i].id,
		    g->segments[i].objects, e) != 0)
			return -1;
	if (mark_ready(g->mark, e) != 0)
		return -1;
	pthread_mutex_lock(&s->cut);
	lingers_drop(s, NULL);
	for (size_t i = 0; i < g->count; i++) {
		struct gc_segment *seg = &g->segments[i];

		seg->candidate = !segment_pinned(s, seg->id);
		if (seg->candidate)
			mark_candidate(g->mark, seg->id);
	}
	s->mark = g->mark;
	pthread_mutex_unlock(&s->cut);
	return 0;
}

/* ---- roots besides the snapshots ---------------------------------------- */

/* A page in a segment that is no candidate: it stays, so what it names does,
 * for each of its owners. */
static int touch_page(struct gc *g, const struct table_view *t,
    uint32_t object, struct err *e)
{
	struct store *s = g->store;
	struct table_object o;
	struct looks l;
	int rc = -1;

	table_object_at(t, object, &o);
	if (!object_has_refs((enum object_type)o.type))
		return 0;
	looks_init(&l);
	if (looks_add(&l, &o.id, e) == 0 &&
	    looks_lock(s, &l, false, e) == 0) {
		const struct entry *en = looks_raw(s, &l, 0);

		rc = 0;
		if (en && en->place.segment == t->segment &&
		    en->ordinal == t->base + object)
			for (uint32_t i = 0; i < en->owner_count && rc == 0;
			    i++)
				rc = mark_touch_page(g->mark, &l.keys[0], en,
				    en->owners[i], e);
		pthread_mutex_unlock(&s->cut);
	}
	looks_release(&l);
	return rc;
}

static int touch_frame(struct gc *g, void *arg, const struct table_view *t,
    const struct table_frame *f, uint32_t first, struct err *e)
{
	(void)arg;
	if (gc_cancelled(g))
		return err_set(e, ERR_CANCELLED, "cancelled");
	for (uint32_t i = 0; i < f->object_count; i++)
		if (touch_page(g, t, first + i, e) != 0)
			return -1;
	return 0;
}

static bool is_candidate(const struct gc *g, uint64_t id)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->segments[i].id == id)
			return g->segments[i].candidate;
	return false;
}

/* All pages that are no candidates: of pinned segments, and of those begun
 * since the seal (what comes after the settling flush was touched when it
 * was accepted). */
static int touch_others(struct gc *g, struct err *e)
{
	uint64_t ids[SEGMENTS_AT_ONCE], after = 0;
	size_t n;

	while ((n = array_segments(g->store->array, after, ids,
	    SEGMENTS_AT_ONCE)) > 0) {
		for (size_t i = 0; i < n; i++) {
			struct segment_info info;

			if (array_segment(g->store->array, ids[i], &info,
			    e) != 0)
				return -1;
			if (is_candidate(g, ids[i]) || info.table.size == 0 ||
			    info.class != SEG_META)
				continue;
			if (gc_frames(g, ids[i], 0, g->marked_flush,
			    touch_frame, NULL, e) != 0)
				return -1;
		}
		after = ids[n - 1];
	}
	return 0;
}

/* ---- mark and condemn --------------------------------------------------- */

static int read_check(const struct mark_result *r, struct err *e)
{
	if (r->away > 0)
		return err_set(e, ERR_UNAVAILABLE, "%" PRIu64 " pages are on "
		    "members that are away: nothing was collected", r->away);
	if (r->damaged > 0)
		return err_set(e, ERR_CORRUPT, "%" PRIu64 " pages cannot be "
		    "read: run verify; nothing was collected", r->damaged);
	return 0;
}

static int run_to_end(struct gc *g, struct err *e)
{
	struct mark_result r = { .pages = 0 };
	bool done = false;

	while (!done) {
		if (mark_run(g->mark, &r, g->ctl, e) != 0 ||
		    read_check(&r, e) != 0)
			return -1;
		pthread_mutex_lock(&g->store->cut);
		done = mark_condemn(g->mark);
		pthread_mutex_unlock(&g->store->cut);
	}
	return 0;
}

int gc_mark(struct gc *g, struct err *e)
{
	uint64_t lost = 0;

	if (flush_now(g->store, true, &g->sealed_flush, e) != 0 ||
	    segments_find(g, e) != 0 || watch(g, e) != 0 ||
	    flush_now(g->store, false, &g->marked_flush, e) != 0)
		return -1;
	if (roots_touch(g->store, g->mark, &lost, e) != 0 ||
	    touch_others(g, e) != 0)
		return -1;
	return run_to_end(g, e);
}
