/*
 * server/control.c - the owner's end of the control socket.
 *
 * One thread accepts, and hears the signals that end the owner (they are
 * blocked everywhere else and come through a signalfd), so that a command that
 * runs in the main thread can be stopped too.  Each connection has a thread.
 *
 * Who may ask: a process of our own uid, or of root.  The socket's mode already
 * says so; the peer's credentials are checked besides, for the directory may
 * have been made wider by hand.
 */
#include "server/control.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/log.h"
#include "base/reader.h"
#include "server/owner.h"
#include "server/session.h"
#include "store/store.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define REQUEST_WAIT_S 10	/* for the request of a new connection */
#define ANSWER_WAIT_S 60	/* for a caller that does not read */

struct control {
	struct owner *owner;
	int fd, signal_fd;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock;	/* guards: peers, closing, ready */
	pthread_cond_t changed;
	unsigned peers;
	bool closing, ready;
};

struct peer {
	struct control *c;
	int fd;
};

/*
 * ---- one connection -------------------------------------------------------
 */

static int write_peer(void *arg, enum out_to to, const void *data,
    size_t size)
{
	const struct peer *p = arg;
	const uint8_t *at = data;
	struct err e;

	while (size > 0) {
		size_t n = size < CONTROL_FRAME_MAX / 2 ? size :
		    CONTROL_FRAME_MAX / 2;

		if (control_send(p->fd, to == TO_OUT ? CONTROL_OUT :
		    CONTROL_ERR, at, n, &e) != 0)
			return -1;
		at += n;
		size -= n;
	}
	return 0;
}

static void send_end(int fd, int status, const char *text)
{
	struct buf body;
	struct err e;

	buf_init(&body, CONTROL_FRAME_MAX);
	buf_le32(&body, (uint32_t)status);
	buf_add(&body, text, strlen(text));
	if (control_send(fd, CONTROL_END, body.data, body.size, &e) != 0)
		log_line(LOG_LEVEL_DEBUG, "control: %s", e.text);
	buf_release(&body);
}

static void send_away(int fd)
{
	struct err e;

	if (control_send(fd, CONTROL_AWAY, NULL, 0, &e) != 0)
		log_line(LOG_LEVEL_DEBUG, "control: %s", e.text);
}

/* A command that needs more than we hold makes us give way to its caller. */
static bool fits(struct owner *o, const struct cmd *cmd)
{
	return !o->read_only || (cmd->flags & CMD_READS);
}

static void run_request(struct peer *p, struct buf *body)
{
	struct owner *o = p->c->owner;
	struct control_run_request r;
	struct cmd_call call = { .cmd = NULL };
	struct cmd_io io = { .write = write_peer, .arg = p };
	struct err e;
	int rc;

	if (control_run_get(&r, body, &e) != 0) {
		send_end(p->fd, 2, "");
		return;
	}
	rc = cmd_parse(&call, r.argc, r.argv, &e);
	if (rc == 0 && (!call.cmd || (call.cmd->flags & CMD_LOCAL)))
		rc = err_set(&e, ERR_USAGE, "not a command for the owner");
	if (rc == 0 && (owner_stopping(o) || !fits(o, call.cmd))) {
		send_away(p->fd);
		if (!owner_stopping(o))
			owner_stop(o, 0);
		goto out;
	}
	if (rc == 0 && !(call.cmd->flags & CMD_READS))
		rc = owner_may_write(o, &e);
	if (rc == 0) {
		call.cwd = r.cwd;
		call.attached = r.attached[0] ? strdup(r.attached) : NULL;
		rc = call.cmd->run(o, &io, &call, &e);
	}
	if (rc != 0)
		out_warn(&io, "%s", e.text);
	send_end(p->fd, cmd_status(rc, &io, &e), "");
out:
	cmd_call_release(&call);
	free(r.argv);
}

/* From here the socket belongs to the session. */
static void session_request(struct peer *p, const struct buf *body)
{
	struct owner *o = p->c->owner;
	struct client_record *c;
	char name[CLIENT_NAME_MAX + 1] = "";
	struct reader r;
	struct err e;
	bool operator;
	uint32_t size;
	const uint8_t *at;
	int fd;

	reader_init(&r, body->data, body->size);
	operator = reader_u8(&r) != 0;
	size = reader_le32(&r);
	at = reader_bytes(&r, size);
	if (!at || size >= sizeof(name) || owner_stopping(o)) {
		send_away(p->fd);
		return;
	}
	memcpy(name, at, size);
	if (!operator && !o->serving) {
		send_end(p->fd, 2, "bkserver serve does not run here");
		return;
	}
	c = malloc(sizeof(*c));
	if (!c || store_client_get(o->store, name, c, &e) != 0) {
		send_end(p->fd, 2, c ? e.text : "no memory");
		free(c);
		return;
	}
	free(c);
	send_end(p->fd, 0, "");
	fd = p->fd;
	p->fd = -1;
	sessions_serve_fd(o->sessions, fd, name, operator);
}

static void yield_request(struct peer *p)
{
	struct owner *o = p->c->owner;
	char text[80];

	if (!o->serving) {
		send_end(p->fd, 0, "");
		owner_stop(o, 0);
		return;
	}
	snprintf(text, sizeof(text), "bkserver serve is already running here "
	    "(process %ld)", (long)getpid());
	send_end(p->fd, 1, text);
}

static bool peer_allowed(int fd)
{
	struct ucred who;
	socklen_t size = sizeof(who);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0)
		return false;
	return who.uid == geteuid() || who.uid == 0;
}

