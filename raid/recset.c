#include "raid/recset.h"

#include <stdlib.h>
#include <string.h>

void recset_init(struct recset *r)
{
	memset(r, 0, sizeof(*r));
}

void recset_release(struct recset *r)
{
	for (size_t i = 0; i < r->count; i++)
		free((void *)(uintptr_t)r->recs[i].body);
	free(r->recs);
	recset_init(r);
}

int recset_add(struct recset *r, uint16_t type, const void *body,
    size_t size, struct err *e)
{
	size_t cap = r->cap ? r->cap * 2 : 16;
	uint8_t *copy = malloc(size + 1);
	struct log_rec *recs = r->recs;

	if (copy && r->count == r->cap)
		recs = realloc(r->recs, cap * sizeof(*recs));
	if (!copy || !recs) {
		free(copy);
		return err_set(e, ERR_NO_MEMORY, "no memory for log records");
	}
	if (recs != r->recs || r->count == r->cap)
		r->cap = cap;
	r->recs = recs;
	memcpy(copy, body, size);
	r->recs[r->count++] = (struct log_rec){ type, (uint32_t)size, copy };
	return 0;
}
