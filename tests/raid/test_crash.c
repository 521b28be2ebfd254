/*
 * A power cut at any write or flush of any member, each of which keeps any
 * part of what it had not flushed: every acked flush is there to the byte,
 * an unacked one whole or not at all, without a step by hand.  What one start
 * has shown stays.  The array goes on working, and afterwards any p members
 * may be lost.
 * Method: a run is recorded on simulated disks; tests/support/crash.h makes
 * the images; each is started, held against a model
 * (tests/support/array_model.h), cut again, mended, and started without p
 * members.  Short by default: seeded cuts and images.  BK_LONG=1 takes all
 * cuts, and all subsets; BK_SEED repeats a failure.
 */
#include "base/str.h"
#include "raid/array.h"
#include "raid/signature.h"
#include "tests/support/array_model.h"
#include "tests/support/crash.h"
#include "tests/support/dev_sim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISK (128u << 20)

Suite *raid_crash_suite(void);

static const struct shape {
	unsigned members, parity;
} shapes[] = { { 2, 1 }, { 4, 1 }, { 4, 2 } };
#define SHAPES 3

struct run {
	const char *name;
	struct model *m;
	unsigned parity;
	unsigned away;		/* members the run itself may have lost */
	const char *replaced;	/* member that the run replaces by `spare` */
	unsigned spare;
	uint64_t random;
	uint64_t seed;
	uint64_t skipped;	/* by the first start of this image */
	bool closed;		/* and was it stopped cleanly? */
};

/* ---- what every image must pass ----------------------------------------- */

static int leave(struct array *a, struct sim *s, bool close, struct err *e)
{
	if (close)
		return array_close(a, e);
	array_abandon(a);
	sim_power_cut_all_lost(s);
	return 0;
}

/* The first start after the cut, now and then with p members away. */
static int first_start(struct run *r, struct sim *s, uint64_t acked,
    uint64_t *found, struct err *e)
{
	uint64_t all = ((uint64_t)1 << sim_disks(s)) - 1, skip = 0;
	uint64_t draw = sim_random(&r->random);
	struct array *a;

	if (draw % 4 == 0)
		skip = model_draw(all, r->parity - r->away, &r->random);
	r->skipped = skip;
	r->closed = draw / 4 % 2 == 0;
	if (model_open(r->m, s, skip, &a, e) != 0)
		return err_add(e, "first start, away %llx",
		    (unsigned long long)skip);
	if (model_check(r->m, a, acked, found, e) != 0) {
		array_abandon(a);
		return err_add(e, "first start, away %llx",
		    (unsigned long long)skip);
	}
	return leave(a, s, r->closed, e);
}

static int mend(struct array *a, struct err *e)
{
	struct scan_report report = { 0 };
	struct job_ctl ctl = { 0 };

	if (!array_wants_mend(a))
		return 0;
	if (array_mend(a, &report, &ctl, e) != 0)
		return err_add(e, "mend");
	return 0;
}

/* A replacement that was cut before its new member could be known: the
 * person asks for it again. */
static int replace_again(struct run *r, struct sim *s, struct array *a,
    struct err *e)
{
	char uuid[2 * RAID_UUID_SIZE + 1];
	struct array_info info;

	array_info(a, &info);
	if (!info.degraded || !r->replaced)
		return 0;
	hex_put(uuid, array_uuid(a), RAID_UUID_SIZE);
	if (array_replace_begin(a, r->replaced, sim_dev(s, r->spare), uuid,
	    e) != 0)
		return err_add(e, "replace again");
	return mend(a, e);
}

/* Which members may be lost: none where there is less redundancy than p (and
 * the array says so). */
static uint64_t may_lose(struct array *a)
{
	struct array_info info;

	array_info(a, &info);
	return info.reduced || info.degraded ? 0 : model_active(a);
}

static int second_start(struct run *r, struct sim *s, uint64_t found,
    uint64_t *active, struct err *e)
{
	struct array *a;
	int rc;

	if (model_open(r->m, s, 0, &a, e) != 0)
		return err_add(e, "second start");
	rc = model_check_at(r->m, a, found, e);
	if (rc == 0)
		rc = model_probe(a, r->seed, e);
	if (rc == 0)
		rc = mend(a, e);
	if (rc == 0)
		rc = replace_again(r, s, a, e);
	*active = may_lose(a);
	if (rc != 0) {
		array_abandon(a);
		return err_add(e, "second start");
	}
	return leave(a, s, sim_random(&r->random) % 2 == 0, e);
}

