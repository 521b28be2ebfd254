/*
 * base/str.h - numbers, sizes, durations and names as people write them.
 *
 * Threads: no state; the caller supplies every buffer.
 */
#ifndef BASE_STR_H
#define BASE_STR_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

/* "12", "4K", "1.5G", "2T" (binary) -> bytes.  ERR_USAGE otherwise. */
MUST_CHECK int str_size(uint64_t *out, const char *text, struct err *e);
/* "90", "90s", "5m", "2h", "90d", "3w" -> seconds. */
MUST_CHECK int str_duration(uint64_t *out, const char *text, struct err *e);
/* Decimal, whole text, at most `max`. */
MUST_CHECK int str_u64(uint64_t *out, const char *text, uint64_t max,
    struct err *e);

/* Lower-case hex, terminated: `out` has 2 * size + 1 bytes. */
void hex_put(char *out, const void *data, size_t size);
/* Exactly 2 * size hex digits, or -1 (no struct err: the caller knows). */
int hex_get(void *out, size_t size, const char *text);

/* "1.4 GiB", at most 15 characters and terminated; "-" for UINT64_MAX, which
 * stands for "not known". */
void str_bytes_human(char out[static 16], uint64_t bytes);

/*
 * Append a name for a terminal: printable UTF-8 as it is, control bytes,
 * backslash and bytes that are not UTF-8 as \n, \\, \xHH.
 */
void str_escape(struct buf *out, const void *name, size_t size);
/* The same into a terminated C string, cut to fit. */
void str_escape_to(char *out, size_t out_size, const void *name, size_t size);
/* True if the bytes are well-formed UTF-8 (RFC 3629) without NUL. */
bool str_is_utf8(const void *name, size_t size);

#endif
