/*
 * base/wire_ssh_int.h - what the files of the SSH wire share; nobody else's.
 *
 * wire_ssh.c         the channel as a transport
 * wire_ssh_client.c  connecting, host keys, authentication
 * wire_ssh_server.c  listening, key exchange, authentication
 * wire_ssh_key.c     keys: making, reading, fingerprints
 *
 * Life of a channel:
 *
 *      ssh_line_new(session) --> _unblock, _attach, _use
 *                  |                 --> ssh_line_start --> a wire
 *                  \_____________________> ssh_line_drop
 *
 * Threads: a channel belongs to one thread at a time; after ssh_line_start()
 *          to the wire's.
 */
#ifndef BASE_WIRE_SSH_INT_H
#define BASE_WIRE_SSH_INT_H

#include "base/wire_ssh.h"

#include <libssh/callbacks.h>
#include <libssh/libssh.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SSH_SUBSYSTEM "bk"

/* GCM first: with AES instructions it is the fastest, and the default order
 * begins with chacha20, which costs OpenSSH twice the time. */
#define SSH_CIPHERS \
	"aes128-gcm@openssh.com,aes256-gcm@openssh.com," \
	"chacha20-poly1305@openssh.com,aes256-ctr,aes128-ctr"

struct rx_block;

struct ssh_line {
	ssh_session session;
	ssh_channel channel;	/* NULL until ssh_line_use() */
	ssh_event event;
	int wake_fd;		/* in `event`, or -1 */
	struct ssh_channel_callbacks_struct callbacks;
	void *extra;		/* freed with the channel, after the session */
	/* received and not yet pulled */
	struct rx_block *rx_first, *rx_last;
	size_t rx_bytes;
	size_t since_grow;	/* received since the window was grown */
	uint32_t window;	/* bytes; see wire_ssh.c */
	uint8_t *window_buf;	/* for the call that grows it */
	bool held;		/* libssh keeps data that we did not take */
	bool take_all;		/* never hold */
	bool discard;		/* closing: nobody will read */
	bool woken;
	bool eof, dead;
	struct err err;		/* why it is dead */
};

/* Takes `session` whatever the result.  Fails with ERR_NO_MEMORY. */
MUST_CHECK int ssh_line_new(struct ssh_line **out, ssh_session session,
    struct err *e);
/* From now on data of `ch` is queued.  `c->callbacks` may be given more
 * functions before. */
MUST_CHECK int ssh_line_use(struct ssh_line *c, ssh_channel ch, struct err *e);
/* Make the connected descriptor and the session non-blocking; see the top of
 * wire_ssh.c. */
MUST_CHECK int ssh_line_unblock(struct ssh_line *c, struct err *e);
/* Let c->event move the session, which must have said something before:
 * libssh refuses one that has not yet polled by itself. */
MUST_CHECK int ssh_line_attach(struct ssh_line *c, struct err *e);
/* The channel is open and attached: make a wire of it.  Takes `c` whatever
 * the result. */
MUST_CHECK int ssh_line_start(struct wire **out, struct ssh_line *c,
    const struct wire_options *o, struct err *e);
/* Disconnect and free.  NULL is fine. */
void ssh_line_drop(struct ssh_line *c);

/* "type base64", malloc'd; NULL on lack of memory. */
char *key_canonical(ssh_key key);
MUST_CHECK int key_fingerprint(ssh_key key,
    char fingerprint[static SSH_FINGERPRINT_SIZE], struct err *e);
/* A private key from its text; never asks for a passphrase: ERR_DENIED. */
MUST_CHECK int key_from_text(ssh_key *out, const char *text, struct err *e);

#endif
