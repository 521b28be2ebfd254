/*
 * client/link.c - one wire, one state machine, two locks.
 *
 * The order of messages on the wire must be the order in which the state
 * machine saw them, and a FRAME's number is taken in that order too.  So
 * send_lock is held over "state machine, then wire_send()", although
 * wire_send() blocks while its queue is full; receiving takes only
 * state_lock, for the moment that the state machine needs, and so goes on
 * whatever sending does.
 */
#include "client/link.h"

#include "base/buf.h"
#include "base/str.h"
#include "base/wire_ssh.h"
#include "client/client.h"
#include "proto/session.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct link {
	/* Locks, outermost first. */
	pthread_mutex_t send_lock;	/* order on the wire; guards: frames */
	pthread_mutex_t state_lock;	/* guards: session, request */

	struct wire *wire;
	struct session_state session;
	struct msg_welcome welcome;
	uint32_t frames;
	uint32_t request;
	int pid;		/* of exec:, or 0 */
};

int link_url_parse(struct link_url *u, const char *text, struct err *e)
{
	const char *at, *host, *end, *colon;
	uint64_t port = 0;
	size_t size;

	if (strncmp(text, "ssh://", 6) != 0)
		return err_set(e, ERR_USAGE, "%s: not ssh://[USER@]HOST"
		    "[:PORT] or exec:CMD", text);
	memset(u, 0, sizeof(*u));
	host = text + 6;
	at = strrchr(host, '@');
	if (at) {
		size = (size_t)(at - host);
		if (size == 0 || size >= sizeof(u->user))
			return err_set(e, ERR_USAGE, "%s: bad user", text);
		memcpy(u->user, host, size);
		host = at + 1;
	}
	if (*host == '[') {
		end = strchr(host++, ']');
		if (!end)
			return err_set(e, ERR_USAGE, "%s: no ] after [", text);
		colon = end + 1;
	} else {
		end = host + strcspn(host, ":/");
		colon = end;
	}
	size = (size_t)(end - host);
	if (size == 0 || size >= sizeof(u->host) || *host == '-')
		return err_set(e, ERR_USAGE, "%s: bad host", text);
	memcpy(u->host, host, size);
	if (strcmp(colon, "/") == 0 || *colon == '\0')
		return 0;
	if (*colon != ':' || str_u64(&port, colon + 1, 65535, e) != 0 ||
	    port == 0)
		return err_set(e, ERR_USAGE, "%s: bad port", text);
	u->port = (unsigned)port;
	return 0;
}

static int open_ssh(struct wire **w, const struct link_target *t,
    const struct wire_options *o, struct err *e)
{
	struct ssh_target target = { .use_config = true };
	struct link_url u;

	if (link_url_parse(&u, t->server, e) != 0)
		return -1;
	target.host = u.host;
	target.user = u.user[0] ? u.user : t->user;
	target.port = u.port;
	target.key_file = t->key;
	target.known_hosts = t->known_hosts;
	return wire_ssh_connect(w, &target, o, e);
}

static int open_fd(struct wire **w, const char *number,
    const struct wire_options *o, struct err *e)
{
	uint64_t fd;
	int out;

	if (str_u64(&fd, number, 65535, e) != 0)
		return err_add(e, "fd:");
	out = dup((int)fd);
	if (out < 0)
		return err_set(e, ERR_USAGE, "fd:%s is not open", number);
	return wire_open_fd(w, (int)fd, out, o, e);
}

static int open_exec(struct wire **w, const char *command, int *pid,
    const struct wire_options *o, struct err *e)
{
	int in, out;

	if (link_exec(command, &in, &out, pid, e) != 0)
		return -1;
	return wire_open_fd(w, in, out, o, e);
}

/* HELLO --> WELCOME */
static int greet(struct link *l, struct err *e)
{
	struct msg_hello hello = {
		.version_min = PROTO_VERSION, .version_max = PROTO_VERSION,
		.program = "bkclient " BKCLIENT_VERSION,
	};
	struct wire_msg m;
	struct buf b;
	int rc = -1;

	buf_init(&b, 512);
	msg_hello_put(&b, &hello);
	if (buf_ok(&b, "hello", e) != 0 ||
	    link_send(l, MSG_HELLO, link_request(l), b.data, b.size, e) != 0 ||
	    link_recv(l, &m, e) != 0)
		goto out;
	if (m.type != MSG_WELCOME)
		err_set(e, ERR_PROTOCOL, "the server did not say welcome");
	else
		rc = msg_welcome_get(&l->welcome, m.body, m.size, e);
	wire_msg_release(&m);
	if (rc == 0 && l->welcome.version != PROTO_VERSION)
		rc = err_set(e, ERR_VERSION, "the server speaks version %u of "
		    "the protocol, not %d", l->welcome.version,
		    PROTO_VERSION);
out:
	buf_release(&b);
	return rc;
}

