/*
 * store/intake.c - one frame from a client becomes stored objects.
 *
 * THE PROMISE
 *
 *   Nothing enters the store whose bytes were not checked against its id, and
 *   no page whose refs are not all there, whole, and the domain's own (S2).
 *   What another domain stored is not stored twice, but the bytes must have
 *   been sent first, and the answers are the same as if it were not there
 *   (S3).
 *
 * THE ORDER
 *
 *   without locks   bounds, hash, unpack, ids; LMDB look-ups
 *   cut lock        classify by the overlays; pages: refs; then pins, marks,
 *                   append, table, overlay
 *
 *   A frame of which a part is there already is made anew from the rest, which
 *   is compression and so not done under the lock: the classes are taken, the
 *   lock is given up, and after the second taking they must be the same.
 *   If they differ too often, the whole frame is stored: duplicate bytes are
 *   harmless, for an id has one place.
 *
 * INVARIANTS
 *
 *   I1  C2 of commit.c: a page gets an owner together with the complete bit,
 *       and only when all its refs are present for that owner.
 *   I2  An object that was quarantined and comes again keeps its owners: what
 *       was lost to them is there again.
 */
#include "store/store.h"

#include "proto/fmt_frame.h"
#include "store/commit.h"
#include "store/impl.h"
#include "store/looks.h"
#include "store/mark.h"
#include "store/session.h"
#include "store/toc.h"

#include <stdlib.h>
#include <string.h>

#define RETRIES 3
#define IN_FRAME UINT32_MAX	/* a ref to an earlier object of the frame */

enum class {
	CLASS_NEW = 1,	/* not there, or not good: store it */
	CLASS_KNOWN,	/* present for the domain already */
	CLASS_ADOPT,	/* there and good, but not (wholly) the domain's */
	CLASS_TWICE,	/* an earlier object of this frame */
};

struct intake {
	struct store_session *ss;
	const void *frame;
	size_t size;
	struct frame_view view;
	struct looks looks;	/* objects, then refs that are not in it */
	uint32_t *ref_look;	/* per ref: index into looks, or IN_FRAME */
	uint8_t *class, *class_before;
	struct id *missing;
	size_t missing_max, *missing_count;
};

/* ---- without locks ------------------------------------------------------ */

static int unpack(struct intake *in, struct err *e)
{
	struct store_session *ss = in->ss;
	struct frame_view *v = &in->view;

	if (!ss->plain)
		ss->plain = malloc(FRAME_PLAIN_MAX);
	if (!ss->plain)
		return err_set(e, ERR_NO_MEMORY, "no memory for a frame");
	if (frame_parse(v, in->frame, in->size, e) != 0)
		return -1;
	if (v->keyspace != KEYSPACE_PLAIN || v->epoch != 0)
		return err_set(e, ERR_VERSION,
		    "encrypted frames are not known to this program");
	if (!frame_hash_ok(in->frame, in->size))
		return err_set(e, ERR_CORRUPT,
		    "a frame arrived with a wrong hash");
	if (frame_unpack(v, ss->plain, e) != 0)
		return -1;
	return frame_check_objects(v, ss->plain, e);
}

/* A frame that is wrong is its sender's fault: nothing is damaged here. */
static int unpack_from_peer(struct intake *in, struct err *e)
{
	if (unpack(in, e) == 0)
		return 0;
	if (e->code == ERR_CORRUPT)
		e->code = ERR_PROTOCOL;
	return -1;
}

struct sort_item {
	struct id id;
	uint32_t number;
};

