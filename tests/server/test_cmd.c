/*
 * The command line: the table of commands is sound, options may stand anywhere,
 * what is wrong is ERR_USAGE, and the manual page knows every command and every
 * option.  Method: walk the table; parse lines as a shell would give them.
 */
#include "server/cmd.h"

#include "base/buf.h"
#include "base/io.h"
#include "raid/array.h"

#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

Suite *server_cmd_suite(void);

#define MANUAL "docs/man/bkserver.8"

/* Parse the words of `line` (split at blanks). */
static int parse(struct cmd_call *call, char *line, struct err *e)
{
	static _Thread_local char *argv[32];
	int argc = 0;

	for (char *at = line, *word; (word = strsep(&at, " ")) != NULL;)
		if (*word && argc < 31)
			argv[argc++] = word;
	argv[argc] = NULL;
	return cmd_parse(call, argc, argv, e);
}

static void expect(const char *line, const char *name, int count)
{
	char copy[256];
	struct cmd_call call;
	struct err e = { .code = ERR_NONE };

	snprintf(copy, sizeof(copy), "%s", line);
	ck_assert_msg(parse(&call, copy, &e) == 0, "%s: %s", line, e.text);
	ck_assert_str_eq(call.cmd->name, name);
	ck_assert_int_eq(call.count, count);
	cmd_call_release(&call);
}

static void refuse(const char *line, const char *says)
{
	char copy[256];
	struct cmd_call call;
	struct err e = { .code = ERR_NONE };

	snprintf(copy, sizeof(copy), "%s", line);
	ck_assert_msg(parse(&call, copy, &e) == -1, "taken: %s", line);
	ck_assert_int_eq(e.code, ERR_USAGE);
	ck_assert_msg(strstr(e.text, says) != NULL, "%s: %s", line, e.text);
	cmd_call_release(&call);
}

START_TEST(rows_are_sound)
{
	for (size_t i = 0; cmds[i]; i++) {
		const struct cmd *c = cmds[i];

		ck_assert(c->run != NULL);
		ck_assert_ptr_nonnull(c->synopsis ? c->synopsis : "");
		ck_assert_msg(c->summary[strlen(c->summary) - 1] != '.',
		    "%s: a full stop", c->name);
		for (const struct opt_row *r = c->rows; r && r->name; r++) {
			ck_assert_msg(r->value != NULL, "%s --%s: the first "
			    "field is no option", c->name, r->name);
			ck_assert_uint_lt((uintptr_t)r->value,
			    c->values_size);
			ck_assert_msg((r->arg == NULL) ==
			    (r->kind == OPT_FLAG), "%s --%s", c->name,
			    r->name);
		}
	}
}
END_TEST

START_TEST(an_option_has_the_same_kind_everywhere)
{
	for (size_t i = 0; cmds[i]; i++)
		for (const struct opt_row *r = cmds[i]->rows; r && r->name;
		    r++)
			for (size_t k = 0; k < i; k++)
				for (const struct opt_row *o = cmds[k]->rows;
				    o && o->name; o++)
					ck_assert_msg(strcmp(r->name,
					    o->name) != 0 ||
					    (r->kind == OPT_FLAG) ==
					    (o->kind == OPT_FLAG),
					    "--%s", r->name);
}
END_TEST

START_TEST(words_find_their_command)
{
	expect("status", "status", 0);
	expect("snapshots web1", "snapshots", 1);
	expect("client add web1 --key k.pub", "client add", 1);
	expect("client key add web1 --key k.pub", "client key add", 1);
	expect("client key remove web1 SHA256:x", "client key remove", 2);
	expect("array status", "array status", 0);
	expect("init a b c", "init", 3);
}
END_TEST

START_TEST(options_stand_before_or_after)
{
	expect("-d /x status", "status", 0);
	expect("status -d /x", "status", 0);
	expect("--dir=/x -v status --json", "status", 0);
	expect("--parity 2 init a b c", "init", 3);
	expect("--key k.pub client add web1", "client add", 1);
	expect("client --key k.pub add web1", "client add", 1);
	expect("init --size 1G -- -a -b", "init", 2);
}
END_TEST

