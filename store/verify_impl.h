/*
 * store/verify_impl.h - what the files of verify share.
 */
#ifndef STORE_VERIFY_IMPL_H
#define STORE_VERIFY_IMPL_H

#include "base/err.h"
#include "store/qset.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

struct verify {
	struct store *store;
	const struct verify_options *options;
	const struct verify_ops *ops;
	struct verify_report *report;
	struct job_ctl *ctl;
	bool may_write;		/* quarantine, repair the index */
	bool recheck;		/* complete bits may be wrong */
	uint8_t *plain;		/* one unpacked frame */
	/* Of the segment at hand. */
	struct qset bad, good;	/* to be quarantined; no longer to be */
	char members[512];	/* that had wrong strips, for people */
};

/* A line in words, for whoever listens. */
void verify_line(struct verify *v, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* All of one segment: strips, frames, objects, refs.  ERR_NOT_FOUND when it
 * was freed, ERR_CANCELLED. */
MUST_CHECK int verify_segment(struct verify *v, uint64_t segment,
    struct err *e);
/* After the complete bits are right: which snapshots and paths are hit. */
MUST_CHECK int verify_hits(struct verify *v, struct err *e);

#endif
