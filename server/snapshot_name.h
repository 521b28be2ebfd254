/* server/snapshot_name.h - a snapshot by what a person calls it. */
#ifndef SERVER_SNAPSHOT_NAME_H
#define SERVER_SNAPSHOT_NAME_H

#include "base/err.h"
#include "proto/fmt_snapshot.h"

struct store;

/*
 * `name` is an id, a unique prefix of at least 6 hex digits, or "latest" (the
 * newest by commit order).  ERR_NOT_FOUND, ERR_USAGE (too short, ambiguous).
 */
MUST_CHECK int snapshot_by_name(struct store *s, const char *client,
    const char *name, struct snapshot_record *out, struct err *e);

#endif
