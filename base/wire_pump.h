/*
 * base/wire_pump.h - what the files of the wire share; nobody else's.
 *
 * wire.c       the callers' side and the life of a wire
 * wire_pump.c  the thread: liveness, waiting, endings (theory there)
 * wire_out.c   the thread's sending
 * wire_in.c    the thread's receiving
 *
 * Threads: wire_out_* and wire_in_* are called by the wire's thread alone.
 */
#ifndef BASE_WIRE_PUMP_H
#define BASE_WIRE_PUMP_H

#include "base/wire.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Four packets of 32768 - 10 bytes, the payload that an SSH peer takes. */
#define STAGE_SIZE 131032

#define TYPE_PING 0
#define PING_ASK 0		/* request numbers of a ping */
#define PING_ANSWER 1

struct out_msg {
	struct out_msg *next;
	size_t size;		/* header and body */
	uint8_t data[];
};

struct in_msg {
	struct in_msg *next;
	struct wire_msg m;
};

struct wire {
	pthread_mutex_t lock;	/* guards the members down to the line */
	pthread_cond_t send_room, recv_ready, handed_on;
	struct out_msg *out_first, *out_last;
	size_t out_bytes;
	struct in_msg *in_first, *in_last;
	size_t in_bytes;
	uint64_t queued, handed;	/* message bytes ever: wire_drain() */
	uint64_t sent, received;	/* bytes, for wire_counts() */
	bool sleeping;		/* the thread waits: a change must wake it */
	bool closing, failed, aborted;
	struct err err;		/* valid once failed */
	/* ---- fixed after wire_open() */
	struct wire_options o;
	const struct wire_transport *ops;
	void *transport;
	pthread_t thread;
	int wake_fd;
	/* ---- the thread's own: sending */
	struct out_msg *out;	/* partly copied to the stage */
	size_t out_at;
	uint8_t out_stage[STAGE_SIZE];
	size_t out_have, out_next;
	uint64_t staged;	/* bytes ever of wholly staged messages */
	double tokens;		/* bytes that rate_max allows now */
	uint64_t tokens_ms, sent_ms, ping_sent_ms, answer_sent_ms;
	bool want_ping, want_answer;
	/* receiving */
	uint8_t in_stage[STAGE_SIZE];
	size_t in_have, in_next;
	uint8_t in_header[WIRE_HEADER_SIZE];
	size_t in_header_have;
	struct in_msg *in;	/* its body is being filled */
	size_t in_body_have;
	bool paused;		/* the receive queue is full */
	bool ended;		/* the peer closed */
	bool doubted;		/* silent for too long, as far as we saw */
	uint64_t heard_ms;
};

/* What a queue counts for a message. */
static inline size_t out_weight(const struct out_msg *m)
{
	return sizeof(*m) + m->size;
}

static inline size_t in_weight(uint32_t size)
{
	return sizeof(struct in_msg) + size;
}

/* Needs the lock: may a message with a body of this size be received now? */
static inline bool in_room(const struct wire *w, uint32_t size)
{
	return w->closing || !w->in_first ||
	    w->in_bytes + in_weight(size) <= w->o.recv_bytes_max;
}

/* Make the thread leave its wait. */
void wire_wake(struct wire *w);
/* The first error counts; wakes all callers. */
void wire_fail(struct wire *w, const struct err *e);
/* The thread's function. */
void *wire_pump(void *wire);

/* Take the first queued message, or NULL. */
struct out_msg *wire_out_take(struct wire *w);
enum wire_out {
	WIRE_OUT_DONE,		/* nothing more to send, or no room */
	WIRE_OUT_LIMITED,	/* the rate is used up */
	WIRE_OUT_MORE,		/* it is the receiver's turn */
};
/* Push what there is. */
MUST_CHECK int wire_out_pump(struct wire *w, enum wire_out *how,
    struct err *e);
/* True when nothing is queued, staged or half sent. */
bool wire_out_empty(struct wire *w);

/*
 * Pull and cut until nothing is there, the queue is full (`paused`), or the
 * sender should have its turn (*more).  `ended` is set when the peer closed.
 */
MUST_CHECK int wire_in_pump(struct wire *w, bool *more, struct err *e);
/* Size of the body whose header is waiting while `paused`. */
uint32_t wire_in_waiting(const struct wire *w);
void wire_in_free(struct in_msg *in);

#endif
