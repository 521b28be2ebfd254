/*
 * Jobs: one of each kind at a time, followed by any number, outliving whoever
 * began them; lines and status are there for those who come late.  Method: jobs
 * that wait for the test to let them go on.
 */
#include "server/job.h"

#include "raid/array.h"
#include "server/owner.h"

#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Suite *server_job_suite(void);

static struct owner owner;
static struct jobs *jobs;
static atomic_bool go;

struct sink {
	char text[1 << 16];
	size_t size;
};

static int to_sink(void *arg, enum out_to to, const void *data, size_t size)
{
	struct sink *s = arg;

	(void)to;
	if (s->size + size >= sizeof(s->text))
		return -1;
	memcpy(s->text + s->size, data, size);
	s->size += size;
	s->text[s->size] = '\0';
	return 0;
}

static void set_up(void)
{
	struct err e;

	memset(&owner, 0, sizeof(owner));
	atomic_store(&go, false);
	ck_assert_int_eq(jobs_new(&jobs, &owner, &e), 0);
}

static void tear_down(void)
{
	jobs_cancel(jobs);
	jobs_wait(jobs);
	jobs_free(jobs);
}

/* Says two lines, waits, ends with the status that arg points to. */
static int patient(struct job *j, struct owner *o, void *arg, struct err *e)
{
	const int *status = arg;

	(void)o;
	job_line(j, TO_OUT, "begun");
	job_json(j, json_line("begun"));
	while (!atomic_load(&go) && !atomic_load(&job_ctl(j)->cancel))
		usleep(1000);
	if (atomic_load(&job_ctl(j)->cancel))
		return err_set(e, ERR_CANCELLED, "told to stop");
	job_line(j, TO_ERR, "ended");
	return *status;
}

static struct job *start(int status, bool *joined)
{
	int *arg = malloc(sizeof(*arg));
	struct job *j;
	struct err e;

	*arg = status;
	ck_assert_int_eq(job_start(jobs, JOB_VERIFY, patient, arg, &j, joined,
	    &e), 0);
	return j;
}

START_TEST(gives_its_lines_and_its_status)
{
	struct sink s = { .size = 0 };
	struct cmd_io io = { .write = to_sink, .arg = &s };
	struct err e;
	bool joined;
	struct job *j = start(1, &joined);

	ck_assert(!joined);
	atomic_store(&go, true);
	ck_assert_int_eq(job_follow(j, &io, false, &e), 0);
	ck_assert_str_eq(s.text, "begun\nended\n");
	ck_assert_int_eq(io.status, 1);
}
END_TEST

START_TEST(gives_json_to_those_who_asked)
{
	struct sink s = { .size = 0 };
	struct cmd_io io = { .write = to_sink, .arg = &s };
	struct err e;
	bool joined;
	struct job *j = start(0, &joined);

	atomic_store(&go, true);
	ck_assert_int_eq(job_follow(j, &io, true, &e), 0);
	ck_assert_str_eq(s.text, "{\"v\":1,\"type\":\"begun\"}\n");
}
END_TEST

START_TEST(is_joined_by_the_second)
{
	struct sink s = { .size = 0 };
	struct cmd_io io = { .write = to_sink, .arg = &s };
	struct err e;
	bool joined;
	struct job *first = start(2, &joined), *second;
	struct job_info info;

	second = start(0, &joined);
	ck_assert(joined);
	ck_assert_ptr_eq(first, second);
	job_info(jobs, JOB_VERIFY, &info);
	ck_assert(info.running);
	job_release(first);		/* it outlives who began it */
	atomic_store(&go, true);
	ck_assert_int_eq(job_follow(second, &io, false, &e), 0);
	ck_assert_str_eq(s.text, "begun\nended\n");
	ck_assert_int_eq(io.status, 2);
	jobs_wait(jobs);
	job_info(jobs, JOB_VERIFY, &info);
	ck_assert(!info.running);
	ck_assert_int_eq(info.status, 2);
}
END_TEST

