/*
 * store/toc.c - the tables that end a flush.
 *
 * THE ORDER
 *
 *   Each append reserves room for its part of the table, so that a cut, which
 *   may not fail, always has it.  Frames are noted in the order in which they
 *   are appended, under the one lock that serialises appends; so a table
 *   lists its frames without gaps, which table_frame_at() relies on.
 *
 * INVARIANTS
 *
 *   T1  The ordinals of a segment are dense: base of a table = base + objects
 *       of its predecessor.
 *   T2  What a flush made durable is in a table of the same flush.
 */
#include "store/toc.h"

#include "store/impl.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENTS_AT_ONCE 256

size_t toc_reserve(uint32_t objects)
{
	/* The header is counted with each frame: which of them will be the
	 * first in its segment is not known before the append. */
	return table_size(1, objects);
}

static void buffers_init(struct toc *t)
{
	buf_init(&t->frames, (size_t)TABLE_FRAMES_MAX * TABLE_FRAME_SIZE);
	buf_init(&t->objects, (size_t)TABLE_OBJECTS_MAX * TABLE_OBJECT_SIZE);
}

static struct toc *toc_new(struct store *s, uint64_t segment, struct err *e)
{
	struct toc *t = calloc(1, sizeof(*t));

	if (!t) {
		err_set(e, ERR_NO_MEMORY, "no memory for a table");
		return NULL;
	}
	t->segment = segment;
	buffers_init(t);
	t->next = s->tocs;
	s->tocs = t;
	return t;
}

static void part_release(struct toc_part *p)
{
	buf_release(&p->frames);
	buf_release(&p->objects);
	memset(p, 0, sizeof(*p));
}

void toc_free(struct toc *t)
{
	buf_release(&t->frames);
	buf_release(&t->objects);
	part_release(&t->cut);
	free(t);
}

void toc_free_all(struct store *s)
{
	while (s->tocs) {
		struct toc *t = s->tocs;

		s->tocs = t->next;
		toc_free(t);
	}
}

static struct toc *toc_find(const struct store *s, uint64_t segment)
{
	struct toc *t = s->tocs;

	while (t && t->segment != segment)
		t = t->next;
	return t;
}

static int load_one(struct store *s, uint64_t segment, struct err *e)
{
	struct segment_info info;
	struct table_view v;
	uint8_t *raw = NULL;
	struct toc *t;

	if (array_segment(s->array, segment, &info, e) != 0)
		return -1;
	if (!info.open || info.table.size == 0)
		return 0;
	if (toc_read(s, &info.table, &raw, &v, e) != 0)
		return -1;
	t = toc_new(s, segment, e);
	if (t) {
		t->base = v.base + v.object_count;
		t->has_previous = true;
		t->previous = info.table;
	}
	free(raw);
	return t ? 0 : -1;
}

int toc_load(struct store *s, struct err *e)
{
	uint64_t ids[SEGMENTS_AT_ONCE], after = 0;
	size_t n;

	while ((n = array_segments(s->array, after, ids,
	    SEGMENTS_AT_ONCE)) > 0) {
		for (size_t i = 0; i < n; i++)
			if (load_one(s, ids[i], e) != 0)
				return err_add(e, "open segment %" PRIu64,
				    ids[i]);
		after = ids[n - 1];
	}
	return 0;
}

int toc_add(struct store *s, const struct table_frame *f,
    const struct table_object *objects, uint32_t *ordinal, struct err *e)
{
	struct toc *t = toc_find(s, f->place.segment);

	if (!t)
		t = toc_new(s, f->place.segment, e);
	if (!t)
		return -1;
	*ordinal = t->base + t->object_count;
	table_frame_put(&t->frames, f);
	for (uint32_t i = 0; i < f->object_count; i++)
		table_object_put(&t->objects, &objects[i]);
	if (buf_ok(&t->frames, "a table", e) != 0 ||
	    buf_ok(&t->objects, "a table", e) != 0)
		return -1;
	t->frame_count++;
	t->object_count += f->object_count;
	return 0;
}

static int cut_one(struct toc *t, struct array_cut *c, struct err *e)
{
	struct table_view v = {
		.segment = t->segment,
		.flush = array_cut_flush(c),
		.frame_count = t->frame_count,
		.object_count = t->object_count,
		.base = t->base,
		.has_previous = t->has_previous,
		.previous = t->previous,
		.frames = t->frames.data,
		.objects = t->objects.data,
	};
	struct buf out;
	int rc = -1;

	buf_init(&out, TABLE_SIZE_MAX);
	array_cut_last(c, t->segment,
	    table_size(t->frame_count, t->object_count), &v.last_row,
	    &v.last_strip);
	table_put(&out, &v);
	if (buf_ok(&out, "a table", e) == 0)
		rc = array_cut_table(c, t->segment, out.data, out.size,
		    &t->previous, e);
	buf_release(&out);
	if (rc != 0)
		return -1;
	t->has_previous = true;
	t->cut = (struct toc_part){ t->base, t->frame_count, t->object_count,
		t->frames, t->objects };
	t->base += t->object_count;
	t->frame_count = t->object_count = 0;
	buffers_init(t);
	return 0;
}

