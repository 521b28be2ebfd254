/*
 * store/toc.h - tables of contents: those being collected for the next flush,
 * and those to be read back.
 *
 * Threads: everything on struct store needs the cut lock, except toc_chain
 * and toc_read, which read from the array.
 */
#ifndef STORE_TOC_H
#define STORE_TOC_H

#include "base/buf.h"
#include "base/err.h"
#include "raid/array.h"
#include "store/fmt_table.h"

#include <stddef.h>
#include <stdint.h>

struct store;

/* What a table holds that is on its way. */
struct toc_part {
	uint32_t base;		/* number of the first object */
	uint32_t frame_count, object_count;
	struct buf frames, objects;
};

/* What the next table of a segment will hold. */
struct toc {
	struct toc *next;
	uint64_t segment;
	uint32_t base;		/* objects in its earlier tables */
	bool has_previous;
	struct place previous;	/* its newest table */
	uint32_t frame_count, object_count;
	struct buf frames, objects;
	struct toc_part cut;	/* being flushed */
};

/* Bytes to reserve with an append of a frame of that many objects. */
size_t toc_reserve(uint32_t objects);
/* Go on where the tables of the open segments end. */
MUST_CHECK int toc_load(struct store *s, struct err *e);
void toc_free_all(struct store *s);
/*
 * Note a frame that was just appended, and its objects in their order;
 * *ordinal is the first one's number.  On failure the table no longer says
 * what lies in the segment: the caller fails the store.
 */
MUST_CHECK int toc_add(struct store *s, const struct table_frame *f,
    const struct table_object *objects, uint32_t *ordinal, struct err *e);
/* In a cut: append the table of each segment that took frames. */
MUST_CHECK int toc_cut(struct store *s, struct array_cut *c, struct err *e);
/* After a good flush: forget what it made durable, and those of segments that
 * were sealed. */
void toc_tidy(struct store *s);
void toc_free(struct toc *t);
/* The two parts as tables, though nowhere yet: for table_frame_at (all but the
 * end of a frame) and table_object_at. */
void toc_views(const struct toc *t, struct table_view out[static 2]);

/* Where a table lies, and what it covers. */
struct toc_place {
	struct place place;
	uint64_t flush;
	uint32_t base, object_count;
};
/*
 * The tables of a segment, newest first, back to the first whose flush is at
 * most `after`; malloc'd.  ERR_CORRUPT or ERR_UNAVAILABLE when one cannot be
 * read; ERR_NOT_FOUND when the segment was freed.
 */
MUST_CHECK int toc_chain(struct store *s, const struct segment_info *info,
    uint64_t after, struct toc_place **out, size_t *count, struct err *e);
/* Read and parse one into `raw` (malloc'd, to be freed; the view points into
 * it). */
MUST_CHECK int toc_read(struct store *s, const struct place *at,
    uint8_t **raw, struct table_view *v, struct err *e);

#endif
