/* Proves base/clock.h in two zones, with odd years and odd inputs. */
#include "base/clock.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

Suite *base_clock_suite(void);

static void zone(const char *name)
{
	setenv("TZ", name, 1);
	tzset();
}

START_TEST(texts_are_rfc_3339_with_the_local_offset)
{
	char text[CLOCK_TEXT_SIZE];

	zone("CET-1CEST,M3.5.0,M10.5.0/3");
	clock_text(text, 1714713300);
	ck_assert_str_eq(text, "2024-05-03T07:15:00+02:00");
	zone("NST3:30");
	clock_text(text, 1714713300);
	ck_assert_str_eq(text, "2024-05-03T01:45:00-03:30");
	zone("UTC0");
	clock_text_ns(text, 1714713300, 5);
	ck_assert_str_eq(text, "2024-05-03T05:15:00.000000005+00:00");
	clock_text(text, 0);
	ck_assert_str_eq(text, "1970-01-01T00:00:00+00:00");
	clock_text(text, -1);
	ck_assert_str_eq(text, "1969-12-31T23:59:59+00:00");
	clock_text(text, INT64_C(400000000000));
	ck_assert_str_eq(text, "14645-06-30T15:06:40+00:00");
	clock_text_ns(text, INT64_MAX, 999999999);
	ck_assert_str_eq(text, "@9223372036854775807.999999999");
}
END_TEST

static int64_t parsed(const char *text)
{
	int64_t v = 0;
	struct err e;

	ck_assert_msg(clock_parse(&v, text, &e) == 0, "%s", text);
	return v;
}

START_TEST(times_are_read_with_and_without_offset)
{
	zone("CET-1CEST,M3.5.0,M10.5.0/3");
	ck_assert_int_eq(parsed("2024-05-03T07:15:00+02:00"), 1714713300);
	ck_assert_int_eq(parsed("2024-05-03T05:15:00Z"), 1714713300);
	ck_assert_int_eq(parsed("2024-05-03 07:15"), 1714713300);
	ck_assert_int_eq(parsed("2024-05-03T07:15:00"), 1714713300);
	ck_assert_int_eq(parsed("2024-05-03T05:15:00.75Z"), 1714713300);
	ck_assert_int_eq(parsed("2024-05-03"), 1714687200);
	ck_assert_int_eq(parsed("2024-02-29T00:00:00Z"), 1709164800);
	ck_assert_int_eq(parsed("1960-01-01T00:00:00Z"), -315619200);
}
END_TEST

START_TEST(what_is_no_time_is_refused)
{
	static const char *const bad[] = {
		"", "now", "2024", "2024-5-3", "2024-13-01", "2024-00-01",
		"2023-02-29", "2024-04-31", "2024-05-03T24:00", "2024-05-03T",
		"2024-05-03T07:15:61Z", "2024-05-03T07:15:00+", "2024-05-03x",
		"2024-05-03T07:15:00.Z", "2024-05-03T07:15:00+25:00",
		"2024-05-03T07:15:00Zx", "-024-05-03",
	};
	int64_t v;
	struct err e;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(clock_parse(&v, bad[i], &e) == -1, "%s", bad[i]);
		ck_assert_int_eq(e.code, ERR_USAGE);
	}
}
END_TEST

START_TEST(what_is_written_is_read_back)
{
	char text[CLOCK_TEXT_SIZE];

	zone("CET-1CEST,M3.5.0,M10.5.0/3");
	for (int64_t t = 0; t < 4000000000; t += 86400 * 13 + 4711) {
		clock_text(text, t);
		ck_assert_int_eq(parsed(text), t);
	}
}
END_TEST

START_TEST(the_clocks_go)
{
	uint64_t ms = clock_mono_ms();

	ck_assert_int_gt(clock_real_s(), 1700000000);
	ck_assert_int_le(clock_real_ns() / 1000000000 - clock_real_s(), 1);
	ck_assert_uint_ge(clock_mono_ms(), ms);
}
END_TEST

Suite *base_clock_suite(void)
{
	Suite *s = suite_create("clock");
	TCase *t = tcase_create("all");

	tcase_add_test(t, texts_are_rfc_3339_with_the_local_offset);
	tcase_add_test(t, times_are_read_with_and_without_offset);
	tcase_add_test(t, what_is_no_time_is_refused);
	tcase_add_test(t, what_is_written_is_read_back);
	tcase_add_test(t, the_clocks_go);
	suite_add_tcase(s, t);
	return s;
}
