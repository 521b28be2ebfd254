/*
 * store/client.c - clients and their domains, as facts in the log.
 *
 * Facts are the truth and are all in memory below the array; nothing is
 * cached here but when a client was last seen, which is written along with
 * whatever changes its record next, and at a clean close.
 *
 * The admin lock makes "look, then change" one step; the push path never
 * takes it.
 */
#include "store/client.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/le.h"
#include "store/commit.h"
#include "store/fmt_client.h"
#include "store/impl.h"
#include "store/keys.h"
#include "store/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct seen {
	struct seen *next;
	char name[CLIENT_NAME_MAX + 1];
	int64_t at_s;
};

/* ---- reading ------------------------------------------------------------ */

struct each_client {
	int (*each)(void *arg, const struct client_record *c);
	void *arg;
	struct client_record c;
};

static int one_client(void *arg, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size)
{
	struct each_client *w = arg;
	char name[CLIENT_NAME_MAX + 1];
	struct err bad;

	if (key_size < 3 || key_size - 2 > CLIENT_NAME_MAX)
		return 0;
	memcpy(name, key + 2, key_size - 2);
	name[key_size - 2] = '\0';
	/* A record of a newer program is not ours to show. */
	if (client_record_get(&w->c, name, value, value_size, &bad) != 0)
		return 0;
	return w->each(w->arg, &w->c);
}

/* With the facts locked: `each` must not ask the array anything. */
static int clients_walk(struct store *s,
    int (*each)(void *arg, const struct client_record *c), void *arg)
{
	struct each_client *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return -1;
	w->each = each;
	w->arg = arg;
	rc = array_kv_each(s->array, "c/", 2, one_client, w);
	free(w);
	return rc;
}

struct names {
	char (*list)[CLIENT_NAME_MAX + 1];
	size_t count, cap;
};

static int note_name(void *arg, const struct client_record *c)
{
	struct names *n = arg;

	if (n->count == n->cap) {
		size_t cap = n->cap ? n->cap * 2 : 32;
		void *more = realloc(n->list, cap * sizeof(*n->list));

		if (!more)
			return -1;
		n->list = more;
		n->cap = cap;
	}
	memcpy(n->list[n->count++], c->name, sizeof(c->name));
	return 0;
}

int store_client_each(struct store *s,
    int (*each)(void *arg, const struct client_record *c), void *arg)
{
	struct client_record *c = malloc(sizeof(*c));
	struct names n = { .count = 0 };
	struct err gone;
	int rc = c ? clients_walk(s, note_name, &n) : -1;

	for (size_t i = 0; i < n.count && rc == 0; i++)
		if (store_client_get(s, n.list[i], c, &gone) == 0)
			rc = each(arg, c);
	free(n.list);
	free(c);
	return rc;
}

static void seen_apply(struct store *s, struct client_record *c)
{
	pthread_mutex_lock(&s->cut);
	for (struct seen *n = s->seen; n; n = n->next)
		if (strcmp(n->name, c->name) == 0 && n->at_s > c->last_seen_s)
			c->last_seen_s = n->at_s;
	pthread_mutex_unlock(&s->cut);
}

int store_client_get(struct store *s, const char *name,
    struct client_record *out, struct err *e)
{
	struct fact_key k;
	uint8_t *value;
	size_t size;
	int rc;

	if (!client_name_ok(name))
		return err_set(e, ERR_NOT_FOUND, "no client of that name");
	k = key_client(name);
	if (array_kv_get(s->array, k.bytes, k.size, &value, &size, e) != 0)
		return e->code == ERR_NOT_FOUND ?
		    err_set(e, ERR_NOT_FOUND, "no client %s", name) : -1;
	rc = client_record_get(out, name, value, size, e);
	free(value);
	if (rc == 0)
		seen_apply(s, out);
	return rc;
}

struct by_key {
	char wanted[CLIENT_KEY_TEXT_MAX], *name;
	bool found;
};

/* Never stops early: the time tells nothing. */
static int compare_keys(void *arg, const struct client_record *c)
{
	struct by_key *b = arg;

	for (uint32_t i = 0; i < CLIENT_KEYS_MAX; i++)
		if (secret_equal(c->keys[i], b->wanted, sizeof(b->wanted)) &&
		    i < c->key_count && !b->found) {
			b->found = true;
			memcpy(b->name, c->name, sizeof(c->name));
		}
	return 0;
}

bool store_client_by_key(struct store *s, const char *canonical,
    char name[static CLIENT_NAME_MAX + 1])
{
	struct by_key b = { .name = name };
	size_t n = strlen(canonical);

	if (n == 0 || n >= sizeof(b.wanted))
		return false;
	memcpy(b.wanted, canonical, n);
	return clients_walk(s, compare_keys, &b) == 0 && b.found;
}

