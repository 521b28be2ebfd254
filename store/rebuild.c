/*
 * store/rebuild.c - is the index to be believed, and what if not (S5).
 *
 * It is believed when all of this holds, else built anew:
 *
 *   B1  its position is a moment of this array's own history;
 *   B2  it is not older than the floor: what collection deleted from the
 *       index before it freed segments is deleted (fact g/floor);
 *   B3  no quarantine is younger than it: those clear complete bits;
 *   B4  no entry with a wrong checksum was met.
 *
 * A believed index is brought up to the array by reading the tables of later
 * flushes (catch_up.c).
 */
#include "store/rebuild.h"

#include "base/le.h"
#include "base/warn.h"
#include "store/impl.h"
#include "store/index.h"
#include "store/keys.h"
#include "store/rebuild_impl.h"

#include <inttypes.h>
#include <stdlib.h>

struct youngest {
	uint64_t flush;
};

static int look_at_quarantine(void *arg, const uint8_t *key,
    size_t key_size, const uint8_t *value, size_t value_size)
{
	struct youngest *y = arg;
	uint64_t flush = value_size == 8 ? le64_get(value) : UINT64_MAX;

	(void)key;
	(void)key_size;
	if (flush > y->flush)
		y->flush = flush;
	return 0;
}

/* NULL if the index is to be believed, else why not. */
static const char *doubt(struct store *s, struct array_position *p)
{
	struct youngest y = { 0 };
	struct err ignored;
	uint64_t floor;

	if (!index_position(s->index, p))
		return "is empty";
	if (!array_position_known(s->array, p))
		return "is not of this array's history";
	if (fact_number(s->array, KEY_FLOOR, 0, &floor, &ignored) != 0 ||
	    p->flush < floor)
		return "is older than the last collection";
	(void)array_kv_each(s->array, "q/", 2, look_at_quarantine, &y);
	if (y.flush > p->flush)
		return "is older than a quarantine";
	if (index_suspect(s->index))
		return "holds damaged entries";
	return NULL;
}

int index_mark_now(struct store *s, struct err *e)
{
	struct index_mark mark = { .order = s->next_order };

	array_position(s->array, &mark.position);
	return index_write(s->index, NULL, 0, &mark, e);
}

int overlay_write_out(struct store *s, struct err *e)
{
	size_t count = s->durable.count;
	struct overlay_node **nodes;
	struct index_op *ops;
	int rc = -1;

	if (overlay_sorted(&s->durable, &nodes, e) != 0)
		return -1;
	ops = calloc(count + 1, sizeof(*ops));
	if (ops) {
		for (size_t i = 0; i < count; i++)
			ops[i] = (struct index_op){ nodes[i]->key,
				nodes[i]->entry };
		rc = index_write(s->index, ops, count, NULL, e);
	} else {
		err_set(e, ERR_NO_MEMORY, "no memory to write the index");
	}
	free(ops);
	free(nodes);
	if (rc == 0)
		overlay_release(&s->durable);
	return rc;
}

int index_bring_up(struct store *s, const struct store_open *o,
    bool *rebuilt, struct err *e)
{
	struct array_position from, now;
	const char *why = doubt(s, &from);
	struct err late;

	*rebuilt = false;
	array_position(s->array, &now);
	if (!why) {
		if (catch_up(s, &from, &late) == 0)
			return 0;
		overlay_release(&s->durable);
		why = late.text;
	}
	/* A new array's index is empty, and that is all there is to say. */
	if (array_segments(s->array, 0, &(uint64_t){ 0 }, 1) > 0)
		warn_add(s->warn, NULL, 0,
		    "the index %s; it is built again", why);
	*rebuilt = true;
	return rebuild_all(s, o, e);
}
