/* Proves base/str.h: what is read, what is refused, what a terminal sees. */
#include "base/buf.h"
#include "base/str.h"

#include <check.h>
#include <string.h>

Suite *base_str_suite(void);

static uint64_t size_of(const char *text)
{
	uint64_t v = 0;
	struct err e;

	ck_assert_msg(str_size(&v, text, &e) == 0, "%s", text);
	return v;
}

START_TEST(sizes_are_read_as_people_write_them)
{
	static const char *const bad[] = {
		"", "K", "-1", "1X", "1KB", "1 K", " 1", "1.", "1.K", "0x10",
		"18446744073709551616", "16777216T", "1KiBs",
	};
	uint64_t v;
	struct err e;

	ck_assert_uint_eq(size_of("0"), 0);
	ck_assert_uint_eq(size_of("4096"), 4096);
	ck_assert_uint_eq(size_of("64K"), 65536);
	ck_assert_uint_eq(size_of("64k"), 65536);
	ck_assert_uint_eq(size_of("64KiB"), 65536);
	ck_assert_uint_eq(size_of("1.5G"), UINT64_C(1610612736));
	ck_assert_uint_eq(size_of("2T"), UINT64_C(2199023255552));
	ck_assert_uint_eq(size_of("0.25M"), 262144);
	ck_assert_uint_eq(size_of("18446744073709551615"), UINT64_MAX);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(str_size(&v, bad[i], &e) == -1, "%s", bad[i]);
		ck_assert_int_eq(e.code, ERR_USAGE);
	}
}
END_TEST

START_TEST(durations_are_read_as_people_write_them)
{
	static const struct { const char *text; uint64_t seconds; } good[] = {
		{ "90", 90 }, { "90s", 90 }, { "5m", 300 }, { "2h", 7200 },
		{ "90d", 7776000 }, { "3w", 1814400 }, { "0", 0 },
	};
	static const char *const bad[] = {
		"", "s", "1y", "1d2h", "-1d", "1.5h", "99999999999999999999w",
	};
	uint64_t v;
	struct err e;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		ck_assert_int_eq(str_duration(&v, good[i].text, &e), 0);
		ck_assert_uint_eq(v, good[i].seconds);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		ck_assert_msg(str_duration(&v, bad[i], &e) == -1, "%s",
		    bad[i]);
}
END_TEST

START_TEST(numbers_are_whole_and_bounded)
{
	uint64_t v;
	struct err e;

	ck_assert_int_eq(str_u64(&v, "65535", 65535, &e), 0);
	ck_assert_uint_eq(v, 65535);
	ck_assert_int_eq(str_u64(&v, "65536", 65535, &e), -1);
	ck_assert_int_eq(str_u64(&v, "9", 5, &e), -1);
	ck_assert_int_eq(str_u64(&v, "12a", 65535, &e), -1);
	ck_assert_int_eq(str_u64(&v, "", 65535, &e), -1);
	ck_assert_int_eq(str_u64(&v, "18446744073709551615", UINT64_MAX, &e),
	    0);
	ck_assert_int_eq(str_u64(&v, "18446744073709551616", UINT64_MAX, &e),
	    -1);
}
END_TEST

START_TEST(hex_goes_both_ways)
{
	uint8_t raw[4];
	char text[9];

	hex_put(text, "\x00\xab\x7f\xff", 4);
	ck_assert_str_eq(text, "00ab7fff");
	ck_assert_int_eq(hex_get(raw, 4, "00AB7fff"), 0);
	ck_assert_mem_eq(raw, "\x00\xab\x7f\xff", 4);
	ck_assert_int_eq(hex_get(raw, 4, "00ab7ff"), -1);
	ck_assert_int_eq(hex_get(raw, 4, "00ab7fff0"), -1);
	ck_assert_int_eq(hex_get(raw, 4, "00ab7ffg"), -1);
	ck_assert_int_eq(hex_get(raw, 4, ""), -1);
}
END_TEST

