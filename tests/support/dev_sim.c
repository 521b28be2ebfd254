#include "tests/support/dev_sim_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void sim_die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fprintf(stderr, "simulated disks: ");
	vfprintf(stderr, fmt, ap);
	fprintf(stderr, "\n");
	va_end(ap);
	abort();
}

uint64_t sim_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;	/* splitmix64 */

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* ---- one disk --------------------------------------------------------- */

static struct sim_disk *disk_new(uint64_t size)
{
	struct sim_disk *d = sim_alloc(1, sizeof(*d));

	if (size == 0 || size % SIM_PAGE != 0)
		sim_die("a disk of %llu bytes", (unsigned long long)size);
	pages_init(&d->now, size);
	pages_init(&d->durable, size);
	d->size = size;
	return d;
}

static struct sim_disk *disk_clone(const struct sim_disk *o)
{
	struct sim_disk *d = sim_alloc(1, sizeof(*d));

	pages_copy(&d->now, &o->now);
	pages_copy(&d->durable, &o->durable);
	for (size_t i = 0; i < o->list_count; i++) {
		atomic_fetch_add(&o->list[i]->refs, 1);
		sim_list_add(d, o->list[i]);
	}
	d->size = o->size;
	d->read_only = o->read_only;
	d->look = o->look;
	d->bad = sim_alloc(o->bad_count, sizeof(uint64_t));
	if (o->bad_count)
		memcpy(d->bad, o->bad, o->bad_count * sizeof(uint64_t));
	d->bad_count = d->bad_room = o->bad_count;
	return d;
}

static void disk_free(struct sim_disk *d)
{
	sim_list_clear(d);
	free(d->list);
	free(d->bad);
	pages_release(&d->now);
	pages_release(&d->durable);
	free(d);
}

struct sim_disk *sim_disk_at(const struct sim *s, unsigned disk)
{
	if (disk >= s->disk_count)
		sim_die("there is no disk %u", disk);
	return s->disks[disk];
}

void sim_write_unref(struct sim_write *w)
{
	if (atomic_fetch_sub(&w->refs, 1) != 1)
		return;
	for (uint32_t i = 0; i < w->count; i++)
		sim_page_unref(w->pages[i]);
	free(w);
}

void sim_list_add(struct sim_disk *d, struct sim_write *w)
{
	if (d->list_count == d->list_room) {
		d->list_room = d->list_room ? 2 * d->list_room : 16;
		d->list = realloc(d->list,
		    d->list_room * sizeof(struct sim_write *));
		if (!d->list)
			sim_die("out of memory");
	}
	d->list[d->list_count++] = w;
}

void sim_list_clear(struct sim_disk *d)
{
	for (size_t i = 0; i < d->list_count; i++)
		sim_write_unref(d->list[i]);
	d->list_count = 0;
}

void sim_disk_flush(struct sim_disk *d)
{
	for (size_t i = 0; i < d->list_count; i++) {
		const struct sim_write *w = d->list[i];

		for (uint32_t k = 0; k < w->count; k++)
			pages_set(&d->durable, w->page + k, w->pages[k]);
	}
	sim_list_clear(d);
}

void sim_disk_revert(struct sim_disk *d)
{
	sim_list_clear(d);
	pages_release(&d->now);
	pages_copy(&d->now, &d->durable);
}

void sim_disk_drop(struct sim *s, struct sim_disk *d)
{
	d->dropped = true;
	sim_disk_revert(d);
	pthread_cond_broadcast(&s->changed);
}

/* ---- the set ---------------------------------------------------------- */

static struct sim *set_new(void)
{
	struct sim *s = sim_alloc(1, sizeof(*s));
	pthread_condattr_t attr;

	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&s->changed, &attr);
	pthread_condattr_destroy(&attr);
	s->refs = 1;
	s->power = true;
	return s;
}

struct sim *sim_new(unsigned count, uint64_t size)
{
	struct sim *s = set_new();

	for (unsigned i = 0; i < count; i++)
		sim_add(s, size);
	return s;
}

static struct sim *clone_locked(const struct sim *s)
{
	struct sim *c = set_new();

	for (unsigned i = 0; i < s->disk_count; i++)
		c->disks[i] = disk_clone(s->disks[i]);
	c->disk_count = s->disk_count;
	c->note = s->note;
	return c;
}

struct sim *sim_clone(struct sim *s)
{
	struct sim *c;

	pthread_mutex_lock(&s->lock);
	c = clone_locked(s);
	pthread_mutex_unlock(&s->lock);
	return c;
}