static int open_any(struct wire **w, const struct link_target *t, int *pid,
    struct err *e)
{
	struct wire_options o = { .rate_max = t->rate_max };

	if (strncmp(t->server, "exec:", 5) == 0)
		return open_exec(w, t->server + 5, pid, &o, e);
	if (strncmp(t->server, "fd:", 3) == 0)
		return open_fd(w, t->server + 3, &o, e);
	return open_ssh(w, t, &o, e);
}

int link_open(struct link **out, const struct link_target *t, struct err *e)
{
	struct wire *w = NULL;
	int pid = 0;

	if (open_any(&w, t, &pid, e) != 0) {
		link_reap(pid);
		return err_add(e, "%.200s", t->server);
	}
	if (link_open_wire(out, w, e) != 0) {
		link_reap(pid);
		return err_add(e, "%.200s", t->server);
	}
	(*out)->pid = pid;
	return 0;
}

int link_open_wire(struct link **out, struct wire *w, struct err *e)
{
	struct link *l = calloc(1, sizeof(*l));

	if (!l) {
		wire_close(w);
		return err_set(e, ERR_NO_MEMORY, "no memory for a session");
	}
	l->wire = w;
	l->request = LINK_REQUEST_BASE;
	pthread_mutex_init(&l->send_lock, NULL);
	pthread_mutex_init(&l->state_lock, NULL);
	session_init(&l->session, false);
	if (greet(l, e) != 0) {
		link_abort(l, "no greeting");
		link_close(l);
		return -1;
	}
	*out = l;
	return 0;
}

void link_close(struct link *l)
{
	struct err ignored;

	if (!l)
		return;
	if ((l->session.state & (PS_READY | PS_PUSH)) != 0)
		(void)!link_send(l, MSG_BYE, link_request(l), NULL, 0,
		    &ignored);
	wire_close(l->wire);
	link_reap(l->pid);
	pthread_mutex_destroy(&l->send_lock);
	pthread_mutex_destroy(&l->state_lock);
	free(l);
}

void link_abort(struct link *l, const char *why)
{
	wire_abort(l->wire, why);
}

const struct msg_welcome *link_welcome(const struct link *l)
{
	return &l->welcome;
}

uint32_t link_request(struct link *l)
{
	uint32_t request;

	pthread_mutex_lock(&l->state_lock);
	request = l->request++;
	if (l->request == 0)
		l->request = LINK_REQUEST_BASE;
	pthread_mutex_unlock(&l->state_lock);
	return request;
}

/* With send_lock held. */
static int send_locked(struct link *l, uint8_t type, uint32_t request,
    const void *body, size_t size, struct err *e)
{
	int rc;

	assert(size <= WIRE_BODY_MAX);
	pthread_mutex_lock(&l->state_lock);
	rc = session_out(&l->session, type, request, body, (uint32_t)size, e);
	pthread_mutex_unlock(&l->state_lock);
	if (rc != 0)
		return -1;
	return wire_send(l->wire, type, request, NULL, 0, body, size, e);
}

int link_send(struct link *l, uint8_t type, uint32_t request,
    const void *body, size_t size, struct err *e)
{
	int rc;

	pthread_mutex_lock(&l->send_lock);
	if (type == MSG_BEGIN)
		l->frames = 0;		/* numbers are those of a push */
	rc = send_locked(l, type, request, body, size, e);
	pthread_mutex_unlock(&l->send_lock);
	return rc;
}

int link_send_frame(struct link *l, const void *frame, size_t size,
    uint32_t *number, struct err *e)
{
	int rc;

	pthread_mutex_lock(&l->send_lock);
	*number = ++l->frames;
	rc = send_locked(l, MSG_FRAME, *number, frame, size, e);
	pthread_mutex_unlock(&l->send_lock);
	return rc;
}

uint32_t link_frames(struct link *l)
{
	uint32_t frames;

	pthread_mutex_lock(&l->send_lock);
	frames = l->frames;
	pthread_mutex_unlock(&l->send_lock);
	return frames;
}

static int server_error(const struct wire_msg *m, struct err *e)
{
	struct msg_error got;

	if (msg_error_get(&got, m->body, m->size, e) != 0)
		return -1;
	return err_set(e, got.code == ERR_NONE ? ERR_PROTOCOL : got.code,
	    "%s", got.text);
}

int link_recv(struct link *l, struct wire_msg *m, struct err *e)
{
	int rc;

	if (wire_recv(l->wire, m, e) != 0)
		return -1;
	pthread_mutex_lock(&l->state_lock);
	rc = session_in(&l->session, m->type, m->request, m->body, m->size, e);
	pthread_mutex_unlock(&l->state_lock);
	if (rc == 0 && m->type == MSG_ERROR)
		rc = server_error(m, e);
	if (rc != 0)
		wire_msg_release(m);
	return rc;
}

void link_counts(struct link *l, uint64_t *sent, uint64_t *received)
{
	wire_counts(l->wire, sent, received);
}
