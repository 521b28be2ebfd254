/* store/segset.c - open addressing, at most half full; see segset.h. */
#include "store/segset.h"

#include <stdlib.h>
#include <string.h>

#define CAP_MIN 16u

void segset_init(struct segset *s)
{
	memset(s, 0, sizeof(*s));
}

void segset_release(struct segset *s)
{
	free(s->slots);
	segset_init(s);
}

/* The slot that holds `segment`, or the empty one where it belongs. */
static size_t slot_of(const struct segset *s, uint64_t segment)
{
	uint64_t hash = segment * UINT64_C(0x9e3779b97f4a7c15);
	size_t i = (size_t)(hash >> 32) & (s->cap - 1);

	while (s->slots[i] != 0 && s->slots[i] != segment + 1)
		i = (i + 1) & (s->cap - 1);
	return i;
}

static int grow(struct segset *s, struct err *e)
{
	struct segset old = *s;

	s->cap = old.cap ? old.cap * 2 : CAP_MIN;
	s->slots = calloc(s->cap, sizeof(uint64_t));
	if (!s->slots) {
		*s = old;
		return err_set(e, ERR_NO_MEMORY, "no memory for pins");
	}
	for (size_t i = 0; i < old.cap; i++)
		if (old.slots[i] != 0)
			s->slots[slot_of(s, old.slots[i] - 1)] = old.slots[i];
	free(old.slots);
	return 0;
}

int segset_add(struct segset *s, uint64_t segment, struct err *e)
{
	size_t i;

	if (s->count * 2 >= s->cap && grow(s, e) != 0)
		return -1;
	i = slot_of(s, segment);
	s->count += s->slots[i] == 0;
	s->slots[i] = segment + 1;
	return 0;
}

bool segset_has(const struct segset *s, uint64_t segment)
{
	return s->cap > 0 && s->slots[slot_of(s, segment)] != 0;
}
