/*
 * proto/fmt_list.c - content lists: parse pages, build pages.
 *
 * A parsed page was checked to its last byte; the walks below re-read it and
 * simply end where a page that was never checked would be wrong.
 */
#include "proto/fmt_list.h"

#include "base/le.h"
#include "base/reader.h"
#include "proto/fmt_frame.h"
#include "proto/pages.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CHUNK_ITEM 41		/* kind, size, id */
#define HOLE_ITEM 9		/* kind, size */
#define CHILD_ITEM 40		/* span, id */

_Static_assert(LIST_LEVEL_MAX == PAGES_LEVEL_MAX, "one limit of levels");
_Static_assert(LIST_PAGE_MAX / CHILD_ITEM <= FRAME_REFS_MAX,
    "the refs of a page fit into a frame");

static bool entry_read(struct reader *r, struct list_entry *out)
{
	const uint8_t *id;

	out->kind = (enum list_kind)reader_u8(r);
	out->size = reader_le64(r);
	memset(&out->id, 0, sizeof(out->id));
	if (r->bad || (out->kind != LIST_CHUNK && out->kind != LIST_HOLE))
		return false;
	if (out->kind == LIST_HOLE)
		return true;
	id = reader_bytes(r, ID_SIZE);
	if (!id)
		return false;
	memcpy(out->id.bytes, id, ID_SIZE);
	return true;
}

static bool child_read(struct reader *r, struct list_child *out)
{
	const uint8_t *id;

	out->span = reader_le64(r);
	id = reader_bytes(r, ID_SIZE);
	if (!id)
		return false;
	memcpy(out->id.bytes, id, ID_SIZE);
	return true;
}

static bool entry_legal(const struct list_entry *entry)
{
	uint64_t max = entry->kind == LIST_CHUNK ? FRAME_PLAIN_MAX : INT64_MAX;

	return entry->size > 0 && entry->size <= max;
}

/* Add `size` to the total; false when that is more than a file can have. */
static bool total_add(uint64_t *total, uint64_t size)
{
	if (size > (uint64_t)INT64_MAX - *total)
		return false;
	*total += size;
	return true;
}

static int leaf_check(struct reader *r, unsigned count, struct err *e)
{
	uint64_t total = 0;
	enum list_kind before = LIST_CHUNK;
	struct list_entry n;

	for (unsigned i = 0; i < count; i++) {
		if (!entry_read(r, &n) || !entry_legal(&n))
			return err_set(e, ERR_CORRUPT,
			    "list page: entry %u is damaged", i);
		if (n.kind == LIST_HOLE && before == LIST_HOLE)
			return err_set(e, ERR_CORRUPT,
			    "list page: two holes in a row");
		if (!total_add(&total, n.size))
			return err_set(e, ERR_CORRUPT,
			    "list page: sizes are beyond any file");
		before = n.kind;
	}
	return 0;
}

static int index_check(struct reader *r, unsigned count, struct err *e)
{
	uint64_t total = 0;
	struct list_child c;

	for (unsigned i = 0; i < count; i++) {
		if (!child_read(r, &c) || c.span == 0)
			return err_set(e, ERR_CORRUPT,
			    "list page: child %u is damaged", i);
		if (!total_add(&total, c.span))
			return err_set(e, ERR_CORRUPT,
			    "list page: sizes are beyond any file");
	}
	return 0;
}

int list_page_parse(struct list_page *p, const void *plain, size_t size,
    struct err *e)
{
	struct list_page got = { .size = size };
	struct reader r;

	if (pages_header_get("bL", plain, size, &got.level, &got.count, e) != 0)
		return -1;
	if (size > LIST_PAGE_MAX || got.count == 0)
		return err_set(e, ERR_CORRUPT,
		    "list page: %u entries, %zu bytes", got.count, size);
	got.at = plain;
	reader_init(&r, got.at + PAGES_HEADER_SIZE, size - PAGES_HEADER_SIZE);
	if ((got.level == 0 ? leaf_check(&r, got.count, e) :
	    index_check(&r, got.count, e)) != 0)
		return -1;
	if (!reader_done(&r))
		return err_set(e, ERR_CORRUPT,
		    "list page: bytes after the last entry");
	*p = got;
	return 0;
}

/* A reader at *pos of the items. */
static bool walk_begin(const struct list_page *p, size_t pos, struct reader *r)
{
	if (pos >= p->size - PAGES_HEADER_SIZE)
		return false;
	reader_init(r, p->at + PAGES_HEADER_SIZE + pos,
	    p->size - PAGES_HEADER_SIZE - pos);
	return true;
}

static void walk_end(const struct list_page *p, size_t *pos,
    const struct reader *r)
{
	*pos = p->size - PAGES_HEADER_SIZE - r->left;
}

bool list_page_entry(const struct list_page *p, size_t *pos,
    struct list_entry *out)
{
	struct reader r;

	if (p->level != 0 || !walk_begin(p, *pos, &r) || !entry_read(&r, out))
		return false;
	walk_end(p, pos, &r);
	return true;
}

