/*
 * client/push_lane.c - chunks: known? grouped, compressed, sent.
 *
 *   L1  An id is claimed once in a push (seen), and a claimed chunk has a
 *       number.  A number is settled when its chunk is on the wire or was
 *       there already.  A page that is sent after all numbers below some N
 *       were settled may name any chunk claimed before N.
 *   L2  A lane belongs to one thread that adds; neighbouring chunks of a file
 *       so share a frame, and are read together one day.
 *   L3  HAVE is asked when nothing is being asked, or ASK_BATCH ids have come
 *       together: short waits when little is asked, full batches when much.
 *   L4  Who needs a frame waits until one is free: that is how a slow line
 *       slows the readers.  Frames come back from the compressors alone, which
 *       wait only for the wire.
 */
#include "client/push_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ASK_BATCH 256
/* A chunk from here on has a frame of its own. */
#define LARGE_CHUNK (FRAME_GROUP_MAX / 2)
#define COMPRESSORS_MAX 4

/* ---- numbers ------------------------------------------------------------ */

static void settle(struct push *p, const uint64_t *seqs, size_t count)
{
	pthread_mutex_lock(&p->seen_lock);
	for (size_t i = 0; i < count; i++)
		p->settled[seqs[i] % PUSH_OPEN_CHUNKS] = 1;
	while (p->settled_seq < p->next_seq &&
	    p->settled[p->settled_seq % PUSH_OPEN_CHUNKS])
		p->settled[p->settled_seq++ % PUSH_OPEN_CHUNKS] = 0;
	pthread_cond_broadcast(&p->settle_done);
	pthread_mutex_unlock(&p->seen_lock);
}

/* L1: true if this call claimed it, under *seq. */
static bool claim(struct push *p, const struct id *id, uint64_t *seq)
{
	bool mine;

	pthread_mutex_lock(&p->seen_lock);
	mine = !seen_add(p->seen, id);
	if (mine) {
		*seq = p->next_seq++;
		assert(p->next_seq - p->settled_seq <= PUSH_OPEN_CHUNKS);
	}
	pthread_mutex_unlock(&p->seen_lock);
	return mine;
}

uint64_t push_next_seq(struct push *p)
{
	uint64_t seq;

	pthread_mutex_lock(&p->seen_lock);
	seq = p->next_seq;
	pthread_mutex_unlock(&p->seen_lock);
	return seq;
}

bool push_is_settled(struct push *p, uint64_t before)
{
	bool yes;

	pthread_mutex_lock(&p->seen_lock);
	yes = p->settled_seq >= before;
	pthread_mutex_unlock(&p->seen_lock);
	return yes;
}

int push_settled(struct push *p, uint64_t before, struct err *e)
{
	pthread_mutex_lock(&p->seen_lock);
	while (p->settled_seq < before && !atomic_load(&p->failed))
		pthread_cond_wait(&p->settle_done, &p->seen_lock);
	pthread_mutex_unlock(&p->seen_lock);
	return push_check(p, e);
}

/* ---- frames ------------------------------------------------------------- */

static void frame_give_back(struct push_frame *f)
{
	struct push *p = f->push;

	f->count = 0;
	pthread_mutex_lock(&p->frame_lock);
	f->next = p->frames_free;
	p->frames_free = f;
	pthread_cond_signal(&p->frame_free);
	pthread_mutex_unlock(&p->frame_lock);
}

static struct push_frame *frame_take(struct push *p)
{
	struct push_frame *f;

	pthread_mutex_lock(&p->frame_lock);
	while (!p->frames_free && !atomic_load(&p->failed))
		pthread_cond_wait(&p->frame_free, &p->frame_lock);
	f = p->frames_free;
	if (f)
		p->frames_free = f->next;
	pthread_mutex_unlock(&p->frame_lock);
	return f;
}

/* In a thread of the pool. */
static void compress_and_send(struct pool_job *job)
{
	struct push_frame *f = (struct push_frame *)job;
	struct push *p = f->push;
	size_t plain = frame_builder_plain(f->builder);
	uint32_t number;
	struct err e;

	if (!atomic_load(&p->failed)) {
		if (frame_builder_finish(f->builder, p->o->codec, p->o->level,
		    &f->out, &e) != 0 || link_send_frame(p->link, f->out.data,
		    f->out.size, &number, &e) != 0) {
			push_fail(p, &e);
		} else {
			atomic_fetch_add(&p->counts.new_bytes, plain);
			settle(p, f->seqs, f->count);
		}
	}
	frame_give_back(f);
}

