/*
 * raid/read.c - bytes of a place, however few members are left.
 *
 * THE ORDER
 *
 *   1  only the bytes asked for, from the data strips; where a member is away,
 *      the same rows of k other strips, decoded; `check` decides
 *   2  uncached, whole stripes, each strip judged by header and checksum, the
 *      wrong ones rebuilt and proven
 *   3  what no checksum explains: each set of at most p strips taken as wrong
 *      in turn; `check` alone decides
 *   4  nothing matches: damaged, or unavailable when members are away whose
 *      strips would do.  Nothing is written then
 *
 *   What 2 found wrong is healed (raid/heal.c) when the lease is given back.
 *
 * INVARIANTS   (tests/raid/test_read.c)
 *
 *   R1  ARRAY_READ_OK is returned only for bytes that `check` has accepted or,
 *       without one, for strips proven by their checksums.
 *   R2  A member that is away never makes DAMAGED of what it would explain.
 */
#include "raid/heal.h"
#include "raid/redo.h"
#include "raid/segment.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct span {			/* the part of a place in one stripe */
	uint32_t row;
	uint8_t units;
	size_t from, to;	/* bytes of the stripe's payload */
	bool decode;		/* a data strip is to be computed */
	/* by strip number; len 0 = not read */
	size_t off[SEG_WIDTH_MAX];	/* in the buffer */
	size_t lo[SEG_WIDTH_MAX], len[SEG_WIDTH_MAX];	/* of the strip */
	bool read[SEG_WIDTH_MAX];
};

struct reading {
	struct array *a;
	struct seg_state g;
	const struct place *p;
	uint8_t *out;
	bool (*check)(void *arg, const void *data, size_t size);
	void *arg;
	struct span *spans;
	size_t count;
	struct stripe_img *imgs;	/* one for each span, in step 2 */
};

/* ---- which stripes --------------------------------------------------- */

static int out_of_range(const struct reading *r, struct err *e)
{
	return err_set(e, ERR_CORRUPT, "a place in segment %" PRIu64 " (row %"
	    PRIu32 ", %" PRIu32 " bytes) is out of range", r->p->segment,
	    r->p->row, r->p->size);
}

/* Counts the stripes, and fills spans when they are there. */
static int spans_walk(struct reading *r, struct err *e)
{
	size_t k = seg_k(&r->g), from = r->p->offset, left = r->p->size;
	uint32_t row = r->p->row;

	r->count = 0;
	while (left > 0) {
		uint8_t units = stripe_units_max(r->a, row);
		size_t room = k * units * RAID_ROW;
		size_t n = from + left <= room ? left : room - from;

		if (units == 0 || from >= room)
			return out_of_range(r, e);
		left -= n;
		if (left == 0)
			units = r->p->last <= units ? r->p->last : 0;
		if (from + n > k * units * RAID_ROW ||
		    row + 1u + units > r->g.rows)
			return out_of_range(r, e);
		if (r->spans)
			r->spans[r->count] = (struct span){ .row = row,
				.units = units, .from = from, .to = from + n };
		r->count++;
		row += 1u + units;
		from = 0;
	}
	return r->count > 0 ? 0 : out_of_range(r, e);
}

static int spans_make(struct reading *r, struct err *e)
{
	if (spans_walk(r, e) != 0)
		return -1;
	r->spans = calloc(r->count, sizeof(*r->spans));
	if (!r->spans)
		return err_set(e, ERR_NO_MEMORY, "no memory for a read");
	return spans_walk(r, e);
}

/* ---- 1: only what is asked for --------------------------------------- */

static bool strip_there(const struct reading *r, const struct span *s,
    unsigned strip)
{
	unsigned slot = strip_slot(&r->g, strip);

	return r->g.absent_from[slot] > s->row &&
	    strip_readable(r->a, &r->g, slot, false);
}

/* The bytes of data strip d that are asked for. */
static void strip_part(const struct span *s, unsigned d, size_t *lo,
    size_t *hi)
{
	size_t strip = (size_t)s->units * RAID_ROW;

	*lo = s->from > d * strip ? s->from - d * strip : 0;
	*hi = s->to < (d + 1) * strip ? s->to - d * strip : strip;
}

