/*
 * raid/stripe_io.c - stripes to the members and back.
 *
 * THE PROMISE
 *
 *   Parity is computed from data that is in memory and was never on a disk
 *   (stripe_write), or from payloads each of which has just been proven by its
 *   checksum (stripe_img_rebuild).  There is no other caller of parity.c but
 *   the search of raid/read.c, whose result a hash of the store must accept.
 *
 * THE ORDER of a write
 *
 *   pad --> data checksums --> parity --> parity checksums --> headers --> all
 *   members at once
 *
 * INVARIANTS   (tests/raid/test_stripe_io.c)
 *
 *   I1  A strip is good only if it names this array, member, extent, row,
 *       segment, nonce, number and geometry.
 *   I2  A payload is proven only by a checksum that a sound header of the same
 *       stripe holds; of several opinions the one that most payloads match.
 *   I3  A rebuilt payload that does not match its checksum is refused.
 */
#include "raid/stripe_io.h"

#include "raid/segment.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

static const char *const names[] = {
	[STRIP_GOOD] = "good",
	[STRIP_AWAY] = "away",
	[STRIP_ABSENT] = "absent",
	[STRIP_UNREADABLE] = "unreadable",
	[STRIP_BAD_HEADER] = "header",
	[STRIP_STALE] = "stale",
	[STRIP_MISDIRECTED] = "misdirected",
	[STRIP_BAD_PAYLOAD] = "payload",
};

const char *strip_is_name(enum strip_is is)
{
	return names[is];
}

bool strip_is_bad(enum strip_is is)
{
	return is >= STRIP_UNREADABLE;
}

uint64_t strip_offset(const struct array *a, const struct seg_state *g,
    unsigned slot, uint32_t row)
{
	const struct member *m = a->as->members[g->member[slot]];

	return member_extent_offset(m, g->extent[slot]) +
	    (uint64_t)row * RAID_ROW;
}

bool strip_readable(struct array *a, const struct seg_state *g,
    unsigned slot, bool last_resort)
{
	const struct member *m = a->as->members[g->member[slot]];
	bool ok;

	pthread_mutex_lock(&a->lock);
	ok = member_readable(m) && (m->state == MEMBER_ACTIVE ||
	    m->state == MEMBER_REPLACING ||
	    (last_resort && m->state == MEMBER_FAILED));
	pthread_mutex_unlock(&a->lock);
	return ok && !mio_stuck(m->io);
}

void member_count_error(struct member *m, enum mio_op op,
    const struct err *e)
{
	int kind = op == MIO_READ ? MERR_READ : op == MIO_WRITE ? MERR_WRITE :
	    MERR_FLUSH;

	if (e->code == ERR_TIMEOUT)
		kind = MERR_TIMEOUT;
	atomic_fetch_add(&m->errors[kind], 1);
}

void member_count_bad(struct member *m, enum strip_is is)
{
	if (is == STRIP_BAD_HEADER || is == STRIP_BAD_PAYLOAD)
		atomic_fetch_add(&m->errors[MERR_CHECKSUM], 1);
	else if (is == STRIP_STALE)
		atomic_fetch_add(&m->errors[MERR_STALE], 1);
	else if (is == STRIP_MISDIRECTED)
		atomic_fetch_add(&m->errors[MERR_MISDIRECTED], 1);
}

/* ---- headers --------------------------------------------------------- */

/* What all headers of a stripe share, but for the sums. */
static void head_init(struct array *a, const struct seg_state *g,
    uint32_t row, uint8_t units, struct strip_header *h)
{
	memset(h, 0, sizeof(*h));
	memcpy(h->array, a->uuid, RAID_UUID_SIZE);
	h->segment = g->id;
	h->nonce = g->nonce;
	h->birth = g->birth_flush;
	h->row = row;
	h->width = g->width;
	h->parity = g->parity;
	h->units = units;
	h->class = g->class;
	for (unsigned i = 0; i < g->width; i++) {
		unsigned slot = strip_slot(g, i);

		memcpy(h->peers[i].member,
		    a->as->members[g->member[slot]]->uuid, RAID_UUID_SIZE);
		h->peers[i].extent = g->extent[slot];
	}
}

