/*
 * raid/segment.c - how frames become stripes on the members.
 *
 * THE PROMISE
 *
 *   A slot (a row of an extent, under one segment and nonce) is written once.
 *   Stripes follow one another without gap; all but the last of a flush or of
 *   the segment are full, so a place needs no table of stripes to be read.
 *
 * THE ORDER
 *
 *   copy --> (stripe full, or cut) --> queue --> writer: sums, parity, headers
 *        --> all members beside each other --> counted as written
 *
 *   A flush waits until the stripes of its cut are counted, then flushes the
 *   members (raid/flush.c).  Stripes of the next cut may be written meanwhile.
 *
 * WHAT A CRASH LEAVES
 *
 *   Stripes beyond the durable end, in no record.  Their rows are never used
 *   again: the segment is sealed at the next opening.  A segment that no
 *   record names is forgotten; its id was reserved and is not used again.
 *
 * INVARIANTS   (tests/raid/test_cut.c, tests/raid/test_redo.c)
 *
 *   S1  A frame spans neither cut nor segment.
 *   S2  All stripes of a cut but its last, and of a frame but its last, have
 *       strips of RAID_STRIP_MAX.
 *   S3  What an append reserved is free in its segment at the cut.
 *   S4  A stripe that misses more strips than the segment has parity stops the
 *       array: it is never acked.
 */
#include "raid/segment.h"

#include "base/hash.h"
#include "raid/fmt_record.h"
#include "raid/stripe_io.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- sizes ----------------------------------------------------------- */

uint8_t stripe_units_max(const struct array *a, uint32_t row)
{
	uint32_t left = row < a->extent_rows ? a->extent_rows - row : 0;

	if (left < 2)
		return 0;
	return (uint8_t)(left - 1 < STRIP_UNITS_MAX ? left - 1 :
	    STRIP_UNITS_MAX);
}

size_t stripe_room(const struct open_seg *os, uint32_t row,
    const struct array *a)
{
	return (size_t)seg_k(&os->seg->s) * stripe_units_max(a, row) *
	    RAID_ROW;
}

uint64_t open_seg_room(const struct array *a, const struct open_seg *os)
{
	uint64_t room = alloc_strip_room(a->extent_rows, os->row) *
	    seg_k(&os->seg->s);

	return room - (os->stripe ? os->stripe->fill : 0);
}

uint8_t stripe_units(size_t fill, unsigned k)
{
	size_t row = (size_t)k * RAID_ROW;

	return (uint8_t)((fill + row - 1) / row);
}

/* ---- buffers --------------------------------------------------------- */

static struct iobuf *spare_find(struct array *a, size_t size)
{
	for (size_t i = 0; i < ARRAY_SPARES; i++) {
		struct iobuf *b = a->spare[i];

		if (b && b->size == size) {
			a->spare[i] = NULL;
			return b;
		}
	}
	return NULL;
}

/* Waits while too many are in use and some are on their way. */
static struct iobuf *buffer_get(struct array *a, size_t size, bool bounded,
    struct err *e)
{
	struct iobuf *b = NULL;
	int rc;

	pthread_mutex_lock(&a->lock);
	while (bounded && a->buffer_bytes + size > ARRAY_BUFFER_MAX &&
	    a->in_flight > 0 && !a->stopped)
		pthread_cond_wait(&a->changed, &a->lock);
	rc = array_running_locked(a, e);
	if (rc == 0) {
		a->buffer_bytes += size;
		b = spare_find(a, size);
	}
	pthread_mutex_unlock(&a->lock);
	if (rc != 0 || b)
		return b;
	b = iobuf_new(size);
	if (!b) {
		err_set(e, ERR_NO_MEMORY, "no memory for a stripe");
		pthread_mutex_lock(&a->lock);
		a->buffer_bytes -= size;
		pthread_mutex_unlock(&a->lock);
	}
	return b;
}

/* Kept for the next stripe, unless a device call that was given up still
 * holds it. */
static void buffer_put_locked(struct array *a, struct iobuf *b)
{
	size_t kept = 0;

	a->buffer_bytes -= b->size;
	for (size_t i = 0; i < ARRAY_SPARES; i++)
		kept += a->spare[i] ? a->spare[i]->size : 0;
	for (size_t i = 0; i < ARRAY_SPARES; i++)
		if (!a->spare[i] && atomic_load(&b->refs) == 1 &&
		    kept + b->size <= ARRAY_BUFFER_MAX / 3) {
			a->spare[i] = b;
			return;
		}
	iobuf_unref(b);
}

