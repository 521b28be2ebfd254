/*
 * store/mark.h - which objects are reached, by which domain.
 *
 * A mark covers the segments that there were when it began: one bit per
 * object and domain, by ordinal, in a file that is mapped and already
 * unlinked.  It is used twice: by collection, to know what is dead and whose
 * ownership ends; by a rebuild of the index, to know the owners.
 *
 *      mark_new --> mark_segment ... --> mark_ready --> mark_touch,
 *               mark_run --> mark_condemn --> mark_hides ... --> mark_free
 *
 * Units: ordinals.  Memory: 24 bytes a segment and the queue of pages (spilled
 *   beyond MARK_QUEUE_MEMORY); the bits are the kernel's page cache.
 * Threads: mark_touch and mark_hides need the cut lock; all else is the
 *   collector's alone.
 */
#ifndef STORE_MARK_H
#define STORE_MARK_H

#include "base/err.h"
#include "raid/array.h"
#include "store/entry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mark;
struct store;

#define MARK_QUEUE_MEMORY ((size_t)8 << 20)

MUST_CHECK int mark_new(struct mark **out, struct store *s, struct err *e);
void mark_free(struct mark *m);			/* NULL is fine */
/* A segment of so many objects, ids ascending; before mark_ready. */
MUST_CHECK int mark_segment(struct mark *m, uint64_t segment,
    uint32_t objects, struct err *e);
/* This one may lose objects (the others are only walked). */
void mark_candidate(struct mark *m, uint64_t segment);
/* A domain that may own something; before mark_ready. */
MUST_CHECK int mark_domain(struct mark *m, uint32_t domain, struct err *e);
/* Make the bits. */
MUST_CHECK int mark_ready(struct mark *m, struct err *e);

/*
 * `domain` reaches this object: sets its bit and, for a page met for the first
 * time, queues it.  Outside the marked segments nothing happens.  Cut lock
 * held.
 */
MUST_CHECK int mark_touch(struct mark *m, const struct key *k,
    const struct entry *en, uint32_t domain, struct err *e);
struct mark_result {
	uint64_t pages;		/* walked */
	uint64_t damaged;	/* pages that cannot be read right: what is
				 * below them is not reached through them */
	uint64_t away;		/* pages on members that are away */
	uint64_t missing;	/* refs to what is not there or quarantined */
};
/* The same for a page that stays whatever the bits say: it is queued even
 * outside the marked segments. */
MUST_CHECK int mark_touch_page(struct mark *m, const struct key *k,
    const struct entry *en, uint32_t domain, struct err *e);
/*
 * Walk down from all that is queued until nothing is; adds to *r.  Takes the
 * cut lock for moments.  ERR_CANCELLED, and ERR_IO, ERR_NO_SPACE of the queue.
 */
MUST_CHECK int mark_run(struct mark *m, struct mark_result *r,
    struct job_ctl *ctl, struct err *e);
/* The last step: if nothing is queued any more, from now on what is not
 * reached is gone (true).  Else run again.  Cut lock held. */
bool mark_condemn(struct mark *m);

/*
 * Condemned for `domain` (0 = for everybody)?  False while marking goes on,
 * for objects outside the candidates, and for what is reached.
 */
bool mark_hides(const struct mark *m, const struct entry *en,
    uint32_t domain);
/* Plain questions, whatever the state: is the object covered; does the domain
 * (0 = any) reach it. */
bool mark_covers(const struct mark *m, uint64_t segment, uint32_t ordinal,
    bool candidates_only);
bool mark_reached(const struct mark *m, uint64_t segment, uint32_t ordinal,
    uint32_t domain);
/* The domains of the mark, ascending; mark_domain_at(m, i) for i < count. */
size_t mark_domain_count(const struct mark *m);
uint32_t mark_domain_at(const struct mark *m, size_t i);

#endif