static void header_put_for(struct array *a, struct strip_header h,
    unsigned strip, unsigned member, uint32_t extent, uint8_t *out)
{
	h.strip = (uint8_t)strip;
	memcpy(h.member, a->as->members[member]->uuid, RAID_UUID_SIZE);
	h.extent = extent;
	memcpy(h.peers[strip].member, h.member, RAID_UUID_SIZE);
	h.peers[strip].extent = extent;
	strip_header_put(out, &h);
}

void strip_header_make(struct array *a, const struct stripe_img *img,
    unsigned strip, unsigned member, uint32_t extent,
    uint8_t out[static STRIP_HEADER_SIZE])
{
	struct strip_header h;

	head_init(a, &img->g, img->row, img->units, &h);
	h.birth = img->head.birth;
	h.fill = img->head.fill;
	memcpy(h.sums, img->head.sums, sizeof(h.sums));
	header_put_for(a, h, strip, member, extent, out);
}

enum strip_is strip_judge(struct array *a, const struct seg_state *g,
    uint32_t row, uint8_t units, unsigned strip, const uint8_t *raw,
    struct strip_header *h)
{
	unsigned slot = strip_slot(g, strip);
	const struct member *m = a->as->members[g->member[slot]];
	struct err e;

	if (strip_header_get(h, raw, &e) != 0)
		return STRIP_BAD_HEADER;
	if (memcmp(h->array, a->uuid, RAID_UUID_SIZE) != 0 ||
	    memcmp(h->member, m->uuid, RAID_UUID_SIZE) != 0 ||
	    h->extent != g->extent[slot] || h->row != row)
		return STRIP_MISDIRECTED;
	if (h->segment != g->id || h->nonce != g->nonce)
		return STRIP_STALE;
	if (h->strip != strip || h->width != g->width ||
	    h->parity != g->parity || h->class != g->class ||
	    (units != 0 && h->units != units) ||
	    row + 1u + h->units > a->extent_rows)
		return STRIP_BAD_HEADER;
	return STRIP_GOOD;
}

/* ---- writing --------------------------------------------------------- */

static uint8_t *stripe_strip(const struct stripe *s, unsigned strip)
{
	return s->buf->data + strip * STRIP_STRIDE + STRIP_HEADER_SIZE;
}

/* Bytes [from, from + size) of the stripe, as filled with strips of `full`,
 * to `to`.  Goes from the end, for source and target may overlap. */
static void stripe_pull(const struct stripe *s, size_t full, size_t from,
    size_t size, uint8_t *to)
{
	while (size > 0) {
		size_t end = from + size;
		size_t strip = (end - 1) / full;
		size_t first = strip * full > from ? strip * full : from;
		size_t n = end - first;

		memmove(to + (first - from),
		    stripe_strip(s, (unsigned)strip) + first % full, n);
		size -= n;
	}
}

/* Short stripes: what was laid out for the longest strips moves together.
 * Each target lies at or behind its source, so the last strip goes first. */
static void stripe_settle(const struct stripe *s, size_t full, unsigned k)
{
	size_t strip = (size_t)s->units * RAID_ROW;

	for (unsigned i = k; i-- > 0;) {
		size_t from = i * strip;
		size_t n = from >= s->fill ? 0 : s->fill - from;

		if (n > strip)
			n = strip;
		if (strip != full)
			stripe_pull(s, full, from, n, stripe_strip(s, i));
		memset(stripe_strip(s, i) + n, 0, strip - n);
	}
}

