#include "base/buf.h"

#include "base/le.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_CAP 64

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){ .max = max };
}

void buf_release(struct buf *b)
{
	free(b->data);
	*b = (struct buf){ .max = b->max };
}

void buf_reset(struct buf *b)
{
	b->size = 0;
	b->bad = b->no_memory = false;
}

/* Room for `size` bytes in all; false when there is no memory. */
static bool grow(struct buf *b, size_t size)
{
	size_t cap = b->cap ? b->cap : FIRST_CAP;
	uint8_t *data;

	while (cap < size)
		cap = cap > b->max / 2 ? b->max : cap * 2;
	if (cap > b->max)
		cap = b->max;
	data = realloc(b->data, cap);
	if (!data)
		return false;
	b->data = data;
	b->cap = cap;
	return true;
}

uint8_t *buf_room(struct buf *b, size_t size)
{
	uint8_t *room;

	if (b->bad || size > b->max - b->size) {
		b->bad = true;
		return NULL;
	}
	if ((!b->data || b->size + size > b->cap) && b->max > 0 &&
	    !grow(b, b->size + size)) {
		b->bad = b->no_memory = true;
		return NULL;
	}
	room = b->data + b->size;
	b->size += size;
	return room;
}

void buf_add(struct buf *b, const void *data, size_t size)
{
	uint8_t *room = size > 0 ? buf_room(b, size) : NULL;

	if (room)
		memcpy(room, data, size);
}

void buf_u8(struct buf *b, uint8_t v)
{
	buf_add(b, &v, 1);
}

void buf_le16(struct buf *b, uint16_t v)
{
	uint8_t *room = buf_room(b, 2);

	if (room)
		le16_put(room, v);
}

void buf_le32(struct buf *b, uint32_t v)
{
	uint8_t *room = buf_room(b, 4);

	if (room)
		le32_put(room, v);
}

void buf_le64(struct buf *b, uint64_t v)
{
	uint8_t *room = buf_room(b, 8);

	if (room)
		le64_put(room, v);
}

int buf_ok(const struct buf *b, const char *what, struct err *e)
{
	if (!b->bad)
		return 0;
	if (b->no_memory)
		return err_set(e, ERR_NO_MEMORY, "no memory for %s", what);
	return err_set(e, ERR_LIMIT, "%s is larger than its limit of %zu bytes",
	    what, b->max);
}
