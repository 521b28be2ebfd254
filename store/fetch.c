/*
 * store/fetch.c - objects back to a client, as frames.
 *
 * A stored frame is sent as it is when all in it belongs to the domain and
 * enough of it is wanted; else the wanted objects are put into a new one.
 * Ids that follow each other in the request and lie in one frame are answered
 * by one frame.
 *
 * What the domain does not own is answered like what does not exist (S3).
 * A place whose segment was freed meanwhile is looked up again: collection
 * moved the object.
 */
#include "store/store.h"

#include "base/buf.h"
#include "proto/fmt_frame.h"
#include "store/cache.h"
#include "store/impl.h"
#include "store/looks.h"

#include <stdlib.h>
#include <string.h>

#define TRIES 4		/* of look-up and read, for freed segments */

struct fetch {
	struct store_session *ss;
	const struct id *ids;
	size_t count;
	const struct fetch_ops *ops;
	struct looks looks;
	uint8_t *plain;
	struct frame_builder *builder;
	struct buf out;
};

/* Places of ids[from..from+n): `last` 0 = not there for this domain. */
static int places_of(struct fetch *f, size_t from, size_t n,
    struct place *places, struct err *e)
{
	struct store *s = f->ss->store;

	looks_reset(&f->looks);
	for (size_t i = 0; i < n; i++)
		if (looks_add(&f->looks, &f->ids[from + i], e) != 0)
			return -1;
	if (looks_lock(s, &f->looks, false, e) != 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const struct entry *en = looks_raw(s, &f->looks, i);

		places[i] = (struct place){ .last = 0 };
		if (!en || !entry_owned(en, f->ss->client.domain))
			continue;
		en = looks_durable(s, &f->looks, i);
		if (!en)
			continue;
		places[i] = en->place;
		if (entry_quarantined(s, en))
			places[i].size = 0;
	}
	pthread_mutex_unlock(&s->cut);
	return 0;
}

static int tell_lost(struct fetch *f, const struct id *id,
    const struct err *why, struct err *e)
{
	return f->ops->lost(f->ops->arg, id, why, e);
}

static bool same_frame(const struct place *a, const struct place *b)
{
	return a->segment == b->segment && a->row == b->row &&
	    a->offset == b->offset;
}

/* ---- one frame ---------------------------------------------------------- */

/* Does all of the frame belong to the domain? */
static int owns_all(struct fetch *f, const struct frame_view *v, bool *all,
    struct err *e)
{
	struct store *s = f->ss->store;
	struct frame_object o;

	*all = true;
	looks_reset(&f->looks);
	for (uint32_t i = 0; i < v->object_count; i++) {
		frame_object_at(v, i, &o);
		if (looks_add(&f->looks, &o.id, e) != 0)
			return -1;
	}
	if (looks_lock(s, &f->looks, false, e) != 0)
		return -1;
	for (size_t i = 0; i < f->looks.count && *all; i++) {
		const struct entry *en = looks_raw(s, &f->looks, i);

		*all = en && entry_owned(en, f->ss->client.domain);
	}
	pthread_mutex_unlock(&s->cut);
	return 0;
}

static bool object_find(const struct frame_view *v, const struct id *id,
    struct frame_object *out)
{
	for (uint32_t i = 0; i < v->object_count; i++) {
		frame_object_at(v, i, out);
		if (id_equal(&out->id, id))
			return true;
	}
	return false;
}

static int builder_flush(struct fetch *f, struct err *e)
{
	if (frame_builder_objects(f->builder) == 0)
		return 0;
	if (frame_builder_finish(f->builder, CODEC_LZ4, 0, &f->out, e) != 0)
		return -1;
	return f->ops->frame(f->ops->arg, f->out.data, f->out.size, e);
}

static int builder_take(struct fetch *f, const struct frame_view *v,
    const struct frame_object *o, struct err *e)
{
	struct id *refs = calloc(o->refs + 1u, sizeof(*refs));
	int rc = -1;

	if (!refs)
		return err_set(e, ERR_NO_MEMORY, "no memory for refs");
	for (uint32_t r = 0; r < o->refs; r++)
		frame_ref_at(v, o->first_ref + r, &refs[r]);
	if (frame_builder_fits(f->builder, o->size, o->refs,
	    FRAME_PLAIN_MAX) || builder_flush(f, e) == 0)
		rc = frame_builder_add(f->builder, &o->id, o->type,
		    f->plain + o->offset, o->size, refs, o->refs, e);
	free(refs);
	return rc;
}

/* ids[from..from+n) out of this frame, in a new one. */
static int regroup(struct fetch *f, const struct frame_view *v, size_t from,
    size_t n, struct err *e)
{
	struct frame_object o;
	struct err why;

	if (frame_unpack(v, f->plain, e) != 0)
		return -1;
	for (size_t i = from; i < from + n; i++) {
		if (object_find(v, &f->ids[i], &o)) {
			if (builder_take(f, v, &o, e) != 0)
				return -1;
			continue;
		}
		err_set(&why, ERR_CORRUPT,
		    "the object is not where the index says");
		if (tell_lost(f, &f->ids[i], &why, e) != 0)
			return -1;
	}
	return builder_flush(f, e);
}

