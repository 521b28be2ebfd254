/*
 * base/wire_pump.c - the pump: two bounded queues and the thread between them
 *
 *    wire_send -> send queue -> stage -> push | the peer
 *    wire_recv <- recv queue <- stage <- pull |
 *
 * BACK-PRESSURE
 *
 *   A full send queue blocks wire_send().  A full receive queue ends pulling,
 *   so that the transport's window closes and the peer's push gets no room.
 *   At most one message beyond each bound is in memory, and the two stages.
 *
 * LIVENESS
 *
 *   Ping and answer go out at message boundaries, before queued messages.
 *   Neither side depends on being asked, because a question may be slow to
 *   arrive: behind megabytes on a slow line, or behind data that the other
 *   side does not read yet.
 *   A transport may read from the line only while it waits, so a peer is
 *   given up only after one more wait: we may have been busy sending, or not
 *   been given the processor, while its bytes lay there.
 *
 * ENDINGS
 *
 *   wire_close()  sends what is queued, at most 5 s, reading and dropping
 *                 meanwhile; then the transport's polite close.
 *   wire_abort()  the thread leaves its wait at once; impolite close.
 *   an error      what the peer said last is still read (it explains why the
 *                 line was closed), then every call fails with that error.
 *
 *   In all three the thread closes the transport itself, as the last thing.
 *
 * LOCKS
 *
 *   One lock, never held across a call of the transport.  The members under
 *   "the thread's own" are touched by the pump's thread alone.
 */
#include "base/wire_pump.h"

#include "base/clock.h"

#include <unistd.h>

#define CLOSE_MS 5000
#define LAST_WORDS_MS 1000

void wire_wake(struct wire *w)
{
	uint64_t one = 1;

	/* Fails only when the counter is full: then it is awake anyway. */
	if (write(w->wake_fd, &one, sizeof(one)) < 0)
		return;
}

void wire_fail(struct wire *w, const struct err *e)
{
	pthread_mutex_lock(&w->lock);
	if (!w->failed) {
		w->failed = true;
		w->err = *e;
	}
	pthread_cond_broadcast(&w->send_room);
	pthread_cond_broadcast(&w->recv_ready);
	pthread_cond_broadcast(&w->handed_on);
	pthread_mutex_unlock(&w->lock);
}

/* Decide on pings; -1 when the peer has been silent for too long. */
static int check_life(struct wire *w, uint64_t now, struct err *e)
{
	uint64_t silent = now - w->heard_ms;

	if (now - w->sent_ms >= w->o.ping_ms &&
	    now - w->answer_sent_ms >= w->o.ping_ms) {
		w->answer_sent_ms = now;
		w->want_answer = true;
	}
	if (w->paused)
		return 0;
	if (silent < w->o.dead_ms)
		w->doubted = false;
	else if (w->doubted)
		return err_set(e, ERR_TIMEOUT, "no sign of life from the peer "
		    "for %u s", w->o.dead_ms / 1000);
	else
		w->doubted = true;
	if (silent >= w->o.ping_ms &&
	    now - w->ping_sent_ms >= w->o.ping_ms) {
		w->ping_sent_ms = now;
		w->want_ping = true;
	}
	return 0;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Milliseconds until check_life() has something to decide, or the rate allows
 * more; at most a second. */
static int wait_ms(const struct wire *w, uint64_t now, bool limited)
{
	uint64_t next = later(w->sent_ms, w->answer_sent_ms) + w->o.ping_ms;
	uint64_t ping = later(w->heard_ms, w->ping_sent_ms) + w->o.ping_ms;
	uint64_t dead = w->heard_ms + w->o.dead_ms;
	uint64_t ms;

	if (!w->paused && ping < next)
		next = ping;
	if (!w->paused && dead < next)
		next = dead;
	ms = next > now ? next - now : 0;
	if (limited && ms > 10)
		ms = 10;
	return ms > 1000 ? 1000 : (int)ms;
}

/* Is there nothing to do but wait?  If so, a change must wake us. */
static bool may_sleep(struct wire *w, bool pending)
{
	bool idle;

	pthread_mutex_lock(&w->lock);
	idle = !w->aborted && !(w->paused && in_room(w, wire_in_waiting(w))) &&
	    (pending || (!w->want_ping && !w->want_answer && !w->out_first));
	w->sleeping = idle;
	pthread_mutex_unlock(&w->lock);
	return idle;
}

static int pump_wait(struct wire *w, enum wire_out how, struct err *e)
{
	bool pending = w->out_next < w->out_have;
	uint64_t count;
	int rc = 0;

	if (how == WIRE_OUT_MORE)	/* a look at the line, no more */
		rc = w->ops->wait(w->transport, 0, !w->paused, w->wake_fd, 0,
		    e);
	else if (may_sleep(w, pending))
		rc = w->ops->wait(w->transport, pending &&
		    how != WIRE_OUT_LIMITED, !w->paused, w->wake_fd,
		    wait_ms(w, clock_mono_ms(), how == WIRE_OUT_LIMITED), e);
	pthread_mutex_lock(&w->lock);
	w->sleeping = false;
	pthread_mutex_unlock(&w->lock);
	while (read(w->wake_fd, &count, sizeof(count)) > 0)
		continue;
	return rc;
}

/* The line broke while sending: read what the peer said last. */
static void last_words(struct wire *w)
{
	uint64_t until = clock_mono_ms() + LAST_WORDS_MS;
	struct err e;
	bool more;

	while (!w->ended && !w->paused && clock_mono_ms() < until) {
		if (wire_in_pump(w, &more, &e) != 0)
			return;
		if (!more && !w->ended && w->ops->wait(w->transport, 0, 1,
		    w->wake_fd, 100, &e) != 0)
			return;
	}
}

/* 1 = stop, it was closed or aborted; 0 = go on; -1 = failed. */
static int step(struct wire *w, uint64_t *close_by, struct err *e)
{
	bool closing, aborted, more;
	enum wire_out how;
	uint64_t now;

	pthread_mutex_lock(&w->lock);
	closing = w->closing;
	aborted = w->aborted;
	pthread_mutex_unlock(&w->lock);
	if (aborted)
		return 1;
	if (wire_in_pump(w, &more, e) != 0)
		return -1;
	if (w->ended)
		return err_set(e, ERR_UNAVAILABLE, "the peer closed the "
		    "connection");
	now = clock_mono_ms();
	if (check_life(w, now, e) != 0)
		return -1;
	if (w->doubted)		/* look once more: we may be the late ones */
		return w->ops->wait(w->transport, 0, 1, w->wake_fd, 100, e);
	if (wire_out_pump(w, &how, e) != 0) {
		last_words(w);
		return -1;
	}
	if (closing) {
		if (*close_by == 0)
			*close_by = now + CLOSE_MS;
		if (wire_out_empty(w) || now >= *close_by)
			return 1;
	}
	if (more)
		return 0;
	return pump_wait(w, how, e);
}

void *wire_pump(void *arg)
{
	struct wire *w = arg;
	uint64_t close_by = 0;
	struct err e;
	int rc;

	do {
		rc = step(w, &close_by, &e);
	} while (rc == 0);
	if (rc < 0)
		wire_fail(w, &e);
	pthread_mutex_lock(&w->lock);
	rc = w->failed;
	pthread_mutex_unlock(&w->lock);
	w->ops->close(w->transport, !rc);
	return NULL;
}
