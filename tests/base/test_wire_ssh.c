/*
 * Proves how base/wire_ssh.h opens a line, both ends in one process on
 * 127.0.0.1: keys and host keys right and wrong, peers that waste time.
 * tests/base/test_wire_line.c goes on from there.
 */
#include "base/clock.h"
#include "base/wire_ssh.h"
#include "tests/support/pace.h"
#include "tests/support/ssh_pair.h"

#include <check.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

Suite *base_wire_ssh_suite(void);

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

START_TEST(without_a_given_file_the_users_known_hosts_count)
{
	struct server s;
	struct client c;

	server_open(&s);
	client_init(&c, &s, 0);
	c.t.known_hosts = NULL;
	refused(&s, &c, ERR_DENIED, ".ssh/known_hosts");
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

START_TEST(a_host_key_of_another_type_is_refused)
{
	struct server s;
	struct client c;
	char line[2000], ec[320];

	server_open(&s);
	client_init(&c, &s, 0);
	in_dir(ec, "ec");
	snprintf(line, sizeof(line), "ssh-keygen -q -t ecdsa -N '' -f %s && "
	    "(printf '[127.0.0.1]:%u '; cut -d' ' -f1,2 %s.pub) > %s", ec,
	    c.t.port, ec, c.hosts);
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
	ck_assert_uint_lt(clock_mono_ms() - start, 4000 * pace());
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
	ck_assert_uint_lt(clock_mono_ms() - start, 4000 * pace());
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
	tcase_add_checked_fixture(t, ssh_pair_setup, ssh_pair_teardown);
	tcase_add_test(t, a_registered_client_and_a_pinned_server_talk);
	tcase_add_test(t, an_unknown_key_is_denied);
	tcase_add_test(t, an_unknown_host_key_is_refused_and_not_pinned);
	tcase_add_test(t, without_a_given_file_the_users_known_hosts_count);
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
	tcase_add_test(t,
	    a_new_key_is_readable_by_its_owner_only_and_never_overwritten);
	tcase_add_test(t, public_keys_are_parsed_strictly);
	tcase_add_test(t, addresses_to_listen_on_are_parsed_strictly);
	suite_add_tcase(s, t);
	return s;
}