void store_client_seen(struct store *s, const char *name)
{
	int64_t now = clock_real_s();
	struct seen *n;

	pthread_mutex_lock(&s->cut);
	for (n = s->seen; n && strcmp(n->name, name) != 0; n = n->next)
		;
	if (!n && (n = calloc(1, sizeof(*n))) != NULL) {
		snprintf(n->name, sizeof(n->name), "%s", name);
		n->next = s->seen;
		s->seen = n;
	}
	if (n)
		n->at_s = now;
	pthread_mutex_unlock(&s->cut);
}

void clients_seen_free(struct store *s)
{
	while (s->seen) {
		struct seen *n = s->seen;

		s->seen = n->next;
		free(n);
	}
}

/* ---- domains ------------------------------------------------------------ */

struct find_domain {
	const char *name;
	uint32_t domain;
};

static int same_domain_name(void *arg, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size)
{
	struct find_domain *f = arg;
	size_t n = strlen(f->name);

	if (key_size != 6 || value_size != 16 + n ||
	    memcmp(value + 16, f->name, n) != 0)
		return 0;
	f->domain = be32_get(key + 2);
	return 1;
}

static int domain_put(struct change *c, uint32_t domain, const char *name,
    struct err *e)
{
	uint8_t value[16 + CLIENT_NAME_MAX];
	struct fact_key k = key_domain(domain);
	size_t n = strlen(name);

	if (random_bytes(value, 16, e) != 0)
		return -1;
	memcpy(value + 16, name, n);
	return change_put(c, k.bytes, k.size, value, 16 + n, e);
}

/* The number for c->domain_name, a new one where there is none. */
static int domain_assign(struct store *s, struct client_record *c,
    struct change *change, struct err *e)
{
	struct find_domain f = { .name = c->domain_name };
	uint8_t raw[8];
	uint64_t next;

	if (c->domain_name[0] != '\0' &&
	    array_kv_each(s->array, "d/", 2, same_domain_name, &f) == 1) {
		c->domain = f.domain;
		return 0;
	}
	if (fact_number(s->array, KEY_NEXT_DOMAIN, 1, &next, e) != 0)
		return -1;
	if (next == 0 || next >= UINT32_MAX)
		return err_set(e, ERR_LIMIT, "there are no domains left");
	c->domain = (uint32_t)next;
	le64_put(raw, next + 1);
	if (change_put(change, KEY_NEXT_DOMAIN, strlen(KEY_NEXT_DOMAIN), raw,
	    8, e) != 0)
		return -1;
	return domain_put(change, c->domain, c->domain_name, e);
}

int domain_token(struct store *s, uint32_t domain, uint8_t out[static 16],
    struct err *e)
{
	struct fact_key k = key_domain(domain);
	uint8_t *value;
	size_t size;

	if (array_kv_get(s->array, k.bytes, k.size, &value, &size, e) != 0)
		return err_add(e, "domain %u", domain);
	if (size >= 16)
		memcpy(out, value, 16);
	free(value);
	return size >= 16 ? 0 :
	    err_set(e, ERR_CORRUPT, "domain %u is malformed", domain);
}

struct renew {
	struct change *c;
	struct err *e;
};

static int renew_one(void *arg, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size)
{
	uint8_t fresh[16 + CLIENT_NAME_MAX];
	struct renew *r = arg;

	if (value_size < 16 || value_size > sizeof(fresh))
		return 0;
	memcpy(fresh, value, value_size);
	if (random_bytes(fresh, 16, r->e) != 0)
		return -1;
	return change_put(r->c, key, key_size, fresh, value_size, r->e);
}

int domains_renew(struct store *s, struct change *c, struct err *e)
{
	struct renew r = { c, e };

	return array_kv_each(s->array, "d/", 2, renew_one, &r);
}

int client_domain(struct store *s, const char *name, uint32_t *domain,
    struct err *e)
{
	struct client_record *c = malloc(sizeof(*c));
	int rc = -1;

	if (!c)
		return err_set(e, ERR_NO_MEMORY, "no memory for a client");
	if (store_client_get(s, name, c, e) == 0) {
		*domain = c->domain;
		rc = 0;
	}
	free(c);
	return rc;
}

/* ---- changing ----------------------------------------------------------- */

static int record_check(const struct client_record *c, struct err *e)
{
	if (!client_name_ok(c->name) || (c->domain_name[0] != '\0' &&
	    !client_name_ok(c->domain_name)))
		return err_set(e, ERR_USAGE, "names are 1 to %d of letters, "
		    "digits, '.', '_' and '-', not beginning with '.'",
		    CLIENT_NAME_MAX);
	if (c->key_count > CLIENT_KEYS_MAX)
		return err_set(e, ERR_LIMIT, "a client has at most %d keys",
		    CLIENT_KEYS_MAX);
	for (uint32_t i = 0; i < c->key_count; i++)
		if (c->keys[i][0] == '\0' || !memchr(c->keys[i], 0,
		    CLIENT_KEY_TEXT_MAX))
			return err_set(e, ERR_USAGE,
			    "a key is empty or longer than %d",
			    CLIENT_KEY_TEXT_MAX - 1);
	return 0;
}

