/*
 * raid/mio.c - two lanes of device calls per member.
 *
 * A lane is a thread and a list of jobs.  A job belongs to the lane while it is
 * queued or running, and to the waiting caller as well; whoever lets go last
 * frees it (job.refs, guarded by the lock).  So a caller may give up and go on
 * with its own buffers, while the call that hangs in the kernel keeps the
 * counted one it was given.
 *
 * What is timed is the call at the head of a lane, not the wait in its queue:
 * a long queue on a healthy disk is no fault of the disk.
 *
 * Locks: mio->lock, alone; never held during a device call.
 */
#include "raid/mio.h"

#include "base/clock.h"
#include "raid/array.h"
#include "raid/dev.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIMIT_MS_DEFAULT 30000

struct job {
	enum mio_op op;
	bool uncached;
	struct iobuf *buf;
	size_t buf_offset, size;
	uint64_t offset;
	/* guarded by mio->lock */
	unsigned refs;
	bool done, dropped;
	int rc;
	struct err e;
	uint64_t took_ms;
	struct job *next;
};

enum lane_kind { LANE_WRITE, LANE_READ, LANES };

struct lane {
	struct mio *mio;
	pthread_t thread;
	pthread_cond_t wake;	/* there is a job, or it is the end */
	struct job *first, **last;
	bool running;		/* in a device call, since: */
	uint64_t since_ms;
	bool stuck;		/* that call was given up */
	bool ended;
};

struct mio {
	struct dev *dev;
	uint64_t limit_ms;
	pthread_mutex_t lock;	/* guards all below, and the lanes */
	pthread_cond_t done;	/* a job was done, or a lane ended */
	struct lane lanes[LANES];
	unsigned refs;		/* the owner, and each thread */
	bool ending;
	uint64_t slow_ms;
	struct mio_guard guard;	/* constant once guard_row is there */
	struct iobuf *guard_row;
	uint64_t guard_seen_ms;
};

/* ---- buffers ---------------------------------------------------------- */

struct iobuf *iobuf_new(size_t size)
{
	struct iobuf *b = malloc(sizeof(*b));
	size_t room = (size + RAID_ROW - 1) / RAID_ROW * RAID_ROW;

	if (!b)
		return NULL;
	b->data = aligned_alloc(RAID_ROW, room ? room : RAID_ROW);
	if (!b->data) {
		free(b);
		return NULL;
	}
	memset(b->data, 0, room);
	b->size = size;
	atomic_init(&b->refs, 1);
	return b;
}

struct iobuf *iobuf_ref(struct iobuf *b)
{
	atomic_fetch_add(&b->refs, 1);
	return b;
}

void iobuf_unref(struct iobuf *b)
{
	if (!b || atomic_fetch_sub(&b->refs, 1) != 1)
		return;
	free(b->data);
	free(b);
}

/* ---- the lane's side -------------------------------------------------- */

static void job_unref(struct job *j)	/* locked */
{
	if (--j->refs > 0)
		return;
	iobuf_unref(j->buf);
	free(j);
}

static void job_call(struct dev *d, struct job *j)
{
	uint8_t *at = j->buf ? j->buf->data + j->buf_offset : NULL;

	switch (j->op) {
	case MIO_READ:
		j->rc = d->ops->read(d, at, j->size, j->offset, j->uncached,
		    &j->e);
		break;
	case MIO_WRITE:
		j->rc = d->ops->write(d, at, j->size, j->offset, &j->e);
		break;
	case MIO_FLUSH:
		j->rc = d->ops->flush(d, &j->e);
		break;
	}
}

/* Locked. */
static bool guard_is_due(const struct mio *m, const struct job *j)
{
	return j->op == MIO_WRITE && m->guard_row &&
	    clock_boot_ms() > m->guard_seen_ms + m->guard.age_ms;
}

/* On the write lane alone, so there is one user of the row.  `never`: it was
 * not seen to be right yet, which is no sign that it was once. */
static int guard_pass(struct mio *m, bool never, struct err *e)
{
	uint64_t now = clock_boot_ms();
	struct dev *d = m->dev;
	struct err ignored;

	if (d->ops->read(d, m->guard_row->data, RAID_ROW, m->guard.offset,
	    true, &ignored) != 0)
		return 0;
	if (m->guard.judge(m->guard_row->data, m->guard.key, e) != 0) {
		if (never)
			e->code = ERR_IO;
		return -1;
	}
	mio_guard_seen(m, now);
	return 0;
}

