/*
 * client/verify.h - a snapshot against live files, without fetching content.
 *
 * Live files are cut where the snapshot's lists say and their ids compared, so
 * that only pages cross the wire.
 *
 * Threads: the main thread.
 */
#ifndef CLIENT_VERIFY_H
#define CLIENT_VERIFY_H

#include "base/err.h"
#include "base/opt.h"
#include "client/fetch.h"
#include "proto/fmt_tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct client;

struct verify_options {
	const char *live;	/* the directory that stands for the entry, or
				 * holds it when it is no directory */
	/* of a restore: content, types, sizes, links and times alone; what
	 * else is there is fine */
	bool to;
	const struct opt_list *excludes, *includes;	/* or NULL */
	const struct opt_list *more_excludes;		/* or NULL */
};

struct verify_result {
	uint64_t equal, differ, missing, extra, lost;
};

/* Differences are printed, one a line.  -1 when the connection fails or the
 * live directory cannot be opened. */
MUST_CHECK int verify_run(struct client *c, struct fetch *f,
    const struct tree_entry *entry, const char *path,
    const struct verify_options *o, struct verify_result *result,
    struct err *e);

#endif
