/*
 * Proves the promises of base/wire.h over socket pairs: order and content of
 * messages, back-pressure, liveness, and every way in which a wire ends.
 */
#include "base/clock.h"
#include "base/le.h"
#include "base/wire.h"
#include "tests/support/pace.h"

#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

Suite *base_wire_suite(void);

struct pair {
	struct wire *a, *b;
};

static void pair_open(struct pair *p, const struct wire_options *oa,
    const struct wire_options *ob)
{
	struct err e;
	int fd[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd),
	    0);
	ck_assert_int_eq(wire_open_fd(&p->a, fd[0], fd[0], oa, &e), 0);
	ck_assert_int_eq(wire_open_fd(&p->b, fd[1], fd[1], ob, &e), 0);
}

/* Both ends at once, as two programs would. */
static void *close_one(void *w)
{
	wire_close(w);
	return NULL;
}

static void pair_close(struct pair *p)
{
	pthread_t t;

	pthread_create(&t, NULL, close_one, p->a);
	wire_close(p->b);
	pthread_join(t, NULL);
}

/* A wire on one end, the bare socket on the other. */
static int half_open(struct wire **w, const struct wire_options *o)
{
	struct err e;
	int fd[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd),
	    0);
	ck_assert_int_eq(wire_open_fd(w, fd[0], fd[0], o, &e), 0);
	return fd[1];
}

static void raw_message(int fd, uint32_t length, uint8_t type,
    uint32_t request)
{
	uint8_t h[WIRE_HEADER_SIZE];

	le32_put(h, length);
	h[4] = type;
	le32_put(h + 5, request);
	ck_assert_int_eq(write(fd, h, sizeof(h)), sizeof(h));
}

START_TEST(messages_arrive_whole_and_in_order)
{
	struct wire_msg m;
	struct pair p;
	struct err e;

	pair_open(&p, NULL, NULL);
	ck_assert_int_eq(wire_send(p.a, 7, 1, "head", 4, "body", 4, &e), 0);
	ck_assert_int_eq(wire_send(p.a, 8, 2, NULL, 0, NULL, 0, &e), 0);
	ck_assert_int_eq(wire_send(p.b, 9, 3, NULL, 0, "x", 1, &e), 0);
	ck_assert_int_eq(wire_recv(p.b, &m, &e), 0);
	ck_assert_uint_eq(m.type, 7);
	ck_assert_uint_eq(m.request, 1);
	ck_assert_uint_eq(m.size, 8);
	ck_assert_mem_eq(m.body, "headbody", 8);
	wire_msg_release(&m);
	ck_assert_int_eq(wire_recv(p.b, &m, &e), 0);
	ck_assert_uint_eq(m.type, 8);
	ck_assert_uint_eq(m.size, 0);
	wire_msg_release(&m);
	ck_assert_int_eq(wire_recv(p.a, &m, &e), 0);
	ck_assert_uint_eq(m.request, 3);
	wire_msg_release(&m);
	pair_close(&p);
}
END_TEST

static unsigned bulk;		/* messages */

static uint32_t bulk_size(uint32_t i)
{
	return i % 7 == 0 ? 1u << 20 : (i * 7919u) % 70000;
}

static void *send_bulk(void *arg)
{
	uint8_t *body = malloc(1 << 20);
	struct err e;

	for (uint32_t i = 0; i < bulk; i++) {
		memset(body, (int)(i & 0xff), bulk_size(i));
		if (wire_send(arg, 1, i, NULL, 0, body, bulk_size(i), &e) != 0)
			break;
	}
	free(body);
	return NULL;
}

static void recv_bulk(struct wire *w)
{
	struct wire_msg m;
	struct err e;

	for (uint32_t i = 0; i < bulk; i++) {
		ck_assert_int_eq(wire_recv(w, &m, &e), 0);
		ck_assert_uint_eq(m.request, i);
		ck_assert_uint_eq(m.size, bulk_size(i));
		for (uint32_t j = 0; j < m.size; j += 4093)
			ck_assert_uint_eq(m.body[j], i & 0xff);
		wire_msg_release(&m);
	}
}

