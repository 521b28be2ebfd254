/*
 * Any bytes as a strip header: what is accepted is in bounds and is written
 * back exactly; the rest is refused.  Since no fuzzer finds a CRC-64, the
 * input is also tried with the checksum put right.  The first 16 bytes beyond
 * a header, or all of a short input, are tried as a place.
 */
#include "base/hash.h"
#include "base/le.h"
#include "raid/fmt_strip.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_header(const uint8_t *data)
{
	uint8_t again[STRIP_HEADER_SIZE];
	struct strip_header h;
	struct err e;

	if (strip_header_get(&h, data, &e) != 0)
		return;
	if (h.width < 1 || h.width > SEG_WIDTH_MAX || h.parity >= h.width ||
	    h.strip >= h.width || h.units < 1 || h.units > STRIP_UNITS_MAX)
		abort();
	strip_header_put(again, &h);
	if (memcmp(again, data, sizeof(again)) != 0)
		abort();
}

static void try_place(const uint8_t *data)
{
	uint8_t again[PLACE_SIZE];
	struct place p;
	struct err e;

	if (place_get(&p, data, &e) != 0)
		return;
	place_put(again, &p);
	if (memcmp(again, data, sizeof(again)) != 0)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t mended[STRIP_HEADER_SIZE];

	if (size >= PLACE_SIZE && size < STRIP_HEADER_SIZE)
		try_place(data);
	if (size < STRIP_HEADER_SIZE)
		return 0;
	try_header(data);
	memcpy(mended, data, sizeof(mended));
	le64_put(mended + sizeof(mended) - 8,
	    crc64(0, mended, sizeof(mended) - 8));
	try_header(mended);
	if (size >= STRIP_HEADER_SIZE + PLACE_SIZE)
		try_place(data + STRIP_HEADER_SIZE);
	return 0;
}
