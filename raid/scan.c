/*
 * raid/scan.c - every strip of a segment, read and judged; what is wrong is
 * located, told, and healed.
 *
 * A window of rows is read from all members at once, uncached, and the stripes
 * in it are judged where they lie.  When a member cannot read its part of the
 * window, the stripes of this window are read one by one, so that one bad
 * sector costs one strip.  The segment is leased for a window, not for the
 * whole scan: heals and moves come in between.
 *
 * The strip length of a stripe is told by its headers.  Where no strip has a
 * sound one, the stripe is lost, and the next is looked for row by row.
 *
 * INVARIANTS   (tests/raid/test_scan.c)
 *
 *   V1  A scan without `heal` writes nothing.
 *   V2  A stripe with more than p wrong strips is reported, never written.
 *   V3  The time is noted as verified only if every strip was there and no
 *       stripe was lost.
 */
#include "raid/heal.h"
#include "raid/segment.h"

#include "base/clock.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Four full stripes at a time, fewer when wide: at most 8 MiB. */
#define WINDOW_STRIPES 4
#define WINDOW_BYTES (8u << 20)
#define STRIPE_ROWS (1u + STRIP_UNITS_MAX)

struct window {
	struct iobuf *buf;
	size_t stride;		/* bytes for each strip */
	uint32_t row, rows;
	bool split;		/* a read failed: stripe by stripe */
	bool read[SEG_WIDTH_MAX];
	enum strip_is is[SEG_WIDTH_MAX];
};

struct scanning {
	struct array *a;
	uint64_t id;
	bool heal;
	const struct scan_ops *ops;
	struct scan_report *report;
	struct job_ctl *ctl;
	struct seg_state g;
	struct window win;
	uint8_t *payload;	/* one stripe in order */
	uint32_t row;
	bool incomplete;	/* something was lost or absent */
	/* stripes to be healed after the lease */
	struct stripe_at todo[WINDOW_STRIPES * STRIPE_ROWS];
	size_t todo_count;
	uint64_t started_ms, bytes;
};

/* ---- the window ------------------------------------------------------ */

static uint32_t window_rows(const struct seg_state *g, uint32_t row)
{
	uint32_t rows = WINDOW_STRIPES * STRIPE_ROWS;
	uint32_t fit = WINDOW_BYTES / RAID_ROW / g->width;

	if (rows > fit)
		rows = fit > STRIPE_ROWS ? fit : STRIPE_ROWS;
	return g->rows - row < rows ? g->rows - row : rows;
}

static int window_buffer(struct scanning *sc, uint32_t row, struct err *e)
{
	struct window *w = &sc->win;

	w->row = row;
	w->rows = window_rows(&sc->g, row);
	w->stride = (size_t)w->rows * RAID_ROW;
	if (w->buf && w->buf->size >= w->stride * sc->g.width &&
	    atomic_load(&w->buf->refs) == 1)
		return 0;
	iobuf_unref(w->buf);
	w->buf = iobuf_new(w->stride * sc->g.width);
	if (!w->buf)
		return err_set(e, ERR_NO_MEMORY, "no memory for a scan");
	return 0;
}

static int window_load(struct scanning *sc, uint32_t row, struct err *e)
{
	struct window *w = &sc->win;
	struct mio_req reqs[SEG_WIDTH_MAX];
	unsigned strips[SEG_WIDTH_MAX], count = 0;

	if (window_buffer(sc, row, e) != 0)
		return -1;
	w->split = false;
	for (unsigned i = 0; i < sc->g.width; i++) {
		unsigned slot = strip_slot(&sc->g, i);

		w->read[i] = false;
		w->is[i] = STRIP_AWAY;
		if (!strip_readable(sc->a, &sc->g, slot, false))
			continue;
		strips[count] = i;
		reqs[count++] = (struct mio_req){
			.mio = sc->a->as->members[sc->g.member[slot]]->io,
			.op = MIO_READ,
			.uncached = true,
			.buf = w->buf,
			.buf_offset = i * w->stride,
			.size = w->stride,
			.offset = strip_offset(sc->a, &sc->g, slot, row),
		};
	}
	mio_run(reqs, count);
	for (unsigned i = 0; i < count; i++) {
		unsigned slot = strip_slot(&sc->g, strips[i]);
		struct member *m = sc->a->as->members[sc->g.member[slot]];

		w->read[strips[i]] = reqs[i].rc == 0;
		w->is[strips[i]] = STRIP_GOOD;
		if (reqs[i].rc != 0)
			w->split = true;
		else
			atomic_fetch_add(&m->read_bytes, w->stride);
	}
	return 0;
}

