#include "tests/raid/bed.h"

#include "raid/segment.h"
#include "raid/stripe_io.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE_BYTES 512u	/* reserved for each frame */

const struct bed_shape bed_shapes[BED_SHAPES] = {
	{ 2, 1 }, { 3, 1 }, { 4, 1 }, { 5, 1 }, { 4, 2 }, { 6, 2 },
};

static void bytes_fill(uint8_t *out, size_t size, uint64_t seed)
{
	for (size_t i = 0; i < size; i += 8) {
		uint64_t v = sim_random(&seed);

		memcpy(out + i, &v, size - i < 8 ? size - i : 8);
	}
}

bool bed_right(void *arg, const void *data, size_t size)
{
	const struct bed_frame *f = arg;
	uint8_t *want = malloc(size);
	bool same;

	bytes_fill(want, size, f->seed);
	same = memcmp(want, data, size) == 0;
	free(want);
	return same;
}

/* ---- life ------------------------------------------------------------ */

int bed_open(struct bed *r, uint64_t skip, bool read_only, struct err *e)
{
	/* No beat while disks are compared, however slow the machine. */
	struct array_open o = { .read_only = read_only, .call_ms = 2000,
		.beat_ms = 600000,
		.dev_open = sim_dev_open, .dev_arg = r->sim };

	o.devs = sim_devs(r->sim, skip, &o.dev_count);
	r->a = NULL;
	if (array_open(&r->a, &o, e) != 0) {
		free(o.devs);
		return -1;
	}
	free(o.devs);
	return 0;
}

static struct bed *bed_make(struct sim *sim, unsigned parity)
{
	struct bed *r = calloc(1, sizeof(*r));
	struct array_create c = { .parity = parity,
		.extent_size = UINT64_C(2) << 20 };

	r->sim = sim;
	r->parity = parity;
	r->seed = 4711;
	c.devs = sim_devs(sim, 0, &c.dev_count);
	OK(array_create(&c, E));
	free(c.devs);
	OK(bed_open(r, 0, false, E));
	return r;
}

struct bed *bed_new(unsigned disks, unsigned parity, uint64_t disk_size)
{
	return bed_make(sim_new(disks, disk_size), parity);
}

struct bed *bed_new_mixed(const unsigned *extents, unsigned disks,
    unsigned parity)
{
	struct sim *sim = NULL;

	for (unsigned i = 0; i < disks; i++) {
		uint64_t size = ((uint64_t)extents[i] + 3) << 21;

		if (i == 0)
			sim = sim_new(1, size);
		else
			sim_add(sim, size);
	}
	return bed_make(sim, parity);
}

struct bed *bed_new_shape(int i)
{
	return bed_new(bed_shapes[i].disks, bed_shapes[i].parity, BED_DISK);
}

void bed_close(struct bed *r)
{
	if (r->a)
		OK(array_close(r->a, E));
	r->a = NULL;
}

void bed_free(struct bed *r)
{
	array_abandon(r->a);
	sim_free(r->sim);
	free(r->frames);
	free(r);
}

void bed_reopen(struct bed *r, uint64_t skip)
{
	bed_close(r);
	OK(bed_open(r, skip, false, E));
}

void bed_crash(struct bed *r, uint64_t skip)
{
	size_t kept = 0;

	sim_power_off(r->sim);
	array_abandon(r->a);
	sim_power_cut_all_lost(r->sim);
	for (size_t i = 0; i < r->count; i++)
		if (r->frames[i].flushed)
			r->frames[kept++] = r->frames[i];
	r->count = kept;
	OK(bed_open(r, skip, false, E));
}

struct bed *bed_clone(const struct bed *r)
{
	struct bed *c = calloc(1, sizeof(*c));

	*c = *r;
	c->a = NULL;
	c->sim = sim_clone(r->sim);
	c->frames = calloc(r->count + 1, sizeof(*c->frames));
	memcpy(c->frames, r->frames, r->count * sizeof(*c->frames));
	c->cap = r->count;
	return c;
}

/* ---- writing --------------------------------------------------------- */

int bed_try_append(struct bed *r, enum seg_class class, size_t size,
    struct err *e)
{
	struct bed_frame f = { .seed = r->seed++ };
	uint8_t *data = malloc(size);
	int rc;

	bytes_fill(data, size, f.seed);
	rc = array_append(r->a, class, data, size, TABLE_BYTES, &f.place, e);
	free(data);
	if (rc != 0)
		return -1;
	if (r->count == r->cap) {
		r->cap = r->cap * 2 + 64;
		r->frames = realloc(r->frames, r->cap * sizeof(f));
	}
	r->frames[r->count++] = f;
	return 0;
}

void bed_append(struct bed *r, enum seg_class class, size_t size)
{
	OK(bed_try_append(r, class, size, E));
}

