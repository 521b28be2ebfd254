/*
 * store/qset.h - the quarantined objects: places, never ids.
 *
 * A quarantine names (segment, ordinal): the bytes that are bad, not the
 * object, which may be stored anew elsewhere.  Kept as facts in the log; this
 * is the copy that every look-up consults.
 *
 * Threads: none of its own; the store's cut lock guards it.
 */
#ifndef STORE_QSET_H
#define STORE_QSET_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qplace {
	uint64_t segment;
	uint32_t ordinal;
};

struct qset {
	struct qplace *items;	/* ascending */
	size_t count, cap;
};

void qset_init(struct qset *q);
void qset_release(struct qset *q);
MUST_CHECK int qset_add(struct qset *q, uint64_t segment, uint32_t ordinal,
    struct err *e);
bool qset_has(const struct qset *q, uint64_t segment, uint32_t ordinal);
bool qset_has_segment(const struct qset *q, uint64_t segment);
/* It reads right again. */
void qset_drop(struct qset *q, uint64_t segment, uint32_t ordinal);
/* A freed segment takes its quarantines with it. */
void qset_drop_segment(struct qset *q, uint64_t segment);

#endif
