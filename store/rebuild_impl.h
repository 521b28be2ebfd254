/*
 * store/rebuild_impl.h - what rebuild.c, rebuild_all.c and catch_up.c share.
 */
#ifndef STORE_REBUILD_IMPL_H
#define STORE_REBUILD_IMPL_H

#include "base/err.h"
#include "raid/array.h"
#include "store/fmt_table.h"
#include "store/store.h"

#include <stdbool.h>
#include <stdint.h>

struct store;

/* The index from its position on.  Any failure means: build it anew. */
MUST_CHECK int catch_up(struct store *s, const struct array_position *from,
    struct err *e);
/* The index from nothing. */
MUST_CHECK int rebuild_all(struct store *s, const struct store_open *o,
    struct err *e);
/* True up to where the array is now. */
MUST_CHECK int index_mark_now(struct store *s, struct err *e);
/* Write the `durable` overlay out, without moving the position. */
MUST_CHECK int overlay_write_out(struct store *s, struct err *e);

#endif
