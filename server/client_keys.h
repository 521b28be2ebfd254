/*
 * server/client_keys.h - public keys in a client's record.
 *
 * Threads: no state.
 */
#ifndef SERVER_CLIENT_KEYS_H
#define SERVER_CLIENT_KEYS_H

#include "base/err.h"

struct client_record;
struct cmd_io;

/*
 * Add the keys of an OpenSSH public key file (or authorized_keys without
 * options): one a line, '#' comments.  Says each on `io` with its fingerprint.
 * ERR_USAGE: no key, not a public key; ERR_LIMIT; ERR_EXISTS: known already.
 */
MUST_CHECK int client_keys_add(struct client_record *c, const char *text,
    struct cmd_io *io, struct err *e);

#endif
