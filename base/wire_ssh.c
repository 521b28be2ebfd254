/*
 * base/wire_ssh.c - an SSH channel as the transport of a wire
 *
 * What follows was measured with libssh 0.10.6; other orders of the same
 * calls stall or run at a fraction of the speed.
 *
 * NEVER BLOCKING
 *
 *   The descriptor is O_NONBLOCK (libssh sets it back to blocking while it
 *   connects) and the session non-blocking.  A push writes at most the
 *   peer's window, and nothing while libssh still has bytes that the socket
 *   does not take: both ends writing into full sockets would wait for each
 *   other for ever.  SSH_WRITE_PENDING alone does not say so: libssh leaves
 *   it set while input keeps coming, although it has written everything, and
 *   acknowledgements would starve; so the socket itself is asked as well.
 *   (Each wait lets libssh write first; if the socket still has room after
 *   that, libssh has nothing left.)
 *   The data callback runs inside any call of libssh, also inside a write; it
 *   only queues.
 *
 * THE RECEIVE WINDOW
 *
 *   By itself libssh keeps a window of 1.28 MB, 12 MB/s at 50 ms.  The only
 *   call that grows it is a read of more bytes than buffer and window hold;
 *   the read itself finds nothing, because the callback has taken all.  We
 *   do so after each quarter of WINDOW.
 *
 * BACK-PRESSURE
 *
 *   While nobody pulls and half a window is queued the callback takes nothing
 *   (`held`).  libssh then keeps the data and counts them against the window,
 *   which it does not grow, so the peer's writes stop.  Once there is room
 *   (less than a quarter of a window is queued), refill() reads what was held,
 *   at most a window.  So the bound is a window and a quarter queued, and one
 *   more held; never refill earlier, for each time may bring a whole window.
 *
 * SPEED
 *
 *   libssh receives 4096 bytes per poll(); therefore one wait of the pump
 *   polls again, without waiting, while more keeps coming.
 */
#include "base/wire_ssh_int.h"

#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define WINDOW (4u << 20)
/* A wire with a short queue (many sessions share the memory) has a window of
 * twice the queue.  Never below what libssh takes by itself (1.28 MB): a refill
 * must be able to take all that is held. */
#define WINDOW_MIN (3u << 19)
#define BLOCK_SIZE 65536
#define WRITE_MAX 131032	/* four packets of 32768 - 10 bytes */
#define POLLS_MAX 32		/* of 4096 bytes: a stage of the pump */
#define LINGER_MS 2000
/* The wire's own pings find a dead peer first, unless the wire is not reading
 * because nobody takes what came: then the kernel does. */
#define USER_TIMEOUT_MS 180000

struct rx_block {
	struct rx_block *next;
	size_t have, taken;
	uint8_t data[BLOCK_SIZE];
};

/* Queue bytes; returns how many there was memory for. */
static size_t rx_add(struct ssh_line *c, const uint8_t *data, size_t size)
{
	size_t done = 0;

	while (done < size) {
		struct rx_block *b = c->rx_last;
		size_t n;

		if (!b || b->have == BLOCK_SIZE) {
			b = malloc(sizeof(*b));
			if (!b)
				break;
			b->next = NULL;
			b->have = b->taken = 0;
			if (c->rx_last)
				c->rx_last->next = b;
			else
				c->rx_first = b;
			c->rx_last = b;
		}
		n = BLOCK_SIZE - b->have;
		if (n > size - done)
			n = size - done;
		memcpy(b->data + b->have, data + done, n);
		b->have += n;
		done += n;
	}
	c->rx_bytes += done;
	return done;
}

static size_t rx_take(struct ssh_line *c, uint8_t *out, size_t size)
{
	size_t done = 0;

	while (done < size && c->rx_first) {
		struct rx_block *b = c->rx_first;
		size_t n = b->have - b->taken;

		if (n > size - done)
			n = size - done;
		memcpy(out + done, b->data + b->taken, n);
		b->taken += n;
		done += n;
		if (b->taken < b->have)
			break;
		/* Used up.  The last block stays for what comes next. */
		if (b == c->rx_last) {
			b->have = b->taken = 0;
			break;
		}
		c->rx_first = b->next;
		free(b);
	}
	c->rx_bytes -= done;
	return done;
}

static void rx_free(struct ssh_line *c)
{
	while (c->rx_first) {
		struct rx_block *b = c->rx_first;

		c->rx_first = b->next;
		free(b);
	}
	c->rx_last = NULL;
	c->rx_bytes = 0;
}

