/*
 * What a server gives is taken only if it is what was asked for: the id's own
 * bytes, of its type, and no more of them than were reckoned with, for on that
 * rests the bound of what is read ahead.
 */
#include "tests/client/fake_server.h"

#include "base/wire.h"
#include "client/fetch.h"
#include "client/link.h"
#include "proto/fmt_frame.h"
#include "proto/fmt_tree.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define LARGE (512u << 10)

Suite *client_fetch_suite(void);

static struct fake_store *server;
static struct link *line;
static struct fetch *f;

static void setup(void)
{
	struct wire *w;
	struct err e;
	int fd;

	server = fake_store_new();
	fd = fake_session(server);
	ck_assert_int_eq(wire_open_fd(&w, fd, fd, NULL, &e), 0);
	ck_assert_msg(link_open_wire(&line, w, &e) == 0, "%s", e.text);
	ck_assert_int_eq(fetch_new(&f, line, &e), 0);
}

static void teardown(void)
{
	fetch_free(f);
	link_close(line);
	fake_session_end(server);
	fake_store_free(server);
}

static struct id add(enum object_type type, size_t size)
{
	uint8_t *bytes = malloc(size);
	struct id id;

	memset(bytes, 'x', size);
	id = fake_add(server, type, bytes, size, NULL, 0);
	free(bytes);
	return id;
}

static enum fetch_state get(const struct id *id, enum object_type type,
    uint32_t guess)
{
	struct fetch_object *o;
	enum fetch_state state;
	struct err e;

	ck_assert_int_eq(fetch_want(&o, f, id, type, guess, &e), 0);
	ck_assert_msg(fetch_wait(f, o, &e) == 0, "%s", e.text);
	state = o->state;
	fetch_drop(f, o);
	ck_assert_uint_eq(fetch_bytes(f), 0);
	return state;
}

START_TEST(a_chunk_is_taken_up_to_the_size_that_was_named)
{
	struct id id = add(OBJECT_CHUNK, LARGE);

	ck_assert_int_eq(get(&id, OBJECT_CHUNK, 1), FETCH_LOST);
	ck_assert_int_eq(get(&id, OBJECT_CHUNK, LARGE - 1), FETCH_LOST);
	ck_assert_uint_eq(fetch_received(f), 0);
	ck_assert_int_eq(get(&id, OBJECT_CHUNK, LARGE), FETCH_HERE);
	ck_assert_int_eq(get(&id, OBJECT_CHUNK, FRAME_PLAIN_MAX),
	    FETCH_HERE);
	ck_assert_uint_eq(fetch_received(f), 2 * LARGE);
}
END_TEST

START_TEST(a_page_is_taken_up_to_the_size_that_pages_have)
{
	struct id most = add(OBJECT_TREE, TREE_PAGE_MAX);
	struct id more = add(OBJECT_TREE, TREE_PAGE_MAX + 1);

	ck_assert_int_eq(get(&most, OBJECT_TREE, 100), FETCH_HERE);
	ck_assert_int_eq(get(&more, OBJECT_TREE, LARGE), FETCH_LOST);
}
END_TEST

START_TEST(another_type_or_other_bytes_are_not_taken)
{
	struct id id = add(OBJECT_CHUNK, 100), lie = add(OBJECT_CHUNK, 200);
	struct id none = { { 9 } };

	fake_find(server, &lie)->lie = true;
	ck_assert_int_eq(get(&id, OBJECT_FACTS, 100), FETCH_LOST);
	ck_assert_int_eq(get(&lie, OBJECT_CHUNK, 200), FETCH_LOST);
	ck_assert_int_eq(get(&none, OBJECT_CHUNK, 200), FETCH_LOST);
	ck_assert_int_eq(get(&id, OBJECT_CHUNK, 100), FETCH_HERE);
}
END_TEST

Suite *client_fetch_suite(void)
{
	Suite *s = suite_create("client/fetch");
	TCase *t = tcase_create("fetch");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_chunk_is_taken_up_to_the_size_that_was_named);
	tcase_add_test(t, a_page_is_taken_up_to_the_size_that_pages_have);
	tcase_add_test(t, another_type_or_other_bytes_are_not_taken);
	suite_add_tcase(s, t);
	return s;
}
