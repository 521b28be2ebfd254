/*
 * store/gc_forget.c - the index loses what was condemned; see gc.c.
 *
 * Objects without a bit are deleted, owners without a bit are cut.  Each
 * entry is judged as it is in the transaction that changes it: what was
 * stored anew meanwhile lies in a segment that is not marked, and stays.
 */
#include "store/gc_impl.h"

#include "store/commit.h"
#include "store/impl.h"
#include "store/index.h"
#include "store/mark.h"

#include <stdlib.h>
#include <string.h>

/* Owners whose roots do not reach it any more go. */
static enum index_verdict judge_owners(const struct mark *m,
    const struct entry *en, struct entry **out)
{
	struct entry *cut;
	uint32_t n = 0;

	for (uint32_t i = 0; i < en->owner_count; i++)
		n += mark_reached(m, en->place.segment, en->ordinal,
		    en->owners[i]);
	if (n == en->owner_count)
		return INDEX_KEEP;
	cut = entry_new(n);
	*out = cut;
	if (!cut)
		return INDEX_REPLACE;	/* seen as lack of memory */
	memcpy(cut, en, sizeof(*en));
	cut->owner_count = 0;
	for (uint32_t i = 0; i < en->owner_count && cut->owner_count < n;
	    i++)
		if (mark_reached(m, en->place.segment, en->ordinal,
		    en->owners[i]))
			cut->owners[cut->owner_count++] = en->owners[i];
	return INDEX_REPLACE;
}

static enum index_verdict judge(void *arg, const struct key *k,
    const struct entry *en, struct entry **out)
{
	const struct mark *m = arg;

	(void)k;
	if (!mark_covers(m, en->place.segment, en->ordinal, true))
		return INDEX_KEEP;
	if (!mark_reached(m, en->place.segment, en->ordinal, 0))
		return INDEX_DELETE;
	return judge_owners(m, en, out);
}

static int give_up(struct store *s, struct err *e)
{
	err_add(e, "the index is left half collected; start again");
	pthread_mutex_lock(&s->cut);
	store_fail(s, e);
	pthread_mutex_unlock(&s->cut);
	return -1;
}

int gc_forget(struct gc *g, struct err *e)
{
	struct store *s = g->store;
	struct index_revision r = { .judge = judge, .arg = g->mark };

	if (index_hold(s->index, e) != 0)
		return -1;
	/* Not to be cancelled: half of it is worth nothing.  If it fails, only
	 * a start with a rebuild makes the index right again. */
	while (!r.ended)
		if (index_revise(s->index, &r, e) != 0)
			return give_up(s, e);
	if (index_release(s->index, e) != 0)
		return give_up(s, e);
	pthread_mutex_lock(&s->cut);
	s->generation++;
	s->mark = NULL;
	pthread_mutex_unlock(&s->cut);
	g->report->objects_live += r.kept + r.replaced;
	g->report->objects_dead += r.deleted;
	return 0;
}
