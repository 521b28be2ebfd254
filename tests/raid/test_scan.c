/*
 * Scan, heal and judged reads: what is wrong is located, named, healed from
 * proven strips, and never spreads.  Method: damage one place of every kind on
 * every strip of a stripe, over all geometries; hold the disks against a clone
 * from before; then lose p other members and read all again.
 */
#include "tests/raid/bed.h"

#include "raid/heal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct told {
	unsigned count, healed;
	unsigned disk;		/* of the last */
	char kind[16];
	uint64_t payload;	/* bytes of stripes that were given */
	unsigned lost;
};

static void tell(void *arg, unsigned member, const char *path,
    uint64_t segment, uint32_t row, const char *kind, bool healed)
{
	struct told *t = arg;

	(void)member;
	(void)segment;
	(void)row;
	t->count++;
	t->healed += healed;
	t->disk = (unsigned)strtoul(path + strlen("sim:"), NULL, 10);
	snprintf(t->kind, sizeof(t->kind), "%s", kind);
}

static void stripe(void *arg, uint64_t segment, uint32_t row,
    const uint8_t *data, size_t size, uint32_t strip_size)
{
	struct told *t = arg;

	(void)segment;
	(void)row;
	(void)strip_size;
	t->payload += data ? size : 0;
	t->lost += data == NULL;
}

static struct bed *filled(int i)
{
	struct bed *r = bed_new_shape(i);

	bed_append(r, SEG_DATA, RAID_FRAME_MAX);
	bed_fill(r, 3, 6, 200000);
	return r;
}

static struct scan_report scan(struct bed *r, bool heal, struct told *t)
{
	struct scan_ops ops = { .bad_strip = tell, .stripe = stripe,
		.arg = t };

	memset(t, 0, sizeof(*t));
	return bed_scan(r, heal, &ops);
}

/* The disks other than `disk` are as in `before`; after a heal, all. */
static void same_disks(struct bed *r, struct sim *before, unsigned not)
{
	uint64_t at;

	for (unsigned i = 0; i < sim_disks(r->sim); i++)
		if (i != not)
			ck_assert_msg(sim_same(r->sim, i, before, i, &at),
			    "disk %u at %llu", i, (unsigned long long)at);
}

#define NOT_ONE UINT32_MAX

START_TEST(a_clean_array_scans_clean)
{
	struct bed *r = filled(_i);
	struct sim *before = sim_clone(r->sim);
	struct scan_report rep;
	struct told t;
	uint64_t used = 0;

	rep = scan(r, true, &t);
	ck_assert_uint_gt(rep.stripes, 3);
	ck_assert_uint_eq(rep.strips_bad + rep.stripes_lost +
	    rep.strips_absent, 0);
	for (size_t i = 0; i < r->count; i++)
		used += r->frames[i].place.size;
	ck_assert_uint_ge(t.payload, used);
	same_disks(r, before, NOT_ONE);
	sim_free(before);
	bed_free(r);
}
END_TEST

enum damage { FLIP_PAYLOAD, FLIP_HEADER, ZERO_STRIP, UNREADABLE, MISPLACED };
#define DAMAGES 5

static const char *const kinds[] = { "payload", "header", "header",
	"unreadable", "misdirected" };

static void harm(struct bed *r, enum damage d, unsigned disk, uint64_t at)
{
	uint8_t raw[2 * RAID_ROW];

	switch (d) {
	case FLIP_PAYLOAD:
		sim_flip(r->sim, disk, at + STRIP_HEADER_SIZE + 77, 0x10);
		break;
	case FLIP_HEADER:
		sim_flip(r->sim, disk, at + 300, 0x01);
		break;
	case ZERO_STRIP:
		sim_zero(r->sim, disk, at, 3 * RAID_ROW);
		break;
	case UNREADABLE:
		sim_unreadable(r->sim, disk, at, RAID_ROW);
		break;
	case MISPLACED:		/* the strip of another member */
		sim_peek(r->sim, (disk + 1) % sim_disks(r->sim), at, raw,
		    sizeof(raw));
		sim_poke(r->sim, disk, at, raw, sizeof(raw));
		break;
	}
}

