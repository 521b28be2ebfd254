#include "tests/support/ssh_pair.h"

#include "tests/support/pace.h"

#include <check.h>
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[256];		/* of this test, in its own process */

const char *in_dir(char out[static 320], const char *name)
{
	snprintf(out, 320, "%s/%s", dir, name);
	return out;
}

void ssh_pair_setup(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%s/bk-ssh-XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

void ssh_pair_teardown(void)
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

void server_open(struct server *s)
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

void server_close(struct server *s)
{
	wire_close(s->wire);
	ssh_listener_close(s->listener);
	free(s->registered);
}

void server_register(struct server *s, const char *file)
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

void client_init(struct client *c, const struct server *s,
    unsigned port)
{
	struct err e;

	in_dir(c->key, "key");
	in_dir(c->hosts, "known_hosts");
	c->t = (struct ssh_target){
		.host = "127.0.0.1", .user = "bk", .key_file = c->key,
		.known_hosts = c->hosts, .timeout_s = 10 * pace(),
		.port = port ? port : ssh_listener_port(s->listener),
	};
	if (access(c->key, F_OK) != 0)
		ck_assert_msg(ssh_key_generate(c->key, "test", &e) == 0, "%s",
		    e.text);
}

void serve_begin(struct server *s)
{
	pthread_create(&s->thread, NULL, serve, s);
}

void serve_end(struct server *s)
{
	pthread_join(s->thread, NULL);
}

void pin(struct server *s, struct client *c)
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

void connect_rekeying(struct server *s, struct client *c,
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

void connect_pair(struct server *s, struct client *c,
    struct wire **wire, const struct wire_options *o)
{
	connect_rekeying(s, c, wire, o, 0);
}

void *close_one(void *w)
{
	wire_close(w);
	return NULL;
}

void close_pair(struct server *s, struct wire *wire)
{
	pthread_t t;

	pthread_create(&t, NULL, close_one, wire);
	server_close(s);
	pthread_join(t, NULL);
}

void write_file(const char *path, const char *text)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

/* ---- bulk */

void *send_bulk(void *arg)
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

void *recv_bulk(void *arg)
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
