/* Proves base/err.h: sentences are bounded, codes keep their wire numbers. */
#include "base/err.h"

#include <check.h>
#include <errno.h>
#include <string.h>

Suite *base_err_suite(void);

START_TEST(a_sentence_names_the_object_and_the_reason)
{
	struct err e;

	ck_assert_int_eq(err_os(&e, ENOENT, "open %s", "x"), -1);
	ck_assert_str_eq(e.text, "open x: No such file or directory");
	ck_assert_int_eq(e.code, ERR_IO);
	ck_assert_int_eq(e.os, ENOENT);
	ck_assert_int_eq(err_add(&e, "snapshot %d", 7), -1);
	ck_assert_str_eq(e.text,
	    "snapshot 7: open x: No such file or directory");
	ck_assert_int_eq(e.os, ENOENT);
	err_os(&e, ENOSPC, "write");
	ck_assert_int_eq(e.code, ERR_NO_SPACE);
}
END_TEST

START_TEST(long_texts_are_cut_and_terminated)
{
	char path[5000];
	struct err e;

	memset(path, 'p', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	err_set(&e, ERR_LIMIT, "%s", path);
	ck_assert_uint_eq(strlen(e.text), sizeof(e.text) - 1);
	err_add(&e, "%s", path);
	ck_assert_uint_lt(strlen(e.text), sizeof(e.text));
	err_os(&e, EIO, "%s", path);	/* the reason is not cut off */
	ck_assert_ptr_nonnull(strstr(e.text, "Input/output error"));
}
END_TEST

START_TEST(wire_numbers_are_frozen)
{
	ck_assert_int_eq(err_wire(ERR_NONE), 0);
	ck_assert_int_eq(err_wire(ERR_IO), 1);
	ck_assert_int_eq(err_wire(ERR_NO_MEMORY), 9);
	ck_assert_int_eq(err_wire(ERR_TIMEOUT), 16);
	for (int i = 1; i <= 16; i++)
		ck_assert_int_eq(err_wire(err_from_wire(i)), i);
	ck_assert_int_eq(err_from_wire(9999), ERR_PROTOCOL);
	ck_assert_int_eq(err_from_wire(-1), ERR_PROTOCOL);
	ck_assert_str_eq(err_name(ERR_BUSY), "ERR_BUSY");
	ck_assert_str_eq(err_name(ERR_NONE), "ERR_NONE");
}
END_TEST

Suite *base_err_suite(void)
{
	Suite *s = suite_create("err");
	TCase *t = tcase_create("all");

	tcase_add_test(t, a_sentence_names_the_object_and_the_reason);
	tcase_add_test(t, long_texts_are_cut_and_terminated);
	tcase_add_test(t, wire_numbers_are_frozen);
	suite_add_tcase(s, t);
	return s;
}
