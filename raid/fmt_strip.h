/*
 * raid/fmt_strip.h - the 4 KiB header before the payload of every strip.
 *
 * Specified in docs/format-disk.md, "Strips".  Little-endian.
 *
 *    0  magic      8   "BKSTRIP\n"
 *    8  version    4   1
 *   12  flags      4   zero
 *   16  array     16   UUID
 *   32  member    16   UUID of the member this copy was written to
 *   48  segment    8
 *   56  nonce      8   of the segment
 *   64  birth      8   flush number that was next when the segment began
 *   72  extent     4   on that member
 *   76  row        4   of the stripe, units of 4 KiB from the extent's start
 *   80  fill       4   payload bytes of the stripe that are not padding
 *   84  strip      1   0..k-1 data, k..w-1 parity
 *   85  width      1   w
 *   86  parity     1   p
 *   87  units      1   payload of each strip in units of 4 KiB, 1..64
 *   88  class      1   enum seg_class
 *   89  sum type   1   1 = CRC-64 (base/hash.h)
 *   90  reserved   6   zero
 *   96  sums     128   payload checksums of all w strips, 8 bytes each
 *  224  peers    320   16 x (member UUID 16, extent 4): where strip number i of
 *                      this stripe lay when this header was written (a hint:
 *                      the map decides)
 *  544  reserved      zero
 * 4088  checksum   8   CRC-64 of bytes 0..4087
 *
 * The payload checksum is seeded with what a move keeps: array, segment,
 * nonce, row, strip number.  Member and extent are covered by the header
 * checksum alone, so a strip moves without a new payload checksum.
 */
#ifndef RAID_FMT_STRIP_H
#define RAID_FMT_STRIP_H

#include "base/err.h"
#include "raid/array.h"

#include <stdint.h>

#define STRIP_HEADER_SIZE RAID_ROW
#define STRIP_VERSION 1
/* At most 16 wide: a reconstruction reads w - 1 strips. */
#define SEG_WIDTH_MAX 16
#define SEG_PARITY_MAX 2
#define STRIP_UNITS_MAX (RAID_STRIP_MAX / RAID_ROW)

struct strip_peer {
	uint8_t member[RAID_UUID_SIZE];
	uint32_t extent;
};

struct strip_header {
	uint8_t array[RAID_UUID_SIZE];
	uint8_t member[RAID_UUID_SIZE];
	uint64_t segment, nonce, birth;
	uint32_t extent, row, fill;
	uint8_t strip, width, parity, units, class;
	uint64_t sums[SEG_WIDTH_MAX];
	struct strip_peer peers[SEG_WIDTH_MAX];
};

void strip_header_put(uint8_t out[static STRIP_HEADER_SIZE],
    const struct strip_header *h);
/* ERR_CORRUPT or ERR_VERSION; *h is written only on success. */
MUST_CHECK int strip_header_get(struct strip_header *h,
    const uint8_t in[static STRIP_HEADER_SIZE], struct err *e);

/* The checksum of a payload of `size` bytes of strip number `strip`; of `h`
 * only array, segment, nonce and row are used. */
uint64_t strip_sum(const struct strip_header *h, uint8_t strip,
    const void *payload, size_t size);

#endif
