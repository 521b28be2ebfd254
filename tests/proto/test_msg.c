/*
 * Messages: the table is the one of docs/protocol.md, row by row; bodies are
 * pinned byte by byte (by another program), read back, and refused when they
 * are cut short, too long or not as they must be.
 */
#include "proto/msg.h"

#include "base/buf.h"
#include "base/le.h"
#include "base/str.h"
#include "proto/fmt_frame.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char golden_hello[] =
    "0100000003000000000000000000000006626b20302e31";
static const char golden_welcome[] =
    "01000000000000000000000000000000aaaaaaaaaaaaaaaaaaaaaaaaaaaa"
    "aaaabbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb000102030405060708090a0b"
    "0c0d0e0f101112131415161718191a1b1c1d1e1f00f15365000000000500"
    "000003060000626b20302e31";
static const char golden_begin[] =
    "000102030405060708090a0b0c0d0e0f15cd853dfe9c971700000000";
static const char golden_commit[] =
    "111111111111111111111111111111111111111111111111111111111111"
    "111122222222222222222222222222222222222222222222222222222222"
    "22222222fbfffffffffffffff0f1ffff0300000001000000000000000200"
    "000000000000030000000000000004000000000000000000000000000000"
    "0000000000000000";
static const char golden_error[] =
    "0400010066756c6c";

static struct buf body;

static void setup(void)
{
	buf_init(&body, 1 << 20);
}

static void teardown(void)
{
	buf_release(&body);
}

/* ---- the table ---------------------------------------------------------- */

#define ROWS_MAX 64

struct row {
	char name[16], from[16], states[64];
	unsigned type, min, max;
};

/* The rows of the document's table of messages. */
static size_t doc_rows(struct row rows[ROWS_MAX])
{
	FILE *f = fopen("docs/protocol.md", "r");
	char line[1024];
	size_t n = 0;

	ck_assert_msg(f != NULL, "run in the top directory");
	while (fgets(line, sizeof(line), f)) {
		struct row *r = &rows[n];

		if (sscanf(line, "| %15[A-Z_] | 0x%x | %15[a-z] | "
		    "%63[A-Z, ] | %u | %u |", r->name, &r->type, r->from,
		    r->states, &r->min, &r->max) == 6 && n < ROWS_MAX - 1)
			n++;
	}
	fclose(f);
	return n;
}

static unsigned states_of(const char *text)
{
	return (strstr(text, "HELLO") ? (unsigned)PS_HELLO : 0) |
	    (strstr(text, "READY") ? (unsigned)PS_READY : 0) |
	    (strstr(text, "PUSH") ? (unsigned)PS_PUSH : 0);
}

START_TEST(the_document_has_the_same_table)
{
	static struct row rows[ROWS_MAX];
	size_t n = doc_rows(rows), known = 0;

	for (unsigned type = 0; type < 256; type++)
		known += msg_rule_find((uint8_t)type) != NULL;
	ck_assert_uint_eq(n, known);
	for (size_t i = 0; i < n; i++) {
		const struct msg_rule *r =
		    msg_rule_find((uint8_t)rows[i].type);

		ck_assert_msg(r != NULL, "%s", rows[i].name);
		ck_assert_str_eq(r->name, rows[i].name);
		ck_assert_str_eq(r->from_server ? "server" : "client",
		    rows[i].from);
		ck_assert_uint_eq(r->states, states_of(rows[i].states));
		ck_assert_uint_eq(r->size_min, rows[i].min);
		ck_assert_uint_eq(r->size_max, rows[i].max);
	}
}
END_TEST

START_TEST(every_frame_fits_into_its_messages)
{
	ck_assert_uint_ge(msg_rule_find(MSG_FRAME)->size_max,
	    FRAME_STORED_MAX);
	ck_assert_uint_ge(msg_rule_find(MSG_OBJECTS)->size_max,
	    FRAME_STORED_MAX);
	ck_assert_uint_le(msg_rule_find(MSG_FRAME)->size_min,
	    FRAME_HEADER_SIZE + FRAME_OBJECT_SIZE + 1 + FRAME_HASH_SIZE);
}
END_TEST

