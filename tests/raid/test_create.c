/*
 * A new array: what is refused is refused before a byte is written; a power cut
 * anywhere leaves a usable array or one that can be made anew.  Method:
 * simulated disks, images compared, the power cut driver.
 */
#include "raid/array.h"
#include "raid/dev.h"
#include "raid/signature.h"
#include "tests/raid/log_rig.h"
#include "tests/support/crash.h"
#include "tests/support/dev_sim.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static int create(struct sim *s, unsigned parity, uint64_t extent_size,
    const char *wipe, struct err *e)
{
	struct array_create c = { .parity = parity,
		.extent_size = extent_size, .wipe = wipe };
	int rc;

	c.devs = sim_devs(s, 0, &c.dev_count);
	rc = array_create(&c, e);
	free(c.devs);
	return rc;
}

START_TEST(four_small_members_make_an_array)
{
	struct sim *s = sim_new(4, RIG_DISK);
	struct rig r;
	struct err e;

	ck_assert_msg(create(s, 1, 0, NULL, &e) == 0, "%s", e.text);
	ck_assert_int_eq(rig_open(&r, s, 0, true, &e), 0);
	ck_assert_uint_eq(r.as->base.extent_size, 2u << 20);
	ck_assert_uint_eq(r.as->base.parity, 1);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

START_TEST(extents_grow_with_the_largest_member)
{
	struct sim *s = sim_new(2, UINT64_C(1) << 40);
	struct rig r;
	struct err e;

	sim_add(s, UINT64_C(1) << 39);
	ck_assert_msg(create(s, 1, 0, NULL, &e) == 0, "%s", e.text);
	ck_assert_int_eq(rig_open(&r, s, 0, false, &e), 0);
	ck_assert_uint_eq(r.as->base.extent_size, 4u << 20);
	rig_drop(&r);
	sim_free(s);
}
END_TEST

static const struct {
	unsigned disks, parity;
	uint64_t size, extent_size;
	enum err_code code;
	const char *says;
} refused[] = {
	{ 2, 3, RIG_DISK, 0, ERR_USAGE, "parity" },
	{ 1, 1, RIG_DISK, 0, ERR_USAGE, "cannot have parity 1" },
	{ 0, 0, RIG_DISK, 0, ERR_USAGE, "members" },
	{ 2, 1, 64u << 20, 0, ERR_LIMIT, "at least 106 MiB" },
	{ 2, 1, 1u << 20, 0, ERR_LIMIT, "too small" },
	{ 2, 1, RIG_DISK, 4u << 20, ERR_LIMIT, "at least 206 MiB" },
	{ 2, 1, RIG_DISK, 3u << 20, ERR_USAGE, "power of two" },
	{ 2, 1, RIG_DISK, 128u << 20, ERR_USAGE, "power of two" },
	{ 1, 0, UINT64_C(5) << 40, 2u << 20, ERR_LIMIT, "too big" },
};
#define REFUSED (int)(sizeof(refused) / sizeof(refused[0]))

START_TEST(what_cannot_be_is_refused_and_nothing_is_written)
{
	struct sim *s = sim_new(refused[_i].disks ? refused[_i].disks : 1,
	    refused[_i].size);
	struct array_create c = { .parity = refused[_i].parity,
		.extent_size = refused[_i].extent_size };
	struct err e;

	c.devs = sim_devs(s, refused[_i].disks ? 0 : 1, &c.dev_count);
	ck_assert_int_eq(array_create(&c, &e), -1);
	ck_assert_msg(e.code == refused[_i].code, "%s", e.text);
	ck_assert_msg(strstr(e.text, refused[_i].says) != NULL, "%s", e.text);
	ck_assert_uint_eq(sim_changes(s), 0);
	free(c.devs);
	sim_free(s);
}
END_TEST

START_TEST(one_disk_in_use_keeps_all_others_untouched)
{
	struct sim *s = sim_new(2, RIG_DISK), *other = sim_new(1, RIG_DISK);
	uint8_t raw[8192];
	struct err e;

	ck_assert_int_eq(rig_create(other, &e), 0);
	sim_peek(other, 0, 1u << 20, raw, sizeof(raw));
	sim_poke(s, 1, 1u << 20, raw, sizeof(raw));
	ck_assert_int_eq(create(s, 1, 0, NULL, &e), -1);
	ck_assert_int_eq(e.code, ERR_EXISTS);
	ck_assert_ptr_nonnull(strstr(e.text, "sim:1"));
	ck_assert_int_eq(create(s, 1, 0, "ext4", &e), -1);
	ck_assert_uint_eq(sim_changes(s), 0);
	ck_assert_msg(create(s, 1, 0, "bk", &e) == 0, "%s", e.text);
	sim_free(s);
	sim_free(other);
}
END_TEST

START_TEST(a_disk_that_fails_is_named)
{
	struct sim *s = sim_new(3, RIG_DISK);
	struct sim_fault f = { .kind = SIM_ERROR, .disk = 1,
		.ops = SIM_WRITE | SIM_FLUSH, .nth = (uint64_t)_i + 1 };
	struct err e;

	sim_arm(s, &f);
	ck_assert_int_eq(create(s, 1, 0, NULL, &e), -1);
	ck_assert_msg(strstr(e.text, "sim:1") != NULL, "%s", e.text);
	sim_free(s);
}
END_TEST

/* Opens whole, or can be made anew by the UUID that is on its disks. */
static int check_usable(void *arg, struct sim *s, uint64_t note,
    struct err *e)
{
	struct signature sig = { .type = "" };
	struct rig r;

	(void)arg;
	if (rig_open(&r, s, 0, true, e) == 0) {
		bool whole = true;

		for (size_t i = 0; i < r.as->member_count; i++)
			whole = whole && r.as->members[i]->io;
		rig_drop(&r);
		if (whole)
			return 0;
	}
	if (note != 0)
		return err_set(e, ERR_CORRUPT, "made, and not usable");
	for (unsigned i = 0; i < sim_disks(s) && !sig.type[0]; i++) {
		struct dev *d = sim_dev(s, i);
		int rc = signature_find(d, &sig, e);

		dev_close(d);
		if (rc != 0)
			return -1;
	}
	if (create(s, 1, 0, sig.type[0] ? sig.uuid : NULL, e) != 0)
		return -1;
	if (rig_open(&r, s, 0, true, e) != 0)
		return -1;
	rig_drop(&r);
	return 0;
}

START_TEST(a_power_cut_leaves_an_array_or_one_that_can_be_made_anew)
{
	struct sim *s = sim_new(2, RIG_DISK);
	struct crash_plan plan = { .name = "create",
		.seed = crash_seed(20240503), .exhaustive = crash_long(),
		.samples = 4, .images_max = crash_long() ? 0 : 12,
		.check = check_usable };
	struct err e;

	sim_record(s);
	ck_assert_int_eq(create(s, 1, 0, NULL, &e), 0);
	sim_note(s, 1);
	sim_record_end(s);
	ck_assert_msg(crash_explore(&plan, s, NULL, &e) == 0, "%s", e.text);
	sim_free(s);
}
END_TEST

Suite *raid_create_suite(void);
Suite *raid_create_suite(void)
{
	Suite *s = suite_create("raid/create");
	TCase *t = tcase_create("create");

	tcase_add_test(t, four_small_members_make_an_array);
	tcase_add_test(t, extents_grow_with_the_largest_member);
	tcase_add_loop_test(t,
	    what_cannot_be_is_refused_and_nothing_is_written, 0, REFUSED);
	tcase_add_test(t, one_disk_in_use_keeps_all_others_untouched);
	tcase_add_loop_test(t, a_disk_that_fails_is_named, 0, 8);
	tcase_add_test(t,
	    a_power_cut_leaves_an_array_or_one_that_can_be_made_anew);
	suite_add_tcase(s, t);
	return s;
}
