/*
 * Any bytes as a superblock: what is accepted is in bounds and is written back
 * exactly (but for flags that may be ignored); the rest is refused.  Since no
 * fuzzer finds a CRC-64, the input is also tried with the checksum put right.
 */
#include "base/hash.h"
#include "base/le.h"
#include "raid/fmt_super.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try(const uint8_t *data, size_t size)
{
	uint8_t again[SUPER_SIZE];
	struct super s;
	struct err e;

	if (super_get(&s, data, size, &e) != 0)
		return;
	if (s.count < 1 || s.count > RAID_MEMBERS_MAX || s.index >= s.count)
		abort();
	super_put(again, &s);
	if (memcmp(again, data, 12) != 0 ||
	    memcmp(again + 16, data + 16, SUPER_SIZE - 16 - 8) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t mended[SUPER_SIZE];

	try(data, size);
	if (size < SUPER_SIZE)
		return 0;
	memcpy(mended, data, SUPER_SIZE);
	le64_put(mended + SUPER_SIZE - 8,
	    crc64(0, mended, SUPER_SIZE - 8));
	try(mended, SUPER_SIZE);
	return 0;
}
