/*
 * store/closure.h - making complete bits true again after something was lost
 * or came back.
 */
#ifndef STORE_CLOSURE_H
#define STORE_CLOSURE_H

#include "base/err.h"
#include "store/store.h"

#include <stdint.h>

struct closure_report {
	uint64_t cleared, set, passes;
};

/*
 * Every page of the store: complete exactly when all it names is there, good
 * and (pages) complete.  Reads all metadata, in disk order, as often as bits
 * still change.  Before the committer runs, changes go to the `durable`
 * overlay (and are written out when it is full), else to `pending`.  A page
 * that cannot be read right is not complete; one on members that are away
 * keeps its bit.
 */
MUST_CHECK int closure_recheck(struct store *s,
    struct closure_report *report, struct job_ctl *ctl, struct err *e);

#endif
