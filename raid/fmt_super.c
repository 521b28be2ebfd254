#include "raid/fmt_super.h"

#include "base/hash.h"
#include "base/le.h"
#include "raid/log.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

enum { AT_VERSION = 8, AT_FLAGS = 12, AT_ARRAY = 16, AT_MEMBER = 32,
	AT_INDEX = 48, AT_COUNT = 50, AT_SLOT = 52, AT_PARITY = 53,
	AT_WRITE_SEQ = 56, AT_EVENT = 64, AT_EXTENT_SIZE = 72,
	AT_GENERATION = 80, AT_CREATED = 88, AT_TABLE = 256, AT_SUM = 8184 };

enum { E_REPLACED_BY = 16, E_SIZE = 32, E_EXTENT_COUNT = 40, E_ROOT = 44,
	E_STATE = 48, E_SIZE_OF = 64 };

_Static_assert(AT_SUM + 8 == SUPER_SIZE, "the checksum comes last");
_Static_assert(AT_TABLE + RAID_MEMBERS_MAX * E_SIZE_OF <= AT_SUM,
    "the table fits");

#define FLAGS_MUST_KNOW 0xffffu

static const uint8_t super_magic[8] = "BKARRAY\n";

static void entry_put(uint8_t *p, const struct super_entry *m)
{
	memcpy(p, m->uuid, RAID_UUID_SIZE);
	memcpy(p + E_REPLACED_BY, m->replaced_by, RAID_UUID_SIZE);
	le64_put(p + E_SIZE, m->size);
	le32_put(p + E_EXTENT_COUNT, m->extent_count);
	le32_put(p + E_ROOT, m->root);
	p[E_STATE] = (uint8_t)m->state;
}

void super_put(uint8_t out[static SUPER_SIZE], const struct super *s)
{
	assert(s->count >= 1 && s->count <= RAID_MEMBERS_MAX);
	assert(s->index < s->count && s->slot < 4 && s->parity <= 2);
	memset(out, 0, SUPER_SIZE);
	memcpy(out, super_magic, sizeof(super_magic));
	le32_put(out + AT_VERSION, SUPER_VERSION);
	memcpy(out + AT_ARRAY, s->array, RAID_UUID_SIZE);
	memcpy(out + AT_MEMBER, s->member, RAID_UUID_SIZE);
	le16_put(out + AT_INDEX, s->index);
	le16_put(out + AT_COUNT, s->count);
	out[AT_SLOT] = s->slot;
	out[AT_PARITY] = s->parity;
	le64_put(out + AT_WRITE_SEQ, s->write_seq);
	le64_put(out + AT_EVENT, s->event);
	le64_put(out + AT_EXTENT_SIZE, s->extent_size);
	le64_put(out + AT_GENERATION, s->generation);
	le64_put(out + AT_CREATED, (uint64_t)s->created_s);
	for (size_t i = 0; i < s->count; i++)
		entry_put(out + AT_TABLE + i * E_SIZE_OF, &s->table[i]);
	le64_put(out + AT_SUM, crc64(0, out, AT_SUM));
}

static int entry_get(struct super_entry *m, const uint8_t *p, size_t i,
    struct err *e)
{
	memcpy(m->uuid, p, RAID_UUID_SIZE);
	memcpy(m->replaced_by, p + E_REPLACED_BY, RAID_UUID_SIZE);
	m->size = le64_get(p + E_SIZE);
	m->extent_count = le32_get(p + E_EXTENT_COUNT);
	m->root = le32_get(p + E_ROOT);
	m->state = (enum member_state)p[E_STATE];
	if (p[E_STATE] < MEMBER_ACTIVE || p[E_STATE] > MEMBER_REMOVED)
		return err_set(e, ERR_CORRUPT,
		    "superblock: member %zu has the unknown state %u", i,
		    p[E_STATE]);
	if (m->root != LOG_NO_EXTENT && m->root >= m->extent_count)
		return err_set(e, ERR_CORRUPT, "superblock: the log of member "
		    "%zu begins beyond its extents", i);
	return 0;
}

