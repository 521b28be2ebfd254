/*
 * client/link_table.h - link groups of a restore: id -> path of the first name.
 *
 * In memory up to LINK_TABLE_MEMORY, beyond that in a temporary LMDB without
 * name in the file system once it is open.
 *
 * Threads: one.
 */
#ifndef CLIENT_LINK_TABLE_H
#define CLIENT_LINK_TABLE_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LINK_TABLE_MEMORY (8u << 20)

struct link_table;

/* `dir` is where the temporary files go. */
MUST_CHECK int link_table_new(struct link_table **out, const char *dir,
    struct err *e);
void link_table_free(struct link_table *t);
/* Remember the path of a group's first name; an older one is replaced. */
MUST_CHECK int link_table_put(struct link_table *t, uint64_t group,
    const void *path, size_t size, struct err *e);
/* 1 and the path into `out` (emptied first), 0 when there is none, -1. */
MUST_CHECK int link_table_get(struct link_table *t, uint64_t group,
    struct buf *out, struct err *e);

#endif
