/*
 * A power cut at any write or flush of any member, with any state of the
 * index: every acked snapshot is listed and can be fetched to the byte, no
 * forgotten one is, nothing half done is listed; pushes and prunes go on; and
 * then any p members may be lost.
 * Method: a run of pushes, forgets and prunes is recorded on simulated disks;
 * the index is kept after each step; tests/support/crash.h makes the images;
 * each is started with one of the kept indexes or none, held against the model
 * (tests/support/store_model.h), used, and started without p members.  Short
 * by default: seeded cuts, images, indexes.  BK_LONG=1 takes all cuts and every
 * index; BK_SEED repeats a failure.
 */
#include "raid/array.h"
#include "store/store.h"
#include "tests/support/array_model.h"
#include "tests/support/crash.h"
#include "tests/support/dev_sim.h"
#include "tests/support/store_model.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISK (128u << 20)

Suite *store_crash_suite(void);

static const struct shape {
	unsigned members, parity;
} shapes[] = { { 4, 1 }, { 2, 1 }, { 4, 2 } };

struct run {
	const char *name;
	struct store_model *m;
	unsigned parity;
	uint64_t seed, random;
	bool indexes_all;	/* every kept index and none, for each image */
};

/* ---- what every image must pass ----------------------------------------- */

static int leave(struct opened *o, struct sim *s, bool close, struct err *e)
{
	if (close)
		return store_model_close(o, e);
	store_model_abandon(o);
	sim_power_cut_all_lost(s);
	return 0;
}

/* Start, hold against the model, and go on working if `use`. */
static int start(struct run *r, struct sim *s, uint64_t skip,
    const char *index, uint64_t acked, bool use, struct err *e)
{
	struct opened o;
	int rc;

	if (store_model_open(r->m, s, skip, index, &o, e) != 0)
		return -1;
	rc = store_model_check(r->m, o.store, acked, e);
	if (rc == 0 && use)
		rc = store_model_probe(r->m, o.store, r->seed, e);
	if (rc == 0 && use)
		rc = store_model_check(r->m, o.store, acked, e);
	if (rc != 0) {
		store_model_abandon(&o);
		return -1;
	}
	return leave(&o, s, sim_random(&r->random) % 2 == 0, e);
}

/* With kept index `i`, or none (SIZE_MAX). */
static int check_with(struct run *r, struct sim *s, size_t i,
    uint64_t acked, struct err *e)
{
	uint64_t all = ((uint64_t)1 << sim_disks(s)) - 1;
	uint64_t skip = model_draw(all, r->parity, &r->random);
	char *index = store_model_index_copy(r->m, i);
	int rc = start(r, s, 0, index, acked, true, e);

	if (rc != 0)
		err_add(e, "first start");
	if (rc == 0) {
		rc = start(r, s, skip, index, acked, false, e);
		if (rc != 0)
			err_add(e, "start without %llx",
			    (unsigned long long)skip);
	}
	store_model_drop_index(index);
	if (rc != 0)
		err_add(e, "index %zd", (ssize_t)i);
	return rc;
}

static size_t draw_index(struct run *r)
{
	size_t n = store_model_indexes(r->m);
	size_t i = (size_t)(sim_random(&r->random) % (n + 1));

	return i == n ? SIZE_MAX : i;
}

static int check_image(void *arg, struct sim *s, uint64_t acked,
    struct err *e)
{
	struct run *r = arg;

	if (!r->indexes_all)
		return check_with(r, s, draw_index(r), acked, e);
	for (size_t i = 0; i <= store_model_indexes(r->m); i++) {
		struct sim *c = sim_clone(s);
		int rc = check_with(r, c, i == store_model_indexes(r->m) ?
		    SIZE_MAX : i, acked, e);

		sim_free(c);
		if (rc != 0)
			return -1;
	}
	return 0;
}

static void restart(void *arg, struct sim *s)
{
	struct run *r = arg;
	char *index = store_model_index_copy(r->m, draw_index(r));
	struct opened o;
	struct err e;

	if (store_model_open(r->m, s, 0, index, &o, &e) == 0 &&
	    store_model_close(&o, &e) != 0)
		sim_power_off(s);
	store_model_drop_index(index);
}

/* ---- runs ------------------------------------------------------------- */

static void ok(const struct run *r, int rc, const struct err *e)
{
	ck_assert_msg(rc == 0, "%s, BK_SEED=%llu: %s", r->name,
	    (unsigned long long)r->seed, e->text);
}

static void run_init(struct run *r, const char *name, int shape)
{
	struct store_model_shape ms = {
		.members = shapes[shape].members,
		.parity = shapes[shape].parity, .disk_size = DISK,
		.file_size = 150000,
	};

	*r = (struct run){
		.name = name, .parity = ms.parity,
		.seed = crash_seed(424242 + (uint64_t)shape),
	};
	ms.seed = r->random = r->seed;
	r->m = store_model_new(&ms);
}

