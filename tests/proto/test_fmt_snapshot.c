/*
 * Snapshot records and facts: pinned byte by byte (by another program), read
 * back, and refused when cut short, of another version or not canonical.
 */
#include "proto/fmt_snapshot.h"

#include "base/buf.h"
#include "base/str.h"

#include <check.h>
#include <string.h>

static const char golden_record[] =
    "0103000000000000000102030405060708090a0b0c0d0e0f111111111111"
    "111111111111111111111111111111111111111111111111111122222222"
    "22222222222222222222222222222222222222222222222222222222fbff"
    "ffffffffffff00f15365000000000700000000000000f0f1ffff00000000"
    "010000000000000002000000000000000300000000000000040000000000"
    "000001f1536500000000";
static const char golden_facts[] =
    "6253010105002f686f6d650104002f6574630205006461696c7903040077"
    "656231040400726f6f74050600626b20302e31";

static struct snapshot_record sample(void)
{
	struct snapshot_record r = {
		.flags = SNAPSHOT_CHANGED | SNAPSHOT_PARTIAL, .client_ns = -5,
		.commit_s = 1700000000, .order = 7, .zone_s = -3600,
		.files = 1, .bytes = 2, .new_bytes = 3, .stored_bytes = 4,
		.proven_s = 1700000001,
	};

	for (int i = 0; i < SNAPSHOT_ID_SIZE; i++)
		r.id[i] = (uint8_t)i;
	memset(&r.root, 0x11, ID_SIZE);
	memset(&r.facts, 0x22, ID_SIZE);
	return r;
}

START_TEST(writes_the_golden_record)
{
	uint8_t raw[SNAPSHOT_RECORD_SIZE], want[SNAPSHOT_RECORD_SIZE];
	struct snapshot_record r = sample();

	ck_assert_uint_eq(sizeof(golden_record) / 2, sizeof(want));
	ck_assert_int_eq(hex_get(want, sizeof(want), golden_record), 0);
	memset(raw, 0xff, sizeof(raw));
	snapshot_record_put(raw, &r);
	ck_assert_mem_eq(raw, want, sizeof(want));
}
END_TEST

START_TEST(reads_back_what_it_wrote)
{
	uint8_t raw[SNAPSHOT_RECORD_SIZE];
	struct snapshot_record r = sample(), got;
	struct err e;

	snapshot_record_put(raw, &r);
	ck_assert_int_eq(snapshot_record_get(&got, raw, sizeof(raw), &e), 0);
	ck_assert_mem_eq(got.id, r.id, SNAPSHOT_ID_SIZE);
	ck_assert(id_equal(&got.root, &r.root));
	ck_assert(id_equal(&got.facts, &r.facts));
	ck_assert(got.flags == r.flags && got.keyspace == 0);
	ck_assert(got.client_ns == -5 && got.commit_s == 1700000000);
	ck_assert(got.order == 7 && got.zone_s == -3600);
	ck_assert(got.files == 1 && got.bytes == 2 && got.new_bytes == 3);
	ck_assert(got.stored_bytes == 4 && got.proven_s == 1700000001);
}
END_TEST

START_TEST(a_record_may_be_longer_but_not_shorter)
{
	uint8_t raw[SNAPSHOT_RECORD_MAX + 1] = { 0 };
	struct snapshot_record r = sample(), got = { .order = 99 };
	struct err e;

	snapshot_record_put(raw, &r);
	memset(raw + SNAPSHOT_RECORD_SIZE, 7, 50);
	for (size_t size = 0; size <= sizeof(raw); size++) {
		bool good = size >= SNAPSHOT_RECORD_SIZE &&
		    size <= SNAPSHOT_RECORD_MAX;

		ck_assert(good == (snapshot_record_get(&got, raw, size,
		    &e) == 0));
		if (size < SNAPSHOT_RECORD_SIZE)
			ck_assert_uint_eq(got.order, 99);
	}
}
END_TEST

