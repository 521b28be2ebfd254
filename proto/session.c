/*
 * proto/session.c - what may be said now, and what follows.
 *
 * Both ends keep the same state and move it at the same messages; the rules
 * of one direction are therefore one function, called by the end that sends
 * and by the end that receives:
 *
 *   client_says   requests: numbering of frames, one exclusive request
 *   server_says   answers: only what is due, acks only forward
 *
 * The two ends differ in time only: between the client's ABORT and the moment
 * the server reads it, answers of the push are under way.  `draining` lets the
 * client take them.
 */
#include "proto/session.h"

#include "base/le.h"

#include <string.h>

void session_init(struct session_state *s, bool server)
{
	memset(s, 0, sizeof(*s));
	s->server = server;
	s->state = PS_HELLO;
}

/* ---- requests ----------------------------------------------------------- */

static int exclusive_begin(struct session_state *s, uint8_t type,
    struct err *e)
{
	if (s->open_requests > 0)
		return err_set(e, ERR_PROTOCOL,
		    "%s while answers are due", msg_rule_find(type)->name);
	s->exclusive = type;
	s->open_requests = 1;
	return 0;
}

static int request_open(struct session_state *s, uint32_t size, struct err *e)
{
	if (size % ID_SIZE != 0)
		return err_set(e, ERR_PROTOCOL, "part of an id");
	if (s->open_requests == UINT32_MAX)
		return err_set(e, ERR_PROTOCOL, "too many requests");
	s->open_requests++;
	return 0;
}

static int frame_said(struct session_state *s, uint32_t request,
    struct err *e)
{
	if (request == 0 || request - 1 != s->frames_in)
		return err_set(e, ERR_PROTOCOL, "FRAME %u after %u", request,
		    s->frames_in);
	s->frames_in = request;
	return 0;
}

static int commit_said(struct session_state *s, uint32_t request,
    struct err *e)
{
	if (request != 0)
		return err_set(e, ERR_PROTOCOL, "COMMIT with request %u",
		    request);
	return exclusive_begin(s, MSG_COMMIT, e);
}

static void push_abort(struct session_state *s)
{
	s->state = PS_READY;
	s->open_requests = 0;
	s->draining = !s->server;
}

static int client_says(struct session_state *s, uint8_t type,
    uint32_t request, uint32_t size, struct err *e)
{
	if (s->exclusive && type != MSG_BYE)
		return err_set(e, ERR_PROTOCOL, "%s before the answer to %s",
		    msg_rule_find(type)->name,
		    msg_rule_find(s->exclusive)->name);
	switch (type) {
	case MSG_HELLO:
	case MSG_BEGIN:
		return exclusive_begin(s, type, e);
	case MSG_COMMIT:
		return commit_said(s, request, e);
	case MSG_HAVE:
	case MSG_SNAPSHOTS:
	case MSG_FETCH:
		return request_open(s, size, e);
	case MSG_FRAME:
		return frame_said(s, request, e);
	case MSG_ABORT:
		push_abort(s);
		return 0;
	case MSG_BYE:
		s->state = PS_CLOSED;
		return 0;
	default:		/* SYNC */
		return 0;
	}
}

/* ---- answers ------------------------------------------------------------ */

/* Something other than an exclusive request waits for an answer. */
static int is_due(const struct session_state *s, uint8_t type, struct err *e)
{
	if (s->open_requests > 0 && !s->exclusive)
		return 0;
	return err_set(e, ERR_PROTOCOL, "%s that nobody asked for",
	    msg_rule_find(type)->name);
}

static int answered(struct session_state *s, uint8_t type, struct err *e)
{
	if (is_due(s, type, e) != 0)
		return -1;
	s->open_requests--;
	return 0;
}

/* The answer to an exclusive request. */
static int exclusive_end(struct session_state *s, uint8_t request_type,
    uint8_t type, struct err *e)
{
	if (s->exclusive != request_type)
		return err_set(e, ERR_PROTOCOL, "%s that nobody asked for",
		    msg_rule_find(type)->name);
	s->exclusive = 0;
	return answered(s, type, e);
}

