/*
 * store/impl.h - the inside of a store, for the files of this folder.
 *
 * Three views of one object, newest first: overlays (memory), index (LMDB),
 * nothing.  Two filters over it: quarantines (bytes known bad) and, while a
 * collection ends, the condemned.  looks.h puts them together; nobody else
 * reads an entry and believes it.
 *
 * Locks, outermost first:
 *   admin    facts that depend on other facts: clients, forget
 *   cut      all that a flush freezes; never held over disk I/O of our own
 *            (an append may wait for the array)
 *   cache's own, index's own
 */
#ifndef STORE_IMPL_H
#define STORE_IMPL_H

#include "base/buf.h"
#include "base/err.h"
#include "store/entry.h"
#include "store/overlay.h"
#include "store/qset.h"
#include "store/segset.h"
#include "store/store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cache;
struct change;
struct frame_builder;
struct index;
struct linger;
struct mark;
struct seen;
struct toc;

/* A group flush is asked for when this many objects wait for one: a table
 * holds 24576 (fmt_table.h), and intake goes on meanwhile.  So many entries of
 * `pending` as well: a domain that brings what others have stores nothing. */
#define PENDING_OBJECTS_SOFT 12288u
/* Durable entries that wait in memory until they are folded into LMDB: large
 * sorted transactions cost least, 120 bytes an entry bound the memory. */
#define FOLD_ENTRIES 16384u
/* ... and when folding fails, intake stops here. */
#define FOLD_ENTRIES_MAX 131072u
/* Flushes without a fold, so that little is to be read again at the next
 * open. */
#define FOLD_FLUSHES 64u
/* A session of the same client that was heard within this is alive. */
#define SESSION_ALIVE_MS 10000u
/* What a broken push left stays pinned. */
#define LINGER_MS (24u * 3600u * 1000u)

struct store {
	struct array *array;
	struct index *index;
	struct warn_sink *warn;
	struct cache *cache;	/* of frames read */
	bool read_only;
	unsigned flush_s;
	uint64_t flush_bytes;
	int dir;		/* index directory: spill files */
	uint8_t cut_seed[32];
	atomic_int job;		/* one of verify, prune, rebuild at a time */

	pthread_mutex_t admin;
	pthread_mutex_t cut;	/* guards all below */
	pthread_cond_t wake;	/* for the committer */
	pthread_cond_t done;	/* for those who wait for it */
	struct overlay pending, flushing, durable;
	uint64_t generation;	/* of what is in LMDB */
	unsigned flushes_unfolded;
	bool folding;		/* the committer reads `durable` unlocked */
	bool redoing;		/* a flush is done again: no appends */
	unsigned redos;		/* since the last good flush */
	struct toc *tocs;	/* of the open segments */
	uint32_t pending_frames, pending_objects;
	uint32_t flushing_frames, flushing_objects;
	uint64_t pending_since_ms;	/* 0 = nothing waits */
	uint64_t free_bytes;	/* as of the last flush */
	bool sync_wanted, stopping, failed;
	bool rebuilding;	/* no sessions meanwhile */
	struct err failure;
	struct change *changes;	/* for the next cut, in order */
	struct store_session *sessions;
	struct linger *lingers;
	struct qset quarantined;
	struct mark *mark;	/* of a running collection, or NULL */
	uint64_t next_order;
	struct seen *seen;
	int64_t last_verify_s;

	pthread_t committer;
	bool committer_on;
};

struct store_session {
	struct store_session *next;	/* cut lock */
	struct store *store;
	struct client_record client;
	uint8_t token[16];
	atomic_ullong alive_ms;
	uint8_t *plain;			/* one unpacked frame */
	struct frame_builder *builder;
	struct buf again;		/* a frame made anew */

	/* Guarded by the cut lock. */
	struct segset pins;
	bool pushing, broken;
	bool reduced;			/* a flush of it was */
	struct err why_broken;
	uint8_t snapshot[SNAPSHOT_ID_SIZE];
	uint32_t frame_taken, frame_cut, frame_durable;
	uint64_t stored_bytes;		/* appended for it */
	uint64_t new_bytes;		/* plain, new to its domain */
	uint64_t used_bytes;		/* of the quota, when it began */
};

/* What a client's pushes left that ended without a commit: one for each
 * client. */
struct linger {
	struct linger *next;
	char client[CLIENT_NAME_MAX + 1];
	struct segset pins;
	uint64_t new_bytes;	/* counted again by the next push */
	uint64_t until_ms;
};

/* Is this entry's place known bad?  Cut lock held. */
static inline bool entry_quarantined(const struct store *s,
    const struct entry *en)
{
	return qset_has(&s->quarantined, en->place.segment, en->ordinal);
}

/* One long job at a time: ERR_BUSY. */
MUST_CHECK int store_job_begin(struct store *s, const char *what,
    struct err *e);
void store_job_end(struct store *s);

#endif
