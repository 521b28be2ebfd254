/*
 * What a start may meet: the power gone with members gone too, members that
 * come back old, half rebuilt, copied, renamed or not at all ours, histories
 * that parted, superblocks that are torn.  Each is either right at once, with
 * every flushed byte and then without any p members, or refused with a
 * sentence, nothing written.  Method: arrays of all geometries on simulated
 * disks (tests/raid/bed.h), whose contents are moved about between starts.
 */
#include "raid/fmt_super.h"
#include "tests/raid/bed.h"

#include "base/warn.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

/* Of bed_shapes, all but (4,1). */
#define SHAPES 5
static int shape(int i)
{
	return i < 2 ? i : i + 1;
}

static uint64_t first_disks(unsigned n)
{
	return (UINT64_C(1) << n) - 1;
}

/* The disk reads as disk `from` of `old`; both of the same size. */
static void disk_copy(struct sim *s, unsigned disk, struct sim *old,
    unsigned from)
{
	static uint8_t a[1 << 20], b[1 << 20];

	for (uint64_t at = 0; at < sim_size(s, disk); at += sizeof(a)) {
		sim_peek(old, from, at, a, sizeof(a));
		sim_peek(s, disk, at, b, sizeof(b));
		if (memcmp(a, b, sizeof(a)) != 0)
			sim_poke(s, disk, at, a, sizeof(a));
	}
}

/* Append the frames of this segment anew and free it, as a collection does. */
static void rewrite(struct bed *r, uint64_t id)
{
	for (size_t i = 0; i < r->count; i++) {
		struct bed_frame *f = &r->frames[i];
		uint8_t *data;
		struct err e;

		if (f->place.segment != id || f->freed)
			continue;
		data = malloc(f->place.size);
		ck_assert_int_eq(array_read(r->a, &f->place, data, bed_right,
		    f, &e), ARRAY_READ_OK);
		OK(array_append(r->a, SEG_DATA, data, f->place.size, 512,
		    &f->place, E));
		f->flushed = false;
		free(data);
	}
	bed_flush(r);
	bed_free_segment(r, id);
}

/* What was written with too few members there is shown, and written anew once
 * they are back. */
static void rewrite_reduced(struct bed *r)
{
	struct segment_info s;
	struct array_info info;
	uint64_t id = 0;

	array_info(r->a, &info);
	for (; info.reduced && array_segments(r->a, id, &id, 1) == 1;) {
		OK(array_segment(r->a, id, &s, E));
		if (s.wants_rewrite)
			rewrite(r, id);
	}
	array_info(r->a, &info);
	ck_assert(!info.reduced);
}

/* Every set of p members away with BK_LONG; else the first, and the last. */
static void check_losing(struct bed *r)
{
	uint64_t set = first_disks(r->parity);

	if (getenv("BK_LONG")) {
		bed_check_losing_any(r);
		return;
	}
	for (int i = 0; i < 2; i++) {
		struct bed *c = bed_clone(r);

		OK(bed_open(c, set, false, E));
		bed_check(c);
		bed_free(c);
		set <<= sim_disks(r->sim) - r->parity;
	}
}

/* Mended, clean, and right without any p members. */
static void check_all(struct bed *r)
{
	struct scan_report report;

	bed_check(r);
	bed_mend(r);
	rewrite_reduced(r);
	report = bed_scan(r, false, NULL);
	ck_assert_uint_eq(report.strips_bad, 0);
	ck_assert_uint_eq(report.strips_absent, 0);
	ck_assert_uint_eq(report.stripes_lost, 0);
	bed_close(r);
	check_losing(r);
}

static void crash_keeping_strips(struct bed *r)
{
	size_t kept = 0;

	sim_power_off(r->sim);
	array_abandon(r->a);
	r->a = NULL;
	sim_power_cut_all_kept(r->sim);
	for (size_t i = 0; i < r->count; i++)
		if (r->frames[i].flushed)
			r->frames[kept++] = r->frames[i];
	r->count = kept;
}

