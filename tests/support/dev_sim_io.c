#include "tests/support/dev_sim_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct sim_dev {
	struct dev dev;		/* first: the array sees only this */
	struct sim *set;
	unsigned disk;
	uint64_t generation;
};

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Wait for a change in the set, until `until_ns` at most. */
static void wait_until(struct sim *s, uint64_t until_ns)
{
	struct timespec t = {
		.tv_sec = (time_t)(until_ns / 1000000000u),
		.tv_nsec = (long)(until_ns % 1000000000u),
	};

	pthread_cond_timedwait(&s->changed, &s->lock, &t);
}

/* ---- scheduler -------------------------------------------------------- */

static int request_order(const void *a, const void *b)
{
	const struct sim_request *x = *(struct sim_request *const *)a;
	const struct sim_request *y = *(struct sim_request *const *)b;

	if (x->disk != y->disk)
		return x->disk < y->disk ? -1 : 1;
	if (x->op != y->op)
		return x->op < y->op ? -1 : 1;
	if (x->offset != y->offset)
		return x->offset < y->offset ? -1 : 1;
	return x->size < y->size ? -1 : x->size > y->size;
}

static void sched_draw(struct sim *s)
{
	struct sim_sched *q = &s->sched;

	qsort(q->waiting, q->count, sizeof(struct sim_request *),
	    request_order);
	q->drawn = q->waiting[sim_random(&q->random) % q->count];
	pthread_cond_broadcast(&s->changed);
}

static void sched_leave(struct sim_sched *q, const struct sim_request *r)
{
	size_t i = 0;

	while (i < q->count && q->waiting[i] != r)
		i++;
	for (; i + 1 < q->count; i++)
		q->waiting[i] = q->waiting[i + 1];
	q->count--;
	if (q->drawn == r)
		q->drawn = NULL;
}

static void turn_take(struct sim *s, struct sim_request *r)
{
	struct sim_sched *q = &s->sched;
	bool on = q->on;

	if (!on)
		return;
	if (q->count == SIM_WAITERS_MAX)
		sim_die("more than %d calls at a time", SIM_WAITERS_MAX);
	q->waiting[q->count++] = r;
	q->joined_ns = now_ns();
	while (q->on && q->drawn != r) {
		if (q->running || q->drawn)
			pthread_cond_wait(&s->changed, &s->lock);
		else if (now_ns() >= q->joined_ns + q->grace_ns)
			sched_draw(s);
		else
			wait_until(s, q->joined_ns + q->grace_ns);
	}
	q->running = q->on;
	sched_leave(q, r);
}

/* The caller's thread may soon be back: its next call can join the draw. */
static void turn_end(struct sim *s)
{
	s->sched.running = false;
	if (s->sched.on)
		s->sched.joined_ns = now_ns();
	pthread_cond_broadcast(&s->changed);
}

