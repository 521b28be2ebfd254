/*
 * store/store.c - making, opening and closing a store.
 *
 * Opening:  facts -> quarantines -> open segments' tables -> index brought up
 * -> committer started.  Nothing is written to the array by that, but new
 * domain tokens after a rebuild.
 */
#include "store/store.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/le.h"
#include "base/warn.h"
#include "store/cache.h"
#include "store/client.h"
#include "store/commit.h"
#include "store/impl.h"
#include "store/index.h"
#include "store/keys.h"
#include "store/rebuild.h"
#include "store/rebuild_impl.h"
#include "store/session.h"
#include "store/snapshot.h"
#include "store/toc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_S 15u
#define FLUSH_BYTES (UINT64_C(64) << 20)
#define SEED_SIZE 32
/* A chunk of 64 KiB on average, 110 bytes each as measured in LMDB. */
#define INDEX_BYTES_PER_OBJECT 110u
#define INDEX_OBJECT_BYTES 65536u

/* ---- create ------------------------------------------------------------- */

static int create_facts(struct array_cut *cut, const char *host_key_text,
    struct err *e)
{
	uint8_t seed[SEED_SIZE], one[8];

	if (random_bytes(seed, sizeof(seed), e) != 0)
		return -1;
	le64_put(one, 1);
	if (array_cut_kv(cut, KEY_SEED, strlen(KEY_SEED), seed, sizeof(seed),
	    e) != 0 ||
	    array_cut_kv(cut, KEY_NEXT_DOMAIN, strlen(KEY_NEXT_DOMAIN), one,
	    sizeof(one), e) != 0)
		return -1;
	return array_cut_kv(cut, KEY_HOSTKEY, strlen(KEY_HOSTKEY),
	    host_key_text, strlen(host_key_text), e);
}

int store_create(struct array *a, const char *host_key_text, struct err *e)
{
	struct flush_result result;
	struct array_cut *cut;
	struct err why;
	int rc;

	if (array_cut_begin(a, &cut, e) != 0)
		return -1;
	rc = create_facts(cut, host_key_text, &why);
	array_cut_end(cut);
	if (array_flush(a, cut, &result, e) != 0)
		return -1;
	if (rc != 0)
		*e = why;
	return rc;
}

/* ---- open --------------------------------------------------------------- */

static void locks_init(struct store *s)
{
	pthread_condattr_t mono;

	pthread_mutex_init(&s->admin, NULL);
	pthread_mutex_init(&s->cut, NULL);
	pthread_condattr_init(&mono);
	pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
	pthread_cond_init(&s->wake, &mono);
	pthread_cond_init(&s->done, &mono);
	pthread_condattr_destroy(&mono);
}

static struct store *store_new(const struct store_open *o)
{
	struct store *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	locks_init(s);
	s->array = o->array;
	s->warn = o->warn;
	s->read_only = o->read_only;
	s->flush_s = o->flush_s ? o->flush_s : FLUSH_S;
	s->flush_bytes = o->flush_bytes ? o->flush_bytes : FLUSH_BYTES;
	s->dir = -1;
	overlay_init(&s->pending);
	overlay_init(&s->flushing);
	overlay_init(&s->durable);
	qset_init(&s->quarantined);
	return s;
}

static void store_free(struct store *s)
{
	overlay_release(&s->pending);
	overlay_release(&s->flushing);
	overlay_release(&s->durable);
	toc_free_all(s);
	clients_seen_free(s);
	while (s->lingers) {
		struct linger *l = s->lingers;

		s->lingers = l->next;
		segset_release(&l->pins);
		free(l);
	}
	qset_release(&s->quarantined);
	cache_free(s->cache);
	io_close(&s->dir);
	pthread_cond_destroy(&s->wake);
	pthread_cond_destroy(&s->done);
	pthread_mutex_destroy(&s->cut);
	pthread_mutex_destroy(&s->admin);
	secret_wipe(s->cut_seed, sizeof(s->cut_seed));
	free(s);
}

struct load {
	struct store *store;
	struct err *e;
};

static int load_quarantine(void *arg, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size)
{
	struct load *l = arg;
	uint64_t segment;
	uint32_t ordinal;

	(void)value;
	(void)value_size;
	if (key_quarantine_get(key, key_size, &segment, &ordinal, l->e) != 0)
		return -1;
	return qset_add(&l->store->quarantined, segment, ordinal, l->e);
}

