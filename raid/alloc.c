#include "raid/alloc.h"

#include <stdlib.h>
#include <string.h>

void alloc_init(struct alloc *a)
{
	memset(a, 0, sizeof(*a));
}

void alloc_release(struct alloc *a)
{
	for (size_t i = 0; i < RAID_MEMBERS_MAX; i++)
		free(a->m[i].bits);
	alloc_init(a);
}

int alloc_add(struct alloc *a, unsigned index, uint32_t count, struct err *e)
{
	struct alloc_member *m = &a->m[index];

	m->bits = calloc(1, count / 8 + 1);
	if (!m->bits)
		return err_set(e, ERR_NO_MEMORY,
		    "no memory for a map of %u extents", count);
	m->count = count;
	return 0;
}

static bool bit(const struct alloc_member *m, uint32_t i)
{
	return (m->bits[i / 8] >> i % 8 & 1) != 0;
}

bool alloc_mark(struct alloc *a, unsigned index, uint32_t extent)
{
	struct alloc_member *m = &a->m[index];

	if (extent >= m->count || bit(m, extent))
		return false;
	m->bits[extent / 8] |= (uint8_t)(1u << extent % 8);
	m->used++;
	return true;
}

bool alloc_take(struct alloc *a, unsigned index, uint32_t *extent)
{
	struct alloc_member *m = &a->m[index];
	uint32_t i = m->next;

	if (m->used >= m->count)
		return false;
	do {
		if (i >= m->count)
			i = 0;
		else if (m->bits[i / 8] == 0xff && i % 8 == 0)
			i += 8;
		else if (bit(m, i))
			i++;
		else
			break;
	} while (true);
	alloc_mark(a, index, i);
	m->next = i + 1;
	*extent = i;
	return true;
}

void alloc_give(struct alloc *a, unsigned index, uint32_t extent)
{
	struct alloc_member *m = &a->m[index];

	if (extent >= m->count || !bit(m, extent))
		return;
	m->bits[extent / 8] &= (uint8_t)~(1u << extent % 8);
	m->used--;
}

uint32_t alloc_free(const struct alloc *a, unsigned index)
{
	return a->m[index].count - a->m[index].used;
}

/* Members with room into `set`, most room first, at most SEG_WIDTH_MAX. */
static uint8_t widest(const struct alloc_room *r, uint8_t *set)
{
	uint8_t n = 0;

	for (size_t i = 0; i < r->count; i++) {
		uint8_t at = n;

		if (!r->writable[i] || r->room[i] == 0)
			continue;
		while (at > 0 && r->room[set[at - 1]] < r->room[i])
			at--;
		if (at == SEG_WIDTH_MAX)
			continue;
		if (n < SEG_WIDTH_MAX)
			n++;
		memmove(set + at + 1, set + at, (size_t)(n - 1 - at));
		set[at] = (uint8_t)i;
	}
	return n;
}

bool alloc_choose(const struct alloc_room *r, unsigned parity,
    enum seg_class class, struct alloc_choice *out)
{
	unsigned writable = 0;

	for (size_t i = 0; i < r->count; i++)
		writable += r->writable[i];
	if (writable == 0)
		return false;
	if (parity > writable - 1)
		parity = writable - 1;
	out->width = widest(r, out->member);
	if (out->width < parity + 1)
		return false;
	if (class == SEG_META && parity < SEG_PARITY_MAX &&
	    out->width >= parity + 2)
		parity++;
	out->parity = (uint8_t)parity;
	return true;
}

uint64_t alloc_strip_room(uint32_t rows, uint32_t row)
{
	uint32_t left = row < rows ? rows - row : 0;
	uint32_t tail = left % (1 + STRIP_UNITS_MAX);
	uint64_t units = (uint64_t)(left / (1 + STRIP_UNITS_MAX)) *
	    STRIP_UNITS_MAX;

	if (tail >= 2)
		units += tail - 1;
	return units * RAID_ROW;
}

/* How many segments may be taken at once without changing the choice. */
static uint32_t batch(const struct alloc_room *r, const struct alloc_choice *c)
{
	uint32_t least = r->room[c->member[c->width - 1]];
	uint32_t outside = 0;
	uint64_t in = 0;

	if (c->width < SEG_WIDTH_MAX)
		return least;
	for (size_t i = 0; i < c->width; i++)
		in |= UINT64_C(1) << c->member[i];
	for (size_t i = 0; i < r->count; i++)
		if ((in >> i & 1) == 0 && r->writable[i] &&
		    r->room[i] > outside)
			outside = r->room[i];
	if (outside == 0)
		return least;
	if (least > outside)
		return least - outside;
	/* Equals take turns: in steps of 1/256 the error is below that. */
	return least / 256 + 1;
}

uint64_t alloc_free_bytes(struct alloc_room *r, unsigned parity,
    uint32_t rows)
{
	uint64_t strip = alloc_strip_room(rows, 0);
	uint64_t bytes = 0;
	struct alloc_choice c;

	while (alloc_choose(r, parity, SEG_DATA, &c)) {
		uint32_t n = batch(r, &c);

		bytes += strip * n * ((unsigned)c.width - c.parity);
		for (size_t i = 0; i < c.width; i++)
			r->room[c.member[i]] -= n;
	}
	return bytes;
}
