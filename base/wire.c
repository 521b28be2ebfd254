#include "base/wire.h"

#include "base/clock.h"
#include "base/le.h"
#include "base/wire_pump.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define QUEUE_DEFAULT (4u << 20)
#define PING_DEFAULT_MS 15000
#define DEAD_DEFAULT_MS 60000

/* ---- sending */

static struct out_msg *out_new(uint8_t type, uint32_t request,
    const struct wire_msg *head, const void *body, size_t body_size)
{
	size_t size = head->size + body_size;
	struct out_msg *m = malloc(sizeof(*m) + WIRE_HEADER_SIZE + size);
	uint8_t *p;

	if (!m)
		return NULL;
	m->next = NULL;
	m->size = WIRE_HEADER_SIZE + size;
	p = m->data;
	le32_put(p, (uint32_t)size + WIRE_HEADER_SIZE - 4);
	p[4] = type;
	le32_put(p + 5, request);
	if (head->size > 0)
		memcpy(p + WIRE_HEADER_SIZE, head->body, head->size);
	if (body_size > 0)
		memcpy(p + WIRE_HEADER_SIZE + head->size, body, body_size);
	return m;
}

/* Needs the lock. */
static bool out_room(const struct wire *w, const struct out_msg *m)
{
	return w->out_bytes == 0 ||
	    w->out_bytes + out_weight(m) <= w->o.send_bytes_max;
}

static int out_add(struct wire *w, struct out_msg *m, struct err *e)
{
	int rc = -1;

	pthread_mutex_lock(&w->lock);
	while (!w->failed && !out_room(w, m))
		pthread_cond_wait(&w->send_room, &w->lock);
	if (w->failed) {
		*e = w->err;
	} else {
		if (w->out_first)
			w->out_last->next = m;
		else
			w->out_first = m;
		w->out_last = m;
		w->out_bytes += out_weight(m);
		w->queued += m->size;
		if (w->sleeping)
			wire_wake(w);
		rc = 0;
	}
	pthread_mutex_unlock(&w->lock);
	return rc;
}

int wire_send(struct wire *w, uint8_t type, uint32_t request,
    const void *head, size_t head_size, const void *body, size_t body_size,
    struct err *e)
{
	struct wire_msg h = {
		.size = (uint32_t)head_size, .body = (uint8_t *)(uintptr_t)head,
	};
	struct out_msg *m;

	assert(type != TYPE_PING);
	assert(head_size <= w->o.body_max &&
	    body_size <= w->o.body_max - head_size);
	m = out_new(type, request, &h, body, body_size);
	if (!m)
		return err_set(e, ERR_NO_MEMORY, "no memory to send");
	if (out_add(w, m, e) != 0) {
		free(m);
		return -1;
	}
	return 0;
}

int wire_drain(struct wire *w, struct err *e)
{
	uint64_t until;
	int rc = 0;

	pthread_mutex_lock(&w->lock);
	until = w->queued;
	while (!w->failed && w->handed < until)
		pthread_cond_wait(&w->handed_on, &w->lock);
	if (w->handed < until) {
		*e = w->err;
		rc = -1;
	}
	pthread_mutex_unlock(&w->lock);
	return rc;
}

/* ---- receiving */

static struct in_msg *in_take(struct wire *w)
{
	struct in_msg *in = w->in_first;

	w->in_first = in->next;
	w->in_bytes -= in_weight(in->m.size);
	if (w->sleeping)	/* it may be paused */
		wire_wake(w);
	return in;
}

static void deadline_after(struct timespec *t, unsigned ms)
{
	clock_gettime(CLOCK_MONOTONIC, t);
	t->tv_sec += ms / 1000;
	t->tv_nsec += (long)(ms % 1000) * 1000000;
	if (t->tv_nsec >= 1000000000) {
		t->tv_sec++;
		t->tv_nsec -= 1000000000;
	}
}

/* `until` NULL: wait for ever. */
static int receive(struct wire *w, struct wire_msg *m,
    const struct timespec *until, struct err *e)
{
	struct in_msg *in = NULL;
	int rc = 0;

	pthread_mutex_lock(&w->lock);
	while (!w->in_first && !w->failed && rc == 0)
		rc = until ? pthread_cond_timedwait(&w->recv_ready, &w->lock,
		    until) : pthread_cond_wait(&w->recv_ready, &w->lock);
	rc = 0;
	if (w->aborted || (!w->in_first && w->failed)) {
		*e = w->err;
		rc = -1;
	} else if (w->in_first) {
		in = in_take(w);
		rc = 1;
	}
	pthread_mutex_unlock(&w->lock);
	if (in) {
		*m = in->m;
		free(in);
	}
	return rc;
}

