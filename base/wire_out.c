#include "base/clock.h"
#include "base/le.h"
#include "base/wire_pump.h"

#include <stdlib.h>
#include <string.h>

#define PUSHES_MAX 32		/* before it is the receiver's turn again */

static void stage_ping(struct wire *w, bool *wanted, uint32_t request)
{
	uint8_t *p = w->out_stage + w->out_have;

	if (!*wanted || STAGE_SIZE - w->out_have < WIRE_HEADER_SIZE)
		return;
	le32_put(p, WIRE_HEADER_SIZE - 4);
	p[4] = TYPE_PING;
	le32_put(p + 5, request);
	w->out_have += WIRE_HEADER_SIZE;
	*wanted = false;
}

struct out_msg *wire_out_take(struct wire *w)
{
	struct out_msg *m;

	pthread_mutex_lock(&w->lock);
	m = w->out_first;
	if (m) {
		w->out_first = m->next;
		w->out_bytes -= out_weight(m);
		pthread_cond_broadcast(&w->send_room);
	}
	pthread_mutex_unlock(&w->lock);
	return m;
}

/* Between two messages: pings first, then the next message, if any. */
static bool stage_next(struct wire *w)
{
	stage_ping(w, &w->want_ping, PING_ASK);
	stage_ping(w, &w->want_answer, PING_ANSWER);
	w->out = wire_out_take(w);
	w->out_at = 0;
	return w->out != NULL;
}

/* Fill the empty stage with as much as fits. */
static void stage_fill(struct wire *w)
{
	w->out_have = w->out_next = 0;
	while (w->out || stage_next(w)) {
		size_t n = w->out->size - w->out_at;

		if (n > STAGE_SIZE - w->out_have)
			n = STAGE_SIZE - w->out_have;
		memcpy(w->out_stage + w->out_have, w->out->data + w->out_at, n);
		w->out_have += n;
		w->out_at += n;
		if (w->out_at < w->out->size)
			return;
		w->staged += w->out->size;
		free(w->out);
		w->out = NULL;
	}
}

/* How much may be pushed now; 0 = the rate is used up. */
static size_t rate_allows(struct wire *w, size_t want)
{
	uint64_t now;
	double burst;

	if (w->o.rate_max == 0)
		return want;
	now = clock_mono_ms();
	burst = (double)w->o.rate_max / 10 + 4096;
	w->tokens += (double)(now - w->tokens_ms) *
	    (double)w->o.rate_max / 1000;
	w->tokens_ms = now;
	if (w->tokens > burst)
		w->tokens = burst;
	if (w->tokens < 1024)	/* not in driblets */
		return 0;
	return (double)want < w->tokens ? want : (size_t)w->tokens;
}

static void count_sent(struct wire *w, size_t n)
{
	w->sent_ms = clock_mono_ms();
	pthread_mutex_lock(&w->lock);
	w->sent += n;
	if (w->out_next == w->out_have && w->handed != w->staged) {
		w->handed = w->staged;
		pthread_cond_broadcast(&w->handed_on);
	}
	pthread_mutex_unlock(&w->lock);
}

int wire_out_pump(struct wire *w, enum wire_out *how, struct err *e)
{
	*how = WIRE_OUT_DONE;
	for (int i = 0; i < PUSHES_MAX; i++) {
		size_t want;
		long n;

		if (w->out_next == w->out_have)
			stage_fill(w);
		want = w->out_have - w->out_next;
		if (want == 0)
			return 0;
		want = rate_allows(w, want);
		if (want == 0) {
			*how = WIRE_OUT_LIMITED;
			return 0;
		}
		n = w->ops->push(w->transport, w->out_stage + w->out_next,
		    want, e);
		if (n < 0)
			return -1;
		if (n == 0)
			return 0;
		w->out_next += (size_t)n;
		w->tokens -= (double)n;
		count_sent(w, (size_t)n);
	}
	*how = WIRE_OUT_MORE;
	return 0;
}

bool wire_out_empty(struct wire *w)
{
	bool empty;

	pthread_mutex_lock(&w->lock);
	empty = !w->out_first;
	pthread_mutex_unlock(&w->lock);
	return empty && !w->out && w->out_next == w->out_have;
}
