/*
 * Fetch: ids are answered in order; neighbours in one frame by one frame; a
 * frame with something foreign in it is not sent as it is; what is not the
 * domain's is told as lost, without disturbing the rest.
 */
#include "tests/store/help.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 4000

static struct bench b;

static void setup(void)
{
	bench_open(&b, 112);
}

static void teardown(void)
{
	bench_close(&b);
}

struct answers {
	struct id ids[64];	/* of all objects, in the order they came */
	size_t count;
	unsigned frames, lost;
	bool fail;
};

static int on_frame(void *arg, const void *frame, size_t size, struct err *e)
{
	struct answers *a = arg;
	struct frame_view v;
	struct frame_object o;

	if (a->fail)
		return err_set(e, ERR_TIMEOUT, "the peer is gone");
	ck_assert_int_eq(frame_parse(&v, frame, size, e), 0);
	for (uint32_t i = 0; i < v.object_count; i++) {
		frame_object_at(&v, i, &o);
		ck_assert_uint_lt(a->count, 64);
		a->ids[a->count++] = o.id;
	}
	a->frames++;
	return 0;
}

static int on_lost(void *arg, const struct id *id, const struct err *why,
    struct err *e)
{
	struct answers *a = arg;

	(void)e;
	(void)id;
	ck_assert_int_eq(why->code, ERR_NOT_FOUND);
	a->lost++;
	return 0;
}

static int fetch(const char *client, const struct id *ids, size_t count,
    struct answers *a, struct err *e)
{
	struct fetch_ops ops = { on_frame, on_lost, a };
	struct store_session *ss;
	int rc;

	ck_assert_int_eq(store_session_open(&ss, b.store, client, e), 0);
	rc = store_fetch(ss, ids, count, &ops, e);
	store_session_close(ss);
	return rc;
}

/* Ten chunks in one frame, for this client. */
static void push_group(const char *client, uint64_t seed, uint8_t id)
{
	struct pusher p;
	struct err e;

	pusher_open(&p, &b, client);
	pusher_begin(&p, id);
	for (unsigned i = 0; i < 10; i++)
		pusher_add_chunk(&p, seed + i, SIZE);
	ck_assert_int_eq(pusher_send(&p, &e), 0);
	pusher_settle(&p);
	pusher_close(&p);
}

START_TEST(neighbours_come_in_one_frame)
{
	struct answers a = { .count = 0 };
	struct id ids[10];
	struct err e;

	push_group("anna", 100, 1);
	for (unsigned i = 0; i < 10; i++)
		ids[i] = chunk_id(100 + i, SIZE);
	ck_assert_int_eq(fetch("anna", ids, 10, &a, &e), 0);
	ck_assert_uint_eq(a.frames, 1);
	ck_assert_uint_eq(a.count, 10);
	for (unsigned i = 0; i < 10; i++)
		ck_assert(id_equal(&a.ids[i], &ids[i]));
}
END_TEST

START_TEST(a_little_of_a_frame_is_sent_alone)
{
	struct answers a = { .count = 0 };
	struct id id = chunk_id(104, SIZE);
	struct err e;

	push_group("anna", 100, 1);
	ck_assert_int_eq(fetch("anna", &id, 1, &a, &e), 0);
	ck_assert_uint_eq(a.frames, 1);
	ck_assert_uint_eq(a.count, 1);
	ck_assert(id_equal(&a.ids[0], &id));
}
END_TEST

START_TEST(nothing_foreign_comes_along)
{
	struct answers a = { .count = 0 };
	struct id ids[8];
	struct err e;

	push_group("anna", 100, 1);
	push_group("bert", 102, 1);	/* 102..109 are in anna's frame */
	for (unsigned i = 0; i < 8; i++)
		ids[i] = chunk_id(102 + i, SIZE);
	ck_assert_int_eq(fetch("bert", ids, 8, &a, &e), 0);
	ck_assert_uint_eq(a.count, 8);
	for (unsigned i = 0; i < 8; i++)
		ck_assert(id_equal(&a.ids[i], &ids[i]));
}
END_TEST

START_TEST(what_is_lost_does_not_stop_the_rest)
{
	struct answers a = { .count = 0 };
	struct id ids[5];
	struct err e;

	push_group("anna", 100, 1);
	push_group("bert", 300, 1);
	ids[0] = chunk_id(100, SIZE);
	ids[1] = chunk_id(300, SIZE);	/* bert's */
	ids[2] = chunk_id(999, SIZE);	/* nobody's */
	ids[3] = chunk_id(109, SIZE);
	ids[4] = chunk_id(100, SIZE);	/* once more */
	ck_assert_int_eq(fetch("anna", ids, 5, &a, &e), 0);
	ck_assert_uint_eq(a.lost, 2);
	ck_assert_uint_eq(a.count, 3);
	ck_assert(id_equal(&a.ids[1], &ids[3]));
}
END_TEST

START_TEST(a_callback_that_fails_ends_it)
{
	struct answers a = { .fail = true };
	struct id id = chunk_id(100, SIZE);
	struct err e;

	push_group("anna", 100, 1);
	ck_assert_int_eq(fetch("anna", &id, 1, &a, &e), -1);
	ck_assert_int_eq(e.code, ERR_TIMEOUT);
}
END_TEST

Suite *store_fetch_suite(void);
Suite *store_fetch_suite(void)
{
	Suite *s = suite_create("store_fetch");
	TCase *t = tcase_create("fetch");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, neighbours_come_in_one_frame);
	tcase_add_test(t, a_little_of_a_frame_is_sent_alone);
	tcase_add_test(t, nothing_foreign_comes_along);
	tcase_add_test(t, what_is_lost_does_not_stop_the_rest);
	tcase_add_test(t, a_callback_that_fails_ends_it);
	suite_add_tcase(s, t);
	return s;
}