static void explore(struct run *r)
{
	struct crash_plan p = {
		.name = r->name, .seed = r->seed, .check = check_image,
		.recover = restart, .arg = r, .samples = 2, .images_max = 2,
		.cuts_max = 16, .second_one_in = 12, .second_max = 4,
	};
	struct crash_stats stats = { 0 };
	struct err e = { 0 };

	if (crash_long()) {
		r->indexes_all = true;
		p.samples = 4;
		p.images_max = 3;
		p.cuts_max = 0;
		p.second_one_in = 100;
		p.second_max = 6;
	}
	if (crash_wide()) {
		p.samples = 2;
		p.images_max = 10;
		p.cuts_max = 0;
		p.second_one_in = 200;
	}
	sim_record_end(store_model_disks(r->m));
	ok(r, crash_explore(&p, store_model_disks(r->m), &stats, &e), &e);
	printf("%s: %llu cuts, %llu images; %llu second cuts, %llu images\n",
	    r->name, (unsigned long long)stats.cuts,
	    (unsigned long long)stats.images,
	    (unsigned long long)stats.second_cuts,
	    (unsigned long long)stats.second_images);
	store_model_free(r->m);
}

static void run_open(struct run *r, struct opened *o)
{
	struct err e = { 0 };

	ok(r, store_model_open(r->m, store_model_disks(r->m), 0,
	    store_model_index(r->m), o, &e), &e);
}

static void run_close(struct run *r, struct opened *o)
{
	struct err e = { 0 };

	ok(r, store_model_close(o, &e), &e);
	store_model_keep_index(r->m);
}

static void push(struct run *r, struct opened *o, unsigned change)
{
	struct err e = { 0 };

	ok(r, store_model_push(r->m, o->store, change, &e), &e);
	store_model_keep_index(r->m);
}

static void prune(struct run *r, struct opened *o)
{
	struct err e = { 0 };

	ok(r, store_model_forget(r->m, o->store, &e), &e);
	ok(r, store_model_prune(r->m, o->store, &e), &e);
	store_model_keep_index(r->m);
}

START_TEST(every_acked_snapshot_survives_a_cut)	/* _i: the shape */
{
	struct err e = { 0 };
	struct opened o;
	struct run r;

	run_init(&r, "push", _i);
	ok(&r, store_model_create(r.m, &e), &e);
	run_open(&r, &o);
	push(&r, &o, 0);
	sim_record(store_model_disks(r.m));
	push(&r, &o, 3);
	run_close(&r, &o);
	run_open(&r, &o);
	push(&r, &o, 0);
	run_close(&r, &o);
	run_open(&r, &o);
	push(&r, &o, 2);
	run_close(&r, &o);
	explore(&r);
}
END_TEST

START_TEST(a_cut_in_prune_loses_no_snapshot)	/* _i: the shape */
{
	struct err e = { 0 };
	struct opened o;
	struct run r;

	run_init(&r, "prune", _i);
	ok(&r, store_model_create(r.m, &e), &e);
	run_open(&r, &o);
	push(&r, &o, 0);
	push(&r, &o, 8);
	push(&r, &o, 8);
	run_close(&r, &o);
	run_open(&r, &o);
	sim_record(store_model_disks(r.m));
	prune(&r, &o);
	push(&r, &o, 2);
	prune(&r, &o);
	run_close(&r, &o);
	explore(&r);
}
END_TEST

/* ---- init --------------------------------------------------------------- */

/* Before it was acked: what is there is a store, or nothing that keeps a
 * second init from making one. */
static int check_init(void *arg, struct sim *s, uint64_t acked,
    struct err *e)
{
	struct run *r = arg;

	if (acked == 0)
		return 0;
	return check_with(r, s, draw_index(r), acked, e);
}

START_TEST(an_init_that_was_acked_is_there)	/* _i: the shape */
{
	struct crash_plan p = {
		.check = check_init, .recover = restart, .samples = 2,
		.images_max = 4, .cuts_max = crash_long() ? 0 : 16,
	};
	struct err e = { 0 };
	struct opened o;
	struct run r;

	run_init(&r, "init", _i);
	p.name = r.name;
	p.seed = r.seed;
	p.arg = &r;
	sim_record(store_model_disks(r.m));
	ok(&r, store_model_create(r.m, &e), &e);
	run_open(&r, &o);
	run_close(&r, &o);
	sim_record_end(store_model_disks(r.m));
	ok(&r, crash_explore(&p, store_model_disks(r.m), NULL, &e), &e);
	store_model_free(r.m);
}
END_TEST

Suite *store_crash_suite(void)
{
	Suite *s = suite_create("store/crash");
	TCase *c = tcase_create("cuts");
	int shapes_tried = crash_long() ? 3 : 1;

	tcase_set_timeout(c, crash_long() || crash_wide() ? 7200 : 240);
	tcase_add_loop_test(c, every_acked_snapshot_survives_a_cut, 0,
	    shapes_tried);
	tcase_add_loop_test(c, a_cut_in_prune_loses_no_snapshot, 0,
	    shapes_tried);
	tcase_add_loop_test(c, an_init_that_was_acked_is_there, 0,
	    shapes_tried);
	suite_add_tcase(s, c);
	return s;
}
