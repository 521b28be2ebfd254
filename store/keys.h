/*
 * store/keys.h - the names of the store's facts in the array's log.  [format]
 *
 *   seed                           cut seed, 32 bytes
 *   hostkey                        OpenSSH private key text
 *   c/<client>                     client record (fmt_client.h)
 *   s/<client>/<be64 order>        snapshot record (proto/fmt_snapshot.h)
 *   d/<be32 domain>                token 16, name
 *   q/<be64 segment><be32 ordinal> le64 flush that quarantined it
 *   n/domain, n/order              le64, the next number to be given
 *   n/verified                     le64, time of the last whole verify
 *   g/floor                        le64: an index older than this flush may
 *                                  name segments that were freed
 *
 * Numbers in keys are big-endian so that byte order is their order.  Client
 * names have no '/'.
 */
#ifndef STORE_KEYS_H
#define STORE_KEYS_H

#include "base/err.h"
#include "raid/array.h"

#include <stddef.h>
#include <stdint.h>

#define KEY_SEED "seed"
#define KEY_HOSTKEY "hostkey"
#define KEY_NEXT_DOMAIN "n/domain"
#define KEY_NEXT_ORDER "n/order"
#define KEY_FLOOR "g/floor"
#define KEY_VERIFIED "n/verified"

struct fact_key {
	uint8_t bytes[RAID_KEY_MAX];
	size_t size;
};

struct fact_key key_text(const char *text);
struct fact_key key_client(const char *name);
/* Prefix of all snapshots of a client (NULL: of all clients). */
struct fact_key key_snapshots(const char *client);
struct fact_key key_snapshot(const char *client, uint64_t order);
struct fact_key key_domain(uint32_t domain);
struct fact_key key_quarantine(uint64_t segment, uint32_t ordinal);
/* The client's name in a snapshot's key, terminated.  ERR_CORRUPT. */
MUST_CHECK int key_snapshot_client(const uint8_t *key, size_t size,
    char *name, size_t name_size, struct err *e);
/* ERR_CORRUPT. */
MUST_CHECK int key_quarantine_get(const uint8_t *key, size_t size,
    uint64_t *segment, uint32_t *ordinal, struct err *e);
uint64_t be64_get(const uint8_t *p);
uint32_t be32_get(const uint8_t *p);

/* A number kept as a fact; `fallback` when there is none. */
MUST_CHECK int fact_number(struct array *a, const char *key,
    uint64_t fallback, uint64_t *out, struct err *e);

#endif
