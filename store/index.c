/*
 * store/index.c - LMDB, and the little we ask of it.
 *
 * THE PROMISE
 *
 *   Each transaction is synced before index_write() returns; so what a later
 *   step relies on (a segment freed because no entry names it any more) is on
 *   the disk.  Nothing in here is trusted further than its position: store.c
 *   compares that with the array's history and rebuilds on any doubt.
 *
 *   A damaged file is found before it is used (index_check.c).
 *
 * MAP SIZE
 *
 *   Doubled on MDB_MAP_FULL, under the write side of `map`, which all
 *   transactions hold for reading.
 */
#include "store/index.h"
#include "store/index_impl.h"

#include "base/io.h"
#include "base/le.h"
#include "base/warn.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <lmdb.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SCHEMA 1u
#define MAP_MIN ((size_t)64 << 20)
#define READERS_MAX 512

struct index {
	pthread_rwlock_t map;	/* guards: the size of the map */
	pthread_mutex_t meta_lock;	/* guards: meta */
	uint8_t meta[META_SIZE];
	bool held;
	MDB_env *env;
	MDB_dbi objects, info;
	atomic_bool suspect;
	char dir[PATH_MAX];
};

static int lmdb_err(struct err *e, const struct index *ix, int rc,
    const char *what)
{
	enum err_code code = ERR_IO;

	if (rc == ENOSPC || rc == MDB_MAP_FULL)
		code = ERR_NO_SPACE;
	else if (rc == ENOMEM)
		code = ERR_NO_MEMORY;
	else if (rc == MDB_CORRUPTED || rc == MDB_PAGE_NOTFOUND ||
	    rc == MDB_INVALID || rc == MDB_PANIC)
		code = ERR_CORRUPT;
	err_set(e, code, "%s the index %s: %s", what, ix->dir,
	    mdb_strerror(rc));
	e->os = rc > 0 ? rc : 0;
	return -1;
}

/* ---- open and close ----------------------------------------------------- */

static int meta_store(struct index *ix, MDB_txn *txn)
{
	uint8_t raw[META_SIZE];
	MDB_val k = index_meta_key(), v = { META_SIZE, raw };

	memcpy(raw, ix->meta, META_SIZE);
	if (ix->held)
		le32_put(raw + META_HAS, 0);
	return mdb_put(txn, ix->info, &k, &v, 0);
}

/* Open the two tables and read the meta record (zeroes if there is none). */
static int tables_open(struct index *ix, struct err *e)
{
	MDB_val k = index_meta_key(), v;
	MDB_txn *txn;
	int rc = mdb_txn_begin(ix->env, NULL, 0, &txn);

	if (rc != 0)
		return lmdb_err(e, ix, rc, "begin in");
	rc = mdb_dbi_open(txn, "objects", MDB_CREATE, &ix->objects);
	if (rc == 0)
		rc = mdb_dbi_open(txn, "meta", MDB_CREATE, &ix->info);
	if (rc == 0) {
		rc = mdb_get(txn, ix->info, &k, &v);
		if (rc == 0 && v.mv_size == META_SIZE)
			memcpy(ix->meta, v.mv_data, META_SIZE);
		else if (rc == MDB_NOTFOUND)
			rc = 0;
		le32_put(ix->meta + META_CLEAN, 0);
	}
	if (rc == 0)
		rc = meta_store(ix, txn);
	if (rc != 0) {
		mdb_txn_abort(txn);
		return lmdb_err(e, ix, rc, "open");
	}
	rc = mdb_txn_commit(txn);
	return rc == 0 ? 0 : lmdb_err(e, ix, rc, "open");
}

static int env_open(struct index *ix, struct err *e)
{
	char path[PATH_MAX + 16];
	struct stat st;
	size_t map = MAP_MIN;
	int rc = mdb_env_create(&ix->env);

	snprintf(path, sizeof(path), "%s/data.mdb", ix->dir);
	if (stat(path, &st) == 0)
		while (map < (size_t)st.st_size * 2)
			map *= 2;
	if (rc == 0)
		rc = mdb_env_set_maxdbs(ix->env, 4);
	if (rc == 0)
		rc = mdb_env_set_maxreaders(ix->env, READERS_MAX);
	if (rc == 0)
		rc = mdb_env_set_mapsize(ix->env, map);
	if (rc == 0)
		rc = mdb_env_open(ix->env, ix->dir, ENV_FLAGS, 0600);
	if (rc == 0)
		return tables_open(ix, e);
	mdb_env_close(ix->env);
	ix->env = NULL;
	return lmdb_err(e, ix, rc, "open");
}

