#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

struct pool {
	pthread_mutex_t lock;	/* guards: first, last, ending */
	pthread_cond_t has_job;	/* or ending */
	struct pool_job *first, *last;
	bool ending;
	unsigned threads;	/* running */
	pthread_t thread[];
};

static struct pool_job *next_job(struct pool *p)
{
	struct pool_job *job;

	pthread_mutex_lock(&p->lock);
	while (!p->first && !p->ending)
		pthread_cond_wait(&p->has_job, &p->lock);
	job = p->first;
	if (job)
		p->first = job->next;
	pthread_mutex_unlock(&p->lock);
	return job;
}

static void *work(void *arg)
{
	struct pool *p = arg;
	struct pool_job *job;

	while ((job = next_job(p)) != NULL)
		job->run(job);		/* may free the job */
	return NULL;
}

/* Signals are the main thread's business. */
static int start_threads(struct pool *p, unsigned threads)
{
	sigset_t all, before;
	int os = 0;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	while (os == 0 && p->threads < threads) {
		os = pthread_create(&p->thread[p->threads], NULL, work, p);
		if (os == 0)
			p->threads++;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return os;
}

int pool_new(struct pool **out, unsigned threads, struct err *e)
{
	struct pool *p;
	int os;

	if (threads == 0)
		threads = 1;
	p = calloc(1, sizeof(*p) + threads * sizeof(p->thread[0]));
	if (!p)
		return err_set(e, ERR_NO_MEMORY, "no memory for %u threads",
		    threads);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->has_job, NULL);
	os = start_threads(p, threads);
	if (os != 0) {
		pool_free(p);
		return err_os(e, os, "start %u threads", threads);
	}
	*out = p;
	return 0;
}

void pool_free(struct pool *p)
{
	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->ending = true;
	pthread_cond_broadcast(&p->has_job);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->threads; i++)
		pthread_join(p->thread[i], NULL);
	pthread_cond_destroy(&p->has_job);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

void pool_submit(struct pool *p, struct pool_job *job)
{
	job->next = NULL;
	pthread_mutex_lock(&p->lock);
	if (p->first)
		p->last->next = job;
	else
		p->first = job;
	p->last = job;
	pthread_cond_signal(&p->has_job);
	pthread_mutex_unlock(&p->lock);
}

unsigned pool_processors(void)
{
	/* The kernel refuses a set smaller than its own; 8192 processors are
	 * as many as Linux can be built for on x86. */
	enum { CPUS = 8192 };
	cpu_set_t *set = CPU_ALLOC(CPUS);
	size_t size = CPU_ALLOC_SIZE(CPUS);
	int count = 0;

	if (set && sched_getaffinity(0, size, set) == 0)
		count = CPU_COUNT_S(size, set);
	CPU_FREE(set);
	return count > 0 ? (unsigned)count : 1;
}