START_TEST(the_table_decides)
{
	struct err e = { .text = "" };

	ck_assert_int_eq(msg_allowed(MSG_SYNC, false, PS_PUSH, 0, &e), 0);
	ck_assert_int_eq(msg_allowed(MSG_SYNC, false, PS_READY, 0, &e), -1);
	ck_assert_int_eq(e.code, ERR_PROTOCOL);
	ck_assert_int_eq(msg_allowed(MSG_SYNC, true, PS_PUSH, 0, &e), -1);
	ck_assert_int_eq(msg_allowed(MSG_SYNC, false, PS_PUSH, 1, &e), -1);
	ck_assert_int_eq(msg_allowed(MSG_SYNC, false, PS_CLOSED, 0, &e), -1);
	ck_assert_int_eq(msg_allowed(0, false, PS_PUSH, 0, &e), -1);
	ck_assert_int_eq(msg_allowed(0xff, true, PS_PUSH, 0, &e), -1);
	ck_assert_int_eq(e.code, ERR_PROTOCOL);
}
END_TEST

/* ---- bodies -------------------------------------------------------------- */

static void check_golden(const char *hex, uint8_t type)
{
	const struct msg_rule *r = msg_rule_find(type);
	uint8_t want[300];
	size_t size = strlen(hex) / 2;
	struct err e;

	ck_assert_int_eq(hex_get(want, size, hex), 0);
	ck_assert_int_eq(buf_ok(&body, "body", &e), 0);
	ck_assert_uint_eq(body.size, size);
	ck_assert_mem_eq(body.data, want, size);
	ck_assert(size >= r->size_min && size <= r->size_max);
}

START_TEST(hello_is_read_back_as_written)
{
	struct msg_hello m = { 1, 3, 0, "bk 0.1" }, got;
	struct err e;

	msg_hello_put(&body, &m);
	check_golden(golden_hello, MSG_HELLO);
	ck_assert_int_eq(msg_hello_get(&got, body.data, body.size, &e), 0);
	ck_assert(got.version_min == 1 && got.version_max == 3);
	ck_assert_str_eq(got.program, "bk 0.1");
	for (size_t n = 0; n < body.size; n++)
		ck_assert_int_eq(msg_hello_get(&got, body.data, n, &e), -1);
	ck_assert_int_eq(e.code, ERR_PROTOCOL);
	buf_add(&body, "of a later version", 18);
	ck_assert_int_eq(msg_hello_get(&got, body.data, body.size, &e), 0);
	ck_assert_str_eq(got.program, "bk 0.1");
	body.data[0] = 4;	/* min above max */
	ck_assert_int_eq(msg_hello_get(&got, body.data, body.size, &e), -1);
}
END_TEST

START_TEST(welcome_is_read_back_as_written)
{
	struct msg_welcome m = {
		.version = 1, .server_s = 1700000000, .snapshots = 5,
		.role = 3, .program = "bk 0.1",
	}, got;
	struct err e;

	memset(m.store, 0xaa, sizeof(m.store));
	memset(m.domain, 0xbb, sizeof(m.domain));
	for (int i = 0; i < 32; i++)
		m.cut_seed[i] = (uint8_t)i;
	msg_welcome_put(&body, &m);
	check_golden(golden_welcome, MSG_WELCOME);
	ck_assert_int_eq(msg_welcome_get(&got, body.data, body.size, &e), 0);
	ck_assert(got.version == 1 && got.server_s == 1700000000 &&
	    got.snapshots == 5 && got.role == 3);
	ck_assert_mem_eq(got.store, m.store, 16);
	ck_assert_mem_eq(got.domain, m.domain, 16);
	ck_assert_mem_eq(got.cut_seed, m.cut_seed, 32);
	ck_assert_str_eq(got.program, "bk 0.1");
	for (size_t n = 0; n < body.size; n++)
		ck_assert_int_eq(msg_welcome_get(&got, body.data, n, &e), -1);
	body.data[94] = 1;	/* reserved */
	ck_assert_int_eq(msg_welcome_get(&got, body.data, body.size, &e), -1);
}
END_TEST