static int stripe_new(struct array *a, struct open_seg *os, bool bounded,
    struct err *e)
{
	size_t size = (size_t)os->seg->s.width * STRIP_STRIDE;
	struct stripe *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(e, ERR_NO_MEMORY, "no memory for a stripe");
	s->buf = buffer_get(a, size, bounded, e);
	if (!s->buf) {
		free(s);
		return -1;
	}
	s->os = os;
	s->buf_size = size;
	s->row = os->row;
	s->units = stripe_units_max(a, os->row);
	os->stripe = s;
	return 0;
}

static void stripe_free_locked(struct array *a, struct stripe *s)
{
	if (!s)
		return;
	buffer_put_locked(a, s->buf);
	free(s);
}

/* ---- filling --------------------------------------------------------- */

/* Copy what fits; byte o of the stripe is in data strip o / L at o % L. */
static size_t stripe_fill(struct stripe *s, const uint8_t *data, size_t size,
    size_t room)
{
	size_t strip = (size_t)s->units * RAID_ROW;
	size_t done = 0;

	while (done < size && s->fill < room) {
		size_t no = s->fill / strip, at = s->fill % strip;
		size_t n = strip - at < size - done ? strip - at : size - done;

		memcpy(s->buf->data + no * STRIP_STRIDE + STRIP_HEADER_SIZE +
		    at, data + done, n);
		done += n;
		s->fill += (uint32_t)n;
	}
	return done;
}

static void stripe_queue(struct array *a, struct open_seg *os)
{
	struct stripe *s = os->stripe;

	os->stripe = NULL;
	os->row += 1u + s->units;
	os->used_bytes += (uint64_t)seg_k(&os->seg->s) * s->units * RAID_ROW;
	pthread_mutex_lock(&a->lock);
	s->cut = a->cut_no;
	s->next = NULL;
	if (a->queue_tail)
		a->queue_tail->next = s;
	else
		a->queue_head = s;
	a->queue_tail = s;
	a->pending[s->cut & 1]++;
	os->pending++;
	a->in_flight++;
	pthread_cond_signal(&a->work);
	pthread_mutex_unlock(&a->lock);
}

int open_seg_add(struct array *a, struct open_seg *os, const void *data,
    size_t size, bool bounded, struct place *place, struct err *e)
{
	const uint8_t *at = data;
	size_t room, n;

	place->segment = os->seg->s.id;
	place->row = os->row;
	place->offset = os->stripe ? os->stripe->fill : 0;
	place->size = (uint32_t)size;
	place->last = 0;
	while (size > 0) {
		if (!os->stripe && stripe_new(a, os, bounded, e) != 0)
			return -1;
		room = stripe_room(os, os->row, a);
		n = stripe_fill(os->stripe, at, size, room);
		assert(n > 0);	/* the caller has asked for the room */
		at += n;
		size -= n;
		if (os->stripe->fill == room)
			stripe_queue(a, os);
	}
	return 0;
}

void open_seg_close_stripe(struct array *a, struct open_seg *os)
{
	if (!os->stripe)
		return;
	if (os->stripe->fill > 0) {
		os->stripe->units = stripe_units(os->stripe->fill,
		    seg_k(&os->seg->s));
		stripe_queue(a, os);
		return;
	}
	pthread_mutex_lock(&a->lock);
	stripe_free_locked(a, os->stripe);
	os->stripe = NULL;
	pthread_mutex_unlock(&a->lock);
}

/* ---- open segments --------------------------------------------------- */

bool open_seg_idle_locked(const struct open_seg *os)
{
	return !os->busy && !os->took && !os->redo && os->pending == 0 &&
	    !os->stripe && (!os->seg->durable || os->row == os->seg->s.rows);
}

void open_seg_full_locked(struct array *a, struct open_seg *os)
{
	os->full = true;
	for (size_t i = 0; i < SEG_CLASSES; i++)
		if (a->current[i] == os)
			a->current[i] = NULL;
}

