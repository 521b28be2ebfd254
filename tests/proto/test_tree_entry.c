/*
 * One directory entry: a row per rule of canonical form, with what each side
 * of the rule looks like in bytes; and what an encoder refuses to write.
 */
#include "proto/tree_entry.h"

#include "base/buf.h"
#include "base/str.h"

#include <check.h>
#include <string.h>
#include <sys/stat.h>

/* An entry of these fields, in hex. */
static int parse_entry(const char *fields, struct err *e)
{
	uint8_t raw[1000];
	size_t size = strlen(fields) / 2;
	struct tree_entry n;

	ck_assert_int_eq(hex_get(raw, size, fields), 0);
	return tree_entry_get(&n, raw, size, e);
}

#define NAME "80010061"			/* "a" */
#define MODE_REG "810400a4810000"
#define MODE_DIR "810400ed410000"
#define MODE_LNK "810400ffa10000"
#define ID32 "01010101010101010101010101010101" \
    "01010101010101010101010101010101"
#define ZERO32 "00000000000000000000000000000000" \
    "00000000000000000000000000000000"
#define SIZE1 "8508000100000000000000"
#define TREE "862000" ID32

static const struct {
	const char *what, *fields;
	enum err_code code;	/* ERR_NONE = accepted */
} entries[] = {
	{ "an empty regular file", NAME MODE_REG, ERR_NONE },
	{ "no field", "", ERR_CORRUPT },
	{ "no name", MODE_REG, ERR_CORRUPT },
	{ "no mode", NAME, ERR_CORRUPT },
	{ "an empty name", "800000" MODE_REG, ERR_CORRUPT },
	{ "the name .", "8001002e" MODE_REG, ERR_CORRUPT },
	{ "the name ..", "8002002e2e" MODE_REG, ERR_CORRUPT },
	{ "the name ...", "8003002e2e2e" MODE_REG, ERR_NONE },
	{ "a slash in a name", "80030061002f" MODE_REG, ERR_CORRUPT },
	{ "a slash in a name", "80030061622f" MODE_REG, ERR_CORRUPT },
	{ "a NUL in a name", "800300610062" MODE_REG, ERR_CORRUPT },
	{ "fields out of order", MODE_REG NAME, ERR_CORRUPT },
	{ "a field twice", NAME NAME MODE_REG, ERR_CORRUPT },
	{ "tag 0", "00010001" NAME MODE_REG, ERR_CORRUPT },
	{ "an optional field of tomorrow", "64010001" NAME MODE_REG,
	    ERR_NONE },
	{ "an empty field of tomorrow", "640000" NAME MODE_REG, ERR_CORRUPT },
	{ "a must-know field of tomorrow", NAME MODE_REG "c8010001",
	    ERR_VERSION },
	{ "a field cut short", NAME MODE_REG "8208000100", ERR_CORRUPT },
	{ "a short mode", NAME "810200a481", ERR_CORRUPT },
	{ "mode bits above", NAME "810400a4810100", ERR_CORRUPT },
	{ "a mode without type", NAME "810400a4010000", ERR_CORRUPT },
	{ "root as owner, said", NAME MODE_REG "8208000000000000000000",
	    ERR_CORRUPT },
	{ "a group of gid 0", NAME MODE_REG "8208000100000000000000",
	    ERR_NONE },
	{ "mtime 0, said", NAME MODE_REG "830c00000000000000000000000000",
	    ERR_CORRUPT },
	{ "a whole second of ns", NAME MODE_REG
	    "830c00010000000000000000ca9a3b", ERR_CORRUPT },
	{ "size without content", NAME MODE_REG SIZE1, ERR_CORRUPT },
	{ "content without size", NAME MODE_REG "84210001" ID32,
	    ERR_CORRUPT },
	{ "content and size", NAME MODE_REG "84210001" ID32 SIZE1, ERR_NONE },
	{ "content of kind 0", NAME MODE_REG "84210000" ID32 SIZE1,
	    ERR_CORRUPT },
	{ "content of kind 3", NAME MODE_REG "84210003" ID32 SIZE1,
	    ERR_CORRUPT },
	{ "a size of 2^63", NAME MODE_REG "84210001" ID32
	    "8508000000000000000080", ERR_CORRUPT },
	{ "size 0, said", NAME MODE_REG "84210001" ID32
	    "8508000000000000000000", ERR_CORRUPT },
	{ "a directory", NAME MODE_DIR TREE, ERR_NONE },
	{ "a directory without tree", NAME MODE_DIR, ERR_CORRUPT },
	{ "a directory with tree 0", NAME MODE_DIR "862000" ZERO32,
	    ERR_CORRUPT },
	{ "a tree in a file", NAME MODE_REG TREE, ERR_CORRUPT },
	{ "content in a directory", NAME MODE_DIR "84210001" ID32 SIZE1 TREE,
	    ERR_CORRUPT },
	{ "a link", NAME MODE_LNK "87010062", ERR_NONE },
	{ "a link to nowhere", NAME MODE_LNK, ERR_CORRUPT },
	{ "a link with NUL", NAME MODE_LNK "8702006200", ERR_CORRUPT },
	{ "a target in a file", NAME MODE_REG "87010062", ERR_CORRUPT },
	{ "a number in a file", NAME MODE_REG "8808000100000001000000",
	    ERR_CORRUPT },
	{ "link group 0, said", NAME MODE_REG "8908000000000000000000",
	    ERR_CORRUPT },
	{ "totals in a file", "07100001000000000000000100000000000000"
	    NAME MODE_REG, ERR_CORRUPT },
	{ "state 0, said", "06010000" NAME MODE_REG, ERR_CORRUPT },
	{ "xattrs", NAME MODE_REG "8a06000161" "00000000", ERR_NONE },
	{ "xattrs of half a value", NAME MODE_REG "8a06000161" "01000000",
	    ERR_CORRUPT },
	{ "xattrs out of order", NAME MODE_REG
	    "8a0c000162" "00000000" "0161" "00000000", ERR_CORRUPT },
	{ "an xattr twice", NAME MODE_REG
	    "8a0c000161" "00000000" "0161" "00000000", ERR_CORRUPT },
	{ "an xattr without name", NAME MODE_REG
	    "8a0b00" "0161" "00000000" "00" "00000000", ERR_CORRUPT },
	{ "xattrs twice", NAME MODE_REG "8a06000161" "00000000"
	    "8b2000" ID32, ERR_CORRUPT },
};

