/*
 * The bodies of log records: golden bytes of each, what is written is read
 * back, and each is refused at any other length and with any field out of
 * range.  (Whole blocks carry the checksum; here any byte may come.)
 */
#include "raid/fmt_record.h"
#include "raid/log.h"

#include <check.h>
#include <string.h>

START_TEST(facts_go_there_and_back)
{
	static const uint8_t golden[] = { 3, 0, 0, 0, 'k', 'e', 'y', 'v' };
	const struct rec_fact f = { .key = (const uint8_t *)"key",
		.key_size = 3, .value = (const uint8_t *)"v",
		.value_size = 1 };
	struct rec_fact got;
	uint8_t raw[16];
	struct err e;

	ck_assert_uint_eq(rec_fact_put(raw, &f), sizeof(golden));
	ck_assert_mem_eq(raw, golden, sizeof(golden));
	ck_assert_int_eq(rec_fact_get(&got, REC_FACT_SET, raw, 8, &e), 0);
	ck_assert_uint_eq(got.key_size, 3);
	ck_assert_uint_eq(got.value_size, 1);
	ck_assert_int_eq(rec_fact_get(&got, REC_FACT_DELETE, raw, 7, &e), 0);
	/* A deletion has no value; a key is neither cut nor empty. */
	ck_assert_int_eq(rec_fact_get(&got, REC_FACT_DELETE, raw, 8, &e), -1);
	for (size_t n = 0; n < 7; n++)
		ck_assert_int_eq(rec_fact_get(&got, REC_FACT_SET, raw, n, &e),
		    -1);
	raw[0] = 0;
	ck_assert_int_eq(rec_fact_get(&got, REC_FACT_SET, raw, 8, &e), -1);
	raw[0] = 3;
	raw[2] = 1;
	ck_assert_int_eq(rec_fact_get(&got, REC_FACT_SET, raw, 8, &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
}
END_TEST

START_TEST(keys_and_values_beyond_the_limit_are_refused)
{
	static uint8_t raw[REC_FACT_HEAD + RAID_KEY_MAX + RAID_VALUE_MAX + 1];
	struct rec_fact got;
	struct err e;

	raw[0] = RAID_KEY_MAX;
	ck_assert_int_eq(rec_fact_get(&got, REC_FACT_SET, raw,
	    sizeof(raw) - 1, &e), 0);
	ck_assert_int_eq(rec_fact_get(&got, REC_FACT_SET, raw, sizeof(raw),
	    &e), -1);
	raw[0] = RAID_KEY_MAX + 1;
	ck_assert_int_eq(rec_fact_get(&got, REC_FACT_SET, raw, 1000, &e), -1);
}
END_TEST

START_TEST(reserved_ids_go_there_and_back)
{
	uint8_t raw[REC_ID_RESERVE_SIZE];
	uint64_t limit = 0;
	struct err e;

	rec_id_reserve_put(raw, 0x1234);
	ck_assert_uint_eq(raw[0], 0x34);
	ck_assert_int_eq(rec_id_reserve_get(&limit, raw, 8, &e), 0);
	ck_assert_uint_eq(limit, 0x1234);
	ck_assert_int_eq(rec_id_reserve_get(&limit, raw, 7, &e), -1);
}
END_TEST

START_TEST(epochs_go_there_and_back)
{
	static const uint8_t golden[REC_EPOCH_SIZE] = {
		1, 0, 0, 0, 0, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7,
		7, 7, 7, 7, 7, 7, 7, 7, 2, 0, 0, 0, 0, 0, 0, 0,
		5, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
		4, 0, 0, 0, 0, 0, 0, 0,
	};
	struct rec_epoch p = { .event = 1, .first = 2, .set = 5,
		.why = EPOCH_CHANGE, .time_s = -1, .answered = 4 }, got;
	uint8_t raw[REC_EPOCH_SIZE];
	struct err e;

	memset(p.run, 7, sizeof(p.run));
	rec_epoch_put(raw, &p);
	ck_assert_mem_eq(raw, golden, sizeof(golden));
	ck_assert_int_eq(rec_epoch_get(&got, raw, sizeof(raw), &e), 0);
	ck_assert_int_eq(got.time_s, -1);
	ck_assert_uint_eq(got.set, 5);
	ck_assert_uint_eq(got.answered, 4);
	for (size_t n = 0; n < sizeof(raw); n++)
		ck_assert_int_eq(rec_epoch_get(&got, raw, n, &e), -1);
	raw[40] = 3;
	ck_assert_int_eq(rec_epoch_get(&got, raw, sizeof(raw), &e), -1);
	raw[40] = 1;
	raw[41] = 1;
	ck_assert_int_eq(rec_epoch_get(&got, raw, sizeof(raw), &e), -1);
}
END_TEST

START_TEST(members_go_there_and_back)
{
	struct rec_member m = { .size = 1u << 30, .extent_count = 500,
		.state = MEMBER_FAILED, .errors = { 1, 2, 3, 4, 5, 6, 7, 8 } };
	uint8_t raw[REC_MEMBER_SIZE], again[REC_MEMBER_SIZE];
	struct rec_member got;
	struct err e;

	memset(m.uuid, 1, 16);
	memset(m.replaced_by, 2, 16);
	rec_member_put(raw, &m);
	ck_assert_uint_eq(raw[16], 2);
	ck_assert_uint_eq(raw[35], 0x40);
	ck_assert_uint_eq(raw[44], 3);
	ck_assert_uint_eq(raw[104], 8);
	ck_assert_int_eq(rec_member_get(&got, raw, &e), 0);
	rec_member_put(again, &got);
	ck_assert_mem_eq(raw, again, sizeof(raw));
	raw[44] = 6;
	ck_assert_int_eq(rec_member_get(&got, raw, &e), -1);
	raw[44] = 3;
	raw[47] = 1;
	ck_assert_int_eq(rec_member_get(&got, raw, &e), -1);
}
END_TEST

START_TEST(links_go_there_and_back)
{
	static const uint8_t golden[] = { 2, 0, 0, 0,
		1, 0, 0, 0, 9, 0, 0, 0, 63, 0, 0, 0, 8, 1, 0, 0 };
	uint32_t x[RAID_MEMBERS_MAX], got[RAID_MEMBERS_MAX] = { 77 };
	uint8_t raw[REC_LINK_MAX];
	struct err e;

	memset(x, 0xff, sizeof(x));
	x[1] = 9;
	x[63] = 264;
	ck_assert_uint_eq(rec_link_put(raw, x), sizeof(golden));
	ck_assert_mem_eq(raw, golden, sizeof(golden));
	for (size_t n = 0; n < sizeof(golden); n++)
		ck_assert_int_eq(rec_link_get(got, raw, n, &e), -1);
	ck_assert_uint_eq(got[0], 77);
	ck_assert_int_eq(rec_link_get(got, raw, sizeof(golden), &e), 0);
	ck_assert_mem_eq(got, x, sizeof(x));
	raw[12] = 1;	/* the same member twice */
	ck_assert_int_eq(rec_link_get(got, raw, sizeof(golden), &e), -1);
	raw[12] = 64;	/* no such member */
	ck_assert_int_eq(rec_link_get(got, raw, sizeof(golden), &e), -1);
}
END_TEST

Suite *raid_fmt_record_suite(void);
Suite *raid_fmt_record_suite(void)
{
	Suite *s = suite_create("raid/fmt_record");
	TCase *t = tcase_create("format");

	tcase_add_test(t, facts_go_there_and_back);
	tcase_add_test(t, keys_and_values_beyond_the_limit_are_refused);
	tcase_add_test(t, reserved_ids_go_there_and_back);
	tcase_add_test(t, epochs_go_there_and_back);
	tcase_add_test(t, members_go_there_and_back);
	tcase_add_test(t, links_go_there_and_back);
	suite_add_tcase(s, t);
	return s;
}
