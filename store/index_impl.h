/*
 * store/index_impl.h - what index.c and index_check.c share.
 *
 * Tables of the LMDB file: "objects" (store/entry.h) and "meta", whose one
 * record is
 *
 *   0  schema     4
 *   4  uuid      16   of the array
 *  20  has        4   1 = the position below holds
 *  24  run       16 | 40 flush 8: the array position
 *  48  order      8   snapshots below this were seen
 *  56  clean      4   1 = closed in order
 */
#ifndef STORE_INDEX_IMPL_H
#define STORE_INDEX_IMPL_H

#include "base/err.h"

#include <lmdb.h>

struct warn_sink;

enum { META_SCHEMA = 0, META_UUID = 4, META_HAS = 20, META_RUN = 24,
	META_FLUSH = 40, META_ORDER = 48, META_CLEAN = 56, META_SIZE = 60 };

#define ENV_FLAGS (MDB_NORDAHEAD | MDB_NOTLS)

MDB_val index_meta_key(void);
/* Remove the files of an index. */
MUST_CHECK int index_discard(const char *dir, struct err *e);
/* Discard it, with a warning, unless it can be walked to its end. */
MUST_CHECK int index_check(const char *dir, struct warn_sink *warn,
    struct err *e);

#endif
