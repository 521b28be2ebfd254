/*
 * raid/fmt_super.h - the superblock, as bytes [format].
 *
 * Specified in docs/format-disk.md, version 1.  Integers are little-endian.
 * Magic, version and checksum keep their place in every later version.
 *
 *    0  magic         8   "BKARRAY\n"
 *    8  version       4   1
 *   12  flags         4   low half: refuse when unknown; high half: ignore
 *   16  array        16   UUID
 *   32  member       16   UUID of the member this lies on
 *   48  index         2   of that member in the table
 *   50  count         2   of entries in the table, 1..64
 *   52  slot          1   0..3, where this copy lies
 *   53  parity        1   0..2
 *   54  reserved      2
 *   56  write_seq     8   grows with every write of superblocks
 *   64  event         8   of the newest epoch; a hint
 *   72  extent_size   8   bytes, power of two
 *   80  generation    8   of the log; 0 = none yet
 *   88  created       8   seconds since 1970
 *   96  reserved    160
 *  256  table        64 entries of 64 bytes:
 *         0  uuid          16
 *        16  replaced_by   16
 *        32  size           8   bytes of the device
 *        40  extent_count   4
 *        44  root           4   first extent of the log; ~0 = none
 *        48  state          1   enum member_state
 *        49  reserved      15
 * 4352  reserved   3832
 * 8184  checksum      8   CRC-64 of the bytes before it
 * 8192  end
 */
#ifndef RAID_FMT_SUPER_H
#define RAID_FMT_SUPER_H

#include "base/err.h"
#include "raid/array.h"

#include <stddef.h>
#include <stdint.h>

#define SUPER_SIZE 8192
#define SUPER_VERSION 1
#define SUPER_ARRAY_AT 16

#define RAID_EXTENT_MIN (UINT64_C(2) << 20)
#define RAID_EXTENT_MAX (UINT64_C(64) << 20)
/* A member with fewer cannot keep the reserve; with more the maps of its
 * extents outgrow the memory bound. */
#define RAID_EXTENTS_MIN 48
#define RAID_EXTENTS_MAX 2000000

struct super_entry {
	uint8_t uuid[RAID_UUID_SIZE];
	uint8_t replaced_by[RAID_UUID_SIZE];
	uint64_t size;
	uint32_t extent_count;
	uint32_t root;			/* LOG_NO_EXTENT = none */
	enum member_state state;
};

struct super {
	uint8_t array[RAID_UUID_SIZE];
	uint8_t member[RAID_UUID_SIZE];
	uint16_t index;
	uint16_t count;
	uint8_t slot;
	uint8_t parity;
	uint64_t write_seq;
	uint64_t event;
	uint64_t extent_size;
	uint64_t generation;
	int64_t created_s;
	struct super_entry table[RAID_MEMBERS_MAX];
};

void super_put(uint8_t out[static SUPER_SIZE], const struct super *s);
/* ERR_NOT_FOUND: not ours at all; ERR_CORRUPT: ours, damaged; ERR_VERSION.  *s
 * is written only on success. */
MUST_CHECK int super_get(struct super *s, const uint8_t *in, size_t size,
    struct err *e);

#endif
