/*
 * Directories: pages are read back as written, pinned byte by byte; anything
 * not canonical is refused; builders cut where the format says.  The golden
 * bytes and root ids were worked out by another program, written from the
 * document.  Seeds: 20240503.
 */
#include "proto/fmt_tree.h"

#include "base/hash.h"
#include "base/le.h"
#include "base/str.h"
#include "tests/proto/pagebox.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static const char golden_leaf[] =
    "6254010005000000b000010400616e6e610205007573657273030c0000f1"
    "53650000000005000000040400100000000504002a000000060100018006"
    "00612066696c65810400a4810000820800e803000064000000830c00feff"
    "ffffffffffffffc99a3b8421000101010101010101010101010101010101"
    "010101010101010101010101010101018508003930000000000000890800"
    "4d000000000000008a190006757365722e610300000078797a0675736572"
    "2e6200000000770007100003000000000000000010000000000000800500"
    "6220646972810400ed410000830c0001f153650000000000000000862000"
    "020202020202020202020202020202020202020202020202020202020202"
    "02028b200003030303030303030303030303030303030303030303030303"
    "030303030303031c0080060063206c696e6b810400ffa100008709002e2e"
    "2f7461726765741a00800500642064657681040080210000880800080000"
    "00010000003f0080060065206c697374810400ed89000084210002040404"
    "040404040404040404040404040404040404040404040404040404040485"
    "08000000000000010000";
static const char golden_leaf_id[] =
    "243b3f844e5a3aa55887ea181018b3a25c4580c4a321611236d3302e58fc2ac3";
static const char golden_index[] =
    "625401010200000005050505050505050505050505050505050505050505"
    "050505050505050505052c01000000000000010061060606060606060606"
    "060606060606060606060606060606060606060606060601000000000000"
    "0005006220646972";

static struct slice text(const char *s)
{
	return (struct slice){ (const uint8_t *)s, strlen(s) };
}

static struct id id_fill(int byte)
{
	struct id id;

	memset(id.bytes, byte, ID_SIZE);
	return id;
}

static size_t unhex(uint8_t *out, const char *hex)
{
	size_t size = strlen(hex) / 2;

	ck_assert_int_eq(hex_get(out, size, hex), 0);
	return size;
}

#define GOLDEN_ENTRIES 5

static void golden_entries(struct tree_entry n[GOLDEN_ENTRIES])
{
	static const uint8_t xattrs[] =
	    "\6user.a\3\0\0\0xyz\6user.b\0\0\0";	/* and the last 0 */

	memset(n, 0, GOLDEN_ENTRIES * sizeof(*n));
	n[0] = (struct tree_entry){
		.name = text("a file"), .mode = S_IFREG | 0644, .uid = 1000,
		.gid = 100, .mtime_s = -2, .mtime_ns = 999999999,
		.content = CONTENT_CHUNK, .content_id = id_fill(1),
		.size = 12345, .link = 77, .xattrs = { xattrs, 25 },
		.user = text("anna"), .group = text("users"),
		.has_birth = true, .birth_s = 1700000000, .birth_ns = 5,
		.flags = 0x10, .project = 42, .state = TREE_STATE_CHANGED,
	};
	n[1] = (struct tree_entry){
		.name = text("b dir"), .mode = S_IFDIR | 0755,
		.mtime_s = 1700000001, .tree = id_fill(2),
		.has_xattr_ref = true, .xattr_ref = id_fill(3),
		.files_below = 3, .bytes_below = 4096,
	};
	n[2] = (struct tree_entry){
		.name = text("c link"), .mode = S_IFLNK | 0777,
		.symlink = text("../target"),
	};
	n[3] = (struct tree_entry){
		.name = text("d dev"), .mode = S_IFCHR | 0600,
		.dev_major = 8, .dev_minor = 1,
	};
	n[4] = (struct tree_entry){
		.name = text("e list"), .mode = S_IFREG | S_ISUID | 0755,
		.content = CONTENT_LIST, .content_id = id_fill(4),
		.size = (uint64_t)1 << 40,
	};
}

static bool slice_same(struct slice a, struct slice b)
{
	return tree_name_compare(&a, &b) == 0;
}