static int load_facts(struct store *s, struct err *e)
{
	struct load l = { s, e };
	uint64_t verified;
	uint8_t *seed;
	size_t size;

	if (array_kv_get(s->array, KEY_SEED, strlen(KEY_SEED), &seed, &size,
	    e) != 0)
		return err_add(e, "there is no store on this array");
	if (size == SEED_SIZE)
		memcpy(s->cut_seed, seed, SEED_SIZE);
	secret_wipe(seed, size);
	free(seed);
	if (size != SEED_SIZE)
		return err_set(e, ERR_CORRUPT, "the store's seed is malformed");
	if (array_kv_each(s->array, "q/", 2, load_quarantine, &l) != 0)
		return -1;
	if (fact_number(s->array, KEY_VERIFIED, 0, &verified, e) != 0)
		return -1;
	s->last_verify_s = (int64_t)verified;
	return snapshots_next_order(s, &s->next_order, e);
}

static int dir_open(struct store *s, const char *dir, struct err *e)
{
	if (io_mkdirs(dir, 0700, e) != 0)
		return -1;
	s->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return s->dir >= 0 ? 0 : err_os(e, errno, "open %s", dir);
}

/* An open segment whose table cannot be read cannot be continued: nobody
 * knows the next ordinal.  Then new segments are begun for all. */
static int segments_continue(struct store *s, struct err *e)
{
	struct change c;
	struct err why;
	int rc;

	if (toc_load(s, &why) == 0)
		return committer_start(s, e);
	if (why.code == ERR_NO_MEMORY) {
		*e = why;
		return -1;
	}
	warn_add(s->warn, NULL, 0, "%s; the open segments are sealed",
	    why.text);
	toc_free_all(s);
	if (committer_start(s, e) != 0)
		return -1;
	change_init(&c);
	c.seal = true;
	rc = change_commit(s, &c, e);
	change_release(&c);
	return rc;
}

/* After a rebuild clients' caches have to ask again. */
static int tokens_renew(struct store *s, struct err *e)
{
	struct change c;
	int rc;

	change_init(&c);
	rc = domains_renew(s, &c, e);
	if (rc == 0 && c.count > 0)
		rc = change_commit(s, &c, e);
	change_release(&c);
	return rc;
}

static int open_all(struct store *s, const struct store_open *o,
    struct err *e)
{
	struct array_info info;
	bool rebuilt = false;

	if (load_facts(s, e) != 0 || dir_open(s, o->index_dir, e) != 0 ||
	    cache_new(&s->cache, e) != 0 ||
	    index_open(&s->index, o->index_dir, array_uuid(s->array), s->warn,
	    e) != 0 || index_bring_up(s, o, &rebuilt, e) != 0)
		return -1;
	if (s->read_only)
		return 0;
	array_info(s->array, &info);
	s->free_bytes = info.free_bytes;
	if (segments_continue(s, e) != 0)
		return -1;
	return rebuilt ? tokens_renew(s, e) : 0;
}

int store_open(struct store **out, const struct store_open *o,
    struct err *e)
{
	struct store *s = store_new(o);

	if (!s)
		return err_set(e, ERR_NO_MEMORY, "no memory for a store");
	if (open_all(s, o, e) != 0) {
		store_abandon(s);
		return -1;
	}
	*out = s;
	return 0;
}

/* ---- close -------------------------------------------------------------- */

static int seen_flush(struct store *s, struct err *e)
{
	struct change c;
	int rc;

	if (!s->seen || s->failed || !s->committer_on)
		return 0;
	change_init(&c);
	rc = clients_seen_put(s, &c, e);
	if (rc == 0 && c.count > 0)
		rc = change_commit(s, &c, e);
	change_release(&c);
	return rc;
}

int store_close(struct store *s, struct err *e)
{
	struct err late;
	int rc;

	if (!s)
		return 0;
	rc = seen_flush(s, e);
	if (committer_stop(s, true, rc == 0 ? e : &late) != 0)
		rc = -1;
	if (rc == 0)
		index_close(s->index);
	else
		index_abandon(s->index);
	store_free(s);
	return rc;
}

