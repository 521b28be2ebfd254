#include "raid/fmt_log.h"

#include "base/hash.h"
#include "base/le.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

enum { AT_VERSION = 6, AT_ARRAY = 8, AT_GENERATION = 24, AT_SEQ = 32,
	AT_BEFORE = 40, AT_EVENT = 48, AT_RUN = 56, AT_FLUSH = 72,
	AT_FLAGS = 80, AT_USED = 82, AT_RESERVED = 84, AT_SUM = 88 };

_Static_assert(AT_SUM + 8 == LOG_PAYLOAD_AT, "the payload comes last");
_Static_assert(LOG_PAYLOAD_AT + LOG_PAYLOAD == LOG_BLOCK, "a block is whole");

static const uint8_t log_magic[6] = "BKLOG\n";

static uint64_t sum_of(const uint8_t *block)
{
	static const uint8_t zero[8];
	uint64_t c = crc64(0, block, AT_SUM);

	c = crc64(c, zero, sizeof(zero));
	return crc64(c, block + LOG_PAYLOAD_AT, LOG_PAYLOAD);
}

void log_block_put(uint8_t out[static LOG_BLOCK], struct log_block *b)
{
	assert(b->used <= LOG_PAYLOAD && b->generation > 0);
	memcpy(out, log_magic, sizeof(log_magic));
	le16_put(out + AT_VERSION, LOG_VERSION);
	memcpy(out + AT_ARRAY, b->array, RAID_UUID_SIZE);
	le64_put(out + AT_GENERATION, b->generation);
	le64_put(out + AT_SEQ, b->seq);
	le64_put(out + AT_BEFORE, b->before);
	le64_put(out + AT_EVENT, b->event);
	memcpy(out + AT_RUN, b->run, sizeof(b->run));
	le64_put(out + AT_FLUSH, b->flush);
	le16_put(out + AT_FLAGS, b->flags);
	le16_put(out + AT_USED, b->used);
	le32_put(out + AT_RESERVED, 0);
	b->sum = sum_of(out);
	le64_put(out + AT_SUM, b->sum);
}

static bool rest_zero(const uint8_t *in, size_t used)
{
	static const uint8_t zero[LOG_PAYLOAD];

	return le32_get(in + AT_RESERVED) == 0 && memcmp(in +
	    LOG_PAYLOAD_AT + used, zero, LOG_PAYLOAD - used) == 0;
}

int log_block_get(struct log_block *b, const uint8_t *in, size_t size,
    struct err *e)
{
	struct log_block got;

	if (size < LOG_BLOCK || memcmp(in, log_magic, sizeof(log_magic)) != 0)
		return err_set(e, ERR_NOT_FOUND, "no block of the log here");
	got.sum = le64_get(in + AT_SUM);
	if (got.sum != sum_of(in))
		return err_set(e, ERR_CORRUPT, "log block: wrong checksum");
	if (le16_get(in + AT_VERSION) != LOG_VERSION)
		return err_set(e, ERR_VERSION, "log block: version %u",
		    le16_get(in + AT_VERSION));
	memcpy(got.array, in + AT_ARRAY, RAID_UUID_SIZE);
	got.generation = le64_get(in + AT_GENERATION);
	got.seq = le64_get(in + AT_SEQ);
	got.before = le64_get(in + AT_BEFORE);
	got.event = le64_get(in + AT_EVENT);
	memcpy(got.run, in + AT_RUN, sizeof(got.run));
	got.flush = le64_get(in + AT_FLUSH);
	got.flags = le16_get(in + AT_FLAGS);
	got.used = le16_get(in + AT_USED);
	if (got.generation == 0 || got.used > LOG_PAYLOAD ||
	    (got.flags & ~LOG_FLAGS) != 0 || !rest_zero(in, got.used))
		return err_set(e, ERR_CORRUPT, "log block: %u bytes, flags %#x",
		    got.used, got.flags);
	*b = got;
	return 0;
}
