/*
 * Content lists: pages are read back as written, pinned byte by byte; anything
 * not canonical is refused; builders cut where the format says and merge
 * holes.  The golden bytes and root ids were worked out by another program,
 * written from the document.
 */
#include "proto/fmt_list.h"

#include "base/str.h"
#include "proto/fmt_frame.h"
#include "tests/proto/pagebox.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char golden_leaf[] =
    "624c01000300000001000001000000000007070707070707070707070707"
    "070707070707070707070707070707070707070200000000020000000101"
    "000000000000000808080808080808080808080808080808080808080808"
    "080808080808080808";
static const char golden_index[] =
    "624c01010200000000000000040000000909090909090909090909090909"
    "09090909090909090909090909090909090907000000000000000a0a0a0a"
    "0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a";

static size_t unhex(uint8_t *out, const char *hex)
{
	size_t size = strlen(hex) / 2;

	ck_assert_int_eq(hex_get(out, size, hex), 0);
	return size;
}

static struct list_entry chunk(int byte, uint64_t size)
{
	struct list_entry n = { .kind = LIST_CHUNK, .size = size };

	memset(n.id.bytes, byte, ID_SIZE);
	return n;
}

static struct list_entry hole(uint64_t size)
{
	return (struct list_entry){ .kind = LIST_HOLE, .size = size };
}

START_TEST(writes_the_golden_leaf)
{
	/* The hole comes in three parts. */
	const struct list_entry n[] = {
		chunk(7, 65536), hole((uint64_t)1 << 32),
		hole(((uint64_t)1 << 32) - 1), hole(1), chunk(8, 1),
	};
	uint8_t want[200];
	size_t size = unhex(want, golden_leaf);
	struct list_builder *b;
	struct pagebox box;
	struct id root;
	struct err e;

	pagebox_init(&box);
	ck_assert_int_eq(list_builder_new(&b, pagebox_emit, &box, &e), 0);
	for (size_t i = 0; i < sizeof(n) / sizeof(n[0]); i++)
		ck_assert_int_eq(list_builder_add(b, &n[i], &e), 0);
	ck_assert_int_eq(list_builder_finish(b, &root, &e), 0);
	ck_assert_uint_eq(box.count, 1);
	ck_assert_uint_eq(box.pages[0].size, size);
	ck_assert_mem_eq(box.pages[0].data, want, size);
	ck_assert(id_equal(&root, &box.pages[0].id));
	list_builder_free(b);
	pagebox_free(&box);
}
END_TEST

START_TEST(reads_the_golden_pages)
{
	uint8_t raw[200];
	size_t size = unhex(raw, golden_leaf), pos = 0;
	const struct list_entry first = chunk(7, 65536), last = chunk(8, 1);
	struct list_entry n;
	struct list_child c;
	struct list_page p;
	struct id refs[4];
	struct err e;

	ck_assert_int_eq(list_page_parse(&p, raw, size, &e), 0);
	ck_assert(list_page_entry(&p, &pos, &n));
	ck_assert(n.kind == LIST_CHUNK && n.size == 65536 &&
	    id_equal(&n.id, &first.id));
	ck_assert(list_page_entry(&p, &pos, &n));
	ck_assert(n.kind == LIST_HOLE && n.size == (uint64_t)1 << 33);
	ck_assert(list_page_entry(&p, &pos, &n));
	ck_assert(!list_page_entry(&p, &pos, &n));
	ck_assert_uint_eq(list_page_refs(&p, refs, 4), 2);
	ck_assert(id_equal(&refs[0], &first.id));
	ck_assert(id_equal(&refs[1], &last.id));
	ck_assert_uint_eq(list_page_span(&p), 65537 + ((uint64_t)1 << 33));

	size = unhex(raw, golden_index);
	pos = 0;
	ck_assert_int_eq(list_page_parse(&p, raw, size, &e), 0);
	ck_assert_uint_eq(p.level, 1);
	ck_assert(!list_page_entry(&p, &pos, &n));
	ck_assert(list_page_child(&p, &pos, &c));
	ck_assert_uint_eq(c.span, (uint64_t)1 << 34);
	ck_assert(list_page_child(&p, &pos, &c));
	ck_assert(!list_page_child(&p, &pos, &c));
	ck_assert_uint_eq(list_page_refs(&p, refs, 1), 2);
}
END_TEST

