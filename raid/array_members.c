/*
 * raid/array_members.c - the members of an open array, what they have room
 * for, and what is told about them and the segments.
 *
 * THE RESERVE
 *
 *   Each member keeps back for the log twice what it uses now, and two extents
 *   (a fold writes a new chain beside the old one), and for the collector 4 %
 *   of its extents, at least two.  Ordinary segments take neither; with
 *   array_use_reserve() the second is given free.  A member that takes the
 *   place of another keeps room for what is still to come from there.
 */
#include "raid/array_impl.h"
#include "raid/segment.h"
#include "raid/stripe_io.h"

#include "base/str.h"
#include "base/warn.h"
#include "raid/dev.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Share of a member's extents for the collector: what a collection needs at
 * once is a few segments; the rest is so that it never begins with nothing. */
#define COLLECT_PERCENT 4
#define COLLECT_MIN 2
#define LOG_SPARE 2

/* ---- room ------------------------------------------------------------ */

/* Strips that are still to come from the member that `m` replaces. */
static uint64_t still_to_come(struct array *a, const struct member *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < a->as->member_count; i++) {
		const struct member *old = a->as->members[i];

		if (old->state != MEMBER_REMOVED && memcmp(old->replaced_by,
		    m->uuid, RAID_UUID_SIZE) == 0)
			sum += a->alloc.m[i].used - a->log_extents[i];
	}
	return sum;
}

uint32_t array_room_locked(struct array *a, unsigned index, bool reserve)
{
	uint64_t keep = a->log_extents[index] + LOG_SPARE;
	uint64_t count = a->alloc.m[index].count;
	uint64_t unused = alloc_free(&a->alloc, index);
	uint64_t collect = count * COLLECT_PERCENT / 100;

	if (!reserve)
		keep += collect > COLLECT_MIN ? collect : COLLECT_MIN;
	keep += still_to_come(a, a->as->members[index]);
	return unused > keep ? (uint32_t)(unused - keep) : 0;
}

void array_rooms_locked(struct array *a, bool reserve, struct alloc_room *r)
{
	memset(r, 0, sizeof(*r));
	r->count = a->as->member_count;
	for (unsigned i = 0; i < r->count; i++) {
		r->writable[i] = member_writable(a->as->members[i]);
		if (r->writable[i])
			r->room[i] = array_room_locked(a, i, reserve);
	}
}

void array_use_reserve(struct array *a, bool on)
{
	pthread_mutex_lock(&a->lock);
	a->use_reserve = on;
	pthread_mutex_unlock(&a->lock);
}

/* ---- losing members -------------------------------------------------- */

static bool member_present(const struct member *m)
{
	return m->io && (m->state == MEMBER_ACTIVE ||
	    m->state == MEMBER_REPLACING);
}

void array_member_lost_locked(struct array *a, unsigned index,
    enum member_state state)
{
	struct member *m = a->as->members[index];

	if (!member_present(m))
		return;
	/* One that is being replaced is not waited for. */
	if (m->state == MEMBER_REPLACING)
		state = MEMBER_FAILED;
	m->state = state;
	a->members_changed = true;
	for (struct open_seg *os = a->opens; os; os = os->next)
		for (size_t i = 0; i < os->seg->s.width; i++)
			if (os->seg->s.member[i] == index)
				open_seg_full_locked(a, os);
	pthread_cond_broadcast(&a->changed);
}

static enum dev_seen member_look(const struct member *m)
{
	struct dev *d = mio_dev(m->io);

	return d->ops->look(d);
}

static void member_lost(struct array *a, unsigned index,
    enum member_state state, const char *why)
{
	struct member *m = a->as->members[index];
	bool news;

	pthread_mutex_lock(&a->lock);
	news = member_present(m) && !a->dead;
	array_member_lost_locked(a, index, state);
	pthread_mutex_unlock(&a->lock);
	if (!news)
		return;
	if (state == MEMBER_MISSING)
		atomic_fetch_add(&m->errors[MERR_VANISHED], 1);
	warn_add(a->warn, m->path, m->path ? strlen(m->path) : 0,
	    "this member is %s now: %s", member_state_name(state), why);
}

void array_member_failed(void *arg, unsigned member, const struct err *why)
{
	struct array *a = arg;
	struct member *m = a->as->members[member];
	bool gone = m->io && member_look(m) != DEV_SAME;

	member_lost(a, member, gone ? MEMBER_MISSING : MEMBER_FAILED,
	    why->text);
	if (why->code != ERR_CONFLICT)
		return;
	/* Not the member's fault: another host has the array. */
	pthread_mutex_lock(&a->lock);
	array_stop_locked(a, why);
	pthread_mutex_unlock(&a->lock);
}