START_TEST(locates_and_heals_each_kind_on_each_strip)
{
	struct bed *r = filled(_i % BED_SHAPES);
	enum damage d = (enum damage)(_i / BED_SHAPES);
	struct place p = r->frames[0].place;
	struct seg_state g = bed_state(r, p.segment);
	struct sim *before = sim_clone(r->sim);

	for (unsigned strip = 0; strip < g.width; strip++) {
		struct scan_report rep;
		struct told t;
		uint64_t at;
		unsigned disk = bed_strip(r, p.segment, p.row, strip, &at);

		harm(r, d, disk, at);
		rep = scan(r, false, &t);
		ck_assert_uint_eq(rep.strips_bad, 1);
		ck_assert_uint_eq(rep.strips_healed, 0);
		rep = scan(r, true, &t);
		ck_assert_uint_eq(rep.strips_bad, 1);
		ck_assert_uint_eq(rep.strips_healed, 1);
		ck_assert_uint_eq(rep.stripes_lost, 0);
		ck_assert_uint_eq(t.disk, disk);
		ck_assert_str_eq(t.kind, kinds[d]);
		same_disks(r, before, NOT_ONE);
		rep = scan(r, true, &t);
		ck_assert_uint_eq(rep.strips_bad, 0);
	}
	sim_free(before);
	bed_close(r);
	bed_check_losing_any(r);
	bed_free(r);
}
END_TEST

START_TEST(heals_what_a_read_finds)
{
	struct bed *r = filled(_i);
	struct place p = r->frames[0].place;
	struct sim *before = sim_clone(r->sim);
	struct member_info info[8];
	struct told t;
	uint64_t at;
	unsigned disk = bed_strip(r, p.segment, p.row, 0, &at);

	harm(r, FLIP_PAYLOAD, disk, at);
	bed_check(r);
	same_disks(r, before, NOT_ONE);
	ck_assert_uint_eq(array_members(r->a, info, 8),
	    sim_disks(r->sim));
	for (unsigned i = 0; i < sim_disks(r->sim); i++)
		ck_assert_uint_eq(info[i].errors[MERR_CHECKSUM], i == disk);
	ck_assert_uint_eq(scan(r, true, &t).strips_bad, 0);
	sim_free(before);
	bed_free(r);
}
END_TEST

START_TEST(writes_nothing_when_too_much_is_wrong)
{
	struct bed *r = filled(_i);
	struct place p = r->frames[0].place;
	struct scan_report rep;
	struct sim *before;
	struct told t;
	size_t damaged;
	uint64_t at;

	for (unsigned i = 0; i <= r->parity; i++) {
		unsigned disk = bed_strip(r, p.segment, p.row, i, &at);

		harm(r, FLIP_PAYLOAD, disk, at);
	}
	before = sim_clone(r->sim);
	rep = scan(r, true, &t);
	ck_assert_uint_eq(rep.strips_bad, r->parity + 1);
	ck_assert_uint_eq(rep.strips_healed, 0);
	ck_assert_uint_eq(rep.stripes_lost, 1);
	ck_assert_uint_eq(t.lost, 1);
	same_disks(r, before, NOT_ONE);
	/* What lies in the other rows of these strips is still read. */
	damaged = bed_count(r, ARRAY_READ_DAMAGED);
	ck_assert_uint_ge(damaged, 1);
	ck_assert_uint_lt(damaged, r->count);
	same_disks(r, before, NOT_ONE);
	sim_free(before);
	bed_free(r);
}
END_TEST

START_TEST(finds_a_stripe_again_after_one_without_headers)
{
	struct bed *r = filled(_i);
	struct place p = r->frames[0].place;
	struct seg_state g = bed_state(r, p.segment);
	struct scan_report clean, rep;
	struct told t;
	uint64_t at;

	clean = scan(r, false, &t);
	for (unsigned i = 0; i < g.width; i++) {
		unsigned disk = bed_strip(r, p.segment, p.row, i, &at);

		harm(r, FLIP_HEADER, disk, at);
	}
	rep = scan(r, true, &t);
	ck_assert_uint_eq(rep.stripes, clean.stripes);
	ck_assert_uint_eq(rep.stripes_lost, 1);
	/* The store's hash is proof enough to read it. */
	bed_check(r);
	bed_free(r);
}
END_TEST

START_TEST(tells_a_lost_write_by_its_old_identity)
{
	struct bed *r = bed_new(3, 1, RAID_ROW * UINT64_C(26000));
	struct scan_report rep;
	struct place p;
	struct sim *old;
	struct told t;
	uint64_t at, first;
	unsigned disk, rounds = 0;

	bed_append(r, SEG_DATA, RAID_FRAME_MAX);
	bed_seal(r);
	p = r->frames[0].place;
	disk = bed_strip(r, p.segment, p.row, 1, &first);
	old = sim_clone(r->sim);
	/* Go round until another segment has the same extent. */
	do {
		bed_free_segment(r, p.segment);
		bed_append(r, SEG_DATA, RAID_FRAME_MAX);
		bed_seal(r);
		p = r->frames[r->count - 1].place;
		for (unsigned i = 0; i < 3; i++)
			if (bed_strip(r, p.segment, p.row, i, &at) == disk)
				break;
	} while (at != first && ++rounds < 200);
	ck_assert_uint_eq(at, first);
	sim_stale(r->sim, disk, at, STRIP_HEADER_SIZE + RAID_STRIP_MAX, old);
	rep = scan(r, true, &t);
	ck_assert_uint_eq(rep.strips_bad, 1);
	ck_assert_uint_eq(rep.strips_healed, 1);
	ck_assert_str_eq(t.kind, "stale");
	ck_assert_uint_eq(t.disk, disk);
	bed_check(r);
	sim_free(old);
	bed_free(r);
}
END_TEST

