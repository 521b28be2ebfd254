/*
 * store/rebuild_all.c - the index from the tables of contents alone.
 *
 * THE ORDER
 *
 *   empty the index -> sort all objects of all tables by (key, newest first)
 *   -> append one entry a key, without owners -> walk from the roots of all
 *   snapshots, by domain (mark.c): what is reached gets its owners, pages
 *   their complete bit -> if something was missing on the way, the bits of
 *   what lies above it are cleared (closure.c) -> position
 *
 * A crash before the last step leaves an index without a position, which is
 * built again.  What no snapshot reaches has no owner: clients send it again,
 * and it is not stored twice.
 *
 * Of several places of an id the newest good one wins; an id whose places are
 * all quarantined keeps the newest, so that its owners are known.
 */
#include "store/rebuild_impl.h"

#include "base/extsort.h"
#include "base/le.h"
#include "base/warn.h"
#include "store/client.h"
#include "store/closure.h"
#include "store/impl.h"
#include "store/index.h"
#include "store/mark.h"
#include "store/roots.h"
#include "store/toc.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SORT_MEMORY ((size_t)32 << 20)
#define BATCH 4096u
#define SEGMENTS_AT_ONCE 256

/* sort record: key, flush inverted 8 (big-endian: newest first), then place,
 * ordinal 4, size 4, type 1 */
enum { AT_FLUSH = KEY_SIZE, AT_PLACE = AT_FLUSH + 8,
	AT_ORDINAL = AT_PLACE + PLACE_SIZE, AT_SIZE = AT_ORDINAL + 4,
	AT_TYPE = AT_SIZE + 4, SORT_SIZE = AT_TYPE + 1 };

struct rebuild {
	struct store *store;
	const struct store_open *open;
	struct extsort *sort;
	struct mark *mark;
	uint64_t done, total;		/* segments */
	struct index_op ops[BATCH];
	struct entry *entries[BATCH];
	size_t count;
};

static void progress(struct rebuild *r, uint64_t done)
{
	if (r->open && r->open->rebuild)
		r->open->rebuild(r->open->arg, done, r->total);
}

/* ---- collecting --------------------------------------------------------- */

static int sort_object(struct rebuild *r, const struct table_view *v,
    const struct table_frame *f, uint32_t object, struct err *e)
{
	uint8_t raw[SORT_SIZE];
	struct table_object o;
	struct key k;

	table_object_at(v, object, &o);
	key_of(&k, f->keyspace, &o.id);
	memcpy(raw, k.bytes, KEY_SIZE);
	for (int i = 0; i < 8; i++)
		raw[AT_FLUSH + i] = (uint8_t)(~v->flush >> (56 - 8 * i));
	place_put(raw + AT_PLACE, &f->place);
	le32_put(raw + AT_ORDINAL, v->base + object);
	le32_put(raw + AT_SIZE, o.size);
	raw[AT_TYPE] = o.type;
	return extsort_add(r->sort, raw, sizeof(raw), e);
}

static int sort_table(struct rebuild *r, const struct place *at,
    struct err *e)
{
	struct table_view v;
	uint32_t object = 0;
	uint8_t *raw;
	int rc = 0;

	if (toc_read(r->store, at, &raw, &v, e) != 0)
		return -1;
	for (uint32_t i = 0; i < v.frame_count && rc == 0; i++) {
		struct table_frame f;

		table_frame_at(&v, i, &f);
		for (uint32_t n = 0; n < f.object_count && rc == 0; n++)
			rc = sort_object(r, &v, &f, object++, e);
	}
	free(raw);
	return rc;
}

/* A segment whose tables cannot be read is left out, and said: what is in it
 * counts as missing. */
static int sort_segment(struct rebuild *r, uint64_t segment, struct err *e)
{
	struct segment_info info;
	struct toc_place *list = NULL;
	size_t count = 0;
	struct err why;
	uint32_t objects = 0;
	int rc = 0;

	if (array_segment(r->store->array, segment, &info, e) != 0)
		return -1;
	if (info.table.size != 0 && toc_chain(r->store, &info, 0, &list,
	    &count, &why) != 0) {
		if (why.code == ERR_NO_MEMORY) {
			*e = why;
			return -1;
		}
		warn_add(r->store->warn, NULL, 0, "rebuild: %s", why.text);
	}
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = sort_table(r, &list[i].place, e);
	if (count > 0)
		objects = list[0].base + list[0].object_count;
	free(list);
	return rc != 0 ? -1 :
	    mark_segment(r->mark, segment, objects, e);
}

static int sort_all(struct rebuild *r, struct err *e)
{
	uint64_t ids[SEGMENTS_AT_ONCE], after = 0;
	struct array_info info;
	size_t n;

	array_info(r->store->array, &info);
	r->total = info.segments + info.segments / 2 + 1;
	while ((n = array_segments(r->store->array, after, ids,
	    SEGMENTS_AT_ONCE)) > 0) {
		for (size_t i = 0; i < n; i++) {
			if (sort_segment(r, ids[i], e) != 0)
				return -1;
			progress(r, ++r->done);
		}
		after = ids[n - 1];
	}
	return extsort_finish(r->sort, e);
}

/* ---- entries without owners --------------------------------------------- */

static int batch_end(struct rebuild *r, bool append, struct err *e)
{
	int rc = append ? index_append(r->store->index, r->ops, r->count, e) :
	    index_write(r->store->index, r->ops, r->count, NULL, e);

	while (r->count > 0)
		free(r->entries[--r->count]);
	return rc;
}