START_TEST(refuses_every_shorter_page)
{
	uint8_t raw[200];
	struct list_page p = { .level = 99 };
	struct err e;

	for (size_t size = unhex(raw, golden_leaf); size-- > 0;) {
		ck_assert_int_eq(list_page_parse(&p, raw, size, &e), -1);
		ck_assert_int_eq(e.code, ERR_CORRUPT);
	}
	for (size_t size = unhex(raw, golden_index); size-- > 0;)
		ck_assert_int_eq(list_page_parse(&p, raw, size, &e), -1);
	ck_assert_uint_eq(p.level, 99);
}
END_TEST

#define ID32 "01010101010101010101010101010101" \
    "01010101010101010101010101010101"
#define CHUNK1 "010100000000000000" ID32
#define HOLE1 "020100000000000000"

static const struct {
	const char *what, *hex;
	bool legal;
} pages[] = {
	{ "a chunk", "624c010001000000" CHUNK1, true },
	{ "a hole", "624c010001000000" HOLE1, true },
	{ "nothing", "624c010000000000", false },
	{ "two holes", "624c010002000000" HOLE1 HOLE1, false },
	{ "hole, chunk, hole", "624c010003000000" HOLE1 CHUNK1 HOLE1, true },
	{ "one more than counted", "624c010001000000" CHUNK1 HOLE1, false },
	{ "one less than counted", "624c010002000000" CHUNK1, false },
	{ "a chunk of nothing", "624c010001000000" "010000000000000000" ID32,
	    false },
	{ "a hole of nothing", "624c010001000000" "020000000000000000",
	    false },
	{ "kind 0", "624c010001000000" "000100000000000000", false },
	{ "kind 3", "624c010001000000" "030100000000000000" ID32, false },
	{ "the largest chunk", "624c010001000000" "010000100000000000" ID32,
	    true },
	{ "a larger chunk", "624c010001000000" "010100100000000000" ID32,
	    false },
	{ "the largest hole", "624c010001000000" "02ffffffffffffff7f", true },
	{ "a larger hole", "624c010001000000" "020000000000000080", false },
	{ "more than a file", "624c010002000000" "02ffffffffffffff7f" CHUNK1,
	    false },
	{ "an index", "624c010102000000" "0100000000000000" ID32
	    "0100000000000000" ID32, true },
	{ "one child", "624c010101000000" "0100000000000000" ID32, false },
	{ "a child of nothing", "624c010102000000" "0000000000000000" ID32
	    "0100000000000000" ID32, false },
	{ "children of more than a file", "624c010102000000"
	    "ffffffffffffff7f" ID32 "0100000000000000" ID32, false },
};

START_TEST(only_canonical_pages_pass)		/* _i: the row */
{
	uint8_t raw[200];
	struct list_page p;
	struct err e = { .code = ERR_NONE };
	int r = list_page_parse(&p, raw, unhex(raw, pages[_i].hex), &e);

	ck_assert_msg((r == 0) == pages[_i].legal, "%s", pages[_i].what);
	ck_assert_int_eq(e.code, pages[_i].legal ? ERR_NONE : ERR_CORRUPT);
}
END_TEST