START_TEST(an_ended_one_is_not_joined)
{
	struct sink s = { .size = 0 };
	struct cmd_io io = { .write = to_sink, .arg = &s };
	struct err e;
	bool joined;
	struct job *first = start(0, &joined), *second;

	atomic_store(&go, true);
	jobs_wait(jobs);
	second = start(1, &joined);
	ck_assert(!joined);
	/* Who followed the first gets the first one's status. */
	ck_assert_int_eq(job_follow(first, &io, false, &e), 0);
	ck_assert_int_eq(io.status, 0);
	ck_assert_int_eq(job_follow(second, &io, false, &e), 0);
	ck_assert_int_eq(io.status, 1);
}
END_TEST

START_TEST(is_cancelled_with_its_reason)
{
	struct cmd_io io = { .write = to_sink,
	    .arg = &(struct sink){ .size = 0 } };
	struct err e;
	bool joined;
	struct job *j = start(0, &joined);

	jobs_cancel(jobs);
	ck_assert_int_eq(job_follow(j, &io, false, &e), -1);
	ck_assert_int_eq(e.code, ERR_CANCELLED);
	ck_assert_str_eq(e.text, "told to stop");
}
END_TEST

static int talkative(struct job *j, struct owner *o, void *arg, struct err *e)
{
	(void)o;
	(void)arg;
	(void)e;
	for (int i = 0; i < 3 * JOB_LINES; i++)
		job_line(j, TO_OUT, "%d", i);
	return 0;
}

START_TEST(tells_the_late_how_much_they_missed)
{
	struct sink s = { .size = 0 };
	struct cmd_io io = { .write = to_sink, .arg = &s };
	struct job *j;
	struct err e;
	char last[32];
	bool joined;

	ck_assert_int_eq(job_start(jobs, JOB_PRUNE, talkative, NULL, &j,
	    &joined, &e), 0);
	jobs_wait(jobs);
	ck_assert_int_eq(job_follow(j, &io, false, &e), 0);
	snprintf(last, sizeof(last), "\n%d\n", 3 * JOB_LINES - 1);
	ck_assert_str_eq(s.text + s.size - strlen(last), last);
	ck_assert_ptr_nonnull(strstr(s.text, "lines left out"));
}
END_TEST

static int says_much(struct job *j, struct owner *o, void *arg, struct err *e)
{
	size_t size = JOB_BYTES / 8;
	char *text = malloc(size + 1);

	(void)o;
	(void)arg;
	(void)e;
	memset(text, 'x', size);
	text[size] = '\0';
	for (int i = 0; i < 100; i++) {
		struct json_t *line = json_line("lost");

		json_object_set_new(line, "path", json_string(text));
		job_json(j, line);
	}
	free(text);
	return 0;
}

static int count_bytes(void *arg, enum out_to to, const void *data,
    size_t size)
{
	(void)to;
	(void)data;
	*(size_t *)arg += size;
	return 0;
}

START_TEST(long_lines_are_kept_in_bounds)
{
	size_t bytes = 0;
	struct cmd_io io = { .write = count_bytes, .arg = &bytes };
	struct job *j;
	struct err e;
	bool joined;

	ck_assert_int_eq(job_start(jobs, JOB_VERIFY, says_much, NULL, &j,
	    &joined, &e), 0);
	jobs_wait(jobs);
	ck_assert_int_eq(job_follow(j, &io, true, &e), 0);
	ck_assert_uint_gt(bytes, JOB_BYTES / 2);
	ck_assert_uint_lt(bytes, JOB_BYTES + 4096);
}
END_TEST

START_TEST(none_begins_once_stopping)
{
	struct job *j;
	struct err e;
	bool joined;

	atomic_store(&owner.stop, true);
	ck_assert_int_eq(job_start(jobs, JOB_SCRUB, talkative, NULL, &j,
	    &joined, &e), -1);
	ck_assert_int_eq(e.code, ERR_CANCELLED);
}
END_TEST

Suite *server_job_suite(void)
{
	Suite *s = suite_create("server/job");
	TCase *t = tcase_create("job");

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, gives_its_lines_and_its_status);
	tcase_add_test(t, gives_json_to_those_who_asked);
	tcase_add_test(t, is_joined_by_the_second);
	tcase_add_test(t, an_ended_one_is_not_joined);
	tcase_add_test(t, is_cancelled_with_its_reason);
	tcase_add_test(t, tells_the_late_how_much_they_missed);
	tcase_add_test(t, long_lines_are_kept_in_bounds);
	tcase_add_test(t, none_begins_once_stopping);
	suite_add_tcase(s, t);
	return s;
}
