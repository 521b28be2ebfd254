/* Frames of the control socket, and the side of those who ask. */
#include "server/control.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/le.h"
#include "base/reader.h"
#include "server/state.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define HEADER_SIZE 4
#define WORDS_MAX 4096

/*
 * ---- frames ---------------------------------------------------------------
 */

int control_send(int fd, uint8_t type, const void *body, size_t size,
    struct err *e)
{
	uint8_t head[HEADER_SIZE + 1];

	if (size >= CONTROL_FRAME_MAX)
		return err_set(e, ERR_LIMIT, "%zu bytes for the control "
		    "socket", size);
	le32_put(head, (uint32_t)size + 1);
	head[HEADER_SIZE] = type;
	if (io_write_all(fd, head, sizeof(head), "control socket", e) != 0)
		return -1;
	return size == 0 ? 0 :
	    io_write_all(fd, body, size, "control socket", e);
}

/* Exactly `size` bytes, or ERR_UNAVAILABLE at the end of the stream. */
static int read_all(int fd, uint8_t *out, size_t size, struct err *e)
{
	while (size > 0) {
		ssize_t n = read(fd, out, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != ECONNRESET)
			return err_os(e, errno, "read the control socket");
		if (n <= 0)
			return err_set(e, ERR_UNAVAILABLE,
			    "the other bkserver hung up");
		out += n;
		size -= (size_t)n;
	}
	return 0;
}

int control_recv(int fd, uint8_t *type, struct buf *body, struct err *e)
{
	uint8_t head[HEADER_SIZE + 1];
	uint32_t size;
	uint8_t *room;

	buf_reset(body);
	if (read_all(fd, head, sizeof(head), e) != 0)
		return -1;
	size = le32_get(head);
	if (size < 1 || size > CONTROL_FRAME_MAX)
		return err_set(e, ERR_PROTOCOL, "a control frame of %" PRIu32
		    " bytes", size);
	*type = head[HEADER_SIZE];
	if (size == 1)
		return 0;
	room = buf_room(body, size - 1);
	if (!room)
		return buf_ok(body, "a control frame", e);
	return read_all(fd, room, size - 1, e);
}

static void put_text(struct buf *b, const char *text)
{
	size_t size = strlen(text);

	buf_le32(b, (uint32_t)size);
	buf_add(b, text, size + 1);
}

/* Texts are terminated in the frame, so that they can be used in place. */
static char *get_text(struct reader *r)
{
	uint32_t size = reader_le32(r);
	const uint8_t *at = size < CONTROL_FRAME_MAX ?
	    reader_bytes(r, (size_t)size + 1) : NULL;

	if (!at || at[size] != '\0' || memchr(at, '\0', size)) {
		r->bad = true;
		return NULL;
	}
	return (char *)(uintptr_t)at;
}

void control_run_put(struct buf *b, const char *cwd, const char *attached,
    int argc, char *const *argv)
{
	put_text(b, cwd);
	put_text(b, attached ? attached : "");
	buf_le32(b, (uint32_t)argc);
	for (int i = 0; i < argc; i++)
		put_text(b, argv[i]);
}

int control_run_get(struct control_run_request *r, struct buf *body,
    struct err *e)
{
	struct reader in;
	uint32_t count;

	memset(r, 0, sizeof(*r));
	reader_init(&in, body->data, body->size);
	r->body = body;
	r->cwd = get_text(&in);
	r->attached = get_text(&in);
	count = reader_le32(&in);
	if (in.bad || count > WORDS_MAX)
		return err_set(e, ERR_PROTOCOL, "malformed control request");
	r->argv = calloc((size_t)count + 1, sizeof(*r->argv));
	if (!r->argv)
		return err_set(e, ERR_NO_MEMORY, "no memory for a request");
	for (uint32_t i = 0; i < count; i++)
		r->argv[i] = get_text(&in);
	r->argc = (int)count;
	if (reader_done(&in))
		return 0;
	free(r->argv);
	r->argv = NULL;
	return err_set(e, ERR_PROTOCOL, "malformed control request");
}

/*
 * ---- a caller's side ------------------------------------------------------
 */

