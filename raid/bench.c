/*
 * raid/bench.c - what the members can do, and what the array makes of it.
 *
 * Raw rates are taken on free extents, all members beside each other, with the
 * calls that the array itself makes.  The array's own rates follow in the same
 * run: append and flush, read by place, scrub; the segments are freed at the
 * end.  Random data; nothing here is cached by us.
 *
 * Alone with the array: it appends and cuts as the store does.
 */
#include "raid/segment.h"
#include "raid/stripe_io.h"

#include "base/clock.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK (1u << 20)		/* bytes of one device call */
#define FRAME (1u << 20)
#define FLUSH_EVERY (64u << 20)

struct raw {
	struct member *m;
	uint32_t extents[64];
	unsigned count;
};

struct benching {
	struct array *a;
	struct iobuf *data;	/* CHUNK random bytes */
	struct iobuf *in;	/* one chunk for each member */
	struct raw raw[RAID_MEMBERS_MAX];
	unsigned members;
	struct place *places;
	size_t place_count;
};

static double rate(uint64_t bytes, uint64_t since_ms)
{
	uint64_t took = clock_mono_ms() - since_ms;

	return (double)bytes * 1000.0 / (double)(took ? took : 1);
}

/* ---- raw members ----------------------------------------------------- */

static void raw_take(struct benching *b, uint64_t bytes)
{
	struct array *a = b->a;

	pthread_mutex_lock(&a->lock);
	for (unsigned i = 0; i < a->as->member_count; i++) {
		struct raw *r = &b->raw[b->members];

		r->m = a->as->members[i];
		r->count = 0;
		if (!member_writable(r->m))
			continue;
		while (r->count < 64 && r->count * a->extent_size < bytes &&
		    array_room_locked(a, i, false) > 0 &&
		    alloc_take(&a->alloc, i, &r->extents[r->count]))
			r->count++;
		b->members += r->count > 0;
	}
	pthread_mutex_unlock(&a->lock);
}

static void raw_give(struct benching *b)
{
	pthread_mutex_lock(&b->a->lock);
	for (unsigned i = 0; i < b->members; i++)
		for (unsigned j = 0; j < b->raw[i].count; j++)
			alloc_give(&b->a->alloc, b->raw[i].m->index,
			    b->raw[i].extents[j]);
	pthread_mutex_unlock(&b->a->lock);
}

/* One chunk of each member, beside each other. */
static unsigned raw_round(struct benching *b, enum mio_op op, uint64_t at,
    struct mio_req *reqs)
{
	unsigned n = 0;

	for (unsigned i = 0; i < b->members; i++) {
		const struct raw *r = &b->raw[i];
		uint64_t no = at / b->a->extent_size;

		if (no >= r->count)
			continue;
		reqs[n++] = (struct mio_req){
			.mio = r->m->io,
			.op = op,
			.uncached = true,
			.buf = op == MIO_WRITE ? b->data : b->in,
			.buf_offset = op == MIO_WRITE ? 0 : i * CHUNK,
			.size = CHUNK,
			.offset = member_extent_offset(r->m, r->extents[no]) +
			    at % b->a->extent_size,
		};
	}
	return n;
}

static int raw_run(struct benching *b, enum mio_op op, double *out,
    struct err *e)
{
	struct mio_req reqs[RAID_MEMBERS_MAX];
	uint64_t started = clock_mono_ms(), bytes = 0;
	unsigned n = 1;

	for (uint64_t at = 0; n > 0; at += CHUNK) {
		n = raw_round(b, op, at, reqs);
		mio_run(reqs, n);
		for (unsigned i = 0; i < n; i++) {
			if (reqs[i].rc != 0) {
				*e = reqs[i].e;
				return -1;
			}
			bytes += CHUNK;
		}
	}
	for (unsigned i = 0; op == MIO_WRITE && i < b->members; i++)
		if (mio_flush(b->raw[i].m->io, e) != 0)
			return -1;
	*out = rate(bytes, started);
	return 0;
}

/* ---- through the array ----------------------------------------------- */

static int bench_flush(struct benching *b, size_t from, struct err *e)
{
	struct flush_result result;
	struct array_cut *c;

	if (array_cut_begin(b->a, &c, e) != 0)
		return -1;
	for (size_t i = from; i < b->place_count; i++)
		array_cut_finish(c, &b->places[i]);
	array_cut_end(c);
	return array_flush(b->a, c, &result, e);
}

static int bench_append(struct benching *b, uint64_t bytes, double *out,
    struct err *e)
{
	size_t frames = bytes / FRAME + 1, from = 0;
	uint64_t started;

	b->places = calloc(frames, sizeof(*b->places));
	if (!b->places)
		return err_set(e, ERR_NO_MEMORY, "no memory for places");
	started = clock_mono_ms();
	for (size_t i = 0; i < frames; i++) {
		if (array_append(b->a, SEG_DATA, b->data->data, FRAME, 0,
		    &b->places[i], e) != 0)
			return -1;
		b->place_count++;
		if (array_unflushed(b->a) < FLUSH_EVERY && i + 1 < frames)
			continue;
		if (bench_flush(b, from, e) != 0)
			return -1;
		from = b->place_count;
	}
	*out = rate(frames * FRAME, started);
	return 0;
}

