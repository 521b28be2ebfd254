/*
 * store/commit_snapshot.c - a push becomes a snapshot.
 *
 * No walk is needed: a page is present for the domain only when all below it
 * is (S2), so root and facts being present is all there is to check.  The
 * record goes into the next group flush as a fact, together with or after
 * all that it names; until that flush is durable nothing is listed (S1).
 *
 * Idempotent: a known id with the same root gives the first result again.
 */
#include "store/store.h"

#include "base/clock.h"
#include "base/le.h"
#include "store/commit.h"
#include "store/client.h"
#include "store/impl.h"
#include "store/keys.h"
#include "store/looks.h"
#include "store/mark.h"
#include "store/session.h"
#include "store/snapshot.h"

#include <stdlib.h>
#include <string.h>

#define SKEW_S 3600	/* more than this apart is flagged */

struct commit {
	struct store_session *ss;
	struct snapshot_record record;
};

/* In the cut: the number that orders all commits. */
static int number_it(void *arg, struct change *c, struct err *e)
{
	struct commit *m = arg;
	struct store *s = m->ss->store;
	uint8_t raw[SNAPSHOT_RECORD_SIZE], next[8];
	struct fact_key k;

	if (session_pushing(m->ss, e) != 0)
		return -1;
	if (m->ss->reduced)
		m->record.flags |= SNAPSHOT_REDUCED;
	m->record.order = s->next_order++;
	m->record.commit_s = clock_real_s();
	/* As counted here, not as told: quotas rest on it. */
	m->record.new_bytes = m->ss->new_bytes;
	m->record.stored_bytes = m->ss->stored_bytes;
	le64_put(next, s->next_order);
	k = key_text(KEY_NEXT_ORDER);
	if (change_put(c, k.bytes, k.size, next, sizeof(next), e) != 0)
		return -1;
	snapshot_record_put(raw, &m->record);
	k = key_snapshot(m->ss->client.name, m->record.order);
	return change_put(c, k.bytes, k.size, raw, sizeof(raw), e);
}

static void pins_end(void *arg)
{
	struct commit *m = arg;
	struct store_session *ss = m->ss;

	segset_release(&ss->pins);
	lingers_drop(ss->store, ss->client.name);
	ss->new_bytes = 0;
	ss->pushing = false;
}

static void record_fill(struct commit *m, const struct store_commit *c)
{
	struct snapshot_record *r = &m->record;
	int64_t skew = c->client_ns / 1000000000 - clock_real_s();
	struct array_info info;

	memset(r, 0, sizeof(*r));
	memcpy(r->id, c->snapshot, SNAPSHOT_ID_SIZE);
	r->flags = c->flags & (SNAPSHOT_CHANGED | SNAPSHOT_PARTIAL);
	if (skew > SKEW_S || skew < -SKEW_S)
		r->flags |= SNAPSHOT_FUTURE;
	array_info(m->ss->store->array, &info);
	if (info.writes_reduced)
		r->flags |= SNAPSHOT_REDUCED;
	r->keyspace = KEYSPACE_PLAIN;
	r->root = c->root;
	r->facts = c->facts;
	r->client_ns = c->client_ns;
	r->zone_s = c->zone_s;
	r->files = c->files;
	r->bytes = c->bytes;
}

/* Root and facts: 0, or 1 with those that are not there.  Cut lock held. */
static int roots_check(struct store_session *ss, struct looks *l,
    const struct store_commit *c, struct id *missing, size_t missing_max,
    size_t *missing_count, struct err *e)
{
	const struct id *ids[2] = { &c->root, &c->facts };
	static const uint8_t types[2] = { OBJECT_TREE, OBJECT_FACTS };
	struct store *s = ss->store;

	if (session_pushing(ss, e) != 0)
		return -1;
	for (size_t i = 0; i < 2; i++) {
		const struct entry *en = looks_entry(s, l, i);

		if (en && entry_present(s, en, ss->client.domain)) {
			if (en->type != types[i])
				return err_set(e, ERR_PROTOCOL,
				    "a snapshot's %s is of another type",
				    i == 0 ? "root" : "facts");
			if (session_pin(ss, &en->place, e) != 0 ||
			    (s->mark && mark_touch(s->mark, &l->keys[i], en,
			    ss->client.domain, e) != 0))
				return -1;
		} else if (*missing_count < missing_max) {
			missing[(*missing_count)++] = *ids[i];
		}
	}
	return *missing_count > 0;
}

static int roots_present(struct store_session *ss,
    const struct store_commit *c, struct id *missing, size_t missing_max,
    size_t *missing_count, struct err *e)
{
	struct looks l;
	int rc = -1;

	*missing_count = 0;
	looks_init(&l);
	if (looks_add(&l, &c->root, e) == 0 &&
	    looks_add(&l, &c->facts, e) == 0 &&
	    looks_lock(ss->store, &l, false, e) == 0) {
		rc = roots_check(ss, &l, c, missing, missing_max,
		    missing_count, e);
		pthread_mutex_unlock(&ss->store->cut);
	}
	looks_release(&l);
	return rc;
}

/* 1 = committed before: *record is that.  0 = new. */
static int known_already(struct store_session *ss,
    const struct store_commit *c, struct snapshot_record *record,
    struct err *e)
{
	struct err none;

	if (snapshot_find(ss->store, ss->client.name, c->snapshot, record,
	    &none) != 0) {
		if (none.code == ERR_NOT_FOUND)
			return 0;
		*e = none;
		return -1;
	}
	if (id_equal(&record->root, &c->root))
		return 1;
	return err_set(e, ERR_CONFLICT,
	    "this snapshot id is committed with another root");
}

/* The client may have been removed, or moved, since the session began. */
static int client_still(struct store_session *ss, struct err *e)
{
	uint32_t domain;

	if (client_domain(ss->store, ss->client.name, &domain, e) != 0)
		return -1;
	return domain == ss->client.domain ? 0 : err_set(e, ERR_CONFLICT,
	    "client %s was moved to another domain", ss->client.name);
}

/* Records are kept in the log, of which all clients have one. */
static int count_check(struct store_session *ss, struct err *e)
{
	if (snapshots_count(ss->store, ss->client.name) <
	    SNAPSHOTS_CLIENT_MAX)
		return 0;
	return err_set(e, ERR_LIMIT, "client %s has %u snapshots, which is the "
	    "most there may be; forget some", ss->client.name,
	    SNAPSHOTS_CLIENT_MAX);
}

int store_session_commit(struct store_session *ss,
    const struct store_commit *c, struct snapshot_record *record,
    struct id *missing, size_t missing_max, size_t *missing_count,
    struct err *e)
{
	struct commit m = { .ss = ss };
	struct change change;
	int rc = known_already(ss, c, record, e);

	*missing_count = 0;
	store_session_alive(ss);
	if (rc != 0)
		return rc < 0 ? -1 : 0;
	if (client_still(ss, e) != 0 || count_check(ss, e) != 0)
		return -1;
	rc = roots_present(ss, c, missing, missing_max, missing_count, e);
	if (rc != 0)
		return rc;
	record_fill(&m, c);
	change_init(&change);
	change.in_cut = number_it;
	change.durable = pins_end;
	change.arg = &m;
	rc = change_commit(ss->store, &change, e);
	if (rc == 0) {
		*record = m.record;
		if (change.reduced)
			record->flags |= SNAPSHOT_REDUCED;
	}
	change_release(&change);
	return rc;
}
