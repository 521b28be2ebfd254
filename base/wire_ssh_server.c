/*
 * base/wire_ssh_server.c - the listening end: from a TCP connection to a wire
 *
 * Until a peer has authenticated it gets as little as can be: a stated time
 * for everything together, a stated number of keys to try, one session
 * channel after authentication, and on it one subsystem.  libssh enforces
 * none of these.  Nothing blocks meanwhile, so the time is kept also against
 * a peer that sends one byte a second.
 *
 * A probe ("would this key do?") and a signature ask the same question of
 * key_known(), but only a verified signature authenticates.
 *
 * Each connection has an ssh_bind of its own: sharing one between threads is
 * not documented to be safe.
 */
#include "base/wire_ssh_int.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/str.h"

#include <libssh/server.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 128
#define TRIES_DEFAULT 6		/* as OpenSSH's MaxAuthTries */
#define GRACE_DEFAULT_S 20
#define HOST_TEXT_SIZE 256

struct ssh_listener {
	int fd;
	unsigned port;
	char *host_key;		/* OpenSSH text; wiped when freed */
};

/* Lives as long as the session, whose callbacks point here. */
struct handshake {
	struct ssh_server_callbacks_struct callbacks;
	struct ssh_line *line;
	const struct ssh_auth *auth;	/* NULL once it is over */
	char *name;
	size_t name_size;
	unsigned tries;
	bool authenticated, ready;
	char tried[SSH_FINGERPRINT_SIZE];	/* the last key refused */
	struct err err;		/* of the channel's callbacks */
	bool failed;
};

/* ---- listening */

/* "ADDR:PORT" or "[ADDR]:PORT" -> its two parts. */
static int split_address(const char *where, char host[static HOST_TEXT_SIZE],
    const char **port, struct err *e)
{
	const char *colon = strrchr(where, ':');
	const char *begin = where, *end = colon;

	if (colon && where[0] == '[' && colon > where + 1 && colon[-1] == ']') {
		begin = where + 1;
		end = colon - 1;
	}
	if (!colon || colon[1] == '\0' || end - begin >= HOST_TEXT_SIZE ||
	    (begin == where && memchr(begin, ':', (size_t)(end - begin))))
		return err_set(e, ERR_USAGE, "\"%s\" is not ADDRESS:PORT or "
		    "[ADDRESS]:PORT", where);
	memcpy(host, begin, (size_t)(end - begin));
	host[end - begin] = '\0';
	*port = colon + 1;
	return 0;
}

static int listen_on(const struct addrinfo *a, const char *where,
    struct err *e)
{
	int one = 1;
	int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC |
	    SOCK_NONBLOCK, 0);

	if (fd < 0)
		return err_os(e, errno, "listen on %s", where);
	(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, a->ai_addr, a->ai_addrlen) != 0 ||
	    listen(fd, BACKLOG) != 0) {
		err_os(e, errno, "listen on %s", where);
		close(fd);
		return -1;
	}
	return fd;
}

static int open_socket(const char *where, struct err *e)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM,
		.ai_flags = AI_PASSIVE | AI_NUMERICSERV,
	};
	struct addrinfo *list = NULL;
	char host[HOST_TEXT_SIZE];
	const char *port = "";
	uint64_t number;
	int rc, fd;

	if (split_address(where, host, &port, e) != 0)
		return -1;
	if (str_u64(&number, port, 65535, e) != 0)
		return err_add(e, "port");
	rc = getaddrinfo(host[0] ? host : NULL, port, &hints, &list);
	if (rc != 0)
		return err_set(e, ERR_USAGE, "no address %s: %s", where,
		    gai_strerror(rc));
	fd = listen_on(list, where, e);
	freeaddrinfo(list);
	return fd;
}

static unsigned bound_port(int fd)
{
	struct sockaddr_storage a;
	socklen_t size = sizeof(a);

	if (getsockname(fd, (struct sockaddr *)&a, &size) != 0)
		return 0;
	if (a.ss_family == AF_INET6)
		return ntohs(((struct sockaddr_in6 *)(void *)&a)->sin6_port);
	return ntohs(((struct sockaddr_in *)(void *)&a)->sin_port);
}

int ssh_listener_open(struct ssh_listener **out, const char *where,
    const char *host_key_text, struct err *e)
{
	char fingerprint[SSH_FINGERPRINT_SIZE];
	struct ssh_listener *l;

	/* A bad key is better found now than by the first client. */
	if (ssh_private_key_fingerprint(host_key_text, fingerprint, e) != 0)
		return err_add(e, "host key");
	l = calloc(1, sizeof(*l));
	if (l)
		l->host_key = strdup(host_key_text);
	if (!l || !l->host_key) {
		free(l);
		return err_set(e, ERR_NO_MEMORY, "no memory to listen");
	}
	l->fd = open_socket(where, e);
	if (l->fd < 0) {
		ssh_listener_close(l);
		return -1;
	}
	l->port = bound_port(l->fd);
	*out = l;
	return 0;
}