void array_members_look(struct array *a)
{
	size_t count;

	pthread_mutex_lock(&a->lock);
	count = a->as->member_count;
	pthread_mutex_unlock(&a->lock);
	for (unsigned i = 0; i < count; i++) {
		const struct member *m = a->as->members[i];
		enum dev_seen seen = m->io ? member_look(m) : DEV_SAME;

		if (seen != DEV_SAME)
			member_lost(a, i, MEMBER_MISSING, seen == DEV_GONE ?
			    "its path leads nowhere" :
			    "another file or device is at its path");
	}
}

void array_check_members(struct array *a)
{
	struct err e;
	int rc;

	array_members_look(a);
	if (a->read_only || !array_commit_try(a))
		return;
	rc = array_members_commit(a, &e);
	if (rc != 0)
		warn_add(a->warn, NULL, 0, "%s", e.text);
	array_commit_leave(a);
}

struct member *array_member_find(struct array *a, const char *name)
{
	uint8_t uuid[RAID_UUID_SIZE];
	char hex[2 * RAID_UUID_SIZE + 1];
	size_t n = 0;

	for (const char *p = name; *p && n < sizeof(hex); p++)
		if (*p != '-')
			hex[n++] = *p;
	if (n < sizeof(hex))
		hex[n] = '\0';
	if (n != 2 * RAID_UUID_SIZE || hex_get(uuid, sizeof(uuid), hex) != 0)
		n = 0;
	for (size_t i = 0; i < a->as->member_count; i++) {
		struct member *m = a->as->members[i];

		if (m->state == MEMBER_REMOVED)
			continue;
		if ((n > 0 && memcmp(m->uuid, uuid, sizeof(uuid)) == 0) ||
		    (m->path && strcmp(m->path, name) == 0))
			return m;
	}
	return NULL;
}

/* Is it away, and is anything short of it?  A failed one is no loss any more
 * once all segments have full redundancy without it. */
static bool member_misses(struct array *a, unsigned index)
{
	const struct member *m = a->as->members[index];
	bool misses = a->map.count == 0;

	if (m->state == MEMBER_REMOVED || member_present(m))
		return false;
	if (m->state != MEMBER_FAILED)
		return true;
	for (size_t i = 0; i < a->map.count && !misses; i++) {
		const struct seg_state *s = &a->map.segs[i]->s;

		for (unsigned j = 0; j < s->width && !misses; j++)
			misses = s->member[j] == index &&
			    array_seg_reduced(a, s);
	}
	return misses;
}

/* ---- array_fail ------------------------------------------------------ */

/* Would a segment, or the array as such, be short of more than it has parity
 * for? */
static int fail_check(struct array *a, const struct member *m, struct err *e)
{
	unsigned away = 1;

	for (unsigned i = 0; i < a->as->member_count; i++)
		away += a->as->members[i] != m && member_misses(a, i);
	if (away > a->parity)
		return err_set(e, ERR_UNAVAILABLE, "%s cannot be set aside: "
		    "%u members would be away, the parity is %u", m->path,
		    away, a->parity);
	for (size_t i = 0; i < a->map.count; i++) {
		const struct seg_state *s = &a->map.segs[i]->s;
		unsigned lost = array_slots_away(a, s);

		for (unsigned j = 0; j < s->width; j++)
			if (s->member[j] == m->index &&
			    !array_slot_away(a, s, j) && lost >= s->parity)
				return err_set(e, ERR_UNAVAILABLE, "%s cannot "
				    "be set aside: segment %" PRIu64
				    " needs it", m->path, s->id);
	}
	return 0;
}

int array_fail(struct array *a, const char *name, struct err *e)
{
	struct member *m;
	int rc = 0;

	if (a->read_only)
		return err_set(e, ERR_DENIED, "the array is open read-only");
	if (array_commit_enter(a, e) != 0)
		return -1;
	pthread_mutex_lock(&a->lock);
	m = array_member_find(a, name);
	if (!m)
		rc = err_set(e, ERR_NOT_FOUND, "%s is no member", name);
	else if (m->state == MEMBER_MISSING)
		m->state = MEMBER_FAILED;
	else if (member_present(m))
		rc = fail_check(a, m, e);
	if (rc == 0) {
		array_member_lost_locked(a, m->index, MEMBER_FAILED);
		a->members_changed = true;
	}
	pthread_mutex_unlock(&a->lock);
	if (rc == 0)
		rc = array_members_commit(a, e);
	array_commit_leave(a);
	return rc;
}

