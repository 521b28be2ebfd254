/* The messages of a push: BEGIN, HAVE, FRAME, SYNC, COMMIT, ABORT. */
#include "server/session_impl.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/le.h"
#include "base/log.h"
#include "base/str.h"
#include "base/wire.h"
#include "proto/msg.h"
#include "server/owner.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int session_ack(struct serving *v, uint32_t request, struct err *e)
{
	uint32_t durable;
	uint8_t body[4];

	if (v->proto.state != PS_PUSH)
		return 0;
	if (store_session_durable(v->store, &durable, e) != 0)
		return -1;
	if (durable <= v->acked && !(v->sync_due &&
	    durable == v->proto.frames_in))
		return 0;
	v->acked = durable;
	if (durable == v->proto.frames_in)
		v->sync_due = false;
	le32_put(body, durable);
	return session_send(v, MSG_ACK, request, body, sizeof(body), e);
}

static int send_begun(struct serving *v, uint32_t request,
    const struct msg_begun *m, struct err *e)
{
	struct buf body;
	int rc;

	buf_init(&body, 512);
	msg_begun_put(&body, m);
	rc = buf_ok(&body, "an answer", e);
	if (rc == 0)
		rc = session_send(v, MSG_BEGUN, request, body.data, body.size,
		    e);
	buf_release(&body);
	return rc;
}

int session_on_begin(struct serving *v, const struct wire_msg *in,
    struct err *e)
{
	struct msg_begun answer = { .committed = false };
	struct msg_begin m;
	struct err why;

	if (msg_begin_get(&m, in->body, in->size, e) != 0)
		return -1;
	if (!session_may(v, ROLE_PUSH)) {
		err_set(&why, ERR_DENIED, "%s may not push", v->s->client);
		return session_refuse(v, in->request, &why, false, e);
	}
	if (owner_may_write(v->s->owner, &why) != 0 ||
	    store_session_begin(v->store, m.snapshot, &answer.committed,
	    &answer.record, &why) != 0)
		return session_refuse(v, in->request, &why, false, e);
	memcpy(v->snapshot, m.snapshot, sizeof(v->snapshot));
	v->acked = 0;
	v->sync_due = false;
	v->began_ms = clock_mono_ms();
	atomic_store(&v->s->pushing, !answer.committed);
	return send_begun(v, in->request, &answer, e);
}

int session_on_have(struct serving *v, const struct wire_msg *in,
    struct err *e)
{
	uint8_t bitmap[PROTO_HAVE_MAX / 8] = { 0 };
	size_t count = in->size / ID_SIZE;

	_Static_assert(sizeof(struct id) == ID_SIZE, "ids are bytes");
	if (in->size % ID_SIZE != 0)
		return err_set(e, ERR_PROTOCOL, "HAVE of %" PRIu32 " bytes",
		    in->size);
	if (store_session_have(v->store, (const struct id *)(const void *)
	    in->body, count, bitmap, e) != 0)
		return -1;
	return session_send(v, MSG_HAVE_IS, in->request, bitmap,
	    (count + 7) / 8, e);
}

int session_on_frame(struct serving *v, const struct wire_msg *in,
    struct err *e)
{
	struct id missing[PROTO_MISSING_MAX];
	size_t count = 0;
	int rc;

	rc = store_session_frame(v->store, in->request, in->body, in->size,
	    missing, PROTO_MISSING_MAX, &count, e);
	if (rc <= 0)
		return rc;
	return session_send(v, MSG_MISSING, in->request, missing,
	    count * ID_SIZE, e);
}

int session_on_sync(struct serving *v, const struct wire_msg *in,
    struct err *e)
{
	(void)in;
	v->sync_due = true;
	store_session_sync(v->store);
	return session_ack(v, 0, e);
}

static void log_commit(const struct serving *v,
    const struct snapshot_record *r)
{
	char id[2 * SNAPSHOT_ID_SIZE + 1], bytes[16], fresh[16];

	hex_put(id, r->id, SNAPSHOT_ID_SIZE);
	str_bytes_human(bytes, r->bytes);
	str_bytes_human(fresh, r->new_bytes);
	log_line(LOG_LEVEL_INFO, "session %" PRIu64 ": %s pushed snapshot %s "
	    "(%" PRIu64 " files, %s, %s new) in %" PRIu64 " s", v->s->number,
	    v->s->client, id, r->files, bytes, fresh,
	    (clock_mono_ms() - v->began_ms) / 1000);
}

int session_on_commit(struct serving *v, const struct wire_msg *in,
    struct err *e)
{
	uint8_t body[SNAPSHOT_RECORD_SIZE];
	struct id missing[PROTO_MISSING_MAX];
	struct snapshot_record record;
	struct store_commit c = { .flags = 0 };
	struct msg_commit m;
	size_t count = 0;
	int rc;

	if (msg_commit_get(&m, in->body, in->size, e) != 0 ||
	    owner_may_write(v->s->owner, e) != 0)
		return -1;
	memcpy(c.snapshot, v->snapshot, sizeof(c.snapshot));
	c.root = m.root;
	c.facts = m.facts;
	c.client_ns = m.client_ns;
	c.zone_s = m.zone_s;
	c.flags = (uint8_t)m.flags;
	c.files = m.files;
	c.bytes = m.bytes;
	c.new_bytes = m.new_bytes;
	rc = store_session_commit(v->store, &c, &record, missing,
	    PROTO_MISSING_MAX, &count, e);
	if (rc < 0)
		return -1;
	if (rc > 0)
		return session_send(v, MSG_MISSING, in->request, missing,
		    count * ID_SIZE, e);
	log_commit(v, &record);
	atomic_store(&v->s->pushing, false);
	snapshot_record_put(body, &record);
	return session_send(v, MSG_COMMITTED, in->request, body, sizeof(body),
	    e);
}

int session_on_abort(struct serving *v, const struct wire_msg *in,
    struct err *e)
{
	(void)in;
	(void)e;
	store_session_abort(v->store);
	atomic_store(&v->s->pushing, false);
	return 0;
}