START_TEST(a_page_above_the_limit_is_refused)
{
	size_t size = 8 + 1400 * 41;
	uint8_t *raw = calloc(1, size);
	struct list_page p;
	struct err e;

	ck_assert_ptr_nonnull(raw);
	memcpy(raw, "bL\1\0\x78\5\0\0", 8);
	for (size_t i = 0; i < 1400; i++)
		raw[8 + i * 41] = LIST_CHUNK, raw[9 + i * 41] = 1;
	ck_assert_int_eq(list_page_parse(&p, raw, size, &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	free(raw);
}
END_TEST

/* ---- building ----------------------------------------------------------- */

/* Not ck_assert() for every entry: each of those is a write to a file. */
static void must(int r, const struct err *e)
{
	if (r != 0)
		ck_abort_msg("%s", e->text);
}

static struct list_entry numbered(uint32_t k)
{
	struct list_entry n = { .kind = LIST_CHUNK, .size = 65536 + k % 7 };
	char name[32];
	struct err e;

	if (k % 1000 == 999)
		return hole(k + 1);
	snprintf(name, sizeof(name), "chunk %u", k);
	must(id_of(&n.id, OBJECT_CHUNK, name, strlen(name), &e), &e);
	return n;
}

/* Entries 0 .. count - 1, without those from `from` up to `to`. */
static struct id build_without(struct pagebox *box, uint32_t count,
    uint32_t from, uint32_t to)
{
	struct list_builder *b;
	struct id root;
	struct err e;

	must(list_builder_new(&b, pagebox_emit, box, &e), &e);
	for (uint32_t k = 0; k < count; k++) {
		struct list_entry n = numbered(k);

		if (k < from || k >= to)
			must(list_builder_add(b, &n, &e), &e);
	}
	must(list_builder_finish(b, &root, &e), &e);
	list_builder_free(b);
	return root;
}

static void count_up(void *arg, const struct list_entry *n)
{
	uint32_t *next = arg;
	struct list_entry want = numbered((*next)++);

	if (n->kind != want.kind || n->size != want.size ||
	    !id_equal(&n->id, &want.id))
		ck_abort_msg("entry %u is another", *next - 1);
}

static const struct {
	uint32_t count;
	const char *root;
	unsigned level, pages;
} lists[] = {
	{ 1, "86b78f8775a2c6aaff7c0aa22aecbedd56d37c9458e1ab3c11a8a0008cd1a04f",
	    0, 1 },
	{ 1000,
	    "308fac89831735a7ba38a71ea216560b02d00f7c5f80313e3dae21a0e7eb73b7",
	    1, 3 },
	{ 300000,
	    "4c6d79d7e62da3fae5682883428cc6a80e5d26d9036190f3c50ad0d11a9549fa",
	    2, 676 },
};

START_TEST(lists_are_cut_as_pinned)		/* _i: the row */
{
	struct pagebox box;
	struct id root;
	uint8_t want[ID_SIZE];
	uint32_t next = 0;

	pagebox_init(&box);
	root = build_without(&box, lists[_i].count, 0, 0);
	ck_assert_uint_eq(box.count, lists[_i].pages);
	ck_assert_uint_eq(pagebox_walk_list(&box, &root, count_up, &next),
	    lists[_i].level);
	ck_assert_uint_eq(next, lists[_i].count);
	unhex(want, lists[_i].root);
	ck_assert_mem_eq(root.bytes, want, ID_SIZE);
	pagebox_free(&box);
}
END_TEST

START_TEST(a_part_taken_out_changes_few_pages)
{
	const uint32_t count = 60000;
	struct pagebox before;

	pagebox_init(&before);
	build_without(&before, count, 0, 0);
	for (uint32_t gone = 1; gone < 1000; gone *= 31) {
		struct pagebox now;

		pagebox_init(&now);
		build_without(&now, count, 20000, 20000 + gone);
		ck_assert_uint_ge(pagebox_new_pages(&now, &before), 2);
		ck_assert_uint_le(pagebox_new_pages(&now, &before), 12);
		pagebox_free(&now);
	}
	pagebox_free(&before);
}
END_TEST

/* A file of one chunk repeated: every id cuts, or none does. */
START_TEST(a_repeated_chunk_makes_few_different_pages)
{
	struct list_entry n = chunk(_i, 65536);
	struct list_builder *b;
	struct pagebox box;
	struct id root;
	size_t leaf, different = 0;
	struct err e;

	pagebox_init(&box);
	must(list_builder_new(&b, pagebox_emit, &box, &e), &e);
	for (uint32_t k = 0; k < 100000; k++)
		must(list_builder_add(b, &n, &e), &e);
	must(list_builder_finish(b, &root, &e), &e);
	leaf = box.pages[0].size;
	if (_i == 0)		/* ids of zero bytes always cut */
		ck_assert_uint_lt(leaf, LIST_PAGE_MIN + 41);
	else
		ck_assert_uint_gt(leaf, LIST_PAGE_MAX - 41);
	for (size_t i = 0; i < box.count; i++) {
		ck_assert_uint_le(box.pages[i].size, LIST_PAGE_MAX);
		different += i == 0 || !id_equal(&box.pages[i].id,
		    &box.pages[i - 1].id);
	}
	ck_assert_uint_le(different, 8);
	list_builder_free(b);
	pagebox_free(&box);
}
END_TEST

START_TEST(impossible_entries_are_refused)
{
	struct list_entry n = chunk(1, FRAME_PLAIN_MAX + 1);
	struct list_builder *b;
	struct pagebox box;
	struct id root;
	struct err e;

	pagebox_init(&box);
	must(list_builder_new(&b, pagebox_emit, &box, &e), &e);
	ck_assert_int_eq(list_builder_finish(b, &root, &e), -1);
	ck_assert_int_eq(e.code, ERR_USAGE);
	ck_assert_int_eq(list_builder_add(b, &n, &e), -1);
	ck_assert_int_eq(e.code, ERR_USAGE);
	n = chunk(1, 0);
	ck_assert_int_eq(list_builder_add(b, &n, &e), -1);
	n = hole(INT64_MAX);
	ck_assert_int_eq(list_builder_add(b, &n, &e), 0);
	n = hole(1);
	ck_assert_int_eq(list_builder_add(b, &n, &e), -1);
	ck_assert_int_eq(list_builder_finish(b, &root, &e), 0);
	/* The next list begins anew. */
	ck_assert_int_eq(list_builder_add(b, &n, &e), 0);
	ck_assert_int_eq(list_builder_finish(b, &root, &e), 0);
	ck_assert_uint_eq(box.count, 2);
	list_builder_free(b);
	pagebox_free(&box);
}
END_TEST

START_TEST(a_child_must_be_what_its_parent_says)
{
	uint8_t raw[200], above[200];
	struct list_page leaf, parent;
	struct list_child c;
	struct err e;

	must(list_page_parse(&leaf, raw, unhex(raw, golden_leaf), &e), &e);
	must(list_page_parse(&parent, above, unhex(above, golden_index), &e),
	    &e);
	c.span = 65537 + ((uint64_t)1 << 33);
	ck_assert_int_eq(list_page_check_child(&leaf, &parent, &c, &e), 0);
	c.span++;
	ck_assert_int_eq(list_page_check_child(&leaf, &parent, &c, &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	c.span = list_page_span(&parent);
	ck_assert_int_eq(list_page_check_child(&parent, &parent, &c, &e), -1);
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

Suite *proto_fmt_list_suite(void);
Suite *proto_fmt_list_suite(void)
{
	Suite *s = suite_create("fmt_list");
	TCase *t = tcase_create("pages");
	TCase *many = tcase_create("lists");

	tcase_add_test(t, writes_the_golden_leaf);
	tcase_add_test(t, reads_the_golden_pages);
	tcase_add_test(t, refuses_every_shorter_page);
	tcase_add_loop_test(t, only_canonical_pages_pass, 0, COUNT(pages));
	tcase_add_test(t, a_page_above_the_limit_is_refused);
	tcase_add_test(t, impossible_entries_are_refused);
	tcase_add_test(t, a_child_must_be_what_its_parent_says);
	tcase_add_loop_test(many, lists_are_cut_as_pinned, 0, COUNT(lists));
	tcase_add_test(many, a_part_taken_out_changes_few_pages);
	tcase_add_loop_test(many, a_repeated_chunk_makes_few_different_pages,
	    0, 2);
	suite_add_tcase(s, t);
	suite_add_tcase(s, many);
	return s;
}