START_TEST(foreign_records_are_refused)
{
	uint8_t raw[SNAPSHOT_RECORD_SIZE];
	struct snapshot_record r = sample(), got;
	struct err e;

	snapshot_record_put(raw, &r);
	raw[0] = 2;
	ck_assert_int_eq(snapshot_record_get(&got, raw, sizeof(raw), &e), -1);
	ck_assert_int_eq(e.code, ERR_VERSION);
	raw[0] = 1;
	raw[1] = 0x10;
	ck_assert_int_eq(snapshot_record_get(&got, raw, sizeof(raw), &e), -1);
	ck_assert_int_eq(e.code, ERR_VERSION);
	raw[1] = 0;
	raw[3] = 1;
	ck_assert_int_eq(snapshot_record_get(&got, raw, sizeof(raw), &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	raw[3] = 0;
	raw[119] = 1;
	ck_assert_int_eq(snapshot_record_get(&got, raw, sizeof(raw), &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
}
END_TEST

static void add_text(struct buf *b, unsigned tag, const char *text)
{
	facts_add(b, tag, text, strlen(text));
}

START_TEST(writes_and_walks_the_golden_facts)
{
	static const struct {
		unsigned tag;
		const char *text;
	} all[] = {
		{ FACT_PATH, "/home" }, { FACT_PATH, "/etc" },
		{ FACT_TAG, "daily" }, { FACT_HOST, "web1" },
		{ FACT_USER, "root" }, { FACT_PROGRAM, "bk 0.1" },
	};
	uint8_t want[sizeof(golden_facts) / 2];
	struct slice value;
	size_t pos = 0;
	unsigned tag;
	struct buf b;
	struct err e;

	buf_init(&b, FACTS_MAX);
	facts_begin(&b);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		add_text(&b, all[i].tag, all[i].text);
	ck_assert_int_eq(buf_ok(&b, "facts", &e), 0);
	ck_assert_int_eq(hex_get(want, sizeof(want), golden_facts), 0);
	ck_assert_uint_eq(b.size, sizeof(want));
	ck_assert_mem_eq(b.data, want, sizeof(want));
	ck_assert_int_eq(facts_check(b.data, b.size, &e), 0);
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		ck_assert(facts_next(b.data, b.size, &pos, &tag, &value));
		ck_assert_uint_eq(tag, all[i].tag);
		ck_assert_uint_eq(value.size, strlen(all[i].text));
		ck_assert_mem_eq(value.data, all[i].text, value.size);
	}
	ck_assert(!facts_next(b.data, b.size, &pos, &tag, &value));
	buf_release(&b);
}
END_TEST

static const struct {
	const char *what, *hex;
	enum err_code code;
} facts[] = {
	{ "nothing but the head", "625301", ERR_NONE },
	{ "no head", "6253", ERR_CORRUPT },
	{ "another magic", "625401", ERR_CORRUPT },
	{ "another version", "625302", ERR_VERSION },
	{ "the root as path", "62530101 01002f", ERR_NONE },
	{ "a relative path", "625301010100 61", ERR_CORRUPT },
	{ "an empty path", "625301010000", ERR_CORRUPT },
	{ "a path with NUL", "625301010200 2f00", ERR_CORRUPT },
	{ "a path cut short", "625301010200 2f", ERR_CORRUPT },
	{ "a field cut short", "6253010102", ERR_CORRUPT },
	{ "two hosts", "625301030100 61030100 62", ERR_CORRUPT },
	{ "two tags", "625301020100 61020100 62", ERR_NONE },
	{ "a field that may be skipped", "6253017f0100 61", ERR_NONE },
	{ "a field that must be known", "625301800100 61", ERR_VERSION },
};

START_TEST(only_sound_facts_pass)		/* _i: the row */
{
	char hex[100];
	uint8_t raw[50];
	size_t n = 0;
	struct err e = { .code = ERR_NONE };
	int r;

	for (const char *c = facts[_i].hex; *c; c++)
		if (*c != ' ')
			hex[n++] = *c;
	hex[n] = '\0';
	ck_assert_int_eq(hex_get(raw, n / 2, hex), 0);
	r = facts_check(raw, n / 2, &e);
	ck_assert_msg((r == 0) == (facts[_i].code == ERR_NONE) &&
	    e.code == facts[_i].code, "%s", facts[_i].what);
}
END_TEST

START_TEST(values_of_no_or_too_many_bytes_make_the_buffer_bad)
{
	static uint8_t big[70000];
	struct buf b;
	struct err e;

	buf_init(&b, 200000);
	facts_begin(&b);
	facts_add(&b, FACT_TAG, big, 0);
	ck_assert_int_eq(buf_ok(&b, "facts", &e), -1);
	facts_begin(&b);
	facts_add(&b, FACT_TAG, big, 65536);
	ck_assert_int_eq(buf_ok(&b, "facts", &e), -1);
	facts_begin(&b);
	memset(big, 'x', sizeof(big));
	facts_add(&b, FACT_TAG, big, 65535);
	ck_assert_int_eq(buf_ok(&b, "facts", &e), 0);
	/* Above FACTS_MAX with its head. */
	ck_assert_int_eq(facts_check(b.data, b.size, &e), -1);
	buf_release(&b);
}
END_TEST

Suite *proto_fmt_snapshot_suite(void);
Suite *proto_fmt_snapshot_suite(void)
{
	Suite *s = suite_create("fmt_snapshot");
	TCase *t = tcase_create("snapshots");

	tcase_add_test(t, writes_the_golden_record);
	tcase_add_test(t, reads_back_what_it_wrote);
	tcase_add_test(t, a_record_may_be_longer_but_not_shorter);
	tcase_add_test(t, foreign_records_are_refused);
	tcase_add_test(t, writes_and_walks_the_golden_facts);
	tcase_add_loop_test(t, only_sound_facts_pass, 0,
	    (int)(sizeof(facts) / sizeof(facts[0])));
	tcase_add_test(t,
	    values_of_no_or_too_many_bytes_make_the_buffer_bad);
	suite_add_tcase(s, t);
	return s;
}
