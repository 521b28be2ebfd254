/*
 * base/warn.h - where a library sends what is not an error of the call.
 *
 * A push that cannot read one file of a million goes on; the file must be
 * named, in full, however long its path.  So warnings do not travel in a
 * struct err (bounded text) but through a sink that the program supplies.
 *
 * Threads: warn_add() may be called from any thread; the sink's emit() is
 * called with the sink's own lock held, one call at a time.
 */
#ifndef BASE_WARN_H
#define BASE_WARN_H

#include "base/err.h"

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct warn_sink {
	pthread_mutex_t lock;	/* guards: count, and calls of emit */
	/* `path` is raw bytes (may be NULL), not terminated; `text` is the
	 * sentence about it. */
	void (*emit)(void *arg, const uint8_t *path, size_t path_size,
	    const char *text);
	void *arg;
	uint64_t count;
};

void warn_init(struct warn_sink *w,
    void (*emit)(void *, const uint8_t *, size_t, const char *), void *arg);
void warn_release(struct warn_sink *w);
/* Count it and hand it to the program.  `w` may be NULL: nothing happens. */
void warn_add(struct warn_sink *w, const void *path, size_t path_size,
    const char *fmt, ...) PRINTF_LIKE(4, 5);
uint64_t warn_count(struct warn_sink *w);

#endif
