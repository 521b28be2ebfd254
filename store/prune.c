/*
 * store/prune.c - retention, then collection.
 *
 * Groups are formed by client and set of paths; the paths are in the facts
 * object.  A snapshot whose facts cannot be read is a group of its own: it
 * stays, and pushes out nothing.
 */
#include "store/store.h"

#include "base/clock.h"
#include "base/hash.h"
#include "proto/fmt_frame.h"
#include "proto/fmt_snapshot.h"
#include "store/cache.h"
#include "store/commit.h"
#include "store/gc.h"
#include "store/impl.h"
#include "store/keys.h"
#include "store/object.h"
#include "store/retention.h"
#include "store/snapshot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct judged {
	struct snapshot_item item;
	uint8_t group[SHA256_SIZE];
	bool keep;
	char reason[RETENTION_REASON_SIZE];
};

struct prune {
	struct store *store;
	const struct prune_ops *ops;
	struct prune_report *report;
	struct change change;
	struct judged *list;
	size_t count;
};

/* ---- groups ------------------------------------------------------------- */

static int by_bytes(const void *a, const void *b)
{
	return memcmp(a, b, SHA256_SIZE);
}

/* The paths, in any order and each once, as one hash. */
static int paths_hash(uint8_t out[static SHA256_SIZE], const void *facts,
    size_t size, struct err *e)
{
	uint8_t (*sums)[SHA256_SIZE] = NULL;
	size_t pos = 0, n = 0, cap = 0;
	struct slice value;
	unsigned tag;
	int rc = 0;

	if (facts_check(facts, size, e) != 0)
		return -1;
	while (rc == 0 && facts_next(facts, size, &pos, &tag, &value)) {
		struct bytes path = { value.data, value.size };

		if (tag != FACT_PATH)
			continue;
		if (n == cap) {
			void *more;

			cap = cap ? cap * 2 : 16;
			more = realloc(sums, cap * sizeof(*sums));
			if (!more) {
				rc = err_set(e, ERR_NO_MEMORY,
				    "no memory for paths");
				break;
			}
			sums = more;
		}
		rc = sha256(sums[n++], &path, 1, e);
	}
	if (rc == 0) {
		struct bytes all = { sums, n * sizeof(*sums) };

		if (n > 0)
			qsort(sums, n, sizeof(*sums), by_bytes);
		rc = sha256(out, &all, n > 0, e);
	}
	free(sums);
	return rc;
}

static int group_of(struct store *s, struct judged *j, struct err *e)
{
	uint8_t *facts;
	size_t size;
	struct err why;
	int rc;

	if (object_load(s, &j->item.record.facts, OBJECT_FACTS, &facts,
	    &size, &why) != 0) {
		if (why.code == ERR_NO_MEMORY) {
			*e = why;
			return -1;
		}
		/* Of its own: the snapshot's id is unique. */
		memset(j->group, 0, sizeof(j->group));
		memcpy(j->group, j->item.record.id, SNAPSHOT_ID_SIZE);
		return 0;
	}
	rc = paths_hash(j->group, facts, size, e);
	free(facts);
	return rc;
}

static int by_group(const void *a, const void *b)
{
	const struct judged *x = a, *y = b;
	int c = memcmp(x->group, y->group, sizeof(x->group));

	if (c != 0)
		return c;
	return x->item.record.order < y->item.record.order ? -1 :
	    x->item.record.order > y->item.record.order;
}

static int by_order(const void *a, const void *b)
{
	const struct judged *x = a, *y = b;

	return x->item.record.order < y->item.record.order ? -1 :
	    x->item.record.order > y->item.record.order;
}

/* ---- one client --------------------------------------------------------- */

static int judge_group(struct judged *list, size_t count,
    const struct retention *rules, int64_t now, struct err *e)
{
	struct retention_item *items = calloc(count, sizeof(*items));

	if (!items)
		return err_set(e, ERR_NO_MEMORY, "no memory for snapshots");
	for (size_t i = 0; i < count; i++) {
		const struct snapshot_record *r = &list[i].item.record;

		items[i].commit_s = r->commit_s;
		items[i].zone_s = r->zone_s;
		items[i].incomplete = (r->flags &
		    (SNAPSHOT_PARTIAL | SNAPSHOT_FUTURE)) != 0;
	}
	retention_decide(rules, items, count, now);
	for (size_t i = 0; i < count; i++) {
		list[i].keep = items[i].keep;
		memcpy(list[i].reason, items[i].reason,
		    sizeof(list[i].reason));
	}
	free(items);
	return 0;
}

