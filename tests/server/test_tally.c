/*
 * The tally of a scan: what was wrong is named by member and kind, a member
 * that is all wrong does not flood, and the exit status is the one promised:
 * 2 for what is not healed, 1 for healed or away, 0 for nothing.  Method: feed
 * it inside a job, read the job's lines.
 */
#include "server/tally.h"

#include "server/job.h"
#include "server/owner.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

Suite *server_tally_suite(void);

static struct owner owner;
static struct jobs *jobs;
static char text[1 << 16];
static size_t text_size;

static int keep(void *arg, enum out_to to, const void *data, size_t size)
{
	(void)arg;
	(void)to;
	ck_assert_uint_lt(text_size + size, sizeof(text));
	memcpy(text + text_size, data, size);
	text_size += size;
	text[text_size] = '\0';
	return 0;
}

struct script {
	struct scan_report report;
	unsigned wrong_on_1, wrong_on_3;
	bool healed;
};

static int play(struct job *j, struct owner *o, void *arg, struct err *e)
{
	const struct script *s = arg;
	struct tally *t = calloc(1, sizeof(*t));
	int status;

	(void)o;
	(void)e;
	tally_init(t, j, s->healed);
	for (unsigned i = 0; i < s->wrong_on_1; i++)
		tally_bad_strip(t, 1, "/disks/m1", 10, i,
		    i % 2 ? "header" : "payload", s->healed);
	for (unsigned i = 0; i < s->wrong_on_3; i++)
		tally_bad_strip(t, 3, "/disks/m3", 11, i, "stale", s->healed);
	tally_say(t);
	status = tally_status(t, &s->report);
	tally_release(t);
	free(t);
	return status;
}

static int run(const struct script *s, bool json)
{
	struct cmd_io io = { .write = keep };
	struct script *copy = malloc(sizeof(*copy));
	struct job *j;
	struct err e;
	bool joined;

	*copy = *s;
	text_size = 0;
	text[0] = '\0';
	memset(&owner, 0, sizeof(owner));
	ck_assert_int_eq(jobs_new(&jobs, &owner, &e), 0);
	ck_assert_int_eq(job_start(jobs, JOB_SCRUB, play, copy, &j, &joined,
	    &e), 0);
	ck_assert_int_eq(job_follow(j, &io, json, &e), 0);
	jobs_wait(jobs);
	jobs_free(jobs);
	return io.status;
}

static unsigned lines(void)
{
	unsigned n = 0;

	for (const char *at = text; *at; at++)
		n += *at == '\n';
	return n;
}

START_TEST(nothing_wrong_is_nothing_said)
{
	ck_assert_int_eq(run(&(struct script){ .healed = true }, false), 0);
	ck_assert_str_eq(text, "");
}
END_TEST

START_TEST(what_was_healed_is_named)
{
	struct script s = { .report = { .stripes = 99, .strips_bad = 3,
	    .strips_healed = 3 }, .wrong_on_3 = 3, .healed = true };

	ck_assert_int_eq(run(&s, false), 1);
	ck_assert_ptr_nonnull(strstr(text, "member 3 (/disks/m3): 3 strips "
	    "wrong (stale 3), 3 healed"));
	ck_assert_ptr_null(strstr(text, "member 1"));
}
END_TEST

START_TEST(a_member_all_wrong_does_not_flood)
{
	struct script s = { .report = { .stripes = 5000, .strips_bad = 5001,
	    .strips_healed = 5001 }, .wrong_on_1 = 5000, .wrong_on_3 = 1,
	    .healed = true };

	ck_assert_int_eq(run(&s, false), 1);
	ck_assert_uint_lt(lines(), 12);
	ck_assert_ptr_nonnull(strstr(text, "payload 2500, header 2500"));
}
END_TEST

START_TEST(what_was_only_looked_at_is_2)
{
	struct script s = { .report = { .stripes = 9, .strips_bad = 2 },
	    .wrong_on_1 = 2 };

	ck_assert_int_eq(run(&s, false), 2);
	ck_assert_ptr_nonnull(strstr(text, "--read-only"));
}
END_TEST

START_TEST(what_is_lost_is_2)
{
	struct script s = { .report = { .stripes = 9, .strips_bad = 2,
	    .strips_healed = 2, .stripes_lost = 1 }, .healed = true };

	ck_assert_int_eq(run(&s, false), 2);
}
END_TEST

START_TEST(what_is_away_is_1)
{
	struct script s = { .report = { .stripes = 9, .strips_absent = 4 },
	    .healed = true };

	ck_assert_int_eq(run(&s, false), 1);
	ck_assert_ptr_nonnull(strstr(text, "away"));
}
END_TEST

START_TEST(json_has_the_counts)
{
	struct script s = { .report = { .strips_bad = 2, .strips_healed = 2 },
	    .wrong_on_1 = 2, .healed = true };

	run(&s, true);
	ck_assert_str_eq(text, "{\"v\":1,\"type\":\"member\",\"index\":1,"
	    "\"path\":\"/disks/m1\",\"strips_bad\":2,\"strips_healed\":2,"
	    "\"kinds\":{\"payload\":1,\"header\":1}}\n");
}
END_TEST

Suite *server_tally_suite(void)
{
	Suite *s = suite_create("server/tally");
	TCase *t = tcase_create("tally");

	tcase_add_test(t, nothing_wrong_is_nothing_said);
	tcase_add_test(t, what_was_healed_is_named);
	tcase_add_test(t, a_member_all_wrong_does_not_flood);
	tcase_add_test(t, what_was_only_looked_at_is_2);
	tcase_add_test(t, what_is_lost_is_2);
	tcase_add_test(t, what_is_away_is_1);
	tcase_add_test(t, json_has_the_counts);
	suite_add_tcase(s, t);
	return s;
}
