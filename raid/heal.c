/*
 * raid/heal.c - what was found wrong is written again, where it was.
 *
 * In place first: the write lets the drive put a spare sector there.  A torn
 * heal damages only a strip that was bad already, and what is written has
 * matched the checksum in the other strips' headers (stripe_img_rebuild), so a
 * heal can never spread damage.
 *
 * THE ORDER
 *
 *   hold the segment --> read map and stripe again --> rebuild, proven -->
 *   write --> flush --> read back, uncached --> compare
 *
 * INVARIANTS   (tests/raid/test_heal.c)
 *
 *   H1  Only strips that are wrong are written.
 *   H2  Nothing is written when more than p strips are wrong.
 */
#include "raid/heal.h"

#include "raid/flush_site.h"

#include <string.h>

void heal_report(struct array *a, const struct stripe_img *img,
    const bool *healed, struct scan_report *report,
    const struct scan_ops *ops)
{
	for (unsigned i = 0; i < img->g.width; i++) {
		struct member *m =
		    a->as->members[img->g.member[strip_slot(&img->g, i)]];

		if (!strip_is_bad(img->is[i]))
			continue;
		member_count_bad(m, img->is[i]);
		if (report) {
			report->strips_bad++;
			report->strips_healed += healed[i];
		}
		if (ops && ops->bad_strip)
			ops->bad_strip(ops->arg, m->index,
			    m->path ? m->path : "", img->g.id, img->row,
			    strip_is_name(img->is[i]), healed[i]);
	}
}

static void run(struct array *a, const struct stripe_img *img,
    const struct heal_target *t, unsigned count, enum mio_op op,
    struct iobuf *buf, bool *ok)
{
	struct mio_req reqs[SEG_WIDTH_MAX];
	size_t size = (1u + img->units) * (size_t)RAID_ROW;

	for (unsigned i = 0; i < count; i++) {
		const struct member *m = a->as->members[t[i].member];

		reqs[i] = (struct mio_req){ .mio = m->io, .op = op };
		if (op == MIO_FLUSH)
			continue;
		reqs[i].uncached = true;
		reqs[i].buf = buf;
		reqs[i].buf_offset = i * size;
		reqs[i].size = size;
		reqs[i].offset = member_extent_offset(m, t[i].extent) +
		    (uint64_t)img->row * RAID_ROW;
	}
	mio_run(reqs, count);
	for (unsigned i = 0; i < count; i++) {
		struct member *m = a->as->members[t[i].member];

		if (reqs[i].rc != 0)
			member_count_error(m, op, &reqs[i].e);
		else if (op == MIO_WRITE)
			atomic_fetch_add(&m->written_bytes, size);
		ok[i] = ok[i] && reqs[i].rc == 0;
	}
}

void heal_write(struct array *a, const struct stripe_img *img,
    struct heal_target *targets, unsigned count)
{
	size_t size = (1u + img->units) * (size_t)RAID_ROW;
	struct iobuf *out = iobuf_new(count * size);
	struct iobuf *back = iobuf_new(count * size);
	bool ok[SEG_WIDTH_MAX];

	for (unsigned i = 0; i < count; i++) {
		struct heal_target *t = &targets[i];

		t->done = false;
		ok[i] = out && back;
		if (!ok[i])
			continue;
		strip_header_make(a, img, t->strip, t->member, t->extent,
		    out->data + i * size);
		memcpy(out->data + i * size + STRIP_HEADER_SIZE,
		    stripe_img_strip(img, t->strip), size - STRIP_HEADER_SIZE);
	}
	if (out && back) {
		run(a, img, targets, count, MIO_WRITE, out, ok);
		if (flush_site("heal.strips"))
			run(a, img, targets, count, MIO_FLUSH, NULL,
			    ok);
		run(a, img, targets, count, MIO_READ, back, ok);
		for (unsigned i = 0; i < count; i++)
			targets[i].done = ok[i] && memcmp(out->data + i * size,
			    back->data + i * size, size) == 0;
	}
	iobuf_unref(out);
	iobuf_unref(back);
}

/* The strips that are wrong and whose member takes writes. */
static unsigned heal_targets(struct array *a, const struct stripe_img *img,
    struct heal_target *t)
{
	unsigned count = 0;

	pthread_mutex_lock(&a->lock);
	for (unsigned i = 0; i < img->g.width; i++) {
		unsigned slot = strip_slot(&img->g, i);

		if (!strip_is_bad(img->is[i]) ||
		    !member_writable(a->as->members[img->g.member[slot]]))
			continue;
		t[count++] = (struct heal_target){ i, img->g.member[slot],
			img->g.extent[slot], false };
	}
	if (a->dead)
		count = 0;
	pthread_mutex_unlock(&a->lock);
	return count;
}

static void heal_held(struct array *a, struct stripe_img *img,
    struct scan_report *report, const struct scan_ops *ops)
{
	struct heal_target targets[SEG_WIDTH_MAX];
	bool healed[SEG_WIDTH_MAX] = { false };
	unsigned count;
	struct err e;

	stripe_img_load(a, img, false);
	count = heal_targets(a, img, targets);
	if (count > 0 && stripe_img_rebuild(a, img, &e) == 0) {
		heal_write(a, img, targets, count);
		for (unsigned i = 0; i < count; i++)
			healed[targets[i].strip] = targets[i].done;
	}
	heal_report(a, img, healed, report, ops);
}

static void heal_image(struct array *a, const struct seg_state *g,
    const struct stripe_at *at, bool held, struct scan_report *report,
    const struct scan_ops *ops)
{
	static const bool none[SEG_WIDTH_MAX];
	struct stripe_img img;
	struct err e;

	if (at->row + 1u + at->units > g->rows ||
	    stripe_img_init(&img, g, at->row, at->units, &e) != 0)
		return;
	if (held) {
		heal_held(a, &img, report, ops);
	} else {
		stripe_img_load(a, &img, false);
		heal_report(a, &img, none, report, ops);
	}
	stripe_img_release(&img);
}

void heal_stripe(struct array *a, uint64_t segment, struct stripe_at at,
    struct scan_report *report, const struct scan_ops *ops)
{
	struct seg_state g;

	if (seg_hold(a, segment, &g)) {
		heal_image(a, &g, &at, true, report, ops);
		seg_hold_end(a, segment);
	} else if (seg_lease(a, segment, &g)) {	/* readers all the time */
		heal_image(a, &g, &at, false, report, ops);
		seg_lease_end(a, segment);
	}
}
