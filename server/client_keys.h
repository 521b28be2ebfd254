/*
 * server/client_keys.h - public keys in a client's record.
 *
 * Threads: no state.
 */
#ifndef SERVER_CLIENT_KEYS_H
#define SERVER_CLIENT_KEYS_H

#include "base/err.h"

#include <stdint.h>

struct client_record;
struct cmd_io;

/*
 * Add the keys of an OpenSSH public key file (or authorized_keys without
 * options): one a line, '#' comments.
 * ERR_USAGE: no key, not a public key; ERR_LIMIT; ERR_EXISTS: known already.
 */
MUST_CHECK int client_keys_add(struct client_record *c, const char *text,
    struct err *e);
/* A line for each key from number `from` on, with its fingerprint. */
void client_keys_say(const struct client_record *c, uint32_t from,
    struct cmd_io *io);

#endif
