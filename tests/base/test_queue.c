/*
 * Proves base/queue.h and base/pool.h: order, bounds, and that no way of
 * ending leaves a thread waiting or an item unaccounted for.  Meaningful
 * under the thread sanitizer, too.
 */
#include "base/pool.h"
#include "base/queue.h"

#include <check.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

Suite *base_queue_suite(void);

static atomic_int dropped;

static void drop(void *item)
{
	free(item);
	atomic_fetch_add(&dropped, 1);
}

START_TEST(items_come_out_in_order_and_close_drains)
{
	struct queue *q = queue_new(3, 1000, NULL);
	int items[3], ended;

	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(queue_push(q, &items[i], 1), 0);
	ck_assert_ptr_eq(queue_pop(q), &items[0]);
	ck_assert_int_eq(queue_push(q, &items[0], 1), 0);
	queue_close(q);
	ck_assert_int_eq(queue_push(q, &items[0], 1), -1);
	ck_assert_ptr_eq(queue_pop(q), &items[1]);
	ck_assert_ptr_eq(queue_try_pop(q, &ended), &items[2]);
	ck_assert_int_eq(ended, 0);
	ck_assert_ptr_eq(queue_pop(q), &items[0]);
	ck_assert_ptr_null(queue_pop(q));
	ck_assert_ptr_null(queue_try_pop(q, &ended));
	ck_assert_int_eq(ended, 1);
	queue_free(q);
	queue_free(NULL);
}
END_TEST

START_TEST(an_empty_open_queue_has_not_ended)
{
	struct queue *q = queue_new(3, 1000, NULL);
	int ended = 1;

	ck_assert_ptr_null(queue_try_pop(q, &ended));
	ck_assert_int_eq(ended, 0);
	queue_free(q);
}
END_TEST

struct pusher {
	struct queue *q;
	size_t weight;
	atomic_int done;
	int rc;
};

static void *push_one(void *arg)
{
	struct pusher *p = arg;

	void *item = malloc(1);

	p->rc = queue_push(p->q, item, p->weight);
	if (p->rc != 0)
		free(item);
	atomic_store(&p->done, 1);
	return NULL;
}

START_TEST(a_full_queue_blocks_by_bytes_but_takes_a_giant_when_empty)
{
	struct queue *q = queue_new(100, 10, drop);
	struct pusher p = { .q = q, .weight = 5 };
	pthread_t t;

	ck_assert_int_eq(queue_push(q, malloc(1), 1000), 0);
	pthread_create(&t, NULL, push_one, &p);
	usleep(50000);
	ck_assert_int_eq(atomic_load(&p.done), 0);
	free(queue_pop(q));
	pthread_join(t, NULL);
	ck_assert_int_eq(p.rc, 0);
	queue_free(q);
	ck_assert_int_eq(atomic_load(&dropped), 1);
}
END_TEST

START_TEST(fail_drops_what_is_there_and_wakes_everybody)
{
	struct queue *q = queue_new(2, 1000, drop);
	struct pusher p[3];
	pthread_t t[3];

	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(queue_push(q, malloc(1), 1), 0);
	for (int i = 0; i < 3; i++) {
		p[i] = (struct pusher){ .q = q, .weight = 1 };
		pthread_create(&t[i], NULL, push_one, &p[i]);
	}
	usleep(20000);
	queue_fail(q);
	queue_fail(q);
	for (int i = 0; i < 3; i++) {
		pthread_join(t[i], NULL);
		ck_assert_int_eq(p[i].rc, -1);
	}
	ck_assert_int_eq(atomic_load(&dropped), 2);
	ck_assert_ptr_null(queue_pop(q));
	queue_free(q);
}
END_TEST

/* Many pushers and poppers, ended in the middle by close or fail. */
struct crowd {
	struct queue *q;
	atomic_long made, taken;
};

static void *crowd_push(void *arg)
{
	struct crowd *c = arg;

	for (;;) {
		void *item = malloc(1);

		if (queue_push(c->q, item, 7) != 0) {
			free(item);
			return NULL;
		}
		atomic_fetch_add(&c->made, 1);
	}
}

static void *crowd_pop(void *arg)
{
	struct crowd *c = arg;
	void *item;

	while ((item = queue_pop(c->q)) != NULL) {
		free(item);
		atomic_fetch_add(&c->taken, 1);
	}
	return NULL;
}

START_TEST(every_item_is_taken_or_dropped)	/* _i: 0 close, 1 fail */
{
	for (int round = 0; round < 20; round++) {
		struct crowd c = { .q = queue_new(8, 40, drop) };
		pthread_t t[8];

		atomic_store(&dropped, 0);
		for (int i = 0; i < 8; i++)
			pthread_create(&t[i], NULL, i % 2 ? crowd_push :
			    crowd_pop, &c);
		usleep(5000);
		if (_i == 0)
			queue_close(c.q);
		else
			queue_fail(c.q);
		for (int i = 0; i < 8; i++)
			pthread_join(t[i], NULL);
		ck_assert_int_eq(atomic_load(&c.made),
		    atomic_load(&c.taken) + atomic_load(&dropped));
		ck_assert(_i == 1 || atomic_load(&dropped) == 0);
		queue_free(c.q);
	}
}
END_TEST

struct add_job {
	struct pool_job job;
	atomic_long *sum;
	long value;
};

static void add(struct pool_job *job)
{
	struct add_job *a = (struct add_job *)job;

	atomic_fetch_add(a->sum, a->value);
}

START_TEST(a_pool_runs_every_job_before_it_ends)
{
	enum { JOBS = 5000 };
	struct add_job *jobs = calloc(JOBS, sizeof(*jobs));
	atomic_long sum = 0;
	struct pool *p;
	struct err e;

	ck_assert_int_eq(pool_new(&p, 4, &e), 0);
	for (long i = 0; i < JOBS; i++) {
		jobs[i] = (struct add_job){ { .run = add }, &sum, i };
		pool_submit(p, &jobs[i].job);
	}
	pool_free(p);
	ck_assert_int_eq(atomic_load(&sum), (long)JOBS * (JOBS - 1) / 2);
	free(jobs);
	ck_assert_uint_ge(pool_processors(), 1);
	pool_free(NULL);
}
END_TEST

Suite *base_queue_suite(void)
{
	Suite *s = suite_create("queue");
	TCase *t = tcase_create("all");

	tcase_add_test(t, items_come_out_in_order_and_close_drains);
	tcase_add_test(t, an_empty_open_queue_has_not_ended);
	tcase_add_test(t,
	    a_full_queue_blocks_by_bytes_but_takes_a_giant_when_empty);
	tcase_add_test(t, fail_drops_what_is_there_and_wakes_everybody);
	tcase_add_loop_test(t, every_item_is_taken_or_dropped, 0, 2);
	tcase_add_test(t, a_pool_runs_every_job_before_it_ends);
	suite_add_tcase(s, t);
	return s;
}
