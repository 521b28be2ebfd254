/*
 * base/extsort.h - sort more records than memory should hold.
 *
 * Records are byte strings, compared by memcmp, the shorter first on a tie.
 * Up to `memory_max` bytes (at least 272 KiB) are kept; beyond, sorted runs go
 * to one unlinked temporary file and are merged on the way out (Knuth, TAOCP
 * vol. 3, 5.4).
 *
 *      extsort_new --> extsort_add ... --> extsort_finish
 *                  --> extsort_next ... --> extsort_free
 *
 * Errors: ERR_NO_SPACE, ERR_IO on the spill file, ERR_NO_MEMORY.
 * Threads: one.
 */
#ifndef BASE_EXTSORT_H
#define BASE_EXTSORT_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

struct extsort;

#define EXTSORT_RECORD_MAX 65536

/* `dir` is a directory descriptor for the spill file, made on demand and
 * unlinked at once; it must stay open until extsort_free(). */
MUST_CHECK int extsort_new(struct extsort **out, int dir, size_t memory_max,
    struct err *e);
void extsort_free(struct extsort *s);
MUST_CHECK int extsort_add(struct extsort *s, const void *record, size_t size,
    struct err *e);
MUST_CHECK int extsort_finish(struct extsort *s, struct err *e);
/* 1 and the next record (valid until the next call), 0 at the end, or -1. */
MUST_CHECK int extsort_next(struct extsort *s, const uint8_t **record,
    size_t *size, struct err *e);
uint64_t extsort_count(const struct extsort *s);

#endif
