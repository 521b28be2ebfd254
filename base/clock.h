/*
 * base/clock.h - time, as the program sees it.
 *
 * clock_real_ns() counts nanoseconds since 1970 UTC (signed; files may be
 * older); clock_mono_ms() never goes back and is for intervals only.
 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>

int64_t clock_real_ns(void);
int64_t clock_real_s(void);
uint64_t clock_mono_ms(void);
/* The same, but it goes on while the machine is suspended. */
uint64_t clock_boot_ms(void);

#define CLOCK_TEXT_SIZE 48
/* RFC 3339 with offset, in the local zone, e.g. 2024-05-03T07:15:00+02:00. */
void clock_text(char out[static CLOCK_TEXT_SIZE], int64_t seconds);
/* The same with nanoseconds; years beyond 9999 keep their digits. */
void clock_text_ns(char out[static CLOCK_TEXT_SIZE], int64_t seconds,
    uint32_t ns);
/* RFC 3339 or "YYYY-MM-DD[ T]HH:MM[:SS]" (no offset: local) -> seconds. */
MUST_CHECK int clock_parse(int64_t *seconds, const char *text,
    struct err *e);

#endif
