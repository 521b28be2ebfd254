/*
 * store/object.h - one object's plain bytes, for the store's own needs.
 */
#ifndef STORE_OBJECT_H
#define STORE_OBJECT_H

#include "base/err.h"
#include "proto/fmt_id.h"

#include <stddef.h>
#include <stdint.h>

struct store;

/* Whatever its owners; its id is checked.  malloc'd.  ERR_NOT_FOUND,
 * ERR_CORRUPT (damaged, quarantined, of another type), ERR_UNAVAILABLE. */
MUST_CHECK int object_load(struct store *s, const struct id *id,
    enum object_type type, uint8_t **out, size_t *size, struct err *e);

#endif
