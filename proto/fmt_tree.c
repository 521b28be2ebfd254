/*
 * proto/fmt_tree.c - directories: parse pages, build pages.
 *
 * A parsed page was checked to its last byte; the walks below re-read it and
 * simply end where a page that was never checked would be wrong.
 */
#include "proto/fmt_tree.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/reader.h"
#include "proto/fmt_frame.h"
#include "proto/pages.h"
#include "proto/tree_entry.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CHILD_HEAD 42		/* id, entries, size of the name */

_Static_assert(TREE_LEVEL_MAX == PAGES_LEVEL_MAX, "one limit of levels");
_Static_assert(TREE_NAME_MAX == PAGES_FIRST_MAX, "a key is a name");
_Static_assert(TREE_ENTRY_MAX == PAGES_ITEM_MAX, "an item is an entry");
_Static_assert(TREE_PAGE_MAX / (ID_SIZE + TREE_FIELD_HEAD) <= FRAME_REFS_MAX,
    "the refs of a page fit into a frame");

int tree_name_compare(const struct slice *a, const struct slice *b)
{
	size_t size = a->size < b->size ? a->size : b->size;
	int c = size ? memcmp(a->data, b->data, size) : 0;

	if (c != 0)
		return c;
	return (a->size > b->size) - (a->size < b->size);
}

bool tree_name_ok(const void *name, size_t size)
{
	const char *s = name;

	if (size == 0 || size > TREE_NAME_MAX)
		return false;
	if (memchr(s, '/', size) || memchr(s, 0, size))
		return false;
	return !(s[0] == '.' && (size == 1 || (size == 2 && s[1] == '.')));
}

int xattrs_next(const struct slice *list, size_t *pos, struct slice *name,
    struct slice *value)
{
	struct reader r;

	if (*pos >= list->size)
		return 0;
	reader_init(&r, list->data + *pos, list->size - *pos);
	name->size = reader_u8(&r);
	name->data = reader_bytes(&r, name->size);
	value->size = reader_le32(&r);
	value->data = reader_bytes(&r, value->size);
	if (r.bad || name->size == 0 || memchr(name->data, 0, name->size))
		return -1;
	*pos = list->size - r.left;
	return 1;
}

bool xattrs_ok(const struct slice *list)
{
	struct slice name, value, before = { NULL, 0 };
	size_t pos = 0;
	int got;

	while ((got = xattrs_next(list, &pos, &name, &value)) == 1) {
		if (before.size && tree_name_compare(&before, &name) >= 0)
			return false;
		before = name;
	}
	return got == 0;
}

/* ---- pages -------------------------------------------------------------- */

static int entry_read(struct reader *r, struct tree_entry *out, struct err *e)
{
	size_t size = reader_le16(r);
	const uint8_t *data = reader_bytes(r, size);

	if (!data || size + 2 > TREE_ENTRY_MAX)
		return err_set(e, ERR_CORRUPT, "tree page: an entry is cut");
	return tree_entry_get(out, data, size, e);
}

static bool child_read(struct reader *r, struct tree_child *out)
{
	const uint8_t *id = reader_bytes(r, ID_SIZE);

	out->entries = reader_le64(r);
	out->first.size = reader_le16(r);
	out->first.data = reader_bytes(r, out->first.size);
	if (r->bad)
		return false;
	memcpy(out->id.bytes, id, ID_SIZE);
	return true;
}

static int names_ascend(const struct slice *before, const struct slice *name,
    struct err *e)
{
	if (before->size == 0 || tree_name_compare(before, name) < 0)
		return 0;
	return err_set(e, ERR_CORRUPT, "tree page: names do not ascend");
}

static int leaf_check(struct reader *r, unsigned count, struct err *e)
{
	struct slice before = { NULL, 0 };
	struct tree_entry n;

	for (unsigned i = 0; i < count; i++) {
		if (entry_read(r, &n, e) != 0 ||
		    names_ascend(&before, &n.name, e) != 0)
			return -1;
		before = n.name;
	}
	return 0;
}