static void env_close(struct index *ix)
{
	if (ix->env)
		mdb_env_close(ix->env);
	ix->env = NULL;
}

/* True if the meta record is ours. */
static bool meta_ours(const struct index *ix, const uint8_t *uuid)
{
	return le32_get(ix->meta + META_SCHEMA) == SCHEMA &&
	    memcmp(ix->meta + META_UUID, uuid, RAID_UUID_SIZE) == 0;
}

static void meta_fresh(struct index *ix, const uint8_t *uuid)
{
	memset(ix->meta, 0, META_SIZE);
	le32_put(ix->meta + META_SCHEMA, SCHEMA);
	memcpy(ix->meta + META_UUID, uuid, RAID_UUID_SIZE);
}

static int open_checked(struct index *ix, const uint8_t *uuid,
    struct warn_sink *warn, struct err *e)
{
	static const uint8_t none[META_SIZE];

	if (index_check(ix->dir, warn, e) != 0)
		return -1;
	if (env_open(ix, e) == 0 && meta_ours(ix, uuid))
		return 0;
	/* Damaged in a way the walk did not meet, or of another store. */
	if (ix->env && memcmp(ix->meta, none, META_SIZE) != 0)
		warn_add(warn, NULL, 0,
		    "the index in %s is not of this store; it is built again",
		    ix->dir);
	env_close(ix);
	if (index_discard(ix->dir, e) != 0 || env_open(ix, e) != 0)
		return -1;
	meta_fresh(ix, uuid);
	return index_write(ix, NULL, 0, NULL, e);
}

int index_open(struct index **out, const char *dir,
    const uint8_t array_uuid[static RAID_UUID_SIZE], struct warn_sink *warn,
    struct err *e)
{
	struct index *ix = calloc(1, sizeof(*ix));
	int n;

	if (!ix)
		return err_set(e, ERR_NO_MEMORY, "no memory for the index");
	pthread_rwlock_init(&ix->map, NULL);
	pthread_mutex_init(&ix->meta_lock, NULL);
	n = snprintf(ix->dir, sizeof(ix->dir), "%s", dir);
	if (n < 0 || (size_t)n >= sizeof(ix->dir)) {
		err_set(e, ERR_LIMIT, "index path %s is too long", dir);
	} else if (io_mkdirs(dir, 0700, e) == 0 &&
	    open_checked(ix, array_uuid, warn, e) == 0) {
		*out = ix;
		return 0;
	}
	index_abandon(ix);
	return -1;
}

void index_abandon(struct index *ix)
{
	if (!ix)
		return;
	env_close(ix);
	pthread_mutex_destroy(&ix->meta_lock);
	pthread_rwlock_destroy(&ix->map);
	free(ix);
}

void index_close(struct index *ix)
{
	struct err ignored;

	if (!ix)
		return;
	le32_put(ix->meta + META_CLEAN, !atomic_load(&ix->suspect));
	/* If it fails, the next open walks the file. */
	if (index_write(ix, NULL, 0, NULL, &ignored) != 0)
		atomic_store(&ix->suspect, true);
	index_abandon(ix);
}

bool index_position(struct index *ix, struct array_position *p)
{
	bool has;

	pthread_mutex_lock(&ix->meta_lock);
	has = le32_get(ix->meta + META_HAS) == 1;
	memcpy(p->run, ix->meta + META_RUN, sizeof(p->run));
	p->flush = le64_get(ix->meta + META_FLUSH);
	pthread_mutex_unlock(&ix->meta_lock);
	return has;
}

uint64_t index_order(struct index *ix)
{
	uint64_t order;

	pthread_mutex_lock(&ix->meta_lock);
	order = le64_get(ix->meta + META_ORDER);
	pthread_mutex_unlock(&ix->meta_lock);
	return order;
}

bool index_suspect(struct index *ix)
{
	return atomic_load(&ix->suspect);
}

/* ---- reading ------------------------------------------------------------ */

static int read_begin(struct index *ix, MDB_txn **txn, struct err *e)
{
	int rc;

	pthread_rwlock_rdlock(&ix->map);
	rc = mdb_txn_begin(ix->env, NULL, MDB_RDONLY, txn);
	if (rc == 0)
		return 0;
	pthread_rwlock_unlock(&ix->map);
	return lmdb_err(e, ix, rc, "read");
}

static void read_end(struct index *ix, MDB_txn *txn)
{
	mdb_txn_abort(txn);
	pthread_rwlock_unlock(&ix->map);
}

