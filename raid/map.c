#include "raid/map.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void map_init(struct map *m)
{
	memset(m, 0, sizeof(*m));
}

void map_release(struct map *m)
{
	for (size_t i = 0; i < m->count; i++)
		free(m->segs[i]);
	free(m->segs);
	map_init(m);
}

size_t map_after(const struct map *m, uint64_t id)
{
	size_t low = 0, high = m->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (m->segs[mid]->s.id <= id)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

struct seg *map_find(const struct map *m, uint64_t id)
{
	size_t i = map_after(m, id);

	if (i == 0 || m->segs[i - 1]->s.id != id)
		return NULL;
	return m->segs[i - 1];
}

static int grow(struct map *m, struct err *e)
{
	size_t cap = m->cap ? m->cap * 2 : 64;
	struct seg **segs;

	if (m->count < m->cap)
		return 0;
	segs = realloc(m->segs, cap * sizeof(*segs));
	if (!segs)
		return err_set(e, ERR_NO_MEMORY, "no memory for %zu segments",
		    cap);
	m->segs = segs;
	m->cap = cap;
	return 0;
}

int map_add(struct map *m, uint64_t id, struct seg **out, struct err *e)
{
	size_t at = map_after(m, id);
	struct seg *s;

	if (at > 0 && m->segs[at - 1]->s.id == id)
		return err_set(e, ERR_EXISTS, "segment %" PRIu64
		    " is already there", id);
	if (grow(m, e) != 0)
		return -1;
	s = calloc(1, sizeof(*s));
	if (!s)
		return err_set(e, ERR_NO_MEMORY, "no memory for a segment");
	s->s.id = id;
	memset(s->s.absent_from, 0xff, sizeof(s->s.absent_from));
	memmove(m->segs + at + 1, m->segs + at,
	    (m->count - at) * sizeof(*m->segs));
	m->segs[at] = s;
	m->count++;
	*out = s;
	return 0;
}

void map_drop(struct map *m, struct seg *s)
{
	size_t at = map_after(m, s->s.id);

	assert(at > 0 && m->segs[at - 1] == s);
	memmove(m->segs + at - 1, m->segs + at,
	    (m->count - at) * sizeof(*m->segs));
	m->count--;
	free(s);
}

static int replay_segment(struct map *m, const uint8_t *body, size_t size,
    struct err *e)
{
	struct seg_state state;
	struct seg *s;

	if (rec_segment_get(&state, body, size, e) != 0)
		return -1;
	s = map_find(m, state.id);
	if (!s && map_add(m, state.id, &s, e) != 0)
		return -1;
	s->s = state;
	s->durable = true;
	return 0;
}

static int replay_freed(struct map *m, const uint8_t *body, size_t size,
    struct err *e)
{
	struct seg *s;
	uint64_t id;

	if (rec_u64_get(&id, body, size, e) != 0)
		return -1;
	s = map_find(m, id);
	if (!s)
		return err_set(e, ERR_CORRUPT, "the log frees segment %" PRIu64
		    ", which is not there", id);
	map_drop(m, s);
	return 0;
}

static int replay_verified(struct map *m, const uint8_t *body, size_t size,
    struct err *e)
{
	struct rec_verified v;
	struct seg *s;

	if (size % REC_VERIFIED_ENTRY != 0)
		return err_set(e, ERR_CORRUPT, "a verify record of %zu bytes",
		    size);
	for (size_t at = 0; at < size; at += REC_VERIFIED_ENTRY) {
		rec_verified_get(&v, body + at);
		s = map_find(m, v.id);
		if (s)
			s->s.verified_s = v.when_s;
	}
	return 0;
}

static int replay_moved(struct map *m, const uint8_t *body, size_t size,
    struct err *e)
{
	struct rec_moved r;
	struct seg *s;

	if (rec_moved_get(&r, body, size, e) != 0)
		return -1;
	s = map_find(m, r.id);
	if (!s || r.slot >= s->s.width)
		return err_set(e, ERR_CORRUPT, "the log moves a strip of "
		    "segment %" PRIu64 ", which has no such slot", r.id);
	s->s.member[r.slot] = r.member;
	s->s.extent[r.slot] = r.extent;
	s->s.absent_from[r.slot] = ROW_NONE;
	return 0;
}

int map_replay(struct map *m, uint16_t type, const uint8_t *body,
    size_t size, uint64_t flush, uint64_t *last_free, struct err *e)
{
	switch (type) {
	case REC_SEGMENT:
		return replay_segment(m, body, size, e);
	case REC_SEGMENT_FREED:
		*last_free = flush;
		return replay_freed(m, body, size, e);
	case REC_SEGMENT_VERIFIED:
		return replay_verified(m, body, size, e);
	case REC_SEGMENT_MOVED:
		return replay_moved(m, body, size, e);
	case REC_SEGMENT_LAST_FREE:
		return rec_u64_get(last_free, body, size, e);
	default:
		return err_set(e, ERR_VERSION, "log record of type %u is not "
		    "known", type);
	}
}
