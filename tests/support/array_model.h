/*
 * tests/support/array_model.h - an array under test, and what must be in it.
 *
 * A model drives an array through flushes.  Each flush appends frames of
 * seeded bytes, ends with a table for each segment, and sets facts that name
 * the places of what was appended, as a store does.  The model keeps, for
 * every flush, all facts as they must be after it; so any array that is opened
 * later can be held against it:
 *
 *      model_new --> model_create --> model_open --> model_flush ... -->
 *          array_close | array_abandon ... --> model_check --> model_free
 *
 * WHAT model_check() PROVES
 *
 *   The array is exactly in the state after some flush f, no earlier than the
 *   last acked one: every fact of that state is there with its very value, no
 *   other is, and every byte that the facts name can be read.  So what is not
 *   acked is whole or absent.
 *
 * Units: bytes.  Threads: a model belongs to one thread.
 * Errors: struct err of the array, or ERR_CORRUPT with a sentence that names
 *   the flush and the key.
 */
#ifndef TESTS_SUPPORT_ARRAY_MODEL_H
#define TESTS_SUPPORT_ARRAY_MODEL_H

#include "base/err.h"
#include "raid/array.h"
#include "tests/support/dev_sim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct model;

struct model_shape {
	unsigned members, parity;
	unsigned spares;	/* blank disks beyond the members */
	uint64_t disk_size, extent_size;
	uint64_t seed;
	uint64_t call_ms;	/* limit of a device call; 0 = the default */
};

#define MODEL_KEYS 48u		/* facts that flushes set in turn */

/* Makes the disks, all blank. */
struct model *model_new(const struct model_shape *shape);
/* The disks go with it. */
void model_free(struct model *m);
struct sim *model_disks(struct model *m);

/* array_create on the first `members` disks of `s`; `wipe` as there. */
MUST_CHECK int model_create(const struct model *m, struct sim *s,
    const char *wipe, struct err *e);
/* array_open with all disks of `s` but those in `skip` (bit i = disk i);
 * blank disks are left out by themselves. */
MUST_CHECK int model_open(const struct model *m, struct sim *s, uint64_t skip,
    struct array **out, struct err *e);

/* What one flush does.  All zero: a flush with nothing but its number. */
struct model_flush {
	unsigned frames;	/* to append, at most 8 */
	uint32_t frame_size;	/* the largest; sizes are drawn below it */
	bool meta;		/* frames go to SEG_META */
	unsigned facts;		/* without frames, at most MODEL_KEYS / 2 */
	uint32_t fact_size;
	bool seal;		/* array_cut_seal_all */
	bool free_oldest;	/* a sealed segment, with the facts in it */
};

/*
 * Append, cut, flush.  When it returns 0 the flush is acked: it counts for
 * model_check(), and sim_note() of the model's disks tells so.  After -1 the
 * state it would have made is still one that model_check() may find.
 */
MUST_CHECK int model_flush(struct model *m, struct array *a,
    const struct model_flush *f, struct err *e);
/* How many flushes were acked. */
uint64_t model_acked(const struct model *m);

/*
 * Hold `a` against the model: at least `acked` flushes must be in it.  *found
 * (may be NULL) is the flush whose state it has.
 */
MUST_CHECK int model_check(const struct model *m, struct array *a,
    uint64_t acked, uint64_t *found, struct err *e);
/* It must be just in the state after flush `which`. */
MUST_CHECK int model_check_at(const struct model *m, struct array *a,
    uint64_t which, struct err *e);

/* One frame and one fact beside those of the model, durable; and whether they
 * are there: what proves that an array still works. */
MUST_CHECK int model_probe(struct array *a, uint64_t seed, struct err *e);
MUST_CHECK int model_probe_check(struct array *a, uint64_t seed,
    struct err *e);

/* The disks that are active members now, as bits. */
uint64_t model_active(struct array *a);
/* `count` of the disks in `from`, drawn. */
uint64_t model_draw(uint64_t from, unsigned count, uint64_t *random);

#endif
