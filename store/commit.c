/*
 * store/commit.c - group flush: how what was taken becomes durable.
 *
 * THE PROMISE
 *
 *   A frame is acked, and a change returns 0, only after one array flush that
 *   holds the frames, the tables that name them and the facts.  That flush is
 *   replayed whole or not at all.
 *
 * THE ORDER
 *
 *   turn (no lock): the array's log is ours
 *   cut (under the cut lock, no I/O): tables -> facts -> overlay `pending`
 *   becomes `flushing` -> each session's newest frame is noted
 *   flush (no lock) -> `flushing` joins `durable`, sessions and changes hear;
 *   or a member failed: `flushing` is `pending` again, in other places, and
 *   the next flush holds it (redo.c)
 *   fold (now and then): `durable` -> LMDB in one synced transaction with the
 *   array's position -> `durable` is empty
 *
 * WHAT A CRASH LEAVES
 *
 *   before the flush is done   nothing of the cut
 *   before the fold            LMDB behind: the next open reads the tables of
 *                              later flushes (rebuild.c)
 *
 * INVARIANTS
 *
 *   C1  What LMDB holds is durable in the array.
 *   C2  In LMDB, and in LMDB + durable, a page with owner D and the complete
 *       bit has only children with owner D (pages: complete).  Hence a fold
 *       is one transaction.
 *   C3  After a failed flush nothing is written any more: what was pending
 *       leaves the overlay, sessions are broken off, changes fail.
 *
 * LOCKS
 *
 *   `durable` is only changed by the committer itself, under the cut lock; it
 *   may therefore read it without, while it folds.
 */
#include "store/commit.h"

#include "base/clock.h"
#include "base/warn.h"
#include "store/impl.h"
#include "store/index.h"
#include "store/redo.h"
#include "store/toc.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

void change_init(struct change *c)
{
	memset(c, 0, sizeof(*c));
}

static void facts_cut(struct change *c, size_t count)
{
	while (c->count > count) {
		struct fact *f = &c->facts[--c->count];

		free(f->key);
		free(f->value);
	}
}

void change_release(struct change *c)
{
	facts_cut(c, 0);
	free(c->facts);
	change_init(c);
}

static uint8_t *copy_of(const void *data, size_t size)
{
	uint8_t *p = malloc(size + 1);

	if (p && size > 0)
		memcpy(p, data, size);
	return p;
}

int change_put(struct change *c, const void *key, size_t key_size,
    const void *value, size_t value_size, struct err *e)
{
	size_t cap = c->cap ? c->cap * 2 : 4;
	struct fact *facts = c->facts, f = { .key_size = key_size,
		.value_size = value_size };

	assert(key_size <= RAID_KEY_MAX && value_size <= RAID_VALUE_MAX);
	if (c->count == c->cap) {
		facts = realloc(facts, cap * sizeof(*facts));
		if (!facts)
			return err_set(e, ERR_NO_MEMORY,
			    "no memory for a change");
		c->facts = facts;
		c->cap = cap;
	}
	f.key = copy_of(key, key_size);
	f.value = value ? copy_of(value, value_size) : NULL;
	if (!f.key || (value && !f.value)) {
		free(f.key);
		free(f.value);
		return err_set(e, ERR_NO_MEMORY, "no memory for a change");
	}
	c->facts[c->count++] = f;
	return 0;
}

/* ---- asking the committer ----------------------------------------------- */

void committer_wake(struct store *s)
{
	s->sync_wanted = true;
	pthread_cond_signal(&s->wake);
}

void committer_note_pending(struct store *s)
{
	if (s->pending_since_ms != 0)
		return;
	s->pending_since_ms = clock_mono_ms();
	if (s->pending_since_ms == 0)
		s->pending_since_ms = 1;
	pthread_cond_signal(&s->wake);
}

int store_writable(struct store *s, struct err *e)
{
	if (s->failed) {
		*e = s->failure;
		return -1;
	}
	if (s->read_only)
		return err_set(e, ERR_DENIED, "the store is open read-only");
	if (s->stopping)
		return err_set(e, ERR_UNAVAILABLE, "the store is closing");
	return 0;
}

static bool is_full(const struct store *s)
{
	/* The two go into one table if the flush has to be done again. */
	return s->redoing ||
	    s->pending_frames + s->flushing_frames + 1 > TABLE_FRAMES_MAX ||
	    s->pending_objects + s->flushing_objects + 1024 >
	    TABLE_OBJECTS_MAX ||
	    s->pending.count + 1024 > TABLE_OBJECTS_MAX ||
	    array_unflushed(s->array) > 2 * s->flush_bytes;
}

