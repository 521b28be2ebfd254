/*
 * proto/session.h - the two ends of a session as pure state machines.
 *
 * They take messages and say what is allowed and what follows; they do no
 * I/O, so tests and fuzzers drive them.  The server's and the client's session
 * loops feed each message through session_in()/session_out() before acting.
 *
 *            WELCOME          BEGUN (not committed)
 *   HELLO ------------> READY ----------------------> PUSH
 *                         ^                            |
 *                         '------ COMMITTED, ABORT ----'
 *   BYE, ERROR (fatal): CLOSED.  An ERROR that is not fatal answers HELLO,
 *   BEGIN, SNAPSHOTS, FETCH or COMMIT and leaves the state (so does a MISSING);
 *   trouble with a FRAME or a HAVE that is not a MISSING is fatal.
 *
 * After ABORT the client may still receive what the server sent before it saw
 * the ABORT; these messages pass, until the answer to a later request comes.
 *
 * Threads: a state belongs to one thread, or to the lock of its owner.
 */
#ifndef PROTO_SESSION_H
#define PROTO_SESSION_H

#include "base/err.h"
#include "proto/msg.h"

#include <stdbool.h>
#include <stdint.h>

struct session_state {
	bool server;		/* which end this is */
	unsigned state;		/* PS_* */
	uint8_t exclusive;	/* HELLO, BEGIN or COMMIT not yet answered: the
				 * client may send nothing but BYE till then */
	bool draining;		/* client: late answers of an aborted push */
	uint32_t frames_in;	/* last FRAME number: seen, or sent */
	uint32_t frames_acked;
	uint32_t open_requests;	/* answers still due, SYNC not counted */
};

void session_init(struct session_state *s, bool server);
/* A message from the peer: checks table, state, numbering (FRAME ascending by
 * one, ACK never beyond what was sent nor backwards) and moves the state. */
MUST_CHECK int session_in(struct session_state *s, uint8_t type,
    uint32_t request, const void *body, uint32_t size, struct err *e);
/* The same for a message about to be sent: our own mistakes are ERR_PROTOCOL
 * too, so that a test sees them. */
MUST_CHECK int session_out(struct session_state *s, uint8_t type,
    uint32_t request, const void *body, uint32_t size, struct err *e);

#endif
