/*
 * store/session.c - the life of a session, and what it pins.
 *
 * PINS   (S4)
 *
 *   A session pins the segments of everything it was told is there: what
 *   `have` said, duplicates, the children of accepted pages, and what it
 *   stored itself.  A session that ends without a commit leaves its pins for
 *   24 hours, or until the same client commits: a broken push is resumed
 *   without sending again.  What it brought counts for the quota until then,
 *   or until a collection has taken it.  Pins are in memory; a restarted
 *   server protects what was taken before by nothing but the next push of the
 *   client, which is told what is missing.
 *
 * ONE PUSH PER CLIENT
 *
 *   The newer session wins as soon as the older was silent for 10 s.
 */
#include "store/session.h"

#include "base/clock.h"
#include "proto/fmt_frame.h"
#include "store/client.h"
#include "store/commit.h"
#include "store/impl.h"
#include "store/looks.h"
#include "store/mark.h"
#include "store/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int store_session_open(struct store_session **out, struct store *s,
    const char *client, struct err *e)
{
	struct store_session *ss = calloc(1, sizeof(*ss));
	bool rebuilding;

	if (!ss)
		return err_set(e, ERR_NO_MEMORY, "no memory for a session");
	ss->store = s;
	segset_init(&ss->pins);
	buf_init(&ss->again, FRAME_STORED_MAX);
	atomic_init(&ss->alive_ms, clock_mono_ms());
	if (store_client_get(s, client, &ss->client, e) != 0)
		goto fail;
	if (domain_token(s, ss->client.domain, ss->token, e) != 0)
		goto fail;
	pthread_mutex_lock(&s->cut);
	rebuilding = s->rebuilding;
	if (!rebuilding) {
		ss->next = s->sessions;
		s->sessions = ss;
	}
	pthread_mutex_unlock(&s->cut);
	if (rebuilding) {
		err_set(e, ERR_BUSY, "the index is being built again");
		goto fail;
	}
	*out = ss;
	return 0;
fail:
	free(ss);
	return -1;
}

static struct linger *linger_of(struct store *s, const char *client)
{
	struct linger *l = s->lingers;

	while (l && strcmp(l->client, client) != 0)
		l = l->next;
	if (l)
		return l;
	l = calloc(1, sizeof(*l));
	if (!l)
		return NULL;
	snprintf(l->client, sizeof(l->client), "%s", client);
	l->next = s->lingers;
	s->lingers = l;
	return l;
}

/* Cut lock held.  Without memory for it the pins are lost: the next push is
 * told what is missing. */
static void pins_linger(struct store_session *ss)
{
	struct linger *l;
	struct err lost;

	if (ss->pins.count == 0 && ss->new_bytes == 0)
		return;
	l = linger_of(ss->store, ss->client.name);
	if (!l)
		return;
	l->new_bytes += ss->new_bytes;
	l->until_ms = clock_mono_ms() + LINGER_MS;
	for (size_t i = 0; i < ss->pins.cap; i++)
		if (ss->pins.slots[i] != 0 && segset_add(&l->pins,
		    ss->pins.slots[i] - 1, &lost) != 0)
			return;
}

void lingers_drop(struct store *s, const char *client)
{
	struct linger **at = &s->lingers;
	uint64_t now = clock_mono_ms();

	while (*at) {
		struct linger *l = *at;

		if (client ? strcmp(l->client, client) != 0 :
		    l->until_ms > now) {
			at = &l->next;
			continue;
		}
		*at = l->next;
		segset_release(&l->pins);
		free(l);
	}
}

/* What earlier pushes of the client brought and nobody committed: it is the
 * client's, so it counts as if this push had brought it.  Cut lock held, and
 * no other session of the client goes on pushing. */
