/*
 * base/wire.h - messages to and from a peer, over anything that carries bytes.
 *
 * A message is le32 length of (type, request, body), u8 type, le32 request,
 * body.  What the types mean is proto/'s business; this is only the pump.
 *
 *      wire_open_fd / wire_ssh_* --> wire_send / wire_recv --> wire_close
 *
 * One thread inside the wire owns the transport (libssh allows no sharing).
 * wire_send() copies into a bounded queue and blocks while that is full;
 * wire_recv() waits for the next whole message.  Received messages wait in a
 * bounded queue too; when it is full the wire stops reading, so that the
 * peer's window closes: nobody's memory grows.
 *
 * Liveness: a wire that has sent nothing for `ping_ms` sends a sign of life
 * (type 0, request 1, no body).  After `ping_ms` without any byte from the peer
 * it asks for one (type 0, request 0), and after `dead_ms` it fails with
 * ERR_TIMEOUT.  None of these is shown to the caller.  Measured on the
 * transport: a phase in which neither side has anything to say is healthy.
 * While a wire does not read because its queue is full, its own clock stands
 * still: a slow session is not a dead one.
 *
 * Errors: ERR_UNAVAILABLE (closed by the peer), ERR_TIMEOUT, ERR_PROTOCOL
 * (length above the limit), ERR_IO, ERR_CANCELLED (wire_abort).  What arrived
 * before an error can still be received, except after wire_abort(); from then
 * on every call fails with the same sentence.
 * Threads: wire_send() from any thread; wire_recv() from one; wire_abort()
 * from any, also to wake both.
 */
#ifndef BASE_WIRE_H
#define BASE_WIRE_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

#define WIRE_HEADER_SIZE 9
/* A frame of 1 MiB plain that does not shrink, its refs table and headers;
 * the largest message is less.  See proto/msg.h. */
#define WIRE_BODY_MAX (2u << 20)

struct wire;

struct wire_msg {
	uint8_t type;
	uint32_t request;
	uint32_t size;		/* of body */
	uint8_t *body;		/* owned by the message */
};

struct wire_options {
	size_t send_bytes_max;	/* queue, 0 = 4 MiB */
	size_t recv_bytes_max;	/* queue, 0 = 4 MiB */
	uint32_t body_max;	/* larger is ERR_PROTOCOL, 0 = WIRE_BODY_MAX */
	unsigned ping_ms;	/* 0 = 15 000 */
	unsigned dead_ms;	/* 0 = 60 000 */
	uint64_t rate_max;	/* bytes/s sent, 0 = unlimited */
};

/* Over two descriptors (may be the same socket), which the wire owns from now
 * on, also when it fails. */
MUST_CHECK int wire_open_fd(struct wire **out, int in, int out_fd,
    const struct wire_options *o, struct err *e);

/* `head` and `body` are sent as one message body; `head` may be NULL. */
MUST_CHECK int wire_send(struct wire *w, uint8_t type, uint32_t request,
    const void *head, size_t head_size, const void *body, size_t body_size,
    struct err *e);
/* The next message; release it with wire_msg_release(). */
MUST_CHECK int wire_recv(struct wire *w, struct wire_msg *m, struct err *e);
/* Like wire_recv, but at most `wait_ms`: 1 = got one, 0 = none, -1. */
MUST_CHECK int wire_recv_wait(struct wire *w, struct wire_msg *m,
    unsigned wait_ms, struct err *e);
void wire_msg_release(struct wire_msg *m);

/* Wait until everything sent has been handed to the transport. */
MUST_CHECK int wire_drain(struct wire *w, struct err *e);
/* Break it off now: both sides of every blocked call return. */
void wire_abort(struct wire *w, const char *why);
/* Drains politely for at most 5 s, then frees.  NULL is fine. */
void wire_close(struct wire *w);

/* Bytes that crossed the transport, both ways, headers included. */
void wire_counts(struct wire *w, uint64_t *sent, uint64_t *received);

/*
 * For implementers (base/wire_ssh.c): a transport is moved forward by one
 * thread that calls these.  `pull` and `push` never block.
 */
struct wire_transport {
	/* Wait for readable, for writable if `want_write`, or for `wake_fd`. */
	int (*wait)(void *t, int want_write, int want_read, int wake_fd,
	    int timeout_ms, struct err *e);
	/* Bytes read (> 0), 0 = nothing now, -1 = error, -2 = peer closed. */
	long (*pull)(void *t, void *out, size_t size, struct err *e);
	/* Bytes taken, 0 = no room now, -1 = error. */
	long (*push)(void *t, const void *data, size_t size, struct err *e);
	/* Free it.  If `polite`: first tell the peer that nothing more comes
	 * and wait a little (at most 2 s) for the peer to do the same, so that
	 * what was sent is not lost with the connection. */
	void (*close)(void *t, int polite);
};
/* Takes the transport whatever the result. */
MUST_CHECK int wire_open(struct wire **out, const struct wire_transport *ops,
    void *transport, const struct wire_options *o, struct err *e);

#endif
