/*
 * raid/redo.c - a flush that lost a member is done again without it.
 *
 * THE PROMISE
 *
 *   A member that fails in a flush costs no redundancy of what the flush
 *   makes durable, as long as the members left can give it.
 *
 * THE ORDER
 *
 *   strips --> flush of members: one failed --> the log is not touched; every
 *   open segment takes no more frames (open_seg.redo) --> the caller reads the
 *   frames that are in no durable table back from the survivors, and appends
 *   them: to new segments, of members that are left --> array_redo_end: the
 *   old segments are as they were at their last durable row --> next cut: it
 *   seals them there, and drops those that have no durable row
 *
 * WHAT A CRASH LEAVES
 *
 *   The state before the cut; old and new rows alike are in no record.
 *
 * WHY FRAMES, NOT STRIPS
 *
 *   Geometry belongs to the segment: without the member there is nobody for
 *   its strip where the segment is as wide as the array.  Frames fit any
 *   geometry; but then places change, and those are the caller's.
 *
 * INVARIANTS   (tests/raid/test_redo.c)
 *
 *   D1  Rows of an open segment beyond its durable end, at the time of a
 *       redo, are never named by the log.
 *   D2  A redo is only begun when new segments have full parity, and when
 *       there is room for all of it.
 */
#include "raid/redo.h"

#include "raid/cut.h"
#include "raid/stripe_io.h"

#include <inttypes.h>
#include <string.h>

/* New segments that are not filled to the end, in both classes. */
#define SPARE_SEGMENTS 4u

/* ---- can it be done -------------------------------------------------- */

/* Payload bytes that are in no durable row; what metadata takes is counted
 * twice, for its segments may have one more parity. */
static uint64_t bytes_due(const struct array *a)
{
	uint64_t sum = 0;

	for (const struct open_seg *os = a->opens; os; os = os->next) {
		uint64_t n = alloc_strip_room(a->extent_rows,
		    os->seg->s.rows) * seg_k(&os->seg->s) - os->room +
		    (os->busy ? RAID_FRAME_MAX : 0);

		sum += os->seg->s.class == SEG_META ? 2 * n : n;
	}
	return sum;
}

bool redo_possible_locked(struct array *a)
{
	struct alloc_choice c;
	struct alloc_room r;
	uint64_t need = bytes_due(a);

	array_rooms_locked(a, true, &r);
	if (!alloc_choose(&r, a->parity, SEG_DATA, &c) ||
	    c.parity < a->parity)
		return false;
	need += (uint64_t)SPARE_SEGMENTS * (c.width - (unsigned)c.parity) *
	    alloc_strip_room(a->extent_rows, 0);
	return alloc_free_bytes(&r, a->parity, a->extent_rows) >= need;
}

void redo_begin_locked(struct array *a)
{
	for (struct open_seg *os = a->opens; os; os = os->next) {
		os->redo = true;
		open_seg_full_locked(a, os);
	}
	pthread_cond_broadcast(&a->changed);
}

/* ---- what the caller asks for ---------------------------------------- */

bool array_redo_wants(struct array *a, uint64_t segment)
{
	const struct seg *s;
	bool wants;

	pthread_mutex_lock(&a->lock);
	s = map_find(&a->map, segment);
	wants = s && s->open && s->open->redo;
	pthread_mutex_unlock(&a->lock);
	return wants;
}

/* A stripe is the caller's: he appends and closes. */
static struct open_seg *with_stripe(struct array *a)
{
	struct open_seg *os;

	pthread_mutex_lock(&a->lock);
	os = a->opens;
	while (os && !(os->redo && os->stripe))
		os = os->next;
	pthread_mutex_unlock(&a->lock);
	return os;
}

void array_redo_close(struct array *a)
{
	struct open_seg *os;

	while ((os = with_stripe(a)))
		open_seg_close_stripe(a, os);
}

bool redo_state(struct array *a, uint64_t segment, struct seg_state *out)
{
	const struct open_seg *os;
	const struct seg *s;

	pthread_mutex_lock(&a->lock);
	s = map_find(&a->map, segment);
	os = s ? s->open : NULL;
	while (os && os->redo && os->pending > 0)
		pthread_cond_wait(&a->changed, &a->lock);
	if (os && os->redo) {
		*out = s->s;
		out->rows = os->row;
		for (unsigned i = 0; i < out->width; i++)
			if (os->absent_from[i] < out->absent_from[i])
				out->absent_from[i] = os->absent_from[i];
	}
	pthread_mutex_unlock(&a->lock);
	return os && os->redo;
}

/* As at its durable end, and full: the next cut seals or drops it. */
static void rewind_locked(struct array *a, struct open_seg *os)
{
	while (os->pending > 0)
		pthread_cond_wait(&a->changed, &a->lock);
	os->redo = false;
	os->took = false;
	os->row = os->seg->s.rows;
	os->used_bytes = os->seg->s.used_bytes;
	os->frame_bytes = os->seg->s.frame_bytes;
	os->reserved = 0;
	os->room = open_seg_room(a, os);
	memset(os->absent_from, 0xff, sizeof(os->absent_from));
}

void array_redo_end(struct array *a)
{
	pthread_mutex_lock(&a->lock);
	for (struct open_seg *os = a->opens; os; os = os->next)
		if (os->redo)
			rewind_locked(a, os);
	pthread_mutex_unlock(&a->lock);
}
