/*
 * server/session.c - one client's messages, one at a time.
 *
 * THE LOOP
 *
 *   wait at most 250 ms for a message -> proto/session.h judges it -> its
 *   handler acts -> what has become durable is acknowledged -> again
 *
 * WHO HEARS WHAT
 *
 *   The client gets one sentence, and for trouble inside the store only that
 *   there was some; the log gets all of it.  An error in answer to BEGIN,
 *   SNAPSHOTS or FETCH leaves the session open, any other ends it: a push that
 *   lost a frame can only begin again.
 *
 * LIVENESS
 *
 *   The wire ends a peer that is silent for a minute.  Bytes that arrived,
 *   pings too, keep a push from being superseded (store_session_alive).  A peer
 *   that pings but asks nothing for session_idle is told to go.
 */
#include "server/session.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/wire.h"
#include "proto/msg.h"
#include "proto/session.h"
#include "server/owner.h"
#include "server/session_impl.h"
#include "server/version.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS 250

int session_send(struct serving *v, uint8_t type, uint32_t request,
    const void *body, size_t size, struct err *e)
{
	if (session_out(&v->proto, type, request, body, (uint32_t)size,
	    e) != 0)
		return -1;
	return wire_send(v->s->wire, type, request, NULL, 0, body, size, e);
}

/* What is said in the place of errors that are not the client's business. */
static const char *hidden(const struct err *why)
{
	switch (why->code) {
	case ERR_IO:
	case ERR_CORRUPT:
		return "the server has trouble with its disks; its log says "
		    "which";
	case ERR_NO_MEMORY:
		return "the server is short of memory";
	default:
		return NULL;
	}
}

/* What a client may know of an error. */
static void client_text(char *out, size_t size, const struct err *why)
{
	const char *instead = hidden(why);
	struct err told = *why;

	if (why->code == ERR_NO_SPACE)
		(void)err_add(&told, "the server is out of space");
	snprintf(out, size, "%s", instead ? instead : told.text);
}

int session_refuse(struct serving *v, uint32_t request,
    const struct err *why, bool fatal, struct err *e)
{
	struct msg_error m = { .code = why->code, .fatal = fatal };
	struct buf body;
	int rc;

	log_line(LOG_LEVEL_WARN, "session %" PRIu64 " of %s: %s",
	    v->s->number, v->s->client, why->text);
	client_text(m.text, sizeof(m.text), why);
	buf_init(&body, 1024);
	msg_error_put(&body, &m);
	rc = buf_ok(&body, "an error message", e);
	if (rc == 0)
		rc = session_send(v, MSG_ERROR, request, body.data, body.size,
		    e);
	buf_release(&body);
	return rc;
}

/*
 * ---- hello ----------------------------------------------------------------
 */

static unsigned role_of(const struct serving *v)
{
	return v->s->operator ? ROLE_PUSH | ROLE_RESTORE :
	    store_session_client(v->store)->role;
}

bool session_may(const struct serving *v, unsigned role)
{
	return (role_of(v) & role) != 0;
}

static int welcome(struct serving *v, uint32_t request, struct err *e)
{
	struct owner *o = v->s->owner;
	struct msg_welcome m = { .version = PROTO_VERSION,
	    .server_s = clock_real_s() };
	struct buf body;
	int rc;

	memcpy(m.store, array_uuid(o->array), sizeof(m.store));
	store_session_domain_token(v->store, m.domain);
	memcpy(m.cut_seed, store_cut_seed(o->store), sizeof(m.cut_seed));
	m.snapshots = store_session_snapshots(v->store);
	m.role = (uint8_t)role_of(v);
	snprintf(m.program, sizeof(m.program), "bkserver %s", BK_VERSION);
	buf_init(&body, 256);
	msg_welcome_put(&body, &m);
	rc = buf_ok(&body, "a welcome", e);
	if (rc == 0)
		rc = session_send(v, MSG_WELCOME, request, body.data,
		    body.size, e);
	buf_release(&body);
	return rc;
}

static int on_hello(struct serving *v, const struct wire_msg *in,
    struct err *e)
{
	struct msg_hello m;

	if (msg_hello_get(&m, in->body, in->size, e) != 0)
		return -1;
	if (m.version_min > PROTO_VERSION || m.version_max < PROTO_VERSION)
		return err_set(e, ERR_VERSION, "the client speaks protocol "
		    "%" PRIu32 " to %" PRIu32 ", this server %u",
		    m.version_min, m.version_max, PROTO_VERSION);
	return welcome(v, in->request, e);
}

