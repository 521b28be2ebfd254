/* store/qset.c - a sorted array: it is short, or all is lost; see qset.h. */
#include "store/qset.h"

#include <stdlib.h>
#include <string.h>

void qset_init(struct qset *q)
{
	memset(q, 0, sizeof(*q));
}

void qset_release(struct qset *q)
{
	free(q->items);
	qset_init(q);
}

/* How many lie before this place. */
static size_t rank(const struct qset *q, uint64_t segment, uint32_t ordinal)
{
	size_t low = 0, high = q->count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct qplace *p = &q->items[mid];

		if (p->segment < segment ||
		    (p->segment == segment && p->ordinal < ordinal))
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool qset_has(const struct qset *q, uint64_t segment, uint32_t ordinal)
{
	size_t i = rank(q, segment, ordinal);

	return i < q->count && q->items[i].segment == segment &&
	    q->items[i].ordinal == ordinal;
}

bool qset_has_segment(const struct qset *q, uint64_t segment)
{
	size_t i = rank(q, segment, 0);

	return i < q->count && q->items[i].segment == segment;
}

int qset_add(struct qset *q, uint64_t segment, uint32_t ordinal,
    struct err *e)
{
	size_t cap = q->cap ? q->cap * 2 : 64, i;
	struct qplace *items;

	if (qset_has(q, segment, ordinal))
		return 0;
	if (q->count == q->cap) {
		items = realloc(q->items, cap * sizeof(*items));
		if (!items)
			return err_set(e, ERR_NO_MEMORY,
			    "no memory for quarantines");
		q->items = items;
		q->cap = cap;
	}
	i = rank(q, segment, ordinal);
	memmove(q->items + i + 1, q->items + i,
	    (q->count - i) * sizeof(*q->items));
	q->items[i] = (struct qplace){ segment, ordinal };
	q->count++;
	return 0;
}

void qset_drop(struct qset *q, uint64_t segment, uint32_t ordinal)
{
	size_t i = rank(q, segment, ordinal);

	if (!qset_has(q, segment, ordinal))
		return;
	memmove(q->items + i, q->items + i + 1,
	    (q->count - i - 1) * sizeof(*q->items));
	q->count--;
}

void qset_drop_segment(struct qset *q, uint64_t segment)
{
	size_t from = rank(q, segment, 0), to = from;

	while (to < q->count && q->items[to].segment == segment)
		to++;
	if (to == from)
		return;
	memmove(q->items + from, q->items + to,
	    (q->count - to) * sizeof(*q->items));
	q->count -= to - from;
}