START_TEST(begin_is_read_back_as_written)
{
	struct msg_begin m = { .client_ns = 1700000000123456789 }, got;
	struct err e;

	for (int i = 0; i < SNAPSHOT_ID_SIZE; i++)
		m.snapshot[i] = (uint8_t)i;
	msg_begin_put(&body, &m);
	check_golden(golden_begin, MSG_BEGIN);
	ck_assert_int_eq(msg_begin_get(&got, body.data, body.size, &e), 0);
	ck_assert_mem_eq(got.snapshot, m.snapshot, SNAPSHOT_ID_SIZE);
	ck_assert_int_eq(got.client_ns, m.client_ns);
	for (size_t n = 0; n < body.size; n++)
		ck_assert_int_eq(msg_begin_get(&got, body.data, n, &e), -1);
	body.data[24] = 1;	/* a flag */
	ck_assert_int_eq(msg_begin_get(&got, body.data, body.size, &e), -1);
}
END_TEST

START_TEST(begun_is_read_back_as_written)
{
	struct msg_begun m = { .committed = false }, got;
	struct err e;

	msg_begun_put(&body, &m);
	ck_assert_uint_eq(body.size, 4);
	ck_assert_int_eq(msg_begun_get(&got, body.data, 4, &e), 0);
	ck_assert(!got.committed);
	buf_reset(&body);
	m.committed = true;
	m.record.order = 99;
	msg_begun_put(&body, &m);
	ck_assert_uint_eq(body.size, 164);
	ck_assert_int_eq(msg_begun_get(&got, body.data, 164, &e), 0);
	ck_assert(got.committed && got.record.order == 99);
	for (size_t n = 0; n < 164; n++)
		ck_assert_int_eq(msg_begun_get(&got, body.data, n, &e), -1);
	body.data[4] = 9;	/* version of the record */
	ck_assert_int_eq(msg_begun_get(&got, body.data, 164, &e), -1);
	ck_assert_int_eq(e.code, ERR_PROTOCOL);
	body.data[0] = 0;
	ck_assert_int_eq(msg_begun_get(&got, body.data, 164, &e), -1);
	body.data[0] = 2;
	ck_assert_int_eq(msg_begun_get(&got, body.data, 164, &e), -1);
}
END_TEST

START_TEST(commit_is_read_back_as_written)
{
	struct msg_commit m = {
		.client_ns = -5, .zone_s = -3600, .flags = 3, .files = 1,
		.bytes = 2, .new_bytes = 3, .frames = 4,
	}, got;
	struct err e;

	memset(&m.root, 0x11, ID_SIZE);
	memset(&m.facts, 0x22, ID_SIZE);
	msg_commit_put(&body, &m);
	check_golden(golden_commit, MSG_COMMIT);
	ck_assert_int_eq(msg_commit_get(&got, body.data, body.size, &e), 0);
	ck_assert(id_equal(&got.root, &m.root));
	ck_assert(id_equal(&got.facts, &m.facts));
	ck_assert(got.client_ns == -5 && got.zone_s == -3600 &&
	    got.flags == 3);
	ck_assert(got.files == 1 && got.bytes == 2 && got.new_bytes == 3 &&
	    got.frames == 4);
	body.data[127] = 1;	/* reserved */
	ck_assert_int_eq(msg_commit_get(&got, body.data, body.size, &e), -1);
	body.data[127] = 0;
	body.data[76] = SNAPSHOT_FUTURE;	/* not the client's to say */
	ck_assert_int_eq(msg_commit_get(&got, body.data, body.size, &e), -1);
	for (size_t n = 0; n < body.size; n++)
		ck_assert_int_eq(msg_commit_get(&got, body.data, n, &e), -1);
}
END_TEST

