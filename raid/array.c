/*
 * raid/array.c - the life of an array: open, the way of records to the log and
 * back, close.
 *
 * THE ORDER at opening
 *
 *   superblocks --> nobody else has it (raid/heartbeat.c) --> log replayed
 *   (map, facts, ids) --> extents of segments and log marked --> it is ours -->
 *   segments that a crash left open are sealed in memory --> log_start (epoch)
 *   --> the sealing and new ids in the log --> writers
 *
 *   An extent that no durable segment and no log chain names is free.
 *
 * INVARIANTS   (tests/raid/test_array.c)
 *
 *   A1  After a crash no row of an old segment is ever written with other
 *       content: what was open is sealed at its durable end.
 *   A2  After a clean stop the open segments go on at the next row.
 *   A3  Segment ids that may be on a member are below the reserved limit in
 *       the log; a new opening begins at that limit.
 */
#include "raid/cut.h"
#include "raid/fmt_record.h"
#include "raid/heartbeat.h"
#include "raid/recset.h"

#include "base/warn.h"
#include "raid/dev.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- commit ---------------------------------------------------------- */

int array_running_locked(struct array *a, struct err *e)
{
	if (!a->stopped)
		return 0;
	*e = a->stop;
	return -1;
}

int array_commit_enter(struct array *a, struct err *e)
{
	int rc;

	pthread_mutex_lock(&a->lock);
	while (a->commit_busy)
		pthread_cond_wait(&a->changed, &a->lock);
	rc = array_running_locked(a, e);
	if (rc == 0)
		a->commit_busy = true;
	pthread_mutex_unlock(&a->lock);
	return rc;
}

bool array_commit_try(struct array *a)
{
	bool entered;

	pthread_mutex_lock(&a->lock);
	entered = !a->commit_busy && !a->stopped;
	if (entered)
		a->commit_busy = true;
	pthread_mutex_unlock(&a->lock);
	return entered;
}

void array_commit_leave(struct array *a)
{
	pthread_mutex_lock(&a->lock);
	a->commit_busy = false;
	pthread_cond_broadcast(&a->changed);
	pthread_mutex_unlock(&a->lock);
}

void array_stop_locked(struct array *a, const struct err *why)
{
	if (!a->stopped) {
		a->stopped = true;
		a->stop = *why;
		err_add(&a->stop, "the array takes no more writes");
	}
	pthread_cond_broadcast(&a->changed);
}

int array_log(struct array *a, const struct log_rec *recs, size_t count,
    void (*apply)(struct array *a, void *arg, uint64_t flush), void *arg,
    struct err *e)
{
	uint64_t flush;
	bool epoch;
	int rc;

	rc = heartbeat_check(a->heartbeat, e);
	pthread_mutex_lock(&a->lock);
	epoch = a->members_changed;
	a->members_changed = false;
	pthread_mutex_unlock(&a->lock);
	if (rc == 0)
		rc = log_append(a->log, recs, count, epoch, &flush, e);
	pthread_mutex_lock(&a->lock);
	if (rc == 0) {
		a->flush = flush;
		if (apply)
			apply(a, arg, flush);
		pthread_cond_broadcast(&a->changed);
	} else {
		array_stop_locked(a, e);
	}
	pthread_mutex_unlock(&a->lock);
	if (rc != 0 || !epoch)
		return rc;
	return log_write_roots(a->log, e);
}

int array_members_commit(struct array *a, struct err *e)
{
	bool changed = true;

	while (changed) {
		pthread_mutex_lock(&a->lock);
		changed = a->members_changed;
		pthread_mutex_unlock(&a->lock);
		if (changed && array_log(a, NULL, 0, NULL, NULL, e) != 0)
			return -1;
	}
	return 0;
}

int array_fold(struct array *a, struct err *e)
{
	struct err why;

	if (!log_wants_fold(a->log))
		return 0;
	if (log_fold(a->log, &why) == 0)
		return array_members_commit(a, e);
	if (why.code == ERR_NO_SPACE)
		return 0;	/* the tail grows; the next flush asks again */
	pthread_mutex_lock(&a->lock);
	array_stop_locked(a, &why);
	pthread_mutex_unlock(&a->lock);
	*e = why;
	return -1;
}