/* Sending more than twice what was asked for is not cheap. */
static bool worth_whole(struct fetch *f, const struct frame_view *v,
    size_t from, size_t n)
{
	struct frame_object o;
	uint64_t wanted = 0;

	for (size_t i = from; i < from + n; i++) {
		if (!object_find(v, &f->ids[i], &o))
			return false;
		wanted += o.size;
	}
	return wanted * 2 >= v->plain_size;
}

static int give(struct fetch *f, const struct cached *c, size_t from,
    size_t n, struct err *e)
{
	struct frame_view v;
	bool whole;

	if (frame_parse(&v, c->data, c->size, e) != 0)
		return -1;
	whole = worth_whole(f, &v, from, n);
	if (whole && owns_all(f, &v, &whole, e) != 0)
		return -1;
	if (whole)
		return f->ops->frame(f->ops->arg, c->data, c->size, e);
	return regroup(f, &v, from, n, e);
}

/* ---- the request -------------------------------------------------------- */

static int lose_run(struct fetch *f, size_t from, size_t n,
    const struct err *why, struct err *e)
{
	for (size_t i = from; i < from + n; i++)
		if (tell_lost(f, &f->ids[i], why, e) != 0)
			return -1;
	return 0;
}

/* The ids from `from` on that lie in one frame: *n of them.  1 if they have to
 * be looked up again. */
static int fetch_run(struct fetch *f, size_t from, size_t n,
    const struct place *at, struct err *e)
{
	struct store *s = f->ss->store;
	struct cached *c;
	struct err why;
	int rc;

	if (at->last == 0) {
		err_set(&why, ERR_NOT_FOUND, "no such object");
		return lose_run(f, from, n, &why, e);
	}
	if (at->size == 0) {
		err_set(&why, ERR_CORRUPT, "the object is damaged");
		return lose_run(f, from, n, &why, e);
	}
	switch (cache_frame(s->cache, s->array, at, &c, &why)) {
	case ARRAY_READ_OK:
		rc = give(f, c, from, n, e);
		cache_drop(s->cache, c);
		return rc;
	case ARRAY_READ_FREED:
		return 1;
	case ARRAY_READ_DAMAGED:
		why.code = ERR_CORRUPT;
		break;
	case ARRAY_READ_UNAVAILABLE:
		why.code = ERR_UNAVAILABLE;
		break;
	}
	return lose_run(f, from, n, &why, e);
}

/* How many places from `from` on are in the same frame. */
static size_t run_length(const struct place *p, size_t from, size_t count)
{
	size_t n = 1;

	while (from + n < count && (p[from].last != 0) ==
	    (p[from + n].last != 0) && (p[from].size == 0) ==
	    (p[from + n].size == 0) && same_frame(&p[from], &p[from + n]))
		n++;
	return n;
}

/* Some ids again, because collection moved them. */
static int fetch_again(struct fetch *f, size_t from, size_t n,
    struct err *e)
{
	struct err why;
	struct place at;
	int rc = 1;

	for (size_t i = from; i < from + n; i++) {
		for (unsigned try = 0; try < TRIES && rc == 1; try++) {
			if (places_of(f, i, 1, &at, e) != 0)
				return -1;
			rc = fetch_run(f, i, 1, &at, e);
		}
		if (rc == 1) {
			err_set(&why, ERR_UNAVAILABLE,
			    "the object moves too often");
			rc = tell_lost(f, &f->ids[i], &why, e);
		}
		if (rc != 0)
			return rc;
		rc = 1;
	}
	return 0;
}

static int fetch_all(struct fetch *f, struct place *places, struct err *e)
{
	size_t n;
	int rc;

	if (places_of(f, 0, f->count, places, e) != 0)
		return -1;
	for (size_t at = 0; at < f->count; at += n) {
		n = run_length(places, at, f->count);
		rc = fetch_run(f, at, n, &places[at], e);
		if (rc == 1)
			rc = fetch_again(f, at, n, e);
		if (rc != 0)
			return -1;
	}
	return 0;
}

int store_fetch(struct store_session *ss, const struct id *ids,
    size_t count, const struct fetch_ops *ops, struct err *e)
{
	struct fetch f = { .ss = ss, .ids = ids, .count = count,
		.ops = ops };
	struct place *places = calloc(count + 1, sizeof(*places));
	int rc = -1;

	looks_init(&f.looks);
	buf_init(&f.out, FRAME_STORED_MAX);
	f.plain = malloc(FRAME_PLAIN_MAX);
	if (!places || !f.plain)
		err_set(e, ERR_NO_MEMORY, "no memory to fetch");
	else if (frame_builder_new(&f.builder, e) == 0)
		rc = fetch_all(&f, places, e);
	looks_release(&f.looks);
	buf_release(&f.out);
	frame_builder_free(f.builder);
	free(f.plain);
	free(places);
	return rc;
}