/* Refused with this code, and a sentence that has these words. */
static struct err must_refuse(struct bed *r, enum err_code code,
    const char *words)
{
	struct sim *before = sim_clone(r->sim);
	uint64_t offset = 0;
	unsigned disk = 0;
	struct err e;

	ck_assert_int_eq(bed_open(r, 0, false, &e), -1);
	ck_assert_msg(e.code == code, "%s", e.text);
	ck_assert_msg(strstr(e.text, words) != NULL, "%s", e.text);
	ck_assert_msg(sim_same_all(before, r->sim, &disk, &offset),
	    "disk %u was written at %llu", disk, (unsigned long long)offset);
	sim_free(before);
	return e;
}

static struct warn_sink warnings;
static char warned[1024];

static void hear(void *arg, const uint8_t *path, size_t size,
    const char *text)
{
	size_t n = strlen(warned);

	(void)arg;
	snprintf(warned + n, sizeof(warned) - n, "%.*s: %s\n", (int)size,
	    (const char *)path, text);
}

static int open_devs(struct bed *r, struct dev **devs, size_t count,
    struct warn_sink *warn, struct err *e)
{
	struct array_open o = { .devs = devs, .dev_count = count,
		.call_ms = 2000, .warn = warn, .dev_open = sim_dev_open,
		.dev_arg = r->sim };

	return array_open(&r->a, &o, e);
}

/* All disks, with what is said in `warned`. */
static int open_all(struct bed *r, struct err *e)
{
	struct warn_sink *warn = &warnings;
	struct dev **devs;
	size_t count;
	int rc;

	warned[0] = '\0';
	warn_init(warn, hear, NULL);
	devs = sim_devs(r->sim, 0, &count);
	rc = open_devs(r, devs, count, warn, e);
	free(devs);
	return rc;
}

/* ---- dirty, degraded, stale ------------------------------------------- */

START_TEST(a_power_cut_and_lost_disks_at_once_need_no_force)
{
	struct bed *r = bed_new_shape(shape(_i));
	uint64_t away = first_disks(r->parity);

	bed_fill(r, 2, 8, 200000);
	/* More stripes that are on the disks and in no record. */
	bed_append(r, SEG_DATA, RAID_FRAME_MAX);
	bed_append(r, SEG_META, 90000);
	crash_keeping_strips(r);
	OK(bed_open(r, away, false, E));
	bed_check(r);
	bed_fill(r, 1, 4, 100000);
	/* And once more, before anything was mended. */
	bed_append(r, SEG_DATA, RAID_FRAME_MAX);
	crash_keeping_strips(r);
	OK(bed_open(r, away, false, E));
	bed_check(r);
	bed_fill(r, 1, 2, 100000);
	bed_reopen(r, 0);
	check_all(r);
	bed_free(r);
}
END_TEST

START_TEST(a_stale_member_that_returns_is_not_believed)
{
	struct bed *r = bed_new_shape(shape(_i));
	uint64_t away = first_disks(r->parity) << 1;
	struct scan_report report;

	bed_fill(r, 2, 8, 200000);
	bed_seal(r);
	bed_reopen(r, away);
	bed_fill(r, 2, 8, 200000);
	/* Segments that the stale ones know are freed, their extents used. */
	for (int k = 0; k < 2; k++) {
		uint64_t id = 0;

		ck_assert_uint_eq(array_segments(r->a, 0, &id, 1), 1);
		bed_free_segment(r, id);
	}
	bed_fill(r, 1, 8, 200000);
	bed_reopen(r, away);		/* a reboot between */
	bed_fill(r, 1, 3, 100000);
	bed_reopen(r, 0);
	bed_check(r);
	report = bed_scan(r, false, NULL);
	ck_assert_uint_eq(report.strips_bad, 0);
	check_all(r);
	bed_free(r);
}
END_TEST

/* A replacement that got half of the strips goes away, the others write on,
 * it comes back together with the old one. */