static int index_check(struct reader *r, unsigned count, struct err *e)
{
	struct slice before = { NULL, 0 };
	uint64_t total = 0;
	struct tree_child c;

	for (unsigned i = 0; i < count; i++) {
		if (!child_read(r, &c) || c.entries == 0 ||
		    c.entries > (uint64_t)INT64_MAX - total ||
		    !tree_name_ok(c.first.data, c.first.size))
			return err_set(e, ERR_CORRUPT,
			    "tree page: child %u is damaged", i);
		if (names_ascend(&before, &c.first, e) != 0)
			return -1;
		total += c.entries;
		before = c.first;
	}
	return 0;
}

int tree_page_parse(struct tree_page *p, const void *plain, size_t size,
    struct err *e)
{
	struct tree_page got = { .size = size };
	struct reader r;

	if (pages_header_get("bT", plain, size, &got.level, &got.count, e) != 0)
		return -1;
	if (size > TREE_PAGE_MAX)
		return err_set(e, ERR_CORRUPT, "tree page of %zu bytes", size);
	got.at = plain;
	reader_init(&r, got.at + PAGES_HEADER_SIZE, size - PAGES_HEADER_SIZE);
	if ((got.level == 0 ? leaf_check(&r, got.count, e) :
	    index_check(&r, got.count, e)) != 0)
		return -1;
	if (!reader_done(&r))
		return err_set(e, ERR_CORRUPT,
		    "tree page: bytes after the last entry");
	*p = got;
	return 0;
}

/* A reader at *pos of the items. */
static bool walk_begin(const struct tree_page *p, size_t pos, struct reader *r)
{
	if (pos >= p->size - PAGES_HEADER_SIZE)
		return false;
	reader_init(r, p->at + PAGES_HEADER_SIZE + pos,
	    p->size - PAGES_HEADER_SIZE - pos);
	return true;
}

static void walk_end(const struct tree_page *p, size_t *pos,
    const struct reader *r)
{
	*pos = p->size - PAGES_HEADER_SIZE - r->left;
}

bool tree_page_entry(const struct tree_page *p, size_t *pos,
    struct tree_entry *out)
{
	struct reader r;
	struct err e;

	if (p->level != 0 || !walk_begin(p, *pos, &r) ||
	    entry_read(&r, out, &e) != 0)
		return false;
	walk_end(p, pos, &r);
	return true;
}

bool tree_page_child(const struct tree_page *p, size_t *pos,
    struct tree_child *out)
{
	struct reader r;

	if (p->level == 0 || !walk_begin(p, *pos, &r) || !child_read(&r, out))
		return false;
	walk_end(p, pos, &r);
	return true;
}

/* The ids an entry names, in the order of the refs; at most two. */
static size_t entry_refs(const struct tree_entry *n, struct id out[static 2])
{
	size_t count = 0;

	if (n->content != CONTENT_NONE)
		out[count++] = n->content_id;
	else if (!id_is_zero(&n->tree))
		out[count++] = n->tree;
	if (n->has_xattr_ref)
		out[count++] = n->xattr_ref;
	return count;
}

size_t tree_page_refs(const struct tree_page *p, struct id *out, size_t max)
{
	struct tree_entry n;
	struct tree_child c;
	struct id ids[2];
	size_t pos = 0, count = 0;

	while (tree_page_entry(p, &pos, &n)) {
		size_t some = entry_refs(&n, ids);

		for (size_t i = 0; i < some; i++, count++)
			if (count < max)
				out[count] = ids[i];
	}
	while (tree_page_child(p, &pos, &c)) {
		if (count < max)
			out[count] = c.id;
		count++;
	}
	return count;
}

uint64_t tree_page_entries(const struct tree_page *p)
{
	struct tree_child c;
	size_t pos = 0;
	uint64_t total = 0;

	if (p->level == 0)
		return p->count;
	while (tree_page_child(p, &pos, &c))
		total += c.entries;
	return total;
}

/* First and last name in the page; of an index page, of its children. */
static void page_names(const struct tree_page *p, struct slice *first,
    struct slice *last)
{
	struct tree_entry n;
	struct tree_child c;
	size_t pos = 0;

