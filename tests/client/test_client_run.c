/*
 * The commands as scripts meet them: exit statuses, help for every row, the
 * manual page against the rows, listing and JSON with hostile names, SNAP and
 * PATH, verify, the configuration.
 */
#include "client/cmd.h"

#include "client/client.h"
#include "client/link.h"
#include "tests/client/fixture.h"

#include <check.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

Suite *client_client_run_suite(void);

static struct fixture fx;

static void setup(void)
{
	fixture_init(&fx);
}

static void teardown(void)
{
	fixture_release(&fx);
}

/* ---- words -------------------------------------------------------------- */

START_TEST(every_command_has_help_and_a_version)
{
	run_ok(&fx, "--help");
	for (size_t i = 0; cmds[i]; i++)
		ck_assert(says(&fx.out, cmds[i]->name));
	for (size_t i = 0; cmds[i]; i++) {
		run_ok(&fx, cmds[i]->name, "--help");
		ck_assert(says(&fx.out, cmds[i]->summary));
		run_ok(&fx, cmds[i]->name, "--version");
		ck_assert(says(&fx.out, BKCLIENT_VERSION));
	}
}
END_TEST

START_TEST(wrong_words_end_with_64)
{
	run_is(&fx, 64, NULL);
	run_is(&fx, 64, "nonsense");
	run_is(&fx, 64, "push", "--nonsense", fx.src);
	run_is(&fx, 64, "push", "--compression", "zip", fx.src);
	run_is(&fx, 64, "restore", "latest");
	run_is(&fx, 64, "restore", "latest", "--to", fx.dst, "--overwrite",
	    "maybe");
	run_is(&fx, 64, "snapshots", "too many");
	run_is(&fx, 64, "push");
	run_is(&fx, 64, "cat");
}
END_TEST

/* Every name of a row is in the manual page, as the page writes it. */
static void in_page(const char *page, const char *name)
{
	char text[128], *to = text;

	*to++ = '\\';
	*to++ = '-';
	*to++ = '\\';
	*to++ = '-';
	for (; *name; name++) {
		if (*name == '-')
			*to++ = '\\';
		*to++ = *name;
	}
	*to = '\0';
	ck_assert_msg(strstr(page, text) != NULL, "%s is not in the page",
	    text);
}

START_TEST(the_manual_page_has_every_command_and_option)
{
	struct opt_row rows[CMD_ROWS_MAX];
	char *page = malloc(1 << 20), heading[64];
	uint8_t opts[65536];
	struct client c;
	FILE *f = fopen("docs/man/bkclient.1", "r");
	size_t size;

	ck_assert_ptr_nonnull(page);
	ck_assert_msg(f != NULL, "run it in the project's directory");
	size = fread(page, 1, (1 << 20) - 1, f);
	page[size] = '\0';
	fclose(f);
	client_prepare(&c);
	cmd_common_rows(&c, rows);
	for (size_t k = 0; rows[k].name; k++)
		in_page(page, rows[k].name);
	for (size_t i = 0; cmds[i]; i++) {
		(void)snprintf(heading, sizeof(heading), ".SS \"%s",
		    cmds[i]->name);
		ck_assert_msg(strstr(page, heading) != NULL, "%s", heading);
		if (!cmds[i]->rows)
			continue;
		ck_assert_uint_le(cmds[i]->opts_size, sizeof(opts));
		cmds[i]->rows(opts, rows);
		for (size_t k = 0; rows[k].name; k++)
			in_page(page, rows[k].name);
	}
	client_release(&c);
	free(page);
}
END_TEST

