/*
 * client/seen.h - the ids this push has sent or knows to be there.
 *
 * Up to SEEN_MEMORY_MAX bytes in memory, beyond that in an unlinked file.  An
 * id is kept by its first 16 bytes; an entry may be lost when a bucket of the
 * file is full, which only means that an object is sent again.
 *
 * Threads: none of its own; callers hold a lock.
 */
#ifndef CLIENT_SEEN_H
#define CLIENT_SEEN_H

#include "base/err.h"
#include "proto/fmt_id.h"

#include <stdbool.h>

/* 786 432 ids, 48 GiB of content in chunks of 64 KiB. */
#define SEEN_MEMORY_MAX (16u << 20)

struct seen;

/* `dir` is for the spill file and must outlive it. */
MUST_CHECK int seen_new(struct seen **out, int dir, struct err *e);
void seen_free(struct seen *s);
void seen_clear(struct seen *s);
/* True if it was there already; else it is now. */
bool seen_add(struct seen *s, const struct id *id);
bool seen_has(struct seen *s, const struct id *id);

#endif