START_TEST(much_passes_in_both_directions_at_once)
{
	pthread_t t[2];
	struct pair p;
	uint64_t sent, received;
	struct err e;

	bulk = pace_work(300);
	pair_open(&p, NULL, NULL);
	pthread_create(&t[0], NULL, send_bulk, p.a);
	pthread_create(&t[1], NULL, send_bulk, p.b);
	recv_bulk(p.b);
	recv_bulk(p.a);
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	ck_assert_int_eq(wire_drain(p.a, &e), 0);
	wire_counts(p.a, &sent, &received);
	ck_assert_uint_eq(sent, received);
	pair_close(&p);
}
END_TEST

/* The sender of a 1 MiB message at a time, until it fails. */
struct flood {
	struct wire *w;
	unsigned count;		/* atomic enough: read after join or a pause */
	struct err e;
};

static void *flood(void *arg)
{
	struct flood *f = arg;
	uint8_t *body = calloc(1, 1 << 20);

	while (wire_send(f->w, 1, 1, NULL, 0, body, 1 << 20, &f->e) == 0)
		__atomic_add_fetch(&f->count, 1, __ATOMIC_RELAXED);
	free(body);
	return NULL;
}

/* The count once it has not changed for a while. */
static unsigned settled(const struct flood *f)
{
	unsigned before, now = UINT32_MAX;

	do {
		before = now;
		usleep(150000 * pace());
		now = __atomic_load_n(&f->count, __ATOMIC_RELAXED);
	} while (now != before);
	return now;
}

START_TEST(a_peer_that_does_not_receive_blocks_the_sender_only)
{
	struct wire_options fast = {
		.ping_ms = 100 * pace(), .dead_ms = 1000 * pace(),
	};
	struct flood f = { 0 };
	struct wire_msg m;
	struct pair p;
	unsigned before;
	pthread_t t;
	struct err e;

	pair_open(&p, &fast, &fast);
	f.w = p.a;
	pthread_create(&t, NULL, flood, &f);
	before = settled(&f);
	ck_assert_uint_le(before, 12);	/* two queues of 4 MiB and stages */
	usleep(1300000 * pace());	/* more than dead_ms: nobody is dead */
	ck_assert_uint_eq(__atomic_load_n(&f.count, __ATOMIC_RELAXED), before);
	for (int i = 0; i < 40; i++) {
		ck_assert_msg(wire_recv(p.b, &m, &e) == 0, "%s", e.text);
		wire_msg_release(&m);
	}
	wire_abort(p.a, "enough");
	pthread_join(t, NULL);
	ck_assert_int_eq(f.e.code, ERR_CANCELLED);
	ck_assert_str_eq(f.e.text, "enough");
	pair_close(&p);
}
END_TEST

START_TEST(a_long_silence_is_healthy_while_pings_are_answered)
{
	struct wire_options fast = {
		.ping_ms = 50 * pace(), .dead_ms = 500 * pace(),
	};
	struct wire_msg m;
	struct pair p;
	struct err e;

	pair_open(&p, &fast, &fast);
	ck_assert_int_eq(wire_recv_wait(p.a, &m, 1300 * pace(), &e), 0);
	ck_assert_int_eq(wire_send(p.b, 5, 5, NULL, 0, NULL, 0, &e), 0);
	ck_assert_int_eq(wire_recv_wait(p.a, &m, 2000 * pace(), &e), 1);
	wire_msg_release(&m);
	pair_close(&p);
}
END_TEST

