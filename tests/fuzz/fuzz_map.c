/*
 * Any bytes as a run of segment map records, replayed: each record is type (1
 * byte, 100 to 107), size (2 bytes) and body.  A map that took records only
 * holds segments within bounds, in ascending order, and each of them is
 * written and read back alike.
 */
#include "base/reader.h"
#include "raid/map.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(const struct map *m)
{
	uint8_t raw[REC_SEGMENT_MAX], again[REC_SEGMENT_MAX];
	struct seg_state got;
	struct err e;

	for (size_t i = 0; i < m->count; i++) {
		const struct seg_state *s = &m->segs[i]->s;
		size_t n = rec_segment_put(raw, s);

		if (i > 0 && m->segs[i - 1]->s.id >= s->id)
			abort();
		/* A move may bring one member in twice; the opening finds its
		 * extent taken.  Such a record is not written by us. */
		if (rec_segment_get(&got, raw, n, &e) != 0)
			continue;
		if (rec_segment_put(again, &got) != n ||
		    memcmp(raw, again, n) != 0)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader r;
	struct map m;
	uint64_t last_free = 0, flush = 0;
	struct err e;

	map_init(&m);
	reader_init(&r, data, size);
	while (r.left > 0) {
		uint16_t type = (uint16_t)(100 + reader_u8(&r) % 8);
		uint16_t n = reader_le16(&r);
		const uint8_t *body = reader_bytes(&r, n);

		if (!body || map_replay(&m, type, body, n, ++flush,
		    &last_free, &e) != 0)
			break;
	}
	check(&m);
	map_release(&m);
	return 0;
}
