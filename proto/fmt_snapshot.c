/*
 * proto/fmt_snapshot.c - snapshot records and facts.
 */
#include "proto/fmt_snapshot.h"

#include "base/buf.h"
#include "base/le.h"
#include "base/reader.h"

#include <string.h>

#define RECORD_VERSION 1
#define FLAGS_KNOWN (SNAPSHOT_CHANGED | SNAPSHOT_PARTIAL | SNAPSHOT_FUTURE | \
    SNAPSHOT_REDUCED)
#define FACTS_VERSION 1
#define FACTS_HEAD 3
#define FACT_MUST_KNOW 128

void snapshot_record_put(uint8_t out[static SNAPSHOT_RECORD_SIZE],
    const struct snapshot_record *r)
{
	memset(out, 0, SNAPSHOT_RECORD_SIZE);
	out[0] = RECORD_VERSION;
	out[1] = r->flags;
	le32_put(out + 4, r->keyspace);
	memcpy(out + 8, r->id, SNAPSHOT_ID_SIZE);
	memcpy(out + 24, r->root.bytes, ID_SIZE);
	memcpy(out + 56, r->facts.bytes, ID_SIZE);
	le64_put(out + 88, (uint64_t)r->client_ns);
	le64_put(out + 96, (uint64_t)r->commit_s);
	le64_put(out + 104, r->order);
	le32_put(out + 112, (uint32_t)r->zone_s);
	le64_put(out + 120, r->files);
	le64_put(out + 128, r->bytes);
	le64_put(out + 136, r->new_bytes);
	le64_put(out + 144, r->stored_bytes);
	le64_put(out + 152, (uint64_t)r->proven_s);
}

static void record_fields(struct snapshot_record *r, const uint8_t *p)
{
	r->flags = p[1];
	r->keyspace = le32_get(p + 4);
	memcpy(r->id, p + 8, SNAPSHOT_ID_SIZE);
	memcpy(r->root.bytes, p + 24, ID_SIZE);
	memcpy(r->facts.bytes, p + 56, ID_SIZE);
	r->client_ns = (int64_t)le64_get(p + 88);
	r->commit_s = (int64_t)le64_get(p + 96);
	r->order = le64_get(p + 104);
	r->zone_s = (int32_t)le32_get(p + 112);
	r->files = le64_get(p + 120);
	r->bytes = le64_get(p + 128);
	r->new_bytes = le64_get(p + 136);
	r->stored_bytes = le64_get(p + 144);
	r->proven_s = (int64_t)le64_get(p + 152);
}

int snapshot_record_get(struct snapshot_record *r, const void *data,
    size_t size, struct err *e)
{
	const uint8_t *p = data;

	if (size < SNAPSHOT_RECORD_SIZE || size > SNAPSHOT_RECORD_MAX)
		return err_set(e, ERR_CORRUPT, "snapshot record of %zu bytes",
		    size);
	if (p[0] != RECORD_VERSION)
		return err_set(e, ERR_VERSION,
		    "snapshot record of version %u", p[0]);
	if (p[1] & ~(unsigned)FLAGS_KNOWN)
		return err_set(e, ERR_VERSION,
		    "snapshot record with flags %#x", p[1]);
	if (le16_get(p + 2) != 0 || le32_get(p + 116) != 0)
		return err_set(e, ERR_CORRUPT,
		    "snapshot record: a reserved field is not zero");
	record_fields(r, p);
	return 0;
}

void facts_begin(struct buf *out)
{
	buf_reset(out);
	buf_add(out, "bS", 2);
	buf_u8(out, FACTS_VERSION);
}

void facts_add(struct buf *out, unsigned tag, const void *data, size_t size)
{
	if (size == 0 || size > UINT16_MAX) {
		out->bad = true;
		return;
	}
	buf_u8(out, (uint8_t)tag);
	buf_le16(out, (uint16_t)size);
	buf_add(out, data, size);
}

/* May this field stand here?  `seen` has a bit per tag below 32. */
static int fact_check(unsigned tag, const struct slice *v, uint32_t *seen,
    struct err *e)
{
	if (tag >= FACT_MUST_KNOW)
		return err_set(e, ERR_VERSION,
		    "facts: field %u is of a newer program", tag);
	if (v->size == 0 || memchr(v->data, 0, v->size))
		return err_set(e, ERR_CORRUPT, "facts: field %u is damaged",
		    tag);
	if (tag == FACT_PATH && v->data[0] != '/')
		return err_set(e, ERR_CORRUPT, "facts: a path is relative");
	if (tag < FACT_HOST || tag > FACT_PROGRAM)
		return 0;
	if (*seen & 1u << tag)
		return err_set(e, ERR_CORRUPT, "facts: field %u twice", tag);
	*seen |= 1u << tag;
	return 0;
}

/* The next field; false when it is cut short. */
static bool fact_read(struct reader *r, unsigned *tag, struct slice *v)
{
	*tag = reader_u8(r);
	v->size = reader_le16(r);
	v->data = reader_bytes(r, v->size);
	return !r->bad;
}

int facts_check(const void *data, size_t size, struct err *e)
{
	const uint8_t *p = data;
	struct reader r;
	struct slice v;
	uint32_t seen = 0;
	unsigned tag;

	if (size < FACTS_HEAD || memcmp(p, "bS", 2) != 0 || size > FACTS_MAX)
		return err_set(e, ERR_CORRUPT, "not facts of a snapshot");
	if (p[2] != FACTS_VERSION)
		return err_set(e, ERR_VERSION, "facts of version %u", p[2]);
	reader_init(&r, p + FACTS_HEAD, size - FACTS_HEAD);
	while (r.left > 0) {
		if (!fact_read(&r, &tag, &v))
			return err_set(e, ERR_CORRUPT, "facts are cut short");
		if (fact_check(tag, &v, &seen, e) != 0)
			return -1;
	}
	return 0;
}

bool facts_next(const void *data, size_t size, size_t *pos, unsigned *tag,
    struct slice *value)
{
	struct reader r;

	if (size < FACTS_HEAD || *pos >= size - FACTS_HEAD)
		return false;
	reader_init(&r, (const uint8_t *)data + FACTS_HEAD + *pos,
	    size - FACTS_HEAD - *pos);
	if (!fact_read(&r, tag, value))
		return false;
	*pos = size - FACTS_HEAD - r.left;
	return true;
}
