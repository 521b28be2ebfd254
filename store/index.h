/*
 * store/index.h - the object index on disk: key -> entry, in LMDB.
 *
 *      index_open --> index_read, index_write, ... --> index_close
 *
 * The index is a cache of what the tables of contents say (S5): it carries the
 * array position up to which it is true, in the same transaction as what it
 * describes.  A file that is damaged, of another array or of another layout
 * is thrown away at open and begins empty, without a position.
 *
 * Units: counts are entries.  Errors: ERR_IO, ERR_NO_SPACE (the index
 *   directory's disk), ERR_CORRUPT (an entry's checksum; the object is then as
 *   good as absent), ERR_NO_MEMORY.
 * Threads: any; writers wait for each other.
 * Files: data.mdb and lock.mdb in the index directory.
 */
#ifndef STORE_INDEX_H
#define STORE_INDEX_H

#include "base/err.h"
#include "raid/array.h"
#include "store/entry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct index;
struct warn_sink;

MUST_CHECK int index_open(struct index **out, const char *dir,
    const uint8_t array_uuid[static RAID_UUID_SIZE], struct warn_sink *warn,
    struct err *e);
/* Both free; NULL is fine.  close notes that all is well, so that the next open
 * need not walk a large file. */
void index_close(struct index *ix);
void index_abandon(struct index *ix);

/* False when it has none: empty, or thrown away. */
bool index_position(struct index *ix, struct array_position *p);
/* Orders below this were given to snapshots that it has seen. */
uint64_t index_order(struct index *ix);

/*
 * Look up `count` keys in one transaction: entries[i] is a new entry or NULL.
 * On failure none is kept.  An entry whose checksum is wrong counts as absent
 * and makes index_suspect() true from then on.
 */
MUST_CHECK int index_read(struct index *ix, const struct key *keys,
    struct entry **entries, size_t count, struct err *e);
MUST_CHECK int index_read_one(struct index *ix, const struct key *key,
    struct entry **out, struct err *e);
bool index_suspect(struct index *ix);

struct index_op {
	struct key key;
	const struct entry *entry;	/* NULL deletes */
};
struct index_mark {		/* how far the index is true afterwards */
	struct array_position position;
	uint64_t order;
};
/* One synced transaction; ops by key.  `mark` may be NULL: stays. */
MUST_CHECK int index_write(struct index *ix, const struct index_op *ops,
    size_t count, const struct index_mark *mark, struct err *e);

/*
 * Up to `max` entries whose keys are above `after` (NULL = from the start), in
 * order, as new entries; *count says how many.  Each call is a transaction of
 * its own, so that no long reader makes the file grow.
 */
MUST_CHECK int index_scan(struct index *ix, const struct key *after,
    struct key *keys, struct entry **entries, size_t max, size_t *count,
    struct err *e);

/*
 * A change of many entries that is only right as a whole: from index_hold() to
 * index_release() the index on disk has no position, so that a crash in
 * between makes it worth nothing.  Positions written meanwhile come into force
 * with the release.
 */
MUST_CHECK int index_hold(struct index *ix, struct err *e);
MUST_CHECK int index_release(struct index *ix, struct err *e);

enum index_verdict { INDEX_KEEP, INDEX_DELETE, INDEX_REPLACE };
struct index_revision {
	/* On INDEX_REPLACE *out is a new entry. */
	enum index_verdict (*judge)(void *arg, const struct key *k,
	    const struct entry *en, struct entry **out);
	void *arg;
	struct key after;	/* where the last call ended */
	bool begun, ended;
	uint64_t kept, deleted, replaced;	/* sums */
};
/* Judge the next entries (some thousands) as they are at this moment, in one
 * unsynced transaction; only while held.  Sets r->ended at the end. */
MUST_CHECK int index_revise(struct index *ix, struct index_revision *r,
    struct err *e);

/* Empty it: no entries, no position, not held. */
MUST_CHECK int index_reset(struct index *ix, struct err *e);
/* Append entries in ascending order of keys, after index_reset().  Synced only
 * when a mark is written. */
MUST_CHECK int index_append(struct index *ix, const struct index_op *ops,
    size_t count, struct err *e);
void index_size(struct index *ix, uint64_t *entries, uint64_t *bytes);

#endif
