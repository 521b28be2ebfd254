/*
 * Proves base/wire_ssh.h with both ends in one process on 127.0.0.1: keys and
 * host keys right and wrong, bulk both ways, rekeying, flipped bits, a peer
 * that stops reading, and one that dies.
 */
#include "base/clock.h"
#include "base/io.h"
#include "base/wire_ssh.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

Suite *base_wire_ssh_suite(void);

static char dir[256];		/* of this test, in its own process */

static const char *in_dir(char out[static 320], const char *name)
{
	snprintf(out, 320, "%s/%s", dir, name);
	return out;
}

static void setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%s/bk-ssh-XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
	DIR *d = opendir(dir);
	struct dirent *entry;
	char path[600];

	while (d && (entry = readdir(d)) != NULL) {
		snprintf(path, sizeof(path), "%s/%s", dir, entry->d_name);
		remove(path);
	}
	if (d)
		closedir(d);
	rmdir(dir);
}

/* ---- a server of one connection */

struct server {
	struct ssh_listener *listener;
	struct ssh_auth auth;
	char *registered;	/* the one key that is known */
	char name[64];
	struct wire_options o;
	struct wire *wire;	/* after a success */
	struct err err;
	int rc, calls;
	pthread_t thread;
};

static bool key_known(void *arg, const char *canonical, char *name,
    size_t size)
{
	struct server *s = arg;

	s->calls++;
	snprintf(name, size, "laptop");
	return s->registered && strcmp(s->registered, canonical) == 0;
}

static void *serve(void *arg)
{
	struct server *s = arg;
	struct pollfd p = {
		.fd = ssh_listener_fd(s->listener), .events = POLLIN,
	};
	char peer[80];
	int fd;

	s->rc = -2;
	if (poll(&p, 1, 20000) != 1)
		return NULL;
	s->rc = ssh_listener_accept(s->listener, &fd, peer, sizeof(peer),
	    &s->err);
	if (s->rc == 0)
		s->rc = wire_ssh_accept(&s->wire, s->listener, fd, &s->auth,
		    s->name, sizeof(s->name), &s->o, &s->err);
	return NULL;
}

static void server_open(struct server *s)
{
	struct err e;
	char *key;

	memset(s, 0, sizeof(*s));
	s->auth = (struct ssh_auth){ .key_known = key_known, .arg = s };
	ck_assert_int_eq(ssh_key_generate_text(&key, &e), 0);
	ck_assert_msg(ssh_listener_open(&s->listener, "127.0.0.1:0", key, &e)
	    == 0, "%s", e.text);
	free(key);
}

static void server_close(struct server *s)
{
	wire_close(s->wire);
	ssh_listener_close(s->listener);
	free(s->registered);
}

/* The public key in FILE.pub becomes the one that the server knows. */
static void server_register(struct server *s, const char *file)
{
	char fingerprint[SSH_FINGERPRINT_SIZE], path[400], line[2000];
	struct err e;
	FILE *f;

	snprintf(path, sizeof(path), "%s.pub", file);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
	fclose(f);
	free(s->registered);
	ck_assert_msg(ssh_public_key_parse(line, &s->registered, fingerprint,
	    &e) == 0, "%s", e.text);
}

/* ---- a client */

struct client {
	char key[320], hosts[320];
	struct ssh_target t;
};

static void client_init(struct client *c, const struct server *s,
    unsigned port)
{
	struct err e;

	in_dir(c->key, "key");
	in_dir(c->hosts, "known_hosts");
	c->t = (struct ssh_target){
		.host = "127.0.0.1", .user = "bk", .key_file = c->key,
		.known_hosts = c->hosts, .timeout_s = 10,
		.port = port ? port : ssh_listener_port(s->listener),
	};
	if (access(c->key, F_OK) != 0)
		ck_assert_msg(ssh_key_generate(c->key, "test", &e) == 0, "%s",
		    e.text);
}

/* Serve one connection, which may fail, while `call` runs. */
static void serve_begin(struct server *s)
{
	pthread_create(&s->thread, NULL, serve, s);
}

