/*
 * client/restore.h - a snapshot, or a part of it, back into the file system.
 *
 * What ends up under a final name is whole and right; what could not be had is
 * absent and named.  See restore.c.
 *
 * Threads: the main thread.
 */
#ifndef CLIENT_RESTORE_H
#define CLIENT_RESTORE_H

#include "base/err.h"
#include "base/opt.h"
#include "client/fetch.h"
#include "proto/fmt_tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct client;

enum overwrite {
	OVERWRITE_NEVER,	/* equal: kept and repaired; else named */
	OVERWRITE_CHANGED,	/* rewrite what differs */
	OVERWRITE_OLDER,	/* replace what is older than the snapshot's */
	OVERWRITE_ALWAYS,
};

struct restore_options {
	const char *to;			/* directory */
	const struct opt_list *includes, *excludes;
	enum overwrite overwrite;
	bool delete, dry_run, numeric_ids;
};

struct restore_result {
	uint64_t files, bytes;	/* written or linked; bytes written */
	uint64_t kept;		/* equal ones, and those not older */
	uint64_t differ;	/* refused: something else is there */
	uint64_t lost;		/* could not be had from the server */
	uint64_t failed;	/* could not be written here */
	uint64_t deleted;
	uint64_t owners, attributes;	/* could not be set: not permitted */
};

/*
 * Restore `entry` (found at `path` in the snapshot; a directory's children go
 * into the target, anything else goes there under its own name).  -1 when the
 * connection or the target as a whole fails; single items that fail are
 * counted and told to the client's sink.
 */
MUST_CHECK int restore_run(struct client *c, struct fetch *f,
    const struct tree_entry *entry, const char *path,
    const struct restore_options *o, struct restore_result *result,
    struct err *e);

#endif