/* ---- one stripe ------------------------------------------------------ */

/* The image of a stripe: in the window, or read by itself. */
static int image_take(struct scanning *sc, uint32_t row, uint8_t units,
    struct stripe_img *img, struct err *e)
{
	const struct window *w = &sc->win;

	if (w->split) {
		if (stripe_img_init(img, &sc->g, row, units, e) != 0)
			return -1;
		stripe_img_load(sc->a, img, false);
		return 0;
	}
	memset(img, 0, sizeof(*img));
	img->g = sc->g;
	img->row = row;
	img->units = units;
	img->buf = iobuf_ref(w->buf);
	img->stride = w->stride;
	img->base = (size_t)(row - w->row) * RAID_ROW;
	for (unsigned i = 0; i < sc->g.width; i++) {
		bool absent =
		    sc->g.absent_from[strip_slot(&sc->g, i)] <= row;

		img->is[i] = absent ? STRIP_ABSENT : w->is[i];
		img->read[i] = !absent && w->read[i];
	}
	stripe_img_judge(sc->a, img);
	return 0;
}

/* A last try with members that were set aside, into an image of its own. */
static int image_last_resort(struct scanning *sc, struct stripe_img *img,
    struct err *e)
{
	struct stripe_img other;

	if (stripe_img_init(&other, &sc->g, img->row, img->units, e) != 0)
		return -1;
	stripe_img_load(sc->a, &other, true);
	if (stripe_img_rebuild(sc->a, &other, e) != 0) {
		stripe_img_release(&other);
		return -1;
	}
	memcpy(other.is, img->is, sizeof(other.is));
	stripe_img_release(img);
	*img = other;
	return 0;
}

static void stripe_tell(const struct scanning *sc,
    const struct stripe_img *img, bool proven)
{
	size_t strip = (size_t)img->units * RAID_ROW;

	if (!sc->ops || !sc->ops->stripe)
		return;
	if (proven)
		stripe_img_copy(img, sc->payload, 0, img->head.fill);
	sc->ops->stripe(sc->ops->arg, sc->id, img->row,
	    proven ? sc->payload : NULL, proven ? img->head.fill : 0,
	    (uint32_t)strip);
}

/* Count what the image shows: wrong strips, and whether all are sound. */
static void image_count(struct scanning *sc, const struct stripe_img *img,
    unsigned *bad, unsigned *unsound)
{
	*bad = *unsound = 0;
	sc->report->stripes++;
	for (unsigned i = 0; i < img->g.width; i++) {
		bool absent = img->is[i] == STRIP_AWAY ||
		    img->is[i] == STRIP_ABSENT;

		*bad += strip_is_bad(img->is[i]);
		*unsound += !img->sound[i];
		sc->report->strips_absent += absent;
		sc->incomplete = sc->incomplete || absent;
	}
}

static int stripe_scan(struct scanning *sc, uint32_t row, uint8_t units,
    struct err *e)
{
	static const bool none[SEG_WIDTH_MAX];
	struct stripe_img img;
	unsigned bad, unsound;
	bool proven;
	struct err why = { .code = ERR_NONE };

	if (image_take(sc, row, units, &img, e) != 0)
		return -1;
	image_count(sc, &img, &bad, &unsound);
	proven = unsound == 0 ||
	    stripe_img_rebuild(sc->a, &img, &why) == 0 ||
	    image_last_resort(sc, &img, &why) == 0;
	if (bad > 0 && proven && sc->heal)
		sc->todo[sc->todo_count++] = (struct stripe_at){ row,
			units };
	else
		heal_report(sc->a, &img, none, sc->report, sc->ops);
	if (!proven) {
		sc->incomplete = true;
		sc->report->stripes_lost += why.code != ERR_UNAVAILABLE;
	}
	stripe_tell(sc, &img, proven);
	stripe_img_release(&img);
	return 0;
}