/* With the lane's lock held. */
static void ship(struct push_lane *l)
{
	struct push_frame *f = l->frame;

	if (!f)
		return;
	l->frame = NULL;
	pool_submit(l->push->pool, &f->job);
}

static int put(struct push_lane *l, const struct push_pending *n,
    const void *data, struct err *e)
{
	struct push *p = l->push;
	struct push_frame *f = l->frame;

	if (f && (n->size >= LARGE_CHUNK ||
	    !frame_builder_fits(f->builder, n->size, 0, FRAME_GROUP_MAX)))
		ship(l);
	if (!l->frame)
		l->frame = frame_take(p);
	f = l->frame;
	if (!f)
		return push_check(p, e);
	if (frame_builder_add(f->builder, &n->id, n->type, data, n->size,
	    NULL, 0, e) != 0)
		return -1;
	f->seqs[f->count++] = n->seq;
	if (n->size >= LARGE_CHUNK || f->count == FRAME_OBJECTS_MAX)
		ship(l);
	return 0;
}

/* ---- what waits for an answer ------------------------------------------- */

int push_fifo_add(struct push_fifo *f, const struct push_pending *n,
    const void *data, const struct id *refs, struct err *e)
{
	struct push_pending *mine = malloc(sizeof(*mine));
	size_t refs_size = n->ref_count * sizeof(*refs);

	if (mine) {
		*mine = *n;
		mine->next = NULL;
		mine->ask = NULL;
		mine->data = malloc(n->size + refs_size);
	}
	if (!mine || !mine->data) {
		free(mine);
		return err_set(e, ERR_NO_MEMORY, "no memory for an object");
	}
	memcpy(mine->data, data, n->size);
	if (refs_size > 0)
		memcpy(mine->data + n->size, refs, refs_size);
	*f->end = mine;
	f->end = &mine->next;
	if (!f->unasked)
		f->unasked = mine;
	f->unasked_count++;
	f->count++;
	f->bytes += n->size + refs_size;
	return 0;
}

/* L3 */
int push_fifo_ask(struct push *p, struct push_fifo *f, bool now,
    struct err *e)
{
	struct id ids[ASK_BATCH] = { 0 };
	struct push_pending *n;
	struct push_ask *a;
	size_t count = 0;

	if (f->unasked_count == 0 || (!now && f->unasked_count < ASK_BATCH &&
	    f->unasked != f->first))
		return 0;
	for (n = f->unasked; n && count < ASK_BATCH; n = n->next)
		ids[count++] = n->id;
	if (push_ask_send(&a, p, ids, count, e) != 0)
		return -1;
	pthread_mutex_lock(&p->ask_lock);
	a->refs = (unsigned)count;
	pthread_mutex_unlock(&p->ask_lock);
	n = f->unasked;
	for (size_t i = 0; i < count; i++, n = n->next) {
		n->ask = a;
		n->ask_index = i;
	}
	f->unasked = n;
	f->unasked_count -= count;
	return 0;
}

void push_fifo_pop(struct push *p, struct push_fifo *f)
{
	struct push_pending *n = f->first;

	f->first = n->next;
	if (!f->first)
		f->end = &f->first;
	if (f->unasked == n) {
		f->unasked = n->next;
		f->unasked_count--;
	}
	f->count--;
	f->bytes -= n->size + n->ref_count * sizeof(struct id);
	if (n->ask)
		push_ask_drop(p, n->ask);
	free(n->data);
	free(n);
}

void push_fifo_release(struct push *p, struct push_fifo *f)
{
	while (f->first)
		push_fifo_pop(p, f);
}

/* The oldest has its answer: settled, or to be sent. */
static int decide(struct push_lane *l, struct err *e)
{
	struct push_pending *n = l->asked.first;
	int rc = 0;

	if (push_ask_has(n->ask, n->ask_index))
		settle(l->push, &n->seq, 1);
	else
		rc = put(l, n, n->data, e);
	push_fifo_pop(l->push, &l->asked);
	return rc;
}

