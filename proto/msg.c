/*
 * proto/msg.c - the message table, and the bodies that have fields.
 *
 * Bodies are of fixed layout (docs/protocol.md); a text comes after the fixed
 * part with its size before it, and what follows the text is ignored, so that
 * a later program can say more.  Texts are made printable here: they end on
 * somebody's terminal.
 */
#include "proto/msg.h"

#include "base/buf.h"
#include "base/le.h"
#include "base/reader.h"
#include "base/str.h"

#include <string.h>

#define WELCOME_FIXED 96
#define COMMIT_SIZE 128
#define LOST_SIZE (1 + ID_SIZE)

static const struct msg_rule rules[] = {
#define X(name, number, server, states, min, max) \
	{ number, server, states, min, max, #name },
	PROTO_MESSAGES(X)
#undef X
};

const struct msg_rule *msg_rule_find(uint8_t type)
{
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].type == type)
			return &rules[i];
	return NULL;
}

int msg_allowed(uint8_t type, bool from_server, unsigned state,
    uint32_t size, struct err *e)
{
	const struct msg_rule *rule = msg_rule_find(type);

	if (!rule)
		return err_set(e, ERR_PROTOCOL, "unknown message %#x", type);
	if (rule->from_server != from_server)
		return err_set(e, ERR_PROTOCOL, "%s from the wrong side",
		    rule->name);
	if (!(rule->states & state))
		return err_set(e, ERR_PROTOCOL, "%s at the wrong time",
		    rule->name);
	if (size < rule->size_min || size > rule->size_max)
		return err_set(e, ERR_PROTOCOL, "%s of %u bytes", rule->name,
		    size);
	return 0;
}

/* ---- texts --------------------------------------------------------------- */

/* Take at most out_size - 1 bytes, not cutting a UTF-8 character. */
static void text_get(char *out, size_t out_size, const uint8_t *text,
    size_t size)
{
	bool utf8;

	if (size > out_size - 1) {
		size = out_size - 1;
		while (size > 0 && (text[size] & 0xc0) == 0x80)
			size--;
	}
	if (size > 0)
		memcpy(out, text, size);
	out[size] = '\0';
	utf8 = str_is_utf8(out, size);
	for (size_t i = 0; i < size; i++) {
		unsigned char c = (unsigned char)out[i];

		if (c < ' ' || c == 0x7f || (!utf8 && c >= 0x80))
			out[i] = '?';
		/* U+0080 to U+009F: terminals obey these, too. */
		if (utf8 && c == 0xc2 && (unsigned char)out[i + 1] < 0xa0)
			out[i] = out[i + 1] = '?';
	}
}

static size_t text_size(const char *text, size_t text_max)
{
	return strnlen(text, text_max - 1);
}

static int bad_body(const char *name, struct err *e)
{
	return err_set(e, ERR_PROTOCOL, "%s: the body is malformed", name);
}

static void get_bytes(struct reader *r, void *out, size_t size)
{
	const uint8_t *p = reader_bytes(r, size);

	if (p)
		memcpy(out, p, size);
	else
		memset(out, 0, size);
}

/* ---- HELLO, WELCOME ------------------------------------------------------ */

void msg_hello_put(struct buf *b, const struct msg_hello *m)
{
	size_t size = text_size(m->program, sizeof(m->program));

	buf_le32(b, m->version_min);
	buf_le32(b, m->version_max);
	buf_le64(b, m->capabilities);
	buf_u8(b, (uint8_t)size);
	buf_add(b, m->program, size);
}

int msg_hello_get(struct msg_hello *m, const void *body, size_t size,
    struct err *e)
{
	struct reader r;
	const uint8_t *text;
	size_t text_len;

	reader_init(&r, body, size);
	m->version_min = reader_le32(&r);
	m->version_max = reader_le32(&r);
	m->capabilities = reader_le64(&r);
	text_len = reader_u8(&r);
	text = reader_bytes(&r, text_len);
	if (r.bad || m->version_min > m->version_max)
		return bad_body("HELLO", e);
	text_get(m->program, sizeof(m->program), text, text_len);
	return 0;
}

void msg_welcome_put(struct buf *b, const struct msg_welcome *m)
{
	size_t size = text_size(m->program, sizeof(m->program));

	buf_le32(b, m->version);
	buf_le32(b, m->keyspace);
	buf_le64(b, m->capabilities);
	buf_add(b, m->store, sizeof(m->store));
	buf_add(b, m->domain, sizeof(m->domain));
	buf_add(b, m->cut_seed, sizeof(m->cut_seed));
	buf_le64(b, (uint64_t)m->server_s);
	buf_le32(b, m->snapshots);
	buf_u8(b, m->role);
	buf_u8(b, (uint8_t)size);
	buf_le16(b, 0);
	buf_add(b, m->program, size);
}

int msg_welcome_get(struct msg_welcome *m, const void *body, size_t size,
    struct err *e)
{
	struct reader r;
	const uint8_t *text;
	size_t text_len;
	unsigned reserved;

