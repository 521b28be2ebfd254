/*
 * base/reader.h - read fields from bytes that came from someone else.
 *
 * A reader never steps past its end.  The first short read makes it `bad`,
 * and from then on every read gives 0 or NULL: a decoder reads all its
 * fields in a straight line and asks reader_done() once.
 */
#ifndef BASE_READER_H
#define BASE_READER_H

#include "base/le.h"

#include <stdbool.h>
#include <stddef.h>

struct reader {
	const uint8_t *at;
	size_t left;		/* bytes */
	bool bad;
};

static inline void reader_init(struct reader *r, const void *data, size_t size)
{
	r->at = data;
	r->left = size;
	r->bad = false;
}

static inline const uint8_t *reader_bytes(struct reader *r, size_t n)
{
	const uint8_t *p = r->at;

	if (r->bad || n > r->left) {
		r->bad = true;
		return NULL;
	}
	r->at += n;
	r->left -= n;
	return p;
}

static inline uint8_t reader_u8(struct reader *r)
{
	const uint8_t *p = reader_bytes(r, 1);

	return p ? *p : 0;
}

static inline uint16_t reader_le16(struct reader *r)
{
	const uint8_t *p = reader_bytes(r, 2);

	return p ? le16_get(p) : 0;
}

static inline uint32_t reader_le32(struct reader *r)
{
	const uint8_t *p = reader_bytes(r, 4);

	return p ? le32_get(p) : 0;
}

static inline uint64_t reader_le64(struct reader *r)
{
	const uint8_t *p = reader_bytes(r, 8);

	return p ? le64_get(p) : 0;
}

/* True if every read fitted and nothing is left over. */
static inline bool reader_done(const struct reader *r)
{
	return !r->bad && r->left == 0;
}

#endif
