/* Proves base/opt.h and base/conf.h, which share their rows. */
#include "base/conf.h"
#include "base/opt.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

Suite *base_opt_suite(void);

static bool quiet, size_seen;
static const char *name;
static struct opt_list excludes;
static uint64_t size, duration, count;

static const struct opt_row common[] = {
	{ "quiet", 'q', OPT_FLAG, &quiet, NULL, "say nothing", NULL },
	{ 0 }
};
static const struct opt_row own[] = {
	{ "name", 'n', OPT_TEXT, &name, "NAME", "name of it", NULL },
	{ "exclude", 0, OPT_LIST, &excludes, "PAT", "leave out", NULL },
	{ "size", 's', OPT_SIZE, &size, "SIZE", "how large", &size_seen },
	{ "keep", 0, OPT_DURATION, &duration, "DUR", "how long", NULL },
	{ "count", 0, OPT_COUNT, &count, "N", "how many", NULL },
	{ 0 }
};
static const struct opt_row *const tables[] = { common, own, NULL };

static char *argv[32];
static struct err err;

/* The words of `line`, parsed; argv holds what opt_parse() leaves. */
static int parse(const char *line)
{
	static char copy[1000];
	int argc = 0;
	char *save = NULL;

	snprintf(copy, sizeof(copy), "%s", line);
	for (char *w = strtok_r(copy, " ", &save); w;
	    w = strtok_r(NULL, " ", &save))
		argv[argc++] = w;
	return opt_parse(argc, argv, tables, &err);
}

START_TEST(options_stand_before_and_after_words)
{
	ck_assert_int_eq(parse("-q push --name=x a --exclude p1 b "
	    "--exclude=p2 -s4K --keep 2h --count 7"), 3);
	ck_assert_str_eq(argv[0], "push");
	ck_assert_str_eq(argv[1], "a");
	ck_assert_str_eq(argv[2], "b");
	ck_assert(quiet && size_seen);
	ck_assert_str_eq(name, "x");
	ck_assert_uint_eq(excludes.count, 2);
	ck_assert_str_eq(excludes.items[1], "p2");
	ck_assert_uint_eq(size, 4096);
	ck_assert_uint_eq(duration, 7200);
	ck_assert_uint_eq(count, 7);
}
END_TEST

START_TEST(two_dashes_end_the_options)
{
	ck_assert_int_eq(parse("run - -- -q --name x"), 5);
	ck_assert_str_eq(argv[1], "-");
	ck_assert_str_eq(argv[2], "-q");
	ck_assert_str_eq(argv[3], "--name");
	ck_assert(!quiet);
}
END_TEST

START_TEST(letters_combine)
{
	ck_assert_int_eq(parse("-qn me"), 0);
	ck_assert(quiet);
	ck_assert_str_eq(name, "me");
	ck_assert_int_eq(parse("-qqnyou x"), 1);
	ck_assert_str_eq(name, "you");
}
END_TEST

START_TEST(wrong_options_are_named)
{
	static const struct { const char *line, *words; } bad[] = {
		{ "--nothing", "--nothing" }, { "-x", "-x" },
		{ "--name", "--name needs" }, { "-n", "-n needs" },
		{ "--quiet=yes", "takes no value" },
		{ "--size=abc", "--size: \"abc\"" }, { "-s 1X", "-s: " },
		{ "--count -1", "--count" }, { "--nam x", "--nam" },
		{ "---", "-" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(parse(bad[i].line) == -1, "%s", bad[i].line);
		ck_assert_int_eq(err.code, ERR_USAGE);
		ck_assert_msg(strstr(err.text, bad[i].words) != NULL, "%s",
		    err.text);
	}
}
END_TEST

START_TEST(a_list_is_bounded)
{
	excludes.count = 256;
	ck_assert_int_eq(parse("--exclude one-more"), -1);
	ck_assert_uint_eq(excludes.count, 256);
}
END_TEST

START_TEST(help_lists_every_row)
{
	char *text = NULL;
	size_t text_size = 0;
	FILE *f = open_memstream(&text, &text_size);

	opt_help(f, own);
	fclose(f);
	ck_assert_ptr_nonnull(strstr(text, "  -n, --name NAME"));
	ck_assert_ptr_nonnull(strstr(text, "--exclude PAT"));
	ck_assert_ptr_nonnull(strstr(text, "how many\n"));
	free(text);
}
END_TEST

/* ---- conf */

static char text[1000];

static int conf(const char *content)
{
	snprintf(text, sizeof(text), "%s", content);
	return conf_parse(text, strlen(text), "my.conf", own, &err);
}

START_TEST(a_file_gives_values)
{
	ck_assert_int_eq(conf("# a comment\n\n  name = my name \r\n"
	    "exclude=*.o\nexclude = a=b\n\tsize = 1M"), 0);
	ck_assert_str_eq(name, "my name");
	ck_assert_uint_eq(excludes.count, 2);
	ck_assert_str_eq(excludes.items[1], "a=b");
	ck_assert_uint_eq(size, 1 << 20);
	ck_assert(size_seen);
	ck_assert_int_eq(conf(""), 0);
}
END_TEST

START_TEST(the_command_line_wins)
{
	ck_assert_int_eq(parse("--size 5"), 0);
	ck_assert_int_eq(conf("size = 9\nname = n"), 0);
	ck_assert_uint_eq(size, 5);
	ck_assert_str_eq(name, "n");
}
END_TEST

START_TEST(what_is_wrong_in_a_file_is_named_with_its_line)
{
	static const struct { const char *content, *words; } bad[] = {
		{ "\nnothing = 1", "my.conf:2: there is no key nothing" },
		{ "name", "my.conf:1: no \"=\"" },
		{ "= x", "my.conf:1: there is no key" },
		{ "name = a\nname = b", "my.conf:2: given twice: name" },
		{ "# x\n# y\nsize = big", "my.conf:3: size: \"big\"" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(conf(bad[i].content) == -1, "%s",
		    bad[i].content);
		ck_assert_int_eq(err.code, ERR_USAGE);
		ck_assert_msg(strstr(err.text, bad[i].words) != NULL, "%s",
		    err.text);
	}
	text[0] = 'n';
	text[1] = '\0';
	text[2] = '\n';
	ck_assert_int_eq(conf_parse(text, 3, "my.conf", own, &err), -1);
}
END_TEST

START_TEST(flags_in_a_file_are_yes_or_no)
{
	ck_assert_int_eq(opt_store(&common[0], "yes", &err), 0);
	ck_assert(quiet);
	ck_assert_int_eq(opt_store(&common[0], "off", &err), 0);
	ck_assert(!quiet);
	ck_assert_int_eq(opt_store(&common[0], "maybe", &err), -1);
}
END_TEST

Suite *base_opt_suite(void)
{
	Suite *s = suite_create("opt");
	TCase *t = tcase_create("all");

	tcase_add_test(t, options_stand_before_and_after_words);
	tcase_add_test(t, two_dashes_end_the_options);
	tcase_add_test(t, letters_combine);
	tcase_add_test(t, wrong_options_are_named);
	tcase_add_test(t, a_list_is_bounded);
	tcase_add_test(t, help_lists_every_row);
	tcase_add_test(t, a_file_gives_values);
	tcase_add_test(t, the_command_line_wins);
	tcase_add_test(t, what_is_wrong_in_a_file_is_named_with_its_line);
	tcase_add_test(t, flags_in_a_file_are_yes_or_no);
	suite_add_tcase(s, t);
	return s;
}
