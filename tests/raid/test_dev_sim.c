/*
 * The simulated disks and the crash driver: what other tests rely on.  A write
 * is safe only once flushed; a power cut keeps exactly the parts asked for;
 * each fault does what its name says; clones and records are independent; a
 * seed repeats an interleaving; the driver shows every subset, and finds the
 * missing flush of a toy journal.
 * Method: small disks, pages filled with one byte, compared one by one.
 */
#include "tests/support/crash.h"
#include "tests/support/dev_sim.h"
#include "tests/support/sim_pages.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE SIM_PAGE
#define DISK (4u << 20)

Suite *raid_dev_sim_suite(void);

static _Alignas(PAGE) uint8_t page_a[PAGE], page_b[PAGE], page_c[PAGE];

static void pages_fill(void)
{
	memset(page_a, 'a', PAGE);
	memset(page_b, 'b', PAGE);
	memset(page_c, 'c', PAGE);
}

static void put(struct dev *d, uint64_t offset, const void *page)
{
	struct err e = { 0 };

	ck_assert_msg(d->ops->write(d, page, PAGE, offset, &e) == 0, "%s",
	    e.text);
}

static void flush(struct dev *d)
{
	struct err e = { 0 };

	ck_assert_msg(d->ops->flush(d, &e) == 0, "%s", e.text);
}

/* The first byte of the page at `offset`, through a new device. */
static int at(struct sim *s, unsigned disk, uint64_t offset)
{
	uint8_t byte;

	sim_peek(s, disk, offset, &byte, 1);
	return byte;
}

START_TEST(reads_see_writes_at_once)
{
	_Alignas(PAGE) static uint8_t in[2 * PAGE];
	struct sim *s = sim_new(2, DISK);
	struct dev *d = sim_dev(s, 1);
	struct err e;

	put(d, PAGE, page_a);
	ck_assert_int_eq(d->ops->read(d, in, 2 * PAGE, 0, true, &e), 0);
	ck_assert_uint_eq(in[0], 0);
	ck_assert_mem_eq(in + PAGE, page_a, PAGE);
	ck_assert_int_eq(at(s, 0, PAGE), 0);
	ck_assert_int_eq(d->ops->read(d, in, PAGE, DISK, false, &e), -1);
	d->ops->close(d);
	sim_free(s);
}
END_TEST

START_TEST(a_power_cut_loses_what_was_not_flushed)
{
	struct sim *s = sim_new(1, DISK);
	struct dev *d = sim_dev(s, 0);
	struct err e;

	put(d, 0, page_a);
	flush(d);
	put(d, 0, page_b);
	put(d, PAGE, page_b);
	ck_assert_uint_eq(sim_pending(s, 0), 2);
	sim_power_cut_all_lost(s);
	ck_assert_int_eq(at(s, 0, 0), 'a');
	ck_assert_int_eq(at(s, 0, PAGE), 0);
	ck_assert_uint_eq(sim_pending(s, 0), 0);
	ck_assert_int_eq(d->ops->write(d, page_c, PAGE, 0, &e), -1);
	ck_assert_int_eq(at(s, 0, 0), 'a');
	d->ops->close(d);
	sim_free(s);
}
END_TEST

START_TEST(a_power_cut_keeps_any_subset_in_any_order)
{
	static const struct sim_kept second_first[] = {
		{ .disk = 0, .write = 1 }, { .disk = 0, .write = 0 },
	};
	struct sim *s = sim_new(2, DISK), *c;
	struct dev *d = sim_dev(s, 0), *d1 = sim_dev(s, 1);

	put(d, 0, page_a);
	put(d, 0, page_b);
	put(d1, 0, page_c);
	c = sim_clone(s);
	sim_power_cut(c, second_first, 2);
	ck_assert_int_eq(at(c, 0, 0), 'a');
	ck_assert_int_eq(at(c, 1, 0), 0);
	sim_free(c);
	sim_power_cut_all_kept(s);
	ck_assert_int_eq(at(s, 0, 0), 'b');
	ck_assert_int_eq(at(s, 1, 0), 'c');
	d->ops->close(d);
	d1->ops->close(d1);
	sim_free(s);
}
END_TEST