void open_seg_drop_locked(struct array *a, struct open_seg *os)
{
	struct open_seg **at = &a->opens;
	struct seg *s = os->seg;

	assert(os->pending == 0);
	while (*at != os)
		at = &(*at)->next;
	*at = os->next;
	open_seg_full_locked(a, os);
	stripe_free_locked(a, os->stripe);
	s->open = NULL;
	free(os);
	if (!s->durable)
		seg_freed_locked(a, s);
}

static struct open_seg *open_seg_link(struct array *a, struct seg *s)
{
	struct open_seg *os = calloc(1, sizeof(*os));

	if (!os)
		return NULL;
	memset(os->absent_from, 0xff, sizeof(os->absent_from));
	os->seg = s;
	os->row = s->s.rows;
	os->used_bytes = s->s.used_bytes;
	os->frame_bytes = s->s.frame_bytes;
	os->room = open_seg_room(a, os);
	os->next = a->opens;
	a->opens = os;
	s->open = os;
	return os;
}

int open_seg_continue(struct array *a, struct seg *s, struct err *e)
{
	struct open_seg *os = open_seg_link(a, s);

	if (!os)
		return err_set(e, ERR_NO_MEMORY, "no memory for a segment");
	if (a->current[s->s.class])
		os->full = true;
	else
		a->current[s->s.class] = os;
	return 0;
}

/* The extents of a new segment; all or none. */
static bool extents_take(struct array *a, const struct alloc_choice *c,
    struct seg_state *s)
{
	for (size_t i = 0; i < c->width; i++) {
		s->member[i] = c->member[i];
		if (alloc_take(&a->alloc, c->member[i], &s->extent[i]))
			continue;
		while (i-- > 0)
			alloc_give(&a->alloc, c->member[i], s->extent[i]);
		return false;
	}
	return true;
}

static int no_room(struct array *a, struct err *e)
{
	for (size_t i = 0; i < a->as->member_count; i++)
		if (member_writable(a->as->members[i]))
			return err_set(e, ERR_NO_SPACE, "the array is full");
	return err_set(e, ERR_UNAVAILABLE, "no member can be written to");
}

static int birth_locked(struct array *a, enum seg_class class, uint64_t nonce,
    struct err *e)
{
	struct alloc_choice c;
	struct alloc_room r;
	struct seg_state got;
	struct open_seg *os;
	struct seg *s;

	array_rooms_locked(a, a->use_reserve, &r);
	if (!alloc_choose(&r, a->parity, class, &c))
		return no_room(a, e);
	if (map_add(&a->map, a->next_id, &s, e) != 0)
		return -1;
	got = s->s;
	if (!extents_take(a, &c, &got)) {
		map_drop(&a->map, s);
		return no_room(a, e);
	}
	got.nonce = nonce;
	got.class = (uint8_t)class;
	got.width = c.width;
	got.parity = c.parity;
	got.birth_flush = a->flush + 1;
	s->s = got;
	os = open_seg_link(a, s);
	if (!os) {
		seg_freed_locked(a, s);
		return err_set(e, ERR_NO_MEMORY, "no memory for a segment");
	}
	a->next_id++;
	a->current[class] = os;
	return 0;
}

static void ids_apply(struct array *a, void *arg, uint64_t flush)
{
	const uint64_t *limit = arg;

	(void)flush;
	a->id_limit = *limit;
}

/* Commit, or a loan from a cut that waits for the caller's lock, which we are
 * in. */
static int ids_commit(struct array *a, bool *lent, struct err *e)
{
	int rc;

	pthread_mutex_lock(&a->lock);
	while (a->commit_busy && !a->cut_waits)
		pthread_cond_wait(&a->changed, &a->lock);
	rc = array_running_locked(a, e);
	*lent = a->commit_busy;
	if (rc == 0)
		a->commit_busy = true;
	pthread_mutex_unlock(&a->lock);
	return rc;
}

/* Ids must be reserved durably before they are written to a member. */
static int ids_reserve(struct array *a, struct err *e)
{
	uint8_t body[REC_ID_RESERVE_SIZE];
	uint64_t limit;
	bool lent;
	int rc;

	if (ids_commit(a, &lent, e) != 0)
		return -1;
	limit = a->next_id + ARRAY_IDS_BATCH;
	rec_id_reserve_put(body, limit);
	rc = array_log(a, &(struct log_rec){ REC_ID_RESERVE, sizeof(body),
	    body }, 1, ids_apply, &limit, e);
	if (!lent)
		array_commit_leave(a);
	return rc;
}