START_TEST(a_half_rebuilt_member_does_not_count_as_in_sync)
{
	struct bed *r = bed_new_shape(shape(_i));
	unsigned n = sim_disks(r->sim), new = sim_add(r->sim, BED_DISK);
	struct scan_report report = { 0 };
	struct err e;

	for (int k = 0; k < 4; k++) {
		bed_fill(r, 1, 8, 200000);
		bed_seal(r);
	}
	OK(array_replace_begin(r->a, "sim:0", sim_dev(r->sim, new), NULL, E));
	sim_crash_at(r->sim, 8 * n);
	ck_assert_int_eq(array_mend(r->a, &report, NULL, &e), -1);
	ck_assert(sim_crashed(r->sim));
	array_abandon(r->a);
	r->a = NULL;
	sim_power_cut_all_lost(r->sim);

	OK(bed_open(r, UINT64_C(1) << new, false, E));
	bed_check(r);
	bed_fill(r, 2, 6, 100000);
	bed_reopen(r, 0);
	bed_check(r);
	check_all(r);
	bed_free(r);
}
END_TEST

/* ---- split brain ------------------------------------------------------ */

static void write_fact(struct bed *r, const char *key)
{
	struct flush_result result;
	struct array_cut *c;

	OK(array_cut_begin(r->a, &c, E));
	OK(array_cut_kv(c, key, strlen(key), "v", 1, E));
	array_cut_end(c);
	OK(array_flush(r->a, c, &result, E));
}

static bool has_fact(struct bed *r, const char *key)
{
	uint8_t *value = NULL;
	size_t size;
	struct err e;
	int rc = array_kv_get(r->a, key, strlen(key), &value, &size, &e);

	free(value);
	return rc == 0;
}

START_TEST(halves_that_wrote_apart_are_refused_showing_both)
{
	struct bed *a = bed_new_shape(shape(_i)), *b;
	unsigned n = sim_disks(a->sim), half = (n + 1) / 2;
	uint64_t low = first_disks(half), high = first_disks(n) & ~low;
	const char *second;
	struct err e, again;

	bed_fill(a, 1, 4, 100000);
	bed_close(a);
	b = bed_clone(a);
	OK(bed_open(a, high, false, E));
	write_fact(a, "written by the low half");
	bed_close(a);
	OK(bed_open(b, low, false, E));
	write_fact(b, "written by the high half");
	write_fact(b, "and once more");
	bed_close(b);
	for (unsigned i = half; i < n; i++)
		disk_copy(a->sim, i, b->sim, i);

	e = must_refuse(a, ERR_CONFLICT, "diverged");
	ck_assert_ptr_nonnull(strstr(e.text, "sim:0"));
	second = strstr(e.text, ") and (");
	ck_assert_ptr_nonnull(second);
	ck_assert_ptr_nonnull(strstr(e.text, "event "));
	ck_assert_ptr_nonnull(strstr(second, "event "));
	ck_assert_ptr_nonnull(strstr(e.text, "sim:"));
	ck_assert_ptr_nonnull(strstr(second, "sim:"));
	ck_assert_ptr_nonnull(strstr(e.text, "nothing was written"));
	ck_assert_ptr_nonnull(strstr(e.text, "start with its members alone"));
	again = must_refuse(a, ERR_CONFLICT, "diverged");
	ck_assert_str_eq(e.text, again.text);

	/* The choice: one side alone is as it was. */
	OK(bed_open(a, high, false, E));
	ck_assert(has_fact(a, "written by the low half"));
	ck_assert(!has_fact(a, "written by the high half"));
	bed_free(a);
	bed_free(b);
}
END_TEST

/* The same by copies: each side had members that the other had too, so each
 * finds one that lacks what it confirmed. */
