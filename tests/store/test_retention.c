/*
 * Retention.  Method: hand-made cases (a long gap, a night with two 01:30s,
 * partial snapshots), and seeded random histories compared with a naive model
 * that asks, for each snapshot, how many newer ones of other periods there
 * are.
 */
#include "store/retention.h"

#include "tests/support/dev_sim.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DAY 86400
#define MAX 120

static struct retention_item items[MAX];

static void fill(size_t count, int64_t first, int64_t step)
{
	memset(items, 0, sizeof(items));
	for (size_t i = 0; i < count; i++)
		items[i].commit_s = first + (int64_t)i * step;
}

static size_t kept(size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++)
		n += items[i].keep;
	return n;
}

START_TEST(no_rule_keeps_all)
{
	struct retention r = { .min_age_s = 100 };

	fill(50, 1700000000, DAY);
	retention_decide(&r, items, 50, 1900000000);
	ck_assert_uint_eq(kept(50), 50);
	ck_assert_str_eq(items[0].reason, "keep all");
}
END_TEST

START_TEST(last_keeps_the_newest_by_commit_order)
{
	struct retention r = { .last = 2 };

	fill(5, 1700000000, 0);		/* five in one second */
	retention_decide(&r, items, 5, 1700000001);
	ck_assert_uint_eq(kept(5), 2);
	ck_assert(items[3].keep && items[4].keep);
	ck_assert_str_eq(items[4].reason, "last 1");
	ck_assert_str_eq(items[3].reason, "last 2");
	ck_assert_str_eq(items[0].reason, "no rule keeps it");
}
END_TEST

/* Thirty dailies, forty days off, one push: fourteen stay. */
START_TEST(a_gap_does_not_use_up_days)
{
	struct retention r = { .daily = 14 };

	fill(31, 1700000000, DAY);
	items[30].commit_s += 40 * DAY;
	retention_decide(&r, items, 31, 1800000000);
	ck_assert_uint_eq(kept(31), 14);
	ck_assert(items[30].keep && items[29].keep && items[17].keep);
	ck_assert(!items[16].keep);
}
END_TEST

START_TEST(the_newest_of_a_month_stays)
{
	struct retention r = { .monthly = 12 };

	fill(2, 1700000000, DAY);	/* both in November 2023 */
	retention_decide(&r, items, 2, 1800000000);
	ck_assert(!items[0].keep && items[1].keep);
	ck_assert_str_eq(items[1].reason, "monthly 1");
}
END_TEST

START_TEST(partial_ones_push_nothing_out)
{
	struct retention r = { .last = 3, .daily = 2 };

	fill(14, 1700000000, DAY);
	for (size_t i = 4; i < 14; i++)
		items[i].incomplete = true;
	retention_decide(&r, items, 14, 1800000000);
	ck_assert(items[1].keep && items[2].keep && items[3].keep);
	ck_assert(!items[0].keep);
	ck_assert(items[13].keep && items[11].keep && !items[10].keep);
}
END_TEST

START_TEST(young_ones_stay)
{
	struct retention r = { .last = 1, .min_age_s = 3 * DAY };

	fill(10, 1700000000, DAY);
	retention_decide(&r, items, 10, 1700000000 + 10 * DAY);
	ck_assert_uint_eq(kept(10), 2);
	ck_assert_str_eq(items[8].reason, "younger than the minimum age");
}
END_TEST

START_TEST(within_counts_from_the_newest)
{
	struct retention r = { .within_s = 5 * DAY };

	fill(10, 1700000000, DAY);
	retention_decide(&r, items, 10, 1900000000);
	ck_assert_uint_eq(kept(10), 6);
}
END_TEST

/* 2024-10-27 in Rome: 01:30 UTC+2 is 23:30Z, the second 02:30 is UTC+1. */
START_TEST(days_are_those_of_the_clients_zone)
{
	struct retention r = { .daily = 10 };

	fill(2, 1729978200, 3600);	/* 21:30Z and 22:30Z on the 26th */
	items[0].zone_s = items[1].zone_s = 7200;
	retention_decide(&r, items, 2, 1800000000);
	ck_assert_uint_eq(kept(2), 2);	/* 23:30 and 00:30 */
	items[0].zone_s = items[1].zone_s = 0;
	retention_decide(&r, items, 2, 1800000000);
	ck_assert_uint_eq(kept(2), 1);
}
END_TEST