static void stripe_encode(struct array *a, const struct seg_state *g,
    const struct stripe *s, struct strip_header *h)
{
	uint8_t *strips[SEG_WIDTH_MAX];
	size_t size = (size_t)s->units * RAID_ROW;
	unsigned k = seg_k(g);

	for (unsigned i = 0; i < g->width; i++)
		strips[i] = stripe_strip(s, i);
	for (unsigned i = 0; i < k; i++)
		h->sums[i] = strip_sum(h, (uint8_t)i, strips[i], size);
	parity_encode(&a->codes[k][g->parity], strips, size);
	for (unsigned i = k; i < g->width; i++)
		h->sums[i] = strip_sum(h, (uint8_t)i, strips[i], size);
	for (unsigned i = 0; i < g->width; i++) {
		unsigned slot = strip_slot(g, i);

		header_put_for(a, *h, i, g->member[slot], g->extent[slot],
		    strips[i] - STRIP_HEADER_SIZE);
	}
}

/* What became of the writes; members that failed are set aside. */
static void writes_judge(struct array *a, const struct seg_state *g,
    const struct mio_req *reqs, const unsigned *slots, unsigned count,
    bool *missing)
{
	for (unsigned i = 0; i < count; i++) {
		struct member *m = a->as->members[g->member[slots[i]]];

		if (reqs[i].rc == 0) {
			missing[slots[i]] = false;
			atomic_fetch_add(&m->written_bytes, reqs[i].size);
			continue;
		}
		member_count_error(m, MIO_WRITE, &reqs[i].e);
		array_member_failed(a, m->index, &reqs[i].e);
	}
}

void stripe_write(struct array *a, const struct seg_state *g,
    struct stripe *s, bool missing[static SEG_WIDTH_MAX])
{
	struct mio_req reqs[SEG_WIDTH_MAX];
	unsigned slots[SEG_WIDTH_MAX], count = 0;
	struct strip_header h;

	stripe_settle(s, (size_t)stripe_units_max(a, s->row) * RAID_ROW,
	    seg_k(g));
	head_init(a, g, s->row, s->units, &h);
	h.fill = s->fill;
	stripe_encode(a, g, s, &h);
	pthread_mutex_lock(&a->lock);
	for (unsigned i = 0; i < g->width; i++) {
		unsigned slot = strip_slot(g, i);
		struct member *m = a->as->members[g->member[slot]];

		missing[slot] = true;
		if (!member_writable(m))
			continue;
		slots[count] = slot;
		reqs[count++] = (struct mio_req){
			.mio = m->io,
			.op = MIO_WRITE,
			.buf = s->buf,
			.buf_offset = i * STRIP_STRIDE,
			.size = (1u + s->units) * (size_t)RAID_ROW,
			.offset = strip_offset(a, g, slot, s->row),
		};
	}
	pthread_mutex_unlock(&a->lock);
	mio_run(reqs, count);
	writes_judge(a, g, reqs, slots, count, missing);
}

/* ---- reading --------------------------------------------------------- */

int stripe_img_init(struct stripe_img *img, const struct seg_state *g,
    uint32_t row, uint8_t units, struct err *e)
{
	memset(img, 0, sizeof(*img));
	img->g = *g;
	img->row = row;
	img->units = units;
	img->stride = (1u + units) * (size_t)RAID_ROW;
	img->buf = iobuf_new(img->stride * g->width);
	if (!img->buf)
		return err_set(e, ERR_NO_MEMORY, "no memory for a stripe");
	return 0;
}

void stripe_img_release(struct stripe_img *img)
{
	iobuf_unref(img->buf);
	img->buf = NULL;
}

uint8_t *stripe_img_strip(const struct stripe_img *img, unsigned strip)
{
	return img->buf->data + img->base + strip * img->stride +
	    STRIP_HEADER_SIZE;
}

void stripe_img_copy(const struct stripe_img *img, uint8_t *out,
    size_t offset, size_t size)
{
	size_t strip = (size_t)img->units * RAID_ROW;

	while (size > 0) {
		size_t no = offset / strip, at = offset % strip;
		size_t n = strip - at < size ? strip - at : size;

		memcpy(out, stripe_img_strip(img, (unsigned)no) + at, n);
		out += n;
		offset += n;
		size -= n;
	}
}