static int last_start(struct run *r, struct sim *s, uint64_t found,
    uint64_t active, struct err *e)
{
	uint64_t skip = model_draw(active, r->parity, &r->random);
	struct array *a;
	int rc;

	if (model_open(r->m, s, skip, &a, e) != 0)
		return err_add(e, "last start without %llx",
		    (unsigned long long)skip);
	rc = model_check_at(r->m, a, found, e);
	if (rc == 0)
		rc = model_probe_check(a, r->seed, e);
	array_abandon(a);
	return rc == 0 ? 0 : err_add(e, "last start without %llx",
	    (unsigned long long)skip);
}

static int check_image(void *arg, struct sim *s, uint64_t acked,
    struct err *e)
{
	struct run *r = arg;
	uint64_t found = 0, active = 0;

	if (first_start(r, s, acked, &found, e) != 0)
		return -1;
	if (second_start(r, s, found, &active, e) == 0 &&
	    last_start(r, s, found, active, e) == 0)
		return 0;
	return err_add(e, "after a start without %llx, %s",
	    (unsigned long long)r->skipped, r->closed ? "closed" : "cut");
}

static void restart(void *arg, struct sim *s)
{
	struct run *r = arg;
	struct array *a;
	struct err e;

	if (model_open(r->m, s, 0, &a, &e) != 0)
		return;
	if (mend(a, &e) == 0 && array_close(a, &e) == 0)
		return;
}

/* ---- runs ------------------------------------------------------------- */

static void run_init(struct run *r, const char *name, int shape,
    unsigned spares)
{
	const struct shape *g = &shapes[shape];
	struct model_shape ms = {
		.members = g->members, .parity = g->parity, .spares = spares,
		.disk_size = DISK,
	};

	*r = (struct run){
		.name = name, .parity = g->parity,
		.seed = crash_seed(20240501 + (uint64_t)shape),
	};
	ms.seed = r->random = r->seed;
	r->m = model_new(&ms);
}

static void ok(const struct run *r, int rc, const struct err *e)
{
	ck_assert_msg(rc == 0, "%s, BK_SEED=%llu: %s", r->name,
	    (unsigned long long)r->seed, e->text);
}

static void create(struct run *r)
{
	struct err e = { 0 };

	ok(r, model_create(r->m, model_disks(r->m), NULL, &e), &e);
}

static struct array *start(struct run *r)
{
	struct err e = { 0 };
	struct array *a;

	ok(r, model_open(r->m, model_disks(r->m), 0, &a, &e), &e);
	return a;
}

static void stop(struct run *r, struct array *a)
{
	struct err e = { 0 };

	ok(r, array_close(a, &e), &e);
}

static void flush(struct run *r, struct array *a,
    const struct model_flush *f)
{
	struct err e = { 0 };

	ok(r, model_flush(r->m, a, f, &e), &e);
}

static void explore(struct run *r,
    int (*check)(void *, struct sim *, uint64_t, struct err *),
    void (*recover)(void *, struct sim *))
{
	struct crash_plan p = {
		.name = r->name, .seed = r->seed, .check = check,
		.recover = recover, .arg = r, .samples = 2, .images_max = 3,
		.cuts_max = 16, .second_one_in = 20, .second_max = 4,
	};
	struct crash_stats stats = { 0 };
	struct err e = { 0 };

	if (crash_long()) {
		p.exhaustive = true;
		p.samples = 8;
		p.images_max = p.cuts_max = 0;
		p.second_one_in = 400;
		p.second_max = 10;
	}
	if (crash_wide()) {
		p.samples = 2;
		p.images_max = p.cuts_max = 0;
		p.second_one_in = 200;
	}
	sim_record_end(model_disks(r->m));
	ok(r, crash_explore(&p, model_disks(r->m), &stats, &e), &e);
	printf("%s: %llu cuts, %llu images; %llu second cuts, %llu images\n",
	    r->name, (unsigned long long)stats.cuts,
	    (unsigned long long)stats.images,
	    (unsigned long long)stats.second_cuts,
	    (unsigned long long)stats.second_images);
	model_free(r->m);
}

static const struct model_flush small = { .frames = 2, .frame_size = 20000 };
static const struct model_flush large = {
	.frames = 5, .frame_size = 500000,
};
static const struct model_flush meta = {
	.frames = 3, .frame_size = 9000, .meta = true,
};
static const struct model_flush facts = { .facts = 3, .fact_size = 300 };
static const struct model_flush sealing = {
	.frames = 2, .frame_size = 90000, .seal = true,
};
static const struct model_flush freeing = {
	.frames = 2, .frame_size = 90000, .seal = true, .free_oldest = true,
};
static const struct model_flush heavy = { .facts = 12, .fact_size = 40000 };

START_TEST(every_acked_flush_survives_a_cut)	/* _i: the shape */
{
	struct array *a;
	struct run r;

	run_init(&r, "append", _i, 0);
	create(&r);
	sim_record(model_disks(r.m));
	a = start(&r);
	flush(&r, a, &small);
	flush(&r, a, &facts);
	flush(&r, a, &large);
	flush(&r, a, &meta);
	stop(&r, a);
	a = start(&r);
	flush(&r, a, &small);
	flush(&r, a, &meta);
	stop(&r, a);
	explore(&r, check_image, restart);
}
END_TEST

