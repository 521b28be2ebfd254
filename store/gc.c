/*
 * store/gc.c - collection beside running pushes.
 *
 * THE PROMISE
 *
 *   Nothing that a listed snapshot, a running session or a resumable push
 *   needs is deleted, and no push waits for the collector's disk I/O.
 *
 * THE ORDER
 *
 *   seal       a flush that seals all open segments: what was stored until
 *              then lies in segments that do not change any more
 *   watch      the mark is made of these segments and installed, under the cut
 *              lock; candidates are those that nobody pins at this moment.
 *              From here on `have`, duplicates and acceptance set bits.
 *   settle     a second flush, folded: the overlays hold nothing older than
 *              the watch
 *   mark       roots: snapshots; pages in segments that are no candidates;
 *              pages stored between seal and settle.  Down from there.
 *   condemn    when nothing is queued, under the cut lock: what has no bit is
 *              gone, for look-ups at once
 *   forget     the index loses it, in any order: its position is taken back
 *              first and given again at the end, so that a crash in between
 *              costs a rebuild and nothing else
 *   sweep      candidates, emptiest first: live frames are appended anew,
 *              made durable and folded; then the segment is freed, together
 *              with the floor: no index older than this fold is believed
 *
 * INVARIANTS   (tests/store/test_gc.c)
 *
 *   G1  What is kept is closed under refs: each page with an owner, wherever
 *       it lies, has had its refs touched for that owner.
 *   G2  When a segment is freed, no entry of a synced index names it.
 *   G3  An object that was condemned and comes again is stored anew.
 *
 * NOT DONE
 *
 *   No reference counts: a crash would have to repair them.  No ids condemned
 *   in the log: places leave the index instead, and frees come last.
 */
#include "store/gc.h"

#include "store/commit.h"
#include "store/gc_impl.h"
#include "store/impl.h"
#include "store/mark.h"
#include "store/toc.h"

#include <stdlib.h>

bool gc_cancelled(const struct gc *g)
{
	return g->ctl && atomic_load(&g->ctl->cancel);
}

int gc_frames(struct gc *g, uint64_t segment, uint64_t after,
    uint64_t until, int (*each)(struct gc *g, void *arg,
    const struct table_view *t, const struct table_frame *f, uint32_t first,
    struct err *e), void *arg, struct err *e)
{
	struct segment_info info;
	struct toc_place *list = NULL;
	size_t count = 0;
	int rc = 0;

	if (array_segment(g->store->array, segment, &info, e) != 0 ||
	    toc_chain(g->store, &info, after, &list, &count, e) != 0)
		return -1;
	while (count > 0 && rc == 0) {
		const struct toc_place *at = &list[--count];
		uint32_t object = 0;
		struct table_view t;
		uint8_t *raw;

		if (at->flush > until)
			break;
		rc = toc_read(g->store, &at->place, &raw, &t, e);
		if (rc != 0)
			break;
		for (uint32_t i = 0; i < t.frame_count && rc == 0; i++) {
			struct table_frame f;

			table_frame_at(&t, i, &f);
			rc = each(g, arg, &t, &f, object, e);
			object += f.object_count;
		}
		free(raw);
	}
	free(list);
	return rc;
}

/* The condemning is over, or never came. */
static void unwatch(struct gc *g)
{
	struct store *s = g->store;

	pthread_mutex_lock(&s->cut);
	s->mark = NULL;
	pthread_mutex_unlock(&s->cut);
}

static int run(struct gc *g, struct err *e)
{
	int rc = -1;

	if (gc_mark(g, e) == 0 && gc_forget(g, e) == 0)
		rc = gc_sweep(g, e);
	unwatch(g);
	mark_free(g->mark);
	free(g->segments);
	return rc;
}

int gc_run(struct store *s, struct prune_report *report,
    struct job_ctl *ctl, struct err *e)
{
	struct gc g = { .store = s, .report = report, .ctl = ctl };

	return run(&g, e);
}

int gc_mend(struct store *s, struct prune_report *report,
    struct job_ctl *ctl, struct err *e)
{
	struct gc g = { .store = s, .report = report, .ctl = ctl,
		.mend = true };

	return run(&g, e);
}
