/*
 * Any bytes as a snapshot record and as facts: an accepted record is written
 * back exactly; accepted facts are walked to their last byte and, built
 * again, are the same bytes.
 */
#include "base/buf.h"
#include "proto/fmt_snapshot.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool good)
{
	if (!good)
		abort();
}

static void try_record(const uint8_t *data, size_t size)
{
	uint8_t again[SNAPSHOT_RECORD_SIZE];
	struct snapshot_record r;
	struct err e;

	if (snapshot_record_get(&r, data, size, &e) != 0)
		return;
	snapshot_record_put(again, &r);
	check(memcmp(again, data, sizeof(again)) == 0);
}

static void try_facts(const uint8_t *data, size_t size)
{
	struct slice value;
	struct buf again;
	size_t pos = 0;
	unsigned tag;
	struct err e;

	if (facts_check(data, size, &e) != 0)
		return;
	buf_init(&again, FACTS_MAX);
	facts_begin(&again);
	while (facts_next(data, size, &pos, &tag, &value))
		facts_add(&again, tag, value.data, value.size);
	check(buf_ok(&again, "facts", &e) == 0);
	check(again.size == size && memcmp(again.data, data, size) == 0);
	buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	try_record(data, size);
	try_facts(data, size);
	return 0;
}
