/*
 * raid/flush.c - a cut becomes durable, whole or not at all.
 *
 * THE PROMISE
 *
 *   When array_flush returns 0, the bytes and facts of the cut survive a power
 *   cut and the loss of as many members as the segments have parity (fewer
 *   for those that result.reduced tells of).
 *
 * THE ORDER
 *
 *   1 strips --> 2 flush of all members written --> 3 log blocks and their
 *   flush (raid/log.c) --> 4 memory --> 5 members changed meanwhile --> 6 fold
 *
 *   Nothing in the log names a strip that is not on stable storage.
 *
 * WHAT A CRASH LEAVES
 *
 *   before 3 is done   the state before the cut; the strips lie in rows that
 *                      no record names
 *   after              the state after it
 *
 * A MEMBER THAT FAILS in 1 or 2 is set aside before 3.  If those that are left
 * can give full redundancy, the caller may do it all again (raid/redo.c).
 * Else its strips of this flush are absent (the reduced set), its segments are
 * sealed.  If that is more than their parity, the array stops.  One that fails
 * in 3 is told of as well, for the strips are named by then.  A failed flush
 * is never tried again: what the device then says of earlier writes is worth
 * nothing.
 *
 * INVARIANTS   (tests/raid/test_redo.c, tests/raid/test_mend.c)
 *
 *   F1  A slot is in the reduced set, from the first row that may be missing,
 *       in the same log flush that names these rows.
 *   F2  A segment with a slot on a lost member takes no more frames.
 */
#include "raid/cut.h"
#include "raid/flush_site.h"
#include "raid/fmt_record.h"
#include "raid/recset.h"
#include "raid/redo.h"
#include "raid/stripe_io.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- 1 and 2: strips ------------------------------------------------- */

static int stripes_wait(struct array *a, const struct array_cut *c,
    struct err *e)
{
	int rc;

	pthread_mutex_lock(&a->lock);
	while (a->pending[c->no & 1] > 0)
		pthread_cond_wait(&a->changed, &a->lock);
	rc = array_running_locked(a, e);
	pthread_mutex_unlock(&a->lock);
	return rc;
}

static void members_flush(struct array *a)
{
	struct mio_req reqs[RAID_MEMBERS_MAX];
	unsigned index[RAID_MEMBERS_MAX], count = 0;

	pthread_mutex_lock(&a->lock);
	for (unsigned i = 0; i < a->as->member_count; i++) {
		struct member *m = a->as->members[i];
		bool due = a->unflushed_on[i] && member_writable(m);

		a->unflushed_on[i] = false;
		if (!due)
			continue;
		index[count] = i;
		reqs[count++] = (struct mio_req){ .mio = m->io,
			.op = MIO_FLUSH };
	}
	pthread_mutex_unlock(&a->lock);
	if (!flush_site("array.strips"))
		return;
	mio_run(reqs, count);
	for (unsigned i = 0; i < count; i++)
		if (reqs[i].rc != 0) {
			member_count_error(a->as->members[index[i]],
			    MIO_FLUSH, &reqs[i].e);
			array_member_failed(a, index[i], &reqs[i].e);
		}
}

/* ---- what the log will say ------------------------------------------- */

/* Strips on a member that is lost by now are absent from the last durable row
 * on: they may have been in its cache. */
static void item_absent(struct array *a, struct cut_item *it)
{
	struct open_seg *os = it->os;
	const struct seg_state *was = &os->seg->s;

	for (unsigned i = 0; i < was->width; i++) {
		uint32_t from = os->absent_from[i];

		if (!member_writable(a->as->members[was->member[i]]) &&
		    was->rows < from)
			from = was->rows;
		os->absent_from[i] = from;
		if (from < it->rows && from < it->next.absent_from[i])
			it->next.absent_from[i] = from;
	}
}

static int item_next(struct array *a, const struct array_cut *c,
    struct cut_item *it, struct err *e)
{
	const struct seg *s = it->os->seg;
	unsigned absent = 0;

	it->next = s->s;
	it->write = s->durable ? it->rows != s->s.rows || it->seal :
	    it->rows > 0;
	if (!it->write)
		return 0;
	it->next.sealed = it->seal;
	it->next.used_bytes = it->used_bytes;
	it->next.frame_bytes = it->frame_bytes;
	it->next.table = it->table;
	if (!s->durable)
		it->next.birth_flush = c->flush;
	if (it->rows == s->s.rows)
		return 0;
	it->next.rows = it->rows;
	it->next.last_flush = c->flush;
	item_absent(a, it);
	for (unsigned i = 0; i < it->next.width; i++)
		absent += it->next.absent_from[i] < it->rows;
	if (absent > it->next.parity)
		return err_set(e, ERR_UNAVAILABLE, "segment %" PRIu64 ": %u "
		    "members failed, its parity is %u", it->next.id, absent,
		    it->next.parity);
	return 0;
}

