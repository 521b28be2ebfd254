/*
 * base/progress.h - one line of progress, on a terminal only.
 *
 * Off a terminal nothing at all is written (no CR, no escapes).  Counters are
 * atomics that any thread may raise; progress_tick() redraws at most four
 * times a second; progress_clear() removes the line before other output.
 */
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
	pthread_mutex_t lock;	/* guards: current, drawn_ms, shown */
	atomic_ullong files, bytes;
	uint64_t files_total, bytes_total;	/* 0 = not known */
	uint64_t started_ms, drawn_ms;
	char current[256];	/* escaped name, cut */
	const char *verb;	/* "pushing" */
	bool on, shown;
};

/* `on`: false for -q; a stderr that is no terminal turns it off as well. */
void progress_init(struct progress *p, const char *verb, bool on);
void progress_release(struct progress *p);
void progress_file(struct progress *p, const void *name, size_t size);
void progress_tick(struct progress *p);
void progress_clear(struct progress *p);

#endif