static void entry_same(const struct tree_entry *a, const struct tree_entry *b)
{
	struct tree_entry x = *a, y = *b;

	ck_assert(slice_same(a->name, b->name));
	ck_assert(slice_same(a->symlink, b->symlink));
	ck_assert(slice_same(a->xattrs, b->xattrs));
	ck_assert(slice_same(a->user, b->user));
	ck_assert(slice_same(a->group, b->group));
	x.name = y.name = x.symlink = y.symlink = x.xattrs = y.xattrs =
	    x.user = y.user = x.group = y.group = text("");
	ck_assert_uint_eq(x.mode, y.mode);
	ck_assert(x.uid == y.uid && x.gid == y.gid);
	ck_assert(x.mtime_s == y.mtime_s && x.mtime_ns == y.mtime_ns);
	ck_assert(x.content == y.content && x.size == y.size);
	ck_assert(id_equal(&x.content_id, &y.content_id));
	ck_assert(id_equal(&x.tree, &y.tree));
	ck_assert(x.dev_major == y.dev_major && x.dev_minor == y.dev_minor);
	ck_assert_uint_eq(x.link, y.link);
	ck_assert(x.has_xattr_ref == y.has_xattr_ref &&
	    id_equal(&x.xattr_ref, &y.xattr_ref));
	ck_assert(x.has_birth == y.has_birth && x.birth_s == y.birth_s &&
	    x.birth_ns == y.birth_ns);
	ck_assert(x.flags == y.flags && x.project == y.project &&
	    x.state == y.state);
	ck_assert(x.files_below == y.files_below &&
	    x.bytes_below == y.bytes_below);
}

/* ---- one page ----------------------------------------------------------- */

START_TEST(writes_the_golden_leaf)
{
	struct tree_entry n[GOLDEN_ENTRIES];
	uint8_t want[600], want_id[ID_SIZE];
	size_t size = unhex(want, golden_leaf);
	struct tree_builder *b;
	struct pagebox box;
	struct id root;
	struct err e;

	golden_entries(n);
	pagebox_init(&box);
	ck_assert_int_eq(tree_builder_new(&b, pagebox_emit, &box, &e), 0);
	for (int i = 0; i < GOLDEN_ENTRIES; i++)
		ck_assert_int_eq(tree_builder_add(b, &n[i], &e), 0);
	ck_assert_int_eq(tree_builder_finish(b, &root, &e), 0);
	ck_assert_uint_eq(box.count, 1);
	ck_assert_uint_eq(box.pages[0].size, size);
	ck_assert_mem_eq(box.pages[0].data, want, size);
	unhex(want_id, golden_leaf_id);
	ck_assert_mem_eq(root.bytes, want_id, ID_SIZE);
	tree_builder_free(b);
	pagebox_free(&box);
}
END_TEST

START_TEST(reads_the_golden_leaf)
{
	struct tree_entry n[GOLDEN_ENTRIES], got;
	uint8_t raw[600];
	size_t size = unhex(raw, golden_leaf), pos = 0;
	static const int refs_want[] = { 1, 2, 3, 4 };
	struct tree_page p;
	struct id refs[8];
	struct err e;

	golden_entries(n);
	ck_assert_int_eq(tree_page_parse(&p, raw, size, &e), 0);
	ck_assert_uint_eq(p.level, 0);
	ck_assert_uint_eq(tree_page_entries(&p), GOLDEN_ENTRIES);
	for (int i = 0; i < GOLDEN_ENTRIES; i++) {
		ck_assert(tree_page_entry(&p, &pos, &got));
		entry_same(&got, &n[i]);
	}
	ck_assert(!tree_page_entry(&p, &pos, &got));
	ck_assert_uint_eq(tree_page_refs(&p, refs, 8), 4);
	for (int i = 0; i < 4; i++) {
		struct id want = id_fill(refs_want[i]);

		ck_assert(id_equal(&refs[i], &want));
	}
	memset(refs, 0, sizeof(refs));
	ck_assert_uint_eq(tree_page_refs(&p, refs, 1), 4);
	ck_assert(id_is_zero(&refs[1]));
}
END_TEST

