/*
 * base/buf.h - bytes that grow, up to a stated bound.
 *
 *      buf_init --> buf_add, buf_le32 ... --> buf_release
 *
 * An encoder appends all its fields in a straight line and asks buf_ok()
 * once: the first append that does not fit (bound or memory) makes the buffer
 * `bad`, and every later append does nothing.
 *
 * Units: bytes.  Threads: a buffer belongs to one thread.
 */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *data;		/* owned; NULL while nothing was added */
	size_t size;		/* bytes in use */
	size_t cap;		/* bytes allocated */
	size_t max;		/* never grows beyond */
	bool bad;
	bool no_memory;		/* why it is bad: malloc, not `max` */
};

/* No allocation.  `max` bounds the size for ever. */
void buf_init(struct buf *b, size_t max);
/* Frees the content; the buffer may be used again after buf_init(). */
void buf_release(struct buf *b);
/* Empties it and clears `bad`, keeping the memory. */
void buf_reset(struct buf *b);

void buf_add(struct buf *b, const void *data, size_t size);
void buf_u8(struct buf *b, uint8_t v);
void buf_le16(struct buf *b, uint16_t v);
void buf_le32(struct buf *b, uint32_t v);
void buf_le64(struct buf *b, uint64_t v);
/* `size` bytes of room to be filled by the caller, or NULL (then `bad`). */
uint8_t *buf_room(struct buf *b, size_t size);

/* 0 if everything fitted; else ERR_LIMIT or ERR_NO_MEMORY naming `what`. */
MUST_CHECK int buf_ok(const struct buf *b, const char *what, struct err *e);

#endif
