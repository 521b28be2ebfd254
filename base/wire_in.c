#include "base/clock.h"
#include "base/le.h"
#include "base/wire_pump.h"

#include <stdlib.h>
#include <string.h>

#define PULLS_MAX 32		/* before it is the sender's turn again */

static int bad_length(struct err *e, uint32_t length)
{
	return err_set(e, ERR_PROTOCOL, "the peer sent a message of %u bytes, "
	    "which no message has", length);
}

/* A ping is never shown to the caller. */
static int on_ping(struct wire *w, uint32_t request, uint32_t size,
    struct err *e)
{
	if (size > 0 || request > PING_ANSWER)
		return err_set(e, ERR_PROTOCOL, "the peer sent a wrong ping");
	if (request == PING_ASK)
		w->want_answer = true;
	return 0;
}

uint32_t wire_in_waiting(const struct wire *w)
{
	return le32_get(w->in_header) - (WIRE_HEADER_SIZE - 4);
}

/* The header is whole: 1 = there is a message to fill now, 0 = the queue has
 * no room for it yet or it was a ping, -1. */
static int in_begin(struct wire *w, struct err *e)
{
	uint32_t length = le32_get(w->in_header);
	uint32_t size = wire_in_waiting(w);
	bool room;

	if (length < WIRE_HEADER_SIZE - 4 || size > w->o.body_max)
		return bad_length(e, length);
	if (w->in_header[4] == TYPE_PING) {
		w->in_header_have = 0;
		return on_ping(w, le32_get(w->in_header + 5), size, e);
	}
	pthread_mutex_lock(&w->lock);
	room = in_room(w, size);
	pthread_mutex_unlock(&w->lock);
	w->paused = !room;
	if (!room)
		return 0;
	w->in = calloc(1, sizeof(*w->in));
	if (w->in && size > 0)
		w->in->m.body = malloc(size);
	if (!w->in || (size > 0 && !w->in->m.body)) {
		free(w->in);
		w->in = NULL;
		return err_set(e, ERR_NO_MEMORY, "no %u bytes to receive",
		    size);
	}
	w->in->m.type = w->in_header[4];
	w->in->m.request = le32_get(w->in_header + 5);
	w->in->m.size = size;
	w->in_body_have = 0;
	return 1;
}

void wire_in_free(struct in_msg *in)
{
	if (in)
		free(in->m.body);
	free(in);
}

/* The message is whole: give it to wire_recv(). */
static void in_end(struct wire *w)
{
	struct in_msg *in = w->in;

	w->in = NULL;
	w->in_header_have = 0;
	pthread_mutex_lock(&w->lock);
	if (w->closing) {
		wire_in_free(in);
	} else {
		if (w->in_first)
			w->in_last->next = in;
		else
			w->in_first = in;
		w->in_last = in;
		w->in_bytes += in_weight(in->m.size);
		pthread_cond_signal(&w->recv_ready);
	}
	pthread_mutex_unlock(&w->lock);
}

static size_t stage_take(struct wire *w, uint8_t *to, size_t want)
{
	size_t n = w->in_have - w->in_next;

	if (n > want)
		n = want;
	memcpy(to, w->in_stage + w->in_next, n);
	w->in_next += n;
	return n;
}

/* Cut the stage into messages, until it is empty or the queue is full. */
static int in_parse(struct wire *w, struct err *e)
{
	while (w->in || w->in_header_have == WIRE_HEADER_SIZE ||
	    w->in_next < w->in_have) {
		if (!w->in) {
			int begun;

			w->in_header_have += stage_take(w, w->in_header +
			    w->in_header_have,
			    WIRE_HEADER_SIZE - w->in_header_have);
			if (w->in_header_have < WIRE_HEADER_SIZE)
				return 0;
			begun = in_begin(w, e);
			if (begun < 0 || w->paused)
				return begun;
			if (begun == 0)
				continue;
		}
		if (w->in->m.size > 0)
			w->in_body_have += stage_take(w, w->in->m.body +
			    w->in_body_have, w->in->m.size - w->in_body_have);
		if (w->in_body_have < w->in->m.size)
			return 0;
		in_end(w);
	}
	return 0;
}

/* One pull: into the body that is being filled when much of it is missing,
 * else into the (empty) stage.  As the transport's. */
static long pull_once(struct wire *w, struct err *e)
{
	size_t missing = w->in ? w->in->m.size - w->in_body_have : 0;
	long n;

	if (missing >= STAGE_SIZE) {
		n = w->ops->pull(w->transport, w->in->m.body +
		    w->in_body_have, missing, e);
		if (n > 0)
			w->in_body_have += (size_t)n;
		return n;
	}
	n = w->ops->pull(w->transport, w->in_stage, STAGE_SIZE, e);
	if (n > 0) {
		w->in_have = (size_t)n;
		w->in_next = 0;
	}
	return n;
}

static void count_received(struct wire *w, long n)
{
	pthread_mutex_lock(&w->lock);
	w->received += (uint64_t)n;
	pthread_mutex_unlock(&w->lock);
	w->heard_ms = clock_mono_ms();
}

int wire_in_pump(struct wire *w, bool *more, struct err *e)
{
	*more = false;
	if (w->paused) {
		w->paused = false;
		if (in_parse(w, e) != 0)
			return -1;
		w->heard_ms = clock_mono_ms();
	}
	for (int i = 0; !w->paused && !w->ended; i++) {
		long n;

		if (i == PULLS_MAX) {
			*more = true;
			return 0;
		}
		n = pull_once(w, e);
		if (n == -2)
			w->ended = true;
		if (n == 0 || n == -2)
			return 0;
		if (n < 0)
			return -1;
		count_received(w, n);
		if (in_parse(w, e) != 0)
			return -1;
	}
	return 0;
}