START_TEST(a_fold_loses_no_fact)	/* _i: the shape */
{
	struct array_info before, after;
	struct array *a;
	struct run r;
	unsigned n = 0;

	run_init(&r, "fold", _i, 0);
	create(&r);
	a = start(&r);
	flush(&r, a, &small);
	do {		/* up to just before the first fold */
		array_info(a, &before);
		flush(&r, a, &heavy);
		array_info(a, &after);
		if (after.log_bytes > before.log_bytes && n == 1)
			sim_record(model_disks(r.m));
		n += n == 1 || after.log_bytes > before.log_bytes;
		ck_assert_msg(n < 400, "no fold in %u flushes", n);
	} while (after.log_bytes > before.log_bytes);
	flush(&r, a, &small);
	stop(&r, a);
	explore(&r, check_image, restart);
}
END_TEST

START_TEST(a_freed_extent_is_reused_only_when_that_is_durable)
{
	struct array *a;
	struct run r;

	run_init(&r, "free", _i, 0);
	create(&r);
	a = start(&r);
	for (unsigned i = 0; i < 8; i++)
		flush(&r, a, &sealing);
	stop(&r, a);
	a = start(&r);
	sim_record(model_disks(r.m));
	for (unsigned i = 0; i < 6; i++)
		flush(&r, a, &freeing);
	stop(&r, a);
	explore(&r, check_image, restart);
}
END_TEST

static void replace(struct run *r, struct array *a)
{
	struct sim *s = model_disks(r->m);
	struct scan_report report = { 0 };
	struct job_ctl ctl = { 0 };
	struct err e = { 0 };

	ok(r, array_replace_begin(a, r->replaced, sim_dev(s, r->spare), NULL,
	    &e), &e);
	ok(r, array_mend(a, &report, &ctl, &e), &e);
}

START_TEST(a_replacement_loses_nothing)	/* _i: the shape */
{
	struct array *a;
	struct run r;

	run_init(&r, "replace", _i, 1);
	r.replaced = "sim:1";
	r.spare = shapes[_i].members;
	create(&r);
	a = start(&r);
	flush(&r, a, &large);
	flush(&r, a, &sealing);
	flush(&r, a, &meta);
	sim_record(model_disks(r.m));
	replace(&r, a);
	flush(&r, a, &small);
	stop(&r, a);
	explore(&r, check_image, restart);
}
END_TEST

START_TEST(a_member_that_returns_is_brought_up)	/* _i: the shape */
{
	struct scan_report report = { 0 };
	struct job_ctl ctl = { 0 };
	struct err e = { 0 };
	struct array *a;
	struct run r;

	run_init(&r, "return", _i, 0);
	r.away = 1;
	create(&r);
	a = start(&r);
	flush(&r, a, &large);
	sim_drop(model_disks(r.m), 1);
	sim_record(model_disks(r.m));
	flush(&r, a, &large);
	flush(&r, a, &small);
	stop(&r, a);
	sim_return(model_disks(r.m), 1);
	a = start(&r);
	ok(&r, array_mend(a, &report, &ctl, &e), &e);
	flush(&r, a, &small);
	stop(&r, a);
	explore(&r, check_image, restart);
}
END_TEST

/* ---- healing ---------------------------------------------------------- */

static void scrub(struct run *r, struct array *a, bool heal,
    struct scan_report *out)
{
	static const struct scan_ops none = { 0 };
	struct job_ctl ctl = { 0 };
	struct err e = { 0 };

	*out = (struct scan_report){ 0 };
	ok(r, array_scrub(a, heal, &none, out, &ctl, &e), &e);
}

/* The segments alone: nothing else is flushed then. */
static void scan(struct run *r, struct array *a, struct scan_report *out)
{
	static const struct scan_ops none = { 0 };
	struct job_ctl ctl = { 0 };
	struct err e = { 0 };
	uint64_t ids[16];
	size_t n = array_segments(a, 0, ids, 16);

	*out = (struct scan_report){ 0 };
	for (size_t i = 0; i < n; i++)
		ok(r, array_scan_segment(a, ids[i], true, &none, out, &ctl,
		    &e), &e);
}

/* Extents with strips and log of one disk, while the array is open. */
static void damage(struct run *r)
{
	sim_garbage(model_disks(r->m), 1, 2u << 20, 8u << 20, r->seed);
}