/* ---- what the log asks for ------------------------------------------- */

static int host_extent_take(void *arg, unsigned member, uint32_t *extent,
    struct err *e)
{
	struct array *a = arg;
	bool ok;

	pthread_mutex_lock(&a->lock);
	ok = alloc_take(&a->alloc, member, extent);
	if (ok)
		a->log_extents[member]++;
	pthread_mutex_unlock(&a->lock);
	if (!ok)
		return err_set(e, ERR_NO_SPACE, "%s: no extent for the log",
		    a->as->members[member]->path);
	return 0;
}

static void host_extent_give(void *arg, unsigned member, uint32_t extent)
{
	struct array *a = arg;

	pthread_mutex_lock(&a->lock);
	alloc_give(&a->alloc, member, extent);
	if (a->log_extents[member] > 0)
		a->log_extents[member]--;
	pthread_mutex_unlock(&a->lock);
}

static int host_roots(void *arg, const struct log_root *root, struct err *e)
{
	struct array *a = arg;

	return assembly_roots(a->as, root, array_member_failed, a, e);
}

static int dump_u64(uint16_t type, uint64_t v,
    int (*emit)(void *log, const struct log_rec *r, struct err *e), void *log,
    struct err *e)
{
	uint8_t body[8];

	rec_u64_put(body, v);
	return emit(log, &(struct log_rec){ type, sizeof(body), body }, e);
}

/* The map changes only in commit, which whoever folds is in; the lock is for
 * the segments that appends add. */
static int dump_segments(struct array *a,
    int (*emit)(void *log, const struct log_rec *r, struct err *e), void *log,
    struct err *e)
{
	uint8_t body[REC_SEGMENT_MAX];
	uint64_t id = 0;
	size_t size = 1;

	while (size > 0) {
		size = 0;
		pthread_mutex_lock(&a->lock);
		for (size_t i = map_after(&a->map, id); i < a->map.count;
		    i++) {
			const struct seg *s = a->map.segs[i];

			id = s->s.id;
			if (!s->durable || s->freed)
				continue;
			size = rec_segment_put(body, &s->s);
			break;
		}
		pthread_mutex_unlock(&a->lock);
		if (size > 0 && emit(log, &(struct log_rec){ REC_SEGMENT,
		    (uint32_t)size, body }, e) != 0)
			return -1;
	}
	return 0;
}

static int host_dump(void *arg,
    int (*emit)(void *log, const struct log_rec *r, struct err *e), void *log,
    struct err *e)
{
	uint8_t body[REC_ID_RESERVE_SIZE];
	struct array *a = arg;

	rec_id_reserve_put(body, a->id_limit);
	if (emit(log, &(struct log_rec){ REC_ID_RESERVE, sizeof(body), body },
	    e) != 0 || dump_u64(REC_SEGMENT_LAST_FREE, a->last_free_flush,
	    emit, log, e) != 0 || dump_segments(a, emit, log, e) != 0)
		return -1;
	return facts_dump(a->facts, emit, log, e);
}

static int replay(void *arg, const struct log_rec *r, uint64_t flush,
    struct err *e)
{
	struct array *a = arg;

	switch (r->type) {
	case REC_FACT_SET:
	case REC_FACT_DELETE:
		return facts_replay(a->facts, r, e);
	case REC_CLEAN_STOP:
		return 0;
	case REC_ID_RESERVE:
		return rec_id_reserve_get(&a->id_limit, r->body, r->size, e);
	default:
		if (r->type >= REC_IGNORABLE)
			return 0;
		return map_replay(&a->map, r->type, r->body, r->size, flush,
		    &a->last_free_flush, e);
	}
}

/* ---- open ------------------------------------------------------------ */