bool list_page_child(const struct list_page *p, size_t *pos,
    struct list_child *out)
{
	struct reader r;

	if (p->level == 0 || !walk_begin(p, *pos, &r) || !child_read(&r, out))
		return false;
	walk_end(p, pos, &r);
	return true;
}

size_t list_page_refs(const struct list_page *p, struct id *out, size_t max)
{
	struct list_entry n;
	struct list_child c;
	size_t pos = 0, count = 0;

	while (list_page_entry(p, &pos, &n)) {
		if (n.kind != LIST_CHUNK)
			continue;
		if (count < max)
			out[count] = n.id;
		count++;
	}
	while (list_page_child(p, &pos, &c)) {
		if (count < max)
			out[count] = c.id;
		count++;
	}
	return count;
}

uint64_t list_page_span(const struct list_page *p)
{
	struct list_entry n;
	struct list_child c;
	size_t pos = 0;
	uint64_t span = 0;

	while (list_page_entry(p, &pos, &n))
		span += n.size;
	while (list_page_child(p, &pos, &c))
		span += c.span;
	return span;
}

int list_page_check_child(const struct list_page *p,
    const struct list_page *parent, const struct list_child *child,
    struct err *e)
{
	uint64_t span = list_page_span(p);

	if (p->level + 1 != parent->level)
		return err_set(e, ERR_CORRUPT,
		    "list page of level %u below one of level %u", p->level,
		    parent->level);
	if (span != child->span)
		return err_set(e, ERR_CORRUPT, "list page of %" PRIu64
		    " bytes where %" PRIu64 " were promised", span,
		    child->span);
	return 0;
}

/* ---- building ---------------------------------------------------------- */

struct list_builder {
	struct pages *pages;
	uint64_t total;		/* bytes of the file so far, hole included */
	uint64_t hole;		/* not yet written: the next may join it */
};

static size_t list_put_child(uint8_t *out, const struct pages_child *c)
{
	le64_put(out, c->weight);
	memcpy(out + 8, c->id.bytes, ID_SIZE);
	return CHILD_ITEM;
}

static bool list_cut(unsigned level, const struct pages_item *item)
{
	(void)level;
	return item->ref_count > 0 && item->refs[0].bytes[ID_SIZE - 1] == 0;
}

static const struct pages_kind list_kind_of_pages = {
	.type = OBJECT_LIST, .magic = { 'b', 'L' },
	.page_min = LIST_PAGE_MIN, .page_max = LIST_PAGE_MAX,
	.put_child = list_put_child, .cut = list_cut,
};

int list_builder_new(struct list_builder **out, page_emit emit, void *arg,
    struct err *e)
{
	struct list_builder *b = calloc(1, sizeof(*b));

	if (!b)
		return err_set(e, ERR_NO_MEMORY, "list: out of memory");
	if (pages_new(&b->pages, &list_kind_of_pages, emit, arg, e) != 0) {
		free(b);
		return -1;
	}
	*out = b;
	return 0;
}

void list_builder_free(struct list_builder *b)
{
	if (!b)
		return;
	pages_free(b->pages);
	free(b);
}

static int hole_flush(struct list_builder *b, struct err *e)
{
	uint8_t raw[HOLE_ITEM];
	struct pages_item item = {
		.data = raw, .size = sizeof(raw), .weight = b->hole,
	};

	if (b->hole == 0)
		return 0;
	raw[0] = LIST_HOLE;
	le64_put(raw + 1, b->hole);
	b->hole = 0;
	return pages_add(b->pages, &item, e);
}

static int chunk_add(struct list_builder *b, const struct list_entry *entry,
    struct err *e)
{
	uint8_t raw[CHUNK_ITEM];
	struct pages_item item = {
		.data = raw, .size = sizeof(raw), .weight = entry->size,
		.refs = &entry->id, .ref_count = 1,
	};

	raw[0] = LIST_CHUNK;
	le64_put(raw + 1, entry->size);
	memcpy(raw + 9, entry->id.bytes, ID_SIZE);
	return pages_add(b->pages, &item, e);
}

int list_builder_add(struct list_builder *b, const struct list_entry *entry,
    struct err *e)
{
	if ((entry->kind != LIST_CHUNK && entry->kind != LIST_HOLE) ||
	    !entry_legal(entry) || !total_add(&b->total, entry->size))
		return err_set(e, ERR_USAGE, "list: an entry of kind %d, %"
		    PRIu64 " bytes", (int)entry->kind, entry->size);
	if (entry->kind == LIST_HOLE) {
		b->hole += entry->size;
		return 0;
	}
	if (hole_flush(b, e) != 0)
		return -1;
	return chunk_add(b, entry, e);
}

int list_builder_finish(struct list_builder *b, struct id *root,
    struct err *e)
{
	if (b->total == 0)
		return err_set(e, ERR_USAGE, "list: it has no entry");
	if (hole_flush(b, e) != 0 || pages_finish(b->pages, root, e) != 0)
		return -1;
	b->total = 0;
	return 0;
}
