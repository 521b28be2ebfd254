/*
 * Any bytes as what the store keeps as facts and in its index: a client's
 * record, an entry, keys.  What is accepted is written back the same.
 */
#include "base/buf.h"
#include "base/hash.h"
#include "base/le.h"
#include "store/entry.h"
#include "store/fmt_client.h"
#include "store/keys.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_client(const uint8_t *data, size_t size)
{
	static struct client_record c;
	struct buf again;
	struct err e;

	if (client_record_get(&c, "name", data, size, &e) != 0)
		return;
	buf_init(&again, RAID_VALUE_MAX);
	client_record_put(&again, &c);
	if (again.bad || again.size != size)
		abort();
	buf_release(&again);
}

static void try_entry(uint8_t *data, size_t size)
{
	struct key k = { { 1 } };
	struct entry *en;
	uint8_t *again;
	struct err e;

	if (size < 4)
		return;
	le32_put(data + size - 4, crc32c(crc32c(0, k.bytes, KEY_SIZE), data,
	    size - 4));
	if (entry_get(&en, &k, data, size, &e) != 0)
		return;
	again = malloc(ENTRY_BYTES(en->owner_count));
	if (again)
		entry_put(again, &k, en);
	free(again);
	free(en);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size + 1);
	uint64_t segment;
	uint32_t ordinal;
	char name[65];
	struct err e;

	if (!copy)
		return 0;
	if (size > 0)
		memcpy(copy, data, size);
	try_client(data, size);
	try_entry(copy, size);
	if (key_snapshot_client(data, size, name, sizeof(name), &e) == 0 &&
	    strlen(name) >= sizeof(name))
		abort();
	if (key_quarantine_get(data, size, &segment, &ordinal, &e) == 0 &&
	    size != 14)
		abort();
	free(copy);
	return 0;
}
