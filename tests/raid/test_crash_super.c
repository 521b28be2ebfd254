/*
 * Superblocks under power cuts: two writes of all slots one after the other,
 * cut anywhere, with any part of the slots arrived and torn, leave a sound
 * slot on each member, and once a write has returned no older one is chosen.
 * Method: super_write() on the members of a new array, recorded; all subsets
 * and torn writes (tests/support/crash.h).  BK_SEED repeats a failure.
 */
#include "raid/dev.h"
#include "raid/mio.h"
#include "raid/super.h"
#include "tests/support/array_model.h"
#include "tests/support/crash.h"
#include "tests/support/dev_sim.h"

#include <check.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define MEMBERS 2u

Suite *raid_crash_super_suite(void);

struct rig {
	struct model *m;
	struct member *members[MEMBERS];
	struct super base;
	uint64_t first_seq;	/* of what array_create wrote */
};

static void read_slots(struct sim *s, unsigned disk, struct super_slots *out)
{
	struct err e = { 0 };
	struct mio *io;

	ck_assert_int_eq(mio_new(&io, sim_dev(s, disk), 0, &e), 0);
	ck_assert_msg(super_read(out, io, &e) == 0, "%s", e.text);
	mio_free(io);
}

static void rig_open(struct rig *r)
{
	struct super_slots slots;
	struct model_shape shape = {
		.members = MEMBERS, .parity = 1, .disk_size = 128u << 20,
		.seed = crash_seed(31),
	};
	struct err e = { 0 };
	int best;

	r->m = model_new(&shape);
	ck_assert_msg(model_create(r->m, model_disks(r->m), NULL, &e) == 0,
	    "%s", e.text);
	read_slots(model_disks(r->m), 0, &slots);
	best = super_best(&slots);
	ck_assert_int_ge(best, 0);
	r->base = slots.slot[best];
	r->first_seq = r->base.write_seq;
	for (unsigned i = 0; i < MEMBERS; i++) {
		struct member *m = calloc(1, sizeof(*m));

		ck_assert_ptr_nonnull(m);
		m->index = i;
		m->state = MEMBER_ACTIVE;
		m->size = shape.disk_size;
		memcpy(m->uuid, r->base.table[i].uuid, RAID_UUID_SIZE);
		ck_assert_int_eq(mio_new(&m->io, sim_dev(model_disks(r->m),
		    i), 0, &e), 0);
		r->members[i] = m;
	}
}

static void rig_close(struct rig *r)
{
	for (unsigned i = 0; i < MEMBERS; i++) {
		mio_free(r->members[i]->io);
		free(r->members[i]);
	}
	model_free(r->m);
}

static void none_fails(void *arg, unsigned member, const struct err *why)
{
	(void)arg;
	ck_abort_msg("member %u: %s", member, why->text);
}

static int check_slots(void *arg, struct sim *s, uint64_t acked,
    struct err *e)
{
	const struct rig *r = arg;

	for (unsigned i = 0; i < MEMBERS; i++) {
		struct super_slots slots;
		int best;

		read_slots(s, i, &slots);
		best = super_best(&slots);
		if (best < 0)
			return err_set(e, ERR_CORRUPT, "member %u has no "
			    "sound slot", i);
		if (slots.slot[best].write_seq < r->first_seq + acked)
			return err_set(e, ERR_CORRUPT, "member %u: write %"
			    PRIu64 " is chosen, %" PRIu64 " is acked", i,
			    slots.slot[best].write_seq - r->first_seq, acked);
	}
	return 0;
}

START_TEST(a_sound_slot_is_left_by_any_cut)
{
	struct crash_plan p = {
		.name = "super", .seed = crash_seed(32), .exhaustive = true,
		.samples = 8, .check = check_slots,
	};
	struct err e = { 0 };
	struct rig r;

	rig_open(&r);
	p.arg = &r;
	sim_record(model_disks(r.m));
	for (uint64_t i = 1; i <= 2; i++) {
		r.base.write_seq = r.first_seq + i;
		ck_assert_msg(super_write(&r.base, r.members, MEMBERS,
		    none_fails, NULL, &e) == 0, "%s", e.text);
		sim_note(model_disks(r.m), i);
	}
	sim_record_end(model_disks(r.m));
	ck_assert_msg(crash_explore(&p, model_disks(r.m), NULL, &e) == 0,
	    "%s", e.text);
	rig_close(&r);
}
END_TEST

Suite *raid_crash_super_suite(void)
{
	Suite *s = suite_create("raid/crash_super");
	TCase *c = tcase_create("slots");

	tcase_add_test(c, a_sound_slot_is_left_by_any_cut);
	suite_add_tcase(s, c);
	return s;
}