static int segment_mark(struct array *a, const struct seg_state *s,
    struct err *e)
{
	if (s->id >= a->id_limit || s->rows > a->extent_rows)
		return err_set(e, ERR_CORRUPT, "segment %" PRIu64
		    " in the log is out of range", s->id);
	for (size_t i = 0; i < s->width; i++)
		if (s->member[i] >= a->as->member_count ||
		    !alloc_mark(&a->alloc, s->member[i], s->extent[i]))
			return err_set(e, ERR_CORRUPT, "segment %" PRIu64
			    " names extent %" PRIu32 " of member %u, which "
			    "is not free", s->id, s->extent[i], s->member[i]);
	return 0;
}

static int log_mark(struct array *a, unsigned member, struct err *e)
{
	uint32_t *extents = NULL;
	size_t count = log_extents(a->log, member, NULL, 0);
	int rc = 0;

	extents = malloc((count + 1) * sizeof(*extents));
	if (!extents)
		return err_set(e, ERR_NO_MEMORY, "no memory for extents");
	count = log_extents(a->log, member, extents, count);
	for (size_t i = 0; i < count && rc == 0; i++)
		if (!alloc_mark(&a->alloc, member, extents[i]))
			rc = err_set(e, ERR_CORRUPT, "%s: extent %" PRIu32
			    " of the log is not free",
			    a->as->members[member]->path, extents[i]);
	a->log_extents[member] = count;
	free(extents);
	return rc;
}

/* What segments have is not the log's. */
static void log_settle(struct array *a)
{
	for (size_t i = 0; i < a->map.count; i++) {
		const struct seg_state *s = &a->map.segs[i]->s;

		for (size_t k = 0; k < s->width; k++)
			log_disown(a->log, s->member[k], s->extent[k]);
	}
}

static int extents_mark(struct array *a, struct err *e)
{
	log_settle(a);
	for (unsigned i = 0; i < a->as->member_count; i++)
		if (alloc_add(&a->alloc, i, a->as->members[i]->extent_count,
		    e) != 0 || log_mark(a, i, e) != 0)
			return -1;
	for (size_t i = 0; i < a->map.count; i++)
		if (segment_mark(a, &a->map.segs[i]->s, e) != 0)
			return -1;
	return 0;
}

/* Born with fewer members than there are now: what is written from now on is
 * to have its parity. */
static bool segment_is_narrow(const struct array *a, const struct seg_state *s)
{
	unsigned writable = 0;

	for (size_t i = 0; i < a->as->member_count; i++)
		writable += member_writable(a->as->members[i]);
	return s->parity < a->parity && writable > s->parity + 1u;
}

/* Segments that a crash left open are sealed (A1); after a clean stop they go
 * on (A2), unless one of their members does not take writes. */
static int segments_settle(struct array *a, bool clean, struct recset *r,
    struct err *e)
{
	uint8_t body[REC_SEGMENT_MAX];

	for (size_t i = 0; i < a->map.count; i++) {
		struct seg *s = a->map.segs[i];
		bool go_on = clean && !segment_is_narrow(a, &s->s);

		if (s->s.sealed)
			continue;
		for (size_t j = 0; j < s->s.width; j++)
			go_on = go_on && member_writable(
			    a->as->members[s->s.member[j]]);
		if (go_on && open_seg_continue(a, s, e) != 0)
			return -1;
		if (go_on)
			continue;
		s->s.sealed = true;
		if (recset_add(r, REC_SEGMENT, body,
		    rec_segment_put(body, &s->s), e) != 0)
			return -1;
	}
	return 0;
}

/* Begin an epoch, and tell the log what the opening has changed. */
static int write_begin(struct array *a, const struct log_position *pos,
    struct err *e)
{
	uint8_t body[REC_ID_RESERVE_SIZE];
	struct log_position now;
	struct recset r;
	int rc = -1;

	if (heartbeat_claim(a->heartbeat, e) != 0)
		return -1;
	recset_init(&r);
	if (segments_settle(a, pos->clean, &r, e) != 0)
		goto out;
	a->next_id = a->id_limit;
	a->id_limit += ARRAY_IDS_BATCH;
	rec_id_reserve_put(body, a->id_limit);
	if (recset_add(&r, REC_ID_RESERVE, body, sizeof(body), e) != 0 ||
	    log_start(a->log, e) != 0 ||
	    array_log(a, r.recs, r.count, NULL, NULL, e) != 0 ||
	    array_members_commit(a, e) != 0)
		goto out;
	log_position(a->log, &now);
	a->flush = now.flush;
	rc = writers_start(a, e);
out:
	recset_release(&r);
	return rc;
}

