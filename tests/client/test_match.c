/*
 * Patterns: a table of pattern, path and answer for each kind; the last one
 * decides; what cannot match below is known; odd globs end.
 */
#include "client/match.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

Suite *client_match_suite(void);

static const struct {
	const char *pattern, *path;
	bool is_dir, yes;
} table[] = {
	{ "d", "/s/d", true, true },
	{ "d", "/s/d", false, true },
	{ "d", "/d", false, true },
	{ "d", "/s/dd", false, false },
	{ "d/", "/s/d", true, true },
	{ "d/", "/s/d", false, false },
	{ "/s/d", "/s/d", false, true },
	{ "/s/d", "/x/s/d", false, false },
	{ "/s/d/", "/s/d", true, true },
	{ "./d", "/s/d", false, true },	/* the root is /s */
	{ "./d", "/s/x/d", false, false },
	{ "./x/d", "/s/x/d", false, true },
	{ "*/d", "/s/x/d", false, true },
	{ "*/d", "/d", false, false },
	{ "x/d", "/a/b/x/d", false, true },
	{ "x/d", "/a/x/b/d", false, false },
	{ "x/**/d", "/a/x/b/c/d", false, true },
	{ "x/**/d", "/a/x/d", false, true },
	{ "/a/**", "/a/b", false, true },
	{ "/a/**", "/a", true, false },
	{ "**/f", "/f", false, true },
	{ "*.o", "/s/a.o", false, true },
	{ "*.o", "/s/.o", false, true },
	{ "*.o", "/s/a.oo", false, false },
	{ "?.c", "/s/a.c", false, true },
	{ "?.c", "/s/ab.c", false, false },
	{ "[a-c]x", "/bx", false, true },
	{ "[!a-c]x", "/bx", false, false },
	{ "[]]x", "/]x", false, true },
	{ "[x", "/[x", false, true },
	{ "a\\*b", "/a*b", false, true },
	{ "a\\*b", "/aXb", false, false },
	{ "a*b*c", "/aXbXbXc", false, true },
	{ "*", "/anything", false, true },
	{ "\xff*", "/\xff\xfe", false, true },
};

START_TEST(each_kind_of_pattern_matches_what_it_says)	/* _i: the row */
{
	size_t size = strlen(table[_i].path);
	struct match *m;
	struct err e;

	ck_assert_int_eq(match_new(&m, &e), 0);
	ck_assert_int_eq(match_add(m, table[_i].pattern, "test", &e), 0);
	ck_assert_msg((match_path(m, table[_i].path, size, 2,
	    table[_i].is_dir) == MATCH_YES) == table[_i].yes,
	    "%s and %s", table[_i].pattern, table[_i].path);
	match_free(m);
}
END_TEST

START_TEST(the_last_pattern_that_matches_decides)
{
	struct match *m;
	struct err e;

	ck_assert_int_eq(match_new(&m, &e), 0);
	ck_assert_int_eq(match_add(m, "*.o", "test", &e), 0);
	ck_assert_int_eq(match_add(m, "!keep.o", "test", &e), 0);
	ck_assert_int_eq(match_add(m, "/x/keep.o", "test", &e), 0);
	ck_assert_int_eq(match_path(m, "/a.o", 4, 0, false), MATCH_YES);
	ck_assert_int_eq(match_path(m, "/keep.o", 7, 0, false), MATCH_BACK);
	ck_assert_int_eq(match_path(m, "/x/keep.o", 9, 0, false), MATCH_YES);
	ck_assert_int_eq(match_path(m, "/a.c", 4, 0, false), MATCH_NONE);
	match_free(m);
}
END_TEST

START_TEST(patterns_that_never_matched_are_known)
{
	struct match *m;
	size_t pos = 0;
	struct err e;

	ck_assert_int_eq(match_new(&m, &e), 0);
	ck_assert_int_eq(match_add(m, "used", "test", &e), 0);
	ck_assert_int_eq(match_add(m, "unused", "test", &e), 0);
	ck_assert_int_eq(match_add(m, "silent", NULL, &e), 0);
	ck_assert_int_eq(match_path(m, "/used", 5, 0, false), MATCH_YES);
	ck_assert_str_eq(match_unused(m, &pos), "unused");
	ck_assert_ptr_null(match_unused(m, &pos));
	match_free(m);
}
END_TEST

START_TEST(directories_that_can_hold_no_match_are_known)
{
	struct match *m;
	struct err e;

	ck_assert_int_eq(match_new(&m, &e), 0);
	ck_assert_int_eq(match_add(m, "/home/u/x", "test", &e), 0);
	ck_assert(match_below(m, "/", 1));
	ck_assert(match_below(m, "/home", 5));
	ck_assert(match_below(m, "/home/u", 7));
	ck_assert(!match_below(m, "/etc", 4));
	ck_assert(!match_below(m, "/home/v", 7));
	ck_assert_int_eq(match_add(m, "*.txt", "test", &e), 0);
	ck_assert(match_below(m, "/etc", 4));
	match_free(m);
}
END_TEST

START_TEST(empty_and_endless_patterns_are_refused)
{
	char *text = malloc(100000);
	struct match *m;
	struct err e;

	ck_assert_ptr_nonnull(text);
	ck_assert_int_eq(match_new(&m, &e), 0);
	ck_assert_int_eq(match_add(m, "", "test", &e), -1);
	ck_assert_int_eq(e.code, ERR_USAGE);
	ck_assert_int_eq(match_add(m, "/", "test", &e), -1);
	memset(text, 'a', 99999);
	text[99999] = '\0';
	ck_assert_int_eq(match_add(m, text, "test", &e), -1);
	for (size_t i = 0; i < 2000; i += 2)
		memcpy(text + i, "a/", 2);
	text[2000] = '\0';
	ck_assert_int_eq(match_add(m, text, "test", &e), -1);
	ck_assert(match_empty(m));
	match_free(m);
	free(text);
}
END_TEST

START_TEST(many_stars_take_no_time)
{
	uint8_t name[255];

	memset(name, 'a', sizeof(name));
	ck_assert(!match_glob("a*a*a*a*a*a*a*a*a*a*a*a*b", 25, name,
	    sizeof(name)));
}
END_TEST

Suite *client_match_suite(void)
{
	Suite *s = suite_create("client/match");
	TCase *t = tcase_create("match");

	tcase_add_loop_test(t, each_kind_of_pattern_matches_what_it_says, 0,
	    sizeof(table) / sizeof(table[0]));
	tcase_add_test(t, the_last_pattern_that_matches_decides);
	tcase_add_test(t, patterns_that_never_matched_are_known);
	tcase_add_test(t, directories_that_can_hold_no_match_are_known);
	tcase_add_test(t, empty_and_endless_patterns_are_refused);
	tcase_add_test(t, many_stars_take_no_time);
	suite_add_tcase(s, t);
	return s;
}
