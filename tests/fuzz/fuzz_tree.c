/*
 * Any bytes as a page of a directory: what is accepted is walked to its last
 * byte, names only ids that fit a frame, and is canonical: the entries of a
 * leaf, written again, give the same bytes but for fields that may be skipped.
 */
#include "proto/fmt_frame.h"
#include "proto/fmt_tree.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct written {
	const uint8_t *page;
	size_t size;
	bool same;
};

static void check(bool good)
{
	if (!good)
		abort();
}

static int compare(void *arg, enum object_type type, const struct id *id,
    const void *plain, size_t size, const struct id *refs, size_t ref_count,
    struct err *e)
{
	struct written *w = arg;

	(void)type, (void)id, (void)refs, (void)ref_count, (void)e;
	w->same = size == w->size && memcmp(plain, w->page, size) == 0;
	return 0;
}

/* Optional fields of tomorrow are dropped by a writer of today. */
static bool has_unknown_fields(const uint8_t *page, size_t size)
{
	for (size_t at = 8; at + 2 <= size;) {
		size_t end = at + 2 + page[at] + 256u * page[at + 1];

		for (at += 2; at < end;) {
			if (page[at] > 7 && page[at] < 128)
				return true;
			at += 3 + page[at + 1] + 256u * page[at + 2];
		}
	}
	return false;
}

static void write_again(const struct tree_page *p)
{
	struct written w = { p->at, p->size, false };
	struct tree_builder *b;
	struct tree_entry n;
	struct id root;
	size_t pos = 0, entries = 0;
	struct err e;

	check(tree_builder_new(&b, compare, &w, &e) == 0);
	while (tree_page_entry(p, &pos, &n)) {
		check(tree_builder_add(b, &n, &e) == 0);
		entries++;
	}
	check(entries == p->count && pos == p->size - 8);
	check(tree_builder_finish(b, &root, &e) == 0);
	/* A page beyond the cuts of the format is not what we would write. */
	if (p->size < TREE_PAGE_MIN)
		check(w.same || has_unknown_fields(p->at, p->size));
	tree_builder_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct id refs[FRAME_REFS_MAX];
	struct slice list = { data, size };
	struct tree_page p;
	struct tree_child c;
	size_t pos = 0, children = 0;
	struct err e;

	(void)xattrs_ok(&list);
	(void)tree_name_ok(data, size);
	if (tree_page_parse(&p, data, size, &e) != 0)
		return 0;
	check(tree_page_refs(&p, refs, FRAME_REFS_MAX) <= FRAME_REFS_MAX);
	if (p.level == 0) {
		write_again(&p);
		return 0;
	}
	while (tree_page_child(&p, &pos, &c))
		children++;
	check(children == p.count && pos == size - 8);
	check(tree_page_entries(&p) >= children);
	(void)!tree_page_check_child(&p, &p, &c, NULL, &e);
	return 0;
}