static void serve_end(struct server *s)
{
	pthread_join(s->thread, NULL);
}

static void pin(struct server *s, struct client *c)
{
	char fingerprint[SSH_FINGERPRINT_SIZE];
	struct err e;

	serve_begin(s);
	ck_assert_msg(ssh_probe_host_key(&c->t, fingerprint, &e) == 0, "%s",
	    e.text);
	serve_end(s);
	ck_assert_int_eq(strncmp(fingerprint, "SHA256:", 7), 0);
	serve_begin(s);
	ck_assert_msg(ssh_pin_host_key(&c->t, fingerprint, &e) == 0, "%s",
	    e.text);
	serve_end(s);
}

/* A client that is registered at a server that is pinned, connected. */
static void connect_rekeying(struct server *s, struct client *c,
    struct wire **wire, const struct wire_options *o, uint64_t rekey_bytes)
{
	struct err e;
	int rc;

	server_open(s);
	if (o)
		s->o = *o;
	client_init(c, s, 0);
	server_register(s, c->key);
	pin(s, c);
	c->t.rekey_bytes = rekey_bytes;
	serve_begin(s);
	rc = wire_ssh_connect(wire, &c->t, o, &e);
	serve_end(s);
	ck_assert_msg(rc == 0, "%s", rc == 0 ? "" : e.text);
	ck_assert_msg(s->rc == 0, "%s", s->err.text);
}

static void connect_pair(struct server *s, struct client *c,
    struct wire **wire, const struct wire_options *o)
{
	connect_rekeying(s, c, wire, o, 0);
}

static void *close_one(void *w)
{
	wire_close(w);
	return NULL;
}

static void close_pair(struct server *s, struct wire *wire)
{
	pthread_t t;

	pthread_create(&t, NULL, close_one, wire);
	server_close(s);
	pthread_join(t, NULL);
}

/* ---- connecting */

START_TEST(a_registered_client_and_a_pinned_server_talk)
{
	struct server s;
	struct client c;
	struct wire *w;
	struct wire_msg m;
	struct err e;

	connect_pair(&s, &c, &w, NULL);
	ck_assert_str_eq(s.name, "laptop");
	ck_assert_int_ge(s.calls, 1);
	ck_assert_int_eq(wire_send(w, 3, 9, NULL, 0, "hello", 5, &e), 0);
	ck_assert_int_eq(wire_recv(s.wire, &m, &e), 0);
	ck_assert_mem_eq(m.body, "hello", 5);
	wire_msg_release(&m);
	ck_assert_int_eq(wire_send(s.wire, 4, 9, NULL, 0, "yes", 3, &e), 0);
	ck_assert_int_eq(wire_recv(w, &m, &e), 0);
	ck_assert_mem_eq(m.body, "yes", 3);
	wire_msg_release(&m);
	close_pair(&s, w);
}
END_TEST

/* Connect and expect a refusal with these words and this code. */
static void refused(struct server *s, const struct client *c,
    enum err_code code, const char *words)
{
	struct wire *w;
	struct err e;

	serve_begin(s);
	ck_assert_int_eq(wire_ssh_connect(&w, &c->t, NULL, &e), -1);
	serve_end(s);
	ck_assert_msg(e.code == code, "%s: %s", err_name(e.code), e.text);
	ck_assert_msg(strstr(e.text, words), "no \"%s\" in: %s", words,
	    e.text);
}

START_TEST(an_unknown_key_is_denied)
{
	struct server s;
	struct client c;

	server_open(&s);
	client_init(&c, &s, 0);
	pin(&s, &c);
	refused(&s, &c, ERR_DENIED, "does not accept our key");
	ck_assert_int_eq(s.rc, -1);
	ck_assert_int_eq(s.err.code, ERR_DENIED);
	ck_assert_ptr_nonnull(strstr(s.err.text, "SHA256:"));
	server_close(&s);
}
END_TEST