static size_t span_take(struct span *s, unsigned strip, size_t lo, size_t hi,
    size_t off)
{
	s->lo[strip] = lo / RAID_ROW * RAID_ROW;
	s->len[strip] = (hi + RAID_ROW - 1) / RAID_ROW * RAID_ROW -
	    s->lo[strip];
	s->off[strip] = off;
	return off + s->len[strip];
}

/* Rows [lo, hi) of k strips that are there, and room for all. */
static bool span_decode(const struct reading *r, struct span *s, size_t *off)
{
	size_t strip = (size_t)s->units * RAID_ROW;
	size_t lo = s->from % strip, hi = (s->to - 1) % strip + 1;
	unsigned found = 0, k = seg_k(&r->g);

	if (s->from / strip != (s->to - 1) / strip) {
		lo = 0;
		hi = strip;
	}
	s->decode = true;
	for (unsigned i = 0; i < r->g.width; i++) {
		*off = span_take(s, i, lo, hi, *off);
		s->read[i] = found < k && strip_there(r, s, i);
		found += s->read[i];
	}
	return found == k;
}

static bool span_plan(const struct reading *r, struct span *s, size_t *off)
{
	size_t strip = (size_t)s->units * RAID_ROW;
	unsigned first = (unsigned)(s->from / strip);
	unsigned last = (unsigned)((s->to - 1) / strip);
	size_t lo, hi;

	for (unsigned d = first; d <= last; d++)
		if (!strip_there(r, s, d))
			return span_decode(r, s, off);
	for (unsigned d = first; d <= last; d++) {
		strip_part(s, d, &lo, &hi);
		*off = span_take(s, d, lo, hi, *off);
		s->read[d] = true;
	}
	return true;
}

static void span_requests(const struct reading *r, const struct span *s,
    struct iobuf *buf, struct mio_req *reqs, size_t *count)
{
	for (unsigned i = 0; i < r->g.width; i++) {
		unsigned slot = strip_slot(&r->g, i);

		if (!s->read[i])
			continue;
		reqs[(*count)++] = (struct mio_req){
			.mio = r->a->as->members[r->g.member[slot]]->io,
			.op = MIO_READ,
			.buf = buf,
			.buf_offset = s->off[i],
			.size = s->len[i],
			.offset = strip_offset(r->a, &r->g, slot, s->row) +
			    STRIP_HEADER_SIZE + s->lo[i],
		};
	}
}

static bool span_finish(const struct reading *r, const struct span *s,
    struct iobuf *buf, uint8_t *out)
{
	const struct parity *code =
	    &r->a->codes[seg_k(&r->g)][r->g.parity];
	uint8_t *strips[SEG_WIDTH_MAX];
	size_t strip = (size_t)s->units * RAID_ROW, lo, hi;
	struct err e;

	for (unsigned i = 0; i < r->g.width; i++)
		strips[i] = buf->data + s->off[i];
	if (s->decode && parity_decode(code, strips, s->read, s->len[0],
	    &e) != 0)
		return false;
	for (size_t d = s->from / strip; d <= (s->to - 1) / strip; d++) {
		strip_part(s, (unsigned)d, &lo, &hi);
		memcpy(out, strips[d] + (lo - s->lo[d]), hi - lo);
		out += hi - lo;
	}
	return true;
}

/* The member whose mio this is, for its counters. */
static struct member *member_of(const struct reading *r, const struct mio *io)
{
	for (unsigned i = 0; i < r->g.width; i++)
		if (r->a->as->members[r->g.member[i]]->io == io)
			return r->a->as->members[r->g.member[i]];
	return NULL;
}

static bool requests_run(const struct reading *r, struct mio_req *reqs,
    size_t count)
{
	bool ok = true;

	mio_run(reqs, count);
	for (size_t i = 0; i < count; i++) {
		struct member *m = member_of(r, reqs[i].mio);

		if (reqs[i].rc != 0)
			member_count_error(m, MIO_READ, &reqs[i].e);
		else
			atomic_fetch_add(&m->read_bytes, reqs[i].size);
		ok = ok && reqs[i].rc == 0;
	}
	return ok;
}

