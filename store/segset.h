/*
 * store/segset.h - a set of segment ids: what a session pins.
 *
 * Sessions pin segments, not objects, so the set is small: one id for each
 * segment it was told something about.
 *
 * Threads: none of its own.
 */
#ifndef STORE_SEGSET_H
#define STORE_SEGSET_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct segset {
	uint64_t *slots;	/* open addressing; 0 = empty, else id + 1 */
	size_t cap, count;
};

void segset_init(struct segset *s);
void segset_release(struct segset *s);
MUST_CHECK int segset_add(struct segset *s, uint64_t segment, struct err *e);
bool segset_has(const struct segset *s, uint64_t segment);

#endif
