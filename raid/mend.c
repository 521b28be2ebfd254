/*
 * raid/mend.c - strips that belong elsewhere, or were missed, are put where
 * they should be.
 *
 * One primitive does it all: move a strip.
 *
 *   source                              target
 *   of a member that is replaced        the new member
 *   on a failed member                  any member not in the segment
 *   missed while a member was away      the same place
 *
 * THE ORDER, for many strips at a time
 *
 *   copy, verified, or rebuilt and proven --> flush of the targets --> log
 *   record MOVED --> map --> extents of the old places are free
 *
 * WHAT A CRASH LEAVES
 *
 *   Before the record: the old place, as if nothing had been done; the extent
 *   of the target is free again.  So it is resumed by beginning anew, with
 *   what is still there to do.
 *
 * The segment is leased while it is copied, and held for the moment in which
 * the map changes.  Segments that take frames are left alone until they are
 * sealed: those with nothing unflushed are sealed here.
 *
 * INVARIANTS   (tests/raid/test_mend.c)
 *
 *   M1  A strip is copied only when its header and checksum are right; else it
 *       is rebuilt from proven ones.
 *   M2  No segment has two strips on one member.
 *   M3  Least redundant segments first.
 */
#include "raid/stripe_io.h"

#include "raid/flush_site.h"
#include "raid/recset.h"
#include "raid/segment.h"

#include "base/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Strips moved in one log flush, and their bytes: what a cancelled mend
 * forgets. */
#define BATCH_MAX 64
#define BATCH_BYTES (UINT64_C(256) << 20)

struct job {			/* a segment with something to do */
	uint64_t id;
	int spare;		/* parity minus strips away: order */
	uint32_t rows;
};

struct move {
	uint64_t id;
	uint32_t rows, from;	/* copied from this row on */
	uint32_t old_extent, extent;
	uint8_t slot, old_member, member;
	bool done;
	bool held;		/* its segment, while the map changes */
};

struct mending {
	struct array *a;
	struct scan_report *report;
	struct job_ctl *ctl;
	struct iobuf *buf;	/* one strip */
	struct move batch[BATCH_MAX];
	size_t count;
	uint64_t batch_bytes, bytes, started_ms;
	bool gap;		/* in rows without a sound header */
};

/* ---- what is to be done ---------------------------------------------- */

static bool in_segment(const struct seg_state *s, unsigned member)
{
	for (unsigned i = 0; i < s->width; i++)
		if (s->member[i] == member)
			return true;
	return false;
}

static struct member *replacement_of(struct array *a, const struct member *m)
{
	for (size_t i = 0; i < a->as->member_count; i++)
		if (memcmp(a->as->members[i]->uuid, m->replaced_by,
		    RAID_UUID_SIZE) == 0)
			return a->as->members[i];
	return NULL;
}

/* Who takes a strip of this segment from `m`: its replacement, else the one
 * with most room.  -1: nobody. */
static int target_member(struct array *a, const struct seg_state *s,
    const struct member *m)
{
	const struct member *new = replacement_of(a, m);
	struct alloc_room r;
	int best = -1;

	if (new && member_writable(new) && !in_segment(s, new->index) &&
	    alloc_free(&a->alloc, new->index) > 0)
		return (int)new->index;
	array_rooms_locked(a, true, &r);
	for (unsigned i = 0; i < r.count; i++)
		if (r.writable[i] && r.room[i] > 0 && !in_segment(s, i) &&
		    (best < 0 || r.room[i] > r.room[best]))
			best = (int)i;
	return best;
}

/* What this slot needs: -1 nothing (that could be done), else the member that
 * is to hold it. */
static int slot_target(struct array *a, const struct seg_state *s,
    unsigned slot)
{
	const struct member *m = a->as->members[s->member[slot]];

	if (member_writable(m))
		return s->absent_from[slot] < s->rows ? (int)m->index : -1;
	if (m->state != MEMBER_FAILED && m->state != MEMBER_REPLACING)
		return -1;
	return target_member(a, s, m);
}