START_TEST(sides_with_copies_of_one_member_are_refused_too)
{
	struct bed *a = bed_new_shape(shape(_i)), *b;
	unsigned n = sim_disks(a->sim);
	struct err e;

	bed_fill(a, 1, 2, 100000);
	bed_close(a);
	b = bed_clone(a);
	OK(bed_open(a, UINT64_C(1) << (n - 1), false, E));
	for (int i = 0; i < 3; i++)
		write_fact(a, "left");
	bed_close(a);
	OK(bed_open(b, 1, false, E));
	for (int i = 0; i < 5; i++)
		write_fact(b, "right");
	bed_close(b);
	for (unsigned i = (n + 1) / 2; i < n; i++)
		disk_copy(a->sim, i, b->sim, i);
	e = must_refuse(a, ERR_CONFLICT, "diverged");
	ck_assert_ptr_nonnull(strstr(e.text, ") and ("));
	bed_free(a);
	bed_free(b);
}
END_TEST

START_TEST(the_side_that_lost_is_taken_in_anew)
{
	struct bed *a = bed_new(2, 1, BED_DISK), *b;
	uint8_t slot[SUPER_SIZE];
	char uuid[2 * RAID_UUID_SIZE + 1];
	struct err e;

	bed_fill(a, 1, 4, 100000);
	bed_close(a);
	b = bed_clone(a);
	OK(bed_open(a, 2, false, E));
	write_fact(a, "low");
	bed_close(a);
	OK(bed_open(b, 1, false, E));
	write_fact(b, "high");
	bed_close(b);
	disk_copy(a->sim, 1, b->sim, 1);
	must_refuse(a, ERR_CONFLICT, "diverged");

	OK(bed_open(a, 2, false, E));
	sim_peek(a->sim, 0, MIB, slot, sizeof(slot));
	for (size_t i = 0; i < RAID_UUID_SIZE; i++)
		snprintf(uuid + 2 * i, 3, "%02x", slot[SUPER_ARRAY_AT + i]);
	for (size_t i = 0; i < 2; i++) {
		struct member_info m[4];
		char member[33];

		ck_assert_uint_eq(array_members(a->a, m, 4), 2);
		for (size_t k = 0; k < RAID_UUID_SIZE; k++)
			snprintf(member + 2 * k, 3, "%02x", m[1].uuid[k]);
		if (i == 0) {
			ck_assert_int_eq(array_replace_begin(a->a, member,
			    sim_dev(a->sim, 1), NULL, &e), -1);
			ck_assert_int_eq(e.code, ERR_EXISTS);
			ck_assert_ptr_nonnull(strstr(e.text, uuid));
		} else {
			OK(array_replace_begin(a->a, member,
			    sim_dev(a->sim, 1), uuid, E));
		}
	}
	bed_mend(a);
	bed_reopen(a, 0);
	ck_assert(has_fact(a, "low"));
	ck_assert(!has_fact(a, "high"));
	check_all(a);
	bed_free(a);
	bed_free(b);
}
END_TEST

/* ---- copies, names, order --------------------------------------------- */

/* _i: shape.  The copy was made before more was written. */
START_TEST(a_member_and_its_copy_are_refused_naming_both)
{
	struct bed *r = bed_new_shape(shape(_i));
	unsigned n = sim_disks(r->sim), copy;
	struct sim *old;
	char name[16];
	struct err e;

	bed_fill(r, 1, 6, 100000);
	bed_close(r);
	old = sim_clone(r->sim);
	OK(bed_open(r, 0, false, E));
	bed_fill(r, 1, 6, 100000);
	bed_close(r);
	copy = sim_add(r->sim, BED_DISK);
	disk_copy(r->sim, copy, old, n - 1);

	e = must_refuse(r, ERR_CONFLICT, "same member");
	snprintf(name, sizeof(name), "sim:%u ", n - 1);
	ck_assert_msg(strstr(e.text, name) != NULL, "%s", e.text);
	snprintf(name, sizeof(name), "sim:%u ", copy);
	ck_assert_msg(strstr(e.text, name) != NULL, "%s", e.text);

	/* The old copy in place of the member: what it lacks is found. */
	sim_zero(r->sim, n - 1, 0, BED_DISK);
	OK(open_all(r, E));
	ck_assert_msg(strstr(warned, "an old copy") != NULL, "%s", warned);
	bed_check(r);
	bed_scan(r, true, NULL);
	check_all(r);
	sim_free(old);
	bed_free(r);
}
END_TEST

