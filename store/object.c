/* store/object.c - see object.h. */
#include "store/object.h"

#include "proto/fmt_frame.h"
#include "store/cache.h"
#include "store/impl.h"
#include "store/looks.h"

#include <stdlib.h>
#include <string.h>

#define TRIES 4		/* a collection may move it meanwhile */

/* Out of its frame, checked against its id. */
static int take_out(const struct cached *c, const struct id *id,
    enum object_type type, uint8_t **out, size_t *size, struct err *e)
{
	struct frame_object o = { .size = 0 };
	uint8_t *plain = NULL;
	struct frame_view v;
	struct id real;
	uint32_t i;
	int rc = -1;

	if (frame_parse(&v, c->data, c->size, e) != 0)
		return -1;
	for (i = 0; i < v.object_count; i++) {
		frame_object_at(&v, i, &o);
		if (id_equal(&o.id, id))
			break;
	}
	if (i == v.object_count || o.type != type)
		return err_set(e, ERR_CORRUPT,
		    "an object is not where the index says");
	plain = malloc(v.plain_size + 1u);
	if (!plain)
		return err_set(e, ERR_NO_MEMORY, "no memory for an object");
	if (frame_unpack(&v, plain, e) == 0 &&
	    id_of(&real, type, plain + o.offset, o.size, e) == 0) {
		rc = id_equal(&real, id) ? 0 :
		    err_set(e, ERR_CORRUPT, "an object has another id");
	}
	if (rc == 0) {
		memmove(plain, plain + o.offset, o.size);
		*out = plain;
		*size = o.size;
		plain = NULL;
	}
	free(plain);
	return rc;
}

int object_load(struct store *s, const struct id *id,
    enum object_type type, uint8_t **out, size_t *size, struct err *e)
{
	struct entry *en;
	struct cached *c;
	struct place at;
	struct key k;
	int rc;

	key_of(&k, KEYSPACE_PLAIN, id);
	for (unsigned try = 0; try < TRIES; try++) {
		if (look_up(s, &k, &en, e) != 0)
			return -1;
		if (!en)
			return err_set(e, ERR_NOT_FOUND, "no such object");
		at = en->place;
		free(en);
		switch (cache_frame(s->cache, s->array, &at, &c, e)) {
		case ARRAY_READ_OK:
			rc = take_out(c, id, type, out, size, e);
			cache_drop(s->cache, c);
			return rc;
		case ARRAY_READ_FREED:
			continue;
		case ARRAY_READ_DAMAGED:
			e->code = ERR_CORRUPT;
			return -1;
		case ARRAY_READ_UNAVAILABLE:
			e->code = ERR_UNAVAILABLE;
			return -1;
		}
	}
	return err_set(e, ERR_UNAVAILABLE, "an object moves too often");
}