static int segment_birth(struct array *a, enum seg_class class, struct err *e)
{
	uint64_t nonce;
	bool reserved;
	int rc;

	if (random_bytes(&nonce, sizeof(nonce), e) != 0)
		return -1;
	pthread_mutex_lock(&a->lock);
	reserved = a->next_id < a->id_limit;
	pthread_mutex_unlock(&a->lock);
	if (!reserved && ids_reserve(a, e) != 0)
		return -1;
	pthread_mutex_lock(&a->lock);
	rc = birth_locked(a, class, nonce, e);
	pthread_mutex_unlock(&a->lock);
	return rc;
}

/* ---- append ---------------------------------------------------------- */

/* The open segment that takes `need` bytes more besides what it has promised;
 * marked busy.  NULL: a new one is needed. */
static struct open_seg *append_target(struct array *a, enum seg_class class,
    uint64_t need)
{
	struct open_seg *os = a->current[class];

	if (os && open_seg_room(a, os) < os->reserved + need) {
		open_seg_full_locked(a, os);
		os = NULL;
	}
	if (os)
		os->busy = true;
	return os;
}

static int append_check(struct array *a, size_t size, size_t reserve,
    struct err *e)
{
	if (a->read_only)
		return err_set(e, ERR_DENIED, "the array is open read-only");
	if (size < 1 || size > RAID_FRAME_MAX)
		return err_set(e, ERR_LIMIT, "a frame of %zu bytes", size);
	if (size + reserve > alloc_strip_room(a->extent_rows, 0))
		return err_set(e, ERR_LIMIT, "a frame of %zu bytes and %zu "
		    "kept back do not fit an extent", size, reserve);
	return 0;
}

int array_append(struct array *a, enum seg_class class, const void *data,
    size_t size, size_t reserve, struct place *place, struct err *e)
{
	struct open_seg *os = NULL;
	int rc;

	if (append_check(a, size, reserve, e) != 0)
		return -1;
	while (!os) {
		pthread_mutex_lock(&a->lock);
		rc = array_running_locked(a, e);
		if (rc == 0)
			os = append_target(a, class, size + reserve);
		pthread_mutex_unlock(&a->lock);
		if (rc != 0 || (!os && segment_birth(a, class, e) != 0))
			return -1;
	}
	rc = open_seg_add(a, os, data, size, true, place, e);
	pthread_mutex_lock(&a->lock);
	os->busy = false;
	os->took = true;
	os->room = open_seg_room(a, os);
	if (rc == 0) {
		os->reserved += reserve;
		os->frame_bytes += size;
		atomic_fetch_add(&a->unflushed, size);
	}
	pthread_mutex_unlock(&a->lock);
	return rc;
}

uint64_t array_unflushed(const struct array *a)
{
	return atomic_load(&a->unflushed);
}

/* ---- writers --------------------------------------------------------- */

static void stripe_done_locked(struct array *a, struct stripe *s,
    const struct seg_state *g, const bool *missing)
{
	struct open_seg *os = s->os;
	unsigned lost = 0;
	struct err e;

	for (unsigned i = 0; i < g->width; i++) {
		if (!missing[i]) {
			a->unflushed_on[g->member[i]] = true;
			continue;
		}
		lost++;
		if (s->row < os->absent_from[i])
			os->absent_from[i] = s->row;
	}
	if (lost > g->parity && !a->dead) {
		err_set(&e, ERR_UNAVAILABLE, "segment %" PRIu64 ": %u strips "
		    "of a stripe could not be written", g->id, lost);
		array_stop_locked(a, &e);
	}
	a->pending[s->cut & 1]--;
	os->pending--;
	a->in_flight--;
	stripe_free_locked(a, s);
	pthread_cond_broadcast(&a->changed);
}

static struct stripe *queue_take_locked(struct array *a)
{
	struct stripe *s;

	while (!a->queue_head && !a->quit)
		pthread_cond_wait(&a->work, &a->lock);
	s = a->queue_head;
	if (s) {
		a->queue_head = s->next;
		if (!a->queue_head)
			a->queue_tail = NULL;
	}
	return s;
}

