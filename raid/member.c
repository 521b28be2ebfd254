/*
 * raid/member.c - where things lie on a member, and what may be asked of it.
 *
 * The slot in the middle splits the extents in two: `low` of them lie before
 * it, the rest begins 64 KiB after it.  Its place follows from the size of the
 * device alone, so that it is found without knowing the extent size.
 */
#include "raid/member.h"

#include "raid/mio.h"

#include <stdlib.h>

#define GRAIN (UINT64_C(64) << 10)
#define MIB (UINT64_C(1) << 20)
#define EXTENTS_AT (2 * MIB)

struct member *member_new(void)
{
	struct member *m = calloc(1, sizeof(*m));

	if (m)
		m->state = MEMBER_MISSING;
	return m;
}

void member_free(struct member *m)
{
	if (!m)
		return;
	mio_free(m->io);
	free(m->path);
	free(m);
}

static uint64_t middle(uint64_t size)
{
	return size / 2 / GRAIN * GRAIN;
}

uint64_t member_slot_offset(uint64_t size, unsigned slot)
{
	switch (slot) {
	case 0:
		return MIB;
	case 1:
		return MIB + GRAIN;
	case 2:
		return middle(size);
	default:
		return size / GRAIN * GRAIN - 2 * MIB;
	}
}

static uint64_t extents_below(uint64_t size, uint64_t extent_size)
{
	return (middle(size) - EXTENTS_AT) / extent_size;
}

uint64_t member_extents_in(uint64_t size, uint64_t extent_size)
{
	uint64_t from, to;

	if (size < 16 * MIB)
		return 0;
	from = middle(size) + GRAIN;
	to = member_slot_offset(size, 3);
	return extents_below(size, extent_size) + (to - from) / extent_size;
}

uint64_t member_extent_offset(const struct member *m, uint32_t extent)
{
	uint64_t low = extents_below(m->size, m->extent_size);

	if (extent < low)
		return EXTENTS_AT + extent * m->extent_size;
	return middle(m->size) + GRAIN + (extent - low) * m->extent_size;
}

bool member_readable(const struct member *m)
{
	return m->io && m->state != MEMBER_REMOVED;
}

bool member_writable(const struct member *m)
{
	return m->io && m->state == MEMBER_ACTIVE;
}