START_TEST(reads_the_golden_index)
{
	uint8_t raw[200];
	size_t size = unhex(raw, golden_index), pos = 0;
	struct tree_child c;
	struct tree_entry n;
	struct tree_page p;
	struct id want = id_fill(6);
	struct err e;

	ck_assert_int_eq(tree_page_parse(&p, raw, size, &e), 0);
	ck_assert_uint_eq(p.level, 1);
	ck_assert_uint_eq(tree_page_entries(&p), 301);
	ck_assert(!tree_page_entry(&p, &pos, &n));
	ck_assert(tree_page_child(&p, &pos, &c));
	ck_assert_uint_eq(c.entries, 300);
	ck_assert(slice_same(c.first, text("a")));
	ck_assert(tree_page_child(&p, &pos, &c));
	ck_assert(id_equal(&c.id, &want));
	ck_assert(!tree_page_child(&p, &pos, &c));
}
END_TEST

START_TEST(refuses_every_shorter_page)
{
	uint8_t raw[600];
	struct tree_page p = { .level = 99 };
	struct err e;

	for (size_t size = unhex(raw, golden_leaf); size-- > 0;) {
		ck_assert_int_eq(tree_page_parse(&p, raw, size, &e), -1);
		ck_assert_int_eq(e.code, ERR_CORRUPT);
	}
	for (size_t size = unhex(raw, golden_index); size-- > 0;)
		ck_assert_int_eq(tree_page_parse(&p, raw, size, &e), -1);
	ck_assert_uint_eq(p.level, 99);
}
END_TEST