static bool seg_wants(struct array *a, const struct seg *s)
{
	if (!s->durable || s->freed ||
	    (s->open && !open_seg_idle_locked(s->open)))
		return false;
	for (unsigned i = 0; i < s->s.width; i++)
		if (slot_target(a, &s->s, i) >= 0)
			return true;
	return false;
}

/* A replaced member that nothing is left on. */
static bool member_empty(struct array *a, const struct member *m)
{
	static const uint8_t nobody[RAID_UUID_SIZE];

	if (m->state == MEMBER_REMOVED ||
	    memcmp(m->replaced_by, nobody, sizeof(nobody)) == 0)
		return false;
	for (size_t i = 0; i < a->map.count; i++)
		if (in_segment(&a->map.segs[i]->s, m->index))
			return false;
	return true;
}

/* False on a whole array, without a look at the map: states and the reduced
 * set are all that makes work. */
static bool anything_off(struct array *a)
{
	for (size_t i = 0; i < a->as->member_count; i++) {
		enum member_state s = a->as->members[i]->state;

		if (s == MEMBER_FAILED || s == MEMBER_REPLACING)
			return true;
	}
	for (size_t i = 0; i < a->map.count; i++)
		for (unsigned j = 0; j < a->map.segs[i]->s.width; j++)
			if (a->map.segs[i]->s.absent_from[j] != ROW_NONE)
				return true;
	return false;
}

bool array_wants_mend(struct array *a)
{
	bool wants = false;

	pthread_mutex_lock(&a->lock);
	if (!a->read_only && !a->stopped && anything_off(a)) {
		for (size_t i = 0; i < a->map.count && !wants; i++)
			wants = seg_wants(a, a->map.segs[i]);
		for (size_t i = 0; i < a->as->member_count && !wants; i++)
			wants = member_empty(a, a->as->members[i]);
	}
	pthread_mutex_unlock(&a->lock);
	return wants;
}

