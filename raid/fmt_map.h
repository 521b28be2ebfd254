/*
 * raid/fmt_map.h - the log's records about segments, as bytes [format].
 *
 * Specified in docs/format-disk.md, "Segment map".  Little-endian.  Types 100
 * to 199 of raid/fmt_record.h are these:
 *
 * 100 SEGMENT   the whole state of one segment; replaces an earlier one
 *     0 id 8, 8 nonce 8, 16 class 1, 17 width 1, 18 parity 1,
 *     19 flags 1 (1 = sealed), 20 rows 4, 24 used bytes 8, 32 frame bytes 8,
 *     40 birth flush 8, 48 last flush 8, 56 verified 8 (seconds since 1970),
 *     64 newest table 16 (raid/place.h), 80 one entry of 12 per slot:
 *        member 1, reserved 3, extent 4, absent from row 4 (~0 = complete)
 * 101 FREED     0 id 8
 * 102 VERIFIED  one entry of 16 per segment: id 8, seconds since 1970 8
 * 103 MOVED     0 id 8, 8 slot 1, 9 member 1, 10 reserved 2, 12 extent 4; the
 *               slot is complete again
 * 104 LAST_FREE 0 flush 8, of the newest FREED (checkpoints only)
 *
 * "Absent from row r": the strips of this slot at rows >= r were not written
 * or not flushed; the reduced set of docs/design.md is the slots that have it.
 */
#ifndef RAID_FMT_MAP_H
#define RAID_FMT_MAP_H

#include "base/err.h"
#include "raid/array.h"
#include "raid/fmt_strip.h"
#include "raid/place.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum map_rec {
	REC_SEGMENT = 100,
	REC_SEGMENT_FREED = 101,
	REC_SEGMENT_VERIFIED = 102,
	REC_SEGMENT_MOVED = 103,
	REC_SEGMENT_LAST_FREE = 104,
};

#define ROW_NONE UINT32_MAX	/* absent_from of a complete slot */

/* All that is durable of a segment. */
struct seg_state {
	uint64_t id, nonce;
	uint64_t used_bytes;	/* payload capacity of the stripes written */
	uint64_t frame_bytes;
	uint64_t birth_flush, last_flush, verified_s;
	struct place table;	/* newest; size 0 = none */
	uint32_t rows;		/* durable end, units of 4 KiB */
	uint32_t extent[SEG_WIDTH_MAX];		/* by slot */
	uint32_t absent_from[SEG_WIDTH_MAX];
	uint8_t member[SEG_WIDTH_MAX];
	uint8_t class, width, parity;
	bool sealed;
};

#define REC_SEGMENT_HEAD 80
#define REC_SEGMENT_SLOT 12
#define REC_SEGMENT_MAX (REC_SEGMENT_HEAD + REC_SEGMENT_SLOT * SEG_WIDTH_MAX)

/* Returns the bytes written. */
size_t rec_segment_put(uint8_t out[static REC_SEGMENT_MAX],
    const struct seg_state *s);
/* ERR_CORRUPT; *s is written only on success. */
MUST_CHECK int rec_segment_get(struct seg_state *s, const uint8_t *body,
    size_t size, struct err *e);

#define REC_FREED_SIZE 8
#define REC_LAST_FREE_SIZE 8
void rec_u64_put(uint8_t out[static 8], uint64_t v);
MUST_CHECK int rec_u64_get(uint64_t *v, const uint8_t *body, size_t size,
    struct err *e);

#define REC_VERIFIED_ENTRY 16
struct rec_verified {
	uint64_t id, when_s;
};
void rec_verified_put(uint8_t out[static REC_VERIFIED_ENTRY],
    const struct rec_verified *v);
/* The size of the body must be a multiple of the entry's. */
void rec_verified_get(struct rec_verified *v,
    const uint8_t in[static REC_VERIFIED_ENTRY]);

#define REC_MOVED_SIZE 16
struct rec_moved {
	uint64_t id;
	uint32_t extent;
	uint8_t slot, member;
};
void rec_moved_put(uint8_t out[static REC_MOVED_SIZE],
    const struct rec_moved *m);
MUST_CHECK int rec_moved_get(struct rec_moved *m, const uint8_t *body,
    size_t size, struct err *e);

#endif
