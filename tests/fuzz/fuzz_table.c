/*
 * Any bytes as a table of contents, as they are and with the checksum made
 * right (so that what is behind it is reached).  What is accepted is written
 * back to the very same bytes, and every frame's place is in range.
 */
#include "base/buf.h"
#include "base/hash.h"
#include "base/le.h"
#include "store/fmt_table.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try(const uint8_t *data, size_t size)
{
	struct place at = { .segment = 9, .row = 65, .offset = 4096 };
	uint8_t raw[PLACE_SIZE];
	struct table_view v;
	struct table_frame f;
	struct table_object o;
	struct buf again;
	struct err e;

	if (size >= 40)
		at.segment = le64_get(data + 32);
	if (table_parse(&v, &at, data, size, &e) != 0)
		return;
	if (!table_good(NULL, data, size))
		abort();
	for (uint32_t i = 0; i < v.frame_count; i++) {
		table_frame_at(&v, i, &f);
		if (f.place.segment < (uint64_t)1 << 40)
			place_put(raw, &f.place);
	}
	for (uint32_t i = 0; i < v.object_count; i++)
		table_object_at(&v, i, &o);
	buf_init(&again, TABLE_SIZE_MAX);
	table_put(&again, &v);
	if (again.bad || again.size != size)
		abort();
	/* Reserved bits of flags and frames may differ, nothing else. */
	if (memcmp(again.data + 12, data + 12, TABLE_HEADER_SIZE - 12) != 0)
		abort();
	buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy;

	try(data, size);
	if (size < TABLE_HEADER_SIZE)
		return 0;
	copy = malloc(size);
	if (!copy)
		return 0;
	memcpy(copy, data, size);
	memcpy(copy, "bkT1", 4);
	le32_put(copy + 16, (uint32_t)size);
	le32_put(copy + 4, crc32c(0, copy + 8, size - 8));
	try(copy, size);
	free(copy);
	return 0;
}
