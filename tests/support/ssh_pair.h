/*
 * tests/support/ssh_pair.h - both ends of an SSH wire in one process.
 *
 * The server serves one connection at a time, in a thread of its own, and
 * knows one key.  All files are in one temporary directory per test:
 * ssh_pair_setup() and ssh_pair_teardown() are the fixture.  Anything that
 * goes wrong here fails the test.
 */
#ifndef TESTS_SUPPORT_SSH_PAIR_H
#define TESTS_SUPPORT_SSH_PAIR_H

#include "base/wire_ssh.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void ssh_pair_setup(void);
void ssh_pair_teardown(void);
/* The path of NAME in the temporary directory. */
const char *in_dir(char out[static 320], const char *name);
void write_file(const char *path, const char *text);

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

void server_open(struct server *s);
void server_close(struct server *s);
/* The key in FILE.pub becomes the one that the server knows. */
void server_register(struct server *s, const char *file);
/* Serve one connection, which may fail, between the two calls. */
void serve_begin(struct server *s);
void serve_end(struct server *s);

struct client {
	char key[320], hosts[320];
	struct ssh_target t;
};

/* A client with a key of its own; `port` 0 is the server's. */
void client_init(struct client *c, const struct server *s, unsigned port);
/* Pin the server's host key in the client's known_hosts. */
void pin(struct server *s, struct client *c);

/* A registered client at a pinned server, connected. */
void connect_pair(struct server *s, struct client *c, struct wire **wire,
    const struct wire_options *o);
void connect_rekeying(struct server *s, struct client *c, struct wire **wire,
    const struct wire_options *o, uint64_t rekey_bytes);
/* Both ends at once, as two programs would. */
void close_pair(struct server *s, struct wire *wire);
/* A thread's function: wire_close(). */
void *close_one(void *wire);

/* Messages of BULK_BODY bytes whose content depends on their number. */
#define BULK_BODY (1u << 20)

struct bulk {
	struct wire *w;
	unsigned count;
	struct err e;
	int rc;			/* 0, -1 with e, -3 or -4: other bytes */
};

/* Threads' functions, on a struct bulk. */
void *send_bulk(void *bulk);
void *recv_bulk(void *bulk);

#endif
