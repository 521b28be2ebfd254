/*
 * client/cache.h - what the last pushes knew about each inode: a hint.
 *
 * A file of self-checked records, (device, inode) -> what the file looked like
 * and where its content is.  See cache.c for why a lie in it can do no harm.
 *
 *      cache_open --> cache_find ... cache_stage ... -->
 *          cache_commit (only after the server said COMMITTED) --> cache_close
 *
 * Without a cache (the directory cannot be written, another push holds it)
 * everything is read: cache_open() then gives a cache that finds nothing.
 *
 * Files: <dir>/<store uuid>-<domain>/inodes, mode 0600, and "unfinished" while
 *        a push runs.
 * Threads: cache_find() from one thread, cache_stage() from another.
 */
#ifndef CLIENT_CACHE_H
#define CLIENT_CACHE_H

#include "base/err.h"
#include "client/attr.h"
#include "proto/fmt_tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache;

struct cache_record {
	uint64_t dev, ino, size;
	int64_t mtime_s, ctime_s;
	uint32_t mtime_ns, ctime_ns;
	int64_t read_ns;	/* real time when that read began */
	enum content_kind content;
	struct id id;		/* of the content */
	uint32_t flags, project;	/* inode flags, see client/attr.h */
	bool xattrs;		/* it had extended attributes */
};

/* `store` and `domain`: what the content ids are valid for. */
MUST_CHECK int cache_open(struct cache **out, const char *dir,
    const uint8_t store[static 16], const uint8_t domain[static 16],
    struct err *e);
void cache_close(struct cache *c);
/* False if there is nothing, or nothing sound. */
bool cache_find(struct cache *c, uint64_t dev, uint64_t ino,
    struct cache_record *out);
/*
 * The unchanged rule (docs/client.md): true if the file that looks like `a`
 * now still has the content that `r` names.
 */
bool cache_unchanged(const struct cache_record *r, const struct attr *a);
/* Remember for cache_commit(); trouble only means less speed next time. */
void cache_stage(struct cache *c, const struct cache_record *r);
/* Forget what was staged. */
void cache_restart(struct cache *c);
/* Write what was staged.  Failure is not the push's failure. */
MUST_CHECK int cache_commit(struct cache *c, struct err *e);
/* True if an earlier push began and did not end with a commit. */
bool cache_unfinished(const struct cache *c);
/* Note that frames are about to be sent. */
void cache_begin(struct cache *c);
/* A directory for spill files; stays open as long as the cache. */
int cache_dir_fd(const struct cache *c);

#endif