static int batch_add(struct rebuild *r, const struct key *k,
    struct entry *en, bool append, struct err *e)
{
	r->ops[r->count] = (struct index_op){ *k, en };
	r->entries[r->count++] = en;
	return r->count < BATCH ? 0 : batch_end(r, append, e);
}

static int record_get(struct entry **out, const uint8_t *raw, struct err *e)
{
	struct entry *en = entry_new(0);

	if (!en)
		return err_set(e, ERR_NO_MEMORY, "no memory for an entry");
	if (place_get(&en->place, raw + AT_PLACE, e) != 0) {
		free(en);
		return -1;
	}
	en->ordinal = le32_get(raw + AT_ORDINAL);
	en->size = le32_get(raw + AT_SIZE);
	en->type = raw[AT_TYPE];
	*out = en;
	return 0;
}

/* The next key's best place: the newest that is not quarantined, else the
 * newest.  Records of one key follow each other, newest first. */
static int append_all(struct rebuild *r, struct err *e)
{
	struct entry *best = NULL, *en = NULL;
	struct key key = { { 0 } };
	const uint8_t *raw;
	size_t size;
	int rc;

	while ((rc = extsort_next(r->sort, &raw, &size, e)) == 1) {
		bool same = best && memcmp(key.bytes, raw, KEY_SIZE) == 0;

		if (same && !entry_quarantined(r->store, best))
			continue;
		if ((rc = record_get(&en, raw, e)) != 0)
			break;
		if (same && entry_quarantined(r->store, en)) {
			free(en);
			continue;
		}
		if (same)
			free(best);
		else if (best &&
		    (rc = batch_add(r, &key, best, true, e)) != 0) {
			free(en);
			return -1;
		}
		best = en;
		memcpy(key.bytes, raw, KEY_SIZE);
	}
	if (rc == 0 && best)
		return batch_add(r, &key, best, true, e) == 0 ?
		    batch_end(r, true, e) : -1;
	free(best);
	return rc;
}

/* ---- owners ------------------------------------------------------------- */

static int owners_put(struct rebuild *r, const struct key *k,
    const struct entry *en, struct err *e)
{
	size_t domains = mark_domain_count(r->mark);
	struct entry *owned;

	if (!mark_reached(r->mark, en->place.segment, en->ordinal, 0))
		return 0;
	owned = entry_new((uint32_t)domains);
	if (!owned)
		return err_set(e, ERR_NO_MEMORY, "no memory for an entry");
	memcpy(owned, en, sizeof(*en));
	owned->owner_count = 0;
	for (size_t i = 0; i < domains; i++) {
		uint32_t domain = mark_domain_at(r->mark, i);

		if (mark_reached(r->mark, en->place.segment, en->ordinal,
		    domain))
			owned->owners[owned->owner_count++] = domain;
	}
	if (object_has_refs((enum object_type)en->type))
		owned->flags |= ENTRY_COMPLETE;
	return batch_add(r, k, owned, false, e);
}

static int owners_put_all(struct rebuild *r, struct err *e)
{
	struct key *keys = calloc(BATCH, sizeof(*keys)), after;
	struct entry **found = calloc(BATCH, sizeof(struct entry *));
	size_t n = BATCH;
	int rc = keys && found ? 0 :
	    err_set(e, ERR_NO_MEMORY, "no memory to rebuild");
	bool first = true;

	while (rc == 0 && n == BATCH) {
		rc = index_scan(r->store->index, first ? NULL : &after, keys,
		    found, BATCH, &n, e);
		for (size_t i = 0; i < n && rc == 0; i++)
			rc = owners_put(r, &keys[i], found[i], e);
		if (n > 0)
			after = keys[n - 1];
		for (size_t i = 0; i < n; i++)
			free(found[i]);
		first = false;
	}
	free(keys);
	free(found);
	return rc == 0 ? batch_end(r, false, e) : -1;
}

static int finish(struct rebuild *r, struct err *e)
{
	struct mark_result found = { .pages = 0 };
	struct closure_report closed;

	if (mark_ready(r->mark, e) != 0 ||
	    roots_touch(r->store, r->mark, &found.missing, e) != 0 ||
	    mark_run(r->mark, &found, NULL, e) != 0 ||
	    owners_put_all(r, e) != 0)
		return -1;
	progress(r, r->total);
	if ((found.damaged > 0 || found.missing > 0) &&
	    closure_recheck(r->store, &closed, NULL, e) != 0)
		return -1;
	if (overlay_write_out(r->store, e) != 0)
		return -1;
	if (found.away > 0) {
		warn_add(r->store->warn, NULL, 0, "members are away: the index "
		    "is built again at the next start");
		return 0;
	}
	return index_mark_now(r->store, e);
}

int rebuild_all(struct store *s, const struct store_open *o, struct err *e)
{
	struct rebuild *r = calloc(1, sizeof(*r));
	int rc = -1;

	if (!r)
		return err_set(e, ERR_NO_MEMORY, "no memory to rebuild");
	r->store = s;
	r->open = o;
	if (index_reset(s->index, e) == 0 &&
	    mark_new(&r->mark, s, e) == 0 &&
	    roots_domains(s, r->mark, e) == 0 &&
	    extsort_new(&r->sort, s->dir, SORT_MEMORY, e) == 0 &&
	    sort_all(r, e) == 0 && append_all(r, e) == 0)
		rc = finish(r, e);
	while (r->count > 0)
		free(r->entries[--r->count]);
	extsort_free(r->sort);
	mark_free(r->mark);
	free(r);
	return rc;
}
