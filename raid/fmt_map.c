#include "raid/fmt_map.h"

#include "base/le.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { AT_ID = 0, AT_NONCE = 8, AT_CLASS = 16, AT_WIDTH = 17,
	AT_PARITY = 18, AT_FLAGS = 19, AT_ROWS = 20, AT_USED = 24,
	AT_FRAMES = 32, AT_BIRTH = 40, AT_LAST = 48, AT_VERIFIED = 56,
	AT_TABLE = 64 };

_Static_assert(AT_TABLE + PLACE_SIZE == REC_SEGMENT_HEAD, "slots follow");

#define FLAG_SEALED 1u

size_t rec_segment_put(uint8_t out[static REC_SEGMENT_MAX],
    const struct seg_state *s)
{
	assert(s->width >= 1 && s->width <= SEG_WIDTH_MAX);
	assert(s->parity < s->width);

	le64_put(out + AT_ID, s->id);
	le64_put(out + AT_NONCE, s->nonce);
	out[AT_CLASS] = s->class;
	out[AT_WIDTH] = s->width;
	out[AT_PARITY] = s->parity;
	out[AT_FLAGS] = s->sealed ? FLAG_SEALED : 0;
	le32_put(out + AT_ROWS, s->rows);
	le64_put(out + AT_USED, s->used_bytes);
	le64_put(out + AT_FRAMES, s->frame_bytes);
	le64_put(out + AT_BIRTH, s->birth_flush);
	le64_put(out + AT_LAST, s->last_flush);
	le64_put(out + AT_VERIFIED, s->verified_s);
	place_put(out + AT_TABLE, &s->table);
	for (size_t i = 0; i < s->width; i++) {
		uint8_t *slot = out + REC_SEGMENT_HEAD + REC_SEGMENT_SLOT * i;

		memset(slot, 0, 4);
		slot[0] = s->member[i];
		le32_put(slot + 4, s->extent[i]);
		le32_put(slot + 8, s->absent_from[i]);
	}
	return REC_SEGMENT_HEAD + REC_SEGMENT_SLOT * (size_t)s->width;
}

static int bad(struct err *e, const char *what, uint64_t id)
{
	return err_set(e, ERR_CORRUPT, "log record of segment %" PRIu64
	    ": %s out of range", id, what);
}

/* No member twice, reserved bytes zero. */
static bool slots_sound(struct seg_state *s, const uint8_t *body)
{
	uint64_t seen = 0;

	for (size_t i = 0; i < s->width; i++) {
		const uint8_t *in = body + REC_SEGMENT_HEAD +
		    REC_SEGMENT_SLOT * i;

		s->member[i] = in[0];
		s->extent[i] = le32_get(in + 4);
		s->absent_from[i] = le32_get(in + 8);
		if (in[0] >= RAID_MEMBERS_MAX || in[1] || in[2] || in[3] ||
		    (seen >> in[0] & 1) != 0)
			return false;
		seen |= UINT64_C(1) << in[0];
	}
	return true;
}

int rec_segment_get(struct seg_state *s, const uint8_t *body, size_t size,
    struct err *e)
{
	struct seg_state got = { .id = 0 };

	if (size < REC_SEGMENT_HEAD)
		return bad(e, "size", 0);
	got.id = le64_get(body + AT_ID);
	got.nonce = le64_get(body + AT_NONCE);
	got.class = body[AT_CLASS];
	got.width = body[AT_WIDTH];
	got.parity = body[AT_PARITY];
	got.sealed = body[AT_FLAGS] == FLAG_SEALED;
	got.rows = le32_get(body + AT_ROWS);
	got.used_bytes = le64_get(body + AT_USED);
	got.frame_bytes = le64_get(body + AT_FRAMES);
	got.birth_flush = le64_get(body + AT_BIRTH);
	got.last_flush = le64_get(body + AT_LAST);
	got.verified_s = le64_get(body + AT_VERIFIED);
	if (got.id == 0 || got.id >> 40 != 0 || got.class >= SEG_CLASSES ||
	    got.width < 1 || got.width > SEG_WIDTH_MAX ||
	    got.parity >= got.width || got.parity > SEG_PARITY_MAX ||
	    body[AT_FLAGS] > FLAG_SEALED || got.rows > 0xffffff)
		return bad(e, "geometry", got.id);
	if (size != REC_SEGMENT_HEAD + REC_SEGMENT_SLOT * (size_t)got.width ||
	    !slots_sound(&got, body))
		return bad(e, "a slot", got.id);
	if (place_get(&got.table, body + AT_TABLE, e) != 0)
		return -1;
	*s = got;
	return 0;
}

void rec_u64_put(uint8_t out[static 8], uint64_t v)
{
	le64_put(out, v);
}

int rec_u64_get(uint64_t *v, const uint8_t *body, size_t size, struct err *e)
{
	if (size != 8)
		return bad(e, "size", 0);
	*v = le64_get(body);
	return 0;
}

void rec_verified_put(uint8_t out[static REC_VERIFIED_ENTRY],
    const struct rec_verified *v)
{
	le64_put(out, v->id);
	le64_put(out + 8, v->when_s);
}

void rec_verified_get(struct rec_verified *v,
    const uint8_t in[static REC_VERIFIED_ENTRY])
{
	v->id = le64_get(in);
	v->when_s = le64_get(in + 8);
}

void rec_moved_put(uint8_t out[static REC_MOVED_SIZE],
    const struct rec_moved *m)
{
	memset(out, 0, REC_MOVED_SIZE);
	le64_put(out, m->id);
	out[8] = m->slot;
	out[9] = m->member;
	le32_put(out + 12, m->extent);
}

int rec_moved_get(struct rec_moved *m, const uint8_t *body, size_t size,
    struct err *e)
{
	if (size != REC_MOVED_SIZE)
		return bad(e, "size", 0);
	if (body[8] >= SEG_WIDTH_MAX || body[9] >= RAID_MEMBERS_MAX ||
	    body[10] != 0 || body[11] != 0)
		return bad(e, "a move", le64_get(body));
	m->id = le64_get(body);
	m->slot = body[8];
	m->member = body[9];
	m->extent = le32_get(body + 12);
	return 0;
}
