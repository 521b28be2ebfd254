/*
 * The index alone: what was written is read back, in order, also after the
 * map had to grow; a hold takes the position away until the release; an entry
 * with a wrong checksum counts as absent.  And the overlay before it: newest
 * value wins, a merge loses nothing.
 */
#include "store/index.h"

#include "store/overlay.h"
#include "tests/support/dev_sim.h"
#include "tests/support/temp_dir.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static char *dir;
static struct index *ix;
static const uint8_t uuid[RAID_UUID_SIZE] = { 1, 2, 3 };

static void setup(void)
{
	struct err e;

	dir = temp_dir_new();
	ck_assert_msg(index_open(&ix, dir, uuid, NULL, &e) == 0, "%s",
	    e.text);
}

static void teardown(void)
{
	index_close(ix);
	temp_dir_remove(dir);
	free(dir);
}

static struct key key_n(uint64_t n)
{
	struct key k = { { 0 } };
	uint64_t seed = n;

	for (size_t i = 4; i < KEY_SIZE; i += 8) {
		uint64_t v = sim_random(&seed);

		memcpy(k.bytes + i, &v, 8);
	}
	return k;
}

static struct entry *entry_n(uint64_t n, uint32_t owners)
{
	struct entry *en = entry_new(owners);

	en->place = (struct place){ .segment = n, .row = 1, .size = 7,
		.last = 64 };
	en->ordinal = (uint32_t)n;
	en->type = OBJECT_CHUNK;
	for (uint32_t i = 0; i < owners; i++)
		en->owners[i] = i + 1;
	en->owner_count = owners;
	return en;
}

static int by_key(const void *a, const void *b)
{
	return memcmp(a, b, KEY_SIZE);
}

/* Entries 0..count, in one transaction. */
static void fill(size_t count, uint32_t owners)
{
	struct index_op *ops = calloc(count, sizeof(*ops));
	struct err e;

	for (size_t i = 0; i < count; i++)
		ops[i] = (struct index_op){ key_n(i), entry_n(i, owners) };
	qsort(ops, count, sizeof(*ops), by_key);
	ck_assert_msg(index_write(ix, ops, count, NULL, &e) == 0, "%s",
	    e.text);
	for (size_t i = 0; i < count; i++)
		free((void *)(uintptr_t)ops[i].entry);
	free(ops);
}

static bool has(uint64_t n)
{
	struct key k = key_n(n);
	struct entry *en;
	struct err e;
	bool found;

	ck_assert_int_eq(index_read_one(ix, &k, &en, &e), 0);
	found = en != NULL;
	if (en) {
		ck_assert_uint_eq(en->place.segment, n);
		ck_assert_uint_eq(en->ordinal, n);
	}
	free(en);
	return found;
}

START_TEST(reads_back_what_was_written)
{
	uint64_t entries, bytes;

	fill(1000, 2);
	for (uint64_t i = 0; i < 1000; i++)
		ck_assert(has(i));
	ck_assert(!has(1000));
	index_size(ix, &entries, &bytes);
	ck_assert_uint_eq(entries, 1000);
	ck_assert_uint_gt(bytes, 60000);
}
END_TEST

START_TEST(the_map_grows)
{
	/* 12 000 entries of 8 KB: above the first map of 64 MiB. */
	fill(12000, 2000);
	ck_assert(has(0) && has(11999));
}
END_TEST

START_TEST(scans_in_order_without_gaps)
{
	struct key keys[64], after, last = { { 0 } };
	struct entry *found[64];
	size_t n = 64, all = 0;
	struct err e;

	fill(1000, 1);
	while (n == 64) {
		ck_assert_int_eq(index_scan(ix, all ? &after : NULL, keys,
		    found, 64, &n, &e), 0);
		for (size_t i = 0; i < n; i++) {
			ck_assert(all + i == 0 || memcmp(last.bytes,
			    keys[i].bytes, KEY_SIZE) < 0);
			last = keys[i];
			free(found[i]);
		}
		all += n;
		after = last;
	}
	ck_assert_uint_eq(all, 1000);
}
END_TEST

static enum index_verdict odd_goes(void *arg, const struct key *k,
    const struct entry *en, struct entry **out)
{
	(void)k;
	(void)arg;
	if (en->ordinal % 2)
		return INDEX_DELETE;
	if (en->ordinal % 4)
		return INDEX_KEEP;
	*out = entry_copy(en, 9);
	return INDEX_REPLACE;
}

START_TEST(revises_every_entry_once)
{
	struct index_revision r = { .judge = odd_goes };
	struct key k = key_n(4);
	struct entry *en;
	struct err e;

	fill(10000, 1);
	ck_assert_int_eq(index_hold(ix, &e), 0);
	while (!r.ended)
		ck_assert_int_eq(index_revise(ix, &r, &e), 0);
	ck_assert_int_eq(index_release(ix, &e), 0);
	ck_assert_uint_eq(r.deleted, 5000);
	ck_assert_uint_eq(r.kept, 2500);
	ck_assert_uint_eq(r.replaced, 2500);
	ck_assert(has(2) && !has(3));
	ck_assert_int_eq(index_read_one(ix, &k, &en, &e), 0);
	ck_assert(entry_owned(en, 1) && entry_owned(en, 9));
	free(en);
}
END_TEST

