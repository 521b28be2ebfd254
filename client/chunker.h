/*
 * client/chunker.h - where a file is cut into chunks.  [format]
 *
 * The same bytes must be cut at the same places by every version of the
 * program, or nothing is shared with what is stored: the algorithm, the sizes
 * and the way the table comes from the seed are frozen.  Why these:
 * docs/decisions/0003-cut-points.md.
 *
 *   gear[i] = 8 bytes, little-endian, of HMAC-SHA-256(seed, "bk cut 1" ||
 *             le32(i / 4)), at i % 4 * 8
 *   h(n)    = sum over the 64 bytes before n of
 *             gear[byte] << (distance from n - 1)      (mod 2^64)
 *   A chunk that starts at s ends at the first n from s + CHUNK_MIN up to
 *   s + CHUNK_AVG with h(n) < 2^64 / (CHUNK_AVG * CHUNK_BIAS), else at the
 *   first n beyond with h(n) < 2^64 / (CHUNK_AVG / CHUNK_BIAS), else at
 *   s + CHUNK_MAX or the end of the file.  A file of at most CHUNK_MIN is one
 *   chunk; the last chunk of a file may be shorter.
 *
 * The seed is the store's, told to its clients; it keeps outsiders from
 * guessing content by the sizes of chunks.
 *
 * Threads: a chunker is read-only after chunker_init(); share it freely.
 */
#ifndef CLIENT_CHUNKER_H
#define CLIENT_CHUNKER_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHUNK_MIN (32u << 10)
#define CHUNK_AVG (64u << 10)
#define CHUNK_MAX (256u << 10)
#define CHUNK_BIAS 4
#define CHUNK_SEED_SIZE 32

struct chunker {
	uint64_t gear[256];
};

/* Derive the table.  ERR_NO_MEMORY. */
MUST_CHECK int chunker_init(struct chunker *c,
    const uint8_t seed[static CHUNK_SEED_SIZE], struct err *e);

/*
 * Length of the chunk that starts at `data`; `end` says that the file ends
 * with these `size` bytes.  0 when more bytes are needed to tell: never with
 * `end` (unless size is 0), and never with CHUNK_MAX bytes or more.
 */
size_t chunker_next(const struct chunker *c, const uint8_t *data,
    size_t size, bool end);

/* The same with other sizes, for measurements: min is from 64 to avg; avg and
 * bias are powers of two. */
struct chunk_sizes {
	size_t min, avg, max, bias;
};
size_t chunker_next_sized(const struct chunker *c,
    const struct chunk_sizes *sizes, const uint8_t *data, size_t size,
    bool end);

#endif
