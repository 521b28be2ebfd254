/*
 * proto/tree_entry.h - one directory entry as bytes.  [format]
 *
 * The fields are those of proto/fmt_tree.h; its rules of canonical form are
 * checked here, in both directions with the same code.
 */
#ifndef PROTO_TREE_ENTRY_H
#define PROTO_TREE_ENTRY_H

#include "base/err.h"
#include "proto/fmt_tree.h"

#include <stddef.h>
#include <stdint.h>

struct buf;

/* Bytes of one field: tag, size. */
#define TREE_FIELD_HEAD 3

/* Append le16 size and the fields.  ERR_USAGE for an entry that
 * tree_entry_get() would refuse, ERR_LIMIT above TREE_ENTRY_MAX. */
MUST_CHECK int tree_entry_put(struct buf *out, const struct tree_entry *n,
    struct err *e);
/* The fields, without the le16; slices point into `data`.  ERR_CORRUPT,
 * ERR_VERSION (a field that must be known). */
MUST_CHECK int tree_entry_get(struct tree_entry *n, const void *data,
    size_t size, struct err *e);

#endif
