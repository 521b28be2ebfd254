/*
 * Any bytes as a conversation: u8 end, then messages as on the wire (le32
 * length, type, request, body), given in turn to a session's machine and to
 * the decoder of the type.  Texts come out printable; a state is never left
 * the table's set.
 */
#include "base/reader.h"
#include "proto/msg.h"
#include "proto/session.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

static void check_text(const char *text, size_t max)
{
	check(strnlen(text, max) < max);
	for (; *text; text++)
		check((unsigned char)*text >= ' ' && *text != 0x7f);
}

static void decode_texts(uint8_t type, const uint8_t *body, uint32_t size)
{
	struct msg_hello hello;
	struct msg_welcome welcome;
	struct msg_error error;
	struct err e;

	if (type == MSG_HELLO && msg_hello_get(&hello, body, size, &e) == 0)
		check_text(hello.program, sizeof(hello.program));
	if (type == MSG_WELCOME &&
	    msg_welcome_get(&welcome, body, size, &e) == 0)
		check_text(welcome.program, sizeof(welcome.program));
	if (type == MSG_ERROR && msg_error_get(&error, body, size, &e) == 0)
		check_text(error.text, sizeof(error.text));
}

static void decode_fields(uint8_t type, const uint8_t *body, uint32_t size)
{
	struct msg_begin begin;
	struct msg_begun begun;
	struct msg_commit commit;
	struct msg_fetched fetched;
	struct err e;

	if (type == MSG_BEGIN)
		(void)!msg_begin_get(&begin, body, size, &e);
	if (type == MSG_BEGUN)
		(void)!msg_begun_get(&begun, body, size, &e);
	if (type == MSG_COMMIT)
		(void)!msg_commit_get(&commit, body, size, &e);
	if (type == MSG_FETCHED &&
	    msg_fetched_get(&fetched, body, size, &e) == 0)
		check(fetched.count <= PROTO_FETCH_MAX &&
		    size == 4 + 33 * fetched.count);
}

/* One message of either side: odd types of direction are tried too. */
static void one(struct session_state *s, struct reader *r)
{
	uint32_t size = reader_le32(r) & 0x3fff;
	uint8_t type = reader_u8(r);
	uint32_t request = reader_le32(r);
	const uint8_t *body;
	struct err e;
	bool from_server = type >= 0x80;

	if (size > r->left)
		size = (uint32_t)r->left;
	body = reader_bytes(r, size);
	if (r->bad)
		return;
	decode_texts(type, body, size);
	decode_fields(type, body, size);
	if (from_server == s->server)
		(void)!session_out(s, type, request, body, size, &e);
	else
		(void)!session_in(s, type, request, body, size, &e);
	check(s->state == PS_HELLO || s->state == PS_READY ||
	    s->state == PS_PUSH || s->state == PS_CLOSED);
	check(s->frames_acked <= s->frames_in);
	check(!s->exclusive || s->open_requests == 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct session_state s;
	struct reader r;

	reader_init(&r, data, size);
	session_init(&s, reader_u8(&r) & 1);
	while (r.left > 0 && !r.bad)
		one(&s, &r);
	return 0;
}
