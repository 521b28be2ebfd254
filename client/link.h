/*
 * client/link.h - the session with the server: one wire, one state machine.
 *
 *      link_open --> link_send ... link_recv ... --> link_close
 *
 * Every message, in and out, passes the state machine of proto/session.h, in
 * the order in which it crosses the wire.
 *
 * Errors: those of base/wire.h; an ERROR message of the server becomes the
 * error it names.
 * Threads: link_send() and link_send_frame() from any thread; link_recv() from
 * one at a time; link_abort() from any.
 */
#ifndef CLIENT_LINK_H
#define CLIENT_LINK_H

#include "base/err.h"
#include "base/wire.h"
#include "proto/msg.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct link;

/* Requests that are no frames are numbered from here, so that an answer shows
 * whether it is about a frame. */
#define LINK_REQUEST_BASE 0x80000000u

struct link_target {
	const char *server;	/* "ssh://[USER@]HOST[:PORT]", "exec:CMD",
				 * "fd:N" (an inherited socket) */
	const char *user;	/* SSH user when the URL names none; or NULL */
	const char *key;	/* private key file, or NULL */
	const char *known_hosts;	/* or NULL */
	uint64_t rate_max;	/* bytes/s sent, 0 = no limit */
};

struct link_url {
	char user[128];		/* empty when not given */
	char host[256];
	unsigned port;		/* 0 when not given */
};

/* Parse "ssh://[USER@]HOST[:PORT]"; HOST may be "[IPv6]".  ERR_USAGE. */
MUST_CHECK int link_url_parse(struct link_url *u, const char *text,
    struct err *e);

/* Connect and exchange HELLO and WELCOME. */
MUST_CHECK int link_open(struct link **out, const struct link_target *t,
    struct err *e);
/* The same over a wire that is there already, which the link owns from now
 * on, also when it fails. */
MUST_CHECK int link_open_wire(struct link **out, struct wire *w,
    struct err *e);
/* Says BYE, drains, ends the program of exec:.  NULL is fine. */
void link_close(struct link *l);
/* Break it off: every blocked call returns. */
void link_abort(struct link *l, const char *why);

const struct msg_welcome *link_welcome(const struct link *l);
/* A request number that was not used in this session. */
uint32_t link_request(struct link *l);
MUST_CHECK int link_send(struct link *l, uint8_t type, uint32_t request,
    const void *body, size_t size, struct err *e);
/* Send a FRAME under the next number, which is returned in *number. */
MUST_CHECK int link_send_frame(struct link *l, const void *frame, size_t size,
    uint32_t *number, struct err *e);
/* Frames sent so far. */
uint32_t link_frames(struct link *l);
/* The next message; release it with wire_msg_release(). */
MUST_CHECK int link_recv(struct link *l, struct wire_msg *m, struct err *e);
/* Bytes that crossed the transport. */
void link_counts(struct link *l, uint64_t *sent, uint64_t *received);

/* link_exec.c: start `sh -c command` with pipes to its stdin and stdout. */
MUST_CHECK int link_exec(const char *command, int *in, int *out, int *pid,
    struct err *e);
/* Wait for it, at most 5 s, then end it. */
void link_reap(int pid);

#endif