START_TEST(locates_both_ends_of_a_misdirected_write)
{
	struct bed *r = bed_new(4, 1, BED_DISK);
	struct sim_fault f = { .kind = SIM_MISDIRECT, .ops = SIM_WRITE,
		.nth = 1, .times = 1 };
	struct scan_report rep;
	struct told t;
	uint64_t at;

	bed_append(r, SEG_DATA, RAID_FRAME_MAX);
	bed_flush(r);
	f.disk = bed_strip(r, r->frames[0].place.segment, 0, 1, &at);
	f.target = at;
	sim_arm(r->sim, &f);
	bed_append(r, SEG_DATA, RAID_FRAME_MAX);
	bed_append(r, SEG_DATA, RAID_FRAME_MAX);
	bed_flush(r);
	rep = scan(r, true, &t);
	ck_assert_uint_eq(rep.strips_bad, rep.strips_healed);
	ck_assert_uint_ge(rep.strips_bad, 1);
	ck_assert_uint_eq(rep.stripes_lost, 0);
	bed_check(r);
	ck_assert_uint_eq(scan(r, true, &t).strips_bad, 0);
	bed_free(r);
}
END_TEST

START_TEST(a_scan_without_healing_writes_nothing)
{
	struct bed *r = filled(1);
	struct place p = r->frames[0].place;
	struct sim *before;
	struct told t;
	uint64_t at;
	unsigned disk = bed_strip(r, p.segment, p.row, 0, &at);

	harm(r, ZERO_STRIP, disk, at);
	before = sim_clone(r->sim);
	ck_assert_uint_eq(scan(r, false, &t).strips_bad, 1);
	same_disks(r, before, NOT_ONE);
	sim_free(before);
	bed_free(r);
}
END_TEST

START_TEST(a_read_only_array_is_never_written)
{
	struct bed *r = filled(1);
	struct place p = r->frames[0].place;
	struct sim *before;
	struct told t;
	uint64_t at;
	unsigned disk = bed_strip(r, p.segment, p.row, 0, &at);

	bed_close(r);
	harm(r, FLIP_PAYLOAD, disk, at);
	before = sim_clone(r->sim);
	OK(bed_open(r, 0, true, E));
	bed_check(r);
	ck_assert_uint_eq(scan(r, true, &t).strips_healed, 0);
	bed_close(r);
	same_disks(r, before, NOT_ONE);
	sim_free(before);
	bed_free(r);
}
END_TEST

START_TEST(absent_members_are_no_damage)
{
	struct bed *r = filled(_i);
	unsigned away = r->parity;
	struct scan_report rep;
	struct told t;
	struct err e;

	bed_reopen(r, (UINT64_C(1) << away) - 1);
	rep = scan(r, true, &t);
	ck_assert_uint_gt(rep.strips_absent, 0);
	ck_assert_uint_eq(rep.strips_bad + rep.stripes_lost, 0);
	ck_assert_uint_eq(t.lost, 0);
	bed_close(r);
	/* One more is too many to read, and still no damage.  (Metadata has
	 * one more parity where there are members for it.) */
	if (bed_open(r, (UINT64_C(1) << (away + 1)) - 1, false, &e) == 0) {
		ck_assert_uint_eq(bed_count(r, ARRAY_READ_DAMAGED), 0);
		ck_assert_uint_gt(bed_count(r, ARRAY_READ_UNAVAILABLE), 0);
		ck_assert_uint_eq(scan(r, true, &t).stripes_lost, 0);
	}
	bed_free(r);
}
END_TEST

START_TEST(notes_when_a_segment_was_verified)
{
	struct bed *r = filled(1);
	struct segment_info info;
	struct told t;
	uint64_t id = r->frames[0].place.segment;

	OK(array_segment(r->a, id, &info, E));
	ck_assert_uint_eq(info.verified_s, 0);
	scan(r, true, &t);
	bed_reopen(r, 0);
	OK(array_segment(r->a, id, &info, E));
	ck_assert_uint_gt(info.verified_s, 0);
	bed_free(r);
}
END_TEST

