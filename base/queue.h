/*
 * base/queue.h - a bounded queue of pointers between threads.
 *
 * Bounded by items and by bytes (each item brings its weight), so that the
 * memory of a pipeline is the sum of its queues.
 *
 *      queue_new --> queue_push / queue_pop --> queue_close --> queue_free
 *
 * queue_close() lets poppers drain what is there and then get NULL; pushers
 * get -1 at once.  queue_fail() also drops what is there (drop() is called
 * for each) so that a broken pipeline ends without deadlock.
 *
 * Threads: any number of pushers and poppers.
 */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include "base/err.h"

#include <stddef.h>

struct queue;

/* NULL on lack of memory.  An item heavier than `bytes_max` is still taken
 * when the queue is empty.  `drop` may be NULL. */
struct queue *queue_new(size_t items_max, size_t bytes_max,
    void (*drop)(void *item));
void queue_free(struct queue *q);

/* Waits for room.  0, or -1 if closed or failed (the item stays yours). */
MUST_CHECK int queue_push(struct queue *q, void *item, size_t weight);
/* Waits for an item.  NULL once closed and empty, or failed. */
void *queue_pop(struct queue *q);
/* Like queue_pop, but NULL at once if empty; *ended tells the two apart. */
void *queue_try_pop(struct queue *q, int *ended);

void queue_close(struct queue *q);
void queue_fail(struct queue *q);

#endif
