/*
 * client/names.h - user and group names, both ways, remembered.
 *
 * Looking up a name may ask a directory service; a tree has few owners, so
 * the answers of a run are kept (at most NAMES_MAX of each kind).
 *
 * Threads: one owner.
 */
#ifndef CLIENT_NAMES_H
#define CLIENT_NAMES_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAMES_MAX 4096

struct names;

enum names_kind { NAMES_USER, NAMES_GROUP };

MUST_CHECK int names_new(struct names **out, struct err *e);
void names_free(struct names *n);
/* The name of an id, or NULL when it has none; valid until names_free(). */
const char *names_of(struct names *n, enum names_kind kind, uint32_t id);
/* The id of a name (bytes); `fallback` when there is none here. */
uint32_t names_id(struct names *n, enum names_kind kind, const void *name,
    size_t size, uint32_t fallback);

#endif
