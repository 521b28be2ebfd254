/* store/fmt_client.c - see fmt_client.h. */
#include "store/fmt_client.h"

#include "base/buf.h"
#include "base/reader.h"

#include <stdio.h>
#include <string.h>

#define CLIENT_VERSION 1
#define FLAG_PAUSED 1u

bool client_name_ok(const char *name)
{
	size_t n = strlen(name);

	return n >= 1 && n <= CLIENT_NAME_MAX && name[0] != '.' &&
	    strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

void client_record_put(struct buf *out, const struct client_record *c)
{
	size_t n = strlen(c->domain_name);

	buf_u8(out, CLIENT_VERSION);
	buf_u8(out, c->role);
	buf_u8(out, c->paused ? FLAG_PAUSED : 0);
	buf_u8(out, (uint8_t)c->key_count);
	buf_le32(out, c->domain);
	buf_le64(out, c->quota);
	buf_le64(out, (uint64_t)c->added_s);
	buf_le64(out, (uint64_t)c->last_seen_s);
	buf_le32(out, c->keep.last);
	buf_le32(out, c->keep.hourly);
	buf_le32(out, c->keep.daily);
	buf_le32(out, c->keep.weekly);
	buf_le32(out, c->keep.monthly);
	buf_le32(out, c->keep.yearly);
	buf_le64(out, c->keep.within_s);
	buf_le64(out, c->keep.min_age_s);
	buf_u8(out, (uint8_t)n);
	buf_add(out, c->domain_name, n);
	for (uint32_t i = 0; i < c->key_count; i++) {
		n = strlen(c->keys[i]);
		buf_le16(out, (uint16_t)n);
		buf_add(out, c->keys[i], n);
	}
}

/* Text without NUL into out[max + 1]. */
static void text_get(struct reader *r, char *out, size_t size, size_t max)
{
	const uint8_t *p = reader_bytes(r, size);

	if (!p || size > max || memchr(p, 0, size)) {
		r->bad = true;
		return;
	}
	memcpy(out, p, size);
	out[size] = '\0';
}

static void fields_get(struct reader *r, struct client_record *c)
{
	c->role = reader_u8(r);
	c->paused = (reader_u8(r) & FLAG_PAUSED) != 0;
	c->key_count = reader_u8(r);
	c->domain = reader_le32(r);
	c->quota = reader_le64(r);
	c->added_s = (int64_t)reader_le64(r);
	c->last_seen_s = (int64_t)reader_le64(r);
	c->keep.last = reader_le32(r);
	c->keep.hourly = reader_le32(r);
	c->keep.daily = reader_le32(r);
	c->keep.weekly = reader_le32(r);
	c->keep.monthly = reader_le32(r);
	c->keep.yearly = reader_le32(r);
	c->keep.within_s = reader_le64(r);
	c->keep.min_age_s = reader_le64(r);
	text_get(r, c->domain_name, reader_u8(r), CLIENT_NAME_MAX);
	if (c->key_count > CLIENT_KEYS_MAX)
		r->bad = true;
	for (uint32_t i = 0; i < c->key_count && !r->bad; i++)
		text_get(r, c->keys[i], reader_le16(r),
		    CLIENT_KEY_TEXT_MAX - 1);
}

int client_record_get(struct client_record *c, const char *name,
    const void *data, size_t size, struct err *e)
{
	struct client_record got;
	struct reader r;

	memset(&got, 0, sizeof(got));
	reader_init(&r, data, size);
	if (reader_u8(&r) != CLIENT_VERSION && !r.bad)
		return err_set(e, ERR_VERSION,
		    "the record of client %s is of a newer version", name);
	fields_get(&r, &got);
	if (!reader_done(&r) || got.domain == 0 || !client_name_ok(name))
		return err_set(e, ERR_CORRUPT,
		    "the record of client %s is malformed", name);
	snprintf(got.name, sizeof(got.name), "%s", name);
	*c = got;
	return 0;
}