/* Whatever a parser accepts, a builder writes the same way. */
START_TEST(a_flipped_bit_is_refused_or_is_another_page)
{
	uint8_t raw[600];
	size_t size = unhex(raw, golden_leaf);

	for (size_t bit = 0; bit < size * 8; bit++) {
		struct tree_builder *b;
		struct tree_page p;
		struct tree_entry n;
		struct pagebox box;
		struct id root;
		size_t pos = 0;
		struct err e = { .text = "" };

		raw[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (tree_page_parse(&p, raw, size, &e) == 0) {
			pagebox_init(&box);
			ck_assert_int_eq(tree_builder_new(&b, pagebox_emit,
			    &box, &e), 0);
			while (tree_page_entry(&p, &pos, &n))
				ck_assert_msg(tree_builder_add(b, &n,
				    &e) == 0, "bit %zu: %s", bit, e.text);
			ck_assert_int_eq(tree_builder_finish(b, &root, &e),
			    0);
			/* Or a tag became one that may be skipped. */
			if (box.pages[0].size != size)
				ck_assert(raw[bit / 8] > 7 &&
				    raw[bit / 8] < 128);
			else
				ck_assert_mem_eq(box.pages[0].data, raw,
				    size);
			tree_builder_free(b);
			pagebox_free(&box);
		}
		raw[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
}
END_TEST

START_TEST(names_must_ascend)
{
	struct tree_entry n = { .name = text("b"), .mode = S_IFREG };
	struct tree_builder *b;
	struct pagebox box;
	struct tree_page p;
	struct id root;
	struct err e;
	uint8_t *raw;

	pagebox_init(&box);
	ck_assert_int_eq(tree_builder_new(&b, pagebox_emit, &box, &e), 0);
	ck_assert_int_eq(tree_builder_add(b, &n, &e), 0);
	ck_assert_int_eq(tree_builder_add(b, &n, &e), -1);
	ck_assert_int_eq(e.code, ERR_USAGE);
	n.name = text("a");
	ck_assert_int_eq(tree_builder_add(b, &n, &e), -1);
	n.name = text("bb");
	ck_assert_int_eq(tree_builder_add(b, &n, &e), 0);
	ck_assert_int_eq(tree_builder_finish(b, &root, &e), 0);
	raw = box.pages[0].data;
	ck_assert_int_eq(tree_page_parse(&p, raw, box.pages[0].size, &e), 0);
	ck_assert_uint_eq(p.count, 2);
	raw[13] = 'c';		/* the "b" */
	ck_assert_int_eq(tree_page_parse(&p, raw, box.pages[0].size, &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	tree_builder_free(b);
	pagebox_free(&box);
}
END_TEST

START_TEST(an_impossible_entry_leaves_the_builder_as_it_was)
{
	static uint8_t big[70000];
	struct tree_entry good = { .name = text("a"), .mode = S_IFREG };
	struct tree_entry n = good;
	struct tree_builder *b;
	struct pagebox box;
	struct id one, other;
	struct err e;

	pagebox_init(&box);
	ck_assert_int_eq(tree_builder_new(&b, pagebox_emit, &box, &e), 0);
	ck_assert_int_eq(tree_builder_add(b, &good, &e), 0);
	ck_assert_int_eq(tree_builder_finish(b, &one, &e), 0);
	ck_assert_int_eq(tree_builder_add(b, &good, &e), 0);
	n.name = text("b/");
	ck_assert_int_eq(tree_builder_add(b, &n, &e), -1);
	ck_assert_int_eq(e.code, ERR_USAGE);
	n.name = text("b");
	n.size = 1;
	ck_assert_int_eq(tree_builder_add(b, &n, &e), -1);
	ck_assert_int_eq(e.code, ERR_USAGE);
	n.size = 0;
	memset(big, 'x', sizeof(big));
	n.symlink = (struct slice){ big, 9000 };
	ck_assert_int_eq(tree_builder_add(b, &n, &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT);
	n.symlink.size = 0;
	n.name = (struct slice){ big, sizeof(big) };
	ck_assert_int_eq(tree_builder_add(b, &n, &e), -1);
	ck_assert_int_eq(e.code, ERR_LIMIT);
	n.name.size = 256;
	ck_assert_int_eq(tree_builder_add(b, &n, &e), -1);
	ck_assert_int_eq(tree_builder_finish(b, &other, &e), 0);
	ck_assert(id_equal(&one, &other));
	tree_builder_free(b);
	pagebox_free(&box);
}
END_TEST

START_TEST(the_largest_legal_entry_fits)
{
	static uint8_t many[TREE_SYMLINK_MAX], xattrs[TREE_XATTRS_INLINE];
	struct tree_entry n = {
		.name = { many, TREE_NAME_MAX }, .mode = S_IFLNK | 0777,
		.uid = 1, .gid = 1, .mtime_s = 1,
		.symlink = { many, TREE_SYMLINK_MAX }, .link = 1,
		.xattrs = { xattrs, sizeof(xattrs) },
		.user = { many, TREE_NAME_MAX },
		.group = { many, TREE_NAME_MAX }, .has_birth = true,
		.flags = 1, .project = 1, .state = 1,
	};
	struct tree_builder *b;
	struct pagebox box;
	struct id root;
	struct err e;

	memset(many, 'x', sizeof(many));
	xattrs[0] = 1;
	xattrs[1] = 'u';
	le32_put(xattrs + 2, sizeof(xattrs) - 6);
	pagebox_init(&box);
	ck_assert_int_eq(tree_builder_new(&b, pagebox_emit, &box, &e), 0);
	ck_assert_int_eq(tree_builder_add(b, &n, &e), 0);
	ck_assert_int_eq(tree_builder_finish(b, &root, &e), 0);
	tree_builder_free(b);
	pagebox_free(&box);
}
END_TEST

/* ---- many entries ------------------------------------------------------- */

/* Not ck_assert() for every entry: each of those is a write to a file. */
static void must(int r, const struct err *e)
{
	if (r != 0)
		ck_abort_msg("%s", e->text);
}

static int numbered_add(struct tree_builder *b, const char *name, uint32_t k,
    struct err *e)
{
	struct tree_entry n = {
		.name = text(name), .mode = S_IFREG | 0644,
		.mtime_s = 1700000000 + k, .mtime_ns = k,
		.content = CONTENT_CHUNK, .size = k + 1, .user = text("root"),
		.group = text("root"),
	};

	if (id_of(&n.content_id, OBJECT_CHUNK, name, strlen(name), e) != 0)
		return -1;
	return tree_builder_add(b, &n, e);
}

static void numbered_name(char out[static 32], uint32_t k)
{
	snprintf(out, 32, "file %08u.dat", k);
}

/* Entries 0 .. count - 1, and `extra` after number `at` if it is not NULL. */
static struct id build_numbered(struct pagebox *box, uint32_t count,
    uint32_t at, const char *extra)
{
	struct tree_builder *b;
	struct id root;
	char name[32];
	struct err e;

	ck_assert_int_eq(tree_builder_new(&b, pagebox_emit, box, &e), 0);
	for (uint32_t k = 0; k < count; k++) {
		numbered_name(name, k);
		must(numbered_add(b, name, k, &e), &e);
		if (extra && k == at)
			must(numbered_add(b, extra, k, &e), &e);
	}
	ck_assert_int_eq(tree_builder_finish(b, &root, &e), 0);
	tree_builder_free(b);
	return root;
}

static void count_up(void *arg, const struct tree_entry *n)
{
	uint32_t *next = arg;
	char name[32];

	numbered_name(name, *next);
	if (!slice_same(n->name, text(name)) || n->size != *next + 1u)
		ck_abort_msg("entry %u is another", *next);
	(*next)++;
}

static const struct {
	uint32_t count;
	const char *root;
	unsigned level, pages;
} numbered[] = {
	{ 0, "cfb390c273411e0580f96b67e2c00f29c73e94d53b5237cea7b7762041e44ca0",
	    0, 1 },
	{ 1, "bd2cf6dfe85a5d1a05bda709a0ea94f3341f36b735a83d7b2c42d8fd43e90869",
	    0, 1 },
	{ 1000,
	    "d26036a35747adb92a345f1082c4f65bce3505fe99a53c7dcc32fe1a06229554",
	    1, 5 },
	{ 100000,
	    "50d8f9ecea4816df3facbee082dcabf54dfcfa0de58bd173e9b8f7b67ef4f33f",
	    1, 332 },
};

START_TEST(directories_are_cut_as_pinned)	/* _i: the row */
{
	struct pagebox box;
	struct id root;
	uint8_t want[ID_SIZE];
	uint32_t next = 0;

	pagebox_init(&box);
	root = build_numbered(&box, numbered[_i].count, 0, NULL);
	ck_assert_uint_eq(box.count, numbered[_i].pages);
	ck_assert_uint_eq(pagebox_walk_tree(&box, &root, count_up, &next),
	    numbered[_i].level);
	ck_assert_uint_eq(next, numbered[_i].count);
	unhex(want, numbered[_i].root);
	ck_assert_mem_eq(root.bytes, want, ID_SIZE);
	pagebox_free(&box);
}
END_TEST

/* 32 KiB on average, and only the last leaf may be small. */
static void check_sizes(const struct pagebox *box)
{
	size_t sum = 0, leaves = 0, small = 0;

	for (size_t i = 0; i < box->count; i++) {
		ck_assert_uint_le(box->pages[i].size, TREE_PAGE_MAX);
		if (box->pages[i].level > 0)
			continue;
		leaves++;
		sum += box->pages[i].size;
		small += box->pages[i].size < TREE_PAGE_MIN;
	}
	ck_assert_uint_le(small, 1);
	ck_assert_uint_gt(sum / leaves, 28u << 10);
	ck_assert_uint_lt(sum / leaves, 36u << 10);
}

START_TEST(one_more_entry_changes_few_pages)
{
	struct pagebox before;
	size_t sum = 0;

	pagebox_init(&before);
	build_numbered(&before, 100000, 0, NULL);
	check_sizes(&before);
	for (uint32_t i = 0; i < 4; i++) {
		uint32_t at = i * 33333;
		struct pagebox now;
		char name[40];
		size_t some;

		pagebox_init(&now);
		snprintf(name, sizeof(name), "file %08u.dat new", at);
		build_numbered(&now, 100000, at, name);
		some = pagebox_new_pages(&now, &before);
		/* A leaf, or some until both agree again; and the root. */
		ck_assert_uint_ge(some, 2);
		ck_assert_uint_le(some, 8);
		sum += some;
		pagebox_free(&now);
	}
	ck_assert_uint_le(sum, 4 * 4);
	pagebox_free(&before);
}
END_TEST

/* Does the format cut a leaf after this entry of `size` bytes? */
static bool cuts(const char *name, size_t size)
{
	uint8_t key[64] = { 0 }, hash[XXH128_SIZE];

	memcpy(key + 1, name, strlen(name));
	xxh128(hash, key, 1 + strlen(name));
	return le32_get(hash) >> 18 < size;
}

/* A directory whose every entry cuts, or none: what a hostile user can do. */
START_TEST(hostile_names_make_no_page_too_large_or_alone)
{
	const bool want = _i == 1;
	struct tree_entry n = { .mode = S_IFREG | 0644 };
	struct tree_builder *b;
	struct pagebox box;
	struct id root;
	char name[32];
	struct err e;
	uint32_t made = 0;

	pagebox_init(&box);
	ck_assert_int_eq(tree_builder_new(&b, pagebox_emit, &box, &e), 0);
	for (uint32_t k = 0; made < 30000; k++) {
		snprintf(name, sizeof(name), "%012u", k);
		if (cuts(name, 2 + 3 + 12 + 7) != want)
			continue;
		made++;
		n.name = text(name);
		must(tree_builder_add(b, &n, &e), &e);
	}
	ck_assert_int_eq(tree_builder_finish(b, &root, &e), 0);
	for (size_t i = 0; i < box.count; i++) {
		size_t size = box.pages[i].size;

		ck_assert_uint_le(size, TREE_PAGE_MAX);
		if (box.pages[i].level > 0 || i + 2 >= box.count)
			continue;
		if (want)
			ck_assert_uint_lt(size, TREE_PAGE_MIN + 24);
		else
			ck_assert_uint_gt(size, TREE_PAGE_MAX - 24);
	}
	tree_builder_free(b);
	pagebox_free(&box);
}
END_TEST

/* The longest names make the flattest index pages: still few levels. */
START_TEST(long_names_and_large_entries_stay_shallow)
{
	static uint8_t target[TREE_SYMLINK_MAX];
	char name[TREE_NAME_MAX + 1];
	struct tree_entry n = { .mode = S_IFLNK | 0777 };
	struct tree_builder *b;
	struct pagebox box;
	struct id root;
	struct err e;

	memset(target, 't', sizeof(target));
	n.symlink = (struct slice){ target, sizeof(target) };
	memset(name, 'n', sizeof(name));
	n.name = (struct slice){ (uint8_t *)name, TREE_NAME_MAX };
	pagebox_init(&box);
	ck_assert_int_eq(tree_builder_new(&b, pagebox_emit, &box, &e), 0);
	for (unsigned k = 0; k < 10000; k++) {
		snprintf(name + 240, 16, "%015u", k);
		must(tree_builder_add(b, &n, &e), &e);
	}
	ck_assert_int_eq(tree_builder_finish(b, &root, &e), 0);
	ck_assert_uint_le(pagebox_find(&box, &root)->level, 3);
	for (size_t i = 0; i < box.count; i++)
		ck_assert_uint_le(box.pages[i].size, TREE_PAGE_MAX);
	tree_builder_free(b);
	pagebox_free(&box);
}
END_TEST

START_TEST(a_child_must_be_what_its_parent_says)
{
	uint8_t raw[600], above[200];
	size_t size = unhex(raw, golden_leaf);
	struct tree_page leaf, parent;
	struct tree_child c = { .entries = 5, .first = text("a file") };
	struct slice next = text("e list.");
	struct err e;

	ck_assert_int_eq(tree_page_parse(&leaf, raw, size, &e), 0);
	ck_assert_int_eq(tree_page_parse(&parent, above,
	    unhex(above, golden_index), &e), 0);
	ck_assert_int_eq(tree_page_check_child(&leaf, &parent, &c, NULL,
	    &e), 0);
	ck_assert_int_eq(tree_page_check_child(&leaf, &parent, &c, &next,
	    &e), 0);
	next = text("e list");
	ck_assert_int_eq(tree_page_check_child(&leaf, &parent, &c, &next,
	    &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	ck_assert_int_eq(tree_page_check_child(&parent, &parent, &c, NULL,
	    &e), -1);
	c.entries = 4;
	ck_assert_int_eq(tree_page_check_child(&leaf, &parent, &c, NULL,
	    &e), -1);
	c.entries = 5;
	c.first = text("a");
	ck_assert_int_eq(tree_page_check_child(&leaf, &parent, &c, NULL,
	    &e), -1);
}
END_TEST

#define ID32 "01010101010101010101010101010101" \
    "01010101010101010101010101010101"

static const struct {
	const char *what, *hex;
} indexes[] = {
	{ "one child", "6254010101000000" ID32 "0100000000000000" "010061" },
	{ "children out of order", "6254010102000000"
	    ID32 "0100000000000000" "010062" ID32 "0100000000000000"
	    "010061" },
	{ "a child twice", "6254010102000000"
	    ID32 "0100000000000000" "010061" ID32 "0100000000000000"
	    "010061" },
	{ "an empty child", "6254010102000000"
	    ID32 "0000000000000000" "010061" ID32 "0100000000000000"
	    "010062" },
	{ "entries without end", "6254010102000000"
	    ID32 "ffffffffffffff7f" "010061" ID32 "0100000000000000"
	    "010062" },
	{ "an illegal name", "6254010102000000"
	    ID32 "0100000000000000" "01002f" ID32 "0100000000000000"
	    "010062" },
	{ "no name", "6254010102000000"
	    ID32 "0100000000000000" "0000" ID32 "0100000000000000"
	    "010062" },
	{ "level 17", "6254011102000000"
	    ID32 "0100000000000000" "010061" ID32 "0100000000000000"
	    "010062" },
};

START_TEST(only_canonical_index_pages_pass)	/* _i: the row */
{
	uint8_t raw[200];
	struct tree_page p;
	struct err e;

	ck_assert_msg(tree_page_parse(&p, raw, unhex(raw, indexes[_i].hex),
	    &e) == -1, "%s", indexes[_i].what);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
}
END_TEST

START_TEST(xattr_lists_are_walked)
{
	static const uint8_t raw[] = "\1a\2\0\0\0xy\1b\0\0\0";
	struct slice list = { raw, sizeof(raw) }, name, value;
	size_t pos = 0;

	ck_assert(xattrs_ok(&list));
	ck_assert_int_eq(xattrs_next(&list, &pos, &name, &value), 1);
	ck_assert(slice_same(name, text("a")));
	ck_assert(slice_same(value, text("xy")));
	ck_assert_int_eq(xattrs_next(&list, &pos, &name, &value), 1);
	ck_assert_uint_eq(value.size, 0);
	ck_assert_int_eq(xattrs_next(&list, &pos, &name, &value), 0);
	for (list.size--; list.size > 8; list.size--)
		ck_assert(!xattrs_ok(&list));
	ck_assert(xattrs_ok(&list));	/* ends after the first */
}
END_TEST

#define COUNT(a) ((int)(sizeof(a) / sizeof((a)[0])))

Suite *proto_fmt_tree_suite(void);
Suite *proto_fmt_tree_suite(void)
{
	Suite *s = suite_create("fmt_tree");
	TCase *t = tcase_create("pages");
	TCase *many = tcase_create("directories");

	tcase_add_test(t, writes_the_golden_leaf);
	tcase_add_test(t, reads_the_golden_leaf);
	tcase_add_test(t, reads_the_golden_index);
	tcase_add_test(t, refuses_every_shorter_page);
	tcase_add_test(t, a_flipped_bit_is_refused_or_is_another_page);
	tcase_add_test(t, names_must_ascend);
	tcase_add_test(t, an_impossible_entry_leaves_the_builder_as_it_was);
	tcase_add_test(t, the_largest_legal_entry_fits);
	tcase_add_test(t, a_child_must_be_what_its_parent_says);
	tcase_add_loop_test(t, only_canonical_index_pages_pass, 0,
	    COUNT(indexes));
	tcase_add_test(t, xattr_lists_are_walked);
	tcase_add_loop_test(many, directories_are_cut_as_pinned, 0,
	    COUNT(numbered));
	tcase_add_test(many, one_more_entry_changes_few_pages);
	tcase_add_loop_test(many,
	    hostile_names_make_no_page_too_large_or_alone, 0, 2);
	tcase_add_test(many, long_names_and_large_entries_stay_shallow);
	suite_add_tcase(s, t);
	suite_add_tcase(s, many);
	return s;
}
