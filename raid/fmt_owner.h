/*
 * raid/fmt_owner.h - the owner record, as bytes [format].
 *
 * Specified in docs/format-disk.md, version 1.  Integers are little-endian.
 * Magic, version and checksum keep their place in every later version.
 *
 *    0  magic         8   "BKOWNER\n"
 *    8  version       4   1
 *   12  flags         4   low half: refuse when unknown; high half: ignore
 *   16  array        16   UUID
 *   32  owner        16   random id of this opening, not zero
 *   48  machine      16
 *   64  boot         16
 *   80  counter       8   one more with each beat
 *   88  started       8   clock ticks from boot to the start of the process
 *   96  pid           4
 *  100  interval      4   milliseconds between two beats, 1..60000
 *  104  host         64   name, bytes 0x21..0x7e, then zeros
 *  168  reserved   3920
 * 4088  checksum      8   CRC-64 of the bytes before it
 * 4096  end
 *
 * A block without the magic says that nobody holds the array.
 */
#ifndef RAID_FMT_OWNER_H
#define RAID_FMT_OWNER_H

#include "base/err.h"
#include "raid/array.h"

#include <stddef.h>
#include <stdint.h>

#define OWNER_SIZE 4096
#define OWNER_VERSION 1
#define OWNER_INTERVAL_MAX 60000	/* ms; so a take-over ends in 4 min */

struct owner_rec {
	uint8_t array[RAID_UUID_SIZE];
	uint8_t owner[16];
	uint64_t counter;
	uint32_t interval_ms;
	struct array_machine by;
};

void owner_put(uint8_t out[static OWNER_SIZE], const struct owner_rec *r);
/* ERR_NOT_FOUND: nobody's; ERR_CORRUPT: damaged; ERR_VERSION.  *r is written
 * only on success; the host name is then fit to be shown. */
MUST_CHECK int owner_get(struct owner_rec *r, const uint8_t *in, size_t size,
    struct err *e);

#endif
