/*
 * raid/cut.c - one instant, at a frame boundary, over all open segments.
 *
 * From array_cut_freeze to array_cut_end no frame is appended (the caller sees
 * to it), and the tables of the frames are added.  array_cut_end closes the
 * last stripe of each segment, so that what comes later is in stripes of its
 * own.  Nothing here waits for a device but array_cut_enter, which waits for
 * the log flush of somebody else to end, before anything is frozen.
 *
 * INVARIANTS   (tests/raid/test_cut.c)
 *
 *   T1  array_cut_last tells the last row and strip length that the segment
 *       then really has.
 *   T2  Places are complete (last != 0) after array_cut_finish, and array_read
 *       finds the bytes there.
 */
#include "raid/cut.h"
#include "raid/stripe_io.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Where `size` bytes from `offset` of the stripe at `row` end. */
static void last_stripe(const struct array *a, const struct open_seg *os,
    uint32_t row, size_t bytes, uint32_t *last_row, size_t *last_bytes)
{
	size_t room = stripe_room(os, row, a);

	while (bytes > room && room > 0) {
		bytes -= room;
		row += 1u + stripe_units_max(a, row);
		room = stripe_room(os, row, a);
	}
	*last_row = row;
	*last_bytes = bytes;
}

static void item_plan(const struct array *a, struct cut_item *it, size_t size)
{
	const struct open_seg *os = it->os;
	size_t bytes = size + (os->stripe ? os->stripe->fill : 0);

	last_stripe(a, os, os->row, bytes, &it->plan_row, &bytes);
	it->plan_units = stripe_units(bytes, seg_k(&os->seg->s));
}

static struct cut_item *item_find(struct array_cut *c, uint64_t segment)
{
	for (size_t i = 0; i < c->item_count; i++)
		if (c->items[i].os->seg->s.id == segment)
			return &c->items[i];
	return NULL;
}

static int items_take(struct array *a, struct array_cut *c, struct err *e)
{
	size_t count = 0;

	for (struct open_seg *os = a->opens; os; os = os->next)
		count++;
	c->items = calloc(count + 1, sizeof(*c->items));
	if (!c->items)
		return err_set(e, ERR_NO_MEMORY, "no memory for a cut");
	for (struct open_seg *os = a->opens; os; os = os->next) {
		struct cut_item *it = &c->items[c->item_count++];

		it->os = os;
		it->took = os->took;
		it->table = os->seg->s.table;
		item_plan(a, it, 0);
	}
	return 0;
}

int array_cut_enter(struct array *a, struct array_cut **out, struct err *e)
{
	struct array_cut *c;

	if (a->read_only)
		return err_set(e, ERR_DENIED, "the array is open read-only");
	c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(e, ERR_NO_MEMORY, "no memory for a cut");
	c->a = a;
	if (array_commit_enter(a, e) != 0) {
		free(c);
		return -1;
	}
	pthread_mutex_lock(&a->lock);
	a->cut_waits = true;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
	*out = c;
	return 0;
}

void array_cut_leave(struct array_cut *c)
{
	struct array *a = c->a;

	pthread_mutex_lock(&a->lock);
	a->cut_waits = false;
	pthread_mutex_unlock(&a->lock);
	array_commit_leave(a);
	array_cut_drop(c);
}

int array_cut_freeze(struct array_cut *c, struct err *e)
{
	struct array *a = c->a;
	int rc;

	c->flush = log_next_flush(a->log);
	pthread_mutex_lock(&a->lock);
	rc = array_running_locked(a, e);
	if (rc == 0)
		rc = items_take(a, c, e);
	c->no = a->cut_no;
	a->cut_waits = false;
	if (rc == 0)
		a->cut = c;
	pthread_mutex_unlock(&a->lock);
	if (rc != 0)
		array_cut_leave(c);
	return rc;
}

int array_cut_begin(struct array *a, struct array_cut **out, struct err *e)
{
	if (array_cut_enter(a, out, e) != 0)
		return -1;
	return array_cut_freeze(*out, e);
}

void array_cut_drop(struct array_cut *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->fact_count; i++)
		free(c->facts[i].fact);
	free(c->facts);
	free(c->frees);
	free(c->items);
	free(c);
}

bool array_cut_next(struct array_cut *c, size_t *i, uint64_t *segment)
{
	while (*i < c->item_count) {
		struct cut_item *it = &c->items[(*i)++];

		if (!it->took)
			continue;
		*segment = it->os->seg->s.id;
		return true;
	}
	return false;
}

void array_cut_last(struct array_cut *c, uint64_t segment, size_t size,
    uint32_t *last_row, uint8_t *last_strip)
{
	struct cut_item *it = item_find(c, segment);

	*last_row = 0;
	*last_strip = 0;
	if (!it || it->tabled)
		return;
	item_plan(c->a, it, size);
	*last_row = it->plan_row;
	*last_strip = it->plan_units;
}