static uint64_t bytes_inherit(struct store_session *ss)
{
	uint64_t sum = 0;

	for (struct store_session *o = ss->store->sessions; o; o = o->next)
		if (strcmp(o->client.name, ss->client.name) == 0) {
			sum += o->new_bytes;
			o->new_bytes = 0;
		}
	for (struct linger *l = ss->store->lingers; l; l = l->next)
		if (strcmp(l->client, ss->client.name) == 0) {
			sum += l->new_bytes;
			l->new_bytes = 0;
		}
	return sum;
}

static void push_end(struct store_session *ss)
{
	pins_linger(ss);
	segset_release(&ss->pins);
	ss->new_bytes = 0;
	ss->pushing = false;
}

void store_session_close(struct store_session *ss)
{
	struct store_session **at;
	struct store *s;

	if (!ss)
		return;
	s = ss->store;
	pthread_mutex_lock(&s->cut);
	for (at = &s->sessions; *at != ss; at = &(*at)->next)
		;
	*at = ss->next;
	push_end(ss);
	pthread_mutex_unlock(&s->cut);
	frame_builder_free(ss->builder);
	free(ss->plain);
	buf_release(&ss->again);
	free(ss);
}

const struct client_record *store_session_client(
    const struct store_session *ss)
{
	return &ss->client;
}

void store_session_domain_token(struct store_session *ss,
    uint8_t out[static 16])
{
	memcpy(out, ss->token, sizeof(ss->token));
}

struct count_domain {
	struct store *store;
	uint32_t domain;
	uint32_t count;
};

static int count_if_mine(void *arg, const struct client_record *c)
{
	struct count_domain *d = arg;

	/* Own records only: the numbers come later, without the facts' lock. */
	d->count += c->domain == d->domain;
	return 0;
}

uint32_t store_session_snapshots(struct store_session *ss)
{
	struct count_domain d = { ss->store, ss->client.domain, 0 };
	struct snapshot_item *items;
	uint32_t mine = 0, domain;
	struct err ignored;
	size_t count;

	if (store_client_each(ss->store, count_if_mine, &d) == 0 &&
	    d.count <= 1)
		return (uint32_t)snapshots_count(ss->store, ss->client.name);
	if (snapshots_list(ss->store, NULL, &items, &count, &ignored) != 0)
		return 0;
	for (size_t i = 0; i < count; i++)
		mine += client_domain(ss->store, items[i].client, &domain,
		    &ignored) == 0 && domain == ss->client.domain;
	free(items);
	return mine;
}

void store_session_alive(struct store_session *ss)
{
	atomic_store(&ss->alive_ms, clock_mono_ms());
}

/* ---- pushing ------------------------------------------------------------ */

int session_pushing(struct store_session *ss, struct err *e)
{
	if (ss->broken) {
		*e = ss->why_broken;
		return -1;
	}
	if (!ss->pushing)
		return err_set(e, ERR_PROTOCOL, "no push was begun");
	return store_writable(ss->store, e);
}

int session_pin(struct store_session *ss, const struct place *p,
    struct err *e)
{
	return segset_add(&ss->pins, p->segment, e);
}

bool segment_pinned(const struct store *s, uint64_t segment)
{
	for (const struct store_session *ss = s->sessions; ss; ss = ss->next)
		if (segset_has(&ss->pins, segment))
			return true;
	for (const struct linger *l = s->lingers; l; l = l->next)
		if (segset_has(&l->pins, segment))
			return true;
	return false;
}

/* Cut lock held. */
static int supersede(struct store_session *ss, struct err *e)
{
	uint64_t now = clock_mono_ms();

	for (struct store_session *o = ss->store->sessions; o; o = o->next) {
		if (o == ss || !o->pushing || o->broken ||
		    strcmp(o->client.name, ss->client.name) != 0)
			continue;
		if (now - atomic_load(&o->alive_ms) < SESSION_ALIVE_MS)
			return err_set(e, ERR_BUSY,
			    "client %s is pushing in another session",
			    ss->client.name);
		o->broken = true;
		err_set(&o->why_broken, ERR_BUSY,
		    "superseded by a newer session of client %s",
		    ss->client.name);
	}
	return 0;
}