START_TEST(urls_are_taken_apart)
{
	struct link_url u;
	struct err e;

	ck_assert_int_eq(link_url_parse(&u, "ssh://me@host:22", &e), 0);
	ck_assert_str_eq(u.user, "me");
	ck_assert_str_eq(u.host, "host");
	ck_assert_uint_eq(u.port, 22);
	ck_assert_int_eq(link_url_parse(&u, "ssh://[::1]:2222/", &e), -1);
	ck_assert_int_eq(link_url_parse(&u, "ssh://[::1]:2222", &e), 0);
	ck_assert_str_eq(u.host, "::1");
	ck_assert_int_eq(link_url_parse(&u, "ssh://host", &e), 0);
	ck_assert_uint_eq(u.port, 0);
	ck_assert_int_eq(link_url_parse(&u, "host", &e), -1);
	ck_assert_int_eq(link_url_parse(&u, "ssh://-oProxyCommand=x", &e),
	    -1);
	ck_assert_int_eq(link_url_parse(&u, "ssh://host:0", &e), -1);
	ck_assert_int_eq(link_url_parse(&u, "ssh://host:99999", &e), -1);
	ck_assert_int_eq(link_url_parse(&u, "ssh://", &e), -1);
}
END_TEST

/* ---- listing ------------------------------------------------------------ */

static const char *const odd_names[] = {
	"a\nb", "%s%n.%202018", "\033[2J", "-rf", " ", "a\\b", "...",
	"\xff\xfe", "\xc3\xa4",
};
#define ODD (sizeof(odd_names) / sizeof(odd_names[0]))

static void make_odd(void)
{
	for (size_t i = 0; i < ODD; i++)
		put_text(at(fx.src, odd_names[i]), "x");
	run_ok(&fx, "push", fx.src);
}

START_TEST(a_listing_is_a_line_a_name_and_safe_for_a_terminal)
{
	size_t lines = 0;

	make_odd();
	run_ok(&fx, "ls", at("latest:", fx.src + 1));
	for (size_t i = 0; i + 1 < fx.out.size; i++) {
		lines += fx.out.data[i] == '\n';
		ck_assert(fx.out.data[i] != '\033' && fx.out.data[i] != '\r');
	}
	ck_assert_uint_eq(lines, ODD);
	ck_assert(says(&fx.out, "/a\\nb\n"));
	ck_assert(says(&fx.out, "%s%n.%202018"));
}
END_TEST

/* Base64, of at most 300 bytes. */
static size_t decode64(const char *text, char *out)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789+/";
	unsigned bits = 0, have = 0;
	size_t size = 0;

	for (; *text && *text != '='; text++) {
		bits = bits << 6 |
		    (unsigned)(strchr(digits, *text) - digits);
		have += 6;
		if (have >= 8) {
			have -= 8;
			out[size++] = (char)(bits >> have);
		}
	}
	out[size] = '\0';
	return size;
}

START_TEST(json_gives_the_exact_names)
{
	bool found[ODD] = { false };
	char *line, *next;

	make_odd();
	run_ok(&fx, "ls", at("latest:", fx.src + 1), "--json");
	for (line = (char *)fx.out.data; *line; line = next) {
		json_t *o;
		char exact[512];
		const char *path, *coded;

		next = strchr(line, '\n');
		ck_assert_ptr_nonnull(next);
		*next++ = '\0';
		o = json_loads(line, 0, NULL);
		ck_assert_msg(o != NULL, "no JSON: %s", line);
		ck_assert_int_eq(json_integer_value(json_object_get(o, "v")),
		    1);
		path = json_string_value(json_object_get(o, "path"));
		coded = json_string_value(json_object_get(o, "path_b64"));
		if (coded)
			decode64(coded, exact);
		else
			(void)snprintf(exact, sizeof(exact), "%s", path);
		for (size_t i = 0; i < ODD; i++)
			if (strcmp(exact + strlen(fx.src) + 1,
			    odd_names[i]) == 0)
				found[i] = true;
		json_decref(o);
	}
	for (size_t i = 0; i < ODD; i++)
		ck_assert_msg(found[i], "name %zu", i);
}
END_TEST

/* ---- SNAP --------------------------------------------------------------- */