START_TEST(error_is_read_back_as_written)
{
	struct msg_error m = { ERR_NO_SPACE, true, "full" }, got;
	struct err e;

	msg_error_put(&body, &m);
	check_golden(golden_error, MSG_ERROR);
	ck_assert_int_eq(msg_error_get(&got, body.data, body.size, &e), 0);
	ck_assert(got.code == ERR_NO_SPACE && got.fatal);
	ck_assert_str_eq(got.text, "full");
	for (size_t n = 0; n < 4; n++)
		ck_assert_int_eq(msg_error_get(&got, body.data, n, &e), -1);
	body.data[2] = 2;
	ck_assert_int_eq(msg_error_get(&got, body.data, body.size, &e), -1);
	body.data[2] = 0;
	body.data[0] = 200;	/* a code of tomorrow */
	ck_assert_int_eq(msg_error_get(&got, body.data, body.size, &e), 0);
	ck_assert_int_eq(got.code, ERR_PROTOCOL);
	body.data[0] = 0;
	ck_assert_int_eq(msg_error_get(&got, body.data, body.size, &e), -1);
}
END_TEST

static void check_text(const void *text, size_t size, const char *want)
{
	struct msg_error got;
	struct err e;

	buf_reset(&body);
	buf_add(&body, "\4\0\0\0", 4);
	buf_add(&body, text, size);
	ck_assert_int_eq(msg_error_get(&got, body.data, body.size, &e), 0);
	ck_assert_str_eq(got.text, want);
}

START_TEST(texts_of_a_peer_are_made_printable)
{
	char big[1020], want[480];

	check_text("", 0, "");
	check_text("a\033[2Jb\nc\0d\177", 11, "a?[2Jb?c?d?");
	check_text("a\xc2\x9b" "2J\xc3\x9b", 7, "a??2J\xc3\x9b");
	check_text("gr\303\274n", 5, "gr\303\274n");
	check_text("gr\374n", 4, "gr?n");
	memset(big, 'x', sizeof(big));
	memset(want, 'x', sizeof(want));
	want[479] = '\0';
	check_text(big, sizeof(big), want);
	big[478] = '\303';	/* a letter across the cut goes whole */
	big[479] = '\274';
	want[478] = '\0';
	check_text(big, sizeof(big), want);
}
END_TEST

START_TEST(fetched_is_read_back_as_written)
{
	uint8_t raw[4 + 33 * 2] = { 2 };
	struct msg_fetched m;
	struct err e;

	ck_assert_int_eq(msg_fetched_get(&m, raw, sizeof(raw), &e), 0);
	ck_assert_uint_eq(m.count, 2);
	ck_assert_ptr_eq(m.items, raw + 4);
	for (size_t n = 0; n < sizeof(raw); n++)
		ck_assert_int_eq(msg_fetched_get(&m, raw, n, &e), -1);
	raw[0] = 1;
	ck_assert_int_eq(msg_fetched_get(&m, raw, sizeof(raw), &e), -1);
	ck_assert_int_eq(e.code, ERR_PROTOCOL);
	raw[0] = 0;
	ck_assert_int_eq(msg_fetched_get(&m, raw, 4, &e), 0);
	le32_put(raw, 0xffffffff);
	ck_assert_int_eq(msg_fetched_get(&m, raw, sizeof(raw), &e), -1);
}
END_TEST

Suite *proto_msg_suite(void);
Suite *proto_msg_suite(void)
{
	Suite *s = suite_create("msg");
	TCase *t = tcase_create("messages");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, the_document_has_the_same_table);
	tcase_add_test(t, every_frame_fits_into_its_messages);
	tcase_add_test(t, the_table_decides);
	tcase_add_test(t, hello_is_read_back_as_written);
	tcase_add_test(t, welcome_is_read_back_as_written);
	tcase_add_test(t, begin_is_read_back_as_written);
	tcase_add_test(t, begun_is_read_back_as_written);
	tcase_add_test(t, commit_is_read_back_as_written);
	tcase_add_test(t, error_is_read_back_as_written);
	tcase_add_test(t, texts_of_a_peer_are_made_printable);
	tcase_add_test(t, fetched_is_read_back_as_written);
	suite_add_tcase(s, t);
	return s;
}
