#include "tests/support/dev_sim_int.h"

#include <stdlib.h>
#include <string.h>

/* What to do with the bytes [at, at + size) of one page; `offset` is where
 * they lie on the disk. */
typedef void change_fn(void *arg, uint8_t *bytes, size_t size,
    uint64_t offset);

static void change_image(struct sim_pages *t, uint64_t offset, uint64_t size,
    change_fn *change, void *arg)
{
	uint64_t end = offset + size;

	while (offset < end) {
		uint64_t in = offset % SIM_PAGE;
		size_t n = (size_t)(SIM_PAGE - in < end - offset ?
		    SIM_PAGE - in : end - offset);
		uint8_t data[SIM_PAGE];
		struct sim_page *p;

		pages_read(t, offset / SIM_PAGE, data);
		change(arg, data + in, n, offset);
		p = sim_page_new(data);
		pages_set(t, offset / SIM_PAGE, p);
		sim_page_unref(p);
		offset += n;
	}
}

static void change(struct sim *s, unsigned disk, uint64_t offset,
    uint64_t size, change_fn *fn, void *arg)
{
	struct sim_disk *d;

	pthread_mutex_lock(&s->lock);
	d = sim_disk_at(s, disk);
	if (offset > d->size || size > d->size - offset)
		sim_die("damage beyond the end of disk %u", disk);
	sim_disk_flush(d);
	change_image(&d->durable, offset, size, fn, arg);
	pages_release(&d->now);
	pages_copy(&d->now, &d->durable);
	pthread_mutex_unlock(&s->lock);
}

static void flip_bytes(void *arg, uint8_t *bytes, size_t size,
    uint64_t offset)
{
	(void)offset;
	for (size_t i = 0; i < size; i++)
		bytes[i] ^= *(uint8_t *)arg;
}

void sim_flip(struct sim *s, unsigned disk, uint64_t offset, uint8_t mask)
{
	change(s, disk, offset, 1, flip_bytes, &mask);
}

static void zero_bytes(void *arg, uint8_t *bytes, size_t size,
    uint64_t offset)
{
	(void)arg;
	(void)offset;
	memset(bytes, 0, size);
}

void sim_zero(struct sim *s, unsigned disk, uint64_t offset, uint64_t size)
{
	change(s, disk, offset, size, zero_bytes, NULL);
}

static void garbage_bytes(void *arg, uint8_t *bytes, size_t size,
    uint64_t offset)
{
	(void)offset;
	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)sim_random(arg);
}

void sim_garbage(struct sim *s, unsigned disk, uint64_t offset,
    uint64_t size, uint64_t seed)
{
	change(s, disk, offset, size, garbage_bytes, &seed);
}

static void copy_bytes(void *arg, uint8_t *bytes, size_t size,
    uint64_t offset)
{
	uint8_t data[SIM_PAGE];

	pages_read(arg, offset / SIM_PAGE, data);
	memcpy(bytes, data + offset % SIM_PAGE, size);
}

void sim_stale(struct sim *s, unsigned disk, uint64_t offset, uint64_t size,
    struct sim *old)
{
	struct sim_pages copy;

	pthread_mutex_lock(&old->lock);
	pages_copy(&copy, &sim_disk_at(old, disk)->now);
	pthread_mutex_unlock(&old->lock);
	change(s, disk, offset, size, copy_bytes, &copy);
	pages_release(&copy);
}

struct poke {
	const uint8_t *data;
	uint64_t offset;
};

static void poke_bytes(void *arg, uint8_t *bytes, size_t size,
    uint64_t offset)
{
	const struct poke *p = arg;

	memcpy(bytes, p->data + (offset - p->offset), size);
}

void sim_poke(struct sim *s, unsigned disk, uint64_t offset,
    const void *data, size_t size)
{
	struct poke p = { data, offset };

	change(s, disk, offset, size, poke_bytes, &p);
}

void sim_peek(struct sim *s, unsigned disk, uint64_t offset, void *out,
    size_t size)
{
	uint8_t data[SIM_PAGE], *to = out;
	const struct sim_disk *d;

	pthread_mutex_lock(&s->lock);
	d = sim_disk_at(s, disk);
	if (offset > d->size || size > d->size - offset)
		sim_die("a look beyond the end of disk %u", disk);
	while (size > 0) {
		size_t in = (size_t)(offset % SIM_PAGE);
		size_t n = SIM_PAGE - in < size ? SIM_PAGE - in : size;

		pages_read(&d->now, offset / SIM_PAGE, data);
		memcpy(to, data + in, n);
		to += n;
		offset += n;
		size -= n;
	}
	pthread_mutex_unlock(&s->lock);
}

void sim_unreadable(struct sim *s, unsigned disk, uint64_t offset,
    uint64_t size)
{
	uint64_t end = (offset + size + SIM_PAGE - 1) / SIM_PAGE;
	struct sim_disk *d;

	pthread_mutex_lock(&s->lock);
	d = sim_disk_at(s, disk);
	for (uint64_t i = offset / SIM_PAGE; i < end; i++) {
		if (d->bad_count == d->bad_room) {
			d->bad_room = d->bad_room ? 2 * d->bad_room : 16;
			d->bad = realloc(d->bad,
			    d->bad_room * sizeof(uint64_t));
			if (!d->bad)
				sim_die("out of memory");
		}
		d->bad[d->bad_count++] = i;
	}
	pthread_mutex_unlock(&s->lock);
}

/* ---- looking ---------------------------------------------------------- */

void sim_counts(struct sim *s, unsigned disk, struct sim_counts *out)
{
	pthread_mutex_lock(&s->lock);
	*out = sim_disk_at(s, disk)->counts;
	out->used_bytes = pages_used(&sim_disk_at(s, disk)->now) * SIM_PAGE;
	pthread_mutex_unlock(&s->lock);
}

static void copy_now(struct sim *s, unsigned disk, struct sim_pages *out)
{
	pthread_mutex_lock(&s->lock);
	pages_copy(out, &sim_disk_at(s, disk)->now);
	pthread_mutex_unlock(&s->lock);
}

bool sim_same(struct sim *a, unsigned disk_a, struct sim *b, unsigned disk_b,
    uint64_t *offset)
{
	struct sim_pages pa, pb;
	uint64_t index;

	copy_now(a, disk_a, &pa);
	copy_now(b, disk_b, &pb);
	index = pages_differ(&pa, &pb);
	pages_release(&pa);
	pages_release(&pb);
	if (index != UINT64_MAX && offset)
		*offset = index * SIM_PAGE;
	return index == UINT64_MAX;
}

bool sim_same_all(struct sim *a, struct sim *b, unsigned *disk,
    uint64_t *offset)
{
	if (sim_disks(a) != sim_disks(b))
		sim_die("sets of %u and %u disks are compared", sim_disks(a),
		    sim_disks(b));
	for (unsigned i = 0; i < sim_disks(a); i++) {
		if (sim_same(a, i, b, i, offset))
			continue;
		if (disk)
			*disk = i;
		return false;
	}
	return true;
}