/* A damaged value is an absent one; only lack of memory fails. */
static int value_get(struct index *ix, struct entry **out,
    const struct key *key, const MDB_val *v, struct err *e)
{
	struct err why;

	*out = NULL;
	if (entry_get(out, key, v->mv_data, v->mv_size, &why) == 0)
		return 0;
	if (why.code == ERR_NO_MEMORY) {
		*e = why;
		return -1;
	}
	atomic_store(&ix->suspect, true);
	return 0;
}

static int get_one(struct index *ix, MDB_txn *txn, const struct key *key,
    struct entry **out, struct err *e)
{
	MDB_val k = { KEY_SIZE, (void *)(uintptr_t)key->bytes }, v;
	int rc = mdb_get(txn, ix->objects, &k, &v);

	*out = NULL;
	if (rc == MDB_NOTFOUND)
		return 0;
	if (rc != 0)
		return lmdb_err(e, ix, rc, "read");
	return value_get(ix, out, key, &v, e);
}

int index_read(struct index *ix, const struct key *keys,
    struct entry **entries, size_t count, struct err *e)
{
	MDB_txn *txn;
	size_t n = 0;
	int rc = 0;

	if (read_begin(ix, &txn, e) != 0)
		return -1;
	while (n < count && rc == 0) {
		rc = get_one(ix, txn, &keys[n], &entries[n], e);
		n += rc == 0;
	}
	read_end(ix, txn);
	while (rc != 0 && n > 0)
		free(entries[--n]);
	return rc;
}

int index_read_one(struct index *ix, const struct key *key,
    struct entry **out, struct err *e)
{
	return index_read(ix, key, out, 1, e);
}

/* From the cursor on, which stands at `op`. */
static int scan_from(struct index *ix, MDB_cursor *c, MDB_val k,
    MDB_cursor_op op, struct key *keys, struct entry **entries, size_t max,
    size_t *count, struct err *e)
{
	MDB_val v;
	int rc;

	while (*count < max && (rc = mdb_cursor_get(c, &k, &v, op)) !=
	    MDB_NOTFOUND) {
		op = MDB_NEXT;
		if (rc != 0)
			return lmdb_err(e, ix, rc, "read");
		if (k.mv_size != KEY_SIZE)
			continue;
		memcpy(keys[*count].bytes, k.mv_data, KEY_SIZE);
		if (value_get(ix, &entries[*count], &keys[*count], &v,
		    e) != 0)
			return -1;
		*count += entries[*count] != NULL;
	}
	return 0;
}

int index_scan(struct index *ix, const struct key *after, struct key *keys,
    struct entry **entries, size_t max, size_t *count, struct err *e)
{
	struct key from;
	MDB_cursor *c;
	MDB_txn *txn;
	MDB_val k = { 0, NULL };
	int rc = -1;

	*count = 0;
	if (after) {		/* the next possible key */
		from = *after;
		for (size_t i = KEY_SIZE; i > 0 && ++from.bytes[i - 1] == 0;)
			i--;
		k = (MDB_val){ KEY_SIZE, from.bytes };
	}
	if (read_begin(ix, &txn, e) != 0)
		return -1;
	if (mdb_cursor_open(txn, ix->objects, &c) != 0) {
		err_set(e, ERR_NO_MEMORY, "no memory for a cursor");
	} else {
		rc = scan_from(ix, c, k, after ? MDB_SET_RANGE : MDB_FIRST,
		    keys, entries, max, count, e);
		mdb_cursor_close(c);
	}
	read_end(ix, txn);
	while (rc != 0 && *count > 0)
		free(entries[--*count]);
	return rc;
}

/* ---- writing ------------------------------------------------------------ */

static int put_one(MDB_txn *txn, MDB_dbi dbi, const struct index_op *op,
    unsigned flags)
{
	MDB_val k = { KEY_SIZE, (void *)(uintptr_t)op->key.bytes }, v;
	int rc;

	if (!op->entry) {
		rc = mdb_del(txn, dbi, &k, NULL);
		return rc == MDB_NOTFOUND ? 0 : rc;
	}
	v = (MDB_val){ ENTRY_BYTES(op->entry->owner_count), NULL };
	rc = mdb_put(txn, dbi, &k, &v, flags | MDB_RESERVE);
	if (rc == 0)
		entry_put(v.mv_data, &op->key, op->entry);
	return rc;
}

/* One try of a transaction; the LMDB code. */
static int write_once(struct index *ix, const struct index_op *ops,
    size_t count, unsigned flags)
{
	MDB_txn *txn;
	int rc;

	pthread_rwlock_rdlock(&ix->map);
	rc = mdb_txn_begin(ix->env, NULL, 0, &txn);
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = put_one(txn, ix->objects, &ops[i], flags);
	if (rc == 0)
		rc = meta_store(ix, txn);
	if (rc == 0)
		rc = mdb_txn_commit(txn);
	else
		mdb_txn_abort(txn);
	pthread_rwlock_unlock(&ix->map);
	return rc;
}