static int by_id(const void *a, const void *b)
{
	const struct sort_item *x = a, *y = b;
	int c = memcmp(x->id.bytes, y->id.bytes, ID_SIZE);

	if (c != 0)
		return c;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* The first object of the frame with this id; `count` if none. */
static uint32_t find_in(const struct sort_item *items, uint32_t count,
    const struct id *id)
{
	uint32_t low = 0, high = count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;

		if (memcmp(items[mid].id.bytes, id->bytes, ID_SIZE) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	if (low < count && id_equal(&items[low].id, id))
		return items[low].number;
	return count;
}

/* Refs of object `i`: to an earlier object of the frame, or to be looked
 * up. */
static int refs_sort_out(struct intake *in, const struct frame_object *o,
    uint32_t i, const struct sort_item *items, struct err *e)
{
	for (uint32_t r = o->first_ref; r < o->first_ref + o->refs; r++) {
		struct id id;

		frame_ref_at(&in->view, r, &id);
		if (find_in(items, in->view.object_count, &id) < i) {
			in->ref_look[r] = IN_FRAME;
			continue;
		}
		in->ref_look[r] = (uint32_t)in->looks.count;
		if (looks_add(&in->looks, &id, e) != 0)
			return -1;
	}
	return 0;
}

static int objects_sort_out(struct intake *in, struct sort_item *items,
    struct err *e)
{
	const struct frame_view *v = &in->view;
	struct frame_object o;

	for (uint32_t i = 0; i < v->object_count; i++) {
		frame_object_at(v, i, &o);
		items[i] = (struct sort_item){ o.id, i };
		if (looks_add(&in->looks, &o.id, e) != 0)
			return -1;
	}
	qsort(items, v->object_count, sizeof(*items), by_id);
	for (uint32_t i = 0; i < v->object_count; i++) {
		frame_object_at(v, i, &o);
		if (find_in(items, v->object_count, &o.id) < i)
			in->class[i] = CLASS_TWICE;
		if (refs_sort_out(in, &o, i, items, e) != 0)
			return -1;
	}
	return 0;
}

static int prepare(struct intake *in, struct err *e)
{
	uint32_t objects = in->view.object_count, refs = in->view.ref_count;
	struct sort_item *items = malloc(objects * sizeof(*items));
	int rc = -1;

	in->class = calloc(2, objects);
	in->ref_look = calloc(refs + 1u, sizeof(uint32_t));
	if (!items || !in->class || !in->ref_look) {
		err_set(e, ERR_NO_MEMORY, "no memory for a frame's tables");
	} else {
		in->class_before = in->class + objects;
		rc = objects_sort_out(in, items, e);
	}
	free(items);
	return rc;
}

/* ---- under the cut lock: judging ---------------------------------------- */

static void classify(struct intake *in)
{
	struct store *s = in->ss->store;
	uint32_t domain = in->ss->client.domain;

	for (uint32_t i = 0; i < in->view.object_count; i++) {
		const struct entry *en = looks_entry(s, &in->looks, i);

		if (in->class[i] == CLASS_TWICE)
			continue;
		if (!en)
			in->class[i] = CLASS_NEW;
		else if (entry_present(s, en, domain))
			in->class[i] = CLASS_KNOWN;
		else
			in->class[i] = CLASS_ADOPT;
	}
}

static void note_missing(struct intake *in, uint32_t ref)
{
	if (*in->missing_count < in->missing_max)
		frame_ref_at(&in->view, ref,
		    &in->missing[(*in->missing_count)++]);
}

/* Are all refs there for the domain?  0, or 1 with the missing noted. */
static int closure(struct intake *in)
{
	struct store *s = in->ss->store;
	uint32_t domain = in->ss->client.domain;
	int rc = 0;

	*in->missing_count = 0;
	for (uint32_t r = 0; r < in->view.ref_count; r++) {
		const struct entry *en;

		if (in->ref_look[r] == IN_FRAME)
			continue;
		en = looks_entry(s, &in->looks, in->ref_look[r]);
		if (en && entry_present(s, en, domain))
			continue;
		note_missing(in, r);
		rc = 1;
	}
	return rc;
}

static int rely_on(struct intake *in, size_t look, struct err *e)
{
	struct store_session *ss = in->ss;
	struct store *s = ss->store;
	const struct entry *en = looks_entry(s, &in->looks, look);

	if (session_pin(ss, &en->place, e) != 0)
		return -1;
	return s->mark ? mark_touch(s->mark, &in->looks.keys[look], en,
	    ss->client.domain, e) : 0;
}

/* Pin and mark all that this frame makes the session rely on. */
static int rely_on_all(struct intake *in, struct err *e)
{
	for (uint32_t i = 0; i < in->view.object_count; i++)
		if ((in->class[i] == CLASS_KNOWN ||
		    in->class[i] == CLASS_ADOPT) && rely_on(in, i, e) != 0)
			return -1;
	for (uint32_t r = 0; r < in->view.ref_count; r++)
		if (in->ref_look[r] != IN_FRAME &&
		    rely_on(in, in->ref_look[r], e) != 0)
			return -1;
	return 0;
}

/* ---- under the cut lock: taking ----------------------------------------- */

static int overlay_set(struct store *s, const struct key *k,
    struct entry *en, struct err *e)
{
	if (!en)
		return err_set(e, ERR_NO_MEMORY, "no memory for an entry");
	committer_note_pending(s);
	return overlay_put(&s->pending, k, en, e);
}

/* There and good; from now on the domain's too. */
static int adopt(struct intake *in, uint32_t i, struct err *e)
{
	struct store *s = in->ss->store;
	struct entry *en = entry_copy(looks_entry(s, &in->looks, i),
	    in->ss->client.domain);

	if (en && object_has_refs((enum object_type)en->type))
		en->flags |= ENTRY_COMPLETE;
	return overlay_set(s, &in->looks.keys[i], en, e);
}

static struct entry *entry_of_new(struct intake *in, uint32_t i,
    const struct frame_object *o, const struct place *at, uint32_t ordinal)
{
	const struct entry *old = looks_raw(in->ss->store, &in->looks, i);
	struct entry *en;

	if (old && entry_quarantined(in->ss->store, old)) {	/* I2 */
		en = entry_copy(old, in->ss->client.domain);
	} else {
		en = entry_new(1);
		if (en) {
			en->owners[0] = in->ss->client.domain;
			en->owner_count = 1;
		}
	}
	if (!en)
		return NULL;
	en->place = *at;
	en->ordinal = ordinal;
	en->size = o->size;
	en->type = (uint8_t)o->type;
	en->flags = object_has_refs(o->type) ? ENTRY_COMPLETE : 0;
	return en;
}

/* Table and overlay for the frame `v` that was stored: all of the intake's
 * objects, or only the new ones. */
static int objects_insert(struct intake *in, const struct frame_view *v,
    const struct place *at, struct err *e)
{
	struct store *s = in->ss->store;
	struct table_frame f = { .place = *at,
		.domain = in->ss->client.domain,
		.keyspace = KEYSPACE_PLAIN, .object_count = v->object_count };
	struct table_object *objects;
	struct frame_object o;
	uint32_t ordinal, taken = 0;
	int rc;

	objects = calloc(v->object_count, sizeof(*objects));
	if (!objects)
		return err_set(e, ERR_NO_MEMORY, "no memory for a table");
	for (uint32_t i = 0; i < v->object_count; i++) {
		frame_object_at(v, i, &o);
		objects[i] = (struct table_object){ o.id, o.size,
			(uint8_t)o.type };
	}
	rc = toc_add(s, &f, objects, &ordinal, e);
	free(objects);
	for (uint32_t i = 0; i < in->view.object_count && rc == 0; i++) {
		bool whole = v->object_count == in->view.object_count;

		frame_object_at(&in->view, i, &o);
		if (in->class[i] == CLASS_NEW)
			rc = overlay_set(s, &in->looks.keys[i], entry_of_new(
			    in, i, &o, at, ordinal + taken), e);
		taken += whole || in->class[i] == CLASS_NEW;
	}
	s->pending_frames++;
	s->pending_objects += v->object_count;
	return rc;
}

static enum seg_class class_of(const struct frame_view *v)
{
	struct frame_object o;

	for (uint32_t i = 0; i < v->object_count; i++) {
		frame_object_at(v, i, &o);
		if (o.type != OBJECT_CHUNK)
			return SEG_META;
	}
	return SEG_DATA;
}

/* Append the bytes and note what is in them.  Once they lie in the segment
 * they must be in its table, else nothing can be trusted any more. */
static int store_frame(struct intake *in, const void *data, size_t size,
    struct err *e)
{
	struct store *s = in->ss->store;
	struct frame_view v;
	struct place at;

	if (frame_parse(&v, data, size, e) != 0 || array_append(s->array,
	    class_of(&v), data, size, toc_reserve(v.object_count), &at,
	    e) != 0)
		return -1;
	if (session_pin(in->ss, &at, e) != 0 ||
	    objects_insert(in, &v, &at, e) != 0) {
		store_fail(s, e);
		return -1;
	}
	in->ss->stored_bytes += size;
	committer_note_pending(s);
	return 0;
}

/* A domain that brings what only others have is refused for lack of space as
 * if it had to be stored. */
static int space_check(struct intake *in, struct err *e)
{
	struct store *s = in->ss->store;
	bool adopts = false;

	for (uint32_t i = 0; i < in->view.object_count; i++)
		adopts |= in->class[i] == CLASS_ADOPT;
	if (!adopts || s->free_bytes >= in->size)
		return 0;
	return err_set(e, ERR_NO_SPACE, "the array is full");
}

/* Counted before it is known whether others have it: plain bytes that the
 * domain did not have. */
static int quota_check(struct intake *in, uint64_t *fresh, struct err *e)
{
	struct store_session *ss = in->ss;
	struct frame_object o;

	*fresh = 0;
	for (uint32_t i = 0; i < in->view.object_count; i++) {
		frame_object_at(&in->view, i, &o);
		if (in->class[i] == CLASS_NEW || in->class[i] == CLASS_ADOPT)
			*fresh += o.size;
	}
	if (ss->client.quota == 0 || *fresh == 0 || ss->used_bytes +
	    ss->new_bytes + *fresh <= ss->client.quota)
		return 0;
	return err_set(e, ERR_NO_SPACE,
	    "the quota of client %s is used up", ss->client.name);
}

static int adopt_all(struct intake *in, struct err *e)
{
	for (uint32_t i = 0; i < in->view.object_count; i++)
		if (in->class[i] == CLASS_ADOPT && adopt(in, i, e) != 0)
			return -1;
	return 0;
}

static uint32_t count_new(const struct intake *in)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < in->view.object_count; i++)
		n += in->class[i] == CLASS_NEW;
	return n;
}