/* Keys belong to one client only. */
static int keys_check(struct store *s, const struct client_record *c,
    struct err *e)
{
	char owner[CLIENT_NAME_MAX + 1];

	for (uint32_t i = 0; i < c->key_count; i++)
		if (store_client_by_key(s, c->keys[i], owner) &&
		    strcmp(owner, c->name) != 0)
			return err_set(e, ERR_EXISTS,
			    "this key belongs to client %s", owner);
	return 0;
}

static int record_put(struct change *change, const struct client_record *c,
    struct err *e)
{
	struct fact_key k = key_client(c->name);
	struct buf b;
	int rc;

	buf_init(&b, RAID_VALUE_MAX);
	client_record_put(&b, c);
	rc = buf_ok(&b, "a client's record", e);
	if (rc == 0)
		rc = change_put(change, k.bytes, k.size, b.data, b.size, e);
	buf_release(&b);
	return rc;
}

static bool client_exists(struct store *s, const char *name)
{
	uint32_t domain;
	struct err ignored;

	return client_domain(s, name, &domain, &ignored) == 0;
}

static int add_locked(struct store *s, struct client_record *c,
    struct change *change, struct err *e)
{
	if (client_exists(s, c->name))
		return err_set(e, ERR_EXISTS, "there is a client %s already",
		    c->name);
	if (keys_check(s, c, e) != 0 ||
	    domain_assign(s, c, change, e) != 0)
		return -1;
	c->added_s = clock_real_s();
	if (record_put(change, c, e) != 0)
		return -1;
	return change_commit(s, change, e);
}

int store_client_add(struct store *s, struct client_record *c,
    struct err *e)
{
	struct change change;
	int rc;

	if (record_check(c, e) != 0)
		return -1;
	change_init(&change);
	pthread_mutex_lock(&s->admin);
	rc = add_locked(s, c, &change, e);
	pthread_mutex_unlock(&s->admin);
	change_release(&change);
	return rc;
}

/* A changed domain name is a changed domain. */
static int set_locked(struct store *s, struct client_record *c,
    struct change *change, struct err *e)
{
	struct client_record *old = malloc(sizeof(*old));
	int rc = -1;

	if (!old)
		return err_set(e, ERR_NO_MEMORY, "no memory for a client");
	if (store_client_get(s, c->name, old, e) == 0 &&
	    keys_check(s, c, e) == 0) {
		c->domain = old->domain;
		if (strcmp(c->domain_name, old->domain_name) == 0)
			rc = record_put(change, c, e);
		else if (snapshots_count(s, c->name) > 0)
			err_set(e, ERR_EXISTS, "client %s has snapshots in its "
			    "domain, which therefore cannot be changed",
			    c->name);
		else if (domain_assign(s, c, change, e) == 0)
			rc = record_put(change, c, e);
	}
	free(old);
	return rc == 0 ? change_commit(s, change, e) : -1;
}

int store_client_set(struct store *s, const struct client_record *c,
    struct err *e)
{
	struct client_record *copy;
	struct change change;
	int rc;

	if (record_check(c, e) != 0)
		return -1;
	copy = malloc(sizeof(*copy));
	if (!copy)
		return err_set(e, ERR_NO_MEMORY, "no memory for a client");
	*copy = *c;
	change_init(&change);
	pthread_mutex_lock(&s->admin);
	rc = set_locked(s, copy, &change, e);
	pthread_mutex_unlock(&s->admin);
	change_release(&change);
	free(copy);
	return rc;
}

/* Its snapshots and its record, in one change. */
static int remove_locked(struct store *s, const char *name, bool purge,
    struct change *change, struct err *e)
{
	struct client_record *c = malloc(sizeof(*c));
	struct fact_key k;
	int rc = -1;

	if (!c)
		return err_set(e, ERR_NO_MEMORY, "no memory for a client");
	if (store_client_get(s, name, c, e) == 0 &&
	    snapshots_purge(s, c, purge, change, e) == 0) {
		k = key_client(name);
		rc = change_put(change, k.bytes, k.size, NULL, 0, e);
	}
	free(c);
	return rc == 0 ? change_commit(s, change, e) : -1;
}

int store_client_remove(struct store *s, const char *name, bool purge,
    struct err *e)
{
	struct change change;
	int rc;

	change_init(&change);
	pthread_mutex_lock(&s->admin);
	rc = remove_locked(s, name, purge, &change, e);
	pthread_mutex_unlock(&s->admin);
	change_release(&change);
	return rc;
}

int clients_seen_put(struct store *s, struct change *c, struct err *e)
{
	struct client_record *r = malloc(sizeof(*r));
	struct err gone;
	int rc = 0;

	if (!r)
		return err_set(e, ERR_NO_MEMORY, "no memory for a client");
	for (struct seen *n = s->seen; n && rc == 0; n = n->next)
		if (store_client_get(s, n->name, r, &gone) == 0)
			rc = record_put(c, r, e);
	free(r);
	return rc;
}