static void records_clear(struct sim *s)
{
	for (size_t i = 0; i < s->record_count; i++)
		sim_free(s->records[i].state);
	free(s->records);
	s->records = NULL;
	s->record_count = s->record_room = 0;
}

void sim_unref_unlock(struct sim *s)
{
	bool last = --s->refs == 0;

	pthread_mutex_unlock(&s->lock);
	if (!last)
		return;
	records_clear(s);
	for (unsigned i = 0; i < s->disk_count; i++)
		disk_free(s->disks[i]);
	pthread_cond_destroy(&s->changed);
	pthread_mutex_destroy(&s->lock);
	free(s);
}

void sim_free(struct sim *s)
{
	if (!s)
		return;
	pthread_mutex_lock(&s->lock);
	s->freed = true;
	s->power = false;
	s->sched.on = false;
	pthread_cond_broadcast(&s->changed);
	sim_unref_unlock(s);
}

unsigned sim_disks(const struct sim *s)
{
	return s->disk_count;
}

uint64_t sim_size(struct sim *s, unsigned disk)
{
	uint64_t size;

	pthread_mutex_lock(&s->lock);
	size = sim_disk_at(s, disk)->size;
	pthread_mutex_unlock(&s->lock);
	return size;
}

unsigned sim_add(struct sim *s, uint64_t size)
{
	struct sim_disk *d = disk_new(size);
	unsigned n;

	pthread_mutex_lock(&s->lock);
	if (s->disk_count == SIM_DISKS_MAX)
		sim_die("more than %u disks", SIM_DISKS_MAX);
	n = s->disk_count;
	s->disks[n] = d;
	s->disk_count = n + 1;
	pthread_mutex_unlock(&s->lock);
	return n;
}

static void pages_resize(struct sim_pages *t, uint64_t size)
{
	struct sim_pages n;

	pages_init(&n, size);
	for (uint64_t i = 0; i < t->count && i < n.count; i++)
		if (pages_get(t, i))
			pages_set(&n, i, pages_get(t, i));
	pages_release(t);
	*t = n;
}

void sim_resize(struct sim *s, unsigned disk, uint64_t size)
{
	struct sim_disk *d;

	pthread_mutex_lock(&s->lock);
	d = sim_disk_at(s, disk);
	if (size == 0 || size % SIM_PAGE != 0)
		sim_die("a disk of %llu bytes", (unsigned long long)size);
	sim_disk_flush(d);
	pages_resize(&d->now, size);
	pages_resize(&d->durable, size);
	d->size = size;
	pthread_mutex_unlock(&s->lock);
}

/* ---- power ------------------------------------------------------------ */

size_t sim_pending(struct sim *s, unsigned disk)
{
	size_t n;

	pthread_mutex_lock(&s->lock);
	n = sim_disk_at(s, disk)->list_count;
	pthread_mutex_unlock(&s->lock);
	return n;
}

void sim_pending_write(struct sim *s, unsigned disk, size_t i,
    uint64_t *offset, uint32_t *size)
{
	const struct sim_disk *d;

	pthread_mutex_lock(&s->lock);
	d = sim_disk_at(s, disk);
	if (i >= d->list_count)
		sim_die("disk %u has no unflushed write %zu", disk, i);
	*offset = d->list[i]->page * SIM_PAGE;
	*size = d->list[i]->count * SIM_PAGE;
	pthread_mutex_unlock(&s->lock);
}

/* Put those sectors of the page on the medium that `k` keeps; `sector` is the
 * number within the write of the page's first. */
static void keep_page(struct sim_disk *d, uint64_t index,
    struct sim_page *page, const struct sim_kept *k, uint32_t sector,
    uint64_t *random)
{
	uint8_t data[SIM_PAGE];
	struct sim_page *p;

	pages_read(&d->durable, index, data);
	for (uint32_t i = 0; i < SIM_PAGE / SIM_SECTOR; i++) {
		uint32_t n = sector + i;

		if (n < k->first || (k->count && n - k->first >= k->count))
			continue;
		if (k->holes && sim_random(random) % 2 == 0)
			continue;
		memcpy(data + i * SIM_SECTOR, page->data + i * SIM_SECTOR,
		    SIM_SECTOR);
	}
	p = sim_page_new(data);
	pages_set(&d->durable, index, p);
	sim_page_unref(p);
}