static void set_waits(int fd)
{
	const struct timeval in = { .tv_sec = REQUEST_WAIT_S };
	const struct timeval out = { .tv_sec = ANSWER_WAIT_S };

	(void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &in, sizeof(in));
	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &out, sizeof(out));
}

static void serve_peer(struct peer *p)
{
	struct buf body;
	struct err e;
	uint8_t type;

	if (!peer_allowed(p->fd)) {
		log_line(LOG_LEVEL_WARN, "control: another user was refused");
		return;
	}
	buf_init(&body, CONTROL_FRAME_MAX);
	set_waits(p->fd);
	if (control_recv(p->fd, &type, &body, &e) != 0)
		log_line(LOG_LEVEL_DEBUG, "control: %s", e.text);
	else if (type == CONTROL_RUN)
		run_request(p, &body);
	else if (type == CONTROL_SESSION)
		session_request(p, &body);
	else if (type == CONTROL_YIELD)
		yield_request(p);
	buf_release(&body);
}

static void *peer_main(void *arg)
{
	struct peer *p = arg;
	struct control *c = p->c;

	serve_peer(p);
	io_close(&p->fd);
	free(p);
	pthread_mutex_lock(&c->lock);
	c->peers--;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/*
 * ---- accepting ------------------------------------------------------------
 */

static bool peer_counted(struct control *c)
{
	bool ok;

	pthread_mutex_lock(&c->lock);
	ok = !c->closing && c->peers < CONTROL_PEERS_MAX;
	c->peers += ok;
	pthread_mutex_unlock(&c->lock);
	return ok;
}

static void peer_start(struct control *c, int fd)
{
	struct peer *p = malloc(sizeof(*p));
	pthread_attr_t attr;
	pthread_t thread;

	if (!p || !peer_counted(c)) {
		send_away(fd);
		close(fd);
		free(p);
		return;
	}
	*p = (struct peer){ .c = c, .fd = fd };
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, peer_main, p) != 0) {
		close(fd);
		free(p);
		pthread_mutex_lock(&c->lock);
		c->peers--;
		pthread_mutex_unlock(&c->lock);
	}
	pthread_attr_destroy(&attr);
}

static void hear_signal(struct control *c)
{
	struct signalfd_siginfo s;

	if (read(c->signal_fd, &s, sizeof(s)) != sizeof(s))
		return;
	/* A crash is safe at any moment: who asks twice is not kept waiting. */
	if (s.ssi_signo != SIGHUP && atomic_load(&c->owner->signal))
		_exit(128 + (int)s.ssi_signo);
	if (s.ssi_signo == SIGHUP && c->owner->serving)
		owner_reload(c->owner);
	else
		owner_stop(c->owner, (int)s.ssi_signo);
}

/* False once closing; *ready: requests may be taken. */
static bool going_on(struct control *c, bool *ready)
{
	bool b;

	pthread_mutex_lock(&c->lock);
	b = !c->closing;
	*ready = c->ready;
	pthread_mutex_unlock(&c->lock);
	return b;
}

static void *control_main(void *arg)
{
	struct control *c = arg;
	struct pollfd at[] = {
		{ .fd = c->signal_fd, .events = POLLIN },
		{ .fd = c->fd, .events = POLLIN },
	};
	bool ready;

	while (going_on(c, &ready)) {
		int fd;

		if (poll(at, ready ? 2 : 1, 200) <= 0)
			continue;
		if (at[0].revents)
			hear_signal(c);
		if (!ready || !at[1].revents)
			continue;
		fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC);
		if (fd >= 0)
			peer_start(c, fd);
	}
	return NULL;
}

static int signals_open(struct control *c, struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	c->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (c->signal_fd < 0)
		return err_os(e, errno, "make a signalfd");
	return 0;
}

static int socket_open(struct control *c, struct err *e)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	const struct state *s = &c->owner->state;

	if (unlinkat(s->fd, "control", 0) != 0 && errno != ENOENT)
		return err_os(e, errno, "remove the old %s/control", s->dir);
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
	    0);
	if (c->fd < 0)
		return err_os(e, errno, "make a socket");
	snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/control",
	    s->fd);
	if (bind(c->fd, (struct sockaddr *)&at, sizeof(at)) != 0 ||
	    fchmodat(s->fd, "control", 0600, 0) != 0 ||
	    listen(c->fd, 16) != 0)
		return err_os(e, errno, "listen at %s/control", s->dir);
	return 0;
}

int control_bind(struct control **out, struct owner *o, struct err *e)
{
	struct control *c = calloc(1, sizeof(*c));

	if (!c)
		return err_set(e, ERR_NO_MEMORY, "no memory for the control "
		    "socket");
	c->owner = o;
	c->fd = c->signal_fd = -1;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	if (signals_open(c, e) != 0 || socket_open(c, e) != 0) {
		control_close(c);
		return -1;
	}
	*out = c;
	return 0;
}

int control_start(struct control *c, struct err *e)
{
	int rc = pthread_create(&c->thread, NULL, control_main, c);

	if (rc != 0)
		return err_os(e, rc, "start a thread");
	c->started = true;
	return 0;
}

void control_ready(struct control *c)
{
	pthread_mutex_lock(&c->lock);
	c->ready = true;
	pthread_mutex_unlock(&c->lock);
}

void control_close(struct control *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->closing = true;
	pthread_mutex_unlock(&c->lock);
	if (c->started)
		pthread_join(c->thread, NULL);
	pthread_mutex_lock(&c->lock);
	while (c->peers > 0)
		pthread_cond_wait(&c->changed, &c->lock);
	pthread_mutex_unlock(&c->lock);
	if (c->fd >= 0)
		(void)unlinkat(c->owner->state.fd, "control", 0);
	io_close(&c->fd);
	io_close(&c->signal_fd);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}
