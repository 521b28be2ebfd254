/*
 * store/entry.h - what the store knows of one object: place, owners, state.
 *
 * An entry is a value: made whole, then shared or replaced, never changed
 * while a table holds it.  In LMDB it is bytes (entry_put, entry_get) that
 * end with a checksum over key and value, so that a flipped bit in the index
 * is never taken for a place.
 *
 *   0  place     16   raid/place.h
 *  16  ordinal    4   of the object in its segment
 *  20  size       4   plain bytes
 *  24  type       1   enum object_type
 *  25  flags      1   ENTRY_COMPLETE
 *  26  reserved   2   zero
 *  28  owners     4   count, then as many u32, ascending
 *  ..  crc        4   CRC-32C of key and value
 *
 * Threads: no state.
 */
#ifndef STORE_ENTRY_H
#define STORE_ENTRY_H

#include "base/err.h"
#include "proto/fmt_id.h"
#include "raid/place.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEYSPACE_PLAIN 0u
#define KEY_SIZE (4 + ID_SIZE)

/* be32 keyspace, id: memcmp gives the order of the index. */
struct key {
	uint8_t bytes[KEY_SIZE];
};

void key_of(struct key *out, uint32_t keyspace, const struct id *id);
void key_id(const struct key *k, struct id *out);

#define ENTRY_COMPLETE 1u	/* a page: all below it is there and good */

struct entry {
	struct place place;
	uint32_t ordinal;
	uint32_t size;		/* plain bytes */
	uint8_t type;		/* enum object_type */
	uint8_t flags;
	uint32_t owner_count;
	uint32_t owners[];	/* domains, ascending */
};

/* Room for `owners`; zeroed.  NULL on lack of memory; free() it. */
struct entry *entry_new(uint32_t owners);
/* A copy with `domain` among its owners; 0 adds none.  NULL: no memory. */
struct entry *entry_copy(const struct entry *en, uint32_t domain);
bool entry_owned(const struct entry *en, uint32_t domain);
/* Can others build on it: pages must be complete. */
bool entry_whole(const struct entry *en);

#define ENTRY_BYTES(owners) (32 + 4 * (size_t)(owners) + 4)
#define ENTRY_OWNERS_MAX (1u << 20)
void entry_put(uint8_t *out, const struct key *k, const struct entry *en);
/* ERR_CORRUPT, ERR_NO_MEMORY. */
MUST_CHECK int entry_get(struct entry **out, const struct key *k,
    const void *data, size_t size, struct err *e);

#endif