static void mio_unref(struct mio *m)	/* locked; unlocks */
{
	bool last = --m->refs == 0;

	pthread_mutex_unlock(&m->lock);
	if (!last)
		return;
	dev_close(m->dev);
	iobuf_unref(m->guard_row);
	for (int i = 0; i < LANES; i++)
		pthread_cond_destroy(&m->lanes[i].wake);
	pthread_cond_destroy(&m->done);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

static void lane_step(struct lane *l)	/* locked, around the call */
{
	struct mio *m = l->mio;
	struct job *j = l->first;
	bool guarded = guard_is_due(m, j), never = m->guard_seen_ms == 0;

	l->first = j->next;
	if (!l->first)
		l->last = &l->first;
	if (!j->dropped) {
		l->running = true;
		l->since_ms = clock_mono_ms();
		pthread_mutex_unlock(&m->lock);
		if (guarded && guard_pass(m, never, &j->e) != 0)
			j->rc = -1;
		else
			job_call(m->dev, j);
		pthread_mutex_lock(&m->lock);
		l->running = l->stuck = false;
		j->took_ms = clock_mono_ms() - l->since_ms;
		if (j->took_ms > m->slow_ms)
			m->slow_ms = j->took_ms;
		j->done = true;
		pthread_cond_broadcast(&m->done);
	}
	job_unref(j);
}

static void *lane_main(void *arg)
{
	struct lane *l = arg;
	struct mio *m = l->mio;

	pthread_mutex_lock(&m->lock);
	for (;;) {
		while (!l->first && !m->ending)
			pthread_cond_wait(&l->wake, &m->lock);
		if (!l->first)
			break;
		lane_step(l);
	}
	l->ended = true;
	pthread_cond_broadcast(&m->done);
	mio_unref(m);
	return NULL;
}

/* ---- life ------------------------------------------------------------- */

static void cond_init_mono(pthread_cond_t *c)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

static int lanes_start(struct mio *m, struct err *e)
{
	for (int i = 0; i < LANES; i++) {
		struct lane *l = &m->lanes[i];
		int os;

		pthread_mutex_lock(&m->lock);
		m->refs++;
		os = pthread_create(&l->thread, NULL, lane_main, l);
		if (os != 0) {
			m->refs--;
			l->ended = true;
		} else {
			pthread_detach(l->thread);
		}
		pthread_mutex_unlock(&m->lock);
		if (os == 0)
			continue;
		for (int k = i; k < LANES; k++)
			m->lanes[k].ended = true;
		return err_os(e, os, "start a thread for %s", m->dev->name);
	}
	return 0;
}

int mio_new(struct mio **out, struct dev *dev, uint64_t limit_ms,
    struct err *e)
{
	struct mio *m = calloc(1, sizeof(*m));

	if (!m) {
		dev_close(dev);
		return err_set(e, ERR_NO_MEMORY, "no memory for a member");
	}
	m->dev = dev;
	m->limit_ms = limit_ms ? limit_ms : LIMIT_MS_DEFAULT;
	m->refs = 1;
	pthread_mutex_init(&m->lock, NULL);
	cond_init_mono(&m->done);
	for (int i = 0; i < LANES; i++) {
		m->lanes[i].mio = m;
		m->lanes[i].last = &m->lanes[i].first;
		pthread_cond_init(&m->lanes[i].wake, NULL);
	}
	if (lanes_start(m, e) != 0) {
		mio_free(m);
		return -1;
	}
	*out = m;
	return 0;
}

/* Locked.  Waits until `limit` (mono ms) at most. */
static void wait_until(struct mio *m, uint64_t limit)
{
	struct timespec ts = {
		.tv_sec = (time_t)(limit / 1000),
		.tv_nsec = (long)(limit % 1000) * 1000000,
	};

	pthread_cond_timedwait(&m->done, &m->lock, &ts);
}

/* Locked.  Marks the lane stuck if its call has been running for too long;
 * `*limit` is when that will be so. */
static bool lane_is_stuck(struct lane *l, uint64_t *limit)
{
	uint64_t now = clock_mono_ms();

	*limit = (l->running ? l->since_ms : now) + l->mio->limit_ms;
	if (l->running && now >= *limit)
		l->stuck = true;
	return l->stuck;
}

static void lane_drop_queue(struct lane *l)	/* locked */
{
	for (struct job *j = l->first; j; j = j->next)
		j->dropped = true;
}

void mio_free(struct mio *m)
{
	uint64_t limit;

	if (!m)
		return;
	pthread_mutex_lock(&m->lock);
	m->ending = true;
	for (int i = 0; i < LANES; i++)
		pthread_cond_signal(&m->lanes[i].wake);
	for (int i = 0; i < LANES; i++) {
		struct lane *l = &m->lanes[i];

		while (!l->ended && !lane_is_stuck(l, &limit))
			wait_until(m, limit);
		if (!l->ended)
			lane_drop_queue(l);
	}
	mio_unref(m);
}

struct dev *mio_dev(struct mio *m)
{
	return m->dev;
}

/* ---- the caller's side ------------------------------------------------ */

static struct job *job_submit(const struct mio_req *r)
{
	struct mio *m = r->mio;
	struct lane *l = &m->lanes[r->op == MIO_READ ? LANE_READ : LANE_WRITE];
	struct job *j;

	assert(r->size % RAID_ROW == 0 && r->offset % RAID_ROW == 0);
	assert(r->op == MIO_FLUSH || r->buf_offset + r->size <=
	    (r->buf->size + RAID_ROW - 1) / RAID_ROW * RAID_ROW);
	j = calloc(1, sizeof(*j));
	if (!j)
		return NULL;
	j->op = r->op;
	j->uncached = r->uncached;
	j->buf = r->op == MIO_FLUSH ? NULL : iobuf_ref(r->buf);
	j->buf_offset = r->buf_offset;
	j->size = r->size;
	j->offset = r->offset;
	j->refs = 2;
	pthread_mutex_lock(&m->lock);
	*l->last = j;
	l->last = &j->next;
	pthread_cond_signal(&l->wake);
	pthread_mutex_unlock(&m->lock);
	return j;
}

static void job_wait(struct job *j, struct mio_req *r)
{
	static const char *const verb[] = { "read", "write", "flush" };
	struct mio *m = r->mio;
	struct lane *l = &m->lanes[r->op == MIO_READ ? LANE_READ : LANE_WRITE];
	uint64_t limit, began = clock_mono_ms();
	uint64_t last = r->wait_ms ? began + r->wait_ms : UINT64_MAX;

	pthread_mutex_lock(&m->lock);
	while (!j->done && !lane_is_stuck(l, &limit) &&
	    clock_mono_ms() < last)
		wait_until(m, limit < last ? limit : last);
	if (j->done) {
		r->rc = j->rc;
		r->took_ms = j->took_ms;
		if (j->rc != 0)
			r->e = j->e;
	} else {
		j->dropped = true;
		r->took_ms = l->stuck ? m->limit_ms : r->wait_ms;
		r->rc = err_set(&r->e, ERR_TIMEOUT,
		    "%s: a %s did not end within %llu ms", m->dev->name,
		    verb[r->op], (unsigned long long)r->took_ms);
	}
	job_unref(j);
	pthread_mutex_unlock(&m->lock);
}

/* In waves, so that the list of jobs needs no allocation. */
#define WAVE 128

static void run_wave(struct mio_req *reqs, size_t count)
{
	struct job *jobs[WAVE];

	for (size_t i = 0; i < count; i++)
		jobs[i] = job_submit(&reqs[i]);
	for (size_t i = 0; i < count; i++) {
		if (jobs[i])
			job_wait(jobs[i], &reqs[i]);
		else
			reqs[i].rc = err_set(&reqs[i].e, ERR_NO_MEMORY,
			    "no memory for a device call");
	}
}

void mio_run(struct mio_req *reqs, size_t count)
{
	for (size_t i = 0; i < count; i += WAVE)
		run_wave(reqs + i, count - i < WAVE ? count - i : WAVE);
}

static int run_one(struct mio_req *r, struct err *e)
{
	mio_run(r, 1);
	if (r->rc != 0)
		*e = r->e;
	return r->rc;
}

int mio_read(struct mio *m, void *out, size_t size, uint64_t offset,
    bool uncached, struct err *e)
{
	struct mio_req r = { .mio = m, .op = MIO_READ, .uncached = uncached,
		.size = size, .offset = offset, .buf = iobuf_new(size) };

	if (!r.buf)
		return err_set(e, ERR_NO_MEMORY, "no %zu bytes for a read",
		    size);
	if (run_one(&r, e) == 0)
		memcpy(out, r.buf->data, size);
	iobuf_unref(r.buf);
	return r.rc;
}

int mio_write(struct mio *m, const void *data, size_t size, uint64_t offset,
    struct err *e)
{
	struct mio_req r = { .mio = m, .op = MIO_WRITE, .size = size,
		.offset = offset, .buf = iobuf_new(size) };

	if (!r.buf)
		return err_set(e, ERR_NO_MEMORY, "no %zu bytes for a write",
		    size);
	memcpy(r.buf->data, data, size);
	run_one(&r, e);
	iobuf_unref(r.buf);
	return r.rc;
}

int mio_flush(struct mio *m, struct err *e)
{
	struct mio_req r = { .mio = m, .op = MIO_FLUSH };

	return run_one(&r, e);
}

int mio_guard_set(struct mio *m, const struct mio_guard *g, struct err *e)
{
	struct iobuf *row = iobuf_new(RAID_ROW);

	if (!row)
		return err_set(e, ERR_NO_MEMORY, "no memory for a member");
	pthread_mutex_lock(&m->lock);
	if (!m->guard_row) {
		m->guard = *g;
		m->guard_row = row;
		row = NULL;
	}
	pthread_mutex_unlock(&m->lock);
	iobuf_unref(row);
	return 0;
}

void mio_guard_seen(struct mio *m, uint64_t boot_ms)
{
	pthread_mutex_lock(&m->lock);
	if (boot_ms > m->guard_seen_ms)
		m->guard_seen_ms = boot_ms;
	pthread_mutex_unlock(&m->lock);
}

bool mio_stuck(struct mio *m)
{
	bool stuck;

	pthread_mutex_lock(&m->lock);
	stuck = m->lanes[LANE_READ].stuck || m->lanes[LANE_WRITE].stuck;
	pthread_mutex_unlock(&m->lock);
	return stuck;
}

uint64_t mio_slow_ms(struct mio *m)
{
	uint64_t ms;

	pthread_mutex_lock(&m->lock);
	ms = m->slow_ms;
	pthread_mutex_unlock(&m->lock);
	return ms;
}