static int job_order(const void *l, const void *r)
{
	const struct job *a = l, *b = r;

	if (a->spare != b->spare)
		return a->spare < b->spare ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

/* Least redundant first (M3). */
static struct job *jobs_list(struct array *a, size_t *count, uint64_t *bytes)
{
	struct job *jobs;

	*count = 0;
	*bytes = 0;
	pthread_mutex_lock(&a->lock);
	jobs = calloc(a->map.count + 1, sizeof(*jobs));
	for (size_t i = 0; jobs && i < a->map.count; i++) {
		const struct seg *s = a->map.segs[i];

		if (!seg_wants(a, s) || s->open)
			continue;
		jobs[(*count)++] = (struct job){ s->s.id, s->s.parity -
			(int)array_slots_away(a, &s->s), s->s.rows };
		*bytes += (uint64_t)s->s.rows * RAID_ROW;
	}
	pthread_mutex_unlock(&a->lock);
	if (jobs)
		qsort(jobs, *count, sizeof(*jobs), job_order);
	return jobs;
}

/* ---- one strip ------------------------------------------------------- */

static unsigned slot_strip(const struct seg_state *g, unsigned slot)
{
	return (unsigned)((slot + g->width - g->id % g->width) % g->width);
}

/* The strip at `row` as it lies on its old member, if it is right.  Fills the
 * buffer and img->head. */
static bool source_read(struct mending *md, const struct move *mv,
    struct stripe_img *img)
{
	struct array *a = md->a;
	const struct seg_state *g = &img->g;
	unsigned strip = slot_strip(g, mv->slot);
	struct member *m = a->as->members[g->member[mv->slot]];
	uint32_t rows = 1u + stripe_units_max(a, img->row);
	struct strip_header h;
	struct mio_req req;

	if (g->absent_from[mv->slot] <= img->row ||
	    !strip_readable(a, g, mv->slot, true))
		return false;
	req = (struct mio_req){ .mio = m->io, .op = MIO_READ,
		.uncached = true, .buf = md->buf,
		.size = rows * (size_t)RAID_ROW,
		.offset = strip_offset(a, g, mv->slot, img->row) };
	mio_run(&req, 1);
	if (req.rc != 0) {
		member_count_error(m, MIO_READ, &req.e);
		return false;
	}
	atomic_fetch_add(&m->read_bytes, req.size);
	if (strip_judge(a, g, img->row, 0, strip, md->buf->data, &h) !=
	    STRIP_GOOD || img->row + 1u + h.units > g->rows ||
	    strip_sum(&h, (uint8_t)strip, md->buf->data + STRIP_HEADER_SIZE,
	    (size_t)h.units * RAID_ROW) != h.sums[strip])
		return false;
	img->head = h;
	img->units = h.units;
	return true;
}

/*
 * The same from the other strips; into the buffer.  0; 1 when the stripe is
 * lost; -1 when it cannot be had now.  img->units 0: not even its length is
 * known.  img->headed: there is something to write (of a lost stripe, what
 * there is goes along: its checksum tells).
 */
static int source_rebuild(struct mending *md, const struct move *mv,
    struct stripe_img *img, struct err *e)
{
	unsigned strip = slot_strip(&img->g, mv->slot);
	struct stripe_img all;
	struct strip_header h;
	bool ok;

	img->units = 0;
	img->headed = false;
	if (stripe_find(md->a, &img->g, img->row, &h, e) != 0)
		return e->code == ERR_CORRUPT ? 1 : -1;
	if (stripe_img_init(&all, &img->g, img->row, h.units, e) != 0)
		return -1;
	stripe_img_load(md->a, &all, false);
	ok = stripe_img_rebuild(md->a, &all, e) == 0;
	if (!ok) {
		stripe_img_load(md->a, &all, true);
		ok = stripe_img_rebuild(md->a, &all, e) == 0;
	}
	img->units = h.units;
	img->headed = all.headed && (ok || all.read[strip]);
	img->head = all.headed ? all.head : h;
	if (img->headed)
		memcpy(md->buf->data + STRIP_HEADER_SIZE,
		    stripe_img_strip(&all, strip),
		    (size_t)h.units * RAID_ROW);
	stripe_img_release(&all);
	return ok ? 0 : e->code == ERR_CORRUPT ? 1 : -1;
}

static int target_write(struct mending *md, const struct move *mv,
    const struct stripe_img *img, struct err *e)
{
	struct array *a = md->a;
	struct member *m = a->as->members[mv->member];
	struct mio_req req = { .mio = m->io, .op = MIO_WRITE, .buf = md->buf,
		.size = (1u + img->units) * (size_t)RAID_ROW,
		.offset = member_extent_offset(m, mv->extent) +
		    (uint64_t)img->row * RAID_ROW };

	strip_header_make(a, img, slot_strip(&img->g, mv->slot), mv->member,
	    mv->extent, md->buf->data);
	mio_run(&req, 1);
	md->bytes += req.size;
	if (req.rc == 0) {
		atomic_fetch_add(&m->written_bytes, req.size);
		return 0;
	}
	member_count_error(m, MIO_WRITE, &req.e);
	array_member_failed(a, m->index, &req.e);
	*e = req.e;
	return -1;
}

/* A stuck write may hold the buffer still. */
static int buffer_fresh(struct mending *md, struct err *e)
{
	if (md->buf && atomic_load(&md->buf->refs) == 1)
		return 0;
	iobuf_unref(md->buf);
	md->buf = iobuf_new(STRIP_STRIDE);
	if (!md->buf)
		return err_set(e, ERR_NO_MEMORY, "no memory for a strip");
	return 0;
}

/* One stripe's strip of this slot to its new place (M1). */
static int strip_move(struct mending *md, const struct move *mv,
    struct stripe_img *img, struct err *e)
{
	int rc = 0;

	if (buffer_fresh(md, e) != 0)
		return -1;
	img->headed = true;
	if (!source_read(md, mv, img))
		rc = source_rebuild(md, mv, img, e);
	if (rc < 0)
		return -1;
	if (rc > 0)
		md->report->stripes_lost += !md->gap;
	md->gap = img->units == 0;
	if (md->gap) {		/* look further, row by row */
		img->row++;
		return 0;
	}
	md->report->stripes++;
	if (img->headed && target_write(md, mv, img, e) != 0)
		return -1;
	img->row += 1u + img->units;
	return 0;
}

static int pause_check(struct mending *md, uint64_t bytes, struct err *e)
{
	struct job_ctl *ctl = md->ctl;

	if (!ctl)
		return 0;
	atomic_fetch_add(&ctl->done, bytes);
	while (ctl->rate_max > 0 && !atomic_load(&ctl->cancel) &&
	    clock_mono_ms() < md->started_ms + md->bytes * 1000 /
	    ctl->rate_max)
		nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
	if (atomic_load(&ctl->cancel))
		return err_set(e, ERR_CANCELLED, "the mending was stopped");
	return 0;
}

static int slot_copy(struct mending *md, const struct move *mv,
    const struct seg_state *g, struct err *e)
{
	struct stripe_img img = { .g = *g, .row = mv->from };

	while (img.row < g->rows) {
		uint32_t row = img.row;

		if (strip_move(md, mv, &img, e) != 0 || pause_check(md,
		    (uint64_t)(img.row - row) * RAID_ROW, e) != 0)
			return -1;
	}
	return 0;
}

/* ---- many strips in one log flush ------------------------------------ */

static void extent_give(struct array *a, const struct move *mv)
{
	pthread_mutex_lock(&a->lock);
	if (mv->member != mv->old_member)
		alloc_give(&a->alloc, mv->member, mv->extent);
	pthread_mutex_unlock(&a->lock);
}

static void targets_flush(struct mending *md)
{
	struct mio_req reqs[RAID_MEMBERS_MAX];
	unsigned index[RAID_MEMBERS_MAX], n = 0;
	uint64_t seen = 0;

	for (size_t i = 0; i < md->count; i++) {
		unsigned m = md->batch[i].member;

		if ((seen >> m & 1) != 0)
			continue;
		seen |= UINT64_C(1) << m;
		index[n] = m;
		reqs[n++] = (struct mio_req){ .op = MIO_FLUSH,
			.mio = md->a->as->members[m]->io };
	}
	if (flush_site("mend.strips"))
		mio_run(reqs, n);
	for (unsigned i = 0; i < n; i++) {
		struct member *m = md->a->as->members[index[i]];

		if (reqs[i].rc != 0) {
			member_count_error(m, MIO_FLUSH, &reqs[i].e);
			array_member_failed(md->a, index[i], &reqs[i].e);
		}
		for (size_t j = 0; j < md->count; j++)
			if (md->batch[j].member == index[i])
				md->batch[j].done = reqs[i].rc == 0;
	}
}

/* Still as it was when copied; with the segment held. */
static bool move_valid(struct array *a, const struct move *mv)
{
	const struct seg *s = map_find(&a->map, mv->id);

	return s && !s->freed && s->s.rows == mv->rows &&
	    s->s.member[mv->slot] == mv->old_member &&
	    s->s.extent[mv->slot] == mv->old_extent &&
	    member_writable(a->as->members[mv->member]);
}

static void batch_apply(struct array *a, void *arg, uint64_t flush)
{
	struct mending *md = arg;

	(void)flush;
	for (size_t i = 0; i < md->count; i++) {
		const struct move *mv = &md->batch[i];
		struct seg *s = mv->done ? map_find(&a->map, mv->id) : NULL;

		if (!s)
			continue;
		s->s.member[mv->slot] = mv->member;
		s->s.extent[mv->slot] = mv->extent;
		s->s.absent_from[mv->slot] = ROW_NONE;
		if (mv->member != mv->old_member)
			alloc_give(&a->alloc, mv->old_member,
			    mv->old_extent);
	}
}

/* Hold the segment of each entry; no two are of one.  What is read all the
 * time is left for the next mend. */
static void batch_hold(struct mending *md, struct recset *r, int *rc,
    struct err *e)
{
	uint8_t body[REC_MOVED_SIZE];
	struct seg_state g;

	for (size_t i = 0; i < md->count; i++) {
		struct move *mv = &md->batch[i];

		mv->held = mv->done && seg_hold(md->a, mv->id, &g);
		pthread_mutex_lock(&md->a->lock);
		mv->done = mv->held && move_valid(md->a, mv);
		pthread_mutex_unlock(&md->a->lock);
		if (!mv->done || *rc != 0)
			continue;
		rec_moved_put(body, &(struct rec_moved){ mv->id, mv->extent,
		    mv->slot, mv->member });
		*rc = recset_add(r, REC_SEGMENT_MOVED, body, sizeof(body), e);
	}
}

static int batch_log(struct mending *md, struct err *e)
{
	struct recset r;
	int rc = 0;

	if (array_commit_enter(md->a, e) != 0)
		return -1;
	recset_init(&r);
	batch_hold(md, &r, &rc, e);
	if (rc == 0 && r.count > 0)
		rc = array_log(md->a, r.recs, r.count, batch_apply, md, e);
	for (size_t i = 0; i < md->count; i++)
		if (md->batch[i].held)
			seg_hold_end(md->a, md->batch[i].id);
	recset_release(&r);
	if (rc == 0)
		rc = array_members_commit(md->a, e);
	if (rc == 0)
		rc = array_fold(md->a, e);
	array_commit_leave(md->a);
	return rc;
}

/* Make durable what was copied. */
static int batch_end(struct mending *md, struct err *e)
{
	int rc = 0;

	if (md->count == 0)
		return 0;
	targets_flush(md);
	rc = batch_log(md, e);
	for (size_t i = 0; i < md->count; i++) {
		if (rc != 0 || !md->batch[i].done)
			extent_give(md->a, &md->batch[i]);
		else
			md->report->strips_healed++;
	}
	md->count = 0;
	md->batch_bytes = 0;
	return rc;
}

/* ---- one segment ----------------------------------------------------- */

/* An extent for this slot; false: nothing to do, or nowhere to put it. */
static bool move_begin(struct array *a, const struct seg_state *g,
    unsigned slot, struct move *mv)
{
	bool ok = true;
	int target;

	pthread_mutex_lock(&a->lock);
	target = slot_target(a, g, slot);
	*mv = (struct move){ .id = g->id, .rows = g->rows,
		.slot = (uint8_t)slot, .old_member = g->member[slot],
		.old_extent = g->extent[slot], .extent = g->extent[slot],
		.member = g->member[slot], .from = 0 };
	if (target < 0)
		ok = false;
	else if (target == g->member[slot])
		mv->from = g->absent_from[slot];
	else
		ok = alloc_take(&a->alloc, (unsigned)target, &mv->extent);
	if (ok)
		mv->member = (uint8_t)target;
	pthread_mutex_unlock(&a->lock);
	return ok;
}

/* Copies one slot into the batch.  0 also when it cannot be done now. */
static int slot_mend(struct mending *md, const struct seg_state *g,
    unsigned slot, struct err *e)
{
	struct move mv;

	if (!move_begin(md->a, g, slot, &mv))
		return 0;
	if (slot_copy(md, &mv, g, e) == 0) {
		md->batch[md->count++] = mv;
		md->batch_bytes += (uint64_t)(mv.rows - mv.from) * RAID_ROW;
		return 0;
	}
	extent_give(md->a, &mv);
	return e->code == ERR_CANCELLED || e->code == ERR_NO_MEMORY ? -1 : 0;
}

static bool slot_due(struct array *a, uint64_t id, unsigned slot)
{
	const struct seg *s;
	bool due;

	pthread_mutex_lock(&a->lock);
	s = map_find(&a->map, id);
	due = s && !s->freed && slot < s->s.width && !s->open &&
	    slot_target(a, &s->s, slot) >= 0;
	pthread_mutex_unlock(&a->lock);
	return due;
}

/* The slots of the segment, one after another.  The target of one must be in
 * the map before that of the next is chosen (M2): two of them share no
 * batch. */
static int segment_mend(struct mending *md, uint64_t id, struct err *e)
{
	struct seg_state g;
	int rc = 0;

	for (unsigned slot = 0; slot < SEG_WIDTH_MAX && rc == 0; slot++) {
		if (!slot_due(md->a, id, slot))
			continue;
		if (md->count > 0 && md->batch[md->count - 1].id == id)
			rc = batch_end(md, e);
		if (rc != 0 || !seg_lease(md->a, id, &g))
			return rc;
		rc = slot_mend(md, &g, slot, e);
		seg_lease_end(md->a, id);
		if (rc == 0 && (md->count == BATCH_MAX ||
		    md->batch_bytes >= BATCH_BYTES))
			rc = batch_end(md, e);
	}
	return rc;
}

/* ---- before and after ------------------------------------------------ */

static void idle_apply(struct array *a, void *arg, uint64_t flush)
{
	struct open_seg *os = a->opens, *next;

	(void)arg;
	(void)flush;
	for (; os; os = next) {
		next = os->next;
		if (!os->full || !open_seg_idle_locked(os))
			continue;
		os->seg->s.sealed = true;
		open_seg_drop_locked(a, os);
	}
}

/* Open segments with a member that takes no more writes, and with nothing
 * unflushed, are sealed; in commit, so no cut is on its way. */
static int idle_seal(struct array *a, struct err *e)
{
	uint8_t body[REC_SEGMENT_MAX];
	struct recset r;
	int rc;

	if (array_commit_enter(a, e) != 0)
		return -1;
	recset_init(&r);
	rc = 0;
	pthread_mutex_lock(&a->lock);
	for (struct open_seg *os = a->opens; os && rc == 0; os = os->next) {
		struct seg_state s = os->seg->s;

		if (!os->full || !open_seg_idle_locked(os) ||
		    !os->seg->durable)
			continue;
		s.sealed = true;
		rc = recset_add(&r, REC_SEGMENT, body,
		    rec_segment_put(body, &s), e);
	}
	pthread_mutex_unlock(&a->lock);
	if (rc == 0 && r.count > 0)
		rc = array_log(a, r.recs, r.count, idle_apply, NULL, e);
	recset_release(&r);
	array_commit_leave(a);
	return rc;
}

/* Replaced members with nothing left on them are gone for ever. */
static int replaced_remove(struct array *a, struct err *e)
{
	int rc;

	if (array_commit_enter(a, e) != 0)
		return -1;
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < a->as->member_count; i++) {
		struct member *m = a->as->members[i];

		if (!member_empty(a, m))
			continue;
		m->state = MEMBER_REMOVED;
		a->members_changed = true;
	}
	pthread_mutex_unlock(&a->lock);
	rc = array_members_commit(a, e);
	array_commit_leave(a);
	return rc;
}

