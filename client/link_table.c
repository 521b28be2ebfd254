/* client/link_table.c - a hash table that moves into LMDB when it is large */
#include "client/link_table.h"

#include <errno.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SLOTS 16384
#define MAP_SIZE ((size_t)16 << 30)	/* address space, not memory */

struct row {
	struct row *next;
	uint64_t group;
	size_t size;
	uint8_t path[];
};

struct link_table {
	struct row *slots[SLOTS];
	size_t bytes;
	char *dir;		/* owned */
	MDB_env *env;		/* NULL while all is in memory */
	MDB_dbi dbi;
};

static int lmdb_fail(struct err *e, int rc)
{
	return err_set(e, ERR_IO, "table of link groups: %s",
	    mdb_strerror(rc));
}

int link_table_new(struct link_table **out, const char *dir, struct err *e)
{
	struct link_table *t = calloc(1, sizeof(*t));

	if (t)
		t->dir = strdup(dir);
	if (!t || !t->dir) {
		free(t);
		return err_set(e, ERR_NO_MEMORY, "no memory for links");
	}
	*out = t;
	return 0;
}

static void rows_free(struct link_table *t)
{
	for (size_t i = 0; i < SLOTS; i++) {
		while (t->slots[i]) {
			struct row *row = t->slots[i];

			t->slots[i] = row->next;
			free(row);
		}
	}
	t->bytes = 0;
}

void link_table_free(struct link_table *t)
{
	if (!t)
		return;
	rows_free(t);
	if (t->env)
		mdb_env_close(t->env);
	free(t->dir);
	free(t);
}

static int env_open(struct link_table *t, const char *path, struct err *e)
{
	MDB_env *env;
	MDB_txn *txn;
	int rc = mdb_env_create(&env);

	if (rc != 0)
		return lmdb_fail(e, rc);
	mdb_env_set_mapsize(env, MAP_SIZE);
	rc = mdb_env_open(env, path, MDB_NOSYNC | MDB_NOLOCK | MDB_NOSUBDIR,
	    0600);
	(void)unlink(path);
	if (rc == 0)
		rc = mdb_txn_begin(env, NULL, 0, &txn);
	if (rc == 0) {
		rc = mdb_dbi_open(txn, NULL, MDB_INTEGERKEY, &t->dbi);
		if (rc == 0)
			rc = mdb_txn_commit(txn);
		else
			mdb_txn_abort(txn);
	}
	if (rc != 0) {
		mdb_env_close(env);
		return lmdb_fail(e, rc);
	}
	t->env = env;
	return 0;
}

static int put_row(struct link_table *t, MDB_txn *txn, const struct row *row)
{
	size_t group = (size_t)row->group;
	MDB_val key = { sizeof(group), &group };
	MDB_val value = { row->size, (void *)(uintptr_t)row->path };

	return mdb_put(txn, t->dbi, &key, &value, 0);
}

/* All rows from memory into the database. */
static int spill(struct link_table *t, struct err *e)
{
	char path[4096];
	MDB_txn *txn;
	int rc, fd;

	if (!t->env) {
		if (snprintf(path, sizeof(path), "%s/bk-links-XXXXXX",
		    t->dir) >= (int)sizeof(path))
			return err_set(e, ERR_LIMIT, "%.200s: too long",
			    t->dir);
		fd = mkstemp(path);
		if (fd < 0)
			return err_os(e, errno, "create %.200s", path);
		close(fd);
		if (env_open(t, path, e) != 0)
			return -1;
	}
	rc = mdb_txn_begin(t->env, NULL, 0, &txn);
	if (rc != 0)
		return lmdb_fail(e, rc);
	for (size_t i = 0; rc == 0 && i < SLOTS; i++)
		for (struct row *row = t->slots[i]; rc == 0 && row;
		    row = row->next)
			rc = put_row(t, txn, row);
	if (rc == 0)
		rc = mdb_txn_commit(txn);
	else
		mdb_txn_abort(txn);
	if (rc != 0)
		return lmdb_fail(e, rc);
	rows_free(t);
	return 0;
}

static struct row **slot_of(struct link_table *t, uint64_t group)
{
	struct row **at = &t->slots[group % SLOTS];

	while (*at && (*at)->group != group)
		at = &(*at)->next;
	return at;
}

int link_table_put(struct link_table *t, uint64_t group, const void *path,
    size_t size, struct err *e)
{
	struct row **at = slot_of(t, group), *row;

	row = malloc(sizeof(*row) + size);
	if (!row)
		return err_set(e, ERR_NO_MEMORY, "no memory for links");
	row->group = group;
	row->size = size;
	memcpy(row->path, path, size);
	row->next = *at ? (*at)->next : NULL;
	t->bytes += sizeof(*row) + size;
	if (*at) {
		t->bytes -= sizeof(*row) + (*at)->size;
		free(*at);
	}
	*at = row;
	return t->bytes > LINK_TABLE_MEMORY ? spill(t, e) : 0;
}

static int get_spilled(struct link_table *t, uint64_t group, struct buf *out,
    struct err *e)
{
	size_t number = (size_t)group;
	MDB_val key = { sizeof(number), &number }, value;
	MDB_txn *txn;
	int rc = mdb_txn_begin(t->env, NULL, MDB_RDONLY, &txn);

	if (rc != 0)
		return lmdb_fail(e, rc);
	rc = mdb_get(txn, t->dbi, &key, &value);
	if (rc == 0)
		buf_add(out, value.mv_data, value.mv_size);
	mdb_txn_abort(txn);
	if (rc == MDB_NOTFOUND)
		return 0;
	if (rc != 0)
		return lmdb_fail(e, rc);
	return buf_ok(out, "a path", e) == 0 ? 1 : -1;
}

int link_table_get(struct link_table *t, uint64_t group, struct buf *out,
    struct err *e)
{
	const struct row *row = *slot_of(t, group);

	buf_reset(out);
	if (row) {
		buf_add(out, row->path, row->size);
		return buf_ok(out, "a path", e) == 0 ? 1 : -1;
	}
	return t->env ? get_spilled(t, group, out, e) : 0;
}
