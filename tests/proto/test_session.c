/*
 * Sessions: each rule of proto/session.h alone, then both ends against each
 * other: two state machines with messages under way between them, driven by a
 * seeded player that says whatever its own end allows.  Whatever one end
 * lets out, the other must let in, for all delays.  Seeds: 1 to 300.
 */
#include "proto/session.h"

#include "base/buf.h"
#include "base/le.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t blank[300];

/* From the client to the server; both ends are told. */
struct pair {
	struct session_state client, server;
	struct err e;
};

static void pair_init(struct pair *p)
{
	session_init(&p->client, false);
	session_init(&p->server, true);
}

static int ask(struct pair *p, uint8_t type, uint32_t request, uint32_t size)
{
	int r = session_out(&p->client, type, request, blank, size, &p->e);

	ck_assert_int_eq(session_in(&p->server, type, request, blank, size,
	    &p->e), r);
	return r;
}

static int answer_with(struct pair *p, uint8_t type, uint32_t request,
    const void *body, uint32_t size)
{
	int r = session_out(&p->server, type, request, body, size, &p->e);

	ck_assert_int_eq(session_in(&p->client, type, request, body, size,
	    &p->e), r);
	return r;
}

static int answer(struct pair *p, uint8_t type, uint32_t request,
    uint32_t size)
{
	return answer_with(p, type, request, blank, size);
}

static int ack(struct pair *p, uint32_t number)
{
	uint8_t body[4];

	le32_put(body, number);
	return answer_with(p, MSG_ACK, 0, body, 4);
}

static int error(struct pair *p, uint32_t request, bool fatal)
{
	const uint8_t body[4] = { 4, 0, fatal, 0 };

	return answer_with(p, MSG_ERROR, request, body, 4);
}

static void check_state(const struct pair *p, unsigned state)
{
	ck_assert_uint_eq(p->client.state, state);
	ck_assert_uint_eq(p->server.state, state);
	ck_assert_uint_eq(p->client.open_requests, p->server.open_requests);
}

static void ready(struct pair *p)
{
	pair_init(p);
	ck_assert_int_eq(ask(p, MSG_HELLO, 1, 17), 0);
	check_state(p, PS_HELLO);
	ck_assert_int_eq(answer(p, MSG_WELCOME, 1, 96), 0);
	check_state(p, PS_READY);
}

static void pushing(struct pair *p)
{
	ready(p);
	ck_assert_int_eq(ask(p, MSG_BEGIN, 2, 28), 0);
	check_state(p, PS_READY);
	ck_assert_int_eq(answer(p, MSG_BEGUN, 2, 4), 0);
	check_state(p, PS_PUSH);
}

START_TEST(a_whole_session_passes)
{
	struct pair p;

	pushing(&p);
	ck_assert_int_eq(ask(&p, MSG_HAVE, 3, 64), 0);
	ck_assert_int_eq(ask(&p, MSG_HAVE, 4, 32), 0);
	ck_assert_int_eq(answer(&p, MSG_HAVE_IS, 3, 1), 0);
	ck_assert_int_eq(ask(&p, MSG_FRAME, 1, 100), 0);
	ck_assert_int_eq(answer(&p, MSG_HAVE_IS, 4, 1), 0);
	ck_assert_int_eq(ask(&p, MSG_FRAME, 2, 100), 0);
	ck_assert_int_eq(ack(&p, 1), 0);
	ck_assert_int_eq(answer(&p, MSG_MISSING, 2, 32), 0);
	ck_assert_int_eq(ask(&p, MSG_FRAME, 3, 100), 0);
	ck_assert_int_eq(ask(&p, MSG_SYNC, 5, 0), 0);
	ck_assert_int_eq(ack(&p, 3), 0);
	ck_assert_int_eq(ask(&p, MSG_COMMIT, 0, 128), 0);
	ck_assert_int_eq(ack(&p, 3), 0);
	ck_assert_int_eq(answer(&p, MSG_COMMITTED, 0, 160), 0);
	check_state(&p, PS_READY);
	ck_assert_int_eq(ask(&p, MSG_SNAPSHOTS, 6, 0), 0);
	ck_assert_int_eq(ask(&p, MSG_FETCH, 7, 32), 0);
	ck_assert_int_eq(answer(&p, MSG_SNAPSHOT, 6, 160), 0);
	ck_assert_int_eq(answer(&p, MSG_END, 6, 4), 0);
	ck_assert_int_eq(answer(&p, MSG_OBJECTS, 7, 100), 0);
	ck_assert_int_eq(answer(&p, MSG_FETCHED, 7, 4), 0);
	ck_assert_uint_eq(p.client.open_requests, 0);
	ck_assert_int_eq(ask(&p, MSG_BYE, 0, 0), 0);
	check_state(&p, PS_CLOSED);
	ck_assert_int_eq(ask(&p, MSG_HELLO, 1, 17), -1);
	ck_assert_int_eq(p.e.code, ERR_PROTOCOL);
}
END_TEST

