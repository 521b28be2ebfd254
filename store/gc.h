/*
 * store/gc.h - collection: finding what no snapshot reaches, and taking its
 * space back.  For prune.c; the theory is in gc.c.
 */
#ifndef STORE_GC_H
#define STORE_GC_H

#include "base/err.h"
#include "store/store.h"

/* Collect now; adds to *report.  ERR_CORRUPT when metadata cannot be read
 * right (verify first), ERR_UNAVAILABLE when members are away,
 * ERR_CANCELLED. */
MUST_CHECK int gc_run(struct store *s, struct prune_report *report,
    struct job_ctl *ctl, struct err *e);
/* The same, but of what is not wholly dead only segments that raid wants to
 * have rewritten are. */
MUST_CHECK int gc_mend(struct store *s, struct prune_report *report,
    struct job_ctl *ctl, struct err *e);

#endif
