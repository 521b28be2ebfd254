/*
 * raid/redo.h - what a flush without its failed member needs of the others.
 *
 * Threads: `_locked` with the state lock held.
 */
#ifndef RAID_REDO_H
#define RAID_REDO_H

#include "raid/array_impl.h"

/* Can the members that are left give full parity, and room for all that is
 * not durable? */
bool redo_possible_locked(struct array *a);
/* No open segment takes frames any more. */
void redo_begin_locked(struct array *a);
/* The segment with all rows that were written, once they are.  False when it
 * takes no part in a redo. */
bool redo_state(struct array *a, uint64_t segment, struct seg_state *out);

#endif