/* True if the bytes are in out; whether they are right, `check` says. */
static bool read_parts(struct reading *r)
{
	struct mio_req *reqs = NULL;
	struct iobuf *buf = NULL;
	size_t off = 0, count = 0, at = 0;
	bool ok = true;

	for (size_t i = 0; i < r->count; i++)
		if (!span_plan(r, &r->spans[i], &off))
			return false;
	buf = iobuf_new(off);
	reqs = calloc(r->count * r->g.width, sizeof(*reqs));
	if (!buf || !reqs) {
		ok = false;
		goto out;
	}
	for (size_t i = 0; i < r->count; i++)
		span_requests(r, &r->spans[i], buf, reqs, &count);
	ok = requests_run(r, reqs, count);
	for (size_t i = 0; ok && i < r->count; i++) {
		const struct span *s = &r->spans[i];

		ok = span_finish(r, s, buf, r->out + at);
		at += s->to - s->from;
	}
out:
	free(reqs);
	iobuf_unref(buf);
	return ok;
}

/* ---- 2: whole stripes, judged ---------------------------------------- */

/* Whatever the images hold now, into out. */
static bool images_check(const struct reading *r)
{
	size_t at = 0;

	for (size_t i = 0; i < r->count; i++) {
		const struct span *s = &r->spans[i];

		stripe_img_copy(&r->imgs[i], r->out + at, s->from,
		    s->to - s->from);
		at += s->to - s->from;
	}
	return !r->check || r->check(r->arg, r->out, r->p->size);
}

/* Load and rebuild; as a last resort with members that were set aside. */
static int image_prove(struct reading *r, struct stripe_img *img,
    struct err *e)
{
	stripe_img_load(r->a, img, false);
	if (stripe_img_rebuild(r->a, img, e) == 0)
		return 0;
	stripe_img_load(r->a, img, true);
	return stripe_img_rebuild(r->a, img, e);
}

/* ---- 3: what no checksum explains ------------------------------------ */

static bool try_set(const struct reading *r, struct stripe_img *img,
    uint32_t wrong, uint8_t *kept)
{
	uint8_t *strips[SEG_WIDTH_MAX];
	bool good[SEG_WIDTH_MAX];
	size_t size = (size_t)img->units * RAID_ROW, n = 0;
	unsigned k = seg_k(&img->g);
	bool hit;
	struct err e;

	for (unsigned i = 0; i < img->g.width; i++) {
		strips[i] = stripe_img_strip(img, i);
		good[i] = (wrong >> i & 1) == 0;
		if (!good[i])
			memcpy(kept + n++ * size, strips[i], size);
	}
	hit = parity_decode(&r->a->codes[k][img->g.parity], strips, good,
	    size, &e) == 0 && images_check(r);
	n = 0;
	for (unsigned i = 0; !hit && i < img->g.width; i++)
		if (!good[i])
			memcpy(strips[i], kept + n++ * size, size);
	return hit;
}

static bool search(const struct reading *r, struct stripe_img *img)
{
	uint32_t unread = 0, all = (1u << img->g.width) - 1;
	uint8_t *kept;
	bool hit = false;

	for (unsigned i = 0; i < img->g.width; i++)
		unread |= (uint32_t)!img->read[i] << i;
	kept = malloc((SEG_PARITY_MAX + 1) * (size_t)img->units * RAID_ROW);
	for (uint32_t wrong = 0; kept && !hit && wrong <= all; wrong++)
		if ((wrong & unread) == unread && (unsigned)
		    __builtin_popcount(wrong) <= img->g.parity)
			hit = try_set(r, img, wrong, kept);
	free(kept);
	return hit;
}

/* `unproven`: how many stripes have no proof; which[] their images. */
static bool search_all(const struct reading *r, size_t unproven, size_t which)
{
	if (!r->check || unproven > 1)
		return false;
	if (unproven == 1)
		return search(r, &r->imgs[which]);
	for (size_t i = 0; i < r->count; i++)
		if (search(r, &r->imgs[i]))
			return true;
	return false;
}

static int images_init(struct reading *r, struct err *e)
{
	r->imgs = calloc(r->count, sizeof(*r->imgs));
	if (!r->imgs)
		return err_set(e, ERR_NO_MEMORY, "no memory for a read");
	for (size_t i = 0; i < r->count; i++)
		if (stripe_img_init(&r->imgs[i], &r->g, r->spans[i].row,
		    r->spans[i].units, e) != 0)
			return -1;
	return 0;
}

