/*
 * raid/parity.h - p strips that let any p of w strips be computed again.
 *
 * Reed-Solomon over GF(2^8) as ISA-L's gf_gen_rs_matrix gives it: the first
 * parity strip is the XOR of the data strips, the second the sum of
 * 2^i * data[i]; safe for p <= 2 at every width up to 16 (tested).  k = 1 is a
 * copy, which ISA-L's generators refuse.
 *
 * Units: bytes; sizes are multiples of RAID_ROW, buffers 32-byte aligned (an
 * ISA-L 2.30 requirement).
 * Threads: no shared state; a struct parity may be read by many.
 */
#ifndef RAID_PARITY_H
#define RAID_PARITY_H

#include "base/err.h"
#include "raid/fmt_strip.h"

#include <stdbool.h>
#include <stdint.h>

struct parity {
	uint8_t k, p;
	uint8_t matrix[SEG_WIDTH_MAX * SEG_WIDTH_MAX];	/* (k+p) rows of k */
	uint8_t tables[32 * SEG_WIDTH_MAX * SEG_PARITY_MAX];
};

/* k >= 1, p <= SEG_PARITY_MAX, k + p <= SEG_WIDTH_MAX.  No allocation. */
void parity_init(struct parity *c, unsigned k, unsigned p);

/* Compute strips[k..k+p-1] from strips[0..k-1]. */
void parity_encode(const struct parity *c, uint8_t *const *strips,
    size_t size);

/*
 * Compute every strip i with !good[i] from good ones.  ERR_CORRUPT when fewer
 * than k are good.  The caller has verified the good ones: nothing here can
 * tell.
 */
MUST_CHECK int parity_decode(const struct parity *c, uint8_t *const *strips,
    const bool *good, size_t size, struct err *e);

#endif