START_TEST(a_torn_write_keeps_the_sectors_asked_for)
{
	static const struct sim_kept torn = { .first = 3, .count = 2 };
	struct sim *s = sim_new(1, DISK);
	struct dev *d = sim_dev(s, 0);

	put(d, 0, page_a);
	sim_power_cut(s, &torn, 1);
	for (unsigned i = 0; i < PAGE / SIM_SECTOR; i++)
		ck_assert_int_eq(at(s, 0, i * SIM_SECTOR),
		    i == 3 || i == 4 ? 'a' : 0);
	d->ops->close(d);
	sim_free(s);
}
END_TEST

START_TEST(the_crash_point_ends_everything)
{
	struct sim *s = sim_new(2, DISK);
	struct dev *d = sim_dev(s, 0), *d1 = sim_dev(s, 1);
	struct err e;

	sim_crash_at(s, 3);
	put(d, 0, page_a);
	flush(d);
	ck_assert(!sim_crashed(s));
	ck_assert_int_eq(d->ops->write(d, page_b, PAGE, 0, &e), -1);
	ck_assert(sim_crashed(s));
	ck_assert_int_eq(d1->ops->flush(d1, &e), -1);
	ck_assert_uint_eq(sim_pending(s, 0), 1);
	sim_power_cut_all_kept(s);
	ck_assert_int_eq(at(s, 0, 0), 'b');
	d->ops->close(d);
	d1->ops->close(d1);
	sim_free(s);
}
END_TEST

START_TEST(records_hold_each_moment_and_its_note)
{
	struct sim *s = sim_new(1, DISK), *r;
	struct dev *d = sim_dev(s, 0);

	sim_record(s);
	put(d, 0, page_a);
	flush(d);
	sim_note(s, 7);
	put(d, 0, page_b);
	sim_record_end(s);
	ck_assert_uint_eq(sim_records(s), 4);
	r = sim_recorded(s, 1);			/* before the flush */
	ck_assert_uint_eq(sim_noted(r), 0);
	sim_power_cut_all_lost(r);
	ck_assert_int_eq(at(r, 0, 0), 0);
	sim_free(r);
	r = sim_recorded(s, 2);
	ck_assert_uint_eq(sim_noted(r), 7);
	ck_assert_int_eq(at(r, 0, 0), 'b');
	sim_power_cut_all_lost(r);
	ck_assert_int_eq(at(r, 0, 0), 'a');
	sim_free(r);
	d->ops->close(d);
	sim_free(s);
}
END_TEST

START_TEST(a_clone_goes_its_own_way)
{
	struct sim *s = sim_new(2, DISK), *c;
	struct dev *d = sim_dev(s, 1), *dc;
	uint64_t offset = 0;
	unsigned disk = 0;

	put(d, 8 * PAGE, page_a);
	c = sim_clone(s);
	ck_assert(sim_same_all(s, c, &disk, &offset));
	dc = sim_dev(c, 1);
	put(dc, 8 * PAGE, page_b);
	ck_assert_int_eq(at(s, 1, 8 * PAGE), 'a');
	ck_assert(!sim_same_all(s, c, &disk, &offset));
	ck_assert_uint_eq(disk, 1);
	ck_assert_uint_eq(offset, 8 * PAGE);
	d->ops->close(d);
	sim_free(s);
	ck_assert_int_eq(at(c, 1, 8 * PAGE), 'b');
	dc->ops->close(dc);
	sim_free(c);
}
END_TEST

