/*
 * server/sessions.c - all sessions: how many, whose, and their end.
 *
 * A connection is counted before anything is read from it: at most
 * `unauthenticated` may be without a known key (more wait outside), `sessions`
 * all together, and `sessions_per_client` for one client (what is over is
 * closed at once).
 *
 * A slot keeps a duplicate of the descriptor, so that a connection that is
 * still negotiating can be shut down from outside without knowing whether its
 * thread has closed the original by now.
 */
#include "server/session.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "base/wire.h"
#include "base/wire_ssh.h"
#include "server/owner.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct slot {
	struct slot *next;
	struct sessions *all;
	struct session s;
	char client[CLIENT_NAME_MAX + 1];
	char peer[64];
	int64_t since_s;
	int fd;				/* of the connection; see above */
	int shut;			/* duplicate of it */
	struct ssh_listener *listener;	/* NULL: no SSH */
	bool known;			/* authenticated */
};

struct sessions {
	struct owner *owner;
	pthread_mutex_t lock;	/* guards: list, counts, wires, known */
	pthread_cond_t changed;
	struct slot *list;
	unsigned count, unknown;
	uint64_t last_number;
};

int sessions_new(struct sessions **out, struct owner *o, struct err *e)
{
	struct sessions *ss = calloc(1, sizeof(*ss));
	pthread_condattr_t attr;

	if (!ss)
		return err_set(e, ERR_NO_MEMORY, "no memory for sessions");
	ss->owner = o;
	pthread_mutex_init(&ss->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&ss->changed, &attr);
	pthread_condattr_destroy(&attr);
	*out = ss;
	return 0;
}

void sessions_free(struct sessions *ss)
{
	if (!ss)
		return;
	pthread_cond_destroy(&ss->changed);
	pthread_mutex_destroy(&ss->lock);
	free(ss);
}

static struct config limits(struct sessions *ss)
{
	struct config c;

	pthread_mutex_lock(&ss->owner->config_lock);
	c = ss->owner->state.config;
	pthread_mutex_unlock(&ss->owner->config_lock);
	return c;
}

/*
 * ---- slots ----------------------------------------------------------------
 */

/* Counts it in, or NULL when there are too many (the descriptor is closed). */
static struct slot *slot_new(struct sessions *ss, int fd, const char *peer,
    bool known)
{
	struct config c = limits(ss);
	struct slot *sl = calloc(1, sizeof(*sl));
	bool fits = sl && !owner_stopping(ss->owner);

	pthread_mutex_lock(&ss->lock);
	fits = fits && ss->count < c.sessions_max &&
	    (known || ss->unknown < c.unauthenticated_max);
	if (fits) {
		*sl = (struct slot){ .all = ss, .fd = fd, .known = known,
		    .shut = fcntl(fd, F_DUPFD_CLOEXEC, 0),
		    .since_s = clock_real_s(), .next = ss->list };
		snprintf(sl->peer, sizeof(sl->peer), "%s", peer);
		sl->s = (struct session){ .owner = ss->owner,
		    .client = sl->client, .number = ++ss->last_number };
		ss->list = sl;
		ss->count++;
		ss->unknown += !known;
	}
	pthread_mutex_unlock(&ss->lock);
	if (fits)
		return sl;
	log_line(LOG_LEVEL_WARN, "too many connections: %s is sent away",
	    peer);
	close(fd);
	free(sl);
	return NULL;
}

static void slot_free(struct slot *sl)
{
	struct sessions *ss = sl->all;
	struct slot **at;

	pthread_mutex_lock(&ss->lock);
	for (at = &ss->list; *at != sl; at = &(*at)->next)
		;
	*at = sl->next;
	ss->count--;
	ss->unknown -= !sl->known;
	pthread_cond_broadcast(&ss->changed);
	pthread_mutex_unlock(&ss->lock);
	io_close(&sl->shut);
	free(sl);
}

/* The client is known now: may it have one more? */
static bool slot_known(struct slot *sl, uint64_t client_max)
{
	struct sessions *ss = sl->all;
	uint64_t others = 0;

	pthread_mutex_lock(&ss->lock);
	for (struct slot *o = ss->list; o; o = o->next)
		others += o != sl && o->known &&
		    strcmp(o->client, sl->client) == 0;
	ss->unknown -= !sl->known;
	sl->known = true;
	pthread_mutex_unlock(&ss->lock);
	return others < client_max;
}

static void slot_wire(struct slot *sl, struct wire *w)
{
	pthread_mutex_lock(&sl->all->lock);
	sl->s.wire = w;
	pthread_mutex_unlock(&sl->all->lock);
}

/* Its share of the credit: the more there are, the shorter the queues. */
static struct wire_options queues(struct sessions *ss)
{
	size_t share;

	pthread_mutex_lock(&ss->lock);
	share = SESSIONS_CREDIT / 2 / (ss->count ? ss->count : 1);
	pthread_mutex_unlock(&ss->lock);
	if (share < SESSION_QUEUE_MIN)
		share = SESSION_QUEUE_MIN;
	if (share > SESSION_QUEUE_MAX)
		share = SESSION_QUEUE_MAX;
	return (struct wire_options){ .send_bytes_max = share,
	    .recv_bytes_max = share };
}

/*
 * ---- a session's thread ---------------------------------------------------
 */

static bool key_known(void *arg, const char *canonical, char *name,
    size_t name_size)
{
	struct sessions *ss = arg;
	char found[CLIENT_NAME_MAX + 1] = "";

	if (!store_client_by_key(ss->owner->store, canonical, found))
		return false;
	return snprintf(name, name_size, "%s", found) < (int)name_size;
}