int toc_cut(struct store *s, struct array_cut *c, struct err *e)
{
	uint64_t segment;
	size_t i = 0;

	while (array_cut_next(c, &i, &segment)) {
		struct toc *t = toc_find(s, segment);

		if (!t || t->frame_count == 0)
			return err_set(e, ERR_CORRUPT, "segment %" PRIu64
			    " took frames that are in no table", segment);
		if (cut_one(t, c, e) != 0)
			return -1;
	}
	return 0;
}

void toc_tidy(struct store *s)
{
	struct toc **at = &s->tocs;

	while (*at) {
		struct toc *t = *at;
		struct segment_info info;
		struct err gone;

		part_release(&t->cut);
		if (t->frame_count > 0 || (array_segment(s->array, t->segment,
		    &info, &gone) == 0 && info.open)) {
			at = &t->next;
			continue;
		}
		*at = t->next;
		toc_free(t);
	}
}

void toc_views(const struct toc *t, struct table_view out[static 2])
{
	out[0] = (struct table_view){
		.segment = t->segment,
		.base = t->cut.base,
		.frame_count = t->cut.frame_count,
		.object_count = t->cut.object_count,
		.frames = t->cut.frames.data,
		.objects = t->cut.objects.data,
	};
	out[1] = (struct table_view){
		.segment = t->segment,
		.base = t->base,
		.frame_count = t->frame_count,
		.object_count = t->object_count,
		.frames = t->frames.data,
		.objects = t->objects.data,
	};
}

int toc_read(struct store *s, const struct place *at, uint8_t **raw,
    struct table_view *v, struct err *e)
{
	uint8_t *data;
	enum array_read got;

	if (at->size < TABLE_HEADER_SIZE || at->size > TABLE_SIZE_MAX)
		return err_set(e, ERR_CORRUPT, "a table of %" PRIu32
		    " bytes in segment %" PRIu64, at->size, at->segment);
	data = malloc(at->size);
	if (!data)
		return err_set(e, ERR_NO_MEMORY, "no memory for a table");
	got = array_read(s->array, at, data, table_good, NULL, e);
	if (got == ARRAY_READ_OK && table_parse(v, at, data, at->size,
	    e) == 0) {
		*raw = data;
		return 0;
	}
	free(data);
	if (got == ARRAY_READ_FREED)
		e->code = ERR_NOT_FOUND;
	else if (got == ARRAY_READ_UNAVAILABLE)
		e->code = ERR_UNAVAILABLE;
	else
		e->code = ERR_CORRUPT;
	return err_add(e, "table of segment %" PRIu64, at->segment);
}

static int chain_add(struct toc_place **list, size_t *count,
    const struct place *at, const struct table_view *v, struct err *e)
{
	struct toc_place *more = *list;

	if ((*count & (*count - 1)) == 0)	/* 0 or a power of two */
		more = realloc(more, (*count ? *count * 2 : 1) *
		    sizeof(*more));
	if (!more)
		return err_set(e, ERR_NO_MEMORY, "no memory for tables");
	more[(*count)++] = (struct toc_place){ .place = *at,
		.flush = v->flush, .base = v->base,
		.object_count = v->object_count };
	*list = more;
	return 0;
}

/* The predecessor must be older, and end where this one begins (T1). */
static int link_check(const struct toc_place *list, size_t count,
    const struct table_view *v, struct err *e)
{
	const struct toc_place *later;

	if (count == 0)
		return 0;
	later = &list[count - 1];
	if (v->flush < later->flush &&
	    v->base + v->object_count == later->base)
		return 0;
	return err_set(e, ERR_CORRUPT, "the tables of segment %" PRIu64
	    " do not follow each other", v->segment);
}

int toc_chain(struct store *s, const struct segment_info *info,
    uint64_t after, struct toc_place **out, size_t *count, struct err *e)
{
	struct place at = info->table;
	struct toc_place *list = NULL;
	size_t n = 0;

	while (at.size != 0) {
		struct table_view v;
		uint8_t *raw;

		if (toc_read(s, &at, &raw, &v, e) != 0)
			goto fail;
		if (v.flush <= after) {
			free(raw);
			break;
		}
		if (link_check(list, n, &v, e) != 0 ||
		    chain_add(&list, &n, &at, &v, e) != 0) {
			free(raw);
			goto fail;
		}
		at = v.has_previous ? v.previous : (struct place){ .size = 0 };
		free(raw);
	}
	*out = list;
	*count = n;
	return 0;
fail:
	free(list);
	return -1;
}