unsigned ssh_listener_port(const struct ssh_listener *l)
{
	return l->port;
}

int ssh_listener_fd(const struct ssh_listener *l)
{
	return l->fd;
}

int ssh_listener_accept(struct ssh_listener *l, int *fd, char *peer,
    size_t peer_size, struct err *e)
{
	struct sockaddr_storage a;
	socklen_t size = sizeof(a);
	char host[64], port[16];

	*fd = accept4(l->fd, (struct sockaddr *)&a, &size, SOCK_CLOEXEC);
	if (*fd < 0) {
		int os = errno;

		err_os(e, os, "accept a connection");
		if (os == EAGAIN || os == ECONNABORTED || os == EINTR)
			e->code = ERR_UNAVAILABLE;
		return -1;
	}
	if (getnameinfo((struct sockaddr *)&a, size, host, sizeof(host), port,
	    sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		snprintf(peer, peer_size, "an unknown address");
	else
		snprintf(peer, peer_size, strchr(host, ':') ? "[%s]:%s" :
		    "%s:%s", host, port);
	return 0;
}

void ssh_listener_close(struct ssh_listener *l)
{
	if (!l)
		return;
	if (l->fd >= 0)
		close(l->fd);
	secret_wipe(l->host_key, strlen(l->host_key));
	free(l->host_key);
	free(l);
}

/* ---- callbacks of the handshake */

static int refuse(struct handshake *h, ssh_key key)
{
	struct err e;

	h->tries++;
	if (key_fingerprint(key, h->tried, &e) != 0)
		h->tried[0] = '\0';
	return SSH_AUTH_DENIED;
}

static int on_pubkey(ssh_session session, const char *user,
    struct ssh_key_struct *key, char state, void *userdata)
{
	struct handshake *h = userdata;
	char *canonical;
	bool known;

	(void)session;
	(void)user;	/* the key alone says who it is */
	if (!h->auth || h->authenticated || h->tries >= h->auth->tries_max)
		return SSH_AUTH_DENIED;
	canonical = key_canonical(key);
	known = canonical && h->auth->key_known(h->auth->arg, canonical,
	    h->name, h->name_size);
	free(canonical);
	if (!known)
		return refuse(h, key);
	if (state == SSH_PUBLICKEY_STATE_NONE)
		return SSH_AUTH_SUCCESS;	/* "it would do" */
	if (state != SSH_PUBLICKEY_STATE_VALID)
		return refuse(h, key);
	h->authenticated = true;
	return SSH_AUTH_SUCCESS;
}

static int on_subsystem(ssh_session session, ssh_channel channel,
    const char *subsystem, void *userdata)
{
	struct ssh_line *line = userdata;
	struct handshake *h = line->extra;

	(void)session;
	(void)channel;
	if (!h->auth || h->ready || strcmp(subsystem, SSH_SUBSYSTEM) != 0)
		return 1;
	h->ready = true;
	return 0;
}

static ssh_channel on_channel(ssh_session session, void *userdata)
{
	struct handshake *h = userdata;
	ssh_channel ch;

	if (!h->auth || !h->authenticated || h->line->channel)
		return NULL;
	ch = ssh_channel_new(session);
	if (!ch)
		return NULL;
	if (ssh_line_use(h->line, ch, &h->err) != 0)
		h->failed = true;
	return ch;
}

/* Whatever else a peer asks for gets libssh's refusal at once; without this
 * libssh would keep the requests in a list. */
static int on_message(ssh_session session, ssh_message message, void *data)
{
	(void)session;
	(void)message;
	(void)data;
	return 1;
}

/* ---- the handshake */

/* Takes `fd` whatever the result. */
static int new_session(ssh_session *out, const struct ssh_listener *l, int fd,
    struct err *e)
{
	ssh_bind b = ssh_bind_new();
	ssh_session s = ssh_new();
	ssh_key key = NULL;
	bool no = false;
	int rc = -1;

	if (!b || !s) {
		err_set(e, ERR_NO_MEMORY, "no memory for a session");
		goto out;
	}
	if (key_from_text(&key, l->host_key, e) != 0)
		goto out;
	if (ssh_bind_options_set(b, SSH_BIND_OPTIONS_PROCESS_CONFIG, &no) < 0 ||
	    ssh_bind_options_set(b, SSH_BIND_OPTIONS_CIPHERS_C_S,
	    SSH_CIPHERS) < 0 ||
	    ssh_bind_options_set(b, SSH_BIND_OPTIONS_CIPHERS_S_C,
	    SSH_CIPHERS) < 0 ||
	    ssh_bind_options_set(b, SSH_BIND_OPTIONS_IMPORT_KEY, key) < 0) {
		err_set(e, ERR_IO, "prepare a session: %s", ssh_get_error(b));
		goto out;
	}
	key = NULL;			/* the bind's now */
	if (ssh_bind_accept_fd(b, s, fd) != SSH_OK) {
		err_set(e, ERR_IO, "prepare a session: %s", ssh_get_error(b));
		goto out;
	}
	*out = s;
	rc = 0;
out:
	ssh_key_free(key);
	if (rc != 0 && (!s || ssh_get_fd(s) != fd))
		close(fd);
	if (rc != 0)
		ssh_free(s);
	ssh_bind_free(b);
	return rc;
}

static int lost(struct handshake *h, const char *doing, struct err *e)
{
	return err_set(e, ERR_UNAVAILABLE, "the peer went away during the %s: "
	    "%s", doing, ssh_get_error(h->line->session));
}

/* One wait; -1 once the time is up or the peer is gone. */
static int handshake_wait(struct handshake *h, uint64_t until,
    const char *doing, struct err *e)
{
	uint64_t now = clock_mono_ms();

	if (now >= until)
		return err_set(e, ERR_TIMEOUT, "the peer took too long for "
		    "the %s", doing);
	if (ssh_event_dopoll(h->line->event, (int)(until - now)) ==
	    SSH_ERROR || !ssh_is_connected(h->line->session))
		return lost(h, doing, e);
	return 0;
}

static int exchange_keys(struct handshake *h, uint64_t until, struct err *e)
{
	int rc = ssh_handle_key_exchange(h->line->session);

	if (rc != SSH_ERROR && ssh_line_attach(h->line, e) != 0)
		return -1;
	while (rc == SSH_AGAIN) {
		if (handshake_wait(h, until, "key exchange", e) != 0)
			return -1;
		rc = ssh_handle_key_exchange(h->line->session);
	}
	return rc == SSH_OK ? 0 : lost(h, "key exchange", e);
}

static int authenticate(struct handshake *h, uint64_t until, struct err *e)
{
	while (!h->ready) {
		if (h->failed) {
			*e = h->err;
			return -1;
		}
		if (h->tries >= h->auth->tries_max)
			return err_set(e, ERR_DENIED, "no key of the peer is "
			    "registered; the last of %u was %s", h->tries,
			    h->tried);
		if (handshake_wait(h, until, h->authenticated ?
		    "opening of the channel" : "authentication", e) != 0) {
			if (!h->authenticated && h->tries > 0)
				return err_set(e, ERR_DENIED, "no key of the "
				    "peer is registered; the last of %u was "
				    "%s", h->tries, h->tried);
			return -1;
		}
	}
	return 0;
}

static int handshake(struct ssh_line *line, const struct ssh_auth *auth,
    char *name, size_t name_size, struct err *e)
{
	struct handshake *h = calloc(1, sizeof(*h));
	uint64_t until = clock_mono_ms() + auth->grace_s * UINT64_C(1000);
	int rc = -1;

	if (!h)
		return err_set(e, ERR_NO_MEMORY, "no memory for a session");
	line->extra = h;
	h->line = line;
	h->auth = auth;
	h->name = name;
	h->name_size = name_size;
	ssh_callbacks_init(&h->callbacks);
	h->callbacks.userdata = h;
	h->callbacks.auth_pubkey_function = on_pubkey;
	h->callbacks.channel_open_request_session_function = on_channel;
	line->callbacks.channel_subsystem_request_function = on_subsystem;
	ssh_set_server_callbacks(line->session, &h->callbacks);
	ssh_set_message_callback(line->session, on_message, NULL);
	ssh_set_auth_methods(line->session, SSH_AUTH_METHOD_PUBLICKEY);
	if (ssh_line_unblock(line, e) == 0 && exchange_keys(h, until, e) == 0 &&
	    authenticate(h, until, e) == 0)
		rc = 0;
	h->auth = NULL;		/* the caller's; the callbacks refuse now */
	h->name = NULL;
	return rc;
}

int wire_ssh_accept(struct wire **out, struct ssh_listener *l, int fd,
    const struct ssh_auth *auth, char *name, size_t name_size,
    const struct wire_options *o, struct err *e)
{
	struct ssh_auth a = *auth;
	struct ssh_line *line;
	ssh_session session;

	if (a.tries_max == 0)
		a.tries_max = TRIES_DEFAULT;
	if (a.grace_s == 0)
		a.grace_s = GRACE_DEFAULT_S;
	if (new_session(&session, l, fd, e) != 0)
		return -1;
	if (ssh_line_new(&line, session, e) != 0)
		return -1;
	if (handshake(line, &a, name, name_size, e) != 0) {
		ssh_line_drop(line);
		return -1;
	}
	return ssh_line_start(out, line, o, e);
}