static int mend_all(struct mending *md, struct err *e)
{
	struct job *jobs;
	uint64_t bytes;
	size_t count;
	struct err why;
	int rc = 0;

	if (idle_seal(md->a, e) != 0)
		return -1;
	jobs = jobs_list(md->a, &count, &bytes);
	if (!jobs)
		return err_set(e, ERR_NO_MEMORY, "no memory to mend");
	if (md->ctl)
		atomic_store(&md->ctl->total, bytes);
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = segment_mend(md, jobs[i].id, e);
	free(jobs);
	/* What was copied counts, also when it was stopped. */
	if (batch_end(md, &why) != 0 && rc == 0) {
		*e = why;
		rc = -1;
	}
	return rc == 0 ? replaced_remove(md->a, e) : -1;
}

int array_mend(struct array *a, struct scan_report *report,
    struct job_ctl *ctl, struct err *e)
{
	struct mending *md;
	int rc;

	if (a->read_only)
		return err_set(e, ERR_DENIED, "the array is open read-only");
	md = calloc(1, sizeof(*md));
	if (!md)
		return err_set(e, ERR_NO_MEMORY, "no memory to mend");
	md->a = a;
	md->report = report;
	md->ctl = ctl;
	md->started_ms = clock_mono_ms();
	pthread_mutex_lock(&a->mend);
	rc = mend_all(md, e);
	pthread_mutex_unlock(&a->mend);
	iobuf_unref(md->buf);
	free(md);
	return rc;
}