static void cut_tables(struct array_cut *c, struct bed *r)
{
	static const uint8_t table[TABLE_BYTES];
	struct place p;
	uint64_t segment;
	uint32_t row;
	uint8_t units;
	size_t i = 0;

	(void)r;
	while (array_cut_next(c, &i, &segment)) {
		array_cut_last(c, segment, sizeof(table), &row, &units);
		OK(array_cut_table(c, segment, table, sizeof(table), &p, E));
		ck_assert_uint_ne(p.last, 0);
	}
}

int bed_try_flush(struct bed *r, bool seal, struct flush_result *result,
    struct err *e)
{
	struct array_cut *c;

	if (array_cut_begin(r->a, &c, e) != 0)
		return -1;
	cut_tables(c, r);
	for (size_t i = 0; i < r->count; i++)
		if (!r->frames[i].flushed)
			array_cut_finish(c, &r->frames[i].place);
	if (seal)
		array_cut_seal_all(c);
	array_cut_end(c);
	if (array_flush(r->a, c, result, e) != 0)
		return -1;
	for (size_t i = 0; i < r->count; i++)
		if (!r->frames[i].flushed)	/* others may be reading it */
			r->frames[i].flushed = true;
	return 0;
}

struct flush_result bed_flush(struct bed *r)
{
	struct flush_result result;

	OK(bed_try_flush(r, false, &result, E));
	return result;
}

void bed_seal(struct bed *r)
{
	struct flush_result result;

	OK(bed_try_flush(r, true, &result, E));
}

void bed_fill(struct bed *r, unsigned flushes, unsigned frames, size_t size)
{
	uint64_t random = 99;

	for (unsigned i = 0; i < flushes; i++) {
		for (unsigned j = 0; j < frames; j++)
			bed_append(r, j % 4 == 3 ? SEG_META : SEG_DATA,
			    1 + sim_random(&random) % size);
		bed_flush(r);
	}
}

void bed_free_segment(struct bed *r, uint64_t id)
{
	struct flush_result result;
	struct array_cut *c;

	OK(array_cut_begin(r->a, &c, E));
	OK(array_cut_free(c, id, E));
	array_cut_end(c);
	OK(array_flush(r->a, c, &result, E));
	for (size_t i = 0; i < r->count; i++)
		if (r->frames[i].place.segment == id)
			r->frames[i].freed = true;
}

/* ---- reading --------------------------------------------------------- */

static enum array_read frame_read(struct bed *r, struct bed_frame *f,
    struct err *e)
{
	uint8_t *out = malloc(f->place.size);
	enum array_read got;

	got = array_read(r->a, &f->place, out, bed_right, f, e);
	if (got == ARRAY_READ_OK)
		ck_assert(bed_right(f, out, f->place.size));
	free(out);
	return got;
}

void bed_check(struct bed *r)
{
	struct err e;

	for (size_t i = 0; i < r->count; i++) {
		struct bed_frame *f = &r->frames[i];

		e.text[0] = '\0';
		if (f->flushed && !f->freed)
			ck_assert_msg(frame_read(r, f, &e) == ARRAY_READ_OK,
			    "frame %zu: %s", i, e.text);
	}
}

size_t bed_count(struct bed *r, enum array_read what)
{
	size_t n = 0;
	struct err e;

	for (size_t i = 0; i < r->count; i++)
		n += r->frames[i].flushed && !r->frames[i].freed &&
		    frame_read(r, &r->frames[i], &e) == what;
	return n;
}

void bed_check_losing_any(struct bed *r)
{
	unsigned n = sim_disks(r->sim);

	for (uint64_t set = 1; set < UINT64_C(1) << n; set++) {
		struct bed *c;

		if ((unsigned)__builtin_popcountll(set) != r->parity)
			continue;
		c = bed_clone(r);
		OK(bed_open(c, set, false, E));
		bed_check(c);
		bed_free(c);
	}
}

/* ---- looking --------------------------------------------------------- */

unsigned bed_disk_of(const struct member *m)
{
	return (unsigned)strtoul(m->path + strlen("sim:"), NULL, 10);
}

struct seg_state bed_state(struct bed *r, uint64_t segment)
{
	const struct seg *s = map_find(&r->a->map, segment);

	ck_assert_ptr_nonnull(s);
	return s->s;
}

unsigned bed_strip(struct bed *r, uint64_t segment, uint32_t row,
    unsigned strip, uint64_t *offset)
{
	struct seg_state g = bed_state(r, segment);
	unsigned slot = strip_slot(&g, strip);

	*offset = strip_offset(r->a, &g, slot, row);
	return bed_disk_of(r->a->as->members[g.member[slot]]);
}

struct scan_report bed_scan(struct bed *r, bool heal,
    const struct scan_ops *ops)
{
	struct scan_report report = { 0 };
	uint64_t id = 0;

	while (array_segments(r->a, id, &id, 1) == 1)
		OK(array_scan_segment(r->a, id, heal, ops, &report, NULL, E));
	return report;
}

struct scan_report bed_mend(struct bed *r)
{
	struct scan_report report = { 0 };

	OK(array_mend(r->a, &report, NULL, E));
	return report;
}
