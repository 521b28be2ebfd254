/*
 * store/client.h - what the other files of the store ask of clients.
 */
#ifndef STORE_CLIENT_H
#define STORE_CLIENT_H

#include "base/err.h"
#include "store/store.h"

#include <stdint.h>

struct change;

/* The domain's token; ERR_NOT_FOUND. */
MUST_CHECK int domain_token(struct store *s, uint32_t domain,
    uint8_t out[static 16], struct err *e);
/* New tokens for all domains: their caches have to ask again. */
MUST_CHECK int domains_renew(struct store *s, struct change *c,
    struct err *e);
/* The domain of a client; ERR_NOT_FOUND. */
MUST_CHECK int client_domain(struct store *s, const char *name,
    uint32_t *domain, struct err *e);
/* Records whose "last seen" is newer than what is stored. */
MUST_CHECK int clients_seen_put(struct store *s, struct change *c,
    struct err *e);
void clients_seen_free(struct store *s);

#endif