int control_connect(const struct state *s, int *fd, struct err *e)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };

	/* Below the directory's descriptor: its path may be longer than a
	 * socket's name. */
	snprintf(at.sun_path, sizeof(at.sun_path), "/proc/self/fd/%d/control",
	    s->fd);
	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*fd < 0)
		return err_os(e, errno, "make a socket");
	if (connect(*fd, (struct sockaddr *)&at, sizeof(at)) == 0)
		return 0;
	if (errno == ENOENT || errno == ECONNREFUSED)
		err_set(e, ERR_NOT_FOUND, "no bkserver works with %s", s->dir);
	else if (errno == EACCES || errno == EPERM)
		err_set(e, ERR_DENIED, "%s belongs to another user", s->dir);
	else
		err_os(e, errno, "connect to %s/control", s->dir);
	io_close(fd);
	return -1;
}

/* The status that ends an answer. */
static int get_end(const struct buf *body, int *status, struct err *e)
{
	if (body->size < 4)
		return err_set(e, ERR_PROTOCOL, "malformed control answer");
	*status = (int)le32_get(body->data);
	return 0;
}

int control_run(int fd, const struct cmd_call *call, int argc,
    char *const *argv, struct cmd_io *io, int *status, struct err *e)
{
	struct buf body;
	uint8_t type;
	int rc = -1;

	buf_init(&body, CONTROL_FRAME_MAX);
	control_run_put(&body, call->cwd, call->attached, argc, argv);
	if (buf_ok(&body, "the command line", e) != 0)
		goto out;
	if (control_send(fd, CONTROL_RUN, body.data, body.size, e) != 0) {
		if (e->os == EPIPE || e->os == ECONNRESET)
			e->code = ERR_UNAVAILABLE;
		goto out;
	}
	for (;;) {
		if (control_recv(fd, &type, &body, e) != 0)
			goto out;
		if (type == CONTROL_OUT || type == CONTROL_ERR) {
			out_write(io, type == CONTROL_OUT ? TO_OUT : TO_ERR,
			    body.data, body.size);
		} else if (type == CONTROL_END) {
			rc = get_end(&body, status, e);
			goto out;
		} else if (type == CONTROL_AWAY) {
			err_set(e, ERR_UNAVAILABLE, "the bkserver that holds "
			    "the array is ending");
			goto out;
		} else {
			err_set(e, ERR_PROTOCOL, "control answer %u", type);
			goto out;
		}
	}
out:
	buf_release(&body);
	return rc;
}

/* Send one request and get the END that answers it; `text` takes what comes
 * with the status. */
static int ask(int fd, uint8_t what, struct buf *body, int *status,
    struct err *e)
{
	uint8_t type;

	if (buf_ok(body, "a control request", e) != 0 ||
	    control_send(fd, what, body->data, body->size, e) != 0 ||
	    control_recv(fd, &type, body, e) != 0)
		return -1;
	if (type == CONTROL_AWAY)
		return err_set(e, ERR_UNAVAILABLE, "the bkserver that holds "
		    "the array is ending");
	if (type != CONTROL_END)
		return err_set(e, ERR_PROTOCOL, "control answer %u", type);
	return get_end(body, status, e);
}

int control_session(int fd, const char *client, bool operator, struct err *e)
{
	struct buf body;
	int rc, status = 0;

	buf_init(&body, CONTROL_FRAME_MAX);
	buf_u8(&body, operator);
	put_text(&body, client);
	rc = ask(fd, CONTROL_SESSION, &body, &status, e);
	if (rc == 0 && status != 0)
		rc = err_set(e, ERR_NOT_FOUND, "%.*s", (int)(body.size - 4),
		    (const char *)body.data + 4);
	buf_release(&body);
	return rc;
}

int control_yield(int fd, struct err *e)
{
	struct buf body;
	int rc, status = 0;

	buf_init(&body, CONTROL_FRAME_MAX);
	rc = ask(fd, CONTROL_YIELD, &body, &status, e);
	if (rc == 0 && status != 0)
		rc = err_set(e, ERR_BUSY, "%.*s", (int)(body.size - 4),
		    (const char *)body.data + 4);
	buf_release(&body);
	return rc;
}