START_TEST(an_unknown_host_key_is_refused_and_not_pinned)
{
	struct server s;
	struct client c;

	server_open(&s);
	client_init(&c, &s, 0);
	server_register(&s, c.key);
	refused(&s, &c, ERR_DENIED, "is not in");
	ck_assert_int_ne(access(c.hosts, F_OK), 0);
	ck_assert_int_eq(s.calls, 0);	/* we said nothing about our key */
	server_close(&s);
}
END_TEST

START_TEST(a_changed_host_key_is_refused)
{
	struct server s, other;
	struct client c;
	struct err e;
	char where[64], *key;

	server_open(&s);
	client_init(&c, &s, 0);
	server_register(&s, c.key);
	pin(&s, &c);
	snprintf(where, sizeof(where), "127.0.0.1:%u",
	    ssh_listener_port(s.listener));
	server_close(&s);
	server_open(&other);
	ssh_listener_close(other.listener);
	ck_assert_int_eq(ssh_key_generate_text(&key, &e), 0);
	ck_assert_msg(ssh_listener_open(&other.listener, where, key, &e) == 0,
	    "%s", e.text);
	free(key);
	refused(&other, &c, ERR_DENIED, "HAS CHANGED");
	ck_assert_int_eq(other.calls, 0);
	server_close(&other);
}
END_TEST

static void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

START_TEST(a_host_key_of_another_type_is_refused)
{
	struct server s;
	struct client c;
	char line[1000];

	server_open(&s);
	client_init(&c, &s, 0);
	snprintf(line, sizeof(line), "ssh-keygen -q -t ecdsa -N '' -f %s/ec "
	    "&& (printf '[127.0.0.1]:%u '; cut -d' ' -f1,2 %s/ec.pub) > %s",
	    dir, c.t.port, dir, c.hosts);
	if (system(line) != 0) {	/* no ssh-keygen here */
		server_close(&s);
		return;
	}
	refused(&s, &c, ERR_DENIED, "of a type");
	server_close(&s);
}
END_TEST

START_TEST(known_hosts_that_cannot_be_read_is_said)
{
	struct server s;
	struct client c;

	server_open(&s);
	client_init(&c, &s, 0);
	ck_assert_int_eq(mkdir(c.hosts, 0700), 0);
	refused(&s, &c, ERR_DENIED, "cannot be read");
	server_close(&s);
}
END_TEST

START_TEST(pinning_needs_the_right_fingerprint)
{
	struct server s;
	struct client c;
	struct err e;

	server_open(&s);
	client_init(&c, &s, 0);
	serve_begin(&s);
	ck_assert_int_eq(ssh_pin_host_key(&c.t, "SHA256:no", &e), -1);
	serve_end(&s);
	ck_assert_int_eq(e.code, ERR_DENIED);
	ck_assert_int_ne(access(c.hosts, F_OK), 0);
	server_close(&s);
}
END_TEST

START_TEST(pinning_keeps_the_other_lines)
{
	struct server s;
	struct client c;
	char text[4000] = "";
	FILE *f;

	server_open(&s);
	client_init(&c, &s, 0);
	write_file(c.hosts, "# mine, without a newline");
	pin(&s, &c);
	pin(&s, &c);		/* a second time adds nothing */
	f = fopen(c.hosts, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_gt(fread(text, 1, sizeof(text) - 1, f), 0);
	fclose(f);
	ck_assert_int_eq(strncmp(text, "# mine, without a newline\n[127", 30),
	    0);
	ck_assert_ptr_null(strstr(strstr(text, "127") + 3, "127"));
	server_close(&s);
}
END_TEST

START_TEST(nobody_listening_is_said)
{
	struct server s;
	struct client c;
	struct wire *w;
	struct err e;
	unsigned port;

	server_open(&s);
	port = ssh_listener_port(s.listener);
	server_close(&s);
	client_init(&c, NULL, port);
	ck_assert_int_eq(wire_ssh_connect(&w, &c.t, NULL, &e), -1);
	ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
	ck_assert_ptr_nonnull(strstr(e.text, "cannot connect to 127.0.0.1"));
}
END_TEST

START_TEST(a_missing_key_file_is_named)
{
	struct server s;
	struct client c;

	server_open(&s);
	client_init(&c, &s, 0);
	pin(&s, &c);
	in_dir(c.key, "nothing");
	refused(&s, &c, ERR_NOT_FOUND, "nothing");
	server_close(&s);
}
END_TEST

static int raw_connect(const struct server *s)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)ssh_listener_port(s->listener)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

