/*
 * Proves base/wire_ssh.h once a line is open, both ends in one process on
 * 127.0.0.1: bulk both ways, rekeying, flipped bits, a peer that stops
 * reading, a line that falls silent or is cut.
 */
#include "base/clock.h"
#include "base/wire_ssh.h"
#include "tests/support/pace.h"
#include "tests/support/relay.h"
#include "tests/support/ssh_pair.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Suite *base_wire_line_suite(void);

static unsigned bulk_count(void)
{
	return pace_work(getenv("BK_LONG") ? 1500 : 100);
}

static void move_bulk(struct wire *from, struct wire *to, bool both)
{
	struct bulk b[4] = {
		{ .w = from, .count = bulk_count() },
		{ .w = to, .count = bulk_count() },
		{ .w = to, .count = bulk_count() },
		{ .w = from, .count = bulk_count() },
	};
	pthread_t t[4];
	int n = both ? 4 : 2;

	for (int i = 0; i < n; i++)
		pthread_create(&t[i], NULL, i % 2 ? recv_bulk : send_bulk,
		    &b[i]);
	for (int i = 0; i < n; i++) {
		pthread_join(t[i], NULL);
		ck_assert_msg(b[i].rc == 0, "%d: %d %s", i, b[i].rc,
		    b[i].rc == -1 ? b[i].e.text : "");
	}
}

START_TEST(bulk_goes_up_and_down_and_both_ways_at_once)
{
	struct server s;
	struct client c;
	struct wire *w;

	connect_pair(&s, &c, &w, NULL);
	move_bulk(w, s.wire, false);
	move_bulk(s.wire, w, false);
	move_bulk(w, s.wire, true);
	close_pair(&s, w);
}
END_TEST

START_TEST(bulk_survives_new_keys_every_mebibyte)
{
	struct server s;
	struct client c;
	struct wire *w;

	connect_rekeying(&s, &c, &w, NULL, 1 << 20);
	move_bulk(w, s.wire, false);
	move_bulk(s.wire, w, false);
	move_bulk(w, s.wire, true);
	close_pair(&s, w);
}
END_TEST

START_TEST(a_peer_that_stops_reading_stops_the_sender_and_lives)
{
	struct wire_options o = {
		.ping_ms = 200 * pace(), .dead_ms = 1500 * pace(),
	};
	struct bulk b = { .count = 60 }, r = { .count = 60 };
	uint64_t sent = 0, more, ignored;
	struct server s;
	struct client c;
	pthread_t t;

	connect_pair(&s, &c, &b.w, &o);
	pthread_create(&t, NULL, send_bulk, &b);
	do {			/* until only signs of life are sent */
		more = sent;
		usleep(300000 * pace());
		wire_counts(b.w, &sent, &ignored);
	} while (sent == 0 || sent - more > 100);
	/* queue 4, transport 2 + 4 + 1.3, and two stages: a stated bound */
	ck_assert_uint_le(sent, 14u << 20);
	usleep(1700000 * pace());	/* longer than dead_ms */
	wire_counts(b.w, &more, &ignored);
	ck_assert_uint_le(more - sent, 1000);
	r.w = s.wire;
	recv_bulk(&r);
	pthread_join(t, NULL);
	ck_assert_msg(b.rc == 0, "%d %s", b.rc, b.rc == -1 ? b.e.text : "");
	ck_assert_msg(r.rc == 0, "%d %s", r.rc, r.rc == -1 ? r.e.text : "");
	close_pair(&s, b.w);
}
END_TEST

/* Receives bulk and answers each message at once. */
static void *ack_bulk(void *arg)
{
	struct bulk *b = arg;
	struct wire_msg m;

	for (uint32_t i = 0; i < b->count && b->rc == 0; i++) {
		b->rc = wire_recv(b->w, &m, &b->e);
		if (b->rc == 0)
			b->rc = wire_send(b->w, 2, m.request, NULL, 0, NULL,
			    0, &b->e);
		if (b->rc == 0)
			wire_msg_release(&m);
	}
	return NULL;
}

START_TEST(answers_come_back_while_bulk_goes_on)
{
	struct bulk b = { .count = 2 * bulk_count() };
	struct bulk a = { .count = b.count };
	uint64_t sent, received;
	struct wire_msg m;
	struct server s;
	struct client c;
	pthread_t t[2];

	connect_pair(&s, &c, &b.w, NULL);
	a.w = s.wire;
	pthread_create(&t[0], NULL, send_bulk, &b);
	pthread_create(&t[1], NULL, ack_bulk, &a);
	for (uint32_t i = 0; i < b.count; i++) {
		ck_assert_int_eq(wire_recv(b.w, &m, &b.e), 0);
		ck_assert_uint_eq(m.request, i);
		/* at most what queues and windows hold is unanswered */
		wire_counts(b.w, &sent, &received);
		ck_assert_uint_le(sent / BULK_BODY, i + 20);
	}
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	close_pair(&s, b.w);
}
END_TEST