START_TEST(the_nth_call_fails_and_no_other)
{
	static const struct sim_fault f = {
		.kind = SIM_ERROR, .ops = SIM_WRITE, .nth = 2, .times = 1,
	};
	struct sim *s = sim_new(1, DISK);
	struct dev *d = sim_dev(s, 0);
	unsigned n = sim_arm(s, &f);
	struct err e;

	put(d, 0, page_a);
	flush(d);
	ck_assert_int_eq(d->ops->write(d, page_b, PAGE, 0, &e), -1);
	ck_assert_int_eq(e.code, ERR_IO);
	put(d, PAGE, page_b);
	ck_assert_uint_eq(sim_fired(s, n), 1);
	ck_assert_int_eq(at(s, 0, 0), 'a');
	d->ops->close(d);
	sim_free(s);
}
END_TEST

/* What a write of 'b' over 'a' at page 1 leaves at pages 1 and 5. */
static const struct lie {
	enum sim_fault_kind kind;
	int at_1, at_1_end, at_5;
} lies[] = {
	{ SIM_LOST, 'a', 'a', 0 },
	{ SIM_MISDIRECT, 'a', 'a', 'b' },
	{ SIM_TORN, 'b', 'a', 0 },
	{ SIM_SLOW, 'b', 'b', 0 },
};

START_TEST(a_lying_write_says_success)	/* loop test: _i is the lie */
{
	const struct lie *l = &lies[_i];
	struct sim_fault f = {
		.kind = l->kind, .ops = SIM_WRITE, .target = 5 * PAGE,
		.offset = PAGE, .size = PAGE, .ms = 2,
	};
	struct sim *s = sim_new(1, DISK);
	struct dev *d = sim_dev(s, 0);
	unsigned n;

	put(d, PAGE, page_a);
	n = sim_arm(s, &f);
	put(d, 2 * PAGE, page_c);		/* out of its range */
	put(d, PAGE, page_b);
	flush(d);
	ck_assert_uint_eq(sim_fired(s, n), 1);
	sim_power_cut_all_lost(s);
	ck_assert_int_eq(at(s, 0, PAGE), l->at_1);
	ck_assert_int_eq(at(s, 0, 2 * PAGE - 1), l->at_1_end);
	ck_assert_int_eq(at(s, 0, 5 * PAGE), l->at_5);
	d->ops->close(d);
	sim_free(s);
}
END_TEST

START_TEST(a_flipped_bit_is_one_bit)
{
	static const struct sim_fault f = {
		.kind = SIM_FLIPPED, .ops = SIM_READ, .times = 1,
		.offset = 17, .size = 1,
	};
	_Alignas(PAGE) static uint8_t in[PAGE];
	struct sim *s = sim_new(1, DISK);
	struct dev *d = sim_dev(s, 0);
	struct err e;

	put(d, 0, page_a);
	sim_arm(s, &f);
	ck_assert_int_eq(d->ops->read(d, in, PAGE, 0, true, &e), 0);
	ck_assert_uint_eq(in[17], 'a' ^ 0x10);
	in[17] = 'a';
	ck_assert_mem_eq(in, page_a, PAGE);
	d->ops->close(d);
	sim_free(s);
}
END_TEST

START_TEST(a_flush_may_lie_or_lose)
{
	struct sim_fault f = { .kind = SIM_FLUSH_LIE, .ops = SIM_FLUSH };
	struct sim *s = sim_new(1, DISK);
	struct dev *d = sim_dev(s, 0);
	struct err e;

	sim_arm(s, &f);
	put(d, 0, page_a);
	flush(d);
	ck_assert_uint_eq(sim_pending(s, 0), 1);
	sim_disarm(s);
	f.kind = SIM_FLUSH_LOSE;
	f.times = 1;
	sim_arm(s, &f);
	ck_assert_int_eq(d->ops->flush(d, &e), -1);
	flush(d);
	ck_assert_int_eq(at(s, 0, 0), 0);
	d->ops->close(d);
	sim_free(s);
}
END_TEST

