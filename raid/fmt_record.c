#include "raid/fmt_record.h"

#include "base/le.h"
#include "raid/log.h"

#include <assert.h>
#include <string.h>

static const uint8_t zero[16];

/* ---- facts ------------------------------------------------------------ */

size_t rec_fact_put(uint8_t *out, const struct rec_fact *f)
{
	assert(f->key_size >= 1 && f->key_size <= RAID_KEY_MAX);
	assert(f->value_size <= RAID_VALUE_MAX);
	le16_put(out, (uint16_t)f->key_size);
	le16_put(out + 2, 0);
	memcpy(out + REC_FACT_HEAD, f->key, f->key_size);
	if (f->value_size > 0)
		memcpy(out + REC_FACT_HEAD + f->key_size, f->value,
		    f->value_size);
	return REC_FACT_HEAD + f->key_size + f->value_size;
}

int rec_fact_get(struct rec_fact *f, uint16_t type, const uint8_t *body,
    size_t size, struct err *e)
{
	size_t key_size;

	if (size < REC_FACT_HEAD || le16_get(body + 2) != 0)
		return err_set(e, ERR_CORRUPT, "fact of %zu bytes", size);
	key_size = le16_get(body);
	if (key_size < 1 || key_size > RAID_KEY_MAX ||
	    key_size > size - REC_FACT_HEAD)
		return err_set(e, ERR_CORRUPT, "fact with a key of %zu bytes",
		    key_size);
	f->key = body + REC_FACT_HEAD;
	f->key_size = key_size;
	f->value = f->key + key_size;
	f->value_size = size - REC_FACT_HEAD - key_size;
	if (f->value_size > (type == REC_FACT_SET ? RAID_VALUE_MAX : 0))
		return err_set(e, ERR_CORRUPT,
		    "fact with a value of %zu bytes", f->value_size);
	return 0;
}

/* ---- reserved ids ----------------------------------------------------- */

void rec_id_reserve_put(uint8_t out[static REC_ID_RESERVE_SIZE],
    uint64_t limit)
{
	le64_put(out, limit);
}

int rec_id_reserve_get(uint64_t *limit, const uint8_t *body, size_t size,
    struct err *e)
{
	if (size != REC_ID_RESERVE_SIZE)
		return err_set(e, ERR_CORRUPT, "id reservation of %zu bytes",
		    size);
	*limit = le64_get(body);
	return 0;
}

/* ---- epochs ----------------------------------------------------------- */

enum { EP_RUN = 8, EP_FIRST = 24, EP_SET = 32, EP_WHY = 40, EP_TIME = 48,
	EP_ANSWERED = 56 };

void rec_epoch_put(uint8_t out[static REC_EPOCH_SIZE],
    const struct rec_epoch *p)
{
	memset(out, 0, REC_EPOCH_SIZE);
	le64_put(out, p->event);
	memcpy(out + EP_RUN, p->run, sizeof(p->run));
	le64_put(out + EP_FIRST, p->first);
	le64_put(out + EP_SET, p->set);
	out[EP_WHY] = (uint8_t)p->why;
	le64_put(out + EP_TIME, (uint64_t)p->time_s);
	le64_put(out + EP_ANSWERED, p->answered);
}

int rec_epoch_get(struct rec_epoch *p, const uint8_t *body, size_t size,
    struct err *e)
{
	if (size != REC_EPOCH_SIZE ||
	    (body[EP_WHY] != EPOCH_OPEN && body[EP_WHY] != EPOCH_CHANGE))
		return err_set(e, ERR_CORRUPT, "epoch of %zu bytes, kind %u",
		    size, size > EP_WHY ? body[EP_WHY] : 0u);
	if (memcmp(body + EP_WHY + 1, zero, EP_TIME - EP_WHY - 1) != 0)
		return err_set(e, ERR_CORRUPT, "epoch with reserved bytes");
	p->event = le64_get(body);
	memcpy(p->run, body + EP_RUN, sizeof(p->run));
	p->first = le64_get(body + EP_FIRST);
	p->set = le64_get(body + EP_SET);
	p->why = (enum epoch_why)body[EP_WHY];
	p->time_s = (int64_t)le64_get(body + EP_TIME);
	p->answered = le64_get(body + EP_ANSWERED);
	return 0;
}

