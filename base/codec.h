/*
 * base/codec.h - lossless compression of one block.
 *
 * The numbers are part of the object format (docs/format-objects.md) and are
 * never reused: 4 is reserved for padding, 5 for a delta to a base object.
 *
 * A decoder never trusts a claimed size: the caller passes the exact plain
 * size it has checked against its limits and allocated, and anything else
 * is ERR_CORRUPT.
 *
 * Threads: safe from any thread (per-thread contexts).
 */
#ifndef BASE_CODEC_H
#define BASE_CODEC_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

enum codec { CODEC_RAW = 0, CODEC_LZ4 = 1, CODEC_ZSTD = 2 };

/* A block that shrinks by less than 1/32 is not worth decompressing. */
#define CODEC_WORTH(plain) ((plain) - (plain) / 32)

/* True for a number that this program can decode. */
int codec_known(unsigned number);

/* Bytes `out` must have for codec_pack() of `size` plain bytes. */
size_t codec_bound(size_t size);

/*
 * Compress into `out` (of codec_bound(size) bytes).  Sets *used to the codec
 * really used: CODEC_RAW when the data does not shrink to CODEC_WORTH().
 * `level` is zstd's (1..19; 0 = 1); lz4 ignores it.
 */
MUST_CHECK int codec_pack(enum codec want, int level, const void *in,
    size_t size, void *out, size_t *out_size, enum codec *used,
    struct err *e);

/* Decompress to exactly `plain_size` bytes.  ERR_CORRUPT if it is not so. */
MUST_CHECK int codec_unpack(enum codec codec, const void *in, size_t size,
    void *out, size_t plain_size, struct err *e);

#endif