START_TEST(a_hold_takes_the_position_back)
{
	struct index_mark mark = { .position = { .flush = 7 }, .order = 3 };
	struct array_position p;
	struct err e;

	ck_assert(!index_position(ix, &p));
	ck_assert_int_eq(index_write(ix, NULL, 0, &mark, &e), 0);
	ck_assert_int_eq(index_hold(ix, &e), 0);
	mark.position.flush = 8;
	ck_assert_int_eq(index_write(ix, NULL, 0, &mark, &e), 0);
	if (_i == 1)
		ck_assert_int_eq(index_release(ix, &e), 0);
	index_abandon(ix);
	ck_assert_int_eq(index_open(&ix, dir, uuid, NULL, &e), 0);
	ck_assert_int_eq(index_position(ix, &p), _i == 1);
	if (_i == 1)
		ck_assert_uint_eq(p.flush, 8);
}
END_TEST

START_TEST(is_empty_after_a_reset)
{
	struct index_mark mark = { .position = { .flush = 7 }, .order = 3 };
	struct array_position p;
	struct err e;

	fill(100, 1);
	ck_assert_int_eq(index_write(ix, NULL, 0, &mark, &e), 0);
	ck_assert_int_eq(index_reset(ix, &e), 0);
	ck_assert(!has(1));
	ck_assert(!index_position(ix, &p));
}
END_TEST

START_TEST(an_entry_is_refused_with_any_flipped_bit)
{
	uint8_t raw[ENTRY_BYTES(3)];
	struct entry *en = entry_n(5, 3), *got = NULL;
	struct key k = key_n(5);
	struct err e;

	entry_put(raw, &k, en);
	for (size_t bit = 0; bit < sizeof(raw) * 8; bit++) {
		raw[bit / 8] ^= (uint8_t)(1u << bit % 8);
		ck_assert_int_eq(entry_get(&got, &k, raw, sizeof(raw), &e),
		    -1);
		raw[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	ck_assert_int_eq(entry_get(&got, &k, raw, sizeof(raw), &e), 0);
	ck_assert_uint_eq(got->owner_count, 3);
	k = key_n(6);
	free(got);
	ck_assert_int_eq(entry_get(&got, &k, raw, sizeof(raw), &e), -1);
	free(en);
}
END_TEST

START_TEST(owners_stay_sorted_and_single)
{
	struct entry *en = entry_new(0);
	uint64_t seed = 99;

	for (int i = 0; i < 200; i++) {
		uint32_t domain = (uint32_t)(sim_random(&seed) % 50 + 1);
		struct entry *more = entry_copy(en, domain);

		ck_assert(entry_owned(more, domain));
		for (uint32_t k = 1; k < more->owner_count; k++)
			ck_assert_uint_lt(more->owners[k - 1],
			    more->owners[k]);
		free(en);
		en = more;
	}
	ck_assert_uint_le(en->owner_count, 50);
	ck_assert(!entry_owned(en, 51));
	free(en);
}
END_TEST

START_TEST(an_overlay_merge_loses_nothing)
{
	struct overlay a, o;
	struct key k;
	struct err e;

	overlay_init(&a);
	overlay_init(&o);
	for (uint64_t i = 0; i < 5000; i++) {
		k = key_n(i);
		ck_assert_int_eq(overlay_put(&a, &k, entry_n(1, 0), &e), 0);
	}
	for (uint64_t i = 2500; i < 7500; i++) {
		k = key_n(i);
		ck_assert_int_eq(overlay_put(&o, &k, entry_n(2, 0), &e), 0);
	}
	overlay_merge(&a, &o);
	ck_assert_uint_eq(o.count, 0);
	ck_assert_uint_eq(a.count, 7500);
	for (uint64_t i = 0; i < 7500; i++) {
		k = key_n(i);
		ck_assert_uint_eq(overlay_find(&a, &k)->ordinal,
		    i < 2500 ? 1 : 2);
	}
	overlay_release(&a);
}
END_TEST

Suite *store_index_suite(void);
Suite *store_index_suite(void)
{
	Suite *s = suite_create("store_index");
	TCase *t = tcase_create("index");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, reads_back_what_was_written);
	tcase_add_test(t, the_map_grows);
	tcase_add_test(t, scans_in_order_without_gaps);
	tcase_add_test(t, revises_every_entry_once);
	tcase_add_loop_test(t, a_hold_takes_the_position_back, 0, 2);
	tcase_add_test(t, is_empty_after_a_reset);
	tcase_add_test(t, an_entry_is_refused_with_any_flipped_bit);
	tcase_add_test(t, owners_stay_sorted_and_single);
	tcase_add_test(t, an_overlay_merge_loses_nothing);
	suite_add_tcase(s, t);
	return s;
}