/* ---- from stripe to stripe ------------------------------------------- */

/* The strip length at `row`: 0 = no sound header in the window. */
static uint8_t window_units(const struct scanning *sc, uint32_t row)
{
	const struct window *w = &sc->win;
	struct strip_header h;

	for (unsigned i = 0; i < sc->g.width; i++) {
		const uint8_t *raw = w->buf->data + i * w->stride +
		    (size_t)(row - w->row) * RAID_ROW;

		if (w->read[i] && sc->g.absent_from[strip_slot(&sc->g, i)] >
		    row && strip_judge(sc->a, &sc->g, row, 0, i, raw, &h) ==
		    STRIP_GOOD && row + 1u + h.units <= sc->g.rows)
			return h.units;
	}
	return 0;
}

/* No header at sc->row: go on to the next row that has one. */
static int stripe_skip(struct scanning *sc, struct err *e)
{
	uint32_t first = sc->row;
	struct strip_header h;
	struct err why;

	sc->incomplete = true;
	while (sc->row < sc->g.rows) {
		if (stripe_find(sc->a, &sc->g, sc->row, &h, &why) == 0)
			break;
		if (why.code == ERR_NO_MEMORY) {
			*e = why;
			return -1;
		}
		if (why.code == ERR_UNAVAILABLE) {
			pthread_mutex_lock(&sc->a->lock);
			sc->report->strips_absent +=
			    array_slots_away(sc->a, &sc->g);
			pthread_mutex_unlock(&sc->a->lock);
			sc->row = sc->g.rows;
			return 0;
		}
		sc->row++;
	}
	if (sc->row == first)
		return 0;	/* it was only unreadable in the window */
	sc->report->stripes++;
	sc->report->stripes_lost++;
	if (sc->ops && sc->ops->stripe)
		sc->ops->stripe(sc->ops->arg, sc->id, first, NULL, 0, 0);
	return 0;
}

/* The stripes of the window that are whole in it.  At least one is done, or
 * skipped. */
static int window_scan(struct scanning *sc, struct err *e)
{
	uint32_t end = sc->win.row + sc->win.rows;
	bool moved = false;

	while (sc->row < end) {
		uint8_t units = window_units(sc, sc->row);
		struct strip_header h;

		if (units == 0 && sc->win.split &&
		    stripe_find(sc->a, &sc->g, sc->row, &h, e) == 0)
			units = h.units;
		if (units == 0)
			return stripe_skip(sc, e);
		if (sc->row + 1u + units > end && moved)
			return 0;
		if (sc->row + 1u + units > end)
			sc->win.split = true;	/* longer than any should be */
		if (stripe_scan(sc, sc->row, units, e) != 0)
			return -1;
		sc->bytes += (1u + units) * (uint64_t)RAID_ROW * sc->g.width;
		sc->row += 1u + units;
		moved = true;
	}
	return 0;
}

/* ---- the segment ----------------------------------------------------- */

static int pause_check(struct scanning *sc, uint64_t before, struct err *e)
{
	struct job_ctl *ctl = sc->ctl;
	uint64_t due, now;

	if (!ctl)
		return 0;
	atomic_fetch_add(&ctl->done, sc->bytes - before);
	if (ctl->rate_max > 0) {
		due = sc->started_ms + sc->bytes * 1000 / ctl->rate_max;
		now = clock_mono_ms();
		while (now < due && !atomic_load(&ctl->cancel)) {
			uint64_t ms = due - now < 50 ? due - now : 50;

			nanosleep(&(struct timespec){ 0, (long)ms * 1000000 },
			    NULL);
			now = clock_mono_ms();
		}
	}
	if (atomic_load(&ctl->cancel))
		return err_set(e, ERR_CANCELLED, "the scan was stopped");
	return 0;
}

static int gone(uint64_t id, struct err *e)
{
	return err_set(e, ERR_NOT_FOUND, "segment %" PRIu64 " was freed", id);
}