START_TEST(nothing_comes_before_hello)
{
	for (unsigned type = 0; type < 256; type++) {
		struct pair p;
		const struct msg_rule *r = msg_rule_find((uint8_t)type);

		pair_init(&p);
		if (type == MSG_HELLO)
			continue;
		ck_assert_int_eq(ask(&p, (uint8_t)type, 1,
		    r ? r->size_min : 0), -1);
		ck_assert_int_eq(p.e.code, ERR_PROTOCOL);
		check_state(&p, PS_HELLO);
	}
}
END_TEST

START_TEST(an_exclusive_request_waits_for_its_answer)
{
	struct pair p;

	pair_init(&p);
	ck_assert_int_eq(ask(&p, MSG_HELLO, 1, 17), 0);
	ck_assert_int_eq(ask(&p, MSG_HELLO, 2, 17), -1);
	ready(&p);
	ck_assert_int_eq(ask(&p, MSG_FETCH, 2, 32), 0);
	ck_assert_int_eq(ask(&p, MSG_BEGIN, 3, 28), -1);
	ck_assert_int_eq(answer(&p, MSG_FETCHED, 2, 4), 0);
	ck_assert_int_eq(ask(&p, MSG_BEGIN, 3, 28), 0);
	ck_assert_int_eq(ask(&p, MSG_FETCH, 4, 32), -1);
	ck_assert_int_eq(answer(&p, MSG_BEGUN, 3, 4), 0);
	ck_assert_int_eq(ask(&p, MSG_COMMIT, 5, 128), -1);	/* not 0 */
	ck_assert_int_eq(ask(&p, MSG_HAVE, 5, 32), 0);
	ck_assert_int_eq(ask(&p, MSG_COMMIT, 0, 128), -1);
	ck_assert_int_eq(answer(&p, MSG_HAVE_IS, 5, 1), 0);
	ck_assert_int_eq(ask(&p, MSG_COMMIT, 0, 128), 0);
	ck_assert_int_eq(ask(&p, MSG_FRAME, 1, 100), -1);
	ck_assert_int_eq(ask(&p, MSG_ABORT, 0, 0), -1);
	ck_assert_int_eq(ask(&p, MSG_BYE, 0, 0), 0);
}
END_TEST

START_TEST(frames_count_up_by_one)
{
	struct pair p;

	pushing(&p);
	ck_assert_int_eq(ask(&p, MSG_FRAME, 0, 100), -1);
	ck_assert_int_eq(ask(&p, MSG_FRAME, 2, 100), -1);
	ck_assert_int_eq(ask(&p, MSG_FRAME, 1, 100), 0);
	ck_assert_int_eq(ask(&p, MSG_FRAME, 1, 100), -1);
	ck_assert_int_eq(ask(&p, MSG_FRAME, 2, 100), 0);
	p.client.frames_in = p.server.frames_in = UINT32_MAX;
	ck_assert_int_eq(ask(&p, MSG_FRAME, 0, 100), -1);
}
END_TEST

START_TEST(frames_begin_anew_with_each_push)
{
	struct pair p;

	pushing(&p);
	ck_assert_int_eq(ask(&p, MSG_FRAME, 1, 100), 0);
	ck_assert_int_eq(ack(&p, 1), 0);
	ck_assert_int_eq(ask(&p, MSG_ABORT, 0, 0), 0);
	ck_assert_int_eq(ask(&p, MSG_BEGIN, 3, 28), 0);
	ck_assert_int_eq(answer(&p, MSG_BEGUN, 3, 4), 0);
	ck_assert_int_eq(ack(&p, 1), -1);
	ck_assert_int_eq(ask(&p, MSG_FRAME, 1, 100), 0);
}
END_TEST