static struct dev *named(struct sim *s, unsigned disk, const char *name)
{
	struct dev *d = sim_dev(s, disk);

	free(d->name);
	d->name = strdup(name);
	return d;
}

START_TEST(names_and_order_do_not_matter)
{
	struct bed *r = bed_new_shape(shape(_i));
	unsigned n = sim_disks(r->sim);
	struct member_info m[RAID_MEMBERS_MAX];
	struct dev *devs[RAID_MEMBERS_MAX];
	uint8_t uuid[RAID_MEMBERS_MAX][RAID_UUID_SIZE];
	char name[16];

	bed_fill(r, 2, 6, 100000);
	ck_assert_uint_eq(array_members(r->a, m, RAID_MEMBERS_MAX), n);
	for (unsigned i = 0; i < n; i++)
		memcpy(uuid[i], m[i].uuid, RAID_UUID_SIZE);
	bed_close(r);
	/* Each has the name that the one opposite had, and comes in turn. */
	for (unsigned i = 0; i < n; i++) {
		unsigned disk = (i + 1) % n;

		snprintf(name, sizeof(name), "sim:%u", n - 1 - disk);
		devs[i] = named(r->sim, disk, name);
	}
	OK(open_devs(r, devs, n, NULL, E));
	ck_assert_uint_eq(array_members(r->a, m, RAID_MEMBERS_MAX), n);
	for (unsigned i = 0; i < n; i++) {
		ck_assert_int_eq(m[i].state, MEMBER_ACTIVE);
		ck_assert_mem_eq(m[i].uuid, uuid[i], RAID_UUID_SIZE);
		snprintf(name, sizeof(name), "sim:%u", n - 1 - i);
		ck_assert_str_eq(m[i].path, name);
	}
	bed_fill(r, 1, 4, 100000);
	bed_reopen(r, 0);
	check_all(r);
	bed_free(r);
}
END_TEST

/* At the old path of a member lies something else now. */
START_TEST(a_foreign_disk_under_a_members_name_is_never_written)
{
	struct bed *r = bed_new_shape(shape(_i));
	unsigned n = sim_disks(r->sim);
	struct dev *devs[RAID_MEMBERS_MAX];
	struct warn_sink warn;
	struct sim *foreign = sim_new(1, BED_DISK), *before;

	bed_fill(r, 1, 6, 100000);
	bed_close(r);
	sim_garbage(foreign, 0, 0, 8 * MIB, 77);
	sim_garbage(foreign, 0, BED_DISK / 2, MIB, 78);
	before = sim_clone(foreign);
	warn_init(&warn, hear, NULL);
	for (unsigned i = 0; i < n; i++)
		devs[i] = i == 1 ? named(foreign, 0, "sim:1") :
		    sim_dev(r->sim, i);
	OK(open_devs(r, devs, n, &warn, E));
	ck_assert_msg(strstr(warned, "sim:1: left out") != NULL, "%s",
	    warned);
	bed_check(r);
	bed_fill(r, 2, 6, 100000);
	bed_mend(r);
	bed_close(r);
	ck_assert(sim_same_all(foreign, before, NULL, NULL));
	warn_release(&warn);
	sim_free(foreign);
	sim_free(before);
	bed_free(r);
}
END_TEST

/* ---- damaged superblocks ---------------------------------------------- */

static unsigned good_slots(struct sim *s, unsigned disk)
{
	uint8_t raw[SUPER_SIZE];
	struct super super;
	unsigned n = 0;
	struct err e;

	for (unsigned i = 0; i < MEMBER_SLOTS; i++) {
		sim_peek(s, disk, member_slot_offset(BED_DISK, i), raw,
		    sizeof(raw));
		n += super_get(&super, raw, sizeof(raw), &e) == 0 &&
		    super.slot == i;
	}
	return n;
}