static int judge_groups(struct prune *p, const struct retention *rules,
    struct err *e)
{
	int64_t now = clock_real_s();
	size_t n;

	if (p->count > 0)
		qsort(p->list, p->count, sizeof(*p->list), by_group);
	for (size_t at = 0; at < p->count; at += n) {
		for (n = 1; at + n < p->count && memcmp(p->list[at].group,
		    p->list[at + n].group, SHA256_SIZE) == 0; n++)
			;
		if (judge_group(p->list + at, n, rules, now, e) != 0)
			return -1;
	}
	if (p->count > 0)
		qsort(p->list, p->count, sizeof(*p->list), by_order);
	return 0;
}

static int list_load(struct prune *p, const char *client, struct err *e)
{
	struct snapshot_item *items;
	int rc = 0;

	if (snapshots_list(p->store, client, &items, &p->count, e) != 0)
		return -1;
	p->list = calloc(p->count + 1, sizeof(*p->list));
	if (!p->list)
		rc = err_set(e, ERR_NO_MEMORY, "no memory for snapshots");
	for (size_t i = 0; i < p->count && rc == 0; i++) {
		p->list[i].item = items[i];
		rc = group_of(p->store, &p->list[i], e);
	}
	free(items);
	return rc;
}

static int verdicts_tell(struct prune *p, struct err *e)
{
	for (size_t i = 0; i < p->count; i++) {
		const struct judged *j = &p->list[i];
		struct fact_key k;

		if (p->ops && p->ops->snapshot)
			p->ops->snapshot(p->ops->arg, j->item.client,
			    &j->item.record, j->keep, j->reason);
		p->report->snapshots_kept += j->keep;
		p->report->snapshots_gone += !j->keep;
		if (j->keep)
			continue;
		k = key_snapshot(j->item.client, j->item.record.order);
		if (change_put(&p->change, k.bytes, k.size, NULL, 0, e) != 0)
			return -1;
	}
	return 0;
}

static int prune_client(struct prune *p, const struct client_record *c,
    struct err *e)
{
	int rc = list_load(p, c->name, e);

	if (rc == 0)
		rc = judge_groups(p, &c->keep, e);
	if (rc == 0)
		rc = verdicts_tell(p, e);
	free(p->list);
	p->list = NULL;
	p->count = 0;
	return rc;
}

struct each_client {
	struct prune *prune;
	struct err *e;
};

static int prune_each(void *arg, const struct client_record *c)
{
	struct each_client *w = arg;

	return prune_client(w->prune, c, w->e);
}

static int retention_apply(struct prune *p, const char *client,
    struct err *e)
{
	struct each_client w = { p, e };
	struct client_record *c;
	int rc = -1;

	if (!client)
		return store_client_each(p->store, prune_each, &w) == 0 ? 0 :
		    -1;
	c = malloc(sizeof(*c));
	if (!c)
		return err_set(e, ERR_NO_MEMORY, "no memory for a client");
	if (store_client_get(p->store, client, c, e) == 0)
		rc = prune_client(p, c, e);
	free(c);
	return rc;
}

static int forget_those(struct prune *p, const char *client, bool dry_run,
    struct err *e)
{
	int rc;

	pthread_mutex_lock(&p->store->admin);
	rc = retention_apply(p, client, e);
	if (rc == 0 && !dry_run && p->change.count > 0)
		rc = change_commit(p->store, &p->change, e);
	pthread_mutex_unlock(&p->store->admin);
	return rc;
}

int store_prune(struct store *s, const char *client, bool dry_run,
    const struct prune_ops *ops, struct prune_report *report,
    struct job_ctl *ctl, struct err *e)
{
	struct prune p = { .store = s, .ops = ops, .report = report };
	int rc;

	memset(report, 0, sizeof(*report));
	if (store_job_begin(s, "prune", e) != 0)
		return -1;
	change_init(&p.change);
	rc = forget_those(&p, client, dry_run, e);
	change_release(&p.change);
	if (rc == 0 && !dry_run)
		rc = gc_run(s, report, ctl, e);
	store_job_end(s);
	return rc;
}

int store_mend(struct store *s, struct prune_report *report,
    struct job_ctl *ctl, struct err *e)
{
	int rc;

	memset(report, 0, sizeof(*report));
	if (store_job_begin(s, "mending", e) != 0)
		return -1;
	rc = gc_mend(s, report, ctl, e);
	store_job_end(s);
	return rc;
}