/* ---- members ---------------------------------------------------------- */

enum { MB_REPLACED_BY = 16, MB_SIZE = 32, MB_EXTENT_COUNT = 40,
	MB_STATE = 44, MB_ERRORS = 48 };

_Static_assert(MB_ERRORS + 8 * ARRAY_ERROR_KINDS == REC_MEMBER_SIZE,
    "the counters come last");

void rec_member_put(uint8_t out[static REC_MEMBER_SIZE],
    const struct rec_member *m)
{
	memset(out, 0, REC_MEMBER_SIZE);
	memcpy(out, m->uuid, RAID_UUID_SIZE);
	memcpy(out + MB_REPLACED_BY, m->replaced_by, RAID_UUID_SIZE);
	le64_put(out + MB_SIZE, m->size);
	le32_put(out + MB_EXTENT_COUNT, m->extent_count);
	out[MB_STATE] = (uint8_t)m->state;
	for (size_t i = 0; i < ARRAY_ERROR_KINDS; i++)
		le64_put(out + MB_ERRORS + 8 * i, m->errors[i]);
}

int rec_member_get(struct rec_member *m,
    const uint8_t in[static REC_MEMBER_SIZE], struct err *e)
{
	if (in[MB_STATE] < MEMBER_ACTIVE || in[MB_STATE] > MEMBER_REMOVED)
		return err_set(e, ERR_CORRUPT, "member of unknown state %u",
		    in[MB_STATE]);
	if (memcmp(in + MB_STATE + 1, zero, MB_ERRORS - MB_STATE - 1) != 0)
		return err_set(e, ERR_CORRUPT, "member with reserved bytes");
	memcpy(m->uuid, in, RAID_UUID_SIZE);
	memcpy(m->replaced_by, in + MB_REPLACED_BY, RAID_UUID_SIZE);
	m->size = le64_get(in + MB_SIZE);
	m->extent_count = le32_get(in + MB_EXTENT_COUNT);
	m->state = (enum member_state)in[MB_STATE];
	for (size_t i = 0; i < ARRAY_ERROR_KINDS; i++)
		m->errors[i] = le64_get(in + MB_ERRORS + 8 * i);
	return 0;
}

/* ---- links ------------------------------------------------------------ */

size_t rec_link_put(uint8_t out[static REC_LINK_MAX],
    const uint32_t extent[static RAID_MEMBERS_MAX])
{
	uint8_t *p = out + REC_LINK_HEAD;
	uint16_t count = 0;

	memset(out, 0, REC_LINK_MAX);
	for (uint16_t i = 0; i < RAID_MEMBERS_MAX; i++) {
		if (extent[i] == LOG_NO_EXTENT)
			continue;
		le16_put(p, i);
		le32_put(p + 4, extent[i]);
		p += REC_LINK_ENTRY;
		count++;
	}
	le16_put(out, count);
	return (size_t)(p - out);
}

int rec_link_get(uint32_t extent[static RAID_MEMBERS_MAX],
    const uint8_t *body, size_t size, struct err *e)
{
	uint32_t got[RAID_MEMBERS_MAX];
	unsigned next = 0;

	if (size < REC_LINK_HEAD || size > REC_LINK_MAX ||
	    le16_get(body + 2) != 0 ||
	    size != REC_LINK_HEAD + (size_t)le16_get(body) * REC_LINK_ENTRY)
		return err_set(e, ERR_CORRUPT, "link of %zu bytes", size);
	for (size_t i = 0; i < RAID_MEMBERS_MAX; i++)
		got[i] = LOG_NO_EXTENT;
	for (const uint8_t *p = body + REC_LINK_HEAD; p < body + size;
	    p += REC_LINK_ENTRY) {
		unsigned i = le16_get(p);

		if (i < next || i >= RAID_MEMBERS_MAX ||
		    le16_get(p + 2) != 0 || le32_get(p + 4) == LOG_NO_EXTENT)
			return err_set(e, ERR_CORRUPT,
			    "link with a bad entry for member %u", i);
		got[i] = le32_get(p + 4);
		next = i + 1;
	}
	memcpy(extent, got, sizeof(got));
	return 0;
}