START_TEST(snapshots_are_found_by_id_prefix_time_tag_and_path)
{
	char id[64], wrong[64];

	put_text(at(fx.src, "a/f"), "one");
	put_text(at(fx.src, "b/f"), "two");
	run_ok(&fx, "push", at(fx.src, "a"), "--tag", "first");
	(void)snprintf(id, sizeof(id), "%.8s", (char *)fx.out.data);
	run_ok(&fx, "push", at(fx.src, "b"));
	run_ok(&fx, "ls", id);
	run_is(&fx, 64, "ls", "abc");
	run_is(&fx, 64, "ls", "notahexid");
	(void)snprintf(wrong, sizeof(wrong), "%s", "0123456789abcdef");
	run_is(&fx, 2, "ls", wrong);
	run_ok(&fx, "ls", at("latest:", at(fx.src, "b/f") + 1));
	run_is(&fx, 2, "ls", at("latest:", at(fx.src, "a/f") + 1));
	run_ok(&fx, "ls", at("latest:", at(fx.src, "a/f") + 1), "--tag",
	    "first");
	run_ok(&fx, "ls", at("latest:", at(fx.src, "a/f") + 1), "--path",
	    at(fx.src, "a"));
	run_is(&fx, 2, "ls", "latest", "--tag", "none");
	run_is(&fx, 2, "ls", "latest@2001-01-01");
	run_ok(&fx, "ls", "latest@2999-01-01");
	run_ok(&fx, "snapshots");
	ck_assert(says(&fx.out, "#first"));
	run_ok(&fx, "snapshots", "--json");
	ck_assert(says(&fx.out, "\"tags\":[\"first\"]"));
}
END_TEST

START_TEST(no_snapshots_are_no_error)
{
	run_ok(&fx, "snapshots");
	ck_assert_uint_eq(fx.out.size, 1);
	ck_assert_uint_eq(fx.err.size, 1);
	run_is(&fx, 2, "ls", "latest");
}
END_TEST

START_TEST(partial_snapshots_are_not_latest_and_that_is_told)
{
	put_text(at(fx.src, "f"), "one");
	run_ok(&fx, "push", fx.src);
	put_text(at(fx.src, "g"), "two");
	run_ok(&fx, "push", fx.src);
	fx.store->snapshots[1].flags |= SNAPSHOT_PARTIAL;
	run_is(&fx, 2, "cat", at(at("latest:", fx.src + 1), "g"));
	run_ok(&fx, "cat", at(at("latest:", fx.src + 1), "f"));
	ck_assert(says(&fx.err, "1 newer snapshots are partial"));
	fx.store->snapshots[0].flags |= SNAPSHOT_PARTIAL;
	run_ok(&fx, "cat", at(at("latest:", fx.src + 1), "g"));
}
END_TEST

/* ---- verify, cat, dry runs, configuration ------------------------------- */

START_TEST(verify_names_each_difference)
{
	put_text(at(fx.src, "same"), "text");
	put_text(at(fx.src, "content"), "text");
	put_text(at(fx.src, "mode"), "text");
	put_text(at(fx.src, "gone"), "text");
	put_text(at(fx.src, "d/deep"), "text");
	run_ok(&fx, "push", fx.src);
	run_ok(&fx, "verify", "latest");
	ck_assert(says(&fx.out, "0 changed, 0 missing, 0 new"));
	put_text(at(fx.src, "content"), "TEXT");
	ck_assert_int_eq(chmod(at(fx.src, "mode"), 0600), 0);
	ck_assert_int_eq(unlink(at(fx.src, "gone")), 0);
	put_text(at(fx.src, "d/new"), "text");
	run_is(&fx, 1, "verify", "latest");
	ck_assert(says(&fx.out, "/content: mtime, content"));
	ck_assert(says(&fx.out, "/mode: mode"));
	ck_assert(says(&fx.out, "missing "));
	ck_assert(says(&fx.out, "/gone\n"));
	ck_assert(says(&fx.out, "/d/new\n"));
	ck_assert(!says(&fx.out, "/same"));
	run_is(&fx, 1, "verify", "latest", at(fx.src, "d"));
	run_ok(&fx, "verify", "latest", at(fx.src, "same"));
	run_is(&fx, 2, "verify", "latest", "/not/pushed");
}
END_TEST

