/*
 * store/redo.h - frames of a flush that lost a member are appended anew.
 *
 * Threads: the committer's.
 */
#ifndef STORE_REDO_H
#define STORE_REDO_H

#include "base/err.h"

struct store;

/*
 * After array_flush_or_redo() said 1: all that is not durable becomes pending
 * again, in new segments.  Cut lock held on entry and on return; given up in
 * between.  On failure nothing may be cut any more: the caller fails the
 * store.
 */
MUST_CHECK int store_redo(struct store *s, struct err *e);

#endif