/* ---- what is away ---------------------------------------------------- */

bool array_slot_away(struct array *a, const struct seg_state *s,
    unsigned slot)
{
	return s->absent_from[slot] < s->rows ||
	    !member_present(a->as->members[s->member[slot]]);
}

unsigned array_slots_away(struct array *a, const struct seg_state *s)
{
	unsigned n = 0;

	for (unsigned i = 0; i < s->width; i++)
		n += array_slot_away(a, s, i);
	return n;
}

bool array_seg_reduced(struct array *a, const struct seg_state *s)
{
	return s->parity < a->parity + array_slots_away(a, s);
}

/* Only new segments can give back what is missing: born narrower than members
 * allow by now, or a strip on a failed member and nobody to take it. */
static bool wants_rewrite(struct array *a, const struct seg_state *s,
    const struct alloc_room *r)
{
	bool dead = false, narrow, taker = false;
	unsigned writable = 0;

	for (size_t j = 0; j < s->width; j++)
		dead = dead || a->as->members[s->member[j]]->state ==
		    MEMBER_FAILED;
	narrow = s->parity < a->parity && array_seg_reduced(a, s);
	if (!dead && !narrow)
		return false;
	for (size_t i = 0; i < r->count; i++) {
		bool in = false;

		for (size_t j = 0; j < s->width; j++)
			in = in || s->member[j] == i;
		writable += r->writable[i];
		taker = taker || (!in && r->room[i] > 0);
	}
	return (narrow && writable > s->parity + 1u) ||
	    (dead && !taker && writable > a->parity);
}

bool array_wants_rewrite(struct array *a)
{
	struct alloc_room r;
	bool wants = false;

	pthread_mutex_lock(&a->lock);
	array_rooms_locked(a, true, &r);
	for (size_t i = 0; !a->read_only && !a->stopped && !wants &&
	    i < a->map.count; i++) {
		const struct seg *s = a->map.segs[i];

		wants = s->durable && !s->freed &&
		    (s->s.sealed || (s->open && s->open->full)) &&
		    wants_rewrite(a, &s->s, &r);
	}
	pthread_mutex_unlock(&a->lock);
	return wants;
}

/* ---- segments -------------------------------------------------------- */

static void info_fill(struct array *a, const struct seg *s,
    struct segment_info *out)
{
	const struct seg_state *st = &s->s;
	struct alloc_room r;

	array_rooms_locked(a, true, &r);
	*out = (struct segment_info){
		.id = st->id,
		.class = (enum seg_class)st->class,
		.open = s->open != NULL,
		.sealed = st->sealed,
		.reduced = array_seg_reduced(a, st),
		.wants_rewrite = wants_rewrite(a, st, &r),
		.away = (uint8_t)array_slots_away(a, st),
		.width = st->width,
		.parity = st->parity,
		.frame_bytes = st->frame_bytes,
		.used_bytes = st->used_bytes,
		.capacity = alloc_strip_room(a->extent_rows, 0) * seg_k(st),
		.birth_flush = st->birth_flush,
		.last_flush = st->last_flush,
		.verified_s = st->verified_s,
		.table = st->table,
	};
}

int array_segment(struct array *a, uint64_t id, struct segment_info *out,
    struct err *e)
{
	struct seg *s;
	bool found;

	pthread_mutex_lock(&a->lock);
	s = map_find(&a->map, id);
	found = s && s->durable && !s->freed;
	if (found)
		info_fill(a, s, out);
	pthread_mutex_unlock(&a->lock);
	if (!found)
		return err_set(e, ERR_NOT_FOUND, "there is no segment %"
		    PRIu64, id);
	return 0;
}

size_t array_segments(struct array *a, uint64_t after, uint64_t *out,
    size_t max)
{
	size_t n = 0;

	pthread_mutex_lock(&a->lock);
	for (size_t i = map_after(&a->map, after); i < a->map.count && n < max;
	    i++)
		if (a->map.segs[i]->durable && !a->map.segs[i]->freed)
			out[n++] = a->map.segs[i]->s.id;
	pthread_mutex_unlock(&a->lock);
	return n;
}

