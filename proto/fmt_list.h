/*
 * proto/fmt_list.h - pages of a file's content list.  [format]
 *
 * A file of one chunk and no holes needs no list.  Otherwise its content is a
 * list: leaf pages (level 0) of chunks and hole runs in file order, index
 * pages above, any depth.
 *
 *   0 magic 2 "bL" | 2 version 1 | 3 level 1 | 4 count 2 | 6 reserved 2
 *   leaf entry:   0 kind 1 (1 chunk, 2 hole) | 1 size 8 | chunk: 9 id 32
 *   index entry:  0 span 8 (bytes of file) | 8 id 32
 *
 * Pages are cut by content: after a chunk or child whose id's last byte is 0,
 * once the page has LIST_PAGE_MIN bytes, and always before LIST_PAGE_MAX would
 * be exceeded; holes never cut.  No index page has fewer than two children:
 * see proto/pages.h for the end of a level.
 *
 * A page is canonical, or refused: sizes above zero, chunks at most
 * FRAME_PLAIN_MAX, no two holes in a row, totals at most INT64_MAX.
 */
#ifndef PROTO_FMT_LIST_H
#define PROTO_FMT_LIST_H

#include "base/err.h"
#include "proto/fmt_id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LIST_PAGE_MIN (8u << 10)
#define LIST_PAGE_MAX (56u << 10)
#define LIST_LEVEL_MAX 16

enum list_kind { LIST_CHUNK = 1, LIST_HOLE = 2 };

struct list_entry {		/* of a leaf */
	enum list_kind kind;
	uint64_t size;		/* bytes of the file */
	struct id id;		/* of the chunk */
};

struct list_child {		/* of an index page */
	uint64_t span;		/* bytes of the file below */
	struct id id;
};

struct list_page {		/* a parsed page; points into the bytes */
	unsigned level, count;
	const uint8_t *at;
	size_t size;
};

/* Checks the whole page, every entry included (sizes > 0, sums do not wrap). */
MUST_CHECK int list_page_parse(struct list_page *p, const void *plain,
    size_t size, struct err *e);
/* Walk: *pos from 0.  False at the end. */
bool list_page_entry(const struct list_page *p, size_t *pos,
    struct list_entry *out);
bool list_page_child(const struct list_page *p, size_t *pos,
    struct list_child *out);
/* The ids it names, in order, into out[max]; returns how many there are. */
size_t list_page_refs(const struct list_page *p, struct id *out, size_t max);
/* Bytes of the file that the page stands for. */
uint64_t list_page_span(const struct list_page *p);
/* Is `p` what `parent` says of `child`: one level less, the same span?  Every
 * reader of a list asks this on its way down; ERR_CORRUPT. */
MUST_CHECK int list_page_check_child(const struct list_page *p,
    const struct list_page *parent, const struct list_child *child,
    struct err *e);

/*
 * Building: entries in file order; finished pages are handed to `emit` in an
 * order in which everything a page names was emitted before it.
 */
struct list_builder;
typedef int (*page_emit)(void *arg, enum object_type type,
    const struct id *id, const void *plain, size_t size,
    const struct id *refs, size_t ref_count, struct err *e);

MUST_CHECK int list_builder_new(struct list_builder **out, page_emit emit,
    void *arg, struct err *e);
void list_builder_free(struct list_builder *b);
/* Neighbouring holes are merged.  ERR_USAGE for an impossible entry; after any
 * failure only list_builder_free() is allowed. */
MUST_CHECK int list_builder_add(struct list_builder *b,
    const struct list_entry *entry, struct err *e);
/* The root page's id; empty lists are refused (ERR_USAGE).  Ready for the next
 * list afterwards. */
MUST_CHECK int list_builder_finish(struct list_builder *b, struct id *root,
    struct err *e);

#endif