/* ---- the naive model ---------------------------------------------------- */

static void period_name(char *out, size_t size, int kind,
    const struct retention_item *it)
{
	time_t t = (time_t)(it->commit_s + it->zone_s);
	struct tm tm;
	size_t n;

	gmtime_r(&t, &tm);
	if (kind == 0)
		n = strftime(out, size, "%Y-%m-%d %H", &tm);
	else if (kind == 1)
		n = strftime(out, size, "%Y-%m-%d", &tm);
	else if (kind == 2)
		n = strftime(out, size, "%G %V", &tm);
	else if (kind == 3)
		n = strftime(out, size, "%Y-%m", &tm);
	else
		n = strftime(out, size, "%Y", &tm);
	ck_assert_uint_gt(n, 0);
}

/* Is `i` the newest of its period, with fewer than n newer periods? */
static bool model_period(size_t count, size_t i, int kind, uint32_t n)
{
	char mine[64], his[64], last[64] = "";
	uint32_t newer = 0;

	period_name(mine, sizeof(mine), kind, &items[i]);
	for (size_t k = count - 1; k > i; k--) {
		if (items[k].incomplete != items[i].incomplete)
			continue;
		period_name(his, sizeof(his), kind, &items[k]);
		if (strcmp(his, mine) == 0)
			return false;
		newer += strcmp(his, last) != 0;
		memcpy(last, his, sizeof(last));
	}
	return newer < n;
}

static bool model(const struct retention *r, size_t count, size_t i)
{
	const uint32_t n[] = { r->hourly, r->daily, r->weekly, r->monthly,
		r->yearly };
	uint32_t newer = 0;

	for (size_t k = i + 1; k < count; k++)
		newer += items[k].incomplete == items[i].incomplete;
	if (newer < r->last)
		return true;
	for (int kind = 0; kind < 5; kind++)
		if (model_period(count, i, kind, n[kind]))
			return true;
	return false;
}

START_TEST(agrees_with_a_naive_model)
{
	uint64_t seed = 4711 + (uint64_t)_i;
	int64_t at = 946684800 + (int64_t)(sim_random(&seed) % 800000000);
	size_t count = sim_random(&seed) % MAX;
	struct retention r = {
		.last = (uint32_t)(sim_random(&seed) % 4),
		.hourly = (uint32_t)(sim_random(&seed) % 5),
		.daily = (uint32_t)(sim_random(&seed) % 8),
		.weekly = (uint32_t)(sim_random(&seed) % 5),
		.monthly = (uint32_t)(sim_random(&seed) % 13),
		.yearly = (uint32_t)(sim_random(&seed) % 3),
	};
	int64_t steps[] = { 600, 7000, 40000, 400000, 4000000 };

	memset(items, 0, sizeof(items));
	for (size_t i = 0; i < count; i++) {
		at += (int64_t)(sim_random(&seed) %
		    (uint64_t)steps[sim_random(&seed) % 5]);
		items[i].commit_s = at;
		items[i].zone_s = 7200;
		items[i].incomplete = sim_random(&seed) % 7 == 0;
	}
	if (!retention_has_rules(&r))
		return;
	retention_decide(&r, items, count, at);
	for (size_t i = 0; i < count; i++)
		ck_assert_msg(items[i].keep == model(&r, count, i),
		    "seed %d, snapshot %zu of %zu: %s", 4711 + _i, i, count,
		    items[i].reason);
}
END_TEST

Suite *store_retention_suite(void);
Suite *store_retention_suite(void)
{
	Suite *s = suite_create("store_retention");
	TCase *t = tcase_create("retention");

	tcase_add_test(t, no_rule_keeps_all);
	tcase_add_test(t, last_keeps_the_newest_by_commit_order);
	tcase_add_test(t, a_gap_does_not_use_up_days);
	tcase_add_test(t, the_newest_of_a_month_stays);
	tcase_add_test(t, partial_ones_push_nothing_out);
	tcase_add_test(t, young_ones_stay);
	tcase_add_test(t, within_counts_from_the_newest);
	tcase_add_test(t, days_are_those_of_the_clients_zone);
	tcase_add_loop_test(t, agrees_with_a_naive_model, 0, 200);
	suite_add_tcase(s, t);
	return s;
}