void store_abandon(struct store *s)
{
	struct err ignored;

	if (!s)
		return;
	/* Stopping without a flush cannot fail. */
	(void)!committer_stop(s, false, &ignored);
	index_abandon(s->index);
	store_free(s);
}

/* ---- questions ---------------------------------------------------------- */

int store_host_key(struct store *s, char **text, struct err *e)
{
	uint8_t *value;
	size_t size;
	char *copy;

	if (array_kv_get(s->array, KEY_HOSTKEY, strlen(KEY_HOSTKEY), &value,
	    &size, e) != 0)
		return err_add(e, "host key");
	copy = malloc(size + 1);
	if (copy) {
		memcpy(copy, value, size);
		copy[size] = '\0';
		*text = copy;
	}
	secret_wipe(value, size);
	free(value);
	return copy ? 0 :
	    err_set(e, ERR_NO_MEMORY, "no memory for the host key");
}

const uint8_t *store_cut_seed(const struct store *s)
{
	return s->cut_seed;
}

uint64_t store_index_estimate(uint64_t capacity)
{
	return capacity / INDEX_OBJECT_BYTES * INDEX_BYTES_PER_OBJECT;
}

static int count_client(void *arg, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size)
{
	(void)key;
	(void)key_size;
	(void)value;
	(void)value_size;
	++*(uint64_t *)arg;
	return 0;
}

void store_info(struct store *s, struct store_info *out)
{
	memset(out, 0, sizeof(*out));
	index_size(s->index, &out->objects, &out->index_bytes);
	(void)array_kv_each(s->array, "c/", 2, count_client, &out->clients);
	out->snapshots = snapshots_count(s, NULL);
	pthread_mutex_lock(&s->cut);
	out->overlay_entries = s->pending.count + s->flushing.count +
	    s->durable.count;
	out->quarantined = s->quarantined.count;
	out->last_verify_s = s->last_verify_s;
	for (struct store_session *ss = s->sessions; ss; ss = ss->next)
		out->sessions++;
	pthread_mutex_unlock(&s->cut);
}

bool store_failed(struct store *s, struct err *why)
{
	bool failed;

	pthread_mutex_lock(&s->cut);
	failed = s->failed;
	if (failed)
		*why = s->failure;
	pthread_mutex_unlock(&s->cut);
	return failed;
}

/* ---- the index anew ----------------------------------------------------- */

/* Sessions rely on the index: there may be none. */
static int rebuild_begin(struct store *s, struct err *e)
{
	int rc = 0;

	pthread_mutex_lock(&s->cut);
	if (s->sessions)
		rc = err_set(e, ERR_BUSY,
		    "the index cannot be built again while sessions run");
	else
		s->rebuilding = true;
	pthread_mutex_unlock(&s->cut);
	return rc;
}

static int rebuild_run(struct store *s, struct err *e)
{
	int rc = committer_stop(s, true, e);

	if (rc == 0)
		rc = rebuild_all(s, NULL, e);
	pthread_mutex_lock(&s->cut);
	s->generation++;
	s->stopping = false;
	if (rc != 0)
		store_fail(s, e);
	pthread_mutex_unlock(&s->cut);
	if (rc == 0 && !s->read_only)
		rc = committer_start(s, e);
	return rc != 0 || s->read_only ? rc : tokens_renew(s, e);
}

int store_rebuild_index(struct store *s, struct err *e)
{
	int rc;

	if (store_job_begin(s, "the rebuild", e) != 0)
		return -1;
	rc = rebuild_begin(s, e);
	if (rc == 0) {
		rc = rebuild_run(s, e);
		pthread_mutex_lock(&s->cut);
		s->rebuilding = false;
		pthread_mutex_unlock(&s->cut);
	}
	store_job_end(s);
	return rc;
}

/* ---- jobs --------------------------------------------------------------- */

int store_job_begin(struct store *s, const char *what, struct err *e)
{
	int none = 0;

	if (atomic_compare_exchange_strong(&s->job, &none, 1))
		return 0;
	return err_set(e, ERR_BUSY,
	    "%s has to wait: another job runs on the store", what);
}

void store_job_end(struct store *s)
{
	atomic_store(&s->job, 0);
}