/* Work off what is answered; with `all`, wait until nothing waits. */
static int advance(struct push_lane *l, bool all, struct err *e)
{
	struct push_fifo *f = &l->asked;
	int rc;

	if (push_fifo_ask(l->push, f, all, e) != 0)
		return -1;
	while (f->first) {
		bool full = f->bytes > PUSH_ASKED_BYTES ||
		    f->count > PUSH_ASKED_COUNT;

		if (!f->first->ask && push_fifo_ask(l->push, f, true, e) != 0)
			return -1;
		rc = push_ask_ready(l->push, f->first->ask, all || full);
		if (rc < 0)
			return push_check(l->push, e);
		if (rc == 0)
			break;
		if (decide(l, e) != 0)
			return -1;
		if (push_fifo_ask(l->push, f, all, e) != 0)
			return -1;
	}
	return 0;
}

int push_chunk(struct push *p, unsigned lane, const struct id *id,
    const void *data, size_t size, struct err *e)
{
	struct push_lane *l = &p->lanes[lane];
	struct push_pending n = { .id = *id, .type = OBJECT_CHUNK,
		.size = size };
	int rc;

	if (!claim(p, id, &n.seq))
		return 0;
	pthread_mutex_lock(&l->lock);
	if (!p->ask) {
		rc = put(l, &n, data, e);
	} else {
		rc = push_fifo_add(&l->asked, &n, data, NULL, e);
		if (rc == 0)
			rc = advance(l, false, e);
	}
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/* With the lane's lock held: does it hold a chunk from before? */
static bool holds(const struct push_lane *l, uint64_t before)
{
	return (l->asked.first && l->asked.first->seq < before) ||
	    (l->frame && l->frame->count > 0 && l->frame->seqs[0] < before);
}

int push_lanes_flush(struct push *p, uint64_t before, struct err *e)
{
	int rc = 0;

	for (unsigned i = 0; rc == 0 && i < PUSH_LANES; i++) {
		struct push_lane *l = &p->lanes[i];

		pthread_mutex_lock(&l->lock);
		if (holds(l, before)) {
			rc = advance(l, true, e);
			ship(l);
		}
		pthread_mutex_unlock(&l->lock);
	}
	return rc;
}

/* ---- life --------------------------------------------------------------- */

static int frames_init(struct push *p, struct err *e)
{
	p->frames = calloc(PUSH_FRAMES, sizeof(*p->frames));
	if (!p->frames)
		return err_set(e, ERR_NO_MEMORY, "no memory for frames");
	for (size_t i = 0; i < PUSH_FRAMES; i++) {
		struct push_frame *f = &p->frames[i];

		f->push = p;
		f->job.run = compress_and_send;
		buf_init(&f->out, FRAME_STORED_MAX);
		if (frame_builder_new(&f->builder, e) != 0)
			return -1;
		f->next = p->frames_free;
		p->frames_free = f;
	}
	return 0;
}

int push_lanes_init(struct push *p, struct err *e)
{
	unsigned threads = pool_processors();

	for (unsigned i = 0; i < PUSH_LANES; i++) {
		p->lanes[i].push = p;
		p->lanes[i].asked.end = &p->lanes[i].asked.first;
		pthread_mutex_init(&p->lanes[i].lock, NULL);
	}
	p->pages.asked.end = &p->pages.asked.first;
	p->pages.ready_end = &p->pages.ready;
	pthread_mutex_init(&p->pages.lock, NULL);
	p->settled = calloc(PUSH_OPEN_CHUNKS, 1);
	if (!p->settled)
		return err_set(e, ERR_NO_MEMORY, "no memory for a push");
	if (seen_new(&p->seen, cache_dir_fd(p->cache), e) != 0 ||
	    frames_init(p, e) != 0 ||
	    frame_builder_new(&p->pages.builder, e) != 0)
		return -1;
	return pool_new(&p->pool, threads < COMPRESSORS_MAX ? threads :
	    COMPRESSORS_MAX, e);
}

/* The pool first: its threads use all the rest. */
void push_lanes_release(struct push *p)
{
	pool_free(p->pool);
	for (unsigned i = 0; i < PUSH_LANES; i++) {
		push_fifo_release(p, &p->lanes[i].asked);
		pthread_mutex_destroy(&p->lanes[i].lock);
	}
	push_fifo_release(p, &p->pages.asked);
	frame_builder_free(p->pages.builder);
	while (p->pages.ready) {
		struct push_frame *f = p->pages.ready;

		p->pages.ready = f->next;
		buf_release(&f->out);
		free(f);
	}
	pthread_mutex_destroy(&p->pages.lock);
	for (size_t i = 0; p->frames && i < PUSH_FRAMES; i++) {
		frame_builder_free(p->frames[i].builder);
		buf_release(&p->frames[i].out);
	}
	free(p->frames);
	seen_free(p->seen);
	free(p->settled);
}