static void *writer(void *arg)
{
	bool missing[SEG_WIDTH_MAX];
	struct array *a = arg;
	struct seg_state g;
	struct stripe *s;

	pthread_mutex_lock(&a->lock);
	while ((s = queue_take_locked(a))) {
		bool dead = a->dead;

		g = s->os->seg->s;
		pthread_mutex_unlock(&a->lock);
		memset(missing, 1, sizeof(missing));
		if (!dead)
			stripe_write(a, &g, s, missing);
		pthread_mutex_lock(&a->lock);
		stripe_done_locked(a, s, &g, missing);
	}
	pthread_mutex_unlock(&a->lock);
	return NULL;
}

int writers_start(struct array *a, struct err *e)
{
	for (; a->writer_count < ARRAY_WRITERS; a->writer_count++) {
		int rc = pthread_create(&a->writers[a->writer_count], NULL,
		    writer, a);

		if (rc != 0)
			return err_os(e, rc, "start a writer thread");
	}
	return 0;
}

void writers_stop(struct array *a)
{
	pthread_mutex_lock(&a->lock);
	a->quit = true;
	pthread_cond_broadcast(&a->work);
	pthread_mutex_unlock(&a->lock);
	for (unsigned i = 0; i < a->writer_count; i++)
		pthread_join(a->writers[i], NULL);
	a->writer_count = 0;
}

void segments_release(struct array *a)
{
	pthread_mutex_lock(&a->lock);
	while (a->opens)
		open_seg_drop_locked(a, a->opens);
	for (size_t i = 0; i < ARRAY_SPARES; i++)
		iobuf_unref(a->spare[i]);
	memset(a->spare, 0, sizeof(a->spare));
	pthread_mutex_unlock(&a->lock);
}

/* ---- leases ---------------------------------------------------------- */

/* Until `due` at the latest; NULL: freed, or not in time. */
static struct seg *seg_wait(struct array *a, uint64_t id, bool alone,
    const struct timespec *due)
{
	struct seg *s;
	int rc = 0;

	while ((s = map_find(&a->map, id)) && s->durable && !s->freed) {
		if (!s->exclusive && (!alone || s->leases == 0))
			return s;
		if (rc != 0)
			return NULL;
		rc = due ? pthread_cond_timedwait(&a->changed, &a->lock, due) :
		    pthread_cond_wait(&a->changed, &a->lock);
	}
	return NULL;
}

bool seg_lease(struct array *a, uint64_t id, struct seg_state *out)
{
	struct seg *s;

	pthread_mutex_lock(&a->lock);
	s = seg_wait(a, id, false, NULL);
	if (s) {
		s->leases++;
		*out = s->s;
	}
	pthread_mutex_unlock(&a->lock);
	return s != NULL;
}

static void seg_gone_locked(struct array *a, struct seg *s)
{
	for (size_t i = 0; i < s->s.width; i++)
		alloc_give(&a->alloc, s->s.member[i], s->s.extent[i]);
	map_drop(&a->map, s);
}

void seg_freed_locked(struct array *a, struct seg *s)
{
	s->freed = true;
	if (s->verify_noted)
		a->verify_notes--;
	s->verify_noted = false;
	if (s->leases == 0 && !s->exclusive)
		seg_gone_locked(a, s);
	pthread_cond_broadcast(&a->changed);
}

void seg_lease_end(struct array *a, uint64_t id)
{
	struct seg *s;

	pthread_mutex_lock(&a->lock);
	s = map_find(&a->map, id);
	if (s) {
		s->leases--;
		if (s->freed && s->leases == 0 && !s->exclusive)
			seg_gone_locked(a, s);
	}
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
}

bool seg_hold(struct array *a, uint64_t id, struct seg_state *out)
{
	struct timespec due;
	struct seg *s;

	clock_gettime(CLOCK_MONOTONIC, &due);	/* as the condition does */
	due.tv_sec += SEG_HOLD_MS / 1000;
	pthread_mutex_lock(&a->lock);
	s = seg_wait(a, id, true, &due);
	if (s) {
		s->exclusive = true;
		*out = s->s;
	}
	pthread_mutex_unlock(&a->lock);
	return s != NULL;
}

void seg_hold_end(struct array *a, uint64_t id)
{
	struct seg *s;

	pthread_mutex_lock(&a->lock);
	s = map_find(&a->map, id);
	if (s) {
		s->exclusive = false;
		if (s->freed && s->leases == 0)
			seg_gone_locked(a, s);
	}
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
}