int committer_room(struct store *s, struct err *e)
{
	while (store_writable(s, e) == 0) {
		if (s->durable.count > FOLD_ENTRIES_MAX) {
			committer_wake(s);	/* tries once more */
			return err_set(e, ERR_NO_SPACE,
			    "the index cannot be written");
		}
		if (!is_full(s))
			return 0;
		committer_wake(s);
		pthread_cond_wait(&s->done, &s->cut);
	}
	return -1;
}

int change_commit(struct store *s, struct change *c, struct err *e)
{
	struct change **at;
	int rc;

	pthread_mutex_lock(&s->cut);
	rc = store_writable(s, e);
	if (rc == 0) {
		c->done = false;
		c->next = NULL;
		for (at = &s->changes; *at; at = &(*at)->next)
			;
		*at = c;
		committer_wake(s);
		while (!c->done)
			pthread_cond_wait(&s->done, &s->cut);
		rc = c->rc;
		if (rc != 0)
			*e = c->err;
	}
	pthread_mutex_unlock(&s->cut);
	return rc;
}

/* ---- after a failure ---------------------------------------------------- */

/* Tell the owners.  With rc 0 those that want a fold stay: returned. */
static struct change *changes_end(struct change *list, bool folded, int rc,
    const struct err *why)
{
	struct change *kept = NULL;

	while (list) {
		struct change *c = list;

		list = c->next;
		if (c->fold && !folded && rc == 0 && c->rc == 0) {
			c->next = kept;
			kept = c;
			continue;
		}
		if (c->rc == 0 && rc != 0) {
			c->rc = rc;
			c->err = *why;
		}
		if (c->rc == 0 && c->durable)
			c->durable(c->arg);
		c->done = true;		/* its owner may free it from here */
	}
	return kept;
}

void store_fail(struct store *s, const struct err *why)
{
	if (!s->failed) {
		s->failed = true;
		s->failure = *why;
	}
	overlay_release(&s->pending);
	for (struct store_session *ss = s->sessions; ss; ss = ss->next)
		if (ss->pushing && !ss->broken) {
			ss->broken = true;
			ss->why_broken = s->failure;
		}
	s->changes = changes_end(s->changes, true, -1, &s->failure);
	s->pending_since_ms = 0;
	pthread_cond_broadcast(&s->done);
}

/* ---- one flush ---------------------------------------------------------- */

static void place_finish(void *arg, struct overlay_node *n)
{
	if (n->entry->place.last == 0)
		array_cut_finish(arg, &n->entry->place);
}

/* A change whose own callback refuses fails alone.  Facts that the array does
 * not take may be there in part: those of one change are in such an order
 * that a beginning of them is harmless (counters first). */
static void change_cut(struct change *c, struct array_cut *cut)
{
	if (c->rc != 0)
		return;		/* refused in the cut before */
	if (c->tried)
		facts_cut(c, c->given);
	c->tried = true;
	c->given = c->count;
	c->flush = array_cut_flush(cut);
	c->rc = c->in_cut ? c->in_cut(c->arg, c, &c->err) : 0;
	for (size_t i = 0; i < c->count && c->rc == 0; i++)
		c->rc = array_cut_kv(cut, c->facts[i].key,
		    c->facts[i].key_size, c->facts[i].value,
		    c->facts[i].value_size, &c->err);
	for (size_t i = 0; i < c->free_count && c->rc == 0; i++)
		c->rc = array_cut_free(cut, c->frees[i], &c->err);
}

/* Under the cut lock.  On failure the tables are not whole. */
static int cut_fill(struct store *s, struct array_cut *cut,
    struct change *list, struct err *e)
{
	if (toc_cut(s, cut, e) != 0)
		return -1;
	overlay_each(&s->pending, place_finish, cut);
	for (struct change *c = list; c; c = c->next) {
		change_cut(c, cut);
		if (c->seal && c->rc == 0)
			array_cut_seal_all(cut);
	}
	for (struct store_session *ss = s->sessions; ss; ss = ss->next)
		ss->frame_cut = ss->frame_taken;
	assert(s->flushing.count == 0);
	overlay_merge(&s->flushing, &s->pending);
	s->flushing_frames = s->pending_frames;
	s->flushing_objects = s->pending_objects;
	s->pending_frames = s->pending_objects = 0;
	s->pending_since_ms = 0;
	return 0;
}

