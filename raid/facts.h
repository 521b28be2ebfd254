/*
 * raid/facts.h - the keys and values of array_kv_*, all in memory.
 *
 * A fact changes in two steps, so that what the log has made durable can
 * always be applied: fact_new() and facts_reserve() may fail, before the log is
 * written; facts_set() and facts_delete() cannot, after it.
 *
 * Units: bytes.  Threads: none of its own; the caller guards it.
 */
#ifndef RAID_FACTS_H
#define RAID_FACTS_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct facts;
struct log_rec;

struct fact {			/* one allocation; key and value follow */
	uint32_t key_size;
	uint32_t value_size;
	uint8_t bytes[];	/* key, then value */
};

/* Copies key and value.  ERR_LIMIT beyond RAID_KEY_MAX or RAID_VALUE_MAX, or
 * for an empty key; ERR_NO_MEMORY.  free() ends it unless set. */
MUST_CHECK int fact_new(struct fact **out, const void *key, size_t key_size,
    const void *value, size_t value_size, struct err *e);

struct facts *facts_new(void);		/* NULL: no memory */
void facts_free(struct facts *f);	/* NULL is fine */

/* Room for `more` new keys. */
MUST_CHECK int facts_reserve(struct facts *f, size_t more, struct err *e);
/* Takes `fact` over; replaces one with the same key.  A new key needs a
 * reserved place. */
void facts_set(struct facts *f, struct fact *fact);
/* No such key: nothing happens. */
void facts_delete(struct facts *f, const void *key, size_t key_size);

/* NULL if there is none; valid until the next change. */
const struct fact *facts_find(const struct facts *f, const void *key,
    size_t key_size);
/* array_kv_each() without the lock. */
int facts_each(const struct facts *f, const void *prefix, size_t prefix_size,
    int (*each)(void *arg, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size), void *arg);
size_t facts_count(const struct facts *f);
/* Keys and values together. */
uint64_t facts_bytes(const struct facts *f);

/* Apply a REC_FACT_SET or REC_FACT_DELETE.  ERR_CORRUPT, ERR_NO_MEMORY. */
MUST_CHECK int facts_replay(struct facts *f, const struct log_rec *r,
    struct err *e);
/* Every fact as a record, in key order: a part of log_host.dump. */
MUST_CHECK int facts_dump(const struct facts *f,
    int (*emit)(void *log, const struct log_rec *r, struct err *e), void *log,
    struct err *e);

#endif
