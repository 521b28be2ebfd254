/*
 * Any bytes as a run of log blocks: blocks that are accepted are written back
 * exactly; their payloads go through the record parser and every body decoder,
 * which must stay in bounds whatever they get.  The checksums of the blocks are
 * put right first, since no fuzzer finds a CRC-64.  A rest shorter than a block
 * is fed to the parser as it is.
 */
#include "base/hash.h"
#include "base/le.h"
#include "raid/log_impl.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int on_record(void *arg, const struct log_rec *r, struct err *e)
{
	uint32_t link[RAID_MEMBERS_MAX];
	struct rec_member m;
	struct rec_epoch p;
	struct rec_fact f;
	uint64_t limit;

	(void)arg;
	if (r->size > REC_BODY_MAX)
		abort();
	if (rec_fact_get(&f, REC_FACT_SET, r->body, r->size, e) == 0 &&
	    f.key + f.key_size + f.value_size != r->body + r->size)
		abort();
	if (rec_fact_get(&f, REC_FACT_DELETE, r->body, r->size, e) == 0 &&
	    f.value_size != 0)
		abort();
	if (rec_epoch_get(&p, r->body, r->size, e) == 0) {
		uint8_t again[REC_EPOCH_SIZE];

		rec_epoch_put(again, &p);
		if (memcmp(again, r->body, sizeof(again)) != 0)
			abort();
	}
	if (r->size >= REC_MEMBER_SIZE &&
	    rec_member_get(&m, r->body, e) == 0) {
		uint8_t again[REC_MEMBER_SIZE];

		rec_member_put(again, &m);
		if (memcmp(again, r->body, sizeof(again)) != 0)
			abort();
	}
	if (rec_link_get(link, r->body, r->size, e) == 0) {
		uint8_t again[REC_LINK_MAX];

		if (rec_link_put(again, link) != r->size ||
		    memcmp(again, r->body, r->size) != 0)
			abort();
	}
	if (rec_id_reserve_get(&limit, r->body, r->size, e) == 0 &&
	    r->size != REC_ID_RESERVE_SIZE)
		abort();
	return 0;
}

static void one_block(struct rec_parser *p, const uint8_t *data)
{
	static const uint8_t zero[8];
	uint8_t block[LOG_BLOCK], again[LOG_BLOCK];
	struct log_block b, put;
	struct err e;

	if (log_block_get(&b, data, LOG_BLOCK, &e) != 0) {
		memcpy(block, data, LOG_BLOCK);
		le64_put(block + 88, crc64(crc64(crc64(0, block, 88), zero,
		    8), block + LOG_PAYLOAD_AT, LOG_PAYLOAD));
		if (log_block_get(&b, block, LOG_BLOCK, &e) != 0)
			return;
		data = block;
	}
	put = b;
	memcpy(again, data, LOG_BLOCK);
	memset(again, 0, LOG_PAYLOAD_AT);
	log_block_put(again, &put);
	if (memcmp(again, data, LOG_BLOCK) != 0)
		abort();
	if (b.flags & LOG_FIRST)
		rec_parser_reset(p);
	if (rec_parser_feed(p, data + LOG_PAYLOAD_AT, b.used, on_record,
	    NULL, &e) != 0)
		rec_parser_reset(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct rec_parser p;
	struct err e;

	if (rec_parser_init(&p, &e) != 0)
		return 0;
	for (; size >= LOG_BLOCK; data += LOG_BLOCK, size -= LOG_BLOCK)
		one_block(&p, data);
	rec_parser_reset(&p);
	if (rec_parser_feed(&p, data, size, on_record, NULL, &e) != 0)
		rec_parser_reset(&p);
	rec_parser_release(&p);
	return 0;
}
