/*
 * The blocks of the log: golden bytes, every flipped bit refused, fields out of
 * range refused with a right checksum; and the records inside, cut anywhere.
 */
#include "base/hash.h"
#include "base/le.h"
#include "raid/fmt_log.h"
#include "raid/log_impl.h"

#include <check.h>
#include <string.h>

static const struct log_block sample = {
	.array = { 1, 2, 3 }, .generation = 4, .seq = 5,
	.before = 0x1122334455667788, .event = 6, .run = { 9, 8, 7 },
	.flush = 10, .flags = LOG_FIRST | LOG_END, .used = 3,
};

static void sample_put(uint8_t raw[LOG_BLOCK], struct log_block *b)
{
	*b = sample;
	memset(raw, 0, LOG_BLOCK);
	memcpy(raw + LOG_PAYLOAD_AT, "abc", 3);
	log_block_put(raw, b);
}

static const uint8_t golden[88] = {
	'B', 'K', 'L', 'O', 'G', '\n', 1, 0,
	1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
	0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
	6, 0, 0, 0, 0, 0, 0, 0,
	9, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
	10, 0, 0, 0, 0, 0, 0, 0, 3, 0, 3, 0, 0, 0, 0, 0,
};

START_TEST(writes_the_golden_bytes)
{
	uint8_t raw[LOG_BLOCK];
	struct log_block b;

	sample_put(raw, &b);
	ck_assert_mem_eq(raw, golden, sizeof(golden));
	ck_assert_uint_eq(le64_get(raw + 88), 0x5aa380ca03619a22);
	ck_assert_uint_eq(b.sum, le64_get(raw + 88));
	ck_assert_mem_eq(raw + 96, "abc", 4);
}
END_TEST

START_TEST(reads_back_what_it_wrote)
{
	uint8_t raw[LOG_BLOCK];
	struct log_block b, got;
	struct err e;

	sample_put(raw, &b);
	ck_assert_int_eq(log_block_get(&got, raw, sizeof(raw), &e), 0);
	ck_assert_uint_eq(got.before, b.before);
	ck_assert_uint_eq(got.sum, b.sum);
	ck_assert_uint_eq(got.used, 3);
	ck_assert_uint_eq(got.flags, LOG_FIRST | LOG_END);
	ck_assert_mem_eq(got.run, b.run, 16);
}
END_TEST

START_TEST(refuses_any_flipped_bit)
{
	struct log_block b, got = { .seq = 99 };
	uint8_t raw[LOG_BLOCK];
	struct err e;

	sample_put(raw, &b);
	for (size_t bit = 0; bit < 8 * sizeof(raw); bit++) {
		raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
		ck_assert_int_eq(log_block_get(&got, raw, sizeof(raw), &e),
		    -1);
		ck_assert(e.code == ERR_CORRUPT ||
		    (bit < 48 && e.code == ERR_NOT_FOUND));
		raw[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	ck_assert_uint_eq(got.seq, 99);
	ck_assert_int_eq(log_block_get(&got, raw, LOG_BLOCK - 1, &e), -1);
}
END_TEST

static const struct {
	size_t at;
	uint8_t value;
	enum err_code code;
} wrong[] = {
	{ 6, 2, ERR_VERSION },
	{ 24, 0, ERR_CORRUPT },		/* generation 0 */
	{ 80, 0x13, ERR_CORRUPT },	/* unknown flag */
	{ 83, 0xff, ERR_CORRUPT },	/* used beyond the payload */
	{ 84, 1, ERR_CORRUPT },		/* reserved */
	{ 4000, 1, ERR_CORRUPT },	/* beyond what is used */
};

START_TEST(refuses_fields_out_of_range)
{
	uint8_t raw[LOG_BLOCK], zero[8] = { 0 };
	struct log_block b, got;
	struct err e;
	uint64_t sum;

	sample_put(raw, &b);
	raw[wrong[_i].at] = wrong[_i].value;
	sum = crc64(crc64(crc64(0, raw, 88), zero, 8), raw + 96, LOG_PAYLOAD);
	le64_put(raw + 88, sum);
	ck_assert_int_eq(log_block_get(&got, raw, sizeof(raw), &e), -1);
	ck_assert_msg(e.code == wrong[_i].code, "%s", e.text);
}
END_TEST

/* ---- records ---------------------------------------------------------- */

struct seen {
	unsigned count;
	uint32_t bytes;
};

static int on_record(void *arg, const struct log_rec *r, struct err *e)
{
	struct seen *s = arg;

	(void)e;
	s->count++;
	for (uint32_t i = 0; i < r->size; i++)
		ck_assert_uint_eq(r->body[i], r->type & 0xff);
	s->bytes += r->size;
	return 0;
}

static size_t put_rec(uint8_t *to, uint16_t type, uint32_t size)
{
	le16_put(to, type);
	le16_put(to + 2, 0);
	le32_put(to + 4, size);
	memset(to + 8, type & 0xff, size);
	return 8 + size;
}

START_TEST(records_are_found_however_they_are_cut)	/* _i: piece size */
{
	static uint8_t raw[8192];
	struct rec_parser p;
	struct seen seen = { 0 };
	size_t size = 0;
	struct err e;

	size += put_rec(raw + size, 10, 100);
	size += put_rec(raw + size, 11, 0);
	size += put_rec(raw + size, 12, 5000);
	size += put_rec(raw + size, 13, 1);
	ck_assert_int_eq(rec_parser_init(&p, &e), 0);
	for (size_t at = 0; at < size; at += (size_t)_i) {
		size_t n = size - at < (size_t)_i ? size - at : (size_t)_i;

		ck_assert_int_eq(rec_parser_feed(&p, raw + at, n, on_record,
		    &seen, &e), 0);
	}
	ck_assert(rec_parser_at_end(&p));
	ck_assert_uint_eq(seen.count, 4);
	ck_assert_uint_eq(seen.bytes, 5101);
	rec_parser_release(&p);
}
END_TEST

START_TEST(refuses_records_that_are_too_long_or_of_no_type)
{
	uint8_t raw[8] = { 0 };
	struct rec_parser p;
	struct err e;

	ck_assert_int_eq(rec_parser_init(&p, &e), 0);
	ck_assert_int_eq(rec_parser_feed(&p, raw, 8, on_record, NULL, &e), -1);
	rec_parser_reset(&p);
	le16_put(raw, 10);
	le32_put(raw + 4, REC_BODY_MAX + 1);
	ck_assert_int_eq(rec_parser_feed(&p, raw, 8, on_record, NULL, &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	rec_parser_release(&p);
}
END_TEST

Suite *raid_fmt_log_suite(void);
Suite *raid_fmt_log_suite(void)
{
	Suite *s = suite_create("raid/fmt_log");
	TCase *t = tcase_create("format");

	tcase_add_test(t, writes_the_golden_bytes);
	tcase_add_test(t, reads_back_what_it_wrote);
	tcase_add_test(t, refuses_any_flipped_bit);
	tcase_add_loop_test(t, refuses_fields_out_of_range, 0, 6);
	tcase_add_loop_test(t, records_are_found_however_they_are_cut, 1, 12);
	tcase_add_test(t, refuses_records_that_are_too_long_or_of_no_type);
	suite_add_tcase(s, t);
	return s;
}
