/* store/looks.c - overlays before index, filters over both; see looks.h. */
#include "store/looks.h"

#include "store/commit.h"
#include "store/impl.h"
#include "store/index.h"
#include "store/mark.h"

#include <stdlib.h>
#include <string.h>

void looks_init(struct looks *l)
{
	memset(l, 0, sizeof(*l));
}

static void bases_free(struct looks *l)
{
	for (size_t i = 0; l->read && i < l->count; i++)
		free(l->bases[i]);
	l->read = false;
}

void looks_reset(struct looks *l)
{
	bases_free(l);
	l->count = 0;
}

void looks_release(struct looks *l)
{
	bases_free(l);
	free(l->keys);
	free(l->bases);
	looks_init(l);
}

static int grow(struct looks *l, struct err *e)
{
	size_t cap = l->cap ? l->cap * 2 : 64;
	struct key *keys = realloc(l->keys, cap * sizeof(*keys));
	struct entry **bases;

	if (keys)
		l->keys = keys;
	bases = realloc(l->bases, cap * sizeof(struct entry *));
	if (bases)
		l->bases = bases;
	if (!keys || !bases)
		return err_set(e, ERR_NO_MEMORY, "no memory to look up");
	l->cap = cap;
	return 0;
}

int looks_add(struct looks *l, const struct id *id, struct err *e)
{
	if (l->count == l->cap && grow(l, e) != 0)
		return -1;
	key_of(&l->keys[l->count++], KEYSPACE_PLAIN, id);
	return 0;
}

int looks_lock(struct store *s, struct looks *l, bool room, struct err *e)
{
	uint64_t generation;

	for (;;) {
		pthread_mutex_lock(&s->cut);
		generation = s->generation;
		pthread_mutex_unlock(&s->cut);
		bases_free(l);
		if (index_read(s->index, l->keys, l->bases, l->count, e) != 0)
			return -1;
		l->read = true;
		pthread_mutex_lock(&s->cut);
		if (room && committer_room(s, e) != 0) {
			pthread_mutex_unlock(&s->cut);
			return -1;
		}
		if (s->generation == generation)
			return 0;
		pthread_mutex_unlock(&s->cut);
	}
}

static const struct entry *raw(const struct store *s, const struct key *k,
    const struct entry *base)
{
	const struct entry *en = overlay_find(&s->pending, k);

	if (!en)
		en = overlay_find(&s->flushing, k);
	if (!en)
		en = overlay_find(&s->durable, k);
	return en ? en : base;
}

static bool hidden(const struct store *s, const struct entry *en)
{
	return entry_quarantined(s, en) ||
	    (s->mark && mark_hides(s->mark, en, 0));
}

const struct entry *looks_raw(const struct store *s, const struct looks *l,
    size_t i)
{
	return raw(s, &l->keys[i], l->bases[i]);
}

const struct entry *looks_durable(const struct store *s,
    const struct looks *l, size_t i)
{
	const struct entry *en = overlay_find(&s->durable, &l->keys[i]);

	return en ? en : l->bases[i];
}

const struct entry *looks_entry(const struct store *s,
    const struct looks *l, size_t i)
{
	const struct entry *en = looks_raw(s, l, i);

	return en && !hidden(s, en) ? en : NULL;
}

bool entry_present(const struct store *s, const struct entry *en,
    uint32_t domain)
{
	return entry_owned(en, domain) && entry_whole(en) &&
	    !(s->mark && mark_hides(s->mark, en, domain));
}

static void entry_place(struct entry *en, const struct entry *from)
{
	en->place = from->place;
	en->ordinal = from->ordinal;
}

int look_up(struct store *s, const struct key *k, struct entry **out,
    struct err *e)
{
	struct looks l;
	const struct entry *en, *durable;
	struct id id;
	int rc = -1;

	*out = NULL;
	looks_init(&l);
	key_id(k, &id);
	if (looks_add(&l, &id, e) == 0 && looks_lock(s, &l, false, e) == 0) {
		en = looks_entry(s, &l, 0);
		rc = 0;
		durable = looks_durable(s, &l, 0);
		if (en && durable && !hidden(s, durable)) {
			*out = entry_copy(en, 0);
			if (!*out)
				rc = err_set(e, ERR_NO_MEMORY,
				    "no memory for an entry");
			else
				entry_place(*out, durable);
		}
		pthread_mutex_unlock(&s->cut);
	}
	looks_release(&l);
	return rc;
}