int array_cut_table(struct array_cut *c, uint64_t segment, const void *data,
    size_t size, struct place *place, struct err *e)
{
	struct cut_item *it = item_find(c, segment);

	if (!it || it->tabled || c->ended)
		return err_set(e, ERR_EXISTS, "segment %" PRIu64
		    " takes no table in this cut", segment);
	if (open_seg_room(c->a, it->os) < size)
		return err_set(e, ERR_NO_SPACE, "segment %" PRIu64
		    ": a table of %zu bytes does not fit", segment, size);
	item_plan(c->a, it, size);
	if (open_seg_add(c->a, it->os, data, size, false, place, e) != 0)
		return -1;
	it->took = true;
	it->tabled = true;
	array_cut_finish(c, place);
	it->table = *place;
	return 0;
}

void array_cut_finish(struct array_cut *c, struct place *p)
{
	struct cut_item *it = item_find(c, p->segment);
	uint32_t row;
	size_t bytes;

	if (!it)
		return;
	last_stripe(c->a, it->os, p->row, (size_t)p->offset + p->size, &row,
	    &bytes);
	p->last = row == it->plan_row && it->plan_units != 0 ?
	    it->plan_units : stripe_units_max(c->a, row);
}

/* Room for one more of `size` bytes each. */
static void *more(void *list, size_t count, size_t *cap, size_t size)
{
	if (count < *cap)
		return list;
	list = realloc(list, (*cap * 2 + 16) * size);
	if (list)
		*cap = *cap * 2 + 16;
	return list;
}

int array_cut_kv(struct array_cut *c, const void *key, size_t key_size,
    const void *value, size_t value_size, struct err *e)
{
	struct cut_fact *facts;
	struct fact *fact;
	int rc;

	if (fact_new(&fact, key, key_size, value, value ? value_size : 0,
	    e) != 0)
		return -1;
	facts = more(c->facts, c->fact_count, &c->fact_cap, sizeof(*facts));
	if (!facts) {
		free(fact);
		return err_set(e, ERR_NO_MEMORY, "no memory for a fact");
	}
	c->facts = facts;
	pthread_mutex_lock(&c->a->lock);
	rc = facts_reserve(c->a->facts, c->fact_count + 1, e);
	pthread_mutex_unlock(&c->a->lock);
	if (rc != 0) {
		free(fact);
		return -1;
	}
	c->facts[c->fact_count++] = (struct cut_fact){ fact, value == NULL };
	return 0;
}

int array_cut_free(struct array_cut *c, uint64_t segment, struct err *e)
{
	struct array *a = c->a;
	uint64_t *frees;
	struct seg *s;
	int rc = 0;

	for (size_t i = 0; i < c->free_count; i++)
		if (c->frees[i] == segment)
			return err_set(e, ERR_EXISTS, "segment %" PRIu64
			    " is freed twice", segment);
	frees = more(c->frees, c->free_count, &c->free_cap, sizeof(*frees));
	if (!frees)
		return err_set(e, ERR_NO_MEMORY, "no memory for a cut");
	c->frees = frees;
	pthread_mutex_lock(&a->lock);
	s = map_find(&a->map, segment);
	if (!s || !s->durable || s->freed)
		rc = err_set(e, ERR_NOT_FOUND, "there is no segment %" PRIu64,
		    segment);
	else if (!s->s.sealed)
		rc = err_set(e, ERR_BUSY, "segment %" PRIu64 " is open",
		    segment);
	pthread_mutex_unlock(&a->lock);
	if (rc == 0)
		c->frees[c->free_count++] = segment;
	return rc;
}

void array_cut_seal_all(struct array_cut *c)
{
	c->seal_all = true;
}

uint64_t array_cut_flush(const struct array_cut *c)
{
	return c->flush;
}

void array_cut_end(struct array_cut *c)
{
	struct array *a = c->a;

	if (c->ended)
		return;
	c->ended = true;
	for (size_t i = 0; i < c->item_count; i++)
		open_seg_close_stripe(a, c->items[i].os);
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < c->item_count; i++) {
		struct cut_item *it = &c->items[i];
		struct open_seg *os = it->os;

		if (c->seal_all || stripe_units_max(a, os->row) == 0)
			open_seg_full_locked(a, os);
		it->seal = os->full;
		it->rows = os->row;
		it->used_bytes = os->used_bytes;
		it->frame_bytes = os->frame_bytes;
		os->took = false;
		os->room = open_seg_room(a, os);
		os->reserved = 0;
	}
	a->cut_no++;
	atomic_store(&a->unflushed, 0);
	pthread_mutex_unlock(&a->lock);
}