	reader_init(&r, body, size);
	m->version = reader_le32(&r);
	m->keyspace = reader_le32(&r);
	m->capabilities = reader_le64(&r);
	get_bytes(&r, m->store, sizeof(m->store));
	get_bytes(&r, m->domain, sizeof(m->domain));
	get_bytes(&r, m->cut_seed, sizeof(m->cut_seed));
	m->server_s = (int64_t)reader_le64(&r);
	m->snapshots = reader_le32(&r);
	m->role = reader_u8(&r);
	text_len = reader_u8(&r);
	reserved = reader_le16(&r);
	text = reader_bytes(&r, text_len);
	if (r.bad || reserved != 0)
		return bad_body("WELCOME", e);
	text_get(m->program, sizeof(m->program), text, text_len);
	return 0;
}

/* ---- BEGIN, BEGUN, COMMIT ------------------------------------------------ */

void msg_begin_put(struct buf *b, const struct msg_begin *m)
{
	buf_add(b, m->snapshot, sizeof(m->snapshot));
	buf_le64(b, (uint64_t)m->client_ns);
	buf_le32(b, m->flags);
}

int msg_begin_get(struct msg_begin *m, const void *body, size_t size,
    struct err *e)
{
	struct reader r;

	reader_init(&r, body, size);
	get_bytes(&r, m->snapshot, sizeof(m->snapshot));
	m->client_ns = (int64_t)reader_le64(&r);
	m->flags = reader_le32(&r);
	if (!reader_done(&r) || m->flags != 0)
		return bad_body("BEGIN", e);
	return 0;
}

void msg_begun_put(struct buf *b, const struct msg_begun *m)
{
	uint8_t raw[SNAPSHOT_RECORD_SIZE];

	buf_le32(b, m->committed);
	if (!m->committed)
		return;
	snapshot_record_put(raw, &m->record);
	buf_add(b, raw, sizeof(raw));
}

int msg_begun_get(struct msg_begun *m, const void *body, size_t size,
    struct err *e)
{
	struct reader r;
	uint32_t committed;

	reader_init(&r, body, size);
	committed = reader_le32(&r);
	if (r.bad || committed > 1)
		return bad_body("BEGUN", e);
	m->committed = committed == 1;
	if (m->committed) {
		if (snapshot_record_get(&m->record, r.at, r.left, e) == 0)
			return 0;
		e->code = ERR_PROTOCOL;
		return err_add(e, "BEGUN");
	}
	memset(&m->record, 0, sizeof(m->record));
	return r.left == 0 ? 0 : bad_body("BEGUN", e);
}

void msg_commit_put(struct buf *b, const struct msg_commit *m)
{
	static const uint8_t reserved[16];

	buf_add(b, m->root.bytes, ID_SIZE);
	buf_add(b, m->facts.bytes, ID_SIZE);
	buf_le64(b, (uint64_t)m->client_ns);
	buf_le32(b, (uint32_t)m->zone_s);
	buf_le32(b, m->flags);
	buf_le64(b, m->files);
	buf_le64(b, m->bytes);
	buf_le64(b, m->new_bytes);
	buf_le64(b, m->frames);
	buf_add(b, reserved, sizeof(reserved));
}

int msg_commit_get(struct msg_commit *m, const void *body, size_t size,
    struct err *e)
{
	struct reader r;
	uint64_t reserved;

	reader_init(&r, body, size);
	get_bytes(&r, m->root.bytes, ID_SIZE);
	get_bytes(&r, m->facts.bytes, ID_SIZE);
	m->client_ns = (int64_t)reader_le64(&r);
	m->zone_s = (int32_t)reader_le32(&r);
	m->flags = reader_le32(&r);
	m->files = reader_le64(&r);
	m->bytes = reader_le64(&r);
	m->new_bytes = reader_le64(&r);
	m->frames = reader_le64(&r);
	reserved = reader_le64(&r);
	reserved |= reader_le64(&r);
	if (!reader_done(&r) || reserved != 0 ||
	    m->flags & ~(uint32_t)(SNAPSHOT_CHANGED | SNAPSHOT_PARTIAL))
		return bad_body("COMMIT", e);
	return 0;
}

/* ---- ERROR, FETCHED ------------------------------------------------------ */

void msg_error_put(struct buf *b, const struct msg_error *m)
{
	buf_le16(b, (uint16_t)err_wire(m->code));
	buf_u8(b, m->fatal);
	buf_u8(b, 0);
	buf_add(b, m->text, text_size(m->text, sizeof(m->text)));
}

int msg_error_get(struct msg_error *m, const void *body, size_t size,
    struct err *e)
{
	struct reader r;
	unsigned code, fatal, reserved;

	reader_init(&r, body, size);
	code = reader_le16(&r);
	fatal = reader_u8(&r);
	reserved = reader_u8(&r);
	if (r.bad || fatal > 1 || reserved != 0 || code == 0)
		return bad_body("ERROR", e);
	m->code = err_from_wire((int)code);
	m->fatal = fatal == 1;
	text_get(m->text, sizeof(m->text), r.at, r.left);
	return 0;
}

int msg_fetched_get(struct msg_fetched *m, const void *body, size_t size,
    struct err *e)
{
	struct reader r;

	reader_init(&r, body, size);
	m->count = reader_le32(&r);
	if (r.bad || m->count > PROTO_FETCH_MAX)
		return bad_body("FETCHED", e);
	m->items = reader_bytes(&r, (size_t)m->count * LOST_SIZE);
	if (!reader_done(&r))
		return bad_body("FETCHED", e);
	return 0;
}