void sim_schedule(struct sim *s, uint64_t seed, unsigned grace_us)
{
	pthread_mutex_lock(&s->lock);
	s->sched.on = seed != 0;
	s->sched.random = seed;
	s->sched.grace_ns = (uint64_t)grace_us * 1000;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

/* ---- faults ----------------------------------------------------------- */

static bool fault_matches(const struct sim_fault *f,
    const struct sim_request *r)
{
	if (!(f->ops & r->op))
		return false;
	if (f->disk != SIM_ALL_DISKS && f->disk != r->disk)
		return false;
	if (f->size == 0 || r->op == SIM_FLUSH)
		return true;
	return r->offset < f->offset + f->size &&
	    f->offset < r->offset + r->size;
}

struct verdict {
	enum sim_fault_kind kind;	/* 0 = none */
	struct sim_fault f;
	unsigned delay_ms;
	bool hang;
};

static void judge(struct sim *s, const struct sim_request *r,
    struct verdict *v)
{
	*v = (struct verdict){ 0 };
	for (unsigned i = 0; i < s->fault_count; i++) {
		struct sim_armed *a = &s->faults[i];
		const struct sim_fault *f = &a->f;

		if (!fault_matches(f, r) || ++a->seen < f->nth)
			continue;
		if (f->times && a->fired >= f->times)
			continue;
		if (f->kind == SIM_SLOW) {
			v->delay_ms += f->ms;
		} else if (f->kind == SIM_HANG) {
			v->hang = true;
		} else if (!v->kind) {
			v->kind = f->kind;
			v->f = *f;
		} else {
			continue;
		}
		a->fired++;
	}
}

unsigned sim_arm(struct sim *s, const struct sim_fault *f)
{
	unsigned n;

	pthread_mutex_lock(&s->lock);
	if (s->fault_count == SIM_FAULTS_MAX)
		sim_die("more than %d faults", SIM_FAULTS_MAX);
	n = s->fault_count++;
	s->faults[n] = (struct sim_armed){ .f = *f };
	if (f->nth == 0)
		s->faults[n].f.nth = 1;
	pthread_mutex_unlock(&s->lock);
	return n;
}

uint64_t sim_fired(struct sim *s, unsigned fault)
{
	uint64_t n;

	pthread_mutex_lock(&s->lock);
	if (fault >= s->fault_count)
		sim_die("fault %u is not armed", fault);
	n = s->faults[fault].fired;
	pthread_mutex_unlock(&s->lock);
	return n;
}

static void release(struct sim *s, bool disarm)
{
	pthread_mutex_lock(&s->lock);
	if (disarm)
		s->fault_count = 0;
	s->releases++;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

void sim_disarm(struct sim *s)
{
	release(s, true);
}

void sim_release(struct sim *s)
{
	release(s, false);
}

unsigned sim_hanging(struct sim *s)
{
	unsigned n;

	pthread_mutex_lock(&s->lock);
	n = s->hanging;
	pthread_mutex_unlock(&s->lock);
	return n;
}

static void with_disk(struct sim *s, unsigned disk,
    void (*change)(struct sim *, struct sim_disk *, int), int value)
{
	pthread_mutex_lock(&s->lock);
	change(s, sim_disk_at(s, disk), value);
	pthread_mutex_unlock(&s->lock);
}

static void set_dropped(struct sim *s, struct sim_disk *d, int dropped)
{
	if (dropped)
		sim_disk_drop(s, d);
	else
		d->dropped = false;
}

static void set_look(struct sim *s, struct sim_disk *d, int seen)
{
	(void)s;
	d->look = (enum dev_seen)seen;
}

static void set_read_only(struct sim *s, struct sim_disk *d, int on)
{
	(void)s;
	d->read_only = on;
}

void sim_drop(struct sim *s, unsigned disk)
{
	with_disk(s, disk, set_dropped, true);
}

void sim_return(struct sim *s, unsigned disk)
{
	with_disk(s, disk, set_dropped, false);
}

void sim_look(struct sim *s, unsigned disk, enum dev_seen seen)
{
	with_disk(s, disk, set_look, (int)seen);
}

void sim_read_only(struct sim *s, unsigned disk, bool read_only)
{
	with_disk(s, disk, set_read_only, read_only);
}

/* ---- what a call does ------------------------------------------------- */

static bool alive(const struct sim_dev *v)
{
	const struct sim *s = v->set;

	return s->power && !s->freed && v->generation == s->generation &&
	    !s->disks[v->disk]->dropped;
}

static int fail(const struct sim_dev *v, int os, const char *what,
    struct err *e)
{
	return err_os(e, os, "%s: %s", v->dev.name, what);
}

/* Pages out of the bytes of a write, with one bit changed if asked for. */
static struct sim_write *write_new(const struct sim_request *r,
    const struct verdict *v)
{
	uint32_t count = (uint32_t)(r->size / SIM_PAGE);
	struct sim_write *w = sim_alloc(1, sizeof(*w) +
	    count * sizeof(struct sim_page *));
	uint64_t at = r->size / 2;

	atomic_init(&w->refs, 1);
	w->page = r->offset / SIM_PAGE;
	w->count = count;
	if (v->kind == SIM_TORN)
		w->count = count > 1 ? count / 2 : 1;
	if (v->kind == SIM_MISDIRECT)
		w->page = v->f.target / SIM_PAGE;
	for (uint32_t i = 0; i < w->count; i++)
		w->pages[i] = sim_page_new((const uint8_t *)r->out +
		    (size_t)i * SIM_PAGE);
	if (v->f.size && v->f.offset >= r->offset)
		at = v->f.offset - r->offset;
	if (v->kind == SIM_FLIPPED)
		w->pages[at / SIM_PAGE]->data[at % SIM_PAGE] ^= 0x10;
	return w;
}

/* A page that is torn in the middle: its second half stays as it was. */
static void tear_page(struct sim_disk *d, struct sim_write *w)
{
	uint8_t old[SIM_PAGE];

	pages_read(&d->now, w->page, old);
	memcpy(w->pages[0]->data + SIM_PAGE / 2, old + SIM_PAGE / 2,
	    SIM_PAGE / 2);
}

static void mend_bad(struct sim_disk *d, const struct sim_write *w)
{
	size_t kept = 0;

	for (size_t i = 0; i < d->bad_count; i++)
		if (d->bad[i] < w->page || d->bad[i] >= w->page + w->count)
			d->bad[kept++] = d->bad[i];
	d->bad_count = kept;
}

static void do_write(struct sim_disk *d, const struct sim_request *r,
    const struct verdict *v)
{
	struct sim_write *w;

	if (v->kind == SIM_LOST)
		return;
	w = write_new(r, v);
	if (v->kind == SIM_TORN && r->size == SIM_PAGE)
		tear_page(d, w);
	for (uint32_t i = 0; i < w->count; i++)
		pages_set(&d->now, w->page + i, w->pages[i]);
	mend_bad(d, w);
	sim_list_add(d, w);
}

static int call_write(struct sim_dev *v, const struct sim_request *r,
    const struct verdict *j, bool crash, struct err *e)
{
	struct sim_disk *d = v->set->disks[v->disk];

	if (v->dev.read_only || d->read_only)
		return fail(v, EROFS, "write", e);
	if (j->kind == SIM_ERROR)
		return fail(v, EIO, "write", e);
	if (j->kind == SIM_NO_SPACE)
		return fail(v, ENOSPC, "write", e);
	do_write(d, r, j);
	sim_record_now(v->set);
	return crash ? fail(v, EIO, "write: power cut", e) : 0;
}

static int call_flush(struct sim_dev *v, const struct verdict *j, bool crash,
    struct err *e)
{
	struct sim_disk *d = v->set->disks[v->disk];

	sim_record_now(v->set);
	if (crash)
		return fail(v, EIO, "flush: power cut", e);
	if (j->kind == SIM_ERROR)
		return fail(v, EIO, "flush", e);
	if (j->kind == SIM_FLUSH_LOSE) {
		sim_disk_revert(d);
		return fail(v, EIO, "flush", e);
	}
	if (j->kind != SIM_FLUSH_LIE)
		sim_disk_flush(d);
	return 0;
}

static bool is_bad(const struct sim_disk *d, const struct sim_request *r)
{
	for (size_t i = 0; i < d->bad_count; i++)
		if (d->bad[i] >= r->offset / SIM_PAGE &&
		    d->bad[i] < (r->offset + r->size) / SIM_PAGE)
			return true;
	return false;
}

static int call_read(struct sim_dev *v, const struct sim_request *r,
    const struct verdict *j, struct err *e)
{
	const struct sim_disk *d = v->set->disks[v->disk];
	uint64_t first = r->offset / SIM_PAGE, at = r->size / 2;
	uint8_t *to = r->in;

	if (j->kind == SIM_ERROR || is_bad(d, r))
		return fail(v, EIO, "read", e);
	for (uint64_t i = 0; i < r->size / SIM_PAGE; i++)
		pages_read(&d->now, first + i, to + i * SIM_PAGE);
	if (j->f.size && j->f.offset >= r->offset)
		at = j->f.offset - r->offset;
	if (j->kind == SIM_FLIPPED)
		to[at] ^= 0x10;
	return 0;
}

static void count_call(struct sim_disk *d, const struct sim_request *r)
{
	if (r->op == SIM_READ) {
		d->counts.reads++;
		d->counts.read_bytes += r->size;
	} else if (r->op == SIM_WRITE) {
		d->counts.writes++;
		d->counts.written_bytes += r->size;
	} else {
		d->counts.flushes++;
	}
}

/* Count a write or flush; true if the power goes out in it. */
static bool count_change(struct sim *s, const struct sim_request *r)
{
	if (r->op == SIM_READ)
		return false;
	s->changes++;
	if (s->crash_left == 0 || --s->crash_left > 0)
		return false;
	s->crashed = true;
	s->power = false;
	pthread_cond_broadcast(&s->changed);
	return true;
}

static void check_aligned(const struct sim_request *r)
{
	uintptr_t p = (uintptr_t)(r->op == SIM_READ ? r->in : r->out);

	if (r->op != SIM_FLUSH && (r->size == 0 || r->size % SIM_PAGE != 0 ||
	    r->offset % SIM_PAGE != 0 || p % SIM_PAGE != 0))
		sim_die("disk %u: %zu bytes at %llu, buffer at %#llx: not "
		    "multiples of 4096", r->disk, r->size,
		    (unsigned long long)r->offset, (unsigned long long)p);
}

/* Slow and hung calls let others go first. */
static void delay(struct sim_dev *v, struct sim_request *r,
    const struct verdict *j)
{
	struct sim *s = v->set;
	uint64_t until = now_ns() + (uint64_t)j->delay_ms * 1000000u;
	uint64_t releases = s->releases;

	turn_end(s);
	while (alive(v) && now_ns() < until)
		wait_until(s, until);
	s->hanging += j->hang;
	while (j->hang && alive(v) && s->releases == releases)
		pthread_cond_wait(&s->changed, &s->lock);
	s->hanging -= j->hang;
	turn_take(s, r);
}

static int call_locked(struct sim_dev *v, struct sim_request *r,
    struct err *e)
{
	struct sim *s = v->set;
	struct sim_disk *d = s->disks[v->disk];
	struct verdict j;
	bool crash;

	if (!alive(v))
		return fail(v, ENODEV, "the disk is gone", e);
	judge(s, r, &j);
	if (j.delay_ms || j.hang)
		delay(v, r, &j);
	if (!alive(v))
		return fail(v, ENODEV, "the disk is gone", e);
	count_call(d, r);
	crash = count_change(s, r);
	if (j.kind == SIM_GONE) {
		sim_disk_drop(s, d);
		return fail(v, EIO, "the disk is gone", e);
	}
	if (r->offset > d->size || r->size > d->size - r->offset)
		return fail(v, EIO, "beyond the end of the disk", e);
	if (r->op == SIM_READ)
		return call_read(v, r, &j, e);
	if (r->op == SIM_FLUSH)
		return call_flush(v, &j, crash, e);
	return call_write(v, r, &j, crash, e);
}

static int call(struct dev *dev, struct sim_request *r, struct err *e)
{
	struct sim_dev *v = (struct sim_dev *)dev;
	int rc;

	r->disk = v->disk;
	check_aligned(r);
	pthread_mutex_lock(&v->set->lock);
	turn_take(v->set, r);
	rc = call_locked(v, r, e);
	turn_end(v->set);
	pthread_mutex_unlock(&v->set->lock);
	return rc;
}

/* ---- struct dev ------------------------------------------------------- */

static int dev_read(struct dev *d, void *buf, size_t size, uint64_t offset,
    bool uncached, struct err *e)
{
	struct sim_request r = {
		.op = SIM_READ, .offset = offset, .size = size, .in = buf,
	};

	(void)uncached;
	return call(d, &r, e);
}

static int dev_write(struct dev *d, const void *buf, size_t size,
    uint64_t offset, struct err *e)
{
	struct sim_request r = {
		.op = SIM_WRITE, .offset = offset, .size = size, .out = buf,
	};

	return call(d, &r, e);
}

static int dev_flush(struct dev *d, struct err *e)
{
	struct sim_request r = { .op = SIM_FLUSH };

	return call(d, &r, e);
}

static enum dev_seen dev_look(struct dev *d)
{
	struct sim_dev *v = (struct sim_dev *)d;
	const struct sim_disk *disk;
	enum dev_seen seen;

	pthread_mutex_lock(&v->set->lock);
	disk = v->set->disks[v->disk];
	seen = disk->dropped ? DEV_GONE : disk->look;
	pthread_mutex_unlock(&v->set->lock);
	return seen;
}

static void dev_shut(struct dev *d)
{
	struct sim_dev *v = (struct sim_dev *)d;

	pthread_mutex_lock(&v->set->lock);
	sim_unref_unlock(v->set);
	free(d->name);
	free(v);
}

static const struct dev_ops sim_ops = {
	.read = dev_read,
	.write = dev_write,
	.flush = dev_flush,
	.look = dev_look,
	.close = dev_shut,
};

struct dev *sim_dev(struct sim *s, unsigned disk)
{
	struct sim_dev *v = sim_alloc(1, sizeof(*v));
	const struct sim_disk *d;

	v->dev.ops = &sim_ops;
	v->dev.name = sim_alloc(1, 16);
	snprintf(v->dev.name, 16, "sim:%u", disk);
	pthread_mutex_lock(&s->lock);
	d = sim_disk_at(s, disk);
	v->dev.size = d->size;
	v->dev.read_only = d->read_only;
	v->set = s;
	v->disk = disk;
	v->generation = s->generation;
	s->refs++;
	pthread_mutex_unlock(&s->lock);
	return &v->dev;
}

struct dev **sim_devs(struct sim *s, uint64_t skip, size_t *count)
{
	struct dev **devs = sim_alloc(sim_disks(s), sizeof(struct dev *));

	*count = 0;
	for (unsigned i = 0; i < sim_disks(s); i++)
		if (!(skip >> i & 1))
			devs[(*count)++] = sim_dev(s, i);
	return devs;
}

int sim_dev_open(struct dev **out, const char *path, void *arg,
    struct err *e)
{
	struct sim *s = arg;
	bool dropped;
	char *end;
	unsigned long n;

	if (strncmp(path, "sim:", 4) != 0)
		return err_set(e, ERR_NOT_FOUND, "%s: no such disk", path);
	n = strtoul(path + 4, &end, 10);
	if (end == path + 4 || *end || n >= sim_disks(s))
		return err_set(e, ERR_NOT_FOUND, "%s: no such disk", path);
	pthread_mutex_lock(&s->lock);
	dropped = s->disks[n]->dropped;
	pthread_mutex_unlock(&s->lock);
	if (dropped)
		return err_set(e, ERR_NOT_FOUND, "%s: not there", path);
	*out = sim_dev(s, (unsigned)n);
	return 0;
}
