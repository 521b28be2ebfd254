/*
 * server/session_impl.h - inside a session: what its handlers share.
 *
 * Handlers return 0, or -1 when the session has to end with that error.
 * Threads: the session's own.
 */
#ifndef SERVER_SESSION_IMPL_H
#define SERVER_SESSION_IMPL_H

#include "base/err.h"
#include "proto/fmt_snapshot.h"
#include "proto/session.h"
#include "server/session.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store_session;
struct wire_msg;

struct serving {
	struct session *s;
	struct store_session *store;
	struct session_state proto;
	bool ended;		/* the client said good-bye */
	bool line_dead;		/* the wire failed: nobody to tell */
	uint64_t last_ms;	/* when it last asked something */
	uint64_t received;	/* bytes, when last looked */
	/* of the push */
	uint8_t snapshot[SNAPSHOT_ID_SIZE];
	uint64_t began_ms;
	uint32_t acked;
	bool sync_due;		/* an ACK is owed even if nothing new */
	/* of a fetch: items of FETCHED */
	uint32_t request;
	uint8_t *lost;
	size_t lost_count;
};

/* Through the state machine, then to the wire. */
MUST_CHECK int session_send(struct serving *v, uint8_t type,
    uint32_t request, const void *body, size_t size, struct err *e);
/* Log it, tell the client (what it may know). */
MUST_CHECK int session_refuse(struct serving *v, uint32_t request,
    const struct err *why, bool fatal, struct err *e);
bool session_may(const struct serving *v, unsigned role);
/* Send an ACK if more frames are durable than were acknowledged. */
MUST_CHECK int session_ack(struct serving *v, uint32_t request,
    struct err *e);

/* One per message; see proto/msg.h. */
int session_on_begin(struct serving *v, const struct wire_msg *in,
    struct err *e);
int session_on_have(struct serving *v, const struct wire_msg *in,
    struct err *e);
int session_on_frame(struct serving *v, const struct wire_msg *in,
    struct err *e);
int session_on_sync(struct serving *v, const struct wire_msg *in,
    struct err *e);
int session_on_commit(struct serving *v, const struct wire_msg *in,
    struct err *e);
int session_on_abort(struct serving *v, const struct wire_msg *in,
    struct err *e);
int session_on_snapshots(struct serving *v, const struct wire_msg *in,
    struct err *e);
int session_on_fetch(struct serving *v, const struct wire_msg *in,
    struct err *e);

#endif