static struct change *flush_good(struct store *s, struct change *list,
    const struct flush_result *r)
{
	overlay_merge(&s->durable, &s->flushing);
	s->flushing_frames = s->flushing_objects = 0;
	s->redos = 0;
	for (struct store_session *ss = s->sessions; ss; ss = ss->next) {
		if (!ss->broken)
			ss->frame_durable = ss->frame_cut;
		ss->reduced = ss->reduced || (ss->pushing && r->reduced);
	}
	for (struct change *c = list; c; c = c->next)
		c->reduced = r->reduced;
	toc_tidy(s);
	s->flushes_unfolded++;
	return changes_end(list, false, 0, NULL);
}

/* What an append can take, as of this flush.  Cut lock as in flush_once. */
static void free_bytes_refresh(struct store *s)
{
	struct array_info info;

	pthread_mutex_unlock(&s->cut);
	array_info(s->array, &info);
	pthread_mutex_lock(&s->cut);
	s->free_bytes = info.free_bytes;
}

/* Cut lock held on entry and on return; given up in between, for the array
 * may be writing for somebody else. */
static int cut_begin(struct store *s, struct array_cut **cut, struct err *e)
{
	int rc;

	pthread_mutex_unlock(&s->cut);
	rc = array_cut_enter(s->array, cut, e);
	pthread_mutex_lock(&s->cut);
	if (rc != 0)
		return -1;
	if (!s->failed)
		return array_cut_freeze(*cut, e);
	array_cut_leave(*cut);
	*e = s->failure;
	return -1;
}

/* A member failed: all is pending again.  The changes come first in the next
 * flush, which is due at once. */
static int flush_again(struct store *s, struct change *list, struct err *e)
{
	struct change **at = &list;

	s->redos++;
	if (store_redo(s, e) != 0)
		return -1;
	while (*at)
		at = &(*at)->next;
	*at = s->changes;
	s->changes = list;
	committer_note_pending(s);
	committer_wake(s);
	return 0;
}

/* 1: a member failed, and it can be done without. */
static int cut_and_flush(struct store *s, struct array_cut *cut,
    struct change *list, struct flush_result *result, struct err *e)
{
	bool again = s->redos < RAID_MEMBERS_MAX;
	struct err ignored;
	int rc, filled;

	filled = cut_fill(s, cut, list, e);
	array_cut_end(cut);
	pthread_mutex_unlock(&s->cut);
	if (filled != 0)
		rc = array_flush(s->array, cut, result, &ignored);
	else if (again)
		rc = array_flush_or_redo(s->array, cut, result, e);
	else
		rc = array_flush(s->array, cut, result, e);
	pthread_mutex_lock(&s->cut);
	return filled != 0 ? -1 : rc;
}

/* Cut lock held on entry and on return; given up for the flush itself.
 * Returns the changes that wait for a fold. */
static struct change *flush_once(struct store *s)
{
	struct change *list;
	struct array_cut *cut = NULL;
	struct flush_result result = { .flush = 0 };
	struct err e;
	int rc;

	rc = cut_begin(s, &cut, &e);
	list = s->changes;
	s->changes = NULL;
	s->sync_wanted = false;
	if (rc == 0)
		rc = cut_and_flush(s, cut, list, &result, &e);
	if (rc == 1 && flush_again(s, list, &e) == 0)
		return NULL;
	if (rc == 0) {
		list = flush_good(s, list, &result);
	} else {
		err_add(&e, "group flush");
		overlay_release(&s->flushing);
		list = changes_end(list, true, -1, &e);
		store_fail(s, &e);
	}
	pthread_cond_broadcast(&s->done);
	return list;
}

/* ---- fold --------------------------------------------------------------- */

static int fold_write(struct store *s, struct overlay_node **nodes,
    struct err *e)
{
	size_t count = s->durable.count;
	struct index_op *ops = malloc((count + 1) * sizeof(*ops));
	struct index_mark mark;
	int rc;

	if (!ops)
		return err_set(e, ERR_NO_MEMORY, "no memory to fold");
	for (size_t i = 0; i < count; i++) {
		ops[i].key = nodes[i]->key;
		ops[i].entry = nodes[i]->entry;
	}
	array_position(s->array, &mark.position);
	pthread_mutex_lock(&s->cut);
	mark.order = s->next_order;
	pthread_mutex_unlock(&s->cut);
	rc = index_write(s->index, ops, count, &mark, e);
	free(ops);
	return rc;
}

/* Cut lock held on entry and on return.  A failure keeps `durable` as it is:
 * nothing is lost but memory. */
