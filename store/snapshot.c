/*
 * store/snapshot.c - the records of snapshots: facts in the log, listed from
 * there and nowhere else (S1).
 *
 * Keys are "s/<client>/<order>", so the order of keys is the order of
 * commits of a client.
 */
#include "store/snapshot.h"

#include "base/clock.h"
#include "base/str.h"
#include "store/commit.h"
#include "store/impl.h"
#include "store/keys.h"

#include <stdlib.h>
#include <string.h>

struct collect {
	struct snapshot_item *items;
	size_t count, cap;
	struct err *e;
};

static int collect_one(void *arg, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size)
{
	struct collect *c = arg;
	struct snapshot_item *items, *it;

	if (c->count == c->cap) {
		size_t cap = c->cap ? c->cap * 2 : 16;

		items = realloc(c->items, cap * sizeof(*items));
		if (!items)
			return err_set(c->e, ERR_NO_MEMORY,
			    "no memory for snapshots");
		c->items = items;
		c->cap = cap;
	}
	it = &c->items[c->count];
	if (key_snapshot_client(key, key_size, it->client,
	    sizeof(it->client), c->e) != 0 ||
	    snapshot_record_get(&it->record, value, value_size, c->e) != 0)
		return -1;
	c->count++;
	return 0;
}

int snapshots_list(struct store *s, const char *client,
    struct snapshot_item **out, size_t *count, struct err *e)
{
	struct collect c = { .e = e };
	struct fact_key k = key_snapshots(client);

	if (array_kv_each(s->array, k.bytes, k.size, collect_one, &c) != 0) {
		free(c.items);
		return -1;
	}
	*out = c.items;
	*count = c.count;
	return 0;
}

int store_snapshot_each(struct store *s, const char *client,
    int (*each)(void *arg, const char *client,
    const struct snapshot_record *r), void *arg)
{
	struct snapshot_item *items;
	size_t count;
	struct err bad;
	int rc = 0;

	if (snapshots_list(s, client, &items, &count, &bad) != 0)
		return -1;
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = each(arg, items[i].client, &items[i].record);
	free(items);
	return rc;
}

int snapshot_find(struct store *s, const char *client,
    const uint8_t id[static SNAPSHOT_ID_SIZE], struct snapshot_record *out,
    struct err *e)
{
	struct snapshot_item *items;
	char hex[2 * SNAPSHOT_ID_SIZE + 1];
	size_t count;
	bool found = false;

	if (snapshots_list(s, client, &items, &count, e) != 0)
		return -1;
	for (size_t i = 0; i < count && !found; i++)
		if (memcmp(items[i].record.id, id, SNAPSHOT_ID_SIZE) == 0) {
			*out = items[i].record;
			found = true;
		}
	free(items);
	if (found)
		return 0;
	hex_put(hex, id, SNAPSHOT_ID_SIZE);
	return err_set(e, ERR_NOT_FOUND, "client %s has no snapshot %s",
	    client, hex);
}

static int age_check(const struct client_record *c,
    const struct snapshot_record *r, struct err *e)
{
	int64_t age = clock_real_s() - r->commit_s;
	char hex[2 * SNAPSHOT_ID_SIZE + 1];

	if (c->keep.min_age_s == 0 ||
	    (age >= 0 && (uint64_t)age >= c->keep.min_age_s))
		return 0;
	hex_put(hex, r->id, SNAPSHOT_ID_SIZE);
	return err_set(e, ERR_DENIED,
	    "snapshot %s of client %s is younger than its minimum age", hex,
	    c->name);
}

int snapshots_purge(struct store *s, const struct client_record *c,
    bool purge, struct change *change, struct err *e)
{
	struct snapshot_item *items;
	size_t count;
	int rc = 0;

	if (snapshots_list(s, c->name, &items, &count, e) != 0)
		return -1;
	if (count > 0 && !purge)
		rc = err_set(e, ERR_EXISTS, "client %s has %zu snapshots",
		    c->name, count);
	for (size_t i = 0; i < count && rc == 0; i++) {
		struct fact_key k = key_snapshot(c->name,
		    items[i].record.order);

		rc = age_check(c, &items[i].record, e);
		if (rc == 0)
			rc = change_put(change, k.bytes, k.size, NULL, 0, e);
	}
	free(items);
	return rc;
}

static int forget_locked(struct store *s, const char *client,
    const uint8_t *snapshot, struct client_record *c, struct err *e)
{
	struct snapshot_record r;
	struct change change;
	struct fact_key k;
	int rc;

	if (store_client_get(s, client, c, e) != 0 ||
	    snapshot_find(s, client, snapshot, &r, e) != 0 ||
	    age_check(c, &r, e) != 0)
		return -1;
	change_init(&change);
	k = key_snapshot(client, r.order);
	rc = change_put(&change, k.bytes, k.size, NULL, 0, e);
	if (rc == 0)
		rc = change_commit(s, &change, e);
	change_release(&change);
	return rc;
}

int store_forget(struct store *s, const char *client,
    const uint8_t snapshot[static SNAPSHOT_ID_SIZE], struct err *e)
{
	struct client_record *c = malloc(sizeof(*c));
	int rc;

	if (!c)
		return err_set(e, ERR_NO_MEMORY, "no memory for a client");
	pthread_mutex_lock(&s->admin);
	rc = forget_locked(s, client, snapshot, c, e);
	pthread_mutex_unlock(&s->admin);
	free(c);
	return rc;
}

static int highest(void *arg, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size)
{
	uint64_t *next = arg;

	(void)value;
	(void)value_size;
	if (key_size >= 8 && be64_get(key + key_size - 8) >= *next)
		*next = be64_get(key + key_size - 8) + 1;
	return 0;
}

int snapshots_next_order(struct store *s, uint64_t *out, struct err *e)
{
	if (fact_number(s->array, KEY_NEXT_ORDER, 1, out, e) != 0)
		return -1;
	return array_kv_each(s->array, "s/", 2, highest, out);
}

static int count_one(void *arg, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size)
{
	(void)key;
	(void)key_size;
	(void)value;
	(void)value_size;
	++*(uint64_t *)arg;
	return 0;
}

uint64_t snapshots_count(struct store *s, const char *client)
{
	struct fact_key k = key_snapshots(client);
	uint64_t n = 0;

	(void)array_kv_each(s->array, k.bytes, k.size, count_one, &n);
	return n;
}
