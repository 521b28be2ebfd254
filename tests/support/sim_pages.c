#include "tests/support/sim_pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_leaf {
	atomic_uint refs;	/* tables that share it; written only at 1 */
	struct sim_page *pages[SIM_LEAF_PAGES];
};

static const uint8_t zeros[SIM_PAGE];

void *sim_alloc(size_t count, size_t size)
{
	void *p = calloc(count ? count : 1, size);

	if (!p) {
		fprintf(stderr, "simulated disks: out of memory\n");
		abort();
	}
	return p;
}

struct sim_page *sim_page_new(const void *data)
{
	struct sim_page *p = sim_alloc(1, sizeof(*p));

	atomic_init(&p->refs, 1);
	memcpy(p->data, data, SIM_PAGE);
	return p;
}

struct sim_page *sim_page_ref(struct sim_page *p)
{
	if (p)
		atomic_fetch_add(&p->refs, 1);
	return p;
}

void sim_page_unref(struct sim_page *p)
{
	if (p && atomic_fetch_sub(&p->refs, 1) == 1)
		free(p);
}

static void leaf_unref(struct sim_leaf *l)
{
	if (!l || atomic_fetch_sub(&l->refs, 1) != 1)
		return;
	for (size_t i = 0; i < SIM_LEAF_PAGES; i++)
		sim_page_unref(l->pages[i]);
	free(l);
}

/* A leaf that this table alone holds, so that it may be changed. */
static struct sim_leaf *leaf_own(struct sim_pages *t, size_t i)
{
	struct sim_leaf *old = t->leaves[i], *l;

	if (old && atomic_load(&old->refs) == 1)
		return old;
	l = sim_alloc(1, sizeof(*l));
	atomic_init(&l->refs, 1);
	for (size_t k = 0; old && k < SIM_LEAF_PAGES; k++)
		l->pages[k] = sim_page_ref(old->pages[k]);
	leaf_unref(old);
	t->leaves[i] = l;
	return l;
}

void pages_init(struct sim_pages *t, uint64_t bytes)
{
	t->count = (bytes + SIM_PAGE - 1) / SIM_PAGE;
	t->leaf_count = (size_t)((t->count + SIM_LEAF_PAGES - 1) /
	    SIM_LEAF_PAGES);
	t->leaves = sim_alloc(t->leaf_count, sizeof(struct sim_leaf *));
}

void pages_copy(struct sim_pages *dst, const struct sim_pages *src)
{
	*dst = *src;
	dst->leaves = sim_alloc(src->leaf_count, sizeof(struct sim_leaf *));
	for (size_t i = 0; i < src->leaf_count; i++) {
		dst->leaves[i] = src->leaves[i];
		if (dst->leaves[i])
			atomic_fetch_add(&dst->leaves[i]->refs, 1);
	}
}

void pages_release(struct sim_pages *t)
{
	for (size_t i = 0; i < t->leaf_count; i++)
		leaf_unref(t->leaves[i]);
	free(t->leaves);
	*t = (struct sim_pages){ 0 };
}

struct sim_page *pages_get(const struct sim_pages *t, uint64_t index)
{
	const struct sim_leaf *l;

	if (index >= t->count)
		return NULL;
	l = t->leaves[index / SIM_LEAF_PAGES];
	return l ? l->pages[index % SIM_LEAF_PAGES] : NULL;
}

void pages_set(struct sim_pages *t, uint64_t index, struct sim_page *p)
{
	struct sim_page **at;

	if (index >= t->count)
		return;
	if (!p && !t->leaves[index / SIM_LEAF_PAGES])
		return;
	at = &leaf_own(t, (size_t)(index / SIM_LEAF_PAGES))
	    ->pages[index % SIM_LEAF_PAGES];
	sim_page_ref(p);
	sim_page_unref(*at);
	*at = p;
}

void pages_read(const struct sim_pages *t, uint64_t index,
    uint8_t out[static SIM_PAGE])
{
	const struct sim_page *p = pages_get(t, index);

	memcpy(out, p ? p->data : zeros, SIM_PAGE);
}

static int page_equal(const struct sim_page *a, const struct sim_page *b)
{
	if (a == b)
		return 1;
	return memcmp(a ? a->data : zeros, b ? b->data : zeros, SIM_PAGE) == 0;
}

uint64_t pages_differ(const struct sim_pages *a, const struct sim_pages *b)
{
	uint64_t n = a->count > b->count ? a->count : b->count;

	for (uint64_t i = 0; i < n; i++) {
		size_t k = (size_t)(i / SIM_LEAF_PAGES);

		if (i % SIM_LEAF_PAGES == 0 && k < a->leaf_count &&
		    k < b->leaf_count && a->leaves[k] == b->leaves[k]) {
			i += SIM_LEAF_PAGES - 1;
			continue;
		}
		if (!page_equal(pages_get(a, i), pages_get(b, i)))
			return i;
	}
	return UINT64_MAX;
}

uint64_t pages_used(const struct sim_pages *t)
{
	uint64_t n = 0;

	for (uint64_t i = 0; i < t->count; i++)
		n += pages_get(t, i) != NULL;
	return n;
}
