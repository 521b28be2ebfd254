/*
 * store/commit.h - changes that must be durable, and the thread that makes
 * them so.
 *
 * A change is a list of facts (and segments to free) that goes into the next
 * group flush; many share one.
 *
 *      change_init --> change_put ... --> change_commit --> change_release
 *
 * Threads: a change belongs to one thread; change_commit waits for the
 * committer.
 */
#ifndef STORE_COMMIT_H
#define STORE_COMMIT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

struct fact {
	uint8_t *key, *value;		/* owned; value NULL deletes */
	size_t key_size, value_size;
};

struct change {
	struct fact *facts;
	size_t count, cap;
	const uint64_t *frees;		/* segments; the caller's */
	size_t free_count;
	bool seal;		/* new segments for all that comes later */
	bool fold;		/* bring the index to this flush as well */
	/* Called in the cut, under the cut lock, before the facts are taken:
	 * may add some; `flush` is known.  Again when the flush is done again
	 * (redo.c), without what it added before. */
	int (*in_cut)(void *arg, struct change *c, struct err *e);
	/* Called under the cut lock once durable. */
	void (*durable)(void *arg);
	void *arg;

	/* Results, after change_commit. */
	uint64_t flush;
	bool reduced;

	/* The committer's. */
	struct change *next;
	size_t given;		/* facts that in_cut did not add */
	bool tried;		/* was in a cut before, of a flush done again */
	bool done;
	int rc;
	struct err err;
};

void change_init(struct change *c);
void change_release(struct change *c);
/* Copies; value NULL deletes the fact. */
MUST_CHECK int change_put(struct change *c, const void *key,
    size_t key_size, const void *value, size_t value_size, struct err *e);
/* Wait until all of it is durable, with everything taken before. */
MUST_CHECK int change_commit(struct store *s, struct change *c,
    struct err *e);

MUST_CHECK int committer_start(struct store *s, struct err *e);
/* A last flush and fold if `flush`; then the thread ends. */
MUST_CHECK int committer_stop(struct store *s, bool flush, struct err *e);
/* Ask for a flush soon.  Cut lock held. */
void committer_wake(struct store *s);
/* Something waits since now.  Cut lock held. */
void committer_note_pending(struct store *s);
/* Wait for room in memory for one more frame.  Cut lock held; it is given up
 * meanwhile.  Fails when the store has failed. */
MUST_CHECK int committer_room(struct store *s, struct err *e);
/* The reason why nothing can be written any more; -1 and *e if so. */
MUST_CHECK int store_writable(struct store *s, struct err *e);
/* The store can no longer say what it holds: break everything off.  Cut lock
 * held. */
void store_fail(struct store *s, const struct err *why);

#endif
