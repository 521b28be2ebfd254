#include "base/clock.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int64_t clock_real_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_real_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec;
}

uint64_t clock_mono_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t clock_boot_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void text(char out[static CLOCK_TEXT_SIZE], int64_t seconds,
    const char *fraction)
{
	time_t when = (time_t)seconds;
	char rest[16];
	struct tm tm;
	unsigned offset;

	if (!localtime_r(&when, &tm)) {		/* the year needs > 32 bits */
		snprintf(out, CLOCK_TEXT_SIZE, "@%" PRId64 "%s", seconds,
		    fraction);
		return;
	}
	strftime(rest, sizeof(rest), "-%m-%dT%H:%M:%S", &tm);
	offset = (unsigned)labs(tm.tm_gmtoff) / 60 % (24 * 60);
	snprintf(out, CLOCK_TEXT_SIZE, "%04lld%s%s%c%02u:%02u",
	    tm.tm_year + 1900LL, rest, fraction,
	    tm.tm_gmtoff < 0 ? '-' : '+', offset / 60, offset % 60);
}

void clock_text(char out[static CLOCK_TEXT_SIZE], int64_t seconds)
{
	text(out, seconds, "");
}

void clock_text_ns(char out[static CLOCK_TEXT_SIZE], int64_t seconds,
    uint32_t ns)
{
	char fraction[16];

	snprintf(fraction, sizeof(fraction), ".%09" PRIu32,
	    ns % 1000000000);
	text(out, seconds, fraction);
}

/* `count` digits at *at; moves behind them. */
static bool number(const char **at, int count, int *out)
{
	int v = 0;

	for (int i = 0; i < count; i++) {
		char c = (*at)[i];

		if (c < '0' || c > '9')
			return false;
		v = v * 10 + (c - '0');
	}
	*at += count;
	*out = v;
	return true;
}

static bool literal(const char **at, char c)
{
	if (**at != c)
		return false;
	(*at)++;
	return true;
}

static bool parse_date(const char **at, struct tm *tm)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31,
		30, 31 };
	int year, month, day;
	bool leap;

	if (!number(at, 4, &year) || !literal(at, '-') ||
	    !number(at, 2, &month) || !literal(at, '-') ||
	    !number(at, 2, &day) || month < 1 || month > 12 || day < 1)
		return false;
	leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
	if (day > days[month - 1] + (month == 2 && leap))
		return false;
	tm->tm_year = year - 1900;
	tm->tm_mon = month - 1;
	tm->tm_mday = day;
	return true;
}

static bool parse_time(const char **at, struct tm *tm)
{
	if (!number(at, 2, &tm->tm_hour) || !literal(at, ':') ||
	    !number(at, 2, &tm->tm_min) || tm->tm_hour > 23 ||
	    tm->tm_min > 59)
		return false;
	if (!literal(at, ':'))
		return true;
	if (!number(at, 2, &tm->tm_sec) || tm->tm_sec > 60)
		return false;
	if (literal(at, '.')) {		/* fractions are read and dropped */
		int digit;

		if (!number(at, 1, &digit))
			return false;
		while (number(at, 1, &digit))
			continue;
	}
	return true;
}

/* "Z", "+02:00", "-0530" or nothing: *local stays true. */
static bool parse_offset(const char **at, bool *local, int *offset)
{
	int hours, minutes, sign;

	if (**at == '\0')
		return true;
	*local = false;
	*offset = 0;
	if (literal(at, 'Z') || literal(at, 'z'))
		return true;
	if (**at != '+' && **at != '-')
		return false;
	sign = *(*at)++ == '-' ? -1 : 1;
	if (!number(at, 2, &hours))
		return false;
	literal(at, ':');
	if (!number(at, 2, &minutes) || hours > 23 || minutes > 59)
		return false;
	*offset = sign * (hours * 60 + minutes) * 60;
	return true;
}

int clock_parse(int64_t *seconds, const char *text_in, struct err *e)
{
	const char *at = text_in;
	struct tm tm = { .tm_isdst = -1 };
	bool local = true;
	int offset = 0;
	bool good;

	good = parse_date(&at, &tm);
	if (good && *at != '\0')
		good = (literal(&at, 'T') || literal(&at, 't') ||
		    literal(&at, ' ')) && parse_time(&at, &tm) &&
		    parse_offset(&at, &local, &offset);
	if (!good || *at != '\0')
		return err_set(e, ERR_USAGE, "\"%s\" is not a time such as "
		    "2024-05-03, 2024-05-03T07:15 or "
		    "2024-05-03T07:15:00+02:00", text_in);
	*seconds = local ? mktime(&tm) : timegm(&tm) - offset;
	return 0;
}