static int map_grow(struct index *ix)
{
	MDB_envinfo info;
	int rc;

	pthread_rwlock_wrlock(&ix->map);
	rc = mdb_env_info(ix->env, &info);
	if (rc == 0)
		rc = mdb_env_set_mapsize(ix->env, info.me_mapsize * 2);
	pthread_rwlock_unlock(&ix->map);
	return rc;
}

static int write_all(struct index *ix, const struct index_op *ops,
    size_t count, unsigned flags, struct err *e)
{
	int rc = write_once(ix, ops, count, flags);

	while (rc == MDB_MAP_FULL || rc == MDB_MAP_RESIZED) {
		rc = map_grow(ix);
		if (rc == 0)
			rc = write_once(ix, ops, count, flags);
	}
	return rc == 0 ? 0 : lmdb_err(e, ix, rc, "write");
}

static void meta_mark(struct index *ix, const struct index_mark *mark)
{
	le32_put(ix->meta + META_HAS, 1);
	memcpy(ix->meta + META_RUN, mark->position.run,
	    sizeof(mark->position.run));
	le64_put(ix->meta + META_FLUSH, mark->position.flush);
	le64_put(ix->meta + META_ORDER, mark->order);
}

int index_write(struct index *ix, const struct index_op *ops, size_t count,
    const struct index_mark *mark, struct err *e)
{
	uint8_t old[META_SIZE];
	int rc;

	pthread_mutex_lock(&ix->meta_lock);
	memcpy(old, ix->meta, META_SIZE);
	if (mark)
		meta_mark(ix, mark);
	rc = write_all(ix, ops, count, 0, e);
	if (rc != 0)
		memcpy(ix->meta, old, META_SIZE);
	pthread_mutex_unlock(&ix->meta_lock);
	return rc;
}

int index_append(struct index *ix, const struct index_op *ops, size_t count,
    struct err *e)
{
	int rc;

	pthread_mutex_lock(&ix->meta_lock);
	(void)mdb_env_set_flags(ix->env, MDB_NOSYNC, 1);
	rc = write_all(ix, ops, count, MDB_APPEND, e);
	(void)mdb_env_set_flags(ix->env, MDB_NOSYNC, 0);
	pthread_mutex_unlock(&ix->meta_lock);
	return rc;
}

int index_hold(struct index *ix, struct err *e)
{
	pthread_mutex_lock(&ix->meta_lock);
	ix->held = true;
	pthread_mutex_unlock(&ix->meta_lock);
	return index_write(ix, NULL, 0, NULL, e);
}

int index_release(struct index *ix, struct err *e)
{
	pthread_mutex_lock(&ix->meta_lock);
	ix->held = false;
	pthread_mutex_unlock(&ix->meta_lock);
	return index_write(ix, NULL, 0, NULL, e);
}

/* ---- revising ----------------------------------------------------------- */

#define REVISE_BATCH 4096u

struct batch {
	struct index_op ops[REVISE_BATCH];
	struct entry *entries[REVISE_BATCH];	/* of the ops, owned */
	size_t count, seen;
	struct key last;
	bool ended;
	struct err err;
};

static void batch_empty(struct batch *b)
{
	while (b->count > 0)
		free(b->entries[--b->count]);
	b->seen = 0;
	b->ended = false;
}

/* One entry under the cursor. */
static int batch_judge(struct index *ix, struct index_revision *r,
    struct batch *b, const MDB_val *k, const MDB_val *v)
{
	struct entry *en, *out = NULL;
	enum index_verdict verdict;

	memcpy(b->last.bytes, k->mv_data, KEY_SIZE);
	b->seen++;
	if (value_get(ix, &en, &b->last, v, &b->err) != 0)
		return ENOMEM;
	if (!en)
		return 0;
	verdict = r->judge(r->arg, &b->last, en, &out);
	free(en);
	if (verdict == INDEX_KEEP)
		return 0;
	if (verdict == INDEX_REPLACE && !out)
		return ENOMEM;
	b->ops[b->count] = (struct index_op){ b->last, out };
	b->entries[b->count++] = out;
	return 0;
}

static int batch_fill(struct index *ix, MDB_txn *txn,
    struct index_revision *r, struct batch *b)
{
	MDB_cursor_op op = r->begun ? MDB_SET_RANGE : MDB_FIRST;
	struct key from = r->after;
	MDB_val k = { KEY_SIZE, from.bytes }, v;
	MDB_cursor *c;
	int rc = mdb_cursor_open(txn, ix->objects, &c);