START_TEST(only_canonical_entries_pass)		/* _i: the row */
{
	struct err e = { .code = ERR_NONE, .text = "" };
	int r = parse_entry(entries[_i].fields, &e);

	ck_assert_msg((r == 0) == (entries[_i].code == ERR_NONE) &&
	    e.code == entries[_i].code, "%s: %d, %s", entries[_i].what, r,
	    e.text);
}
END_TEST

START_TEST(a_refused_entry_leaves_the_output_alone)
{
	struct tree_entry n = { .mode = 42 };
	struct err e;

	ck_assert_int_eq(tree_entry_get(&n, "", 0, &e), -1);
	ck_assert_uint_eq(n.mode, 42);
}
END_TEST

START_TEST(what_cannot_be_read_is_not_written)
{
	static const uint8_t name[] = "name";
	const struct tree_entry good = {
		.name = { name, 4 }, .mode = S_IFREG | 0600,
	};
	struct tree_entry n;
	struct buf out;
	struct err e;

	buf_init(&out, 20000);
	ck_assert_int_eq(tree_entry_put(&out, &good, &e), 0);
	ck_assert_uint_eq(out.size, 2 + 3 + 4 + 3 + 4);
	n = good;
	n.mtime_ns = 1000000000;
	ck_assert_int_eq(tree_entry_put(&out, &n, &e), -1);
	ck_assert_int_eq(e.code, ERR_USAGE);
	n = good;
	n.size = (uint64_t)1 << 63;
	n.content = CONTENT_CHUNK;
	ck_assert_int_eq(tree_entry_put(&out, &n, &e), -1);
	ck_assert_int_eq(e.code, ERR_USAGE);
	n = good;
	n.mode = 0600;
	ck_assert_int_eq(tree_entry_put(&out, &n, &e), -1);
	ck_assert_int_eq(e.code, ERR_USAGE);
	ck_assert_uint_eq(out.size, 16);	/* as before each */
	buf_release(&out);
}
END_TEST

Suite *proto_tree_entry_suite(void);
Suite *proto_tree_entry_suite(void)
{
	Suite *s = suite_create("tree_entry");
	TCase *t = tcase_create("entries");

	tcase_add_loop_test(t, only_canonical_entries_pass, 0,
	    (int)(sizeof(entries) / sizeof(entries[0])));
	tcase_add_test(t, a_refused_entry_leaves_the_output_alone);
	tcase_add_test(t, what_cannot_be_read_is_not_written);
	suite_add_tcase(s, t);
	return s;
}
