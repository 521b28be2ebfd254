/*
 * store/fmt_client.h - a client's record, as bytes.  [format]
 *
 *   0 version 1 | 1 role 1 | 2 flags 1 (1 paused) | 3 key count 1 |
 *   4 domain 4 | 8 quota 8 | 16 added s 8 | 24 last seen s 8 |
 *  32 last 4, hourly 4, daily 4, weekly 4, monthly 4, yearly 4 |
 *  56 within s 8 | 64 min age s 8 |
 *  72 domain name: u8 size, bytes | keys: le16 size, bytes each
 *
 * The client's name is the fact's key.
 */
#ifndef STORE_FMT_CLIENT_H
#define STORE_FMT_CLIENT_H

#include "base/err.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* [A-Za-z0-9._-], not beginning with '.', 1..CLIENT_NAME_MAX. */
bool client_name_ok(const char *name);
void client_record_put(struct buf *out, const struct client_record *c);
/* ERR_CORRUPT, ERR_VERSION; *c only on success. */
MUST_CHECK int client_record_get(struct client_record *c, const char *name,
    const void *data, size_t size, struct err *e);

#endif