START_TEST(a_peer_that_says_nothing_is_cut_off_in_time)
{
	uint64_t start = clock_mono_ms();
	struct server s;
	int fd;

	server_open(&s);
	s.auth.grace_s = 1;
	fd = raw_connect(&s);
	serve_begin(&s);
	serve_end(&s);
	ck_assert_int_eq(s.rc, -1);
	ck_assert_int_eq(s.err.code, ERR_TIMEOUT);
	ck_assert_uint_ge(clock_mono_ms() - start, 1000);
	ck_assert_uint_lt(clock_mono_ms() - start, 4000);
	close(fd);
	server_close(&s);
}
END_TEST

static void *dribble(void *arg)
{
	for (int i = 0; i < 100; i++) {
		if (send(*(int *)arg, "S", 1, MSG_NOSIGNAL) != 1)
			break;
		usleep(50000);
	}
	return NULL;
}

START_TEST(a_peer_that_dribbles_gets_no_more_time)
{
	uint64_t start = clock_mono_ms();
	struct server s;
	pthread_t t;
	int fd;

	server_open(&s);
	s.auth.grace_s = 1;
	fd = raw_connect(&s);
	pthread_create(&t, NULL, dribble, &fd);
	serve_begin(&s);
	serve_end(&s);
	ck_assert_int_eq(s.rc, -1);
	ck_assert_uint_lt(clock_mono_ms() - start, 4000);
	pthread_join(t, NULL);
	close(fd);
	server_close(&s);
}
END_TEST

START_TEST(a_peer_that_speaks_no_ssh_is_refused)
{
	struct server s;
	int fd;

	server_open(&s);
	fd = raw_connect(&s);
	ck_assert_int_eq(send(fd, "GET / HTTP/1.0\r\n\r\n", 18, MSG_NOSIGNAL),
	    18);
	shutdown(fd, SHUT_WR);
	serve_begin(&s);
	serve_end(&s);
	ck_assert_int_eq(s.rc, -1);
	close(fd);
	server_close(&s);
}
END_TEST

/* ---- moving bytes */

struct bulk {
	struct wire *w;
	unsigned count;
	struct err e;
	int rc;
};

#define BULK_BODY (1u << 20)

static void *send_bulk(void *arg)
{
	struct bulk *b = arg;
	uint32_t *body = malloc(BULK_BODY);

	for (uint32_t i = 0; i < b->count && b->rc == 0; i++) {
		for (uint32_t j = 0; j < BULK_BODY / 4; j++)
			body[j] = i * 2654435761u + j * 40503u;
		b->rc = wire_send(b->w, 1, i, NULL, 0, body, BULK_BODY, &b->e);
	}
	free(body);
	return NULL;
}

static void *recv_bulk(void *arg)
{
	struct bulk *b = arg;
	struct wire_msg m;

	for (uint32_t i = 0; i < b->count && b->rc == 0; i++) {
		b->rc = wire_recv(b->w, &m, &b->e);
		if (b->rc != 0)
			break;
		if (m.size != BULK_BODY || m.request != i)
			b->rc = -3;
		for (uint32_t j = 0; b->rc == 0 && j < BULK_BODY / 4; j++)
			if (((uint32_t *)(void *)m.body)[j] !=
			    i * 2654435761u + j * 40503u)
				b->rc = -4;
		wire_msg_release(&m);
	}
	return NULL;
}