START_TEST(bad_sectors_fail_until_written)
{
	_Alignas(PAGE) static uint8_t in[2 * PAGE];
	struct sim *s = sim_new(1, DISK);
	struct dev *d = sim_dev(s, 0);
	struct err e;

	put(d, 0, page_a);
	sim_unreadable(s, 0, 100, 1);
	ck_assert_int_eq(d->ops->read(d, in, 2 * PAGE, 0, false, &e), -1);
	ck_assert_int_eq(d->ops->read(d, in, PAGE, PAGE, false, &e), 0);
	put(d, 0, page_b);
	ck_assert_int_eq(d->ops->read(d, in, 2 * PAGE, 0, false, &e), 0);
	ck_assert_uint_eq(in[0], 'b');
	d->ops->close(d);
	sim_free(s);
}
END_TEST

START_TEST(a_dropped_disk_forgets_its_cache_and_returns)
{
	struct sim *s = sim_new(1, DISK);
	struct dev *d = sim_dev(s, 0), *again;
	struct err e;

	put(d, 0, page_a);
	flush(d);
	put(d, 0, page_b);
	sim_drop(s, 0);
	ck_assert_int_eq(d->ops->look(d), DEV_GONE);
	ck_assert_int_eq(d->ops->flush(d, &e), -1);
	ck_assert_int_eq(sim_dev_open(&again, "sim:0", s, &e), -1);
	sim_return(s, 0);
	ck_assert_int_eq(d->ops->look(d), DEV_SAME);
	ck_assert_int_eq(at(s, 0, 0), 'a');
	ck_assert_int_eq(sim_dev_open(&again, "sim:0", s, &e), 0);
	again->ops->close(again);
	ck_assert_int_eq(sim_dev_open(&again, "sim:1", s, &e), -1);
	d->ops->close(d);
	sim_free(s);
}
END_TEST

START_TEST(damage_hits_what_it_names)
{
	struct sim *s = sim_new(1, DISK), *old;
	struct dev *d = sim_dev(s, 0);

	put(d, 0, page_a);
	old = sim_clone(s);
	put(d, 0, page_b);
	sim_stale(s, 0, 10, 5, old);
	ck_assert_int_eq(at(s, 0, 9), 'b');
	ck_assert_int_eq(at(s, 0, 10), 'a');
	ck_assert_int_eq(at(s, 0, 15), 'b');
	sim_zero(s, 0, 20, 4076);
	ck_assert_int_eq(at(s, 0, 19), 'b');
	ck_assert_int_eq(at(s, 0, 20), 0);
	sim_flip(s, 0, 19, 1);
	ck_assert_int_eq(at(s, 0, 19), 'b' ^ 1);
	sim_read_only(s, 0, true);
	d->ops->close(d);
	d = sim_dev(s, 0);
	ck_assert(d->read_only);
	d->ops->close(d);
	sim_free(old);
	sim_free(s);
}
END_TEST

/* ---- threads ---------------------------------------------------------- */

struct writer {
	struct sim *s;
	unsigned disk;
	pthread_t thread;
	int rc;
};

static void *write_some(void *arg)
{
	struct writer *w = arg;
	struct dev *d = sim_dev(w->s, w->disk);
	struct err e;

	for (unsigned i = 0; i < 8 && w->rc == 0; i++)
		w->rc = d->ops->write(d, page_a, PAGE, i * PAGE, &e);
	d->ops->close(d);
	return NULL;
}

/* A crash in the middle of what three threads write; how many writes each
 * disk had by then, as one number. */
static uint64_t interleaving(uint64_t seed)
{
	struct writer w[3] = { { 0 } };
	struct sim *s = sim_new(3, DISK);
	uint64_t out = 0;

	sim_schedule(s, seed, 20000);
	sim_crash_at(s, 12);
	for (unsigned i = 0; i < 3; i++) {
		w[i].s = s;
		w[i].disk = i;
		pthread_create(&w[i].thread, NULL, write_some, &w[i]);
	}
	for (unsigned i = 0; i < 3; i++) {
		pthread_join(w[i].thread, NULL);
		out = out * 16 + sim_pending(s, i);
	}
	sim_free(s);
	return out;
}