static int fold(struct store *s, struct err *e)
{
	struct overlay_node **nodes = NULL;
	int rc;

	s->folding = true;
	pthread_mutex_unlock(&s->cut);
	rc = overlay_sorted(&s->durable, &nodes, e);
	if (rc == 0)
		rc = fold_write(s, nodes, e);
	free(nodes);
	pthread_mutex_lock(&s->cut);
	s->folding = false;
	if (rc == 0) {
		overlay_release(&s->durable);
		s->generation++;
		s->flushes_unfolded = 0;
	} else {
		warn_add(s->warn, NULL, 0, "%s", e->text);
		s->flushes_unfolded = 1;
	}
	pthread_cond_broadcast(&s->done);
	return rc;
}

/* ---- the thread --------------------------------------------------------- */

static bool flush_is_due(const struct store *s)
{
	if (s->failed)
		return false;
	if (s->changes)
		return true;
	if (s->pending_since_ms == 0)
		return false;
	return s->sync_wanted || s->stopping ||
	    s->pending_objects >= PENDING_OBJECTS_SOFT ||
	    s->pending.count >= PENDING_OBJECTS_SOFT ||
	    array_unflushed(s->array) >= s->flush_bytes ||
	    clock_mono_ms() - s->pending_since_ms >= s->flush_s * 1000u;
}

/* Nothing to write: what sessions did is durable as it is. */
static void settle_without_flush(struct store *s)
{
	s->sync_wanted = false;
	s->pending_since_ms = 0;
	for (struct store_session *ss = s->sessions; ss; ss = ss->next)
		if (!ss->broken)
			ss->frame_durable = ss->frame_taken;
	pthread_cond_broadcast(&s->done);
}

static bool nothing_to_write(const struct store *s)
{
	return !s->changes && s->pending.count == 0 &&
	    s->pending_frames == 0;
}

static void nap(struct store *s)
{
	uint64_t passed, wait_ms = s->flush_s * UINT64_C(1000);
	struct timespec until;

	if (s->pending_since_ms == 0) {
		pthread_cond_wait(&s->wake, &s->cut);
		return;
	}
	passed = clock_mono_ms() - s->pending_since_ms;
	wait_ms = passed < wait_ms ? wait_ms - passed : 0;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)(wait_ms / 1000) + 1;
	pthread_cond_timedwait(&s->wake, &s->cut, &until);
}

static void flush_and_fold(struct store *s)
{
	struct change *waiting = flush_once(s);
	struct err e;
	int rc = 0;

	if (s->failed) {
		pthread_cond_broadcast(&s->done);
		return;
	}
	free_bytes_refresh(s);
	if (waiting || s->stopping || s->durable.count >= FOLD_ENTRIES ||
	    s->flushes_unfolded >= FOLD_FLUSHES)
		rc = fold(s, &e);
	(void)changes_end(waiting, true, rc, &e);
	pthread_cond_broadcast(&s->done);
}

static void *committer_run(void *arg)
{
	struct store *s = arg;
	struct err e;

	pthread_mutex_lock(&s->cut);
	for (;;) {
		bool due = flush_is_due(s);

		if ((due || s->sync_wanted) && nothing_to_write(s)) {
			if (s->durable.count > FOLD_ENTRIES_MAX)
				(void)fold(s, &e);
			settle_without_flush(s);
		} else if (due) {
			flush_and_fold(s);
		} else if (s->stopping) {
			break;
		} else {
			nap(s);
		}
	}
	pthread_mutex_unlock(&s->cut);
	return NULL;
}

int committer_start(struct store *s, struct err *e)
{
	int rc = pthread_create(&s->committer, NULL, committer_run, s);

	if (rc != 0)
		return err_os(e, rc, "start the committer");
	s->committer_on = true;
	return 0;
}

int committer_stop(struct store *s, bool flush, struct err *e)
{
	int rc = 0;

	if (!s->committer_on)
		return 0;
	pthread_mutex_lock(&s->cut);
	s->stopping = true;
	if (!flush && !s->failed) {	/* as after a power cut */
		s->failed = true;
		err_set(&s->failure, ERR_UNAVAILABLE, "the store is closed");
	}
	pthread_cond_broadcast(&s->wake);
	pthread_mutex_unlock(&s->cut);
	pthread_join(s->committer, NULL);
	s->committer_on = false;
	if (!flush)
		return 0;
	pthread_mutex_lock(&s->cut);
	if (s->failed) {
		*e = s->failure;
		rc = -1;
	} else if (s->durable.count > 0 || s->flushes_unfolded > 0) {
		rc = fold(s, e);
	}
	pthread_mutex_unlock(&s->cut);
	return rc;
}