static void locks_init(struct array *a)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&a->lock, NULL);
	pthread_mutex_init(&a->mend, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&a->changed, &attr);
	pthread_condattr_destroy(&attr);
	pthread_cond_init(&a->work, NULL);
}

static struct array *array_new(const struct array_open *o)
{
	struct array *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->facts = facts_new();
	if (!a->facts) {
		free(a);
		return NULL;
	}
	locks_init(a);
	map_init(&a->map);
	alloc_init(&a->alloc);
	for (unsigned k = 1; k <= SEG_WIDTH_MAX; k++)
		for (unsigned p = 0; p <= SEG_PARITY_MAX &&
		    k + p <= SEG_WIDTH_MAX; p++)
			parity_init(&a->codes[k][p], k, p);
	a->read_only = o->read_only;
	a->warn = o->warn;
	a->dev_open = o->dev_open;
	a->dev_arg = o->dev_arg;
	return a;
}

static void owner_leave(struct array *a, bool clear)
{
	heartbeat_end(a->heartbeat, clear);
	a->heartbeat = NULL;
}

static void array_free(struct array *a)
{
	owner_leave(a, false);
	array_cut_drop(a->cut);
	segments_release(a);
	if (a->log)
		log_close(a->log);
	assembly_free(a->as);
	map_release(&a->map);
	alloc_release(&a->alloc);
	facts_free(a->facts);
	pthread_cond_destroy(&a->changed);
	pthread_cond_destroy(&a->work);
	pthread_mutex_destroy(&a->lock);
	pthread_mutex_destroy(&a->mend);
	free(a);
}

static void host_init(struct array *a)
{
	assembly_host(a->as, &a->host);
	a->host.arg = a;
	a->host.extent_take = host_extent_take;
	a->host.extent_give = host_extent_give;
	a->host.member_failed = array_member_failed;
	a->host.dump = host_dump;
	a->host.write_roots = host_roots;
	memcpy(a->uuid, a->host.uuid, RAID_UUID_SIZE);
	a->extent_size = a->host.extent_size;
	a->extent_rows = (uint32_t)(a->extent_size / RAID_ROW);
	a->parity = a->as->base.parity;
}

/* Whose is it?  Before the log is read, which an owner would change. */
static int owner_look(struct array *a, const struct array_open *o,
    struct err *e)
{
	if (heartbeat_new(&a->heartbeat, a, o, e) != 0)
		return -1;
	if (!a->read_only)
		return heartbeat_look(a->heartbeat, e);
	heartbeat_tell(a->heartbeat);
	owner_leave(a, false);
	return 0;
}

static int array_load(struct array *a, const struct array_open *o,
    struct err *e)
{
	struct log_position pos;

	if (assemble(&a->as, o->devs, o->dev_count, o->call_ms, o->warn,
	    e) != 0)
		return -1;
	host_init(a);
	if (owner_look(a, o, e) != 0)
		return -1;
	a->id_limit = 1;
	if (log_load(&a->log, &a->host, replay, &pos, o->warn, e) != 0)
		return -1;
	if (extents_mark(a, e) != 0)
		return -1;
	a->flush = pos.flush;
	if (pos.damaged_tail && !a->read_only) {
		a->read_only = true;
		warn_add(o->warn, NULL, 0, "the log goes on beyond a hole: "
		    "opened read-only");
	}
	return a->read_only ? 0 : write_begin(a, &pos, e);
}

static void devs_close(const struct array_open *o)
{
	for (size_t i = 0; i < o->dev_count; i++)
		dev_close(o->devs[i]);
}