START_TEST(a_seed_repeats_an_interleaving)
{
	uint64_t a = interleaving(1), b = interleaving(2);
	uint64_t c = interleaving(3);
	unsigned same = 0;

	ck_assert(a != b || b != c);
	/* A thread that a busy machine keeps away for longer than the grace
	 * spoils a try; by chance alone three hits are one in thousands. */
	for (unsigned i = 0; i < 40 && same < 3; i++)
		same += interleaving(1) == interleaving(1);
	ck_assert_uint_eq(same, 3);
}
END_TEST

START_TEST(a_hung_call_waits_for_its_release)
{
	static const struct sim_fault f = {
		.kind = SIM_HANG, .ops = SIM_WRITE, .times = 1,
	};
	struct timespec ms = { .tv_nsec = 1000000 };
	struct sim *s = sim_new(1, DISK);
	struct writer w = { .s = s };

	sim_arm(s, &f);
	pthread_create(&w.thread, NULL, write_some, &w);
	while (sim_hanging(s) == 0)
		nanosleep(&ms, NULL);
	ck_assert_int_eq(at(s, 0, 0), 0);
	sim_release(s);
	pthread_join(w.thread, NULL);
	ck_assert_int_eq(w.rc, 0);
	ck_assert_int_eq(at(s, 0, 7 * PAGE), 'a');
	sim_free(s);
}
END_TEST

START_TEST(freeing_the_set_lets_hung_calls_fail)
{
	static const struct sim_fault f = {
		.kind = SIM_HANG, .ops = SIM_WRITE,
	};
	struct timespec ms = { .tv_nsec = 1000000 };
	struct sim *s = sim_new(1, DISK);
	struct writer w = { .s = s };

	sim_arm(s, &f);
	pthread_create(&w.thread, NULL, write_some, &w);
	while (sim_hanging(s) == 0)
		nanosleep(&ms, NULL);
	sim_free(s);
	pthread_join(w.thread, NULL);
	ck_assert_int_eq(w.rc, -1);
}
END_TEST

/* ---- the driver -------------------------------------------------------- */

/* The bits of which of the first three pages of two disks hold 'a'. */
static int see(void *arg, struct sim *s, uint64_t note, struct err *e)
{
	bool *seen = arg;
	unsigned bits = 0;

	(void)note;
	(void)e;
	for (unsigned i = 0; i < 6; i++)
		if (at(s, i / 3, i % 3 * PAGE) == 'a')
			bits |= 1u << i;
	seen[bits] = true;
	return 0;
}

START_TEST(the_driver_shows_every_subset)
{
	bool seen[64] = { false };
	struct crash_plan p = {
		.name = "subsets", .seed = 5, .exhaustive = true,
		.check = see, .arg = seen,
	};
	struct sim *s = sim_new(2, DISK);
	struct dev *d = sim_dev(s, 0), *d1 = sim_dev(s, 1);
	struct crash_stats stats = { 0 };
	struct err e = { 0 };

	sim_record(s);
	for (unsigned i = 0; i < 3; i++) {
		put(d, i * PAGE, page_a);
		put(d1, i * PAGE, page_a);
	}
	flush(d);
	sim_record_end(s);
	ck_assert_msg(crash_explore(&p, s, &stats, &e) == 0, "%s", e.text);
	for (unsigned i = 0; i < 64; i++)
		ck_assert_msg(seen[i], "subset %u was not shown", i);
	d->ops->close(d);
	d1->ops->close(d1);
	sim_free(s);
}
END_TEST

/* A toy: data at page 0, then a commit mark at page 1.  What is marked must
 * be there, and what was acked must be marked. */