START_TEST(amounts_fit_their_field)
{
	char text[16];

	str_bytes_human(text, 0);
	ck_assert_str_eq(text, "0 B");
	str_bytes_human(text, 1023);
	ck_assert_str_eq(text, "1023 B");
	str_bytes_human(text, 1024);
	ck_assert_str_eq(text, "1.0 KiB");
	str_bytes_human(text, UINT64_C(1503238553));
	ck_assert_str_eq(text, "1.4 GiB");
	str_bytes_human(text, UINT64_MAX - 1);
	ck_assert_str_eq(text, "16.0 EiB");
	str_bytes_human(text, UINT64_MAX);
	ck_assert_str_eq(text, "-");
}
END_TEST

static void escaped(const char *name, size_t size, const char *want)
{
	struct buf b;

	buf_init(&b, 1000);
	str_escape(&b, name, size);
	buf_u8(&b, 0);
	ck_assert_str_eq((const char *)b.data, want);
	buf_release(&b);
}

START_TEST(names_cannot_play_with_the_terminal)
{
	escaped("plain name", 10, "plain name");
	escaped("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", 14,
	    "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80");
	escaped("a\nb\tc\\", 6, "a\\nb\\tc\\\\");
	escaped("\033[2J", 4, "\\x1B[2J");
	escaped("\x7f\xff\xc3", 3, "\\x7F\\xFF\\xC3");
	escaped("\xc2\x9b" "31m", 5, "\\xC2\\x9B31m");	/* C1 control */
	escaped("\xe2\x80\xae", 3, "\\xE2\\x80\\xAE");	/* right to left */
	escaped("\xed\xa0\x80", 3, "\\xED\\xA0\\x80");	/* a surrogate */
	escaped("\xc0\xaf", 2, "\\xC0\\xAF");		/* overlong */
	escaped("\xf4\x90\x80\x80", 4, "\\xF4\\x90\\x80\\x80");
	escaped("", 0, "");
}
END_TEST

START_TEST(a_cut_never_splits_an_escape_or_a_character)
{
	char out[8];

	str_escape_to(out, sizeof(out), "abc\033[2J", 7);
	ck_assert_str_eq(out, "abc\\x1B");
	str_escape_to(out, 6, "abc\033[2J", 7);
	ck_assert_str_eq(out, "abc");
	str_escape_to(out, 5, "abc\xe2\x82\xac", 6);
	ck_assert_str_eq(out, "abc");
	str_escape_to(out, 1, "abc", 3);
	ck_assert_str_eq(out, "");
}
END_TEST

START_TEST(utf8_is_judged_by_rfc_3629)
{
	ck_assert(str_is_utf8("", 0));
	ck_assert(str_is_utf8("caf\xc3\xa9\033", 6));
	ck_assert(str_is_utf8("\xf4\x8f\xbf\xbf", 4));
	ck_assert(!str_is_utf8("a\0b", 3));
	ck_assert(!str_is_utf8("\xc3", 1));
	ck_assert(!str_is_utf8("\x80", 1));
	ck_assert(!str_is_utf8("\xe0\x80\x80", 3));
	ck_assert(!str_is_utf8("\xf5\x80\x80\x80", 4));
}
END_TEST

Suite *base_str_suite(void)
{
	Suite *s = suite_create("str");
	TCase *t = tcase_create("all");

	tcase_add_test(t, sizes_are_read_as_people_write_them);
	tcase_add_test(t, durations_are_read_as_people_write_them);
	tcase_add_test(t, numbers_are_whole_and_bounded);
	tcase_add_test(t, hex_goes_both_ways);
	tcase_add_test(t, amounts_fit_their_field);
	tcase_add_test(t, names_cannot_play_with_the_terminal);
	tcase_add_test(t, a_cut_never_splits_an_escape_or_a_character);
	tcase_add_test(t, utf8_is_judged_by_rfc_3629);
	suite_add_tcase(s, t);
	return s;
}
