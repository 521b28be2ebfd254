/*
 * raid/fmt_record.h - the records of the log, as bytes [format].
 *
 * Specified in docs/format-disk.md.  Integers are little-endian.  Numbers are
 * never reused.  1-99: the log, the members, the facts.  100-199: the segment
 * map (raid/fmt_map.h).  A number from 0x8000 on that is not known may be
 * ignored; any other unknown number is refused with ERR_VERSION.
 */
#ifndef RAID_FMT_RECORD_H
#define RAID_FMT_RECORD_H

#include "base/err.h"
#include "raid/array.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum rec_type {
	REC_EPOCH = 1,		/* kept by the log */
	REC_HISTORY = 2,	/* kept by the log */
	REC_MEMBERS = 3,	/* kept by the log */
	REC_LINK = 4,		/* payload of link blocks only */
	REC_FACT_SET = 10,
	REC_FACT_DELETE = 11,
	REC_CLEAN_STOP = 20,	/* empty body; the last record before a close */
	REC_ID_RESERVE = 21,	/* segment ids below this may be on members */

	REC_SEGMENT_FIRST = 100,
	REC_SEGMENT_LAST = 199,
};

#define REC_BODY_MAX (64u << 10)
#define REC_IGNORABLE 0x8000u

struct log_rec;
struct member;

/* ---- 10, 11: a fact --------------------------------------------------- */

/*
 *  0  key_size   2   1..RAID_KEY_MAX
 *  2  reserved   2
 *  4  key            then the value up to the end (REC_FACT_DELETE: none)
 */
#define REC_FACT_HEAD 4
#define REC_FACT_MAX (REC_FACT_HEAD + RAID_KEY_MAX + RAID_VALUE_MAX)

struct rec_fact {		/* points into the record */
	const uint8_t *key;
	const uint8_t *value;
	size_t key_size;
	size_t value_size;
};

/* Bytes written; `out` has REC_FACT_HEAD + key_size + value_size. */
size_t rec_fact_put(uint8_t *out, const struct rec_fact *f);
/* ERR_CORRUPT. */
MUST_CHECK int rec_fact_get(struct rec_fact *f, uint16_t type,
    const uint8_t *body, size_t size, struct err *e);

/* ---- 21: reserved ids ------------------------------------------------- */

#define REC_ID_RESERVE_SIZE 8

void rec_id_reserve_put(uint8_t out[static REC_ID_RESERVE_SIZE],
    uint64_t limit);
MUST_CHECK int rec_id_reserve_get(uint64_t *limit, const uint8_t *body,
    size_t size, struct err *e);

/* ---- 1: an epoch ------------------------------------------------------ */

enum epoch_why {
	EPOCH_OPEN = 1,		/* opened for writing */
	EPOCH_CHANGE = 2,	/* a member was lost, joined or changed */
};

/*
 *  0  event      8
 *  8  run       16   random
 * 24  first      8   flush number of the epoch's own block
 * 32  set        8   bit i: member i had to hold every flush of it
 * 40  why        1   enum epoch_why
 * 41  reserved   7
 * 48  time       8   seconds since 1970, for people
 * 56  answered   8   bit i: member i showed its log when the epoch began
 * 64  end
 *
 * The event is above every event that any member showed at the opening, also
 * on branches that were then dropped.
 */
#define REC_EPOCH_SIZE 64

struct rec_epoch {
	uint64_t event;
	uint8_t run[16];
	uint64_t first;
	uint64_t set;
	enum epoch_why why;
	int64_t time_s;
	uint64_t answered;
};

void rec_epoch_put(uint8_t out[static REC_EPOCH_SIZE],
    const struct rec_epoch *p);
MUST_CHECK int rec_epoch_get(struct rec_epoch *p, const uint8_t *body,
    size_t size, struct err *e);

/* ---- 2: history: the last epochs, oldest first ------------------------ */

/* 64 would do for caches; forks want more, since a member that was away for
 * longer than the history reaches cannot be told from a diverged one. */
#define HISTORY_MAX 256
#define REC_HISTORY_MAX (HISTORY_MAX * REC_EPOCH_SIZE)

_Static_assert(REC_HISTORY_MAX <= REC_BODY_MAX, "history fits a record");

/* ---- 3: the member table ---------------------------------------------- */

/*
 * One entry after the other, by index from 0:
 *
 *  0  uuid          16
 * 16  replaced_by   16   zero unless replacing
 * 32  size           8   bytes
 * 40  extent_count   4
 * 44  state          1   enum member_state
 * 45  reserved       3
 * 48  errors        64   ARRAY_ERROR_KINDS counters
 * 112 end
 */
#define REC_MEMBER_SIZE 112
#define REC_MEMBERS_MAX (RAID_MEMBERS_MAX * REC_MEMBER_SIZE)

struct rec_member {
	uint8_t uuid[RAID_UUID_SIZE];
	uint8_t replaced_by[RAID_UUID_SIZE];
	uint64_t size;
	uint32_t extent_count;
	enum member_state state;
	uint64_t errors[ARRAY_ERROR_KINDS];
};

void rec_member_put(uint8_t out[static REC_MEMBER_SIZE],
    const struct rec_member *m);
MUST_CHECK int rec_member_get(struct rec_member *m,
    const uint8_t in[static REC_MEMBER_SIZE], struct err *e);

/* ---- 4: a link: the next extent of each member ------------------------ */

/*
 *  0  count     2   of entries
 *  2  reserved  2
 *  4  entries       member index 2, reserved 2, extent 4; ascending members
 */
#define REC_LINK_HEAD 4
#define REC_LINK_ENTRY 8
#define REC_LINK_MAX (REC_LINK_HEAD + RAID_MEMBERS_MAX * REC_LINK_ENTRY)

/* extent[i] of member i, LOG_NO_EXTENT = none.  Returns the bytes written. */
size_t rec_link_put(uint8_t out[static REC_LINK_MAX],
    const uint32_t extent[static RAID_MEMBERS_MAX]);
MUST_CHECK int rec_link_get(uint32_t extent[static RAID_MEMBERS_MAX],
    const uint8_t *body, size_t size, struct err *e);

#endif