int array_open(struct array **out, const struct array_open *o, struct err *e)
{
	struct array *a = array_new(o);

	if (!a) {
		devs_close(o);
		return err_set(e, ERR_NO_MEMORY, "no memory for an array");
	}
	if (array_load(a, o, e) != 0) {
		owner_leave(a, true);
		array_abandon(a);
		return -1;
	}
	*out = a;
	return 0;
}

/* ---- close ----------------------------------------------------------- */

/* Rows beyond the durable end may be on the members: no going on there. */
static int stop_records(struct array *a, struct recset *r, struct err *e)
{
	uint8_t body[REC_SEGMENT_MAX];

	for (struct open_seg *os = a->opens; os; os = os->next) {
		struct seg_state s = os->seg->s;

		if (!os->seg->durable || (open_seg_idle_locked(os) &&
		    !os->full))
			continue;
		s.sealed = true;
		if (recset_add(r, REC_SEGMENT, body, rec_segment_put(body, &s),
		    e) != 0)
			return -1;
	}
	if (array_recs_verified(a, r, e) != 0)
		return -1;
	return recset_add(r, REC_CLEAN_STOP, body, 0, e);
}

static int array_stop_clean(struct array *a, struct err *e)
{
	struct recset r;
	int rc = -1;

	pthread_mutex_lock(&a->lock);
	rc = array_running_locked(a, e);
	if (a->cut)
		rc = err_set(e, ERR_BUSY, "closed between cut and flush");
	pthread_mutex_unlock(&a->lock);
	if (rc != 0 || array_commit_enter(a, e) != 0)
		return -1;
	recset_init(&r);
	rc = array_members_commit(a, e);
	if (rc == 0)
		rc = stop_records(a, &r, e);
	if (rc == 0)
		rc = array_log(a, r.recs, r.count, NULL, NULL, e);
	recset_release(&r);
	array_commit_leave(a);
	return rc;
}

int array_close(struct array *a, struct err *e)
{
	int rc = 0;

	if (!a)
		return 0;
	writers_stop(a);
	if (!a->read_only)
		rc = array_stop_clean(a, e);
	owner_leave(a, true);
	array_free(a);
	return rc;
}

void array_abandon(struct array *a)
{
	struct err why;

	if (!a)
		return;
	err_set(&why, ERR_CANCELLED, "the array was abandoned");
	pthread_mutex_lock(&a->lock);
	a->dead = true;
	array_stop_locked(a, &why);
	pthread_mutex_unlock(&a->lock);
	writers_stop(a);
	array_free(a);
}

/* ---- facts and positions --------------------------------------------- */

const uint8_t *array_uuid(const struct array *a)
{
	return a->uuid;
}

int array_kv_get(struct array *a, const void *key, size_t key_size,
    uint8_t **value, size_t *size, struct err *e)
{
	const struct fact *f;
	uint8_t *copy = NULL;
	bool found;

	pthread_mutex_lock(&a->lock);
	f = facts_find(a->facts, key, key_size);
	found = f != NULL;
	if (f)
		copy = malloc((size_t)f->value_size + 1);
	if (copy) {
		memcpy(copy, f->bytes + f->key_size, f->value_size);
		*size = f->value_size;
	}
	pthread_mutex_unlock(&a->lock);
	if (!found)
		return err_set(e, ERR_NOT_FOUND, "no such fact");
	if (!copy)
		return err_set(e, ERR_NO_MEMORY, "no memory for a fact");
	*value = copy;
	return 0;
}

int array_kv_each(struct array *a, const void *prefix, size_t prefix_size,
    int (*each)(void *arg, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size), void *arg)
{
	int rc;

	pthread_mutex_lock(&a->lock);
	rc = facts_each(a->facts, prefix, prefix_size, each, arg);
	pthread_mutex_unlock(&a->lock);
	return rc;
}

void array_position(struct array *a, struct array_position *p)
{
	struct log_position pos;

	log_position(a->log, &pos);
	memcpy(p->run, pos.run, sizeof(p->run));
	pthread_mutex_lock(&a->lock);
	p->flush = a->flush;
	pthread_mutex_unlock(&a->lock);
}

bool array_position_known(struct array *a, const struct array_position *p)
{
	return log_knows(a->log, p->run, p->flush);
}
