/*
 * server/job.c - a job is a counted object: the owner's slot holds one
 * reference, its thread one, each follower one.  So a follower that is slow
 * still finds the lines and the status of the job it followed when the next one
 * of the kind has begun.
 */
#include "server/job.h"

#include "base/clock.h"
#include "raid/array.h"
#include "server/owner.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct line {
	enum out_to to;
	bool json;
	char *text;		/* owned, with its newline */
};

struct job {
	struct jobs *jobs;
	enum job_kind kind;
	job_run *run;
	void *arg;
	struct job_ctl ctl;
	/* The rest is guarded by jobs->lock. */
	unsigned refs;
	bool running;
	struct line ring[JOB_LINES];
	uint64_t first, next;	/* numbers of the lines in the ring */
	size_t bytes;		/* of these */
	int64_t started_s, ended_s;
	int status;
	struct err err;		/* when status is -1 */
};

struct jobs {
	struct owner *owner;
	pthread_mutex_t lock;	/* guards: all jobs, slots */
	pthread_cond_t changed;	/* a line came, or a job ended */
	struct job *slots[JOB_KINDS];	/* the last of each kind, or NULL */
	unsigned running;
};

const char *job_name(enum job_kind kind)
{
	static const char *const names[JOB_KINDS] = { "verify", "prune",
	    "scrub", "mend" };

	return names[kind];
}

int jobs_new(struct jobs **out, struct owner *o, struct err *e)
{
	struct jobs *js = calloc(1, sizeof(*js));
	pthread_condattr_t attr;

	if (!js)
		return err_set(e, ERR_NO_MEMORY, "no memory for jobs");
	js->owner = o;
	pthread_mutex_init(&js->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&js->changed, &attr);
	pthread_condattr_destroy(&attr);
	*out = js;
	return 0;
}

void jobs_cancel(struct jobs *js)
{
	pthread_mutex_lock(&js->lock);
	for (size_t i = 0; i < JOB_KINDS; i++)
		if (js->slots[i])
			atomic_store(&js->slots[i]->ctl.cancel, true);
	pthread_cond_broadcast(&js->changed);
	pthread_mutex_unlock(&js->lock);
}

void jobs_wait(struct jobs *js)
{
	pthread_mutex_lock(&js->lock);
	while (js->running > 0)
		pthread_cond_wait(&js->changed, &js->lock);
	pthread_mutex_unlock(&js->lock);
}

/* With the lock held. */
static void unref(struct job *j)
{
	if (--j->refs > 0)
		return;
	for (; j->first < j->next; j->first++)
		free(j->ring[j->first % JOB_LINES].text);
	free(j->arg);
	free(j);
}

void job_release(struct job *j)
{
	struct jobs *js = j->jobs;

	pthread_mutex_lock(&js->lock);
	unref(j);
	pthread_mutex_unlock(&js->lock);
}

void jobs_free(struct jobs *js)
{
	if (!js)
		return;
	for (size_t i = 0; i < JOB_KINDS; i++)
		if (js->slots[i])
			job_release(js->slots[i]);
	pthread_cond_destroy(&js->changed);
	pthread_mutex_destroy(&js->lock);
	free(js);
}

static void *job_main(void *arg)
{
	struct job *j = arg;
	struct jobs *js = j->jobs;
	struct err e = { .code = ERR_NONE };
	int status = j->run(j, js->owner, j->arg, &e);

	pthread_mutex_lock(&js->lock);
	j->status = status;
	j->err = e;
	j->ended_s = clock_real_s();
	j->running = false;
	js->running--;
	unref(j);
	pthread_cond_broadcast(&js->changed);
	pthread_mutex_unlock(&js->lock);
	return NULL;
}

/* With the lock held: put `j` in its slot and let it run. */
static int launch(struct jobs *js, struct job *j, struct err *e)
{
	pthread_attr_t attr;
	pthread_t thread;
	int rc;

	if (owner_stopping(js->owner))
		return err_set(e, ERR_CANCELLED, "the server is stopping");
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	rc = pthread_create(&thread, &attr, job_main, j);
	pthread_attr_destroy(&attr);
	if (rc != 0)
		return err_os(e, rc, "start a thread");
	if (js->slots[j->kind])
		unref(js->slots[j->kind]);
	js->slots[j->kind] = j;
	js->running++;
	return 0;
}

int job_start(struct jobs *js, enum job_kind kind, job_run *run, void *arg,
    struct job **out, bool *joined, struct err *e)
{
	struct job *j = calloc(1, sizeof(*j));
	int rc = 0;