START_TEST(the_first_and_the_last_mib_may_be_overwritten)
{
	struct bed *r = bed_new_shape(shape(_i));

	bed_fill(r, 1, 6, 100000);
	bed_close(r);
	for (unsigned i = 0; i < sim_disks(r->sim); i++) {
		sim_garbage(r->sim, i, 0, MIB, 7);
		sim_zero(r->sim, i, BED_DISK - MIB, MIB);
		ck_assert_uint_eq(good_slots(r->sim, i), MEMBER_SLOTS);
	}
	OK(bed_open(r, 0, false, E));
	check_all(r);
	bed_free(r);
}
END_TEST

/* _i: shape and the slot that is left, on each disk another. */
START_TEST(one_slot_of_four_is_enough_and_the_others_are_written_anew)
{
	struct bed *r = bed_new_shape(shape(_i / MEMBER_SLOTS));
	unsigned n = sim_disks(r->sim);

	bed_fill(r, 1, 6, 100000);
	bed_close(r);
	for (unsigned i = 0; i < n; i++)
		for (unsigned k = 0; k < MEMBER_SLOTS; k++)
			if (k != (i + (unsigned)_i) % MEMBER_SLOTS)
				sim_garbage(r->sim, i, member_slot_offset(
				    BED_DISK, k) + 4096, 512, k);
	OK(bed_open(r, 0, false, E));
	bed_check(r);
	bed_close(r);
	for (unsigned i = 0; i < n; i++)
		ck_assert_uint_eq(good_slots(r->sim, i), MEMBER_SLOTS);
	bed_free(r);
}
END_TEST

START_TEST(a_member_without_any_slot_is_told_and_left_alone)
{
	struct bed *r = bed_new_shape(shape(_i));
	struct sim *before;
	uint64_t offset;

	bed_fill(r, 1, 6, 100000);
	bed_close(r);
	for (unsigned k = 0; k < MEMBER_SLOTS; k++)
		sim_flip(r->sim, 0, member_slot_offset(BED_DISK, k) + 300, 1);
	before = sim_clone(r->sim);
	OK(open_all(r, E));
	ck_assert_msg(strstr(warned, "sim:0: left out") != NULL, "%s",
	    warned);
	ck_assert_ptr_nonnull(strstr(warned, "checksum"));
	bed_check(r);
	bed_fill(r, 1, 3, 100000);
	bed_close(r);
	ck_assert(sim_same(r->sim, 0, before, 0, &offset));
	sim_free(before);
	bed_free(r);
}
END_TEST

Suite *raid_assembly_suite(void);
Suite *raid_assembly_suite(void)
{
	Suite *s = suite_create("raid/assembly");
	TCase *t = tcase_create("starts");

	tcase_add_loop_test(t,
	    a_power_cut_and_lost_disks_at_once_need_no_force, 0, SHAPES);
	tcase_add_loop_test(t, a_stale_member_that_returns_is_not_believed, 0,
	    SHAPES);
	tcase_add_loop_test(t,
	    a_half_rebuilt_member_does_not_count_as_in_sync, 0, SHAPES);
	tcase_add_loop_test(t,
	    halves_that_wrote_apart_are_refused_showing_both, 0, SHAPES);
	tcase_add_loop_test(t,
	    sides_with_copies_of_one_member_are_refused_too, 0, SHAPES);
	tcase_add_test(t, the_side_that_lost_is_taken_in_anew);
	tcase_add_loop_test(t, a_member_and_its_copy_are_refused_naming_both,
	    0, SHAPES);
	tcase_add_loop_test(t, names_and_order_do_not_matter, 0, SHAPES);
	tcase_add_loop_test(t, the_first_and_the_last_mib_may_be_overwritten,
	    0, SHAPES);
	tcase_add_loop_test(t,
	    one_slot_of_four_is_enough_and_the_others_are_written_anew, 0,
	    SHAPES * MEMBER_SLOTS);
	tcase_add_loop_test(t, a_member_without_any_slot_is_told_and_left_alone,
	    0, SHAPES);
	tcase_add_loop_test(t,
	    a_foreign_disk_under_a_members_name_is_never_written, 0, SHAPES);
	suite_add_tcase(s, t);
	return s;
}