static int on_bye(struct serving *v, const struct wire_msg *in, struct err *e)
{
	(void)in;
	(void)e;
	v->ended = true;
	return 0;
}

/*
 * ---- the loop -------------------------------------------------------------
 */

static const struct handler {
	uint8_t type;
	int (*handle)(struct serving *v, const struct wire_msg *in,
	    struct err *e);
} handlers[] = {
	{ MSG_HELLO, on_hello }, { MSG_BYE, on_bye },
	{ MSG_BEGIN, session_on_begin }, { MSG_HAVE, session_on_have },
	{ MSG_FRAME, session_on_frame }, { MSG_SYNC, session_on_sync },
	{ MSG_COMMIT, session_on_commit }, { MSG_ABORT, session_on_abort },
	{ MSG_SNAPSHOTS, session_on_snapshots },
	{ MSG_FETCH, session_on_fetch },
};

static int dispatch(struct serving *v, const struct wire_msg *in,
    struct err *e)
{
	if (session_in(&v->proto, in->type, in->request, in->body, in->size,
	    e) != 0)
		return -1;
	for (size_t i = 0; i < sizeof(handlers) / sizeof(handlers[0]); i++)
		if (handlers[i].type == in->type)
			return handlers[i].handle(v, in, e);
	return err_set(e, ERR_PROTOCOL, "message 0x%02x has no handler",
	    in->type);
}

/* Let the store know that the peer lives, and the peer what is durable. */
static int between(struct serving *v, struct err *e)
{
	uint64_t sent, received;

	wire_counts(v->s->wire, &sent, &received);
	if (received != v->received)
		store_session_alive(v->store);
	v->received = received;
	return session_ack(v, 0, e);
}

static uint64_t idle_ms(struct serving *v)
{
	struct owner *o = v->s->owner;
	uint64_t s;

	pthread_mutex_lock(&o->config_lock);
	s = o->state.config.session_idle_s;
	pthread_mutex_unlock(&o->config_lock);
	/* A push may walk long through what has not changed. */
	return s * 1000 * (v->proto.state == PS_PUSH ? 24 : 1);
}

/* 0: go on; else why not. */
static int may_go_on(struct serving *v, struct err *e)
{
	struct owner *o = v->s->owner;

	if (owner_stopping(o))
		return err_set(e, ERR_UNAVAILABLE, "the server is stopping");
	if (clock_mono_ms() - v->last_ms > idle_ms(v))
		return err_set(e, ERR_TIMEOUT, "nothing was asked for too "
		    "long");
	return 0;
}


static int loop(struct serving *v, struct err *e)
{
	struct wire_msg in;
	int rc;

	while (!v->ended) {
		if (may_go_on(v, e) != 0)
			return -1;
		rc = wire_recv_wait(v->s->wire, &in, WAIT_MS, e);
		if (rc < 0) {
			v->line_dead = true;
			return -1;
		}
		if (rc > 0) {
			v->last_ms = clock_mono_ms();
			rc = dispatch(v, &in, e);
			wire_msg_release(&in);
			if (rc != 0)
				return -1;
		}
		if (between(v, e) != 0)
			return -1;
	}
	return 0;
}

/* No session of the store: say why in the place of the welcome. */
static int refuse_all(struct serving *v, const struct err *why)
{
	struct wire_msg in;
	struct err e;

	if (wire_recv_wait(v->s->wire, &in, 10000, &e) <= 0)
		return -1;
	if (session_in(&v->proto, in.type, in.request, in.body, in.size,
	    &e) == 0 && session_refuse(v, in.request, why, true, &e) != 0)
		log_line(LOG_LEVEL_DEBUG, "%s", e.text);
	wire_msg_release(&in);
	return -1;
}

int session_run(struct session *s, struct err *e)
{
	struct serving v = { .s = s, .last_ms = clock_mono_ms() };
	struct err ignored;
	int rc;

	session_init(&v.proto, true);
	if (store_session_open(&v.store, s->owner->store, s->client, e) != 0)
		return refuse_all(&v, e);
	if (!s->operator && store_session_client(v.store)->paused) {
		store_session_close(v.store);
		err_set(e, ERR_DENIED, "client %s is paused", s->client);
		return refuse_all(&v, e);
	}
	store_client_seen(s->owner->store, s->client);
	rc = loop(&v, e);
	if (rc != 0 && !v.line_dead && session_refuse(&v, 0, e, true,
	    &ignored) != 0)
		log_line(LOG_LEVEL_DEBUG, "session %" PRIu64 ": %s",
		    s->number, ignored.text);
	atomic_store(&s->pushing, false);
	store_session_close(v.store);
	free(v.lost);
	return rc;
}