	if (!j) {
		free(arg);
		return err_set(e, ERR_NO_MEMORY, "no memory for a job");
	}
	*j = (struct job){ .jobs = js, .kind = kind, .run = run, .arg = arg,
	    .refs = 3, .running = true, .started_s = clock_real_s() };
	pthread_mutex_lock(&js->lock);
	*joined = js->slots[kind] && js->slots[kind]->running;
	if (*joined) {
		*out = js->slots[kind];
		(*out)->refs++;
	} else {
		rc = launch(js, j, e);
		*out = j;
	}
	if (*joined || rc != 0) {
		j->refs = 1;
		unref(j);
	}
	pthread_mutex_unlock(&js->lock);
	return rc;
}

/*
 * ---- lines ----------------------------------------------------------------
 */

/* With the lock held. */
static void drop_line(struct job *j)
{
	struct line *l = &j->ring[j->first++ % JOB_LINES];

	j->bytes -= strlen(l->text);
	free(l->text);
}

/* Takes `text`. */
static void add_line(struct job *j, enum out_to to, bool json, char *text)
{
	struct line *l;

	if (!text)
		return;
	pthread_mutex_lock(&j->jobs->lock);
	while (j->first < j->next && (j->next - j->first == JOB_LINES ||
	    j->bytes + strlen(text) > JOB_BYTES))
		drop_line(j);
	j->bytes += strlen(text);
	l = &j->ring[j->next++ % JOB_LINES];
	*l = (struct line){ .to = to, .json = json, .text = text };
	pthread_cond_broadcast(&j->jobs->changed);
	pthread_mutex_unlock(&j->jobs->lock);
}

void job_line(struct job *j, enum out_to to, const char *fmt, ...)
{
	char text[8192];
	char *copy = NULL;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (asprintf(&copy, "%s\n", text) < 0)
		copy = NULL;
	add_line(j, to, false, copy);
}

void job_json(struct job *j, struct json_t *object)
{
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
	char *copy = NULL;

	json_decref(object);
	if (text && asprintf(&copy, "%s\n", text) < 0)
		copy = NULL;
	free(text);
	add_line(j, TO_OUT, true, copy);
}

struct job_ctl *job_ctl(struct job *j)
{
	return &j->ctl;
}

/* With the lock held: a copy of the next line after *at; NULL = none now. */
static char *next_line(struct job *j, uint64_t *at, enum out_to *to,
    bool *json, uint64_t *missed)
{
	struct line *l;

	*missed = 0;
	if (*at < j->first) {
		*missed = j->first - *at;
		*at = j->first;
	}
	if (*at == j->next)
		return NULL;
	l = &j->ring[(*at)++ % JOB_LINES];
	*to = l->to;
	*json = l->json;
	return strdup(l->text);
}

/* With the lock held; a caller that left is noticed now and then. */
static void wait_changed(struct jobs *js)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += 1;
	pthread_cond_timedwait(&js->changed, &js->lock, &until);
}

static void copy_lines(struct job *j, struct cmd_io *io, bool want_json)
{
	struct jobs *js = j->jobs;
	uint64_t at = 0, missed;
	enum out_to to = TO_OUT;
	bool json = false, running = true;

	while (running && !io->broken) {
		char *text;

		pthread_mutex_lock(&js->lock);
		text = next_line(j, &at, &to, &json, &missed);
		if (!text && j->running)
			wait_changed(js);
		running = text || j->running || at < j->next;
		pthread_mutex_unlock(&js->lock);
		if (missed && !want_json)
			out_text(io, "(%" PRIu64 " lines left out)\n", missed);
		if (text && json == want_json)
			out_write(io, to, text, strlen(text));
		free(text);
	}
}

int job_follow(struct job *j, struct cmd_io *io, bool json, struct err *e)
{
	struct jobs *js = j->jobs;	/* outlives `j` */
	int rc = 0;

	copy_lines(j, io, json);
	pthread_mutex_lock(&js->lock);
	if (!j->running && j->status < 0) {
		*e = j->err;
		rc = -1;
	} else if (!j->running) {
		out_status(io, j->status);
	}
	unref(j);
	pthread_mutex_unlock(&js->lock);
	return rc;
}

void job_info(struct jobs *js, enum job_kind kind, struct job_info *out)
{
	const struct job *j;

	memset(out, 0, sizeof(*out));
	out->status = -1;
	pthread_mutex_lock(&js->lock);
	j = js->slots[kind];
	if (j) {
		out->running = j->running;
		out->done = j->ctl.done;
		out->total = j->ctl.total;
		out->started_s = j->started_s;
		out->ended_s = j->ended_s;
		out->status = j->running ? -1 : j->status;
	}
	pthread_mutex_unlock(&js->lock);
}