/* One window under a lease, then what it found to heal.  1 = more, 0 = end. */
static int scan_window(struct scanning *sc, struct err *e)
{
	int rc = 0;

	if (!seg_lease(sc->a, sc->id, &sc->g))
		return gone(sc->id, e);
	sc->todo_count = 0;
	if (sc->row < sc->g.rows) {
		rc = window_load(sc, sc->row, e);
		if (rc == 0)
			rc = window_scan(sc, e);
	}
	seg_lease_end(sc->a, sc->id);
	for (size_t i = 0; i < sc->todo_count; i++)
		heal_stripe(sc->a, sc->id, sc->todo[i], sc->report, sc->ops);
	if (rc != 0)
		return -1;
	return sc->row < sc->g.rows;
}

static void verified_note(struct array *a, uint64_t id)
{
	struct seg *s;

	pthread_mutex_lock(&a->lock);
	s = map_find(&a->map, id);
	if (s && s->durable && !s->freed) {
		s->s.verified_s = (uint64_t)clock_real_s();
		a->verify_notes += !s->verify_noted;
		s->verify_noted = true;
	}
	pthread_mutex_unlock(&a->lock);
}

int array_scan_segment(struct array *a, uint64_t segment, bool heal,
    const struct scan_ops *ops, struct scan_report *report,
    struct job_ctl *ctl, struct err *e)
{
	struct scanning sc = { .a = a, .id = segment, .ops = ops,
		.heal = heal && !a->read_only, .report = report, .ctl = ctl,
		.started_ms = clock_mono_ms() };
	uint64_t before;
	int rc = 1;

	sc.payload = malloc(SEG_WIDTH_MAX * (size_t)RAID_STRIP_MAX);
	if (!sc.payload)
		return err_set(e, ERR_NO_MEMORY, "no memory for a scan");
	while (rc == 1) {
		before = sc.bytes;
		rc = scan_window(&sc, e);
		if (rc >= 0 && pause_check(&sc, before, e) != 0)
			rc = -1;
	}
	if (rc == 0 && !sc.incomplete)
		verified_note(a, segment);
	iobuf_unref(sc.win.buf);
	free(sc.payload);
	return rc;
}

/* ---- everything ------------------------------------------------------ */

struct due {
	uint64_t id, verified_s;
};

static int due_order(const void *l, const void *r)
{
	const struct due *a = l, *b = r;

	if (a->verified_s != b->verified_s)
		return a->verified_s < b->verified_s ? -1 : 1;
	return a->id < b->id ? -1 : a->id > b->id;
}

/* All segments, the one verified longest ago first. */
static struct due *due_list(struct array *a, size_t *count, uint64_t *bytes)
{
	struct due *list;

	*count = 0;
	*bytes = 0;
	pthread_mutex_lock(&a->lock);
	list = calloc(a->map.count + 1, sizeof(*list));
	for (size_t i = 0; list && i < a->map.count; i++) {
		const struct seg *s = a->map.segs[i];

		if (!s->durable || s->freed)
			continue;
		list[(*count)++] = (struct due){ s->s.id, s->s.verified_s };
		*bytes += (uint64_t)s->s.rows * RAID_ROW * s->s.width;
	}
	pthread_mutex_unlock(&a->lock);
	if (list)
		qsort(list, *count, sizeof(*list), due_order);
	return list;
}

int array_scrub(struct array *a, bool heal, const struct scan_ops *ops,
    struct scan_report *report, struct job_ctl *ctl, struct err *e)
{
	size_t count;
	uint64_t bytes;
	struct due *list = due_list(a, &count, &bytes);
	int rc = 0;

	if (!list)
		return err_set(e, ERR_NO_MEMORY, "no memory for a scrub");
	heal = heal && !a->read_only;
	if (ctl)
		atomic_store(&ctl->total, bytes);
	for (size_t i = 0; i < count && rc == 0; i++) {
		rc = array_scan_segment(a, list[i].id, heal, ops, report, ctl,
		    e);
		if (rc != 0 && e->code == ERR_NOT_FOUND)
			rc = 0;		/* freed meanwhile */
	}
	free(list);
	return rc == 0 ? array_scrub_log(a, heal, ops, report, e) : -1;
}

int array_scrub_log(struct array *a, bool heal, const struct scan_ops *ops,
    struct scan_report *report, struct err *e)
{
	heal = heal && !a->read_only;
	if (assembly_scrub(a->as, a->log, heal, report, ops, e) != 0)
		return -1;
	return log_scrub(a->log, heal, report, ops, e);
}
