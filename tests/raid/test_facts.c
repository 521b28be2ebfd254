/*
 * Facts: set, replace, delete, find, each by prefix, dump and replay.  Method:
 * small cases by hand; seeded changes against a plain table.
 */
#include "base/le.h"
#include "raid/array.h"
#include "raid/facts.h"
#include "raid/fmt_record.h"
#include "raid/log.h"
#include "tests/support/dev_sim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set(struct facts *f, const char *key, const char *value)
{
	struct fact *fact;
	struct err e;

	ck_assert_int_eq(facts_reserve(f, 1, &e), 0);
	ck_assert_int_eq(fact_new(&fact, key, strlen(key), value,
	    strlen(value), &e), 0);
	facts_set(f, fact);
}

static bool holds(const struct facts *f, const char *key, const char *value)
{
	const struct fact *t = facts_find(f, key, strlen(key));

	return t && t->value_size == strlen(value) &&
	    memcmp(t->bytes + t->key_size, value, t->value_size) == 0;
}

START_TEST(a_fact_can_be_set_replaced_and_deleted)
{
	struct facts *f = facts_new();

	set(f, "b", "1");
	set(f, "a", "22");
	ck_assert(holds(f, "a", "22") && holds(f, "b", "1"));
	set(f, "a", "");
	ck_assert(holds(f, "a", ""));
	ck_assert_uint_eq(facts_bytes(f), 3);
	facts_delete(f, "a", 1);
	facts_delete(f, "zz", 2);
	ck_assert_ptr_null(facts_find(f, "a", 1));
	ck_assert_uint_eq(facts_count(f), 1);
	facts_free(f);
	facts_free(NULL);
}
END_TEST

static int collect(void *arg, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size)
{
	char *out = arg;

	(void)value;
	(void)value_size;
	snprintf(out + strlen(out), 64 - strlen(out), "%.*s ", (int)key_size,
	    (const char *)key);
	return strcmp(out, "c/1 c/2 c/3 ") == 0 ? 7 : 0;
}

START_TEST(a_prefix_gives_its_keys_in_order)
{
	struct facts *f = facts_new();
	char out[64] = "";

	set(f, "b/1", "x");
	set(f, "a/2", "x");
	set(f, "b", "x");
	set(f, "a/10", "x");
	set(f, "a/1", "x");
	ck_assert_int_eq(facts_each(f, "a/", 2, collect, out), 0);
	ck_assert_str_eq(out, "a/1 a/10 a/2 ");
	out[0] = 0;
	ck_assert_int_eq(facts_each(f, NULL, 0, collect, out), 0);
	ck_assert_str_eq(out, "a/1 a/10 a/2 b b/1 ");
	out[0] = 0;
	ck_assert_int_eq(facts_each(f, "c", 1, collect, out), 0);
	ck_assert_str_eq(out, "");
	set(f, "c/3", "x");
	set(f, "c/2", "x");
	set(f, "c/1", "x");
	set(f, "c/4", "x");
	ck_assert_int_eq(facts_each(f, "c/", 2, collect, out), 7);
	facts_free(f);
}
END_TEST

START_TEST(limits_are_kept)
{
	static const uint8_t big[RAID_VALUE_MAX + 1];
	struct fact *fact;
	struct err e;

	ck_assert_int_eq(fact_new(&fact, big, RAID_KEY_MAX, big,
	    RAID_VALUE_MAX, &e), 0);
	free(fact);
	ck_assert_int_eq(fact_new(&fact, big, RAID_KEY_MAX + 1, big, 0, &e),
	    -1);
	ck_assert_int_eq(fact_new(&fact, big, 0, big, 0, &e), -1);
	ck_assert_int_eq(fact_new(&fact, big, 1, big, RAID_VALUE_MAX + 1,
	    &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT);
}
END_TEST

static int replay_into(void *arg, const struct log_rec *r, struct err *e)
{
	return facts_replay(arg, r, e);
}

static int same(void *arg, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size)
{
	const struct fact *t = facts_find(arg, key, key_size);

	return !t || t->value_size != value_size ||
	    memcmp(t->bytes + key_size, value, value_size) != 0;
}

START_TEST(seeded_changes_agree_with_a_table_and_survive_a_dump)
{
	uint64_t state = 20240503;
	struct facts *f = facts_new(), *again = facts_new();
	char table[100] = "", key[8], value[8];
	unsigned count = 0;
	struct err e;

	for (unsigned i = 0; i < 20000; i++) {
		uint64_t d = sim_random(&state);
		unsigned k = (unsigned)(d % 100);

		snprintf(key, sizeof(key), "%02u", k);
		table[k] = (char)(d >> 8 & 3 ? 'a' + (d >> 16) % 26 : 0);
		snprintf(value, sizeof(value), "%c", table[k]);
		if (table[k])
			set(f, key, value);
		else
			facts_delete(f, key, 2);
	}
	for (unsigned k = 0; k < 100; k++) {
		snprintf(key, sizeof(key), "%02u", k);
		snprintf(value, sizeof(value), "%c", table[k]);
		count += table[k] != 0;
		ck_assert(table[k] ? holds(f, key, value) :
		    !facts_find(f, key, 2));
	}
	ck_assert_uint_eq(facts_count(f), count);
	ck_assert_int_eq(facts_dump(f, replay_into, again, &e), 0);
	ck_assert_uint_eq(facts_count(again), count);
	ck_assert_uint_eq(facts_bytes(again), facts_bytes(f));
	ck_assert_int_eq(facts_each(f, NULL, 0, same, again), 0);
	facts_free(f);
	facts_free(again);
}
END_TEST

Suite *raid_facts_suite(void);
Suite *raid_facts_suite(void)
{
	Suite *s = suite_create("raid/facts");
	TCase *t = tcase_create("facts");

	tcase_add_test(t, a_fact_can_be_set_replaced_and_deleted);
	tcase_add_test(t, a_prefix_gives_its_keys_in_order);
	tcase_add_test(t, limits_are_kept);
	tcase_add_test(t,
	    seeded_changes_agree_with_a_table_and_survive_a_dump);
	suite_add_tcase(s, t);
	return s;
}