int wire_recv(struct wire *w, struct wire_msg *m, struct err *e)
{
	return receive(w, m, NULL, e) == 1 ? 0 : -1;
}

int wire_recv_wait(struct wire *w, struct wire_msg *m, unsigned wait_ms,
    struct err *e)
{
	struct timespec until;

	deadline_after(&until, wait_ms);
	return receive(w, m, &until, e);
}

void wire_msg_release(struct wire_msg *m)
{
	free(m->body);
	m->body = NULL;
	m->size = 0;
}

/* ---- life */

static void wire_free(struct wire *w)
{
	while (w->out_first)
		free(wire_out_take(w));
	free(w->out);
	while (w->in_first) {
		struct in_msg *in = w->in_first;

		w->in_first = in->next;
		wire_in_free(in);
	}
	wire_in_free(w->in);
	if (w->wake_fd >= 0)
		close(w->wake_fd);
	pthread_cond_destroy(&w->handed_on);
	pthread_cond_destroy(&w->recv_ready);
	pthread_cond_destroy(&w->send_room);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

static void set_options(struct wire *w, const struct wire_options *o)
{
	if (o)
		w->o = *o;
	if (w->o.send_bytes_max == 0)
		w->o.send_bytes_max = QUEUE_DEFAULT;
	if (w->o.recv_bytes_max == 0)
		w->o.recv_bytes_max = QUEUE_DEFAULT;
	if (w->o.body_max == 0)
		w->o.body_max = WIRE_BODY_MAX;
	if (w->o.ping_ms == 0)
		w->o.ping_ms = PING_DEFAULT_MS;
	if (w->o.dead_ms == 0)
		w->o.dead_ms = DEAD_DEFAULT_MS;
}

static struct wire *wire_new(const struct wire_options *o)
{
	struct wire *w = calloc(1, sizeof(*w));
	pthread_condattr_t mono;

	if (!w)
		return NULL;
	set_options(w, o);
	pthread_mutex_init(&w->lock, NULL);
	pthread_condattr_init(&mono);
	pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
	pthread_cond_init(&w->send_room, NULL);
	pthread_cond_init(&w->recv_ready, &mono);
	pthread_cond_init(&w->handed_on, NULL);
	pthread_condattr_destroy(&mono);
	w->heard_ms = w->tokens_ms = clock_mono_ms();
	w->sent_ms = w->ping_sent_ms = w->answer_sent_ms = w->heard_ms;
	w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return w;
}

/* All signals blocked: they are the main thread's business, and a write to
 * a closed pipe must not end the program. */
static int start(struct wire *w)
{
	sigset_t all, before;
	int os;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	os = pthread_create(&w->thread, NULL, wire_pump, w);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return os;
}

int wire_open(struct wire **out, const struct wire_transport *ops,
    void *transport, const struct wire_options *o, struct err *e)
{
	struct wire *w = wire_new(o);
	int os;

	if (!w) {
		ops->close(transport, 0);
		return err_set(e, ERR_NO_MEMORY, "no memory for a connection");
	}
	w->ops = ops;
	w->transport = transport;
	os = w->wake_fd < 0 ? errno : start(w);
	if (os != 0) {
		wire_free(w);
		ops->close(transport, 0);
		return err_os(e, os, "start a connection");
	}
	*out = w;
	return 0;
}

void wire_abort(struct wire *w, const char *why)
{
	struct err e;

	err_set(&e, ERR_CANCELLED, "%s", why);
	wire_fail(w, &e);
	pthread_mutex_lock(&w->lock);
	w->aborted = true;
	wire_wake(w);
	pthread_mutex_unlock(&w->lock);
}

void wire_close(struct wire *w)
{
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->closing = true;
	wire_wake(w);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	wire_free(w);
}

void wire_counts(struct wire *w, uint64_t *sent, uint64_t *received)
{
	pthread_mutex_lock(&w->lock);
	*sent = w->sent;
	*received = w->received;
	pthread_mutex_unlock(&w->lock);
}
