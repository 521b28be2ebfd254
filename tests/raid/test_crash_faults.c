/*
 * The n-th call fails, or lies, for every n until none does: whatever one
 * member does, every acked flush stays whole, the run goes on, scrub heals what
 * is left, and then any p members may be lost.
 * Method: one script (open, flushes, reads, stop, open again, mend) with a
 * fault armed at the n-th read, write or flush of one disk.  Short by
 * default: n goes up by seeded steps, in one geometry.  BK_LONG=1 takes every
 * n in all of them; BK_SEED repeats a failure.
 */
#include "raid/array.h"
#include "tests/support/array_model.h"
#include "tests/support/crash.h"
#include "tests/support/dev_sim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DISK (128u << 20)

Suite *raid_crash_faults_suite(void);

static const struct shape {
	unsigned members, parity;
} shapes[] = { { 4, 1 }, { 2, 1 }, { 4, 2 } };

static const struct kind {
	const char *name;
	enum sim_fault_kind kind;
	unsigned ops;
	uint64_t times;
	bool cut;	/* the power goes at the end, with all caches */
} kinds[] = {
	{ "read error", SIM_ERROR, SIM_READ, 1, false },
	{ "reads fail from here", SIM_ERROR, SIM_READ, 0, false },
	{ "flipped on reading", SIM_FLIPPED, SIM_READ, 1, false },
	{ "write error", SIM_ERROR, SIM_WRITE, 1, false },
	{ "no space", SIM_NO_SPACE, SIM_WRITE, 0, false },
	{ "lost write", SIM_LOST, SIM_WRITE, 1, false },
	{ "misdirected write", SIM_MISDIRECT, SIM_WRITE, 1, false },
	{ "torn write", SIM_TORN, SIM_WRITE, 1, false },
	{ "flipped on writing", SIM_FLIPPED, SIM_WRITE, 1, false },
	{ "flush error", SIM_ERROR, SIM_FLUSH, 1, true },
	{ "flush that loses", SIM_FLUSH_LOSE, SIM_FLUSH, 1, false },
	{ "flushes lie from here", SIM_FLUSH_LIE, SIM_FLUSH, 0, true },
	{ "gone", SIM_GONE, SIM_ANY_OP, 1, false },
	{ "hung write", SIM_HANG, SIM_WRITE, 1, false },
	{ "hung read", SIM_HANG, SIM_READ, 1, false },
};
#define KINDS ((int)(sizeof(kinds) / sizeof(kinds[0])))

struct run {
	struct model *m;
	const struct kind *kind;
	unsigned parity;
	uint64_t nth, random;
};

static const struct model_flush flushes[] = {
	{ .frames = 2, .frame_size = 20000 },
	{ .frames = 3, .frame_size = 400000 },
	{ .facts = 3, .fact_size = 300 },
	{ .frames = 2, .frame_size = 9000, .meta = true },
	{ .frames = 2, .frame_size = 60000, .seal = true },
};

static int mend(struct array *a, struct err *e)
{
	struct scan_report report = { 0 };
	struct job_ctl ctl = { 0 };

	if (!array_wants_mend(a))
		return 0;
	return array_mend(a, &report, &ctl, e);
}

static int use(struct run *r, struct array *a, size_t count, struct err *e)
{
	for (size_t i = 0; i < count; i++)
		if (model_flush(r->m, a, &flushes[i], e) != 0)
			return err_add(e, "flush %zu", i);
	if (model_check(r->m, a, model_acked(r->m), NULL, e) != 0)
		return -1;
	return mend(a, e);
}

static int sit(struct run *r, size_t count, struct err *e)
{
	struct array *a;

	if (model_open(r->m, model_disks(r->m), 0, &a, e) != 0)
		return err_add(e, "open");
	if (use(r, a, count, e) != 0) {
		array_abandon(a);
		return -1;
	}
	return array_close(a, e);
}

/* ---- afterwards --------------------------------------------------------- */

static int scrub(struct array *a, struct scan_report *report, struct err *e)
{
	static const struct scan_ops none = { 0 };
	struct job_ctl ctl = { 0 };

	*report = (struct scan_report){ 0 };
	return array_scrub(a, true, &none, report, &ctl, e);
}

/* Heal all, and find nothing more to heal. */
static int heal(struct array *a, struct err *e)
{
	struct scan_report report;

	if (mend(a, e) != 0)
		return err_add(e, "mend");
	if (scrub(a, &report, e) != 0)
		return err_add(e, "scrub");
	if (report.stripes_lost > 0)
		return err_set(e, ERR_CORRUPT, "%llu stripes are lost",
		    (unsigned long long)report.stripes_lost);
	if (mend(a, e) != 0)
		return err_add(e, "second mend");
	if (scrub(a, &report, e) != 0)
		return err_add(e, "second scrub");
	if (report.strips_bad > 0 || report.strips_absent > 0)
		return err_set(e, ERR_CORRUPT, "second scrub: %llu bad, "
		    "%llu absent", (unsigned long long)report.strips_bad,
		    (unsigned long long)report.strips_absent);
	return 0;
}

