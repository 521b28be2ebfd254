#include "base/queue.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct item {
	void *value;
	size_t weight;
};

struct queue {
	pthread_mutex_t lock;	/* guards everything below */
	pthread_cond_t has_item;	/* or closed, or failed */
	pthread_cond_t has_room;	/* or closed, or failed */
	void (*drop)(void *item);
	size_t items_max, bytes_max;
	size_t head, count, bytes;
	bool closed, failed;
	struct item ring[];	/* items_max of them */
};

struct queue *queue_new(size_t items_max, size_t bytes_max,
    void (*drop)(void *item))
{
	struct queue *q;

	if (items_max == 0)
		items_max = 1;
	q = calloc(1, sizeof(*q) + items_max * sizeof(q->ring[0]));
	if (!q)
		return NULL;
	pthread_mutex_init(&q->lock, NULL);
	pthread_cond_init(&q->has_item, NULL);
	pthread_cond_init(&q->has_room, NULL);
	q->drop = drop;
	q->items_max = items_max;
	q->bytes_max = bytes_max;
	return q;
}

/* Needs the lock, or to be the only one left; and an item. */
static struct item take(struct queue *q)
{
	struct item i = q->ring[q->head];

	q->head = (q->head + 1) % q->items_max;
	q->count--;
	q->bytes -= i.weight;
	return i;
}

void queue_free(struct queue *q)
{
	if (!q)
		return;
	while (q->count > 0) {
		struct item i = take(q);

		if (q->drop)
			q->drop(i.value);
	}
	pthread_cond_destroy(&q->has_room);
	pthread_cond_destroy(&q->has_item);
	pthread_mutex_destroy(&q->lock);
	free(q);
}

static bool has_room(const struct queue *q, size_t weight)
{
	if (q->count == 0)
		return true;
	return q->count < q->items_max && q->bytes <= q->bytes_max &&
	    weight <= q->bytes_max - q->bytes;
}

int queue_push(struct queue *q, void *value, size_t weight)
{
	int rc = -1;

	pthread_mutex_lock(&q->lock);
	while (!q->closed && !q->failed && !has_room(q, weight))
		pthread_cond_wait(&q->has_room, &q->lock);
	if (!q->closed && !q->failed) {
		q->ring[(q->head + q->count) % q->items_max] =
		    (struct item){ value, weight };
		q->count++;
		q->bytes += weight;
		pthread_cond_signal(&q->has_item);
		rc = 0;
	}
	pthread_mutex_unlock(&q->lock);
	return rc;
}

/* Needs the lock. */
static void *pop(struct queue *q)
{
	void *value;

	if (q->failed || q->count == 0)
		return NULL;
	value = take(q).value;
	/* All of them: the first waiter may be too heavy for the room while
	 * another one fits. */
	pthread_cond_broadcast(&q->has_room);
	return value;
}

void *queue_pop(struct queue *q)
{
	void *value;

	pthread_mutex_lock(&q->lock);
	while (!q->closed && !q->failed && q->count == 0)
		pthread_cond_wait(&q->has_item, &q->lock);
	value = pop(q);
	pthread_mutex_unlock(&q->lock);
	return value;
}

void *queue_try_pop(struct queue *q, int *ended)
{
	void *value;

	pthread_mutex_lock(&q->lock);
	value = pop(q);
	*ended = !value && (q->failed || q->closed);
	pthread_mutex_unlock(&q->lock);
	return value;
}

static void wake_all(struct queue *q)
{
	pthread_cond_broadcast(&q->has_item);
	pthread_cond_broadcast(&q->has_room);
}

void queue_close(struct queue *q)
{
	pthread_mutex_lock(&q->lock);
	q->closed = true;
	wake_all(q);
	pthread_mutex_unlock(&q->lock);
}

void queue_fail(struct queue *q)
{
	bool first;

	pthread_mutex_lock(&q->lock);
	first = !q->failed;
	q->failed = true;
	wake_all(q);
	pthread_mutex_unlock(&q->lock);
	/* From here on nobody but the first caller touches the items; drop()
	 * may take locks of its own. */
	while (first && q->count > 0) {
		struct item i = take(q);

		if (q->drop)
			q->drop(i.value);
	}
}