START_TEST(a_silent_peer_is_given_up_after_the_stated_time)
{
	struct wire_options fast = { .ping_ms = 50, .dead_ms = 300 };
	uint64_t start = clock_mono_ms();
	struct wire_msg m;
	struct wire *w;
	struct err e;
	int fd = half_open(&w, &fast);

	ck_assert_int_eq(wire_recv(w, &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_TIMEOUT);
	ck_assert_uint_ge(clock_mono_ms() - start, 300);
	ck_assert_uint_lt(clock_mono_ms() - start, 3000 * pace());
	ck_assert_int_eq(wire_send(w, 1, 1, NULL, 0, NULL, 0, &e), -1);
	ck_assert_int_eq(e.code, ERR_TIMEOUT);
	wire_close(w);
	close(fd);
}
END_TEST

START_TEST(what_came_before_the_end_is_received)
{
	struct wire_msg m;
	struct wire *w;
	struct err e;
	int fd = half_open(&w, NULL);

	raw_message(fd, 5, 3, 11);
	raw_message(fd, 5, 3, 12);
	close(fd);
	usleep(100000);
	ck_assert_int_eq(wire_recv(w, &m, &e), 0);
	ck_assert_uint_eq(m.request, 11);
	ck_assert_int_eq(wire_recv(w, &m, &e), 0);
	ck_assert_uint_eq(m.request, 12);
	ck_assert_int_eq(wire_recv(w, &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
	ck_assert_int_eq(wire_recv(w, &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
	wire_close(w);
}
END_TEST

START_TEST(what_was_sent_before_close_arrives)
{
	struct pair p;
	struct wire_msg m;
	struct err e;
	pthread_t t;

	pair_open(&p, NULL, NULL);
	for (uint32_t i = 0; i < 1000; i++)
		ck_assert_int_eq(wire_send(p.a, 1, i, NULL, 0, "0123456789",
		    10, &e), 0);
	pthread_create(&t, NULL, close_one, p.a);
	for (uint32_t i = 0; i < 1000; i++) {
		ck_assert_int_eq(wire_recv(p.b, &m, &e), 0);
		ck_assert_uint_eq(m.request, i);
		wire_msg_release(&m);
	}
	ck_assert_int_eq(wire_recv(p.b, &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
	wire_close(p.b);
	pthread_join(t, NULL);
}
END_TEST

/* loop test: lengths that no message has */
static const uint32_t bad_lengths[] = {
	0, 4, WIRE_BODY_MAX + 6, 0x7fffffff, 0xffffffff,
};

START_TEST(a_length_outside_the_limits_is_refused)
{
	struct wire_msg m;
	struct wire *w;
	struct err e;
	int fd = half_open(&w, NULL);

	raw_message(fd, bad_lengths[_i], 1, 1);
	ck_assert_int_eq(wire_recv(w, &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_PROTOCOL);
	wire_close(w);
	close(fd);
}
END_TEST

START_TEST(a_ping_with_a_body_is_refused)
{
	struct wire_msg m;
	struct wire *w;
	struct err e;
	int fd = half_open(&w, NULL);

	raw_message(fd, 6, 0, 0);
	ck_assert_int_eq(wire_recv(w, &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_PROTOCOL);
	wire_close(w);
	close(fd);
}
END_TEST

START_TEST(a_flood_of_pings_costs_no_memory_and_is_answered)
{
	uint8_t answer[WIRE_HEADER_SIZE];
	struct wire *w;
	int fd = half_open(&w, NULL);

	for (unsigned i = pace_work(20000); i > 0; i--)
		raw_message(fd, 5, 0, 0);
	ck_assert_int_eq(recv(fd, answer, sizeof(answer), MSG_WAITALL),
	    sizeof(answer));
	ck_assert_uint_eq(le32_get(answer + 5), 1);
	close(fd);
	wire_close(w);
}
END_TEST

static void *abort_soon(void *arg)
{
	usleep(100000);
	wire_abort(arg, "stopped by a signal");
	return NULL;
}

START_TEST(abort_wakes_a_receiver)
{
	struct wire_msg m;
	struct wire *w;
	struct err e;
	pthread_t t;
	int fd = half_open(&w, NULL);

	pthread_create(&t, NULL, abort_soon, w);
	ck_assert_int_eq(wire_recv(w, &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_CANCELLED);
	pthread_join(t, NULL);
	wire_close(w);
	close(fd);
}
END_TEST

START_TEST(close_does_not_wait_for_ever)
{
	uint64_t start = clock_mono_ms();
	struct wire *w;
	struct err e;
	int fd = half_open(&w, NULL);

	/* The peer neither reads nor closes. */
	ck_assert_int_eq(wire_send(w, 1, 1, NULL, 0, "x", 1, &e), 0);
	wire_close(w);
	ck_assert_uint_lt(clock_mono_ms() - start, 9000 * pace());
	close(fd);
}
END_TEST

START_TEST(the_rate_is_kept)
{
	struct wire_options slow = { .rate_max = 1 << 20 };
	uint64_t start = clock_mono_ms();
	uint8_t *body = calloc(1, 1 << 20);
	struct wire_msg m;
	struct pair p;
	struct err e;

	pair_open(&p, &slow, NULL);
	ck_assert_int_eq(wire_send(p.a, 1, 1, NULL, 0, body, 1 << 20, &e), 0);
	ck_assert_int_eq(wire_recv(p.b, &m, &e), 0);
	ck_assert_uint_ge(clock_mono_ms() - start, 700);
	ck_assert_uint_lt(clock_mono_ms() - start, 3000 * pace());
	wire_msg_release(&m);
	free(body);
	pair_close(&p);
}
END_TEST

START_TEST(the_last_words_of_a_peer_that_hung_up_are_received)
{
	struct flood f = { 0 };
	struct wire_msg m;
	pthread_t t;
	struct err e;
	int fd = half_open(&f.w, NULL);

	pthread_create(&t, NULL, flood, &f);
	usleep(50000);
	raw_message(fd, 5, 42, 1);
	close(fd);	/* with our flood unread */
	pthread_join(t, NULL);
	ck_assert_int_eq(f.e.code, ERR_UNAVAILABLE);
	ck_assert_int_eq(wire_recv(f.w, &m, &e), 0);
	ck_assert_uint_eq(m.type, 42);
	wire_close(f.w);
}
END_TEST

START_TEST(drain_returns_when_all_is_handed_on)
{
	uint8_t *body = calloc(1, 1 << 20);
	uint64_t sent, received;
	struct wire *w;
	struct err e;
	char sink[65536];
	int fd = half_open(&w, NULL);
	size_t got = 0;

	ck_assert_int_eq(wire_send(w, 1, 1, NULL, 0, body, 100000, &e), 0);
	while (got < 100009) {
		ssize_t n = read(fd, sink, sizeof(sink));

		ck_assert_int_gt(n, 0);
		got += (size_t)n;
	}
	ck_assert_int_eq(wire_drain(w, &e), 0);
	wire_counts(w, &sent, &received);
	ck_assert_uint_eq(sent, 100009);
	close(fd);
	wire_close(w);
	free(body);
}
END_TEST

START_TEST(pipes_carry_a_wire_as_well)
{
	struct wire *a, *b;
	int ab[2], ba[2];
	struct wire_msg m;
	struct err e;
	struct pair p;

	ck_assert_int_eq(pipe2(ab, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(ba, O_CLOEXEC), 0);
	ck_assert_int_eq(wire_open_fd(&a, ba[0], ab[1], NULL, &e), 0);
	ck_assert_int_eq(wire_open_fd(&b, ab[0], ba[1], NULL, &e), 0);
	ck_assert_int_eq(wire_send(a, 1, 77, NULL, 0, NULL, 0, &e), 0);
	ck_assert_int_eq(wire_recv(b, &m, &e), 0);
	ck_assert_uint_eq(m.request, 77);
	p = (struct pair){ a, b };
	pair_close(&p);
}
END_TEST

Suite *base_wire_suite(void)
{
	Suite *s = suite_create("wire");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, messages_arrive_whole_and_in_order);
	tcase_add_test(t, much_passes_in_both_directions_at_once);
	tcase_add_test(t,
	    a_peer_that_does_not_receive_blocks_the_sender_only);
	tcase_add_test(t, a_long_silence_is_healthy_while_pings_are_answered);
	tcase_add_test(t, a_silent_peer_is_given_up_after_the_stated_time);
	tcase_add_test(t, what_came_before_the_end_is_received);
	tcase_add_test(t, what_was_sent_before_close_arrives);
	tcase_add_loop_test(t, a_length_outside_the_limits_is_refused, 0,
	    sizeof(bad_lengths) / sizeof(bad_lengths[0]));
	tcase_add_test(t, a_ping_with_a_body_is_refused);
	tcase_add_test(t, a_flood_of_pings_costs_no_memory_and_is_answered);
	tcase_add_test(t, abort_wakes_a_receiver);
	tcase_add_test(t, close_does_not_wait_for_ever);
	tcase_add_test(t, the_rate_is_kept);
	tcase_add_test(t,
	    the_last_words_of_a_peer_that_hung_up_are_received);
	tcase_add_test(t, drain_returns_when_all_is_handed_on);
	tcase_add_test(t, pipes_carry_a_wire_as_well);
	suite_add_tcase(s, t);
	return s;
}