/* A segment whose member was lost after the cut is sealed with it, unless
 * frames of the next flush are in it already. */
static bool item_over(const struct cut_item *it)
{
	const struct open_seg *os = it->os;

	return os->full && !os->busy && !os->took && !os->stripe &&
	    os->pending == 0 && os->row == it->rows;
}

/* All segments of the cut; stops the array when one has lost too much. */
static int items_next(struct array *a, struct array_cut *c,
    struct flush_result *result, struct err *e)
{
	int rc = 0;

	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < c->item_count && rc == 0; i++) {
		struct cut_item *it = &c->items[i];

		it->seal = it->seal || item_over(it);
		rc = item_next(a, c, it, e);
		it->wrote = it->next.rows > it->os->seg->s.rows;
		if (it->wrote && array_seg_reduced(a, &it->next))
			result->reduced = true;
	}
	if (rc != 0)
		array_stop_locked(a, e);
	pthread_mutex_unlock(&a->lock);
	return rc;
}

/* After the log: members may have been lost there. */
static void items_judge(struct array *a, const struct array_cut *c,
    struct flush_result *result)
{
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < c->item_count; i++) {
		const struct cut_item *it = &c->items[i];

		if (it->wrote && array_seg_reduced(a, &it->next))
			result->reduced = true;
	}
	pthread_mutex_unlock(&a->lock);
}

static bool redo_begin(struct array *a, const struct flush_result *result)
{
	bool redo;

	if (!result->reduced)
		return false;
	pthread_mutex_lock(&a->lock);
	redo = !a->stopped && redo_possible_locked(a);
	if (redo)
		redo_begin_locked(a);
	pthread_mutex_unlock(&a->lock);
	return redo;
}

/* ---- records --------------------------------------------------------- */

static int recs_segments(struct recset *r, const struct array_cut *c,
    struct err *e)
{
	uint8_t body[REC_SEGMENT_MAX];

	for (size_t i = 0; i < c->item_count; i++) {
		const struct cut_item *it = &c->items[i];

		if (it->write && recset_add(r, REC_SEGMENT, body,
		    rec_segment_put(body, &it->next), e) != 0)
			return -1;
	}
	for (size_t i = 0; i < c->free_count; i++) {
		rec_u64_put(body, c->frees[i]);
		if (recset_add(r, REC_SEGMENT_FREED, body, REC_FREED_SIZE,
		    e) != 0)
			return -1;
	}
	return 0;
}

static int recs_facts(struct recset *r, const struct array_cut *c,
    struct err *e)
{
	uint8_t *body = malloc(REC_FACT_MAX);
	int rc = 0;

	if (!body)
		return err_set(e, ERR_NO_MEMORY, "no memory for a fact");
	for (size_t i = 0; i < c->fact_count && rc == 0; i++) {
		const struct fact *f = c->facts[i].fact;
		struct rec_fact rec = {
			.key = f->bytes,
			.key_size = f->key_size,
			.value = f->bytes + f->key_size,
			.value_size = f->value_size,
		};

		rc = recset_add(r, c->facts[i].delete ? REC_FACT_DELETE :
		    REC_FACT_SET, body, rec_fact_put(body, &rec), e);
	}
	free(body);
	return rc;
}

/* Many to a record. */
int array_recs_verified(struct array *a, struct recset *r, struct err *e)
{
	uint8_t body[256 * REC_VERIFIED_ENTRY];
	size_t size = 0;
	int rc = 0;

	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; a->verify_notes > 0 && i < a->map.count &&
	    rc == 0; i++) {
		struct seg *s = a->map.segs[i];

		if (!s->verify_noted)
			continue;
		s->verify_noted = false;
		a->verify_notes--;
		rec_verified_put(body + size, &(struct rec_verified){
		    s->s.id, s->s.verified_s });
		size += REC_VERIFIED_ENTRY;
		if (size < sizeof(body))
			continue;
		rc = recset_add(r, REC_SEGMENT_VERIFIED, body, size, e);
		size = 0;
	}
	pthread_mutex_unlock(&a->lock);
	if (rc == 0 && size > 0)
		rc = recset_add(r, REC_SEGMENT_VERIFIED, body, size, e);
	return rc;
}

static int recs_ids(struct array *a, struct recset *r, uint64_t *limit,
    struct err *e)
{
	uint8_t body[REC_ID_RESERVE_SIZE];