START_TEST(acks_go_forward_and_not_beyond)
{
	struct pair p;

	pushing(&p);
	ck_assert_int_eq(ack(&p, 0), 0);
	ck_assert_int_eq(ack(&p, 1), -1);
	for (uint32_t i = 1; i <= 5; i++)
		ck_assert_int_eq(ask(&p, MSG_FRAME, i, 100), 0);
	ck_assert_int_eq(ack(&p, 3), 0);
	ck_assert_int_eq(ack(&p, 3), 0);
	ck_assert_int_eq(ack(&p, 2), -1);
	ck_assert_int_eq(ack(&p, 6), -1);
	ck_assert_int_eq(ack(&p, 5), 0);
}
END_TEST

START_TEST(answers_without_a_question_are_refused)
{
	static const struct {
		uint8_t type;
		uint32_t request, size;
		bool in_push;
	} all[] = {
		{ MSG_WELCOME, 1, 96, false }, { MSG_BEGUN, 1, 4, false },
		{ MSG_SNAPSHOT, 1, 160, false }, { MSG_END, 1, 4, false },
		{ MSG_OBJECTS, 1, 100, false }, { MSG_FETCHED, 1, 4, false },
		{ MSG_HAVE_IS, 1, 1, true }, { MSG_COMMITTED, 0, 160, true },
		{ MSG_MISSING, 0, 32, true }, { MSG_MISSING, 1, 32, true },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct pair p;

		if (all[i].in_push)
			pushing(&p);
		else
			ready(&p);
		ck_assert_int_eq(answer(&p, all[i].type, all[i].request,
		    all[i].size), -1);
		ck_assert_int_eq(p.e.code, ERR_PROTOCOL);
	}
}
END_TEST

START_TEST(part_of_an_id_is_refused)
{
	struct pair p;

	pushing(&p);
	ck_assert_int_eq(ask(&p, MSG_HAVE, 1, 33), -1);
	ck_assert_int_eq(ask(&p, MSG_FRAME, 1, 100), 0);
	ck_assert_int_eq(answer(&p, MSG_MISSING, 1, 40), -1);
	ready(&p);
	ck_assert_int_eq(ask(&p, MSG_FETCH, 1, 63), -1);
}
END_TEST

START_TEST(a_committed_snapshot_needs_no_push)
{
	uint8_t body[164] = { 1, [4] = 1 };
	struct pair p;

	ready(&p);
	ck_assert_int_eq(ask(&p, MSG_BEGIN, 2, 28), 0);
	ck_assert_int_eq(answer_with(&p, MSG_BEGUN, 2, body, 164), 0);
	check_state(&p, PS_READY);
	ck_assert_int_eq(ask(&p, MSG_BEGIN, 2, 28), 0);
	body[4] = 2;		/* a record of tomorrow */
	ck_assert_int_eq(answer_with(&p, MSG_BEGUN, 2, body, 164), -1);
}
END_TEST

START_TEST(a_commit_can_be_refused_and_tried_again)
{
	struct pair p;

	pushing(&p);
	ck_assert_int_eq(ask(&p, MSG_COMMIT, 0, 128), 0);
	ck_assert_int_eq(answer(&p, MSG_MISSING, 0, 32), 0);
	check_state(&p, PS_PUSH);
	ck_assert_int_eq(ask(&p, MSG_COMMIT, 0, 128), 0);
	ck_assert_int_eq(error(&p, 0, false), 0);
	check_state(&p, PS_PUSH);
	ck_assert_int_eq(error(&p, 0, false), -1);
	ck_assert_int_eq(ask(&p, MSG_ABORT, 0, 0), 0);
	check_state(&p, PS_READY);
}
END_TEST

