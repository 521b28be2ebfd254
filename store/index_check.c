/*
 * store/index_check.c - is the index file sound enough to be opened?
 *
 * LMDB has no checksums and walks its pages by pointers in the file.  Entries
 * therefore carry a checksum of their own; and before a file is used, a child
 * process opens it and walks all of it: what a damaged file does to LMDB (an
 * abort, a fault) it does to the child.  A file above CHECK_MAX is only walked
 * when it was not closed cleanly, to keep the start of a large server short.
 */
#include "store/index_impl.h"

#include "base/hash.h"
#include "base/le.h"
#include "base/warn.h"
#include "store/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK_MAX ((off_t)1 << 30)

MDB_val index_meta_key(void)
{
	static const char name[] = "meta";

	return (MDB_val){ sizeof(name) - 1, (void *)(uintptr_t)name };
}

/* In the child: every entry of `dbi`, its checksum too.  0 when all is well. */
static int walk_entries(MDB_txn *txn, MDB_dbi dbi)
{
	MDB_val k, v;
	MDB_cursor *c;
	struct key key;
	int rc;

	if (mdb_cursor_open(txn, dbi, &c) != 0)
		return 1;
	while ((rc = mdb_cursor_get(c, &k, &v, MDB_NEXT)) == 0) {
		struct entry *en;
		struct err bad;

		if (k.mv_size != KEY_SIZE)
			return 1;
		memcpy(key.bytes, k.mv_data, KEY_SIZE);
		if (entry_get(&en, &key, v.mv_data, v.mv_size, &bad) != 0)
			return 1;
		free(en);
	}
	return rc != MDB_NOTFOUND;
}

/* The list of free pages, which LMDB keeps as its table number 0. */
static int walk_free_list(MDB_txn *txn)
{
	uint32_t sum = 0;
	MDB_val k, v;
	MDB_cursor *c;
	int rc;

	if (mdb_cursor_open(txn, 0, &c) != 0)
		return 1;
	while ((rc = mdb_cursor_get(c, &k, &v, MDB_NEXT)) == 0)
		sum = crc32c(sum, v.mv_data, v.mv_size);  /* touch it */
	return rc != MDB_NOTFOUND;
}

static int walk(const char *dir, bool always)
{
	MDB_env *env;
	MDB_txn *txn;
	MDB_dbi dbi, info;
	MDB_val k = index_meta_key(), v;

	if (mdb_env_create(&env) != 0 || mdb_env_set_maxdbs(env, 4) != 0 ||
	    mdb_env_open(env, dir, ENV_FLAGS | MDB_RDONLY | MDB_NOLOCK,
	    0600) != 0 || mdb_txn_begin(env, NULL, MDB_RDONLY, &txn) != 0 ||
	    mdb_dbi_open(txn, "objects", 0, &dbi) != 0 ||
	    mdb_dbi_open(txn, "meta", 0, &info) != 0 ||
	    mdb_get(txn, info, &k, &v) != 0 || v.mv_size != META_SIZE)
		return 1;
	if (!always && le32_get((uint8_t *)v.mv_data + META_CLEAN) == 1)
		return 0;
	return walk_free_list(txn) != 0 || walk_entries(txn, dbi) != 0;
}

static bool file_sound(const char *dir, off_t size)
{
	int status, null;
	pid_t child = fork();

	if (child < 0)
		return false;
	if (child == 0) {
		struct rlimit none = { 0, 0 };

		(void)setrlimit(RLIMIT_CORE, &none);
		/* Whatever LMDB has to say of a bad file is not our user's. */
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		if (null >= 0)
			(void)dup2(null, STDERR_FILENO);
		_exit(walk(dir, size <= CHECK_MAX));
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int file_remove(const char *dir, const char *name, struct err *e)
{
	char path[PATH_MAX];
	int n = snprintf(path, sizeof(path), "%s/%s", dir, name);

	if (n < 0 || (size_t)n >= sizeof(path))
		return err_set(e, ERR_LIMIT, "index path %s is too long",
		    dir);
	if (unlink(path) != 0 && errno != ENOENT)
		return err_os(e, errno, "remove %s", path);
	return 0;
}

int index_discard(const char *dir, struct err *e)
{
	if (file_remove(dir, "data.mdb", e) != 0)
		return -1;
	return file_remove(dir, "lock.mdb", e);
}

int index_check(const char *dir, struct warn_sink *warn, struct err *e)
{
	char path[PATH_MAX];
	struct stat st;
	int n = snprintf(path, sizeof(path), "%s/data.mdb", dir);

	if (n < 0 || (size_t)n >= sizeof(path))
		return err_set(e, ERR_LIMIT, "index path %s is too long",
		    dir);
	if (stat(path, &st) != 0 || (st.st_size > 0 &&
	    file_sound(dir, st.st_size)))
		return 0;
	warn_add(warn, NULL, 0,
	    "the index %s is damaged; it is built again", path);
	return index_discard(dir, e);
}