static int begun_said(struct session_state *s, const uint8_t *body,
    uint32_t size, struct err *e)
{
	struct msg_begun m;

	if (msg_begun_get(&m, body, size, e) != 0 ||
	    exclusive_end(s, MSG_BEGIN, MSG_BEGUN, e) != 0)
		return -1;
	s->draining = false;
	s->frames_in = s->frames_acked = 0;
	s->state = m.committed ? PS_READY : PS_PUSH;
	return 0;
}

static int ack_said(struct session_state *s, const uint8_t *body,
    struct err *e)
{
	uint32_t number = le32_get(body);

	if (number < s->frames_acked || number > s->frames_in)
		return err_set(e, ERR_PROTOCOL,
		    "ACK of %u, where %u were acked and %u sent", number,
		    s->frames_acked, s->frames_in);
	s->frames_acked = number;
	return 0;
}

static int missing_said(struct session_state *s, uint32_t request,
    uint32_t size, struct err *e)
{
	if (size % ID_SIZE != 0)
		return err_set(e, ERR_PROTOCOL, "part of an id");
	if (request == 0)
		return exclusive_end(s, MSG_COMMIT, MSG_MISSING, e);
	if (request > s->frames_in)
		return err_set(e, ERR_PROTOCOL, "MISSING of FRAME %u",
		    request);
	return 0;
}

/* In PUSH only COMMIT is answered so: were frames too, the client could not
 * tell which of the two is meant while its COMMIT is under way. */
static int error_said(struct session_state *s, const uint8_t *body,
    uint32_t size, struct err *e)
{
	struct msg_error m;

	if (msg_error_get(&m, body, size, e) != 0)
		return -1;
	if (m.fatal) {
		s->state = PS_CLOSED;
		return 0;
	}
	if (s->state == PS_PUSH)
		return exclusive_end(s, MSG_COMMIT, MSG_ERROR, e);
	s->exclusive = 0;
	return answered(s, MSG_ERROR, e);
}

static int server_says(struct session_state *s, uint8_t type,
    uint32_t request, const uint8_t *body, uint32_t size, struct err *e)
{
	switch (type) {
	case MSG_WELCOME:
		if (exclusive_end(s, MSG_HELLO, type, e) != 0)
			return -1;
		s->state = PS_READY;
		return 0;
	case MSG_BEGUN:
		return begun_said(s, body, size, e);
	case MSG_ACK:
		return ack_said(s, body, e);
	case MSG_MISSING:
		return missing_said(s, request, size, e);
	case MSG_COMMITTED:
		if (exclusive_end(s, MSG_COMMIT, type, e) != 0)
			return -1;
		s->state = PS_READY;
		return 0;
	case MSG_ERROR:
		return error_said(s, body, size, e);
	case MSG_SNAPSHOT:
	case MSG_OBJECTS:
		s->draining = false;
		return is_due(s, type, e);
	case MSG_END:
	case MSG_FETCHED:
		s->draining = false;
		return answered(s, type, e);
	default:		/* HAVE_IS */
		return answered(s, type, e);
	}
}

/* May pass after an ABORT, without effect. */
static bool is_late(const struct session_state *s, uint8_t type,
    uint32_t size)
{
	struct err e;

	return s->draining && s->state == PS_READY && (type == MSG_ACK ||
	    type == MSG_MISSING || type == MSG_HAVE_IS) &&
	    msg_allowed(type, true, PS_PUSH, size, &e) == 0;
}

/* ---- both ends ---------------------------------------------------------- */

static int said(struct session_state *s, bool from_server, uint8_t type,
    uint32_t request, const void *body, uint32_t size, struct err *e)
{
	struct session_state next = *s;
	int r;

	if (from_server && is_late(s, type, size))
		return 0;
	if (msg_allowed(type, from_server, s->state, size, e) != 0)
		return -1;
	if (from_server)
		r = server_says(&next, type, request, body, size, e);
	else
		r = client_says(&next, type, request, size, e);
	if (r == 0)
		*s = next;
	return r;
}

int session_in(struct session_state *s, uint8_t type, uint32_t request,
    const void *body, uint32_t size, struct err *e)
{
	return said(s, !s->server, type, request, body, size, e);
}

int session_out(struct session_state *s, uint8_t type, uint32_t request,
    const void *body, uint32_t size, struct err *e)
{
	return said(s, s->server, type, request, body, size, e);
}
