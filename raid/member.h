/*
 * raid/member.h - one member: its device, superblock facts, state, counters.
 *
 * Layout of a member [format]: the first and the last MiB are never touched.
 * Superblock slots (8 KiB each) at 1 MiB, 1 MiB + 64 KiB, the middle (size / 2
 * rounded down to 64 KiB) and size - 2 MiB (size rounded down to 64 KiB first);
 * owner block (4 KiB, two hosts) at 1 MiB + 128 KiB; extents from 2 MiB on,
 * leaving out the 64 KiB that begin at the slot in the middle, and ending
 * before size - 2 MiB: extent i is at member_extent_offset(m, i).
 *
 * Threads: struct member is guarded by the array's state lock except what is
 * atomic; I/O through m->io needs no lock.
 */
#ifndef RAID_MEMBER_H
#define RAID_MEMBER_H

#include "base/err.h"
#include "raid/array.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct mio;

struct member {
	unsigned index;			/* in the member table, never reused */
	uint8_t uuid[RAID_UUID_SIZE];
	_Atomic(enum member_state) state;	/* the log reads it unlocked */
	char *path;			/* where it was found */
	struct mio *io;			/* NULL while missing */
	uint64_t size;			/* bytes, as in the superblock */
	uint32_t extent_count;
	uint64_t extent_size;
	uint8_t replaced_by[RAID_UUID_SIZE];	/* MEMBER_REPLACING, or zero */
	bool stale;			/* its log lagged when opened */
	atomic_ullong errors[ARRAY_ERROR_KINDS];
	atomic_ullong read_bytes, written_bytes;
};

enum { MERR_READ, MERR_WRITE, MERR_FLUSH, MERR_CHECKSUM, MERR_STALE,
	MERR_MISDIRECTED, MERR_TIMEOUT, MERR_VANISHED };

/* A member without a device, state MISSING; NULL: no memory. */
struct member *member_new(void);
/* Closes its device.  NULL is fine. */
void member_free(struct member *m);

#define MEMBER_SLOTS 4
/* Where superblock slot 0..3 of a device of `size` bytes begins. */
uint64_t member_slot_offset(uint64_t size, unsigned slot);
/* Where the owner record lies. */
#define MEMBER_OWNER_AT ((UINT64_C(1) << 20) + 2 * (UINT64_C(64) << 10))
/* How many extents of `extent_size` a device of `size` bytes has. */
uint64_t member_extents_in(uint64_t size, uint64_t extent_size);

uint64_t member_extent_offset(const struct member *m, uint32_t extent);
/* True if strips and log may be read from it (its device is there, and it is
 * not REMOVED; a FAILED one is still read). */
bool member_readable(const struct member *m);
/* True if new strips and log blocks go to it (device there, ACTIVE). */
bool member_writable(const struct member *m);

#endif
