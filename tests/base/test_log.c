/*
 * Proves base/log.h, base/warn.h and base/progress.h by what they write to
 * standard error, which the tests replace by a pipe or a terminal.
 */
#include "base/log.h"
#include "base/progress.h"
#include "base/warn.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Suite *base_log_suite(void);

/* Standard error goes to a pipe while `what` runs; the text it wrote. */
static char got[65536];

static void capture(void (*what)(void))
{
	int pipe_fd[2], saved = dup(2);
	ssize_t n;
	size_t have = 0;

	ck_assert_int_eq(pipe2(pipe_fd, O_CLOEXEC), 0);
	dup2(pipe_fd[1], 2);
	close(pipe_fd[1]);
	what();
	dup2(saved, 2);
	close(saved);
	while ((n = read(pipe_fd[0], got + have, sizeof(got) - 1 - have)) > 0)
		have += (size_t)n;
	got[have] = '\0';
	close(pipe_fd[0]);
}

static void log_three(void)
{
	log_line(LOG_LEVEL_INFO, "one\ntwo %d", 3);
	log_line(LOG_LEVEL_DEBUG, "not shown");
	log_line(LOG_LEVEL_ERROR, "bad");
}

START_TEST(an_event_is_one_line_with_its_time)
{
	unsetenv("JOURNAL_STREAM");
	capture(log_three);
	ck_assert_msg(strstr(got, " one two 3\n") != NULL, "%s", got);
	ck_assert_ptr_nonnull(strstr(got, " error: bad\n"));
	ck_assert_ptr_null(strstr(got, "not shown"));
	ck_assert_int_eq(got[4], '-');
	ck_assert_int_eq(got[10], 'T');
}
END_TEST

START_TEST(the_journal_gets_a_priority_instead)
{
	setenv("JOURNAL_STREAM", "8:1", 1);
	log_set_level(LOG_LEVEL_DEBUG);
	capture(log_three);
	ck_assert_str_eq(got, "<6>one two 3\n<7>not shown\n<3>bad\n");
}
END_TEST

static void *log_often(void *arg)
{
	for (int i = 0; i < 50; i++)
		log_line(LOG_LEVEL_INFO, "%s-%s", (char *)arg, (char *)arg);
	return NULL;
}

static void log_from_threads(void)
{
	char a[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
	char b[] = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
	pthread_t t[2];

	pthread_create(&t[0], NULL, log_often, a);
	pthread_create(&t[1], NULL, log_often, b);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
}

START_TEST(lines_of_threads_never_mix)
{
	int lines = 0;

	setenv("JOURNAL_STREAM", "8:1", 1);
	capture(log_from_threads);
	for (char *at = got, *end; (end = strchr(at, '\n')); at = end + 1) {
		ck_assert_int_eq(end - at, 64);
		ck_assert_int_eq(at[3], end[-1]);
		lines++;
	}
	ck_assert_int_eq(lines, 100);
}
END_TEST

static void emit(void *arg, const uint8_t *path, size_t size,
    const char *text)
{
	snprintf(arg, 9000, "%.*s|%s", (int)size, (const char *)path, text);
}

START_TEST(a_warning_keeps_its_whole_path)
{
	char path[5001], text[9000] = "";
	struct warn_sink w;

	memset(path, 'p', 5000);
	path[5000] = '\0';
	warn_init(&w, emit, text);
	warn_add(&w, path, 5000, "cannot be read: %s", "why");
	ck_assert_uint_eq(strlen(text), 5000 + 1 + 19);
	ck_assert_uint_eq(warn_count(&w), 1);
	warn_add(&w, NULL, 0, "second");
	ck_assert_str_eq(text, "|second");
	ck_assert_uint_eq(warn_count(&w), 2);
	warn_add(NULL, path, 5000, "nobody listens");
	warn_release(&w);
}
END_TEST

static struct progress p;

static void show_progress(void)
{
	progress_init(&p, "pushing", true);
	progress_file(&p, "name\033[2J", 8);
	atomic_fetch_add(&p.bytes, 1000);
	progress_tick(&p);
	progress_clear(&p);
	progress_release(&p);
}

START_TEST(off_a_terminal_nothing_is_shown)
{
	capture(show_progress);
	ck_assert_str_eq(got, "");
}
END_TEST

START_TEST(on_a_terminal_one_line_is_drawn_and_removed)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
	int slave, saved = dup(2);
	ssize_t n;

	if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0)
		return;		/* a machine without terminals */
	slave = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert_int_ge(slave, 0);
	dup2(slave, 2);
	show_progress();
	dup2(saved, 2);
	n = read(master, got, sizeof(got) - 1);
	ck_assert_int_gt(n, 0);
	got[n] = '\0';
	ck_assert_ptr_nonnull(strstr(got, "\rpushing: 0 files, 1000 B"));
	ck_assert_ptr_nonnull(strstr(got, "name\\x1B[2J"));
	ck_assert_ptr_null(strchr(got, '\n'));
	ck_assert_str_eq(got + n - 4, "\r\033[K");
	close(saved);
	close(slave);
	close(master);
}
END_TEST

Suite *base_log_suite(void)
{
	Suite *s = suite_create("log");
	TCase *t = tcase_create("all");

	tcase_add_test(t, an_event_is_one_line_with_its_time);
	tcase_add_test(t, the_journal_gets_a_priority_instead);
	tcase_add_test(t, lines_of_threads_never_mix);
	tcase_add_test(t, a_warning_keeps_its_whole_path);
	tcase_add_test(t, off_a_terminal_nothing_is_shown);
	tcase_add_test(t, on_a_terminal_one_line_is_drawn_and_removed);
	suite_add_tcase(s, t);
	return s;
}