START_TEST(close_delivers_what_was_sent)
{
	struct bulk b = { .count = 6 }, r = { .count = 6 };
	struct server s;
	struct client c;
	struct wire_msg m;
	struct err e;
	pthread_t t;

	connect_pair(&s, &c, &b.w, NULL);
	send_bulk(&b);
	ck_assert_int_eq(b.rc, 0);
	pthread_create(&t, NULL, close_one, b.w);
	r.w = s.wire;
	recv_bulk(&r);
	ck_assert_int_eq(r.rc, 0);
	ck_assert_int_eq(wire_recv(s.wire, &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
	server_close(&s);
	pthread_join(t, NULL);
}
END_TEST

START_TEST(abort_ends_a_blocked_sender)
{
	struct bulk b = { .count = 1000 };
	struct server s;
	struct client c;
	pthread_t t;

	connect_pair(&s, &c, &b.w, NULL);
	pthread_create(&t, NULL, send_bulk, &b);
	usleep(300000);
	wire_abort(b.w, "interrupted");
	pthread_join(t, NULL);
	ck_assert_int_eq(b.rc, -1);
	ck_assert_int_eq(b.e.code, ERR_CANCELLED);
	close_pair(&s, b.w);
}
END_TEST

/* ---- through a relay */

/* The pinned line names the port of the first relay; any host will do. */
static void unname_host(const char *hosts)
{
	char line[2000], starred[2000];
	FILE *f = fopen(hosts, "r");

	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
	fclose(f);
	ck_assert_ptr_nonnull(strchr(line, ' '));
	snprintf(starred, sizeof(starred), "*%s", strchr(line, ' '));
	write_file(hosts, starred);
}

/* As connect_pair(), through a relay. */
static void connect_relayed(struct server *s, struct client *c,
    struct relay *r, struct wire **w, const struct wire_options *o,
    uint64_t flip_at)
{
	struct err e;
	int rc;

	server_open(s);
	if (o)
		s->o = *o;
	client_init(c, s, 0);
	server_register(s, c->key);
	pin(s, c);
	unname_host(c->hosts);
	relay_open(r, ssh_listener_port(s->listener), flip_at);
	client_init(c, s, r->port);
	serve_begin(s);
	rc = wire_ssh_connect(w, &c->t, o, &e);
	serve_end(s);
	ck_assert_msg(rc == 0, "%s", rc ? e.text : "");
}

START_TEST(a_line_that_goes_silent_is_given_up_by_both)
{
	struct wire_options o = {
		.ping_ms = 100 * pace(), .dead_ms = 700 * pace(),
	};
	struct relay r;
	struct wire_msg m;
	struct server s;
	struct client c;
	struct wire *w;
	struct err e;

	connect_relayed(&s, &c, &r, &w, &o, 0);
	ck_assert_int_eq(wire_recv_wait(w, &m, 1000 * pace(), &e), 0);
	relay_stall(&r);
	ck_assert_int_eq(wire_recv(w, &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_TIMEOUT);
	ck_assert_int_eq(wire_recv(s.wire, &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_TIMEOUT);
	relay_cut(&r);
	close_pair(&s, w);
}
END_TEST

START_TEST(a_line_that_is_cut_is_noticed_at_once)
{
	uint64_t start;
	struct relay r;
	struct wire_msg m;
	struct server s;
	struct client c;
	struct wire *w;
	struct err e;

	connect_relayed(&s, &c, &r, &w, NULL, 0);
	start = clock_mono_ms();
	relay_cut(&r);
	ck_assert_int_eq(wire_recv(w, &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
	ck_assert_int_eq(wire_recv(s.wire, &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
	ck_assert_uint_lt(clock_mono_ms() - start, 3000 * pace());
	close_pair(&s, w);
}
END_TEST

/* Before libssh 0.10.6-0+deb12u3 the tags of AES-GCM were not checked. */
START_TEST(a_flipped_bit_on_the_line_is_never_delivered)
{
	struct relay r;
	struct bulk b = { .count = 3 }, g = { .count = 3 };
	struct server s;
	struct client c;
	pthread_t t;

	connect_relayed(&s, &c, &r, &b.w, NULL, 600000);
	pthread_create(&t, NULL, send_bulk, &b);
	g.w = s.wire;
	recv_bulk(&g);
	ck_assert_int_eq(g.rc, -1);	/* an error, not other bytes */
	ck_assert_int_eq(g.e.code, ERR_UNAVAILABLE);
	pthread_join(t, NULL);
	close_pair(&s, b.w);
	relay_cut(&r);
}
END_TEST

Suite *base_wire_line_suite(void)
{
	Suite *s = suite_create("wire_line");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, ssh_pair_setup, ssh_pair_teardown);
	tcase_add_test(t, bulk_goes_up_and_down_and_both_ways_at_once);
	tcase_add_test(t, bulk_survives_new_keys_every_mebibyte);
	tcase_add_test(t, a_peer_that_stops_reading_stops_the_sender_and_lives);
	tcase_add_test(t, answers_come_back_while_bulk_goes_on);
	tcase_add_test(t, close_delivers_what_was_sent);
	tcase_add_test(t, abort_ends_a_blocked_sender);
	tcase_add_test(t, a_line_that_goes_silent_is_given_up_by_both);
	tcase_add_test(t, a_line_that_is_cut_is_noticed_at_once);
	tcase_add_test(t, a_flipped_bit_on_the_line_is_never_delivered);
	suite_add_tcase(s, t);
	return s;
}