static int bounds_check(const struct super *s, struct err *e)
{
	uint64_t x = s->extent_size;

	if (s->count < 1 || s->count > RAID_MEMBERS_MAX ||
	    s->index >= s->count || s->slot >= 4 || s->parity > 2)
		return err_set(e, ERR_CORRUPT,
		    "superblock: member %u of %u, slot %u, parity %u",
		    s->index, s->count, s->slot, s->parity);
	if (x < RAID_EXTENT_MIN || x > RAID_EXTENT_MAX || (x & (x - 1)) != 0)
		return err_set(e, ERR_CORRUPT,
		    "superblock: extent size %" PRIu64, x);
	return 0;
}

static int table_get(struct super *s, const uint8_t *in, struct err *e)
{
	for (size_t i = 0; i < s->count; i++) {
		struct super_entry *m = &s->table[i];

		if (entry_get(m, in + AT_TABLE + i * E_SIZE_OF, i, e) != 0)
			return -1;
		/* Kept so that place arithmetic cannot overflow. */
		if (m->extent_count > RAID_EXTENTS_MAX ||
		    m->size > INT64_MAX ||
		    m->extent_count > m->size / s->extent_size)
			return err_set(e, ERR_CORRUPT, "superblock: member "
			    "%zu has %u extents in %" PRIu64 " bytes", i,
			    m->extent_count, m->size);
	}
	if (memcmp(s->table[s->index].uuid, s->member, RAID_UUID_SIZE) != 0)
		return err_set(e, ERR_CORRUPT,
		    "superblock: member %u is not in its own table", s->index);
	return 0;
}

static int head_check(const uint8_t *in, size_t size, struct err *e)
{
	uint32_t flags;

	if (size < SUPER_SIZE ||
	    memcmp(in, super_magic, sizeof(super_magic)) != 0)
		return err_set(e, ERR_NOT_FOUND, "no superblock here");
	if (le64_get(in + AT_SUM) != crc64(0, in, AT_SUM))
		return err_set(e, ERR_CORRUPT, "superblock: wrong checksum");
	flags = le32_get(in + AT_FLAGS);
	if (le32_get(in + AT_VERSION) != SUPER_VERSION ||
	    (flags & FLAGS_MUST_KNOW) != 0)
		return err_set(e, ERR_VERSION, "superblock: version %u, flags "
		    "%#x are of a newer program", le32_get(in + AT_VERSION),
		    flags);
	return 0;
}

/* Whatever is not a field must be as super_put() leaves it. */
static bool reserved_zero(const struct super *s, const uint8_t *in)
{
	uint8_t again[SUPER_SIZE];

	super_put(again, s);
	memcpy(again + AT_FLAGS, in + AT_FLAGS, 4);
	return memcmp(again, in, AT_SUM) == 0;
}

int super_get(struct super *s, const uint8_t *in, size_t size, struct err *e)
{
	struct super got = { .count = 0 };

	if (head_check(in, size, e) != 0)
		return -1;
	memcpy(got.array, in + AT_ARRAY, RAID_UUID_SIZE);
	memcpy(got.member, in + AT_MEMBER, RAID_UUID_SIZE);
	got.index = le16_get(in + AT_INDEX);
	got.count = le16_get(in + AT_COUNT);
	got.slot = in[AT_SLOT];
	got.parity = in[AT_PARITY];
	got.write_seq = le64_get(in + AT_WRITE_SEQ);
	got.event = le64_get(in + AT_EVENT);
	got.extent_size = le64_get(in + AT_EXTENT_SIZE);
	got.generation = le64_get(in + AT_GENERATION);
	got.created_s = (int64_t)le64_get(in + AT_CREATED);
	if (bounds_check(&got, e) != 0 || table_get(&got, in, e) != 0)
		return -1;
	if (!reserved_zero(&got, in))
		return err_set(e, ERR_CORRUPT,
		    "superblock: reserved bytes are not zero");
	*s = got;
	return 0;
}
