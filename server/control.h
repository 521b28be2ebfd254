/*
 * server/control.h - how processes on this machine talk to the owner.
 *
 * A unix socket of mode 0600 in the state directory; the peer's uid must be
 * ours or root's.  A connection carries one request and its answer, in frames:
 *
 *   0  size   4   of what follows, little-endian, 1 .. CONTROL_FRAME_MAX
 *   4  type   1
 *   5  body
 *
 *   caller                                owner
 *    RUN      cwd, attached, words   -->   OUT | ERR (bytes) ..., END (status)
 *                                          | AWAY: try again, I am giving way
 *    SESSION  flags, client name     -->   END (0): from here on the
 *                                          connection is that client's session
 *    YIELD                           -->   END (0): I shall be gone soon
 *                                          | END (1), pid: I am `serve`
 *
 * Strings are le32 size and bytes.  Both ends are of one program version, on
 * one machine: the format is private and may change.
 *
 * Errors: ERR_NOT_FOUND nobody listens; ERR_DENIED another user; ERR_PROTOCOL.
 * Threads: one thread accepts; each connection has its own, at most
 * CONTROL_PEERS_MAX.
 */
#ifndef SERVER_CONTROL_H
#define SERVER_CONTROL_H

#include "base/err.h"
#include "server/cmd.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;
struct control;
struct owner;
struct state;

#define CONTROL_FRAME_MAX (1u << 20)
#define CONTROL_PEERS_MAX 32

enum control_type { CONTROL_RUN = 1, CONTROL_SESSION = 2, CONTROL_YIELD = 3,
	CONTROL_OUT = 16, CONTROL_ERR = 17, CONTROL_END = 18,
	CONTROL_AWAY = 19 };

/* ---- the owner's side -------------------------------------------------- */

/* Bind the socket (replacing a dead one: the caller holds the state lock). */
MUST_CHECK int control_bind(struct control **out, struct owner *o,
    struct err *e);
/* Begin to hear signals for the owner: SIGINT and SIGTERM stop it (a second one
 * ends the process at once), SIGHUP makes `serve` reload. */
MUST_CHECK int control_start(struct control *c, struct err *e);
/* Begin to take requests. */
void control_ready(struct control *c);
/* No more requests; waits for those that run.  Frees; NULL is fine. */
void control_close(struct control *c);

/* ---- a caller's side --------------------------------------------------- */

MUST_CHECK int control_connect(const struct state *s, int *fd,
    struct err *e);
/*
 * Have the owner run these words; copies its output to `io`.  0 and *status;
 * ERR_UNAVAILABLE: the owner gives way or died before it began, try again.
 */
MUST_CHECK int control_run(int fd, const struct cmd_call *call, int argc,
    char *const *argv, struct cmd_io *io, int *status, struct err *e);
/* Make the connection a session of `client`; `operator`: whatever its role. */
MUST_CHECK int control_session(int fd, const char *client, bool operator,
    struct err *e);
/* 0: it gives way; ERR_BUSY: it is `serve`, and stays. */
MUST_CHECK int control_yield(int fd, struct err *e);

/* ---- frames ------------------------------------------------------------ */

MUST_CHECK int control_send(int fd, uint8_t type, const void *body,
    size_t size, struct err *e);
/* `body` is emptied first.  ERR_UNAVAILABLE at the end of the stream. */
MUST_CHECK int control_recv(int fd, uint8_t *type, struct buf *body,
    struct err *e);

struct control_run_request {
	struct buf *body;	/* what the pointers point into; not owned */
	char *cwd, *attached;	/* NUL-terminated in the body; attached "" */
	char **argv;		/* malloc'd array, argc + 1, ends with NULL */
	int argc;
};
void control_run_put(struct buf *b, const char *cwd, const char *attached,
    int argc, char *const *argv);
MUST_CHECK int control_run_get(struct control_run_request *r,
    struct buf *body, struct err *e);

#endif
