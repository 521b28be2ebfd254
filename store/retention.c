/* store/retention.c - see retention.h. */
#include "store/retention.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DAY_S 86400

enum period { HOURLY, DAILY, WEEKLY, MONTHLY, YEARLY, PERIODS };

static const char *const period_names[PERIODS] = {
	"hourly", "daily", "weekly", "monthly", "yearly",
};

struct slots {		/* while going from new to old */
	uint32_t left, used;
	int64_t last;		/* number of the last period that was kept */
};

static int64_t floor_div(int64_t a, int64_t b)
{
	return a / b - (a % b < 0);
}

/* Months since year 0 of the proleptic Gregorian calendar, from days since
 * 1970-01-01 (algorithm "civil from days", H. Hinnant). */
static int64_t month_of(int64_t day)
{
	int64_t z = day + 719468, era = floor_div(z, 146097);
	int64_t doe = z - era * 146097;
	int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	int64_t mp = (5 * doy + 2) / 153;	/* 0 = March */

	return (yoe + era * 400) * 12 + mp + 2;
}

/* The number of the period this time lies in, ascending with time. */
static int64_t period_of(enum period p, int64_t local_s)
{
	int64_t day = floor_div(local_s, DAY_S);

	switch (p) {
	case HOURLY:
		return floor_div(local_s, 3600);
	case DAILY:
		return day;
	case WEEKLY:		/* day 0 was a Thursday */
		return floor_div(day + 3, 7);
	case MONTHLY:
		return month_of(day);
	default:
		return floor_div(month_of(day), 12);
	}
}

static void keep_for(struct retention_item *it, const char *rule,
    uint64_t number)
{
	size_t used = it->keep ? strlen(it->reason) : 0;
	const char *comma = it->keep ? ", " : "";

	if (number > 0)
		snprintf(it->reason + used, sizeof(it->reason) - used,
		    "%s%s %" PRIu64, comma, rule, number);
	else
		snprintf(it->reason + used, sizeof(it->reason) - used,
		    "%s%s", comma, rule);
	it->keep = true;
}

bool retention_has_rules(const struct retention *r)
{
	return r->last || r->hourly || r->daily || r->weekly || r->monthly ||
	    r->yearly || r->within_s;
}

static void rules_apply(const struct retention *r,
    struct retention_item *items, size_t count, bool incomplete)
{
	struct slots slots[PERIODS] = {
		{ r->hourly, 0, 0 }, { r->daily, 0, 0 }, { r->weekly, 0, 0 },
		{ r->monthly, 0, 0 }, { r->yearly, 0, 0 },
	};
	int64_t newest = 0;
	uint32_t seen = 0;

	for (size_t i = count; i-- > 0;) {
		struct retention_item *it = &items[i];

		if (it->incomplete != incomplete)
			continue;
		if (seen++ == 0)
			newest = it->commit_s;
		if (seen <= r->last)
			keep_for(it, "last", seen);
		for (int p = 0; p < PERIODS; p++) {
			int64_t n = period_of((enum period)p,
			    it->commit_s + it->zone_s);

			if (slots[p].left == 0 ||
			    (slots[p].used > 0 && slots[p].last == n))
				continue;
			slots[p].left--;
			slots[p].last = n;
			keep_for(it, period_names[p], ++slots[p].used);
		}
		if (r->within_s > 0 && (it->commit_s >= newest ||
		    (uint64_t)(newest - it->commit_s) <= r->within_s))
			keep_for(it, "within", 0);
	}
}

void retention_decide(const struct retention *rules,
    struct retention_item *items, size_t count, int64_t now_s)
{
	for (size_t i = 0; i < count; i++) {
		items[i].keep = false;
		snprintf(items[i].reason, sizeof(items[i].reason),
		    "no rule keeps it");
	}
	if (retention_has_rules(rules)) {
		rules_apply(rules, items, count, false);
		rules_apply(rules, items, count, true);
	}
	for (size_t i = 0; i < count; i++) {
		int64_t age = now_s - items[i].commit_s;

		if (!retention_has_rules(rules))
			keep_for(&items[i], "keep all", 0);
		else if (rules->min_age_s > 0 &&
		    (age < 0 || (uint64_t)age < rules->min_age_s))
			keep_for(&items[i], "younger than the minimum age",
			    0);
	}
}
