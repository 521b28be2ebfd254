/* The messages of those who read: SNAPSHOTS and FETCH. */
#include "server/session_impl.h"

#include "base/le.h"
#include "base/wire.h"
#include "proto/msg.h"
#include "server/owner.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct records {
	struct snapshot_record *items;
	size_t count, room;
	bool failed;
};

/* Collected first: the store does not wait for a slow client. */
static int collect(void *arg, const char *client,
    const struct snapshot_record *r)
{
	struct records *l = arg;

	(void)client;
	if (l->count == l->room) {
		size_t room = l->room ? 2 * l->room : 64;
		struct snapshot_record *more = reallocarray(l->items, room,
		    sizeof(*more));

		if (!more) {
			l->failed = true;
			return -1;
		}
		l->items = more;
		l->room = room;
	}
	l->items[l->count++] = *r;
	return 0;
}

static int send_records(struct serving *v, uint32_t request,
    const struct records *l, struct err *e)
{
	uint8_t body[SNAPSHOT_RECORD_SIZE];
	uint8_t end[4];

	for (size_t i = 0; i < l->count; i++) {
		snapshot_record_put(body, &l->items[i]);
		if (session_send(v, MSG_SNAPSHOT, request, body, sizeof(body),
		    e) != 0)
			return -1;
	}
	le32_put(end, (uint32_t)l->count);
	return session_send(v, MSG_END, request, end, sizeof(end), e);
}

int session_on_snapshots(struct serving *v, const struct wire_msg *in,
    struct err *e)
{
	struct records l = { .items = NULL };
	int rc;

	rc = store_snapshot_each(v->s->owner->store, v->s->client, collect,
	    &l);
	if (l.failed)
		rc = err_set(e, ERR_NO_MEMORY, "no memory for %zu snapshots",
		    l.count);
	else if (rc != 0)
		rc = err_set(e, ERR_CORRUPT, "the snapshots of %s cannot be "
		    "listed", v->s->client);
	else
		rc = send_records(v, in->request, &l, e);
	free(l.items);
	return rc;
}

/*
 * ---- fetch ----------------------------------------------------------------
 */

#define LOST_SIZE (1 + ID_SIZE)		/* an item of FETCHED */

static int give_frame(void *arg, const void *frame, size_t size,
    struct err *e)
{
	struct serving *v = arg;

	if (owner_stopping(v->s->owner))
		return err_set(e, ERR_UNAVAILABLE, "the server is stopping");
	return session_send(v, MSG_OBJECTS, v->request, frame, size, e);
}

static int give_lost(void *arg, const struct id *id, const struct err *why,
    struct err *e)
{
	struct serving *v = arg;
	uint8_t *at;

	if (v->lost_count == PROTO_FETCH_MAX)
		return err_set(e, ERR_LIMIT, "more lost objects than asked "
		    "for");
	at = v->lost + 4 + LOST_SIZE * v->lost_count++;
	at[0] = (uint8_t)err_wire(why->code);
	memcpy(at + 1, id->bytes, ID_SIZE);
	return 0;
}

int session_on_fetch(struct serving *v, const struct wire_msg *in,
    struct err *e)
{
	const struct fetch_ops ops = { .frame = give_frame, .lost = give_lost,
	    .arg = v };
	struct err why;

	if (in->size % ID_SIZE != 0)
		return err_set(e, ERR_PROTOCOL, "FETCH of %" PRIu32 " bytes",
		    in->size);
	if (!session_may(v, ROLE_RESTORE)) {
		err_set(&why, ERR_DENIED, "%s may not restore", v->s->client);
		return session_refuse(v, in->request, &why, false, e);
	}
	if (!v->lost)
		v->lost = malloc(4 + LOST_SIZE * PROTO_FETCH_MAX);
	if (!v->lost)
		return err_set(e, ERR_NO_MEMORY, "no memory for an answer");
	v->lost_count = 0;
	v->request = in->request;
	if (store_fetch(v->store, (const struct id *)(const void *)in->body,
	    in->size / ID_SIZE, &ops, e) != 0)
		return -1;
	le32_put(v->lost, (uint32_t)v->lost_count);
	return session_send(v, MSG_FETCHED, in->request, v->lost,
	    4 + LOST_SIZE * v->lost_count, e);
}
