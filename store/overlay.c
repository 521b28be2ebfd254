/* store/overlay.c - chained hash table; see overlay.h. */
#include "store/overlay.h"

#include "base/le.h"

#include <stdlib.h>
#include <string.h>

#define BUCKETS_MIN 1024u

void overlay_init(struct overlay *o)
{
	memset(o, 0, sizeof(*o));
}

static void node_free(struct overlay_node *n)
{
	free(n->entry);
	free(n);
}

void overlay_release(struct overlay *o)
{
	for (size_t i = 0; i < o->bucket_count; i++)
		for (struct overlay_node *n = o->buckets[i], *next; n;
		    n = next) {
			next = n->next;
			node_free(n);
		}
	free(o->buckets);
	overlay_init(o);
}

/* Ids are SHA-256 sums: any eight bytes of them are a hash. */
static size_t bucket_of(const struct overlay *o, const struct key *k)
{
	return (size_t)le64_get(k->bytes + 12) & (o->bucket_count - 1);
}

static struct overlay_node **slot_of(const struct overlay *o,
    const struct key *k)
{
	struct overlay_node **at = &o->buckets[bucket_of(o, k)];

	while (*at && memcmp((*at)->key.bytes, k->bytes, KEY_SIZE) != 0)
		at = &(*at)->next;
	return at;
}

struct entry *overlay_find(const struct overlay *o, const struct key *k)
{
	struct overlay_node *n;

	if (o->count == 0)
		return NULL;
	n = *slot_of(o, k);
	return n ? n->entry : NULL;
}

/* Best effort: longer chains are slower, not wrong. */
static void grow(struct overlay *o)
{
	size_t count = o->bucket_count ? o->bucket_count * 2 : BUCKETS_MIN;
	struct overlay old = *o;

	o->buckets = calloc(count, sizeof(struct overlay_node *));
	if (!o->buckets) {
		*o = old;
		return;
	}
	o->bucket_count = count;
	for (size_t i = 0; i < old.bucket_count; i++)
		for (struct overlay_node *n = old.buckets[i], *next; n;
		    n = next) {
			size_t b = bucket_of(o, &n->key);

			next = n->next;
			n->next = o->buckets[b];
			o->buckets[b] = n;
		}
	free(old.buckets);
}

/* `at` is the slot of the key of `n`; the older node goes. */
static void slot_set(struct overlay *o, struct overlay_node **at,
    struct overlay_node *n)
{
	struct overlay_node *old = *at;

	n->next = old ? old->next : NULL;
	*at = n;
	if (old)
		node_free(old);
	else
		o->count++;
}

int overlay_put(struct overlay *o, const struct key *k, struct entry *en,
    struct err *e)
{
	struct overlay_node *n = malloc(sizeof(*n));

	if (o->count >= o->bucket_count)
		grow(o);
	if (!n || o->bucket_count == 0) {
		free(n);
		free(en);
		return err_set(e, ERR_NO_MEMORY, "no memory for the overlay");
	}
	n->key = *k;
	n->entry = en;
	slot_set(o, slot_of(o, k), n);
	return 0;
}

void overlay_merge(struct overlay *to, struct overlay *from)
{
	if (to->count == 0) {
		struct overlay t = *to;

		*to = *from;
		*from = t;
		overlay_release(from);
		return;
	}
	for (size_t i = 0; i < from->bucket_count; i++)
		for (struct overlay_node *n = from->buckets[i], *next; n;
		    n = next) {
			next = n->next;
			if (to->count >= to->bucket_count)
				grow(to);
			slot_set(to, slot_of(to, &n->key), n);
		}
	free(from->buckets);
	overlay_init(from);
}

void overlay_each(struct overlay *o,
    void (*each)(void *arg, struct overlay_node *n), void *arg)
{
	for (size_t i = 0; i < o->bucket_count; i++)
		for (struct overlay_node *n = o->buckets[i]; n; n = n->next)
			each(arg, n);
}

static int by_key(const void *a, const void *b)
{
	const struct overlay_node *const *x = a, *const *y = b;

	return memcmp((*x)->key.bytes, (*y)->key.bytes, KEY_SIZE);
}

int overlay_sorted(const struct overlay *o, struct overlay_node ***out,
    struct err *e)
{
	struct overlay_node **list;
	size_t n = 0;

	list = malloc((o->count + 1) * sizeof(struct overlay_node *));
	if (!list)
		return err_set(e, ERR_NO_MEMORY,
		    "no memory to fold %zu entries", o->count);
	for (size_t i = 0; i < o->bucket_count; i++)
		for (struct overlay_node *at = o->buckets[i]; at;
		    at = at->next)
			list[n++] = at;
	qsort(list, n, sizeof(struct overlay_node *), by_key);
	*out = list;
	return 0;
}
