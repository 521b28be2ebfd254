/*
 * Ids: pinned values (worked out with another program), and the type is part
 * of them.
 */
#include "proto/fmt_id.h"

#include "base/str.h"

#include <check.h>
#include <string.h>

static void check_id(enum object_type type, const char *plain,
    const char *hex)
{
	struct id id, want;
	struct err e;

	ck_assert_int_eq(hex_get(want.bytes, ID_SIZE, hex), 0);
	ck_assert_int_eq(id_of(&id, type, plain, strlen(plain), &e), 0);
	ck_assert(id_equal(&id, &want));
}

START_TEST(ids_are_as_pinned)
{
	check_id(OBJECT_CHUNK, "hello", "cceeb7a985ecc3dabcb4c8f666cd637f"
	    "16f008e3c963db6aa6f83a7b288c54ef");
	check_id(OBJECT_FACTS, "", "e52d9c508c502347344d8c07ad91cbd6"
	    "068afc75ff6292f062a09ca381c89e71");
}
END_TEST

START_TEST(the_type_is_part_of_the_id)
{
	struct id a, b;
	struct err e;

	ck_assert_int_eq(id_of(&a, OBJECT_CHUNK, "x", 1, &e), 0);
	ck_assert_int_eq(id_of(&b, OBJECT_TREE, "x", 1, &e), 0);
	ck_assert(!id_equal(&a, &b));
}
END_TEST

START_TEST(types_are_four)
{
	unsigned known = 0;

	for (unsigned t = 0; t < 256; t++)
		known += object_type_known(t);
	ck_assert_uint_eq(known, 4);
	ck_assert(!object_type_known(0));
	ck_assert(object_has_refs(OBJECT_TREE) && object_has_refs(OBJECT_LIST));
	ck_assert(!object_has_refs(OBJECT_CHUNK) &&
	    !object_has_refs(OBJECT_FACTS));
}
END_TEST

START_TEST(only_zero_is_zero)
{
	struct id id;

	memset(&id, 0, sizeof(id));
	ck_assert(id_is_zero(&id));
	for (int i = 0; i < ID_SIZE; i++) {
		id.bytes[i] = 1;
		ck_assert(!id_is_zero(&id));
		id.bytes[i] = 0;
	}
}
END_TEST

Suite *proto_fmt_id_suite(void);
Suite *proto_fmt_id_suite(void)
{
	Suite *s = suite_create("fmt_id");
	TCase *t = tcase_create("ids");

	tcase_add_test(t, ids_are_as_pinned);
	tcase_add_test(t, the_type_is_part_of_the_id);
	tcase_add_test(t, types_are_four);
	tcase_add_test(t, only_zero_is_zero);
	suite_add_tcase(s, t);
	return s;
}
