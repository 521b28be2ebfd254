/*
 * raid/fmt_log.h - the blocks of the log, as bytes [format].
 *
 * Specified in docs/format-disk.md, version 1.  Integers are little-endian.
 *
 *    0  magic        6   "BKLOG\n"
 *    6  version      2   1
 *    8  array       16   UUID
 *   24  generation   8   from 1
 *   32  seq          8   of the block in its generation, from 0
 *   40  before       8   checksum of block seq - 1; 0 for block 0
 *   48  event        8   of the epoch
 *   56  run         16   of the epoch
 *   72  flush        8   number of the flush that this block belongs to
 *   80  flags        2   LOG_*
 *   82  used         2   payload bytes
 *   84  reserved     4
 *   88  checksum     8   CRC-64 of the whole block, these 8 bytes as zero
 *   96  payload   4000   zero beyond `used`
 * 4096  end
 *
 * The payloads of a flush (or checkpoint), links left out, put one after the
 * other are its records:
 *
 *    0  type         2
 *    2  reserved     2
 *    4  size         4   of the body, at most REC_BODY_MAX
 *    8  body
 */
#ifndef RAID_FMT_LOG_H
#define RAID_FMT_LOG_H

#include "base/err.h"
#include "raid/array.h"

#include <stddef.h>
#include <stdint.h>

#define LOG_BLOCK 4096u
#define LOG_PAYLOAD 4000u
#define LOG_PAYLOAD_AT 96u
#define LOG_RECORD_HEAD 8u
#define LOG_VERSION 1

enum log_flag {
	LOG_FIRST = 1,		/* first block of a flush or checkpoint */
	LOG_END = 2,		/* last block of it: now it counts */
	LOG_CHECKPOINT = 4,	/* holds state, not changes */
	LOG_LINK = 8,		/* payload is a REC_LINK body */
};
#define LOG_FLAGS 15u

struct log_block {
	uint8_t array[RAID_UUID_SIZE];
	uint64_t generation;
	uint64_t seq;
	uint64_t before;
	uint64_t event;
	uint8_t run[16];
	uint64_t flush;
	uint16_t flags;
	uint16_t used;
	uint64_t sum;		/* filled in by both put and get */
};

/* The payload must be in place at LOG_PAYLOAD_AT, zero beyond b->used. */
void log_block_put(uint8_t out[static LOG_BLOCK], struct log_block *b);
/* ERR_NOT_FOUND: no block of the log; ERR_CORRUPT; ERR_VERSION. */
MUST_CHECK int log_block_get(struct log_block *b, const uint8_t *in,
    size_t size, struct err *e);

#endif
