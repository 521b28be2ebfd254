/* bkserver stdio - one session over stdin and stdout, under sshd. */
#include "base/io.h"
#include "server/cmd.h"
#include "server/control.h"
#include "server/state.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIECE (256u << 10)	/* copied at once, each way */

struct stdio_values {
	bool none;
	const char *client;
};

static const struct opt_row rows[] = {
	{ "client", 0, OPT_TEXT, OPT_AT(struct stdio_values, client), "NAME",
	    "the client at the other end (required)", NULL },
	{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
};

/* One direction.  A full peer blocks only itself: each way has room for one
 * piece, and is polled for reading while that is empty, else for writing. */
struct way {
	int from, to;
	uint8_t data[PIECE];
	size_t size, done;
	bool ended;		/* nothing more will be read */
};

static int pull(struct way *w, struct err *e)
{
	ssize_t n = read(w->from, w->data, sizeof(w->data));

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n < 0 && errno != ECONNRESET)
		return err_os(e, errno, "read");
	w->ended = n <= 0;
	w->size = n > 0 ? (size_t)n : 0;
	w->done = 0;
	return 0;
}

static int push(struct way *w, struct err *e)
{
	ssize_t n = write(w->to, w->data + w->done, w->size - w->done);

	if (n < 0 && (errno == EINTR || errno == EAGAIN))
		return 0;
	if (n < 0)
		return err_os(e, errno, "write");
	w->done += (size_t)n;
	if (w->done == w->size)
		w->size = 0;
	return 0;
}

static int step(struct way *w, short revents, struct err *e)
{
	if (!revents)
		return 0;
	return w->size ? push(w, e) : pull(w, e);
}

static void want(const struct way *w, struct pollfd *at)
{
	at->fd = w->size ? w->to : w->ended ? -1 : w->from;
	at->events = w->size ? POLLOUT : POLLIN;
	at->revents = 0;
}

/* Until the server has said all it has to say. */
static int copy(struct way *in, struct way *out, struct err *e)
{
	struct pollfd at[2];
	bool told = false;

	while (!out->ended || out->size) {
		want(in, &at[0]);
		want(out, &at[1]);
		if (poll(at, 2, -1) < 0 && errno != EINTR)
			return err_os(e, errno, "poll");
		if (step(in, at[0].revents, e) != 0 ||
		    step(out, at[1].revents, e) != 0)
			return -1;
		if (in->ended && !in->size && !told) {
			(void)shutdown(in->to, SHUT_WR);
			told = true;
		}
	}
	return 0;
}

/* Only the socket is ours alone; the other two may be shared. */
static int unblock(int fd, struct err *e)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return err_os(e, errno, "make a socket non-blocking");
	return 0;
}

static int stdio_run(struct owner *none, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	struct way *in = calloc(2, sizeof(*in));
	const struct stdio_values *v = call->values;
	struct state s;
	int fd = -1;
	int rc = -1;

	(void)none;
	(void)io;
	if (!v->client || !in) {
		free(in);
		return v->client ? err_set(e, ERR_NO_MEMORY, "no memory") :
		    err_set(e, ERR_USAGE, "stdio needs --client NAME");
	}
	if (state_open(&s, call->globals.dir, e) == 0 &&
	    control_connect(&s, &fd, e) == 0 &&
	    control_session(fd, v->client, false, e) == 0 &&
	    unblock(fd, e) == 0) {
		in[0].from = STDIN_FILENO;
		in[0].to = in[1].from = fd;
		in[1].to = STDOUT_FILENO;
		rc = copy(&in[0], &in[1], e);
	}
	free(in);
	state_release(&s);
	io_close(&fd);
	return rc;
}

const struct cmd cmd_stdio = {
	.name = "stdio",
	.synopsis = "--client NAME",
	.summary = "one session over standard input and output, for sshd",
	.args_max = 0,
	.flags = CMD_LOCAL,
	.rows = rows,
	.values_size = sizeof(struct stdio_values),
	.run = stdio_run,
};