void stripe_img_load(struct array *a, struct stripe_img *img,
    bool last_resort)
{
	const struct seg_state *g = &img->g;
	struct mio_req reqs[SEG_WIDTH_MAX];
	unsigned strips[SEG_WIDTH_MAX], count = 0;

	for (unsigned i = 0; i < g->width; i++) {
		unsigned slot = strip_slot(g, i);

		img->read[i] = false;
		img->is[i] = STRIP_AWAY;
		if (g->absent_from[slot] <= img->row) {
			img->is[i] = STRIP_ABSENT;
			continue;
		}
		if (!strip_readable(a, g, slot, last_resort))
			continue;
		strips[count] = i;
		reqs[count++] = (struct mio_req){
			.mio = a->as->members[g->member[slot]]->io,
			.op = MIO_READ,
			.uncached = true,
			.buf = img->buf,
			.buf_offset = img->base + i * img->stride,
			.size = (1u + img->units) * (size_t)RAID_ROW,
			.offset = strip_offset(a, g, slot, img->row),
		};
	}
	mio_run(reqs, count);
	for (unsigned i = 0; i < count; i++) {
		unsigned strip = strips[i];
		struct member *m =
		    a->as->members[g->member[strip_slot(g, strip)]];

		img->read[strip] = reqs[i].rc == 0;
		if (reqs[i].rc == 0) {
			atomic_fetch_add(&m->read_bytes, reqs[i].size);
			img->is[strip] = STRIP_GOOD;
			continue;
		}
		member_count_error(m, MIO_READ, &reqs[i].e);
		img->is[strip] = reqs[i].e.code == ERR_TIMEOUT ? STRIP_AWAY :
		    STRIP_UNREADABLE;
	}
	stripe_img_judge(a, img);
}

/* How many payloads match this header's sums; marks them. */
static unsigned matches(const struct stripe_img *img, const uint64_t *sums,
    const struct strip_header *h, bool *sound)
{
	unsigned n = 0;

	for (unsigned i = 0; i < img->g.width; i++) {
		sound[i] = img->read[i] && sums[i] == h->sums[i];
		n += sound[i];
	}
	return n;
}

/* Choose the header that most payloads agree with (I2). */
static void head_choose(struct stripe_img *img,
    const struct strip_header *heads, const uint64_t *sums)
{
	unsigned best = 0;

	img->headed = false;
	memset(img->sound, 0, sizeof(img->sound));
	for (unsigned i = 0; i < img->g.width; i++) {
		bool sound[SEG_WIDTH_MAX] = { false };
		unsigned n;

		if (!img->read[i] || img->is[i] != STRIP_GOOD)
			continue;
		if (img->headed && memcmp(heads[i].sums, img->head.sums,
		    sizeof(heads[i].sums)) == 0)
			continue;
		n = matches(img, sums, &heads[i], sound);
		if (img->headed && n <= best)
			continue;
		best = n;
		img->headed = true;
		img->head = heads[i];
		memcpy(img->sound, sound, sizeof(sound));
	}
}

void stripe_img_judge(struct array *a, struct stripe_img *img)
{
	struct strip_header heads[SEG_WIDTH_MAX], h;
	uint64_t sums[SEG_WIDTH_MAX] = { 0 };
	size_t size = (size_t)img->units * RAID_ROW;

	head_init(a, &img->g, img->row, img->units, &h);
	for (unsigned i = 0; i < img->g.width; i++) {
		const uint8_t *payload = stripe_img_strip(img, i);

		if (!img->read[i])
			continue;
		img->is[i] = strip_judge(a, &img->g, img->row, img->units, i,
		    payload - STRIP_HEADER_SIZE, &heads[i]);
		sums[i] = strip_sum(&h, (uint8_t)i, payload, size);
	}
	head_choose(img, heads, sums);
	for (unsigned i = 0; i < img->g.width; i++) {
		if (!img->read[i] || img->is[i] != STRIP_GOOD)
			continue;
		if (memcmp(heads[i].sums, img->head.sums,
		    sizeof(heads[i].sums)) != 0)
			img->is[i] = STRIP_BAD_HEADER;
		else if (!img->sound[i])
			img->is[i] = STRIP_BAD_PAYLOAD;
	}
}