uint64_t array_last_free_flush(struct array *a)
{
	uint64_t flush;

	pthread_mutex_lock(&a->lock);
	flush = a->last_free_flush;
	pthread_mutex_unlock(&a->lock);
	return flush;
}

/* ---- reports --------------------------------------------------------- */

const char *member_state_name(enum member_state s)
{
	static const char *const names[] = {
		[MEMBER_ACTIVE] = "active",
		[MEMBER_MISSING] = "missing",
		[MEMBER_FAILED] = "failed",
		[MEMBER_REPLACING] = "replacing",
		[MEMBER_REMOVED] = "removed",
	};

	return (unsigned)s <= MEMBER_REMOVED && names[s] ? names[s] : "?";
}

const char *array_error_name(size_t kind)
{
	static const char *const names[ARRAY_ERROR_KINDS] = {
		[MERR_READ] = "read",
		[MERR_WRITE] = "write",
		[MERR_FLUSH] = "flush",
		[MERR_CHECKSUM] = "checksum",
		[MERR_STALE] = "stale",
		[MERR_MISDIRECTED] = "misdirected",
		[MERR_TIMEOUT] = "timeout",
		[MERR_VANISHED] = "vanished",
	};

	return kind < ARRAY_ERROR_KINDS ? names[kind] : "?";
}

/* What SEG_DATA can take: the open segment's rest, and new segments by the
 * allocator on a copy. */
static uint64_t free_bytes_locked(struct array *a)
{
	const struct open_seg *os = a->current[SEG_DATA];
	uint64_t bytes = os ? os->room : 0;
	struct alloc_room r;

	if (os)
		bytes -= os->reserved < bytes ? os->reserved : bytes;
	array_rooms_locked(a, a->use_reserve, &r);
	return bytes + alloc_free_bytes(&r, a->parity, a->extent_rows);
}

void array_info(struct array *a, struct array_info *out)
{
	uint64_t bytes = log_bytes(a->log);
	struct log_position pos;
	unsigned writable = 0;

	log_position(a->log, &pos);
	memset(out, 0, sizeof(*out));
	out->log_bytes = bytes;
	out->event = pos.event;
	out->parity = a->parity;
	out->extent_size = a->extent_size;
	pthread_mutex_lock(&a->lock);
	out->read_only = a->read_only || a->stopped;
	out->flush = a->flush;
	for (unsigned i = 0; i < a->as->member_count; i++) {
		const struct member *m = a->as->members[i];

		out->member_count += m->state != MEMBER_REMOVED;
		writable += member_writable(m);
		out->degraded = out->degraded || member_misses(a, i);
	}
	for (size_t i = 0; i < a->map.count; i++) {
		const struct seg *s = a->map.segs[i];

		if (!s->durable || s->freed)
			continue;
		out->segments++;
		out->used_bytes += s->s.frame_bytes;
		out->segments_reduced += array_seg_reduced(a, &s->s);
	}
	out->reduced = out->segments_reduced > 0;
	out->writes_reduced = writable <= a->parity;
	out->free_bytes = free_bytes_locked(a);
	pthread_mutex_unlock(&a->lock);
}

size_t array_members(struct array *a, struct member_info *out, size_t max)
{
	size_t n = 0;

	pthread_mutex_lock(&a->lock);
	for (unsigned i = 0; i < a->as->member_count && n < max; i++) {
		struct member *m = a->as->members[i];
		struct member_info *mi = &out[n++];

		memset(mi, 0, sizeof(*mi));
		mi->index = i;
		memcpy(mi->uuid, m->uuid, RAID_UUID_SIZE);
		mi->state = m->state;
		snprintf(mi->path, sizeof(mi->path), "%s",
		    m->path ? m->path : "");
		mi->size = m->size;
		mi->empty = a->alloc.m[i].used <= a->log_extents[i];
		mi->used_bytes = a->alloc.m[i].used * a->extent_size;
		mi->free_bytes = alloc_free(&a->alloc, i) * a->extent_size;
		for (size_t j = 0; j < ARRAY_ERROR_KINDS; j++)
			mi->errors[j] = atomic_load(&m->errors[j]);
		mi->read_bytes = atomic_load(&m->read_bytes);
		mi->written_bytes = atomic_load(&m->written_bytes);
		mi->slow_ms_max = m->io ? mio_slow_ms(m->io) : 0;
	}
	pthread_mutex_unlock(&a->lock);
	return n;
}