static unsigned bulk_count(void)
{
	if (getenv("BK_VALGRIND"))
		return 4;
	return getenv("BK_LONG") ? 1500 : 100;
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
	struct wire_options o = { .ping_ms = 200, .dead_ms = 1000 };
	struct bulk b = { .count = 60 }, r = { .count = 60 };
	uint64_t sent, more, ignored;
	struct server s;
	struct client c;
	pthread_t t;

	connect_pair(&s, &c, &b.w, &o);
	pthread_create(&t, NULL, send_bulk, &b);
	usleep(800000);
	wire_counts(b.w, &sent, &ignored);
	usleep(1500000);	/* longer than dead_ms */
	wire_counts(b.w, &more, &ignored);
	/* queue 4, transport 2 + 4 + 1.3, and two stages: a stated bound */
	ck_assert_uint_le(more, 14u << 20);
	ck_assert_uint_le(more - sent, 4096);	/* pings */
	r.w = s.wire;
	recv_bulk(&r);
	ck_assert_msg(r.rc == 0, "%d %s", r.rc, r.rc == -1 ? r.e.text : "");
	pthread_join(t, NULL);
	ck_assert_int_eq(b.rc, 0);
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

/* ---- a relay that can cut, flip and stall */

struct relay {
	int listen_fd, to_client, to_server;
	unsigned port;
	unsigned server_port;
	uint64_t flip_at;	/* byte of client -> server to flip; 0 = none */
	bool stall, cut;	/* set by the test; atomics */
	pthread_t thread;
};

static void relay_open(struct relay *r, unsigned server_port)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t size = sizeof(a);

	*r = (struct relay){ .server_port = server_port };
	r->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(r->listen_fd, (struct sockaddr *)&a, size), 0);
	ck_assert_int_eq(listen(r->listen_fd, 5), 0);
	getsockname(r->listen_fd, (struct sockaddr *)&a, &size);
	r->port = ntohs(a.sin_port);
}

static bool relay_move(struct relay *r, int from, int to, uint64_t *at)
{
	uint8_t data[16384];
	ssize_t n = recv(from, data, sizeof(data), 0);

	if (n <= 0)
		return false;
	if (r->flip_at > 0 && at && r->flip_at >= *at &&
	    r->flip_at < *at + (uint64_t)n)
		data[r->flip_at - *at] ^= 1;
	if (at)
		*at += (uint64_t)n;
	for (ssize_t done = 0; done < n;) {
		ssize_t m = send(to, data + done, (size_t)(n - done),
		    MSG_NOSIGNAL);

		if (m <= 0)
			return false;
		done += m;
	}
	return true;
}

static void *relay_run(void *arg)
{
	struct relay *r = arg;
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)r->server_port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	uint64_t at = 0;

	r->to_client = accept(r->listen_fd, NULL, NULL);
	r->to_server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(r->to_server, (struct sockaddr *)&a, sizeof(a)) != 0)
		return NULL;
	while (!__atomic_load_n(&r->cut, __ATOMIC_ACQUIRE)) {
		struct pollfd p[] = {
			{ .fd = r->to_client, .events = POLLIN },
			{ .fd = r->to_server, .events = POLLIN },
		};

		if (__atomic_load_n(&r->stall, __ATOMIC_ACQUIRE)) {
			usleep(20000);
			continue;
		}
		if (poll(p, 2, 50) < 0)
			break;
		if (p[0].revents && !relay_move(r, r->to_client,
		    r->to_server, &at))
			break;
		if (p[1].revents && !relay_move(r, r->to_server,
		    r->to_client, NULL))
			break;
	}
	close(r->to_client);
	close(r->to_server);
	close(r->listen_fd);
	return NULL;
}

/* As connect_pair(), through a relay. */
static void connect_relayed(struct server *s, struct client *c,
    struct relay *r, struct wire **w, const struct wire_options *o)
{
	char fingerprint[SSH_FINGERPRINT_SIZE];
	struct err e;
	int rc;