static int rebuild_failed(const struct stripe_img *img, struct err *e)
{
	unsigned bad = 0, away = 0;

	for (unsigned i = 0; i < img->g.width; i++) {
		away += img->is[i] == STRIP_AWAY;
		bad += !img->sound[i] && img->is[i] != STRIP_AWAY;
	}
	if (away > 0 && bad <= img->g.parity)
		return err_set(e, ERR_UNAVAILABLE, "segment %" PRIu64 " row %"
		    PRIu32 ": %u of its %u members are away", img->g.id,
		    img->row, away, img->g.width);
	return err_set(e, ERR_CORRUPT, "segment %" PRIu64 " row %" PRIu32
	    ": %u of its %u strips are wrong", img->g.id, img->row, bad,
	    img->g.width);
}

int stripe_img_rebuild(struct array *a, struct stripe_img *img,
    struct err *e)
{
	uint8_t *strips[SEG_WIDTH_MAX];
	size_t size = (size_t)img->units * RAID_ROW;
	unsigned good = 0, k = seg_k(&img->g);
	struct err ignored;

	for (unsigned i = 0; i < img->g.width; i++) {
		strips[i] = stripe_img_strip(img, i);
		good += img->sound[i];
	}
	if (!img->headed || good < k)
		return rebuild_failed(img, e);
	if (good == img->g.width)
		return 0;
	if (parity_decode(&a->codes[k][img->g.parity], strips, img->sound,
	    size, &ignored) != 0)
		return rebuild_failed(img, e);
	for (unsigned i = 0; i < img->g.width; i++)
		if (!img->sound[i] && strip_sum(&img->head, (uint8_t)i,
		    strips[i], size) != img->head.sums[i])
			return err_set(e, ERR_CORRUPT, "segment %" PRIu64
			    " row %" PRIu32 ": parity and checksums disagree",
			    img->g.id, img->row);
	return 0;
}

/* ---- finding the strip length ---------------------------------------- */

static unsigned headers_read(struct array *a, const struct seg_state *g,
    uint32_t row, struct iobuf *buf, struct mio_req *reqs, unsigned *strips)
{
	unsigned count = 0;

	for (unsigned i = 0; i < g->width; i++) {
		unsigned slot = strip_slot(g, i);

		if (g->absent_from[slot] <= row ||
		    !strip_readable(a, g, slot, true))
			continue;
		strips[count] = i;
		reqs[count++] = (struct mio_req){
			.mio = a->as->members[g->member[slot]]->io,
			.op = MIO_READ,
			.uncached = true,
			.buf = buf,
			.buf_offset = i * STRIP_HEADER_SIZE,
			.size = STRIP_HEADER_SIZE,
			.offset = strip_offset(a, g, slot, row),
		};
	}
	mio_run(reqs, count);
	return count;
}

int stripe_find(struct array *a, const struct seg_state *g, uint32_t row,
    struct strip_header *out, struct err *e)
{
	struct mio_req reqs[SEG_WIDTH_MAX];
	unsigned strips[SEG_WIDTH_MAX], count;
	struct iobuf *buf = iobuf_new(SEG_WIDTH_MAX * STRIP_HEADER_SIZE);
	struct strip_header h;
	bool found = false;

	if (!buf)
		return err_set(e, ERR_NO_MEMORY, "no memory for headers");
	count = headers_read(a, g, row, buf, reqs, strips);
	for (unsigned i = 0; i < count && !found; i++) {
		if (reqs[i].rc != 0 || strip_judge(a, g, row, 0, strips[i],
		    buf->data + strips[i] * STRIP_HEADER_SIZE, &h) !=
		    STRIP_GOOD)
			continue;
		*out = h;
		found = true;
	}
	iobuf_unref(buf);
	if (found)
		return 0;
	if (count < g->width - (unsigned)g->parity)
		return err_set(e, ERR_UNAVAILABLE, "segment %" PRIu64
		    ": too many members are away", g->id);
	return err_set(e, ERR_CORRUPT, "segment %" PRIu64 " row %" PRIu32
	    ": no strip has a sound header", g->id, row);
}
