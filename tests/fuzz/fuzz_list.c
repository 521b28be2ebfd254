/*
 * Any bytes as a page of a content list: what is accepted is walked to its
 * last byte and is canonical: the entries of a leaf, written again, give the
 * same bytes.
 */
#include "proto/fmt_frame.h"
#include "proto/fmt_list.h"

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

static void write_again(const struct list_page *p)
{
	struct written w = { p->at, p->size, false };
	struct list_builder *b;
	struct list_entry n;
	struct id root;
	size_t pos = 0, entries = 0;
	struct err e;

	check(list_builder_new(&b, compare, &w, &e) == 0);
	while (list_page_entry(p, &pos, &n)) {
		check(list_builder_add(b, &n, &e) == 0);
		entries++;
	}
	check(entries == p->count && pos == p->size - 8);
	check(list_builder_finish(b, &root, &e) == 0);
	/* A page beyond the cuts of the format is not what we would write. */
	if (p->size < LIST_PAGE_MIN)
		check(w.same);
	list_builder_free(b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct id refs[FRAME_REFS_MAX];
	struct list_page p;
	struct list_child c = { .span = 0 };
	size_t pos = 0, children = 0;
	struct err e;

	if (list_page_parse(&p, data, size, &e) != 0)
		return 0;
	check(list_page_refs(&p, refs, FRAME_REFS_MAX) <= FRAME_REFS_MAX);
	check(list_page_span(&p) <= INT64_MAX);
	if (p.level == 0) {
		write_again(&p);
		return 0;
	}
	while (list_page_child(&p, &pos, &c))
		children++;
	check(children == p.count && pos == size - 8);
	(void)!list_page_check_child(&p, &p, &c, &e);
	return 0;
}