static int on_data(ssh_session session, ssh_channel channel, void *data,
    uint32_t len, int is_stderr, void *userdata)
{
	struct ssh_line *c = userdata;
	size_t taken;

	(void)session;
	(void)channel;
	if (is_stderr || c->discard)
		return (int)len;
	if (!c->take_all && c->rx_bytes >= c->window / 2) {
		c->held = true;
		return 0;
	}
	taken = rx_add(c, data, len);
	c->since_grow += taken;
	if (taken < len)
		c->held = true;
	return (int)taken;
}

static void on_eof(ssh_session session, ssh_channel channel, void *userdata)
{
	struct ssh_line *c = userdata;

	(void)session;
	(void)channel;
	c->eof = true;
}

/* The session is of no use any more; what was received still is. */
static void die(struct ssh_line *c)
{
	if (c->dead)
		return;
	c->dead = true;
	err_set(&c->err, ERR_UNAVAILABLE, "the connection broke: %s",
	    ssh_get_error(c->session));
}

/* A packet that cannot be decrypted leaves the session "connected". */
static bool is_alive(const struct ssh_line *c)
{
	return ssh_is_connected(c->session) &&
	    (ssh_get_status(c->session) & (SSH_CLOSED | SSH_CLOSED_ERROR)) == 0;
}

/* Grow the window, and take what libssh holds; see the top of the file. */
static void refill(struct ssh_line *c)
{
	int n;

	c->since_grow = 0;
	c->take_all = true;
	n = ssh_channel_read_timeout(c->channel, c->window_buf, c->window, 0,
	    0);
	c->take_all = false;
	c->held = false;
	if (n == SSH_ERROR && !is_alive(c))
		die(c);
	else if (n == SSH_ERROR)	/* the channel is closed, and empty */
		c->eof = true;
	else if (n > 0 && rx_add(c, c->window_buf, (size_t)n) < (size_t)n) {
		c->dead = true;
		err_set(&c->err, ERR_NO_MEMORY, "no memory to receive");
	}
}

static long ssh_pull(void *arg, void *out, size_t size, struct err *e)
{
	struct ssh_line *c = arg;
	size_t n;

	if (!c->dead && c->rx_bytes < c->window / 4 &&
	    (c->held || (!c->eof && c->since_grow >= c->window / 4)))
		refill(c);
	n = rx_take(c, out, size);
	if (n > 0)
		return (long)n;
	if (c->eof)
		return -2;
	if (!c->dead)
		return 0;
	*e = c->err;
	return -1;
}

/* May we give libssh more for the socket?  See the top of the file. */
static bool may_write(const struct ssh_line *c)
{
	struct pollfd p = { .fd = ssh_get_fd(c->session), .events = POLLOUT };

	return (ssh_get_poll_flags(c->session) & SSH_WRITE_PENDING) == 0 ||
	    poll(&p, 1, 0) == 1;
}

static long ssh_push(void *arg, const void *data, size_t size, struct err *e)
{
	struct ssh_line *c = arg;
	uint32_t window;
	int n;

	if (!c->dead && !c->eof) {
		window = ssh_channel_window_size(c->channel);
		if (size > WRITE_MAX)
			size = WRITE_MAX;
		if (size > window)
			size = window;
		if (size == 0 || !may_write(c))
			return 0;
		n = ssh_channel_write(c->channel, data, (uint32_t)size);
		if (n >= 0)
			return n;
		if (!c->eof)
			die(c);
	}
	if (c->dead)
		*e = c->err;
	else
		err_set(e, ERR_UNAVAILABLE, "the peer closed the connection");
	return -1;
}

static int on_wake(socket_t fd, int revents, void *userdata)
{
	struct ssh_line *c = userdata;

	(void)fd;
	(void)revents;
	c->woken = true;
	return SSH_OK;
}

static int ssh_wait(void *arg, int want_write, int want_read, int wake_fd,
    int timeout_ms, struct err *e)
{
	struct ssh_line *c = arg;
	size_t before = c->rx_bytes;
	int rc;

	(void)want_write;	/* libssh polls for what it still has to send */
	if (c->wake_fd != wake_fd) {
		if (ssh_event_add_fd(c->event, wake_fd, POLLIN, on_wake, c) !=
		    SSH_OK)
			return err_set(e, ERR_NO_MEMORY, "no memory to wait");
		c->wake_fd = wake_fd;
	}
	if (c->dead || c->eof)
		return 0;	/* the next pull says so */
	c->woken = false;
	rc = ssh_event_dopoll(c->event, timeout_ms);
	for (int i = 1; i < POLLS_MAX && rc == SSH_OK && want_read &&
	    !c->woken && !c->eof && c->rx_bytes - before < BLOCK_SIZE; i++)
		rc = ssh_event_dopoll(c->event, 0);
	if (rc == SSH_ERROR || !is_alive(c))
		die(c);
	return 0;
}

