/*
 * store/gc_impl.h - what the files of the collection share.
 */
#ifndef STORE_GC_IMPL_H
#define STORE_GC_IMPL_H

#include "base/err.h"
#include "raid/array.h"
#include "store/fmt_table.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mark;
struct store;

struct gc_segment {
	uint64_t id;
	uint32_t objects;
	bool candidate;
	bool wants_rewrite;	/* raid asks for it */
	int spare;		/* strips that may still be lost */
	uint64_t capacity, used_bytes;
	uint64_t live_bytes;	/* of frames with a live object */
};

struct gc {
	struct store *store;
	struct mark *mark;
	struct gc_segment *segments;
	size_t count, cap;
	uint64_t sealed_flush;	/* of the cut that ends the marked segments */
	uint64_t marked_flush;	/* ... after which all was touched at once */
	struct prune_report *report;
	struct job_ctl *ctl;
	bool mend;		/* only what raid wants rewritten, or is dead */
};

bool gc_cancelled(const struct gc *g);
/* Sets the bits of all that is reached; on return 0 the rest is condemned. */
MUST_CHECK int gc_mark(struct gc *g, struct err *e);
/* Delete the condemned from the index, and end the condemning. */
MUST_CHECK int gc_forget(struct gc *g, struct err *e);
/* Give back the space of the candidates. */
MUST_CHECK int gc_sweep(struct gc *g, struct err *e);

/*
 * Calls `each` for every frame in the tables of a segment with flush above
 * `after` and at most `until`, oldest table first.  `first` is the index of
 * the frame's first object in the table.
 */
MUST_CHECK int gc_frames(struct gc *g, uint64_t segment, uint64_t after,
    uint64_t until, int (*each)(struct gc *g, void *arg,
    const struct table_view *t, const struct table_frame *f, uint32_t first,
    struct err *e), void *arg, struct err *e);

#endif
