/*
 * Output: the exit status only rises, a reader that left stops the writing, and
 * JSON lines are whole and give names back exactly.
 */
#include "server/out.h"

#include "base/clock.h"

#include <check.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

Suite *server_out_suite(void);

struct sink {
	char text[4096];
	size_t size;
	int left;		/* writes until the reader leaves */
};

static int to_sink(void *arg, enum out_to to, const void *data, size_t size)
{
	struct sink *s = arg;

	(void)to;
	if (s->left-- <= 0 || s->size + size >= sizeof(s->text))
		return -1;
	memcpy(s->text + s->size, data, size);
	s->size += size;
	s->text[s->size] = '\0';
	return 0;
}

START_TEST(a_status_only_rises)
{
	struct cmd_io io = { .status = 0 };

	out_status(&io, 1);
	out_status(&io, 2);
	out_status(&io, 1);
	ck_assert_int_eq(io.status, 2);
}
END_TEST

START_TEST(a_reader_that_left_is_left_alone)
{
	struct sink s = { .left = 1 };
	struct cmd_io io = { .write = to_sink, .arg = &s };

	out_text(&io, "one\n");
	out_text(&io, "two\n");
	ck_assert(io.broken);
	s.left = 9;
	out_text(&io, "three\n");
	ck_assert_str_eq(s.text, "one\n");
}
END_TEST

START_TEST(a_warning_is_a_line_of_ours)
{
	struct sink s = { .left = 9 };
	struct cmd_io io = { .write = to_sink, .arg = &s };

	out_warn(&io, "%s is %d", "this", 7);
	ck_assert_str_eq(s.text, "bkserver: this is 7\n");
}
END_TEST

START_TEST(names_come_back_exactly)
{
	static const char plain[] = "a \"b\"\n\\ c", raw[] = "x\xff\xfe y";
	struct sink s = { .left = 9 };
	struct cmd_io io = { .write = to_sink, .arg = &s };
	struct json_t *line = json_line("test");
	json_error_t je;

	json_name(line, "plain", plain, strlen(plain));
	json_name(line, "raw", raw, strlen(raw));
	out_json(&io, line);
	line = json_loads(s.text, 0, &je);
	ck_assert_ptr_nonnull(line);
	ck_assert_int_eq(json_integer_value(json_object_get(line, "v")), 1);
	ck_assert_str_eq(json_string_value(json_object_get(line, "plain")),
	    plain);
	ck_assert_str_eq(json_string_value(json_object_get(line, "raw_hex")),
	    "78fffe2079");
	ck_assert_ptr_null(json_object_get(line, "plain_hex"));
	ck_assert_ptr_eq(strchr(s.text, '\n'), s.text + s.size - 1);
	json_decref(line);
}
END_TEST

START_TEST(ages_are_in_words)
{
	char age[OUT_AGE_SIZE];

	out_age(age, 0);
	ck_assert_str_eq(age, "never");
	out_age(age, clock_real_s() - 7205);
	ck_assert_str_eq(age, "2 h ago");
	out_age(age, clock_real_s() + 100);
	ck_assert_str_eq(age, "just now");
}
END_TEST

Suite *server_out_suite(void)
{
	Suite *s = suite_create("server/out");
	TCase *t = tcase_create("out");

	tcase_add_test(t, a_status_only_rises);
	tcase_add_test(t, a_reader_that_left_is_left_alone);
	tcase_add_test(t, a_warning_is_a_line_of_ours);
	tcase_add_test(t, names_come_back_exactly);
	tcase_add_test(t, ages_are_in_words);
	suite_add_tcase(s, t);
	return s;
}
