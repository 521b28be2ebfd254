/*
 * base/wire_ssh.h - the wire over one libssh channel, both ends.
 *
 * The only files that know libssh are wire_ssh*.c.  Facts they rely on:
 * O_NONBLOCK after connect/accept; data callbacks only queue; writes of at
 * most the channel window and never while SSH_WRITE_PENDING; the receive
 * window is grown by ssh_channel_read_timeout(ch, buf, window, 0, 0) to
 * twice recv_bytes_max (1.5 to 4 MiB); aes-gcm ciphers first; one thread per
 * session.
 *
 * Client:   wire_ssh_connect (verifies the host key, authenticates, opens the
 *           channel with subsystem "bk") --> a struct wire.
 * Server:   ssh_listener_open --> ssh_listener_accept (TCP only, cheap)
 *           --> wire_ssh_accept (in the session's own thread: key exchange,
 *           authentication within the limits, channel) --> a struct wire.
 */
#ifndef BASE_WIRE_SSH_H
#define BASE_WIRE_SSH_H

#include "base/err.h"
#include "base/wire.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SSH_FINGERPRINT_SIZE 64		/* "SHA256:" + base64, terminated */

struct ssh_target {
	const char *host;
	const char *user;		/* NULL: the SSH configuration's */
	unsigned port;			/* 0: the configuration's, else 2222 */
	const char *key_file;		/* NULL: agent and configuration */
	const char *known_hosts;	/* NULL: the SSH configuration's */
	bool use_config;		/* read ~/.ssh/config */
	unsigned timeout_s;		/* for set-up; 0 = 30 */
	uint64_t rekey_bytes;		/* new session keys after so many
					 * bytes; 0: the cipher's own limit */
};

/* ERR_DENIED: host key unknown, changed or of another type (the sentence says
 * which and what to do; known_hosts is never touched), or no key accepted. */
MUST_CHECK int wire_ssh_connect(struct wire **out, const struct ssh_target *t,
    const struct wire_options *o, struct err *e);

/* What `bkclient init` needs: the server's key without trusting it. */
MUST_CHECK int ssh_probe_host_key(const struct ssh_target *t,
    char fingerprint[static SSH_FINGERPRINT_SIZE], struct err *e);
/* Add it to the known_hosts file if it still has this fingerprint. */
MUST_CHECK int ssh_pin_host_key(const struct ssh_target *t,
    const char *fingerprint, struct err *e);

/* A new ed25519 key: private part (OpenSSH format, mode 0600) and PATH.pub. */
MUST_CHECK int ssh_key_generate(const char *path, const char *comment,
    struct err *e);
/* The same in memory: `private_out` is malloc'd, terminated OpenSSH text;
 * wipe and free it. */
MUST_CHECK int ssh_key_generate_text(char **private_out, struct err *e);
/* Check one line of an OpenSSH public key ("ssh-ed25519 AAAA... comment"):
 * gives the canonical "type base64" (malloc'd) and the fingerprint. */
MUST_CHECK int ssh_public_key_parse(const char *line, char **canonical,
    char fingerprint[static SSH_FINGERPRINT_SIZE], struct err *e);
MUST_CHECK int ssh_private_key_fingerprint(const char *private_text,
    char fingerprint[static SSH_FINGERPRINT_SIZE], struct err *e);

struct ssh_listener;

/* "ADDR:PORT" or "[ADDR]:PORT"; port 0 picks one. */
MUST_CHECK int ssh_listener_open(struct ssh_listener **out, const char *where,
    const char *host_key_text, struct err *e);
unsigned ssh_listener_port(const struct ssh_listener *l);
int ssh_listener_fd(const struct ssh_listener *l);	/* for poll */
/* A TCP connection (non-blocking accept); -1 with ERR_UNAVAILABLE if none. */
MUST_CHECK int ssh_listener_accept(struct ssh_listener *l, int *fd,
    char *peer, size_t peer_size, struct err *e);
void ssh_listener_close(struct ssh_listener *l);

struct ssh_auth {
	/* Is this key ("type base64") known?  Called for the probe and for the
	 * verified signature alike; must not tell the two apart by time.
	 * Writes the client's name. */
	bool (*key_known)(void *arg, const char *canonical, char *name,
	    size_t name_size);
	void *arg;
	unsigned tries_max;	/* per connection; 0 = 6 */
	unsigned grace_s;	/* for all of it; 0 = 20 */
};

/* Takes `fd` whatever the result.  `name` is the authenticated client's. */
MUST_CHECK int wire_ssh_accept(struct wire **out, struct ssh_listener *l,
    int fd, const struct ssh_auth *auth, char *name, size_t name_size,
    const struct wire_options *o, struct err *e);

#endif