START_TEST(errors_answer_or_end)
{
	struct pair p;

	pair_init(&p);
	ck_assert_int_eq(error(&p, 0, false), -1);
	ck_assert_int_eq(ask(&p, MSG_HELLO, 1, 17), 0);
	ck_assert_int_eq(error(&p, 1, true), 0);
	check_state(&p, PS_CLOSED);
	ready(&p);
	ck_assert_int_eq(error(&p, 1, false), -1);
	ck_assert_int_eq(ask(&p, MSG_FETCH, 1, 32), 0);
	ck_assert_int_eq(error(&p, 1, false), 0);
	check_state(&p, PS_READY);
	ck_assert_int_eq(ask(&p, MSG_BEGIN, 2, 28), 0);
	ck_assert_int_eq(error(&p, 2, false), 0);
	ck_assert_int_eq(ask(&p, MSG_FETCH, 3, 32), 0);
	ck_assert_int_eq(error(&p, 0, true), 0);
	check_state(&p, PS_CLOSED);
}
END_TEST

START_TEST(late_answers_of_an_aborted_push_pass)
{
	struct session_state c;
	struct pair p;
	struct err e;
	uint8_t two[4] = { 2 };

	pushing(&p);
	ck_assert_int_eq(ask(&p, MSG_HAVE, 3, 32), 0);
	ck_assert_int_eq(ask(&p, MSG_FRAME, 1, 100), 0);
	ck_assert_int_eq(ask(&p, MSG_ABORT, 0, 0), 0);
	/* The server is past it ... */
	ck_assert_int_eq(session_out(&p.server, MSG_ACK, 0, two, 4, &e), -1);
	/* ... what it sent before still comes. */
	c = p.client;
	ck_assert_int_eq(session_in(&c, MSG_ACK, 0, two, 4, &e), 0);
	ck_assert_int_eq(session_in(&c, MSG_HAVE_IS, 3, blank, 1, &e), 0);
	ck_assert_int_eq(session_in(&c, MSG_MISSING, 1, blank, 32, &e), 0);
	ck_assert_int_eq(session_in(&c, MSG_COMMITTED, 0, blank, 160, &e), -1);
	ck_assert_int_eq(session_in(&c, MSG_ACK, 0, two, 5, &e), -1);
	ck_assert_int_eq(session_out(&c, MSG_FETCH, 4, blank, 32, &e), 0);
	ck_assert_int_eq(session_in(&c, MSG_ACK, 0, two, 4, &e), 0);
	ck_assert_int_eq(session_in(&c, MSG_FETCHED, 4, blank, 4, &e), 0);
	ck_assert_int_eq(session_in(&c, MSG_ACK, 0, two, 4, &e), -1);
}
END_TEST

START_TEST(a_refused_message_changes_nothing)
{
	struct pair p, before;

	pushing(&p);
	ck_assert_int_eq(ask(&p, MSG_FRAME, 1, 100), 0);
	before = p;
	for (unsigned type = 0; type < 256; type++) {
		struct session_state s = p.server;
		struct err e;

		if (session_in(&s, (uint8_t)type, 77, blank, 29, &e) != 0)
			ck_assert_mem_eq(&s, &before.server, sizeof(s));
	}
}
END_TEST

/* ---- both ends, with delays ---------------------------------------------- */

struct said {
	uint8_t type;
	uint32_t request, size;
	uint8_t body[164];
};

#define QUEUE 64

struct queue {
	struct said items[QUEUE];
	unsigned head, count;
};

static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static const uint8_t client_types[] = {
	MSG_HELLO, MSG_BEGIN, MSG_HAVE, MSG_FRAME, MSG_FRAME, MSG_FRAME,
	MSG_SYNC, MSG_COMMIT, MSG_ABORT, MSG_SNAPSHOTS, MSG_FETCH,
};
static const uint8_t server_types[] = {
	MSG_WELCOME, MSG_ERROR, MSG_BEGUN, MSG_HAVE_IS, MSG_HAVE_IS, MSG_ACK,
	MSG_ACK, MSG_MISSING, MSG_COMMITTED, MSG_SNAPSHOT, MSG_END,
	MSG_OBJECTS, MSG_FETCHED,
};

static struct said some_client_message(const struct session_state *s,
    uint64_t *r)
{
	struct said m = { .request = (uint32_t)(next_random(r) % 4) };

	m.type = client_types[next_random(r) % sizeof(client_types)];
	/* Not so many that BEGIN and COMMIT never come. */
	if (s->open_requests >= 2 || (m.type >= MSG_SNAPSHOTS &&
	    next_random(r) % 4))
		m.type = MSG_BEGIN;
	m.size = msg_rule_find(m.type)->size_min;
	if (m.type == MSG_FRAME && next_random(r) % 8)
		m.request = s->frames_in + 1;
	if (m.type == MSG_COMMIT && next_random(r) % 8)
		m.request = 0;
	return m;
}