/* ---- a part of the frame ------------------------------------------------ */

static int again_add(struct intake *in, const struct frame_object *o,
    struct err *e)
{
	struct id *refs = calloc(o->refs + 1u, sizeof(*refs));
	int rc;

	if (!refs)
		return err_set(e, ERR_NO_MEMORY, "no memory for refs");
	for (uint32_t r = 0; r < o->refs; r++)
		frame_ref_at(&in->view, o->first_ref + r, &refs[r]);
	rc = frame_builder_add(in->ss->builder, &o->id, o->type,
	    in->ss->plain + o->offset, o->size, refs, o->refs, e);
	free(refs);
	return rc;
}

/* A frame of the new objects alone, into ss->again. */
static int make_again(struct intake *in, struct err *e)
{
	struct store_session *ss = in->ss;
	struct frame_object o;

	if (!ss->builder && frame_builder_new(&ss->builder, e) != 0)
		return -1;
	for (uint32_t i = 0; i < in->view.object_count; i++) {
		frame_object_at(&in->view, i, &o);
		if (in->class[i] == CLASS_NEW && again_add(in, &o, e) != 0)
			return -1;
	}
	memcpy(in->class_before, in->class, in->view.object_count);
	return frame_builder_finish(ss->builder, in->view.codec, 0,
	    &ss->again, e);
}