	if (rc != 0)
		return rc;
	for (size_t i = KEY_SIZE; i > 0 && ++from.bytes[i - 1] == 0;)
		i--;
	while (b->seen < REVISE_BATCH &&
	    (rc = mdb_cursor_get(c, &k, &v, op)) == 0) {
		op = MDB_NEXT;
		if (k.mv_size == KEY_SIZE)
			rc = batch_judge(ix, r, b, &k, &v);
		if (rc != 0)
			break;
	}
	mdb_cursor_close(c);
	b->ended = rc == MDB_NOTFOUND;
	return rc == MDB_NOTFOUND ? 0 : rc;
}

static int revise_once(struct index *ix, struct index_revision *r,
    struct batch *b)
{
	MDB_txn *txn;
	int rc;

	batch_empty(b);
	pthread_rwlock_rdlock(&ix->map);
	rc = mdb_txn_begin(ix->env, NULL, 0, &txn);
	if (rc == 0) {
		rc = batch_fill(ix, txn, r, b);
		for (size_t i = 0; i < b->count && rc == 0; i++)
			rc = put_one(txn, ix->objects, &b->ops[i], 0);
		if (rc == 0)
			rc = mdb_txn_commit(txn);
		else
			mdb_txn_abort(txn);
	}
	pthread_rwlock_unlock(&ix->map);
	return rc;
}

static void batch_count(struct index_revision *r, const struct batch *b)
{
	for (size_t i = 0; i < b->count; i++) {
		r->deleted += b->entries[i] == NULL;
		r->replaced += b->entries[i] != NULL;
	}
	r->kept += b->seen - b->count;
	if (b->seen > 0) {
		r->after = b->last;
		r->begun = true;
	}
	r->ended = b->ended;
}

int index_revise(struct index *ix, struct index_revision *r, struct err *e)
{
	struct batch *b = calloc(1, sizeof(*b));
	int rc;

	if (!b)
		return err_set(e, ERR_NO_MEMORY, "no memory for the index");
	pthread_mutex_lock(&ix->meta_lock);
	(void)mdb_env_set_flags(ix->env, MDB_NOSYNC, 1);
	rc = revise_once(ix, r, b);
	while (rc == MDB_MAP_FULL && map_grow(ix) == 0)
		rc = revise_once(ix, r, b);
	(void)mdb_env_set_flags(ix->env, MDB_NOSYNC, 0);
	pthread_mutex_unlock(&ix->meta_lock);
	if (rc == 0)
		batch_count(r, b);
	batch_empty(b);
	free(b);
	return rc == 0 ? 0 : lmdb_err(e, ix, rc, "revise");
}

static int reset_once(struct index *ix)
{
	MDB_txn *txn;
	int rc;

	pthread_rwlock_rdlock(&ix->map);
	rc = mdb_txn_begin(ix->env, NULL, 0, &txn);
	if (rc == 0)
		rc = mdb_drop(txn, ix->objects, 0);
	if (rc == 0)
		rc = meta_store(ix, txn);
	if (rc == 0)
		rc = mdb_txn_commit(txn);
	pthread_rwlock_unlock(&ix->map);
	return rc;
}

int index_reset(struct index *ix, struct err *e)
{
	int rc;

	pthread_mutex_lock(&ix->meta_lock);
	le32_put(ix->meta + META_HAS, 0);
	le64_put(ix->meta + META_ORDER, 0);
	ix->held = false;
	rc = reset_once(ix);
	if (rc == MDB_MAP_FULL && map_grow(ix) == 0)
		rc = reset_once(ix);
	if (rc == 0)
		atomic_store(&ix->suspect, false);
	pthread_mutex_unlock(&ix->meta_lock);
	return rc == 0 ? 0 : lmdb_err(e, ix, rc, "empty");
}

void index_size(struct index *ix, uint64_t *entries, uint64_t *bytes)
{
	MDB_envinfo info;
	MDB_stat stat, env;
	MDB_txn *txn;
	struct err ignored;

	*entries = *bytes = 0;
	if (read_begin(ix, &txn, &ignored) != 0)
		return;
	if (mdb_stat(txn, ix->objects, &stat) == 0)
		*entries = stat.ms_entries;
	if (mdb_env_info(ix->env, &info) == 0 &&
	    mdb_env_stat(ix->env, &env) == 0)
		*bytes = ((uint64_t)info.me_last_pgno + 1) * env.ms_psize;
	read_end(ix, txn);
}
