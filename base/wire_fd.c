/*
 * base/wire_fd.c - the wire over two descriptors: sockets or pipes.
 *
 * Both are made non-blocking.  The pump's thread has all signals blocked, so
 * a write to a closed pipe is EPIPE and nothing else.
 */
#include "base/wire.h"

#include "base/clock.h"
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define LINGER_MS 2000

struct fd_transport {
	int in, out;
};

static int fd_wait(void *arg, int want_write, int want_read, int wake_fd,
    int timeout_ms, struct err *e)
{
	struct fd_transport *t = arg;
	/* A descriptor that is not wanted must not be polled at all: poll()
	 * reports a hang-up even for no events. */
	struct pollfd p[] = {
		{ .fd = wake_fd, .events = POLLIN },
		{ .fd = want_read ? t->in : -1, .events = POLLIN },
		{ .fd = want_write ? t->out : -1, .events = POLLOUT },
	};

	if (poll(p, 3, timeout_ms) < 0 && errno != EINTR)
		return err_os(e, errno, "wait for the peer");
	return 0;
}

static int broken(struct err *e, int os, const char *what)
{
	err_os(e, os, "%s the peer", what);
	if (os == EPIPE || os == ECONNRESET)
		e->code = ERR_UNAVAILABLE;
	return -1;
}

static long fd_pull(void *arg, void *out, size_t size, struct err *e)
{
	struct fd_transport *t = arg;
	ssize_t n = read(t->in, out, size);

	if (n > 0)
		return n;
	if (n == 0)
		return -2;
	if (errno == EAGAIN || errno == EINTR)
		return 0;
	return broken(e, errno, "read from");
}

static long fd_push(void *arg, const void *data, size_t size, struct err *e)
{
	struct fd_transport *t = arg;
	ssize_t n = write(t->out, data, size);

	if (n >= 0)
		return n;
	if (errno == EAGAIN || errno == EINTR)
		return 0;
	return broken(e, errno, "write to");
}

/* Read and drop until the peer has closed, too: closing a socket with unread
 * bytes would destroy what the peer has not read yet. */
static void linger(struct fd_transport *t)
{
	uint64_t until = clock_mono_ms() + LINGER_MS;
	struct pollfd p = { .fd = t->in, .events = POLLIN };
	uint64_t now;
	char drop[4096];

	while ((now = clock_mono_ms()) < until) {
		ssize_t n = read(t->in, drop, sizeof(drop));

		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			return;
		if (n < 0)
			poll(&p, 1, (int)(until - now));
	}
}

static void fd_close(void *arg, int polite)
{
	struct fd_transport *t = arg;

	if (polite) {
		if (t->in != t->out)
			io_close(&t->out);
		else
			shutdown(t->out, SHUT_WR);
		linger(t);
	}
	if (t->out != t->in)
		io_close(&t->out);
	io_close(&t->in);
	free(t);
}

static const struct wire_transport fd_ops = {
	.wait = fd_wait, .pull = fd_pull, .push = fd_push, .close = fd_close,
};

static int set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 ? -1 : fcntl(fd, F_SETFL, flags | O_NONBLOCK);
}

int wire_open_fd(struct wire **out, int in, int out_fd,
    const struct wire_options *o, struct err *e)
{
	struct fd_transport *t = malloc(sizeof(*t));

	if (!t || set_nonblocking(in) != 0 || set_nonblocking(out_fd) != 0) {
		if (t)
			err_os(e, errno, "prepare a connection");
		else
			err_set(e, ERR_NO_MEMORY, "no memory to connect");
		free(t);
		close(in);
		if (out_fd != in)
			close(out_fd);
		return -1;
	}
	*t = (struct fd_transport){ .in = in, .out = out_fd };
	return wire_open(out, &fd_ops, t, o, e);
}