START_TEST(cat_gives_the_bytes_with_holes_as_zeros)
{
	put_text(at(fx.src, "f"), "one\ntwo\n");
	put_text(at(fx.src, "hole"), "");
	ck_assert_int_eq(truncate(at(fx.src, "hole"), 100000), 0);
	run_ok(&fx, "push", fx.src);
	run_ok(&fx, "cat", at(at("latest:", fx.src + 1), "f"));
	ck_assert_str_eq((char *)fx.out.data, "one\ntwo\n");
	run_ok(&fx, "cat", at(at("latest:", fx.src + 1), "hole"));
	ck_assert_uint_eq(fx.out.size, 100001);
	run_is(&fx, 64, "cat", at("latest:", fx.src + 1));
}
END_TEST

START_TEST(a_dry_push_counts_and_sends_nothing)
{
	put_text(at(fx.src, "f"), "text");
	run_ok(&fx, "push", fx.src, "--dry-run", "--json");
	ck_assert(says(&fx.out, "\"files\":1"));
	ck_assert(says(&fx.out, "\"bytes\":4"));
	ck_assert_uint_eq(fx.store->snapshot_count, 0);
}
END_TEST

START_TEST(the_configuration_gives_paths_and_excludes)
{
	char text[512];

	put_text(at(fx.src, "f"), "text");
	put_text(at(fx.src, "f.o"), "text");
	(void)snprintf(text, sizeof(text), "# mine\npath = %s\n"
	    "exclude = *.o\nexclude = unused\n", fx.src);
	put_text(at(fx.dir, "config/bkclient/config"), text);
	run_ok(&fx, "push");
	ck_assert(!says(&fx.err, "unused"));
	run_ok(&fx, "ls", at("latest:", fx.src + 1));
	ck_assert(!says(&fx.out, "f.o"));
	put_text(at(fx.dir, "config/bkclient/config"), "nonsense = 1\n");
	run_is(&fx, 64, "push");
	run_is(&fx, 2, "push", "--config", at(fx.dir, "none"));
}
END_TEST

START_TEST(success_prints_the_id_alone)
{
	put_text(at(fx.src, "f"), "text");
	run_ok(&fx, "push", fx.src);
	ck_assert_uint_eq(fx.out.size, 34);	/* id, newline, NUL */
	ck_assert_uint_eq(fx.err.size, 1);
}
END_TEST

Suite *client_client_run_suite(void)
{
	Suite *s = suite_create("client/client_run");
	TCase *t = tcase_create("client_run");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, every_command_has_help_and_a_version);
	tcase_add_test(t, wrong_words_end_with_64);
	tcase_add_test(t, the_manual_page_has_every_command_and_option);
	tcase_add_test(t, urls_are_taken_apart);
	tcase_add_test(t, a_listing_is_a_line_a_name_and_safe_for_a_terminal);
	tcase_add_test(t, json_gives_the_exact_names);
	tcase_add_test(t, snapshots_are_found_by_id_prefix_time_tag_and_path);
	tcase_add_test(t, no_snapshots_are_no_error);
	tcase_add_test(t, partial_snapshots_are_not_latest_and_that_is_told);
	tcase_add_test(t, verify_names_each_difference);
	tcase_add_test(t, cat_gives_the_bytes_with_holes_as_zeros);
	tcase_add_test(t, a_dry_push_counts_and_sends_nothing);
	tcase_add_test(t, the_configuration_gives_paths_and_excludes);
	tcase_add_test(t, success_prints_the_id_alone);
	suite_add_tcase(s, t);
	return s;
}