/* A failed disk is given back as a blank one. */
static int replace_failed(struct run *r, struct array *a, struct err *e)
{
	struct sim *s = model_disks(r->m);
	struct member_info info[RAID_MEMBERS_MAX];
	size_t n = array_members(a, info, RAID_MEMBERS_MAX);
	uint64_t size = DISK;

	for (size_t i = 0; i < n; i++) {
		if (info[i].state != MEMBER_FAILED)
			continue;
		if (array_replace_begin(a, info[i].path,
		    sim_dev(s, sim_add(s, size)), NULL, e) != 0)
			return err_add(e, "replace %s", info[i].path);
	}
	return 0;
}

/* Which members may be lost: none where there is less redundancy than p (and
 * the array says so): what two members took while one was away. */
static uint64_t may_lose(struct array *a)
{
	struct array_info info;

	array_info(a, &info);
	return info.reduced || info.degraded ? 0 : model_active(a);
}

static int prove(struct run *r, struct err *e)
{
	struct sim *s = model_disks(r->m);
	uint64_t found, active, skip;
	struct array *a;
	int rc;

	if (model_open(r->m, s, 0, &a, e) != 0)
		return err_add(e, "open afterwards");
	rc = model_check(r->m, a, model_acked(r->m), &found, e);
	if (rc == 0)
		rc = replace_failed(r, a, e);
	if (rc == 0)
		rc = heal(a, e);
	active = may_lose(a);
	if (rc != 0) {
		array_abandon(a);
		return err_add(e, "afterwards");
	}
	if (array_close(a, e) != 0)
		return -1;
	skip = model_draw(active, r->parity, &r->random);
	if (model_open(r->m, s, skip, &a, e) != 0)
		return err_add(e, "open without %llx",
		    (unsigned long long)skip);
	rc = model_check_at(r->m, a, found, e);
	array_abandon(a);
	return rc == 0 ? 0 : err_add(e, "without %llx",
	    (unsigned long long)skip);
}

/* ---- the loop ----------------------------------------------------------- */

static unsigned arm(struct run *r)
{
	struct sim *s = model_disks(r->m);
	struct sim_fault f = {
		.kind = r->kind->kind, .ops = r->kind->ops,
		.disk = (unsigned)(sim_random(&r->random) % sim_disks(s)),
		.nth = r->nth, .times = r->kind->times,
		.target = (2u << 20) + sim_random(&r->random) %
		    (16u << 20) / RAID_ROW * RAID_ROW,
	};

	return sim_arm(s, &f);
}

/* True while there was an n-th call to fail. */
static bool fault_round(const struct shape *g, const struct kind *k,
    uint64_t nth, uint64_t seed)
{
	struct model_shape ms = {
		.members = g->members, .parity = g->parity,
		.disk_size = DISK, .seed = seed,
		.call_ms = k->kind == SIM_HANG ? 100 : 0,
	};
	struct run r = {
		.m = model_new(&ms), .kind = k, .parity = g->parity,
		.nth = nth, .random = seed + nth,
	};
	struct sim *s = model_disks(r.m);
	struct err e = { 0 };
	unsigned fault;
	bool fired;
	int rc;

	rc = model_create(r.m, s, NULL, &e);
	fault = arm(&r);
	if (rc == 0)
		rc = sit(&r, 5, &e);
	if (rc == 0)
		rc = sit(&r, 2, &e);
	fired = sim_fired(s, fault) > 0;
	if (k->cut)
		sim_power_cut_all_lost(s);
	sim_disarm(s);
	for (unsigned i = 0; i < sim_disks(s); i++)
		sim_return(s, i);
	if (rc == 0)
		rc = prove(&r, &e);
	ck_assert_msg(rc == 0, "%u members, %u parity, %s, number %llu, "
	    "BK_SEED=%llu: %s", g->members, g->parity, k->name,
	    (unsigned long long)nth, (unsigned long long)seed, e.text);
	model_free(r.m);
	return fired;
}

START_TEST(the_nth_fault_of_one_member_costs_nothing)	/* _i: the kind */
{
	uint64_t seed = crash_seed(77 + (uint64_t)_i), random = seed;
	unsigned count = crash_long() ? 3 : 1;
	bool slow = kinds[_i].kind == SIM_HANG;

	for (unsigned g = 0; g < count; g++) {
		uint64_t nth = 1, step = slow ? 40 : 16;

		unsigned rounds = 1;

		while (fault_round(&shapes[g], &kinds[_i], nth, seed)) {
			nth += crash_long() && !slow ? 1 :
			    1 + sim_random(&random) % step;
			rounds++;
		}
		printf("%s: %u rounds, up to number %llu\n", kinds[_i].name,
		    rounds, (unsigned long long)nth);
	}
}
END_TEST

Suite *raid_crash_faults_suite(void)
{
	Suite *s = suite_create("raid/crash_faults");
	TCase *c = tcase_create("faults");

	tcase_set_timeout(c, crash_long() ? 3600 : 240);
	tcase_add_loop_test(c, the_nth_fault_of_one_member_costs_nothing, 0,
	    KINDS);
	suite_add_tcase(s, c);
	return s;
}