static struct said some_server_message(const struct session_state *s,
    uint64_t *r)
{
	struct said m = { .request = (uint32_t)(next_random(r) % 4) };

	m.type = server_types[next_random(r) % sizeof(server_types)];
	m.size = msg_rule_find(m.type)->size_min;
	if (m.type == MSG_ACK)
		le32_put(m.body, s->frames_in - (uint32_t)(next_random(r) %
		    3));
	if (m.type == MSG_ERROR)
		m.body[0] = ERR_NO_SPACE;
	if (m.type == MSG_BEGUN && next_random(r) % 3 == 0) {
		m.body[0] = m.body[4] = 1;
		m.size = 164;
	}
	return m;
}

static void say(struct session_state *s, struct queue *q,
    const struct said *m)
{
	struct err e;

	if (q->count == QUEUE || session_out(s, m->type, m->request, m->body,
	    m->size, &e) != 0)
		return;
	q->items[(q->head + q->count++) % QUEUE] = *m;
}

static void hear(struct session_state *s, struct queue *q, int seed)
{
	const struct said *m = &q->items[q->head];
	struct err e = { .text = "" };

	if (q->count == 0)
		return;
	ck_assert_msg(session_in(s, m->type, m->request, m->body, m->size,
	    &e) == 0, "seed %d: %s", seed, e.text);
	q->head = (q->head + 1) % QUEUE;
	q->count--;
}

START_TEST(what_one_end_lets_out_the_other_lets_in)	/* _i: the seed */
{
	struct session_state client, server;
	static struct queue up, down;
	uint64_t r = (uint64_t)_i;
	unsigned pushes = 0, before = PS_HELLO;

	session_init(&client, false);
	session_init(&server, true);
	memset(&up, 0, sizeof(up));
	memset(&down, 0, sizeof(down));
	for (int step = 0; step < 20000; step++) {
		struct said m;

		switch (next_random(&r) % 4) {
		case 0:
			m = some_client_message(&client, &r);
			say(&client, &up, &m);
			break;
		case 1:
			m = some_server_message(&server, &r);
			say(&server, &down, &m);
			break;
		case 2:
			hear(&server, &up, _i);
			break;
		default:
			hear(&client, &down, _i);
		}
		pushes += client.state == PS_PUSH && before != PS_PUSH;
		before = client.state;
	}
	ck_assert_uint_gt(pushes, 50);
	while (up.count > 0)
		hear(&server, &up, _i);
	while (down.count > 0)
		hear(&client, &down, _i);
	ck_assert_uint_eq(client.state, server.state);
	ck_assert_uint_eq(client.open_requests, server.open_requests);
	ck_assert_uint_eq(client.frames_in, server.frames_in);
	ck_assert_uint_eq(client.exclusive, server.exclusive);
}
END_TEST

Suite *proto_session_suite(void);
Suite *proto_session_suite(void)
{
	Suite *s = suite_create("session");
	TCase *t = tcase_create("rules");
	TCase *both = tcase_create("both ends");

	tcase_add_test(t, a_whole_session_passes);
	tcase_add_test(t, nothing_comes_before_hello);
	tcase_add_test(t, an_exclusive_request_waits_for_its_answer);
	tcase_add_test(t, frames_count_up_by_one);
	tcase_add_test(t, frames_begin_anew_with_each_push);
	tcase_add_test(t, acks_go_forward_and_not_beyond);
	tcase_add_test(t, answers_without_a_question_are_refused);
	tcase_add_test(t, part_of_an_id_is_refused);
	tcase_add_test(t, a_committed_snapshot_needs_no_push);
	tcase_add_test(t, a_commit_can_be_refused_and_tried_again);
	tcase_add_test(t, errors_answer_or_end);
	tcase_add_test(t, late_answers_of_an_aborted_push_pass);
	tcase_add_test(t, a_refused_message_changes_nothing);
	tcase_add_loop_test(both, what_one_end_lets_out_the_other_lets_in, 1,
	    301);
	suite_add_tcase(s, t);
	suite_add_tcase(s, both);
	return s;
}