	pthread_mutex_lock(&a->lock);
	*limit = a->id_limit;
	if (a->id_limit < a->next_id + ARRAY_IDS_LOW)
		*limit = a->next_id + ARRAY_IDS_BATCH;
	pthread_mutex_unlock(&a->lock);
	rec_id_reserve_put(body, *limit);
	return recset_add(r, REC_ID_RESERVE, body, sizeof(body), e);
}

/* ---- 4: the memory --------------------------------------------------- */

struct applied {
	struct array_cut *c;
	uint64_t id_limit;
};

/* Only what a flush changes: geometry and places are read without the lock
 * by who appends. */
static void state_apply(struct seg_state *s, const struct seg_state *next)
{
	s->used_bytes = next->used_bytes;
	s->frame_bytes = next->frame_bytes;
	s->birth_flush = next->birth_flush;
	s->last_flush = next->last_flush;
	s->table = next->table;
	s->rows = next->rows;
	s->sealed = next->sealed;
	memcpy(s->absent_from, next->absent_from, sizeof(s->absent_from));
}

static void item_apply(struct array *a, struct cut_item *it)
{
	struct open_seg *os = it->os;

	if (it->write) {
		state_apply(&os->seg->s, &it->next);
		os->seg->durable = true;
		for (unsigned i = 0; i < it->next.width; i++)
			if (os->absent_from[i] < it->rows)
				os->absent_from[i] = ROW_NONE;
	}
	if (it->seal)
		open_seg_drop_locked(a, os);
}

static void cut_apply(struct array *a, void *arg, uint64_t flush)
{
	struct applied *ap = arg;
	struct array_cut *c = ap->c;

	for (size_t i = 0; i < c->item_count; i++)
		item_apply(a, &c->items[i]);
	for (size_t i = 0; i < c->free_count; i++) {
		struct seg *s = map_find(&a->map, c->frees[i]);

		if (s)
			seg_freed_locked(a, s);
		a->last_free_flush = flush;
	}
	for (size_t i = 0; i < c->fact_count; i++) {
		struct fact *f = c->facts[i].fact;

		if (c->facts[i].delete) {
			facts_delete(a->facts, f->bytes, f->key_size);
			continue;
		}
		facts_set(a->facts, f);
		c->facts[i].fact = NULL;
	}
	a->id_limit = ap->id_limit;
	pthread_cond_broadcast(&a->changed);
}

/* ---- all of it ------------------------------------------------------- */

static int flush_log(struct array *a, struct array_cut *c, struct err *e)
{
	struct applied ap = { .c = c };
	struct recset r;
	int rc = -1;

	recset_init(&r);
	if (recs_segments(&r, c, e) == 0 && recs_facts(&r, c, e) == 0 &&
	    array_recs_verified(a, &r, e) == 0 &&
	    recs_ids(a, &r, &ap.id_limit, e) == 0)
		rc = array_log(a, r.recs, r.count, cut_apply, &ap, e);
	recset_release(&r);
	return rc;
}

/* 1: to be done again, if the caller can. */
static int flush_run(struct array *a, struct array_cut *c, bool can_redo,
    struct flush_result *result, struct err *e)
{
	struct err later;

	array_cut_end(c);
	if (stripes_wait(a, c, e) != 0)
		return -1;
	array_members_look(a);
	members_flush(a);
	if (items_next(a, c, result, e) != 0)
		return -1;
	if (can_redo && redo_begin(a, result))
		return 1;
	if (flush_log(a, c, e) != 0)
		return -1;
	items_judge(a, c, result);
	/* Durable: trouble from here on is that of the next flush, which finds
	 * the array stopped. */
	if (array_members_commit(a, &later) != 0 || array_fold(a, &later) != 0)
		return 0;
	return 0;
}

static int flush_all(struct array *a, struct array_cut *c, bool can_redo,
    struct flush_result *result, struct err *e)
{
	struct err why;
	int rc;

	result->flush = c->flush;
	result->reduced = false;
	rc = flush_run(a, c, can_redo, result, &why);
	pthread_mutex_lock(&a->lock);
	if (rc < 0) {
		array_stop_locked(a, &why);
		*e = why;
	}
	a->cut = NULL;
	pthread_mutex_unlock(&a->lock);
	array_commit_leave(a);
	array_cut_drop(c);
	return rc;
}

int array_flush(struct array *a, struct array_cut *c,
    struct flush_result *result, struct err *e)
{
	return flush_all(a, c, false, result, e);
}

int array_flush_or_redo(struct array *a, struct array_cut *c,
    struct flush_result *result, struct err *e)
{
	return flush_all(a, c, true, result, e);
}