/* ---- the whole ---------------------------------------------------------- */

enum step { STEP_DONE = 0, STEP_MISSING = 1, STEP_MAKE_AGAIN = 2 };

/* One turn under the cut lock.  `made`: ss->again fits class_before. */
static int take_locked(struct intake *in, bool made, bool last,
    uint32_t number, struct err *e)
{
	struct store_session *ss = in->ss;
	const void *data = in->frame;
	size_t size = in->size;
	uint32_t n, all = in->view.object_count;
	uint64_t fresh;

	if (session_pushing(ss, e) != 0)
		return -1;
	if (number <= ss->frame_taken)
		return err_set(e, ERR_PROTOCOL,
		    "frame %u came after frame %u", number, ss->frame_taken);
	classify(in);
	n = count_new(in);
	if (closure(in) != 0) {
		ss->frame_taken = number;
		return STEP_MISSING;
	}
	if (n > 0 && n < all && !last) {
		if (!made || memcmp(in->class, in->class_before, all) != 0)
			return STEP_MAKE_AGAIN;
		data = ss->again.data;
		size = ss->again.size;
	}
	if (quota_check(in, &fresh, e) != 0 || space_check(in, e) != 0 ||
	    rely_on_all(in, e) != 0 ||
	    (n > 0 && store_frame(in, data, size, e) != 0) ||
	    adopt_all(in, e) != 0)
		return -1;
	ss->frame_taken = number;
	ss->new_bytes += fresh;
	committer_note_pending(ss->store);
	return STEP_DONE;
}

static int take(struct intake *in, uint32_t number, struct err *e)
{
	struct store *s = in->ss->store;
	int rc = STEP_MAKE_AGAIN;

	for (unsigned try = 0; rc == STEP_MAKE_AGAIN; try++) {
		if (try > 0 && make_again(in, e) != 0)
			return -1;
		if (looks_lock(s, &in->looks, true, e) != 0)
			return -1;
		rc = take_locked(in, try > 0, try == RETRIES, number, e);
		pthread_mutex_unlock(&s->cut);
	}
	return rc;
}

int store_session_frame(struct store_session *ss, uint32_t number,
    const void *frame, size_t size, struct id *missing, size_t missing_max,
    size_t *missing_count, struct err *e)
{
	struct intake in = { .ss = ss, .frame = frame, .size = size,
		.missing = missing, .missing_max = missing_max,
		.missing_count = missing_count };
	int rc = -1;

	*missing_count = 0;
	store_session_alive(ss);
	looks_init(&in.looks);
	if (unpack_from_peer(&in, e) == 0 && prepare(&in, e) == 0)
		rc = take(&in, number, e);
	looks_release(&in.looks);
	free(in.class);
	free(in.ref_look);
	return rc;
}
