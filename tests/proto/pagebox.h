/*
 * tests/proto/pagebox.h - keeps the pages that a builder emits.
 *
 * pagebox_emit() is a page_emit that checks as it goes: the id is that of the
 * bytes, every page that an index page names came before it, and the refs are
 * what the page says.
 */
#ifndef TESTS_PROTO_PAGEBOX_H
#define TESTS_PROTO_PAGEBOX_H

#include "proto/fmt_list.h"
#include "proto/fmt_tree.h"

#include <stddef.h>
#include <stdint.h>

struct boxed {
	struct id id;
	enum object_type type;
	unsigned level;
	uint8_t *data;
	size_t size;
};

struct pagebox {
	struct boxed *pages;
	size_t count, cap;
	size_t fail_at;		/* emit fails at this page, 0 = no */
	bool raw;		/* pages of no known type: check ids only */
};

void pagebox_init(struct pagebox *box);
void pagebox_free(struct pagebox *box);
int pagebox_emit(void *box, enum object_type type, const struct id *id,
    const void *plain, size_t size, const struct id *refs, size_t ref_count,
    struct err *e);
/* NULL if it is not there. */
const struct boxed *pagebox_find(const struct pagebox *box,
    const struct id *id);
/* Pages of `now` that `before` does not have. */
size_t pagebox_new_pages(const struct pagebox *now,
    const struct pagebox *before);

/* Walk all below a root with the checks every reader makes; calls `each` for
 * every entry in order.  Fails the test where something is wrong.  Returns the
 * level of the root. */
unsigned pagebox_walk_tree(const struct pagebox *box, const struct id *root,
    void (*each)(void *arg, const struct tree_entry *n), void *arg);
unsigned pagebox_walk_list(const struct pagebox *box, const struct id *root,
    void (*each)(void *arg, const struct list_entry *n), void *arg);

#endif