START_TEST(scrubs_log_and_superblocks_too)
{
	struct bed *r = filled(1);
	struct scan_report rep = { 0 };

	sim_zero(r->sim, 1, 1 << 20, 8192);	/* the first slot */
	OK(array_scrub(r->a, true, NULL, &rep, NULL, E));
	ck_assert_uint_ge(rep.strips_bad, 1);
	ck_assert_uint_eq(rep.strips_healed, rep.strips_bad);
	memset(&rep, 0, sizeof(rep));
	OK(array_scrub(r->a, true, NULL, &rep, NULL, E));
	ck_assert_uint_eq(rep.strips_bad, 0);
	bed_free(r);
}
END_TEST

START_TEST(stops_on_request)
{
	struct bed *r = filled(1);
	struct scan_report rep = { 0 };
	struct job_ctl ctl = { .cancel = true };
	struct err e;

	ck_assert_int_eq(array_scrub(r->a, true, NULL, &rep, &ctl, &e), -1);
	ck_assert_int_eq(e.code, ERR_CANCELLED);
	bed_free(r);
}
END_TEST

START_TEST(reads_by_checksums_when_there_is_no_hash)
{
	struct bed *r = filled(_i);
	struct bed_frame *f = &r->frames[0];
	uint8_t *out = malloc(f->place.size);
	uint64_t at;
	unsigned disk = bed_strip(r, f->place.segment, 0, 0, &at);
	struct err e;

	harm(r, FLIP_PAYLOAD, disk, at);
	ck_assert_int_eq(array_read(r->a, &f->place, out, NULL, NULL, &e),
	    ARRAY_READ_OK);
	ck_assert(bed_right(f, out, f->place.size));
	free(out);
	bed_free(r);
}
END_TEST

START_TEST(refuses_places_that_cannot_be)
{
	struct bed *r = filled(2);
	struct place good = r->frames[0].place, p;
	uint8_t *out = malloc(1 << 24);
	struct err e;

	p = good;
	p.row = 0xffffff;
	ck_assert_int_eq(array_read(r->a, &p, out, NULL, NULL, &e),
	    ARRAY_READ_DAMAGED);
	p = good;
	p.offset = 0xffffff;
	ck_assert_int_eq(array_read(r->a, &p, out, NULL, NULL, &e),
	    ARRAY_READ_DAMAGED);
	p = good;
	p.size = 0xffffff;
	ck_assert_int_eq(array_read(r->a, &p, out, NULL, NULL, &e),
	    ARRAY_READ_DAMAGED);
	p = good;
	p.size = 0;
	ck_assert_int_eq(array_read(r->a, &p, out, NULL, NULL, &e),
	    ARRAY_READ_DAMAGED);
	p = good;
	p.last = 0;
	ck_assert_int_eq(array_read(r->a, &p, out, NULL, NULL, &e),
	    ARRAY_READ_DAMAGED);
	p = good;
	p.segment = 12345;
	ck_assert_int_eq(array_read(r->a, &p, out, NULL, NULL, &e),
	    ARRAY_READ_FREED);
	free(out);
	bed_free(r);
}
END_TEST

Suite *raid_scan_suite(void);
Suite *raid_scan_suite(void)
{
	Suite *s = suite_create("scan");
	TCase *t = tcase_create("damage");

	tcase_add_loop_test(t, a_clean_array_scans_clean, 0, BED_SHAPES);
	tcase_add_loop_test(t, locates_and_heals_each_kind_on_each_strip, 0,
	    DAMAGES * BED_SHAPES);
	tcase_add_loop_test(t, heals_what_a_read_finds, 0, BED_SHAPES);
	tcase_add_loop_test(t, writes_nothing_when_too_much_is_wrong, 0,
	    BED_SHAPES);
	tcase_add_loop_test(t, finds_a_stripe_again_after_one_without_headers,
	    0, BED_SHAPES);
	tcase_add_test(t, tells_a_lost_write_by_its_old_identity);
	tcase_add_test(t, locates_both_ends_of_a_misdirected_write);
	tcase_add_test(t, a_scan_without_healing_writes_nothing);
	tcase_add_test(t, a_read_only_array_is_never_written);
	tcase_add_loop_test(t, absent_members_are_no_damage, 0, BED_SHAPES);
	tcase_add_test(t, notes_when_a_segment_was_verified);
	tcase_add_test(t, scrubs_log_and_superblocks_too);
	tcase_add_test(t, stops_on_request);
	tcase_add_loop_test(t, reads_by_checksums_when_there_is_no_hash, 0,
	    BED_SHAPES);
	tcase_add_test(t, refuses_places_that_cannot_be);
	suite_add_tcase(s, t);
	return s;
}
