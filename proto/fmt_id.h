/*
 * proto/fmt_id.h - the name of an object.  [format]
 *
 * id = SHA-256(type byte || plaintext) in the plain keyspace (0).  An
 * encrypted client's keyspace uses HMAC-SHA-256(id key, type || plaintext);
 * nothing is shared across keyspaces, so the key of every index is
 * (keyspace, id).
 */
#ifndef PROTO_FMT_ID_H
#define PROTO_FMT_ID_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define ID_SIZE 32

enum object_type {		/* numbers are part of the format */
	OBJECT_CHUNK = 1,	/* bytes of content */
	OBJECT_LIST = 2,	/* page of a file's content list */
	OBJECT_TREE = 3,	/* page of a directory */
	OBJECT_FACTS = 4,	/* paths, tags, host of a snapshot */
};

struct id {
	uint8_t bytes[ID_SIZE];
};

/* The id of a plain object.  Fails only for lack of memory. */
MUST_CHECK int id_of(struct id *out, enum object_type type, const void *plain,
    size_t size, struct err *e);
bool object_type_known(unsigned type);
/* True for the types that name other objects. */
static inline bool object_has_refs(enum object_type t)
{
	return t == OBJECT_LIST || t == OBJECT_TREE;
}
static inline bool id_equal(const struct id *a, const struct id *b)
{
	return memcmp(a->bytes, b->bytes, ID_SIZE) == 0;
}
static inline bool id_is_zero(const struct id *a)
{
	static const struct id zero;

	return id_equal(a, &zero);
}

#endif