/* _i: the shape, by a scan of the segments or by a scrub of all */
START_TEST(what_was_healed_stays_healed)
{
	uint64_t others = 1;	/* disk 0, and with parity 2 also disk 2 */
	struct scan_report report;
	struct err e = { 0 };
	struct array *a;
	struct run r;

	run_init(&r, "heal", _i % SHAPES, 0);
	create(&r);
	a = start(&r);
	flush(&r, a, &large);
	flush(&r, a, &meta);
	flush(&r, a, &facts);
	damage(&r);
	if (_i < SHAPES)
		scan(&r, a, &report);
	else
		scrub(&r, a, true, &report);
	ck_assert_uint_gt(report.strips_healed, 0);
	ck_assert_uint_eq(report.stripes_lost, 0);
	array_abandon(a);
	sim_power_cut_all_lost(model_disks(r.m));
	if (_i < SHAPES)
		others = 0;
	else if (r.parity == 2)
		others |= 4;
	ok(&r, model_open(r.m, model_disks(r.m), others, &a, &e), &e);
	ok(&r, model_check(r.m, a, 3, NULL, &e), &e);
	scrub(&r, a, false, &report);
	ck_assert_uint_eq(report.strips_bad, 0);
	array_abandon(a);
	model_free(r.m);
}
END_TEST

/* ---- creation --------------------------------------------------------- */

/* A second try, which may have to be told that what the first one left is to
 * be wiped. */
static int create_again(struct run *r, struct sim *s, struct err *e)
{
	struct signature found = { .type = "" };
	int rc;

	for (unsigned i = 0; i < sim_disks(s) && !found.type[0]; i++) {
		struct dev *d = sim_dev(s, i);

		rc = signature_find(d, &found, e);
		dev_close(d);
		if (rc != 0)
			return -1;
	}
	return model_create(r->m, s, found.type[0] ? found.uuid : NULL, e);
}

/* Not acked yet: either it is there and empty, or it can be created. */
static int check_created(void *arg, struct sim *s, uint64_t note,
    struct err *e)
{
	struct run *r = arg;
	struct array *a;
	uint64_t found;
	int rc = model_open(r->m, s, 0, &a, e);

	if (rc != 0 && note > 0)
		return err_add(e, "created, but");
	if (rc != 0) {
		if (create_again(r, s, e) != 0 ||
		    model_open(r->m, s, 0, &a, e) != 0)
			return err_add(e, "created again");
	}
	rc = model_check(r->m, a, 0, &found, e);
	if (rc == 0)
		rc = model_probe(a, r->seed, e);
	array_abandon(a);
	return rc;
}

START_TEST(a_creation_is_whole_or_can_be_done_again)	/* _i: the shape */
{
	struct run r;

	run_init(&r, "create", _i, 0);
	sim_record(model_disks(r.m));
	create(&r);
	sim_note(model_disks(r.m), 1);
	explore(&r, check_created, restart);
}
END_TEST

/* ---- the seeded scheduler ---------------------------------------------- */

START_TEST(seeded_interleavings_keep_the_promise)	/* _i: the shape */
{
	unsigned rounds = crash_long() ? 8 : 1;

	for (unsigned i = 0; i < rounds; i++) {
		struct sim *s;
		struct array *a;
		struct run r;

		run_init(&r, "schedule", _i, 0);
		create(&r);
		a = start(&r);
		s = model_disks(r.m);
		sim_schedule(s, r.seed + i + 1, 100);
		sim_record(s);
		flush(&r, a, &large);
		flush(&r, a, &meta);
		sim_schedule(s, 0, 0);
		stop(&r, a);
		explore(&r, check_image, restart);
	}
}
END_TEST

Suite *raid_crash_suite(void)
{
	Suite *s = suite_create("raid/crash");
	TCase *c = tcase_create("cuts");
	/* Every cut of every shape is the business of BK_LONG. */
	int shapes_n = crash_wide() ? 1 : SHAPES;

	tcase_set_timeout(c, crash_long() || crash_wide() ? 7200 : 240);
	tcase_add_loop_test(c, every_acked_flush_survives_a_cut, 0, shapes_n);
	tcase_add_loop_test(c, a_fold_loses_no_fact, 0, shapes_n);
	tcase_add_loop_test(c,
	    a_freed_extent_is_reused_only_when_that_is_durable, 0, shapes_n);
	tcase_add_loop_test(c, a_replacement_loses_nothing, 0, shapes_n);
	tcase_add_loop_test(c, a_member_that_returns_is_brought_up, 0,
	    shapes_n);
	tcase_add_loop_test(c, what_was_healed_stays_healed, 0,
	    2 * SHAPES);
	tcase_add_loop_test(c, a_creation_is_whole_or_can_be_done_again, 0,
	    shapes_n);
	tcase_add_loop_test(c, seeded_interleavings_keep_the_promise, 0,
	    shapes_n);
	suite_add_tcase(s, c);
	return s;
}