static int negotiate(struct slot *sl, struct wire **w, struct err *e)
{
	const struct wire_options o = queues(sl->all);
	const struct ssh_auth auth = { .key_known = key_known,
	    .arg = sl->all, .tries_max = SESSION_TRIES_MAX,
	    .grace_s = SESSION_GRACE_S };
	int fd = sl->fd;

	sl->fd = -1;
	if (!sl->listener)
		return wire_open_fd(w, fd, fd, &o, e);
	return wire_ssh_accept(w, sl->listener, fd, &auth, sl->client,
	    sizeof(sl->client), &o, e);
}

static void serve(struct slot *sl)
{
	struct wire *w = NULL;
	char text[1024];
	struct err e;

	if (negotiate(sl, &w, &e) != 0) {
		/* May hold what anyone sent us. */
		str_escape_to(text, sizeof(text), e.text, strlen(e.text));
		log_line(LOG_LEVEL_INFO, "%s: %s", sl->peer, text);
		return;
	}
	if (!slot_known(sl, limits(sl->all).sessions_client_max)) {
		log_line(LOG_LEVEL_WARN, "%s has too many sessions already",
		    sl->client);
		wire_abort(w, "too many sessions of this client");
		wire_close(w);
		return;
	}
	slot_wire(sl, w);
	log_line(LOG_LEVEL_INFO, "session %" PRIu64 ": %s from %s",
	    sl->s.number, sl->client, sl->peer);
	if (session_run(&sl->s, &e) != 0)
		log_line(LOG_LEVEL_INFO, "session %" PRIu64 ": ended: %s",
		    sl->s.number, e.text);
	else
		log_line(LOG_LEVEL_INFO, "session %" PRIu64 ": done",
		    sl->s.number);
	slot_wire(sl, NULL);
	wire_close(w);
}

static void *slot_main(void *arg)
{
	struct slot *sl = arg;

	serve(sl);
	slot_free(sl);
	return NULL;
}

void sessions_serve_fd(struct sessions *ss, int fd, const char *client,
    bool operator)
{
	struct slot *sl = slot_new(ss, fd, operator ? "this machine" :
	    "standard input", true);

	if (!sl)
		return;
	snprintf(sl->client, sizeof(sl->client), "%s", client);
	sl->s.operator = operator;
	(void)slot_main(sl);
}

bool sessions_room(struct sessions *ss)
{
	struct config c = limits(ss);
	bool room;

	pthread_mutex_lock(&ss->lock);
	room = ss->unknown < c.unauthenticated_max;
	pthread_mutex_unlock(&ss->lock);
	return room;
}

void sessions_accept(struct sessions *ss, struct ssh_listener *l)
{
	pthread_attr_t attr;
	pthread_t thread;
	struct slot *sl;
	char peer[64];
	struct err e;
	int fd;

	if (ssh_listener_accept(l, &fd, peer, sizeof(peer), &e) != 0) {
		if (e.code != ERR_UNAVAILABLE)
			log_line(LOG_LEVEL_WARN, "accept: %s", e.text);
		return;
	}
	sl = slot_new(ss, fd, peer, false);
	if (!sl)
		return;
	sl->listener = l;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, slot_main, sl) != 0) {
		log_line(LOG_LEVEL_ERROR, "no thread for %s", peer);
		close(fd);
		slot_free(sl);
	}
	pthread_attr_destroy(&attr);
}

/*
 * ---- from outside ---------------------------------------------------------
 */

size_t sessions_list(struct sessions *ss, struct session_info *out,
    size_t max)
{
	size_t n = 0;

	pthread_mutex_lock(&ss->lock);
	for (struct slot *sl = ss->list; sl && n < max; sl = sl->next) {
		struct session_info *i = &out[n];

		if (!sl->s.wire)
			continue;
		memset(i, 0, sizeof(*i));
		i->number = sl->s.number;
		snprintf(i->client, sizeof(i->client), "%s", sl->client);
		snprintf(i->peer, sizeof(i->peer), "%s", sl->peer);
		i->pushing = atomic_load(&sl->s.pushing);
		i->since_s = sl->since_s;
		wire_counts(sl->s.wire, &i->sent, &i->received);
		n++;
	}
	pthread_mutex_unlock(&ss->lock);
	return n;
}

void sessions_end_client(struct sessions *ss, const char *client,
    const char *why)
{
	pthread_mutex_lock(&ss->lock);
	for (struct slot *sl = ss->list; sl; sl = sl->next)
		if (sl->s.wire && !sl->s.operator &&
		    strcmp(sl->client, client) == 0)
			wire_abort(sl->s.wire, why);
	pthread_mutex_unlock(&ss->lock);
}

/* With the lock held: until none is left, or the time is over. */
static void wait_none(struct sessions *ss, unsigned wait_ms)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += wait_ms / 1000;
	until.tv_nsec += (long)(wait_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	while (ss->count > 0 && pthread_cond_timedwait(&ss->changed,
	    &ss->lock, &until) == 0)
		;
}

void sessions_stop(struct sessions *ss, unsigned wait_ms)
{
	pthread_mutex_lock(&ss->lock);
	for (struct slot *sl = ss->list; sl; sl = sl->next)
		if (!sl->known && sl->shut >= 0)
			(void)shutdown(sl->shut, SHUT_RDWR);
	wait_none(ss, wait_ms);
	for (struct slot *sl = ss->list; sl; sl = sl->next) {
		if (sl->s.wire)
			wire_abort(sl->s.wire, "the server is stopping");
		if (sl->shut >= 0)
			(void)shutdown(sl->shut, SHUT_RDWR);
	}
	while (ss->count > 0)
		pthread_cond_wait(&ss->changed, &ss->lock);
	pthread_mutex_unlock(&ss->lock);
}