static enum array_read read_judged(struct reading *r, struct err *e)
{
	size_t unproven = 0, which = 0;
	bool away = false;
	struct err why;

	if (images_init(r, e) != 0)
		return ARRAY_READ_UNAVAILABLE;
	for (size_t i = 0; i < r->count; i++) {
		if (image_prove(r, &r->imgs[i], &why) == 0)
			continue;
		unproven++;
		which = i;
		away = away || why.code == ERR_UNAVAILABLE;
		*e = why;
	}
	if (unproven == 0 && images_check(r))
		return ARRAY_READ_OK;
	if (search_all(r, unproven, which))
		return ARRAY_READ_OK;
	if (unproven == 0)
		err_set(e, ERR_CORRUPT, "segment %" PRIu64 " row %" PRIu32
		    ": all strips are as written, but the content is wrong",
		    r->g.id, r->p->row);
	return away ? ARRAY_READ_UNAVAILABLE : ARRAY_READ_DAMAGED;
}

/* ---- all of it ------------------------------------------------------- */

static void heal_found(const struct reading *r)
{
	for (size_t i = 0; r->imgs && i < r->count; i++) {
		const struct stripe_img *img = &r->imgs[i];
		bool bad = false;

		for (unsigned j = 0; j < r->g.width; j++)
			bad = bad || strip_is_bad(img->is[j]);
		if (bad)
			heal_stripe(r->a, r->g.id, (struct stripe_at){
			    img->row, img->units }, NULL, NULL);
	}
}

static void reading_release(struct reading *r)
{
	for (size_t i = 0; r->imgs && i < r->count; i++)
		stripe_img_release(&r->imgs[i]);
	free(r->imgs);
	free(r->spans);
}

static enum array_read reading_run(struct reading *r, struct err *e)
{
	if (spans_make(r, e) != 0)
		return e->code == ERR_NO_MEMORY ? ARRAY_READ_UNAVAILABLE :
		    ARRAY_READ_DAMAGED;
	if (r->check && read_parts(r) && r->check(r->arg, r->out, r->p->size))
		return ARRAY_READ_OK;
	return read_judged(r, e);
}

enum array_read array_read(struct array *a, const struct place *p, void *out,
    bool (*check)(void *arg, const void *data, size_t size), void *arg,
    struct err *e)
{
	struct reading r = { .a = a, .p = p, .out = out, .check = check,
		.arg = arg };
	enum array_read result;

	if (!seg_lease(a, p->segment, &r.g)) {
		err_set(e, ERR_NOT_FOUND, "segment %" PRIu64 " is gone",
		    p->segment);
		return ARRAY_READ_FREED;
	}
	result = reading_run(&r, e);
	seg_lease_end(a, p->segment);
	if (result == ARRAY_READ_OK && !a->read_only)
		heal_found(&r);
	reading_release(&r);
	return result;
}

/* Where its frame ends: the strip length of that stripe is in its headers. */
static int last_find(struct array *a, const struct seg_state *g,
    struct place *p, struct err *e)
{
	size_t left = (size_t)p->offset + p->size, k = seg_k(g);
	struct strip_header h;
	uint32_t row = p->row;

	for (;;) {
		uint8_t units = stripe_units_max(a, row);

		if (units == 0 || left <= k * units * RAID_ROW)
			break;
		left -= k * units * RAID_ROW;
		row += 1u + units;
	}
	if (stripe_find(a, g, row, &h, e) != 0)
		return -1;
	p->last = h.units;
	return 0;
}

enum array_read array_redo_read(struct array *a, const struct place *p,
    void *out, bool (*check)(void *arg, const void *data, size_t size),
    void *arg, struct err *e)
{
	struct place at = *p;
	struct reading r = { .a = a, .p = &at, .out = out, .check = check,
		.arg = arg };
	enum array_read result;

	if (!redo_state(a, p->segment, &r.g)) {
		err_set(e, ERR_NOT_FOUND, "segment %" PRIu64 " is gone",
		    p->segment);
		return ARRAY_READ_FREED;
	}
	if (last_find(a, &r.g, &at, e) != 0)
		return e->code == ERR_CORRUPT ? ARRAY_READ_DAMAGED :
		    ARRAY_READ_UNAVAILABLE;
	result = reading_run(&r, e);
	reading_release(&r);
	return result;
}
