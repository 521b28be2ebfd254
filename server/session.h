/*
 * server/session.h - one client, served: messages in, store calls, answers.
 *
 * A session is a thread that reads one message at a time from its wire, lets
 * proto/session.h judge it, and acts.  While it waits it wakes every 250 ms to
 * tell the client what has become durable, and to hear that the server stops.
 * What a client sends wrong ends its own session and nothing else.
 *
 *      sessions_new --> sessions_serve_ssh / sessions_serve_fd ...
 *                   --> sessions_stop --> sessions_free
 *
 * Memory: the queues of a session are bounded by its share of SESSIONS_CREDIT
 * (at least SESSION_QUEUE_MIN, at most SESSION_QUEUE_MAX each way).
 * Threads: all functions from any thread.
 */
#ifndef SERVER_SESSION_H
#define SERVER_SESSION_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct owner;
struct sessions;
struct ssh_listener;
struct store_session;
struct wire;

#define SESSIONS_CREDIT (16u << 20)
#define SESSION_QUEUE_MIN (512u << 10)
#define SESSION_QUEUE_MAX (2u << 20)
#define SESSION_GRACE_S 20	/* from connection to authenticated */
#define SESSION_TRIES_MAX 6	/* keys offered on a connection */

MUST_CHECK int sessions_new(struct sessions **out, struct owner *o,
    struct err *e);
/*
 * May one more connection be accepted?  While too many have not shown a known
 * key, further ones wait in the kernel's backlog: when all clients of a house
 * begin at the same minute, none is sent away.
 */
bool sessions_room(struct sessions *ss);
/* Accept what waits at the listener and give each a thread. */
void sessions_accept(struct sessions *ss, struct ssh_listener *l);
/*
 * Serve `client` over a connected socket (taken over) in this thread, to its
 * end.  `operator`: whatever the client's role is (a restore at the server).
 */
void sessions_serve_fd(struct sessions *ss, int fd, const char *client,
    bool operator);
/* What this client may do has changed: break off its sessions, so that nothing
 * goes on under the old rules.  A restore at the server is not concerned. */
void sessions_end_client(struct sessions *ss, const char *client,
    const char *why);
/* Tell all to end, wait at most `wait_ms`, then break them off and wait. */
void sessions_stop(struct sessions *ss, unsigned wait_ms);
void sessions_free(struct sessions *ss);	/* none may run; NULL is fine */

struct session_info {
	uint64_t number;
	char client[72], peer[64];
	bool pushing;
	int64_t since_s;
	uint64_t sent, received;	/* bytes on the transport */
};
/* At most `max` of those that are authenticated; returns how many. */
size_t sessions_list(struct sessions *ss, struct session_info *out,
    size_t max);

/* ---- the inside, for server/sessions.c and tests ----------------------- */

struct session {
	struct owner *owner;
	struct wire *wire;		/* not owned */
	const char *client;
	bool operator;
	uint64_t number;
	atomic_bool pushing;		/* read by other threads */
};
/* Serve until the client leaves, breaks a rule or the owner stops.  0, or -1
 * with the reason it ended early. */
MUST_CHECK int session_run(struct session *s, struct err *e);

#endif
