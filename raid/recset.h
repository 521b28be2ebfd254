/*
 * raid/recset.h - the log records of one flush, being gathered.
 *
 *      recset_init --> recset_add ... --> log_append --> recset_release
 *
 * Threads: one.
 */
#ifndef RAID_RECSET_H
#define RAID_RECSET_H

#include "base/err.h"
#include "raid/log.h"

#include <stddef.h>
#include <stdint.h>

struct recset {
	struct log_rec *recs;	/* bodies are owned */
	size_t count, cap;
};

void recset_init(struct recset *r);
void recset_release(struct recset *r);
/* Copies the body. */
MUST_CHECK int recset_add(struct recset *r, uint16_t type, const void *body,
    size_t size, struct err *e);

#endif
