/*
 * base/hash.h - checksums, hashes, random bytes, comparison of secrets.
 *
 * crc32c   CRC-32C (Castagnoli, RFC 3720 B.4), ISA-L; crc32c(0, "123456789")
 *          is 0xe3069283.
 * crc64    CRC-64 ECMA-182 reflected, ISA-L (crc64_ecma_refl).
 * xxh128   XXH3-128, canonical (big-endian) bytes as xxhash.h writes them.
 * sha256   FIPS 180-4, OpenSSL.  hmac: FIPS 198-1.
 *
 * ISA-L leaves the upper halves of the vector registers dirty, which slows
 * later SHA code by a quarter; the wrappers here clear them.
 *
 * Threads: all functions are safe from any thread; each thread keeps its own
 * hash context, made at first use and freed when the thread ends.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHA256_SIZE 32
#define XXH128_SIZE 16

/* `seed` continues an earlier result: crc(crc(0,a),b) == crc(0,ab). */
uint32_t crc32c(uint32_t seed, const void *data, size_t size);
uint64_t crc64(uint64_t seed, const void *data, size_t size);
void xxh128(uint8_t out[static XXH128_SIZE], const void *data, size_t size);

struct bytes {			/* a piece of a message to be hashed */
	const void *data;
	size_t size;
};

/* The hash of the pieces, one after the other.  Fails only when libcrypto
 * cannot give a context (ERR_NO_MEMORY). */
MUST_CHECK int sha256(uint8_t out[static SHA256_SIZE],
    const struct bytes *pieces, size_t count, struct err *e);
MUST_CHECK int hmac_sha256(uint8_t out[static SHA256_SIZE],
    const void *key, size_t key_size, const struct bytes *pieces,
    size_t count, struct err *e);

/* Cryptographically random bytes. */
MUST_CHECK int random_bytes(void *out, size_t size, struct err *e);

/* True if equal; the time taken depends on `size` alone. */
bool secret_equal(const void *a, const void *b, size_t size);
/* Overwrite a secret so that the compiler cannot leave it out. */
void secret_wipe(void *p, size_t size);

#endif