static void keep_write(struct sim_disk *d, const struct sim_kept *k)
{
	uint64_t random = k->holes;
	const struct sim_write *w;

	if (k->write >= d->list_count)
		sim_die("disk %u has no unflushed write %zu", k->disk,
		    k->write);
	w = d->list[k->write];
	for (uint32_t i = 0; i < w->count; i++) {
		if (!k->first && !k->count && !k->holes)
			pages_set(&d->durable, w->page + i, w->pages[i]);
		else
			keep_page(d, w->page + i, w->pages[i], k,
			    i * (SIM_PAGE / SIM_SECTOR), &random);
	}
}

static void power_back(struct sim *s)
{
	for (unsigned i = 0; i < s->disk_count; i++)
		sim_disk_revert(s->disks[i]);
	s->generation++;
	s->power = true;
	s->crashed = false;
	s->crash_left = 0;
	s->fault_count = 0;
	s->releases++;
	s->sched.on = false;
	pthread_cond_broadcast(&s->changed);
}

void sim_power_cut(struct sim *s, const struct sim_kept *kept, size_t count)
{
	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < count; i++)
		keep_write(sim_disk_at(s, kept[i].disk), &kept[i]);
	power_back(s);
	pthread_mutex_unlock(&s->lock);
}

void sim_power_cut_all_lost(struct sim *s)
{
	sim_power_cut(s, NULL, 0);
}

void sim_power_cut_all_kept(struct sim *s)
{
	pthread_mutex_lock(&s->lock);
	for (unsigned i = 0; i < s->disk_count; i++)
		sim_disk_flush(s->disks[i]);
	power_back(s);
	pthread_mutex_unlock(&s->lock);
}

uint64_t sim_changes(struct sim *s)
{
	uint64_t n;

	pthread_mutex_lock(&s->lock);
	n = s->changes;
	pthread_mutex_unlock(&s->lock);
	return n;
}

void sim_crash_at(struct sim *s, uint64_t nth)
{
	pthread_mutex_lock(&s->lock);
	s->crash_left = nth;
	pthread_mutex_unlock(&s->lock);
}

bool sim_crashed(struct sim *s)
{
	bool crashed;

	pthread_mutex_lock(&s->lock);
	crashed = s->crashed;
	pthread_mutex_unlock(&s->lock);
	return crashed;
}

void sim_power_off(struct sim *s)
{
	pthread_mutex_lock(&s->lock);
	s->crashed = true;
	s->power = false;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

void sim_note(struct sim *s, uint64_t note)
{
	pthread_mutex_lock(&s->lock);
	s->note = note;
	pthread_mutex_unlock(&s->lock);
}

uint64_t sim_noted(struct sim *s)
{
	uint64_t note;

	pthread_mutex_lock(&s->lock);
	note = s->note;
	pthread_mutex_unlock(&s->lock);
	return note;
}

/* ---- records ---------------------------------------------------------- */

void sim_record_now(struct sim *s)
{
	if (!s->recording)
		return;
	if (s->record_count == s->record_room) {
		s->record_room = s->record_room ? 2 * s->record_room : 64;
		s->records = realloc(s->records,
		    s->record_room * sizeof(struct sim_record));
		if (!s->records)
			sim_die("out of memory");
	}
	s->records[s->record_count++] = (struct sim_record){
		.state = clone_locked(s), .at = s->changes,
	};
}

void sim_record(struct sim *s)
{
	pthread_mutex_lock(&s->lock);
	s->recording = true;
	pthread_mutex_unlock(&s->lock);
}

void sim_record_end(struct sim *s)
{
	pthread_mutex_lock(&s->lock);
	sim_record_now(s);
	s->recording = false;
	pthread_mutex_unlock(&s->lock);
}

size_t sim_records(struct sim *s)
{
	size_t n;

	pthread_mutex_lock(&s->lock);
	n = s->record_count;
	pthread_mutex_unlock(&s->lock);
	return n;
}

static struct sim_record record_at(struct sim *s, size_t i)
{
	struct sim_record r;

	pthread_mutex_lock(&s->lock);
	if (i >= s->record_count)
		sim_die("there is no record %zu", i);
	r = s->records[i];
	pthread_mutex_unlock(&s->lock);
	return r;
}

struct sim *sim_recorded(struct sim *s, size_t i)
{
	return sim_clone(record_at(s, i).state);
}

uint64_t sim_recorded_at(struct sim *s, size_t i)
{
	return record_at(s, i).at;
}

void sim_record_clear(struct sim *s)
{
	pthread_mutex_lock(&s->lock);
	records_clear(s);
	pthread_mutex_unlock(&s->lock);
}
