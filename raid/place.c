#include "raid/place.h"

#include "base/le.h"
#include "raid/array.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

/* Offsets of raid/place.h. */
enum { AT_SEGMENT = 0, AT_ROW = 5, AT_OFFSET = 8, AT_SIZE = 11, AT_LAST = 14,
	AT_RESERVED = 15 };

#define BITS24 0xffffffu
#define LAST_MAX (RAID_STRIP_MAX / RAID_ROW)

static void put24(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 3; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint32_t get24(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16;
}

void place_put(uint8_t out[static PLACE_SIZE], const struct place *p)
{
	assert(p->segment < UINT64_C(1) << 40);
	assert(p->row <= BITS24 && p->offset <= BITS24 && p->size <= BITS24);
	assert(p->last <= LAST_MAX);
	for (int i = 0; i < 5; i++)
		out[AT_SEGMENT + i] = (uint8_t)(p->segment >> (8 * i));
	put24(out + AT_ROW, p->row);
	put24(out + AT_OFFSET, p->offset);
	put24(out + AT_SIZE, p->size);
	out[AT_LAST] = p->last;
	out[AT_RESERVED] = 0;
}

int place_get(struct place *p, const uint8_t in[static PLACE_SIZE],
    struct err *e)
{
	struct place got = { .segment = 0 };

	for (int i = 0; i < 5; i++)
		got.segment |= (uint64_t)in[AT_SEGMENT + i] << (8 * i);
	got.row = get24(in + AT_ROW);
	got.offset = get24(in + AT_OFFSET);
	got.size = get24(in + AT_SIZE);
	got.last = in[AT_LAST];
	if (got.last > LAST_MAX || in[AT_RESERVED] != 0)
		return err_set(e, ERR_CORRUPT, "a place in segment %" PRIu64
		    " is out of range", got.segment);
	*p = got;
	return 0;
}
