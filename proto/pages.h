/*
 * proto/pages.h - build pages of pages: what trees and lists share.  [format]
 *
 * Items of level 0 come in order; the pager fills pages, cuts them, and gives
 * each finished page to the level above as a child.  The cut rule:
 *
 *   P1  A page is full after an item for which the kind's cut() says so, if
 *       the page, header included, has at least page_min bytes by then.
 *   P2  A page is full before an item that would take it above page_max.
 *   P3  A level that has one child altogether is not written: the child is
 *       the root.
 *   P4  An index page has at least two children.  When one child would stand
 *       alone in the last page of a level, it joins the page before if both
 *       fit into page_max; else it takes the last child of that page.
 *
 * P4 needs one child of look-ahead: a full index page waits until two more
 * children are there.  Leaves are written as soon as they are full.
 *
 * Memory: per level one page, its refs and three children; levels are made
 * when they are needed, and their buffers grow with their content.
 * Order: a page is emitted after all pages below it.
 */
#ifndef PROTO_PAGES_H
#define PROTO_PAGES_H

#include "base/err.h"
#include "proto/fmt_id.h"
#include "proto/fmt_list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* magic 2 | version 1 | level 1 | count 2 | reserved 2 */
#define PAGES_HEADER_SIZE 8
#define PAGES_VERSION 1
/* Levels 0 .. PAGES_LEVEL_MAX; TREE_LEVEL_MAX and LIST_LEVEL_MAX are this. */
#define PAGES_LEVEL_MAX 16
#define PAGES_FIRST_MAX 255	/* bytes of the key of an item */
#define PAGES_ITEM_MAX 8192	/* bytes of an item as stored */

struct pages_child {
	struct id id;
	uint64_t weight;	/* entries or bytes of file below */
	size_t first_size;	/* first key below; 0 for lists */
	uint8_t first[PAGES_FIRST_MAX];
};

struct pages_item {		/* borrowed for the call */
	const void *data;	/* as stored */
	size_t size;
	uint64_t weight;
	const void *first;	/* key */
	size_t first_size;
	const struct id *refs;
	size_t ref_count;
};

struct pages_kind {
	enum object_type type;
	char magic[2];
	size_t page_min, page_max;
	/* Write a child as an item of an index page; its size, at most
	 * PAGES_ITEM_MAX. */
	size_t (*put_child)(uint8_t *out, const struct pages_child *c);
	/* P1: is the page full after this item, if it has page_min? */
	bool (*cut)(unsigned level, const struct pages_item *item);
};

struct pages;

MUST_CHECK int pages_new(struct pages **out, const struct pages_kind *kind,
    page_emit emit, void *arg, struct err *e);
void pages_free(struct pages *p);	/* NULL is fine */
/* Add an item to level 0. */
MUST_CHECK int pages_add(struct pages *p, const struct pages_item *item,
    struct err *e);
/* Write what is left; the root's id.  Empty afterwards.  Without any item the
 * root is an empty leaf. */
MUST_CHECK int pages_finish(struct pages *p, struct id *root, struct err *e);

/* The header of a page: level and count of a page of this magic, or
 * ERR_CORRUPT, ERR_VERSION; index pages need two children. */
MUST_CHECK int pages_header_get(const char magic[static 2], const void *plain,
    size_t size, unsigned *level, unsigned *count, struct err *e);

#endif
