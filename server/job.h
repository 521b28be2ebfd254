/*
 * server/job.h - long work of the owner that outlives whoever asked for it.
 *
 * At most one job of each kind runs.  It has its own thread, and its lines
 * stay in a ring, so that one who comes later reads them too:
 *
 *      job_start --> job_follow (any number, any time) --> status
 *
 * Units: JOB_LINES lines are kept of each job, also after its end; a follower
 * that is too slow is told how many it missed.
 * Threads: all functions from any thread, job_line() and job_ctl() only from
 * the job's own.
 */
#ifndef SERVER_JOB_H
#define SERVER_JOB_H

#include "base/err.h"
#include "server/out.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct job;
struct job_ctl;
struct jobs;
struct json_t;
struct owner;

#define JOB_LINES 1024
#define JOB_BYTES (4u << 20)	/* of them, but for the last */

enum job_kind { JOB_VERIFY, JOB_PRUNE, JOB_SCRUB, JOB_MEND, JOB_KINDS };
const char *job_name(enum job_kind kind);

MUST_CHECK int jobs_new(struct jobs **out, struct owner *o, struct err *e);
/* Cancel those that run. */
void jobs_cancel(struct jobs *js);
/* Wait until none runs. */
void jobs_wait(struct jobs *js);
void jobs_free(struct jobs *js);	/* none may run; NULL is fine */

/* What a job does: its exit status (0, 1, 2), or -1 with *e. */
typedef int job_run(struct job *j, struct owner *o, void *arg,
    struct err *e);

/*
 * Start one, unless one of the kind runs (then *joined, and nothing else
 * happens).  `arg` is taken over and freed with free(), also on failure.  *out
 * is a reference: job_follow() or job_release() ends it.
 */
MUST_CHECK int job_start(struct jobs *js, enum job_kind kind, job_run *run,
    void *arg, struct job **out, bool *joined, struct err *e);
/* Copy its lines to `io` until it ends (text lines, or only the JSON ones);
 * raises io->status to the job's.  -1 with the job's own error. */
MUST_CHECK int job_follow(struct job *j, struct cmd_io *io, bool json,
    struct err *e);
void job_release(struct job *j);

void job_line(struct job *j, enum out_to to, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
/* For followers that asked for JSON; takes the reference. */
void job_json(struct job *j, struct json_t *object);
struct job_ctl *job_ctl(struct job *j);

struct job_info {
	bool running;
	uint64_t done, total;	/* bytes */
	int64_t started_s, ended_s;
	int status;		/* of the last one that ended; -1 = none did */
};
void job_info(struct jobs *js, enum job_kind kind, struct job_info *out);

#endif
