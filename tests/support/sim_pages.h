/*
 * tests/support/sim_pages.h - the content of one simulated disk: a sparse,
 * copy-on-write table of 4 KiB pages.
 *
 * A page never written reads as zeros and costs nothing.  Pages are immutable
 * and counted, and so are the leaves of the table, so that a copy of a whole
 * disk costs a few KiB: a test can keep a copy for every device operation of a
 * run.
 *
 *      pages_init | pages_copy --> pages_get / pages_set --> pages_release
 *
 * Units: page indices; a page has SIM_PAGE bytes.
 * Errors: none; without memory the test program aborts.
 * Threads: a table belongs to one thread at a time.  Two tables that share
 *   pages may be used by two threads.
 */
#ifndef TESTS_SUPPORT_SIM_PAGES_H
#define TESTS_SUPPORT_SIM_PAGES_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_PAGE 4096u
#define SIM_LEAF_PAGES 256u	/* 1 MiB of disk for each leaf */

struct sim_page {
	atomic_uint refs;
	uint8_t data[SIM_PAGE];
};

struct sim_leaf;

struct sim_pages {
	uint64_t count;			/* pages of the disk */
	size_t leaf_count;
	struct sim_leaf **leaves;	/* NULL where nothing was written */
};

/* calloc that aborts instead of returning NULL. */
void *sim_alloc(size_t count, size_t size);

/* A new page with these SIM_PAGE bytes, refs = 1. */
struct sim_page *sim_page_new(const void *data);
struct sim_page *sim_page_ref(struct sim_page *p);
void sim_page_unref(struct sim_page *p);	/* NULL is fine */

/* An empty table for `bytes` bytes (rounded up to pages). */
void pages_init(struct sim_pages *t, uint64_t bytes);
/* `dst` (not initialised) becomes a copy of `src`. */
void pages_copy(struct sim_pages *dst, const struct sim_pages *src);
void pages_release(struct sim_pages *t);

/* The page, still owned by the table; NULL = zeros. */
struct sim_page *pages_get(const struct sim_pages *t, uint64_t index);
/* Puts `p` there (NULL = zeros) and takes a reference of its own. */
void pages_set(struct sim_pages *t, uint64_t index, struct sim_page *p);
/* The content of the page into `out`. */
void pages_read(const struct sim_pages *t, uint64_t index,
    uint8_t out[static SIM_PAGE]);
/* Index of the first page that differs, or UINT64_MAX. */
uint64_t pages_differ(const struct sim_pages *a, const struct sim_pages *b);
/* How many pages are not a hole. */
uint64_t pages_used(const struct sim_pages *t);

#endif
