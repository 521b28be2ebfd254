/*
 * store/roots.h - what all marking begins with: the snapshots.
 */
#ifndef STORE_ROOTS_H
#define STORE_ROOTS_H

#include "base/err.h"

#include <stdint.h>

struct mark;
struct store;

/* A snapshot without a client record (which cannot be) is kept by this. */
#define DOMAIN_NOBODY UINT32_MAX

/* Tell the mark of every client's domain. */
MUST_CHECK int roots_domains(struct store *s, struct mark *m,
    struct err *e);
/* Touch root and facts of every snapshot for its client's domain; those that
 * are not there are added to *missing. */
MUST_CHECK int roots_touch(struct store *s, struct mark *m,
    uint64_t *missing, struct err *e);

#endif
