/*
 * base/pool.h - a fixed number of worker threads that run small jobs.
 *
 * Jobs are embedded in the caller's structs, so submitting cannot fail for
 * lack of memory.  There is no order between jobs.
 */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/err.h"

struct pool;

struct pool_job {
	void (*run)(struct pool_job *job);	/* set by the caller */
	struct pool_job *next;			/* the pool's */
};

MUST_CHECK int pool_new(struct pool **out, unsigned threads, struct err *e);
/* Runs what is queued, then ends the threads.  NULL is fine. */
void pool_free(struct pool *p);
void pool_submit(struct pool *p, struct pool_job *job);
/* Processors this process may use, at least 1. */
unsigned pool_processors(void);

#endif