/* Give the peer the rest, say that it was all, and wait for it to say the
 * same: a connection closed with unread bytes takes back what was sent. */
static void say_goodbye(struct ssh_line *c)
{
	uint64_t until = clock_mono_ms() + LINGER_MS;
	bool said = false;

	c->discard = true;
	rx_free(c);
	while (!c->dead && !c->eof && clock_mono_ms() < until) {
		if (!said && may_write(c)) {
			said = true;
			if (ssh_channel_send_eof(c->channel) == SSH_ERROR)
				return;
		}
		if (c->held)
			refill(c);
		rx_free(c);
		if (ssh_event_dopoll(c->event, 100) == SSH_ERROR ||
		    !is_alive(c))
			c->dead = true;
	}
}

static void ssh_close(void *arg, int polite)
{
	struct ssh_line *c = arg;

	if (polite)
		say_goodbye(c);
	ssh_line_drop(c);
}

static const struct wire_transport ssh_ops = {
	.wait = ssh_wait, .pull = ssh_pull, .push = ssh_push,
	.close = ssh_close,
};

int ssh_line_new(struct ssh_line **out, ssh_session session, struct err *e)
{
	struct ssh_line *c = calloc(1, sizeof(*c));

	if (!c) {
		ssh_free(session);
		return err_set(e, ERR_NO_MEMORY, "no memory for a channel");
	}
	c->session = session;
	c->wake_fd = -1;
	c->window = WINDOW;
	c->event = ssh_event_new();
	c->window_buf = malloc(WINDOW);		/* touched when data are held */
	ssh_callbacks_init(&c->callbacks);
	c->callbacks.userdata = c;
	c->callbacks.channel_data_function = on_data;
	c->callbacks.channel_eof_function = on_eof;
	c->callbacks.channel_close_function = on_eof;
	if (!c->event || !c->window_buf) {
		ssh_line_drop(c);
		return err_set(e, ERR_NO_MEMORY, "no memory for a channel");
	}
	*out = c;
	return 0;
}

int ssh_line_use(struct ssh_line *c, ssh_channel ch, struct err *e)
{
	c->channel = ch;
	if (ssh_set_channel_callbacks(ch, &c->callbacks) != SSH_OK)
		return err_set(e, ERR_NO_MEMORY, "no memory for a channel");
	return 0;
}

int ssh_line_unblock(struct ssh_line *c, struct err *e)
{
	int fd = ssh_get_fd(c->session);
	int flags = fcntl(fd, F_GETFL);
	unsigned user_ms = USER_TIMEOUT_MS;
	int one = 1;

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
		return err_os(e, errno, "prepare the connection");
	ssh_set_blocking(c->session, 0);
	/* Helpful, not needed: a local socket has no such option. */
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	(void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_ms,
	    sizeof(user_ms));
	return 0;
}

int ssh_line_attach(struct ssh_line *c, struct err *e)
{
	if (ssh_event_add_session(c->event, c->session) != SSH_OK)
		return err_set(e, ERR_NO_MEMORY, "no memory for a connection");
	return 0;
}

int ssh_line_start(struct wire **out, struct ssh_line *c,
    const struct wire_options *o, struct err *e)
{
	size_t twice = o ? 2 * o->recv_bytes_max : 0;

	if (twice > 0 && twice < WINDOW)
		c->window = twice > WINDOW_MIN ? (uint32_t)twice : WINDOW_MIN;
	refill(c);
	return wire_open(out, &ssh_ops, c, o, e);
}

void ssh_line_drop(struct ssh_line *c)
{
	if (!c)
		return;
	if (c->event) {
		ssh_event_remove_session(c->event, c->session);
		if (c->wake_fd >= 0)
			ssh_event_remove_fd(c->event, c->wake_fd);
	}
	if (c->channel)
		ssh_remove_channel_callbacks(c->channel, &c->callbacks);
	if (ssh_is_connected(c->session)) {
		if (c->channel)
			ssh_channel_close(c->channel);
		ssh_disconnect(c->session);
	}
	if (c->event)
		ssh_event_free(c->event);
	ssh_free(c->session);		/* and its channels */
	rx_free(c);
	free(c->window_buf);
	free(c->extra);
	free(c);
}