	first->size = last->size = 0;
	while (tree_page_entry(p, &pos, &n)) {
		if (first->size == 0)
			*first = n.name;
		*last = n.name;
	}
	while (tree_page_child(p, &pos, &c)) {
		if (first->size == 0)
			*first = c.first;
		*last = c.first;
	}
}

int tree_page_check_child(const struct tree_page *p,
    const struct tree_page *parent, const struct tree_child *child,
    const struct slice *next, struct err *e)
{
	struct slice first, last;

	if (p->level + 1 != parent->level)
		return err_set(e, ERR_CORRUPT,
		    "tree page of level %u below one of level %u", p->level,
		    parent->level);
	if (tree_page_entries(p) != child->entries)
		return err_set(e, ERR_CORRUPT, "tree page of %" PRIu64
		    " entries where %" PRIu64 " were promised",
		    tree_page_entries(p), child->entries);
	page_names(p, &first, &last);
	if (tree_name_compare(&first, &child->first) != 0 ||
	    (next && tree_name_compare(&last, next) >= 0))
		return err_set(e, ERR_CORRUPT,
		    "tree page: names outside its place");
	return 0;
}

/* ---- building ----------------------------------------------------------- */

struct tree_builder {
	struct pages *pages;
	struct buf entry;
	size_t before_size;		/* name of the last entry */
	uint8_t before[TREE_NAME_MAX];
};

static size_t tree_put_child(uint8_t *out, const struct pages_child *c)
{
	memcpy(out, c->id.bytes, ID_SIZE);
	le64_put(out + ID_SIZE, c->weight);
	le16_put(out + ID_SIZE + 8, (uint16_t)c->first_size);
	memcpy(out + CHILD_HEAD, c->first, c->first_size);
	return CHILD_HEAD + c->first_size;
}

/* 1 in 16384 per byte: pages of TREE_PAGE_MIN + 16 KiB on average. */
static bool tree_cut(unsigned level, const struct pages_item *item)
{
	uint8_t key[1 + TREE_NAME_MAX], hash[XXH128_SIZE];

	key[0] = (uint8_t)level;
	memcpy(key + 1, item->first, item->first_size);
	xxh128(hash, key, 1 + item->first_size);
	return le32_get(hash) >> 18 < item->size;
}

static const struct pages_kind tree_kind_of_pages = {
	.type = OBJECT_TREE, .magic = { 'b', 'T' },
	.page_min = TREE_PAGE_MIN, .page_max = TREE_PAGE_MAX,
	.put_child = tree_put_child, .cut = tree_cut,
};

int tree_builder_new(struct tree_builder **out, page_emit emit, void *arg,
    struct err *e)
{
	struct tree_builder *b = calloc(1, sizeof(*b));

	if (!b)
		return err_set(e, ERR_NO_MEMORY, "tree: out of memory");
	if (pages_new(&b->pages, &tree_kind_of_pages, emit, arg, e) != 0) {
		free(b);
		return -1;
	}
	buf_init(&b->entry, 8 * TREE_ENTRY_MAX);
	*out = b;
	return 0;
}

void tree_builder_free(struct tree_builder *b)
{
	if (!b)
		return;
	pages_free(b->pages);
	buf_release(&b->entry);
	free(b);
}

int tree_builder_add(struct tree_builder *b, const struct tree_entry *entry,
    struct err *e)
{
	struct slice before = { b->before, b->before_size };
	struct id refs[2];
	struct pages_item item = {
		.weight = 1, .first = entry->name.data,
		.first_size = entry->name.size, .refs = refs,
	};

	buf_reset(&b->entry);
	if (tree_entry_put(&b->entry, entry, e) != 0)
		return -1;
	if (before.size > 0 && tree_name_compare(&before, &entry->name) >= 0)
		return err_set(e, ERR_USAGE, "tree: names do not ascend");
	item.data = b->entry.data;
	item.size = b->entry.size;
	item.ref_count = entry_refs(entry, refs);
	memcpy(b->before, entry->name.data, entry->name.size);
	b->before_size = entry->name.size;
	return pages_add(b->pages, &item, e);
}

int tree_builder_finish(struct tree_builder *b, struct id *root,
    struct err *e)
{
	b->before_size = 0;
	return pages_finish(b->pages, root, e);
}
