/*
 * Any bytes as an owner record: what is accepted is in bounds, its host can be
 * shown, and it is written back exactly (but for flags that may be ignored);
 * the rest is refused.  Since no fuzzer finds a CRC-64, the input is also tried
 * with the checksum put right.
 */
#include "base/hash.h"
#include "base/le.h"
#include "raid/fmt_owner.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try(const uint8_t *data, size_t size)
{
	uint8_t again[OWNER_SIZE];
	struct owner_rec r;
	struct err e;

	if (owner_get(&r, data, size, &e) != 0)
		return;
	if (r.interval_ms < 1 || r.interval_ms > OWNER_INTERVAL_MAX ||
	    strlen(r.by.host) > ARRAY_HOST_MAX)
		abort();
	for (const char *p = r.by.host; *p; p++)
		if (*p < 0x21 || *p > 0x7e)
			abort();
	owner_put(again, &r);
	if (memcmp(again, data, 12) != 0 ||
	    memcmp(again + 16, data + 16, OWNER_SIZE - 16 - 8) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t mended[OWNER_SIZE];

	try(data, size);
	if (size < OWNER_SIZE)
		return 0;
	memcpy(mended, data, OWNER_SIZE);
	le64_put(mended + OWNER_SIZE - 8,
	    crc64(0, mended, OWNER_SIZE - 8));
	try(mended, OWNER_SIZE);
	return 0;
}