/* What counts for a quota: the bytes that each snapshot brought. */
static int add_new_bytes(void *arg, const char *client,
    const struct snapshot_record *r)
{
	uint64_t *sum = arg;

	(void)client;
	*sum += r->new_bytes;
	return 0;
}

static int push_begin(struct store_session *ss, const uint8_t *snapshot,
    uint64_t used, struct err *e)
{
	if (store_writable(ss->store, e) != 0 || supersede(ss, e) != 0)
		return -1;
	push_end(ss);
	ss->pushing = true;
	ss->broken = ss->reduced = false;
	memcpy(ss->snapshot, snapshot, SNAPSHOT_ID_SIZE);
	ss->frame_taken = ss->frame_cut = ss->frame_durable = 0;
	ss->stored_bytes = 0;
	ss->new_bytes = bytes_inherit(ss);
	ss->used_bytes = used;
	return 0;
}

int store_session_begin(struct store_session *ss,
    const uint8_t snapshot[static SNAPSHOT_ID_SIZE], bool *committed,
    struct snapshot_record *record, struct err *e)
{
	struct store *s = ss->store;
	uint64_t used = 0;
	struct err none;
	int rc;

	store_session_alive(ss);
	*committed = snapshot_find(s, ss->client.name, snapshot, record,
	    &none) == 0;
	if (*committed)
		return 0;
	if (none.code != ERR_NOT_FOUND) {
		*e = none;
		return -1;
	}
	if (ss->client.quota > 0 && store_snapshot_each(s, ss->client.name,
	    add_new_bytes, &used) != 0)
		return err_set(e, ERR_NO_MEMORY, "no memory for snapshots");
	pthread_mutex_lock(&s->cut);
	rc = push_begin(ss, snapshot, used, e);
	pthread_mutex_unlock(&s->cut);
	return rc;
}

void store_session_abort(struct store_session *ss)
{
	pthread_mutex_lock(&ss->store->cut);
	push_end(ss);
	pthread_mutex_unlock(&ss->store->cut);
}

void store_session_sync(struct store_session *ss)
{
	pthread_mutex_lock(&ss->store->cut);
	committer_wake(ss->store);
	pthread_mutex_unlock(&ss->store->cut);
}

int store_session_durable(struct store_session *ss, uint32_t *number,
    struct err *e)
{
	int rc = 0;

	pthread_mutex_lock(&ss->store->cut);
	*number = ss->frame_durable;
	if (ss->broken) {
		*e = ss->why_broken;
		rc = -1;
	}
	pthread_mutex_unlock(&ss->store->cut);
	return rc;
}

/* Cut lock held. */
static int have_locked(struct store_session *ss, struct looks *l,
    uint8_t *bitmap, struct err *e)
{
	struct store *s = ss->store;
	uint32_t domain = ss->client.domain;

	if (session_pushing(ss, e) != 0)
		return -1;
	for (size_t i = 0; i < l->count; i++) {
		const struct entry *en = looks_entry(s, l, i);

		if (!en || !entry_present(s, en, domain))
			continue;
		if (session_pin(ss, &en->place, e) != 0 || (s->mark &&
		    mark_touch(s->mark, &l->keys[i], en, domain, e) != 0))
			return -1;
		bitmap[i / 8] |= (uint8_t)(1u << i % 8);
	}
	return 0;
}

int store_session_have(struct store_session *ss, const struct id *ids,
    size_t count, uint8_t *bitmap, struct err *e)
{
	struct looks l;
	int rc = -1;

	memset(bitmap, 0, (count + 7) / 8);
	looks_init(&l);
	for (size_t i = 0; i < count; i++)
		if (looks_add(&l, &ids[i], e) != 0)
			goto out;
	if (looks_lock(ss->store, &l, false, e) != 0)
		goto out;
	rc = have_locked(ss, &l, bitmap, e);
	pthread_mutex_unlock(&ss->store->cut);
out:
	looks_release(&l);
	return rc;
}
