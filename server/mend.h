/*
 * server/mend.h - bring members up to date: the job of JOB_MEND.
 *
 * Continues replacements, copies to members that came back what they missed,
 * moves what is on failed members, and has written anew what cannot be moved.
 */
#ifndef SERVER_MEND_H
#define SERVER_MEND_H

#include "base/err.h"

#include <stdbool.h>

struct job;
struct owner;

/* Start it, or join the one that runs; see job_start(). */
MUST_CHECK int mend_start(struct owner *o, struct job **out, bool *joined,
    struct err *e);
/* From time to time in `serve`: mend what wants it, by itself. */
void mend_if_wanted(struct owner *o);

#endif
