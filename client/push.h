/*
 * client/push.h - one push: from the paths to a committed snapshot.
 *
 * Threads: push_run() is called by the main thread and starts its own.
 */
#ifndef CLIENT_PUSH_H
#define CLIENT_PUSH_H

#include "base/codec.h"
#include "base/err.h"
#include "base/opt.h"
#include "proto/fmt_snapshot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct client;

struct push_options {
	char **paths;
	size_t path_count;
	const struct opt_list *excludes;	/* patterns */
	/* from the configuration: not told when they match nothing */
	const struct opt_list *quiet_excludes;
	const struct opt_list *exclude_files;
	const struct opt_list *tags;
	bool exclude_caches, one_file_system, force_read, dry_run;
	enum codec codec;
	int level;		/* of zstd */
};

struct push_result {
	struct snapshot_record record;	/* of a push that was no dry run */
	uint64_t files, dirs, bytes;	/* in the snapshot */
	uint64_t read_files, read_bytes;
	uint64_t new_bytes;		/* plain bytes of objects sent */
	uint64_t sent_bytes;		/* that crossed the transport */
	uint64_t vanished, unreadable, changed, excluded;
	unsigned passes;
};

/* On failure there is no snapshot.  Imperfect items go to the client's sink. */
MUST_CHECK int push_run(struct client *c, const struct push_options *o,
    struct push_result *result, struct err *e);

#endif