	server_open(s);
	if (o)
		s->o = *o;
	for (int i = 0; i < 3; i++) {	/* probe, pin, connect */
		uint64_t flip = r->flip_at;

		relay_open(r, ssh_listener_port(s->listener));
		r->flip_at = i == 2 ? flip : 0;
		client_init(c, s, r->port);
		server_register(s, c->key);
		pthread_create(&r->thread, NULL, relay_run, r);
		serve_begin(s);
		if (i == 0)
			rc = ssh_probe_host_key(&c->t, fingerprint, &e);
		else if (i == 1)
			rc = ssh_pin_host_key(&c->t, fingerprint, &e);
		else
			rc = wire_ssh_connect(w, &c->t, o, &e);
		serve_end(s);
		ck_assert_msg(rc == 0, "%d: %s", i, rc ? e.text : "");
		r->flip_at = flip;
		if (i == 2)
			break;
		pthread_join(r->thread, NULL);
		if (i == 1) {	/* the same port for the pinned key */
			char line[2000], *end;
			FILE *f = fopen(c->hosts, "r");

			ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
			fclose(f);
			end = strchr(line, ']');
			ck_assert_ptr_nonnull(end);
			memmove(line, "*", 1);
			memmove(line + 1, strchr(end, ' '),
			    strlen(strchr(end, ' ')) + 1);
			write_file(c->hosts, line);
		}
	}
}