static bool bench_check(void *arg, const void *data, size_t size)
{
	const struct benching *b = arg;

	/* The first block is proof enough of the place; comparing all would
	 * measure memory. */
	return size == FRAME && memcmp(data, b->data->data, RAID_ROW) == 0;
}

static int bench_read(struct benching *b, double *out, struct err *e)
{
	uint64_t started = clock_mono_ms();
	uint8_t *frame = malloc(FRAME);
	int rc = frame ? 0 : err_set(e, ERR_NO_MEMORY, "no memory");

	for (size_t i = 0; i < b->place_count && rc == 0; i++)
		if (array_read(b->a, &b->places[i], frame, bench_check, b,
		    e) != ARRAY_READ_OK)
			rc = -1;
	free(frame);
	*out = rate(b->place_count * (uint64_t)FRAME, started);
	return rc;
}

/* The segments the places name, each once: places are in order of segments. */
static size_t bench_segments(const struct benching *b, uint64_t *ids)
{
	size_t n = 0;

	for (size_t i = 0; i < b->place_count; i++)
		if (n == 0 || ids[n - 1] != b->places[i].segment)
			ids[n++] = b->places[i].segment;
	return n;
}

static int bench_scrub(struct benching *b, const uint64_t *ids, size_t count,
    struct bench_result *out, struct err *e)
{
	struct scan_report report = { 0 };
	struct job_ctl ctl = { .rate_max = 0 };
	uint64_t started = clock_mono_ms();
	struct segment_info info;

	for (size_t i = 0; i < count; i++)
		if (array_scan_segment(b->a, ids[i], false, NULL, &report,
		    &ctl, e) != 0)
			return -1;
	out->scrub = rate(atomic_load(&ctl.done), started);
	if (count > 0 && array_segment(b->a, ids[0], &info, e) != 0)
		return -1;
	if (count > 0) {
		out->width = info.width;
		out->parity = info.parity;
	}
	return 0;
}

/* Seal what is open, then free what the bench has filled. */
static int bench_free(struct benching *b, const uint64_t *ids, size_t count,
    struct err *e)
{
	struct flush_result result;
	struct segment_info info;
	struct array_cut *c;

	if (array_cut_begin(b->a, &c, e) != 0)
		return -1;
	array_cut_seal_all(c);
	array_cut_end(c);
	if (array_flush(b->a, c, &result, e) != 0 ||
	    array_cut_begin(b->a, &c, e) != 0)
		return -1;
	for (size_t i = 0; i < count; i++) {
		struct err ignored;

		/* Not one that held anything before. */
		if (array_segment(b->a, ids[i], &info, &ignored) == 0 &&
		    info.table.size == 0)
			(void)!array_cut_free(c, ids[i], &ignored);
	}
	array_cut_end(c);
	return array_flush(b->a, c, &result, e);
}

static int bench_array(struct benching *b, uint64_t bytes,
    struct bench_result *out, struct err *e)
{
	uint64_t *ids;
	size_t count;
	struct err later;
	int rc;

	rc = bench_append(b, bytes, &out->append, e);
	ids = calloc(b->place_count + 1, sizeof(*ids));
	if (!ids)
		return err_set(e, ERR_NO_MEMORY, "no memory for segments");
	count = bench_segments(b, ids);
	if (rc == 0)
		rc = bench_read(b, &out->read, e);
	if (rc == 0)
		rc = bench_scrub(b, ids, count, out, e);
	if (bench_free(b, ids, count, &later) != 0 && rc == 0) {
		*e = later;
		rc = -1;
	}
	free(ids);
	return rc;
}

/* No frame of the store's may share a segment with the bench's. */
static int bench_seal(struct array *a, struct err *e)
{
	struct flush_result result;
	struct array_cut *c;

	if (array_cut_begin(a, &c, e) != 0)
		return -1;
	array_cut_seal_all(c);
	array_cut_end(c);
	return array_flush(a, c, &result, e);
}

int array_bench(struct array *a, uint64_t bytes, struct bench_result *out,
    struct err *e)
{
	struct benching *b = calloc(1, sizeof(*b));
	int rc = -1;

	if (!b)
		return err_set(e, ERR_NO_MEMORY, "no memory for a bench");
	memset(out, 0, sizeof(*out));
	b->a = a;
	b->data = iobuf_new(CHUNK);
	b->in = iobuf_new((size_t)CHUNK * RAID_MEMBERS_MAX);
	if (!b->data || !b->in) {
		err_set(e, ERR_NO_MEMORY, "no memory for a bench");
		goto out;
	}
	if (random_bytes(b->data->data, CHUNK, e) != 0 ||
	    bench_seal(a, e) != 0)
		goto out;
	raw_take(b, bytes);
	rc = raw_run(b, MIO_WRITE, &out->raw_write, e);
	if (rc == 0)
		rc = raw_run(b, MIO_READ, &out->raw_read, e);
	raw_give(b);
	if (rc == 0)
		rc = bench_array(b, bytes, out, e);
out:
	iobuf_unref(b->data);
	iobuf_unref(b->in);
	free(b->places);
	free(b);
	return rc;
}