static int check_toy(void *arg, struct sim *s, uint64_t note, struct err *e)
{
	(void)arg;
	if (at(s, 0, PAGE) == 'c' && at(s, 0, PAGE - 1) != 'b')
		return err_set(e, ERR_CORRUPT, "marked but not there");
	if (note == 1 && at(s, 0, PAGE) != 'c')
		return err_set(e, ERR_CORRUPT, "acked but not marked");
	return 0;
}

/* The recovery writes as well: it clears the data that is not marked. */
static void recover_toy(void *arg, struct sim *s)
{
	struct dev *d = sim_dev(s, 0);

	(void)arg;
	if (at(s, 0, PAGE) != 'c')
		put(d, 0, page_a);
	flush(d);
	d->ops->close(d);
}

/* Which of the toy's two flushes are left out: bits of `without`. */
static int run_toy(unsigned without, struct err *e)
{
	struct crash_plan p = {
		.name = "toy", .seed = 9, .exhaustive = true, .samples = 4,
		.second_one_in = 1, .check = check_toy,
		.recover = recover_toy,
	};
	struct sim *s = sim_new(1, DISK);
	struct dev *d = sim_dev(s, 0);
	int rc;

	sim_record(s);
	put(d, 0, page_b);
	if (!(without & 1))
		flush(d);
	put(d, PAGE, page_c);
	if (!(without & 2))
		flush(d);
	sim_note(s, 1);
	sim_record_end(s);
	rc = crash_explore(&p, s, NULL, e);
	d->ops->close(d);
	sim_free(s);
	return rc;
}

START_TEST(the_driver_finds_a_missing_flush)
{
	struct err e = { 0 };

	ck_assert_msg(run_toy(0, &e) == 0, "%s", e.text);
	ck_assert_int_eq(run_toy(1, &e), -1);
	ck_assert_ptr_nonnull(strstr(e.text, "marked but not there"));
	ck_assert_ptr_nonnull(strstr(e.text, "BK_SEED=9"));
	ck_assert_int_eq(run_toy(2, &e), -1);
	ck_assert_ptr_nonnull(strstr(e.text, "acked but not marked"));
}
END_TEST

Suite *raid_dev_sim_suite(void)
{
	Suite *s = suite_create("raid/dev_sim");
	TCase *c = tcase_create("disks");

	tcase_add_unchecked_fixture(c, pages_fill, NULL);
	tcase_add_test(c, reads_see_writes_at_once);
	tcase_add_test(c, a_power_cut_loses_what_was_not_flushed);
	tcase_add_test(c, a_power_cut_keeps_any_subset_in_any_order);
	tcase_add_test(c, a_torn_write_keeps_the_sectors_asked_for);
	tcase_add_test(c, the_crash_point_ends_everything);
	tcase_add_test(c, records_hold_each_moment_and_its_note);
	tcase_add_test(c, a_clone_goes_its_own_way);
	tcase_add_test(c, the_nth_call_fails_and_no_other);
	tcase_add_loop_test(c, a_lying_write_says_success, 0,
	    sizeof(lies) / sizeof(lies[0]));
	tcase_add_test(c, a_flipped_bit_is_one_bit);
	tcase_add_test(c, a_flush_may_lie_or_lose);
	tcase_add_test(c, bad_sectors_fail_until_written);
	tcase_add_test(c, a_dropped_disk_forgets_its_cache_and_returns);
	tcase_add_test(c, damage_hits_what_it_names);
	suite_add_tcase(s, c);
	c = tcase_create("threads");
	tcase_add_unchecked_fixture(c, pages_fill, NULL);
	tcase_add_test(c, a_seed_repeats_an_interleaving);
	tcase_add_test(c, a_hung_call_waits_for_its_release);
	tcase_add_test(c, freeing_the_set_lets_hung_calls_fail);
	suite_add_tcase(s, c);
	c = tcase_create("driver");
	tcase_add_unchecked_fixture(c, pages_fill, NULL);
	tcase_add_test(c, the_driver_shows_every_subset);
	tcase_add_test(c, the_driver_finds_a_missing_flush);
	suite_add_tcase(s, c);
	return s;
}