START_TEST(a_line_that_goes_silent_is_given_up_by_both)
{
	struct wire_options o = { .ping_ms = 100, .dead_ms = 500 };
	struct relay r = { 0 };
	struct wire_msg m;
	struct server s;
	struct client c;
	struct wire *w;
	struct err e;

	connect_relayed(&s, &c, &r, &w, &o);
	ck_assert_int_eq(wire_recv_wait(w, &m, 700, &e), 0);
	__atomic_store_n(&r.stall, true, __ATOMIC_RELEASE);
	ck_assert_int_eq(wire_recv(w, &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_TIMEOUT);
	ck_assert_int_eq(wire_recv(s.wire, &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_TIMEOUT);
	__atomic_store_n(&r.cut, true, __ATOMIC_RELEASE);
	pthread_join(r.thread, NULL);
	close_pair(&s, w);
}
END_TEST

START_TEST(a_line_that_is_cut_is_noticed_at_once)
{
	uint64_t start;
	struct relay r = { 0 };
	struct wire_msg m;
	struct server s;
	struct client c;
	struct wire *w;
	struct err e;

	connect_relayed(&s, &c, &r, &w, NULL);
	__atomic_store_n(&r.cut, true, __ATOMIC_RELEASE);
	start = clock_mono_ms();
	ck_assert_int_eq(wire_recv(w, &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
	ck_assert_int_eq(wire_recv(s.wire, &m, &e), -1);
	ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
	ck_assert_uint_lt(clock_mono_ms() - start, 3000);
	pthread_join(r.thread, NULL);
	close_pair(&s, w);
}
END_TEST

/* Before libssh 0.10.6-0+deb12u3 the tags of AES-GCM were not checked. */
START_TEST(a_flipped_bit_on_the_line_is_never_delivered)
{
	struct relay r = { .flip_at = 600000 };
	struct bulk b = { .count = 3 }, g = { .count = 3 };
	struct server s;
	struct client c;
	pthread_t t;

	connect_relayed(&s, &c, &r, &b.w, NULL);
	pthread_create(&t, NULL, send_bulk, &b);
	g.w = s.wire;
	recv_bulk(&g);
	ck_assert_int_eq(g.rc, -1);	/* an error, not other bytes */
	ck_assert_int_eq(g.e.code, ERR_UNAVAILABLE);
	pthread_join(t, NULL);
	close_pair(&s, b.w);
	__atomic_store_n(&r.cut, true, __ATOMIC_RELEASE);
	pthread_join(r.thread, NULL);
}
END_TEST

/* ---- keys and addresses */

START_TEST(a_new_key_is_readable_by_its_owner_only_and_never_overwritten)
{
	char path[320], text[20] = "";
	struct stat st;
	struct err e;
	FILE *f;

	in_dir(path, "k");
	ck_assert_int_eq(ssh_key_generate(path, "me@home", &e), 0);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_mode & 0777, 0600);
	ck_assert_int_eq(ssh_key_generate(path, "me@home", &e), -1);
	ck_assert_int_eq(e.code, ERR_EXISTS);
	f = fopen(path, "r");
	ck_assert_uint_eq(fread(text, 1, 15, f), 15);
	fclose(f);
	ck_assert_str_eq(text, "-----BEGIN OPEN");
}
END_TEST

START_TEST(public_keys_are_parsed_strictly)
{
	static const char *const bad[] = {
		"", "ssh-ed25519", "ssh-ed25519 ", "ssh-ed25519 AAAA",
		"nonsense AAAAC3NzaC1lZDI1NTE5AAAAI", "\n\n",
		"-----BEGIN OPENSSH PRIVATE KEY-----",
	};
	char fingerprint[SSH_FINGERPRINT_SIZE], again[SSH_FINGERPRINT_SIZE];
	char *canonical, *private;
	struct err e;
	struct server s;
	struct client c;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_int_eq(ssh_public_key_parse(bad[i], &canonical,
		    fingerprint, &e), -1);
		ck_assert_int_eq(e.code, ERR_USAGE);
	}
	server_open(&s);
	client_init(&c, &s, 0);
	server_register(&s, c.key);
	ck_assert_int_eq(ssh_public_key_parse(s.registered, &canonical,
	    fingerprint, &e), 0);
	ck_assert_str_eq(canonical, s.registered);
	free(canonical);
	server_close(&s);
	ck_assert_int_eq(ssh_key_generate_text(&private, &e), 0);
	ck_assert_int_eq(ssh_private_key_fingerprint(private, again, &e), 0);
	ck_assert_str_ne(again, fingerprint);
	ck_assert_int_eq(ssh_private_key_fingerprint("rubbish", again, &e),
	    -1);
	free(private);
}
END_TEST

START_TEST(addresses_to_listen_on_are_parsed_strictly)
{
	static const char *const bad[] = {
		"", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
		"127.0.0.1:ssh", "::1:22", "[::1]", "[127.0.0.1:22",
	};
	struct ssh_listener *l;
	struct err e;
	char *key;

	ck_assert_int_eq(ssh_key_generate_text(&key, &e), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		ck_assert_msg(ssh_listener_open(&l, bad[i], key, &e) == -1,
		    "%s", bad[i]);
		ck_assert_msg(e.code == ERR_USAGE, "%s: %s", bad[i], e.text);
	}
	free(key);
}
END_TEST

Suite *base_wire_ssh_suite(void)
{
	Suite *s = suite_create("wire_ssh");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 120);
	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_registered_client_and_a_pinned_server_talk);
	tcase_add_test(t, an_unknown_key_is_denied);
	tcase_add_test(t, an_unknown_host_key_is_refused_and_not_pinned);
	tcase_add_test(t, a_changed_host_key_is_refused);
	tcase_add_test(t, a_host_key_of_another_type_is_refused);
	tcase_add_test(t, known_hosts_that_cannot_be_read_is_said);
	tcase_add_test(t, pinning_needs_the_right_fingerprint);
	tcase_add_test(t, pinning_keeps_the_other_lines);
	tcase_add_test(t, nobody_listening_is_said);
	tcase_add_test(t, a_missing_key_file_is_named);
	tcase_add_test(t, a_peer_that_says_nothing_is_cut_off_in_time);
	tcase_add_test(t, a_peer_that_dribbles_gets_no_more_time);
	tcase_add_test(t, a_peer_that_speaks_no_ssh_is_refused);
	tcase_add_test(t, bulk_goes_up_and_down_and_both_ways_at_once);
	tcase_add_test(t, bulk_survives_new_keys_every_mebibyte);
	tcase_add_test(t,
	    a_peer_that_stops_reading_stops_the_sender_and_lives);
	tcase_add_test(t, close_delivers_what_was_sent);
	tcase_add_test(t, abort_ends_a_blocked_sender);
	tcase_add_test(t, a_line_that_goes_silent_is_given_up_by_both);
	tcase_add_test(t, a_line_that_is_cut_is_noticed_at_once);
	tcase_add_test(t, a_flipped_bit_on_the_line_is_never_delivered);
	tcase_add_test(t,
	    a_new_key_is_readable_by_its_owner_only_and_never_overwritten);
	tcase_add_test(t, public_keys_are_parsed_strictly);
	tcase_add_test(t, addresses_to_listen_on_are_parsed_strictly);
	suite_add_tcase(s, t);
	return s;
}
