/*
 * raid/place.h - where a stored piece of bytes (a frame) lies.
 *
 * Opaque to everyone but raid/: the store keeps 16 bytes.  [format]
 *
 *   0  segment   5   id, below 2^40
 *   5  row       3   first stripe's row in its extents, units of 4 KiB
 *   8  offset    3   of the first byte in that stripe's payload
 *  11  size      3   stored bytes
 *  14  last      1   strip length of the last stripe touched, units of 4 KiB
 *  15  reserved  1   zero
 *
 * All stripes between row and the last one are full (RAID_STRIP_MAX), so a
 * read needs no table of stripes.
 */
#ifndef RAID_PLACE_H
#define RAID_PLACE_H

#include "base/err.h"

#include <stdint.h>

#define PLACE_SIZE 16

struct place {
	uint64_t segment;
	uint32_t row;		/* 4 KiB units from the start of the extent */
	uint32_t offset;	/* bytes */
	uint32_t size;		/* bytes */
	uint8_t last;		/* 4 KiB units; 0 = not yet known */
};

void place_put(uint8_t out[static PLACE_SIZE], const struct place *p);
/* ERR_CORRUPT when a field is out of range. */
MUST_CHECK int place_get(struct place *p, const uint8_t in[static PLACE_SIZE],
    struct err *e);

#endif
