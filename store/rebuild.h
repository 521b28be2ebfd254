/*
 * store/rebuild.h - bringing the index to where the array is.
 */
#ifndef STORE_REBUILD_H
#define STORE_REBUILD_H

#include "base/err.h"
#include "store/store.h"

#include <stdbool.h>

/*
 * Before the committer runs: catch up from the index's position, or build it
 * anew on any doubt; *rebuilt says which.  `o` for progress and warnings.
 */
MUST_CHECK int index_bring_up(struct store *s, const struct store_open *o,
    bool *rebuilt, struct err *e);

#endif
