/*
 * store/redo.c - a flush that lost a member, once more without it.
 *
 * THE ORDER
 *
 *   array_flush_or_redo said 1 --> tables of the segments concerned are taken
 *   away, `flushing` goes back to `pending`, intake waits --> frame by frame:
 *   read back (no lock), judged by its hash; appended, noted in a table, and
 *   its entries follow it (cut lock) --> the next flush holds all of it
 *
 *   Frames appended while the flush ran lie in the same segments, and are
 *   moved with the others.
 *
 * INVARIANTS   (tests/store/test_redo.c)
 *
 *   O1  No entry of an overlay names a row that was given up.
 *   O2  Who has pinned the old segment has pinned the new one.
 *   O3  Tables stay within their bounds: what is flushed and what is pending
 *       is counted together (commit.c), so it fits one flush.
 */
#include "store/redo.h"

#include "proto/fmt_frame.h"
#include "store/impl.h"
#include "store/toc.h"

#include <inttypes.h>
#include <stdlib.h>

struct redo {
	struct store *store;
	struct toc *tocs;	/* of the segments given up */
	uint8_t *data;		/* one frame */
};

/* A frame on its way. */
struct carried {
	const struct table_view *table;
	struct table_frame frame;	/* with its old place */
	struct table_object *objects;
	uint32_t first;			/* number of the first in the table */
};

static bool frame_right(void *arg, const void *data, size_t size)
{
	(void)arg;
	return frame_hash_ok(data, size);
}

static enum seg_class class_of(const struct carried *c)
{
	for (uint32_t i = 0; i < c->frame.object_count; i++)
		if (c->objects[i].type != OBJECT_CHUNK)
			return SEG_META;
	return SEG_DATA;
}

/* ---- under the cut lock ------------------------------------------------- */

static void entries_follow(struct store *s, const struct carried *c,
    const struct place *at, uint32_t ordinal)
{
	uint32_t old = c->table->base + c->first;
	struct entry *en;
	struct key k;

	for (uint32_t i = 0; i < c->frame.object_count; i++) {
		key_of(&k, c->frame.keyspace, &c->objects[i].id);
		en = overlay_find(&s->pending, &k);
		if (!en || en->place.segment != c->table->segment ||
		    en->ordinal != old + i)
			continue;
		en->place = *at;
		en->ordinal = ordinal + i;
	}
}

static int pins_follow(struct store *s, uint64_t from, uint64_t to,
    struct err *e)
{
	for (struct store_session *ss = s->sessions; ss; ss = ss->next)
		if (segset_has(&ss->pins, from) &&
		    segset_add(&ss->pins, to, e) != 0)
			return -1;
	for (struct linger *l = s->lingers; l; l = l->next)
		if (segset_has(&l->pins, from) &&
		    segset_add(&l->pins, to, e) != 0)
			return -1;
	return 0;
}

static int carry_locked(struct redo *r, const struct carried *c,
    struct err *e)
{
	struct store *s = r->store;
	struct table_frame f = c->frame;
	uint32_t ordinal;
	int rc;

	if (s->failed) {
		*e = s->failure;
		return -1;
	}
	array_use_reserve(s->array, true);
	rc = array_append(s->array, class_of(c), r->data, f.place.size,
	    toc_reserve(f.object_count), &f.place, e);
	array_use_reserve(s->array, false);
	if (rc != 0 || toc_add(s, &f, c->objects, &ordinal, e) != 0)
		return -1;
	entries_follow(s, c, &f.place, ordinal);
	return pins_follow(s, c->table->segment, f.place.segment, e);
}

/* ---- without locks ------------------------------------------------------ */

static int carry(struct redo *r, struct carried *c, struct err *e)
{
	struct store *s = r->store;
	int rc;

	c->objects = calloc(c->frame.object_count, sizeof(*c->objects));
	if (!c->objects)
		return err_set(e, ERR_NO_MEMORY, "no memory for a table");
	for (uint32_t i = 0; i < c->frame.object_count; i++)
		table_object_at(c->table, c->first + i, &c->objects[i]);
	if (array_redo_read(s->array, &c->frame.place, r->data, frame_right,
	    NULL, e) != ARRAY_READ_OK) {
		rc = -1;
	} else {
		pthread_mutex_lock(&s->cut);
		rc = carry_locked(r, c, e);
		pthread_mutex_unlock(&s->cut);
	}
	free(c->objects);
	return rc;
}

static int carry_table(struct redo *r, const struct table_view *t,
    struct err *e)
{
	struct carried c = { .table = t };

	for (uint32_t i = 0; i < t->frame_count; i++) {
		table_frame_at(t, i, &c.frame);
		if (carry(r, &c, e) != 0)
			return err_add(e, "read back from segment %" PRIu64,
			    t->segment);
		c.first += c.frame.object_count;
	}
	return 0;
}

static int carry_all(struct redo *r, struct err *e)
{
	struct table_view parts[2];

	for (const struct toc *t = r->tocs; t; t = t->next) {
		toc_views(t, parts);
		if (carry_table(r, &parts[0], e) != 0 ||
		    carry_table(r, &parts[1], e) != 0)
			return -1;
	}
	return 0;
}

/* ---- the whole ---------------------------------------------------------- */

static void tocs_take(struct redo *r)
{
	struct toc **at = &r->store->tocs;

	while (*at) {
		struct toc *t = *at;

		if (!array_redo_wants(r->store->array, t->segment)) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		t->next = r->tocs;
		r->tocs = t;
	}
}

/* What came later is newer. */
static void overlay_back(struct store *s)
{
	overlay_merge(&s->flushing, &s->pending);
	overlay_merge(&s->pending, &s->flushing);
	s->pending_frames += s->flushing_frames;
	s->pending_objects += s->flushing_objects;
	s->flushing_frames = s->flushing_objects = 0;
}

int store_redo(struct store *s, struct err *e)
{
	struct redo r = { .store = s, .data = malloc(RAID_FRAME_MAX) };
	int rc = -1;

	tocs_take(&r);
	array_redo_close(s->array);
	overlay_back(s);
	s->redoing = true;
	pthread_mutex_unlock(&s->cut);
	if (r.data)
		rc = carry_all(&r, e);
	else
		err_set(e, ERR_NO_MEMORY, "no memory for a frame");
	if (rc == 0)
		array_redo_end(s->array);
	while (r.tocs) {
		struct toc *t = r.tocs;

		r.tocs = t->next;
		toc_free(t);
	}
	free(r.data);
	pthread_mutex_lock(&s->cut);
	s->redoing = false;
	pthread_cond_broadcast(&s->done);
	return rc;
}