START_TEST(values_arrive)
{
	char line[] = "-d /x -q status";
	struct cmd_call call;
	struct err e;

	ck_assert_int_eq(parse(&call, line, &e), 0);
	ck_assert_str_eq(call.globals.dir, "/x");
	ck_assert(call.globals.quiet && !call.globals.verbose);
	cmd_call_release(&call);
}
END_TEST

START_TEST(refuses_what_is_wrong)
{
	refuse("", "which command");
	refuse("frobnicate", "frobnicate");
	refuse("client", "add");
	refuse("client key", "add");
	refuse("array", "scrub");
	refuse("client add", "usage");
	refuse("init", "usage");
	refuse("status extra", "usage");
	refuse("status --nonsense", "nonsense");
	refuse("init --size parsecs a b", "size");
	refuse("init --size", "size");
}
END_TEST

START_TEST(help_needs_no_words)
{
	char line[] = "client add --help", alone[] = "--help";
	struct cmd_call call;
	struct err e;

	ck_assert_int_eq(parse(&call, line, &e), 0);
	ck_assert(call.globals.help);
	ck_assert_str_eq(call.cmd->name, "client add");
	cmd_call_release(&call);
	ck_assert_int_eq(parse(&call, alone, &e), 0);
	ck_assert_ptr_null(call.cmd);
	cmd_call_release(&call);
}
END_TEST

START_TEST(paths_are_the_callers)
{
	struct cmd_call call = { .cwd = "/there" };
	struct err e;
	char *p;

	p = cmd_path(&call, "a/b", &e);
	ck_assert_str_eq(p, "/there/a/b");
	free(p);
	p = cmd_path(&call, "./a//b/./c", &e);
	ck_assert_str_eq(p, "/there/a/b/c");
	free(p);
	p = cmd_path(&call, "/a/b", &e);
	ck_assert_str_eq(p, "/a/b");
	free(p);
}
END_TEST

/* "--name" as the page writes it, with \- for each '-'. */
static void roff(char *out, size_t size, const char *name)
{
	size_t used = 0;

	for (; *name && used + 3 < size; name++) {
		if (*name == '-')
			out[used++] = '\\';
		out[used++] = *name;
	}
	out[used] = '\0';
}

START_TEST(the_manual_page_knows_everything)
{
	struct buf page;
	struct err e;
	char word[128];

	buf_init(&page, 1 << 20);
	ck_assert_msg(io_file_load(AT_FDCWD, MANUAL, &page, &e) == 0, "%s",
	    e.text);
	buf_u8(&page, 0);
	for (size_t i = 0; cmds[i]; i++) {
		ck_assert_msg(strstr((char *)page.data, cmds[i]->name) != NULL,
		    "no %s in " MANUAL, cmds[i]->name);
		for (const struct opt_row *r = cmds[i]->rows; r && r->name;
		    r++) {
			roff(word, sizeof(word), r->name);
			ck_assert_msg(strstr((char *)page.data, word) != NULL,
			    "no --%s in " MANUAL, r->name);
		}
	}
	buf_release(&page);
}
END_TEST

Suite *server_cmd_suite(void)
{
	Suite *s = suite_create("server/cmd");
	TCase *t = tcase_create("cmd");

	tcase_add_test(t, rows_are_sound);
	tcase_add_test(t, an_option_has_the_same_kind_everywhere);
	tcase_add_test(t, words_find_their_command);
	tcase_add_test(t, options_stand_before_or_after);
	tcase_add_test(t, values_arrive);
	tcase_add_test(t, refuses_what_is_wrong);
	tcase_add_test(t, help_needs_no_words);
	tcase_add_test(t, paths_are_the_callers);
	tcase_add_test(t, the_manual_page_knows_everything);
	suite_add_tcase(s, t);
	return s;
}
