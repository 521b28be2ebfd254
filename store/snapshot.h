/*
 * store/snapshot.h - what the other files of the store ask of snapshots.
 */
#ifndef STORE_SNAPSHOT_H
#define STORE_SNAPSHOT_H

#include "base/err.h"
#include "store/store.h"

#include <stdint.h>

struct change;

/* A snapshot and whose it is. */
struct snapshot_item {
	char client[CLIENT_NAME_MAX + 1];
	struct snapshot_record record;
};

/* All snapshots of a client (NULL: of all), by client and commit order;
 * malloc'd. */
MUST_CHECK int snapshots_list(struct store *s, const char *client,
    struct snapshot_item **out, size_t *count, struct err *e);
/* ERR_NOT_FOUND. */
MUST_CHECK int snapshot_find(struct store *s, const char *client,
    const uint8_t id[static SNAPSHOT_ID_SIZE], struct snapshot_record *out,
    struct err *e);
/* Add the removal of all snapshots of `c` to the change; ERR_EXISTS if there
 * are any and not `purge`, ERR_DENIED if one is too young. */
MUST_CHECK int snapshots_purge(struct store *s,
    const struct client_record *c, bool purge, struct change *change,
    struct err *e);
/* The smallest order that no snapshot has yet. */
MUST_CHECK int snapshots_next_order(struct store *s, uint64_t *out,
    struct err *e);
uint64_t snapshots_count(struct store *s, const char *client);

#endif
