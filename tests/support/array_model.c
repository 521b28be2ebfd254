#include "tests/support/array_model.h"
#include "base/le.h"
#include "raid/member.h"
#include "tests/support/sim_pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FRAMES_MAX 8u
#define TABLE_SIZE 96u
/* A value: le64 seed, le32 size of all, le32 number of pieces, then for each
 * piece its place and le64 seed, then seeded bytes up to the size. */
#define VALUE_HEAD 16u
#define VALUE_PIECE (PLACE_SIZE + 8u)

struct piece {
	struct place place;
	uint64_t seed;
};

struct value {
	unsigned refs;
	uint32_t size;
	uint32_t pieces;
	uint8_t bytes[];
};

struct state {
	struct value *values[MODEL_KEYS];	/* NULL = no such fact */
};

struct model {
	struct model_shape shape;
	struct sim *disks;
	uint64_t random;
	unsigned next_key;
	uint64_t acked;
	struct state *states;		/* after each flush; [0] is empty */
	size_t count, room;
};

/* ---- bytes ------------------------------------------------------------ */

static void bytes_fill(uint8_t *out, size_t size, uint64_t seed)
{
	uint64_t v;

	for (size_t i = 0; i < size; i += 8) {
		v = sim_random(&seed);
		memcpy(out + i, &v, size - i < 8 ? size - i : 8);
	}
}

struct expected {
	uint64_t seed;
};

static bool bytes_right(void *arg, const void *data, size_t size)
{
	uint64_t seed = ((struct expected *)arg)->seed, v;
	const uint8_t *at = data;

	for (size_t i = 0; i < size; i += 8) {
		v = sim_random(&seed);
		if (memcmp(at + i, &v, size - i < 8 ? size - i : 8) != 0)
			return false;
	}
	return true;
}

static void key_text(char out[static 16], unsigned key)
{
	snprintf(out, 16, "m/%03u", key);
}

/* ---- life ------------------------------------------------------------- */

struct model *model_new(const struct model_shape *shape)
{
	struct model *m = sim_alloc(1, sizeof(*m));

	m->shape = *shape;
	m->random = shape->seed;
	m->disks = sim_new(shape->members + shape->spares, shape->disk_size);
	m->room = 64;
	m->states = sim_alloc(m->room, sizeof(struct state));
	m->count = 1;
	return m;
}

static void value_unref(struct value *v)
{
	if (v && --v->refs == 0)
		free(v);
}

void model_free(struct model *m)
{
	for (size_t i = 0; i < m->count; i++)
		for (unsigned k = 0; k < MODEL_KEYS; k++)
			value_unref(m->states[i].values[k]);
	free(m->states);
	sim_free(m->disks);
	free(m);
}

struct sim *model_disks(struct model *m)
{
	return m->disks;
}

uint64_t model_acked(const struct model *m)
{
	return m->acked;
}

int model_create(const struct model *m, struct sim *s, const char *wipe,
    struct err *e)
{
	struct array_create c = {
		.parity = m->shape.parity, .wipe = wipe,
		.extent_size = m->shape.extent_size,
	};
	int rc;

	c.devs = sim_devs(s, ~(uint64_t)0 << m->shape.members, &c.dev_count);
	rc = array_create(&c, e);
	free(c.devs);
	return rc;
}

/* A disk that holds nothing but zeros where superblocks are. */
static bool disk_blank(struct sim *s, unsigned disk)
{
	uint8_t block[2 * RAID_ROW], zero[2 * RAID_ROW] = { 0 };

	for (unsigned i = 0; i < MEMBER_SLOTS; i++) {
		sim_peek(s, disk, member_slot_offset(sim_size(s, disk), i),
		    block, sizeof(block));
		if (memcmp(block, zero, sizeof(block)) != 0)
			return false;
	}
	return true;
}

int model_open(const struct model *m, struct sim *s, uint64_t skip,
    struct array **out, struct err *e)
{
	struct array_open o = {
		.dev_open = sim_dev_open, .dev_arg = s,
		.call_ms = m->shape.call_ms,
	};
	int rc;

	for (unsigned i = 0; i < sim_disks(s); i++)
		if (disk_blank(s, i))
			skip |= (uint64_t)1 << i;
	o.devs = sim_devs(s, skip, &o.dev_count);
	rc = array_open(out, &o, e);
	free(o.devs);
	return rc;
}

/* ---- one flush -------------------------------------------------------- */

struct flush {
	struct model *m;
	struct array *a;
	struct array_cut *cut;
	const struct model_flush *f;
	struct state next;
	struct piece pieces[2 * FRAMES_MAX];	/* frames, then tables */
	size_t frames, count;
	uint64_t free_segment;			/* 0 = none */
};

static void next_set(struct flush *w, unsigned key, struct value *v)
{
	value_unref(w->next.values[key]);
	w->next.values[key] = v;
}

static int append_frames(struct flush *w, struct err *e)
{
	enum seg_class class = w->f->meta ? SEG_META : SEG_DATA;
	uint8_t *data = sim_alloc(w->f->frame_size + 1, 1);
	int rc = 0;

	for (unsigned i = 0; i < w->f->frames && rc == 0; i++) {
		struct piece *p = &w->pieces[w->count];
		size_t size = 1 + (size_t)(sim_random(&w->m->random) %
		    w->f->frame_size);

		p->seed = sim_random(&w->m->random);
		bytes_fill(data, size, p->seed);
		rc = array_append(w->a, class, data, size, TABLE_SIZE,
		    &p->place, e);
		if (rc == 0)
			w->count++;
	}
	w->frames = w->count;
	free(data);
	return rc;
}

static int cut_tables(struct flush *w, struct err *e)
{
	uint64_t segment;
	size_t i = 0;

	while (array_cut_next(w->cut, &i, &segment)) {
		struct piece *p = &w->pieces[w->count];
		uint8_t table[TABLE_SIZE];
		uint32_t row;
		uint8_t strip;

		if (w->count == 2 * FRAMES_MAX)
			return err_set(e, ERR_LIMIT, "too many segments");
		p->seed = sim_random(&w->m->random);
		bytes_fill(table, sizeof(table), p->seed);
		array_cut_last(w->cut, segment, sizeof(table), &row, &strip);
		if (array_cut_table(w->cut, segment, table, sizeof(table),
		    &p->place, e) != 0)
			return -1;
		array_cut_finish(w->cut, &p->place);
		if (p->place.last != strip)
			return err_set(e, ERR_CORRUPT, "array_cut_last said "
			    "%u for segment %llu, not %u", strip,
			    (unsigned long long)segment, p->place.last);
		w->count++;
	}
	for (i = 0; i < w->frames; i++)
		array_cut_finish(w->cut, &w->pieces[i].place);
	return 0;
}

static struct value *value_new(struct flush *w, uint32_t size, size_t pieces)
{
	uint32_t head = VALUE_HEAD + (uint32_t)pieces * VALUE_PIECE;
	struct value *v;
	uint64_t seed = sim_random(&w->m->random);

	if (size < head)
		size = head;
	v = sim_alloc(1, sizeof(*v) + size);
	v->refs = 1;
	v->size = size;
	v->pieces = (uint32_t)pieces;
	le64_put(v->bytes, seed);
	le32_put(v->bytes + 8, size);
	le32_put(v->bytes + 12, v->pieces);
	for (size_t i = 0; i < pieces; i++) {
		uint8_t *to = v->bytes + VALUE_HEAD + i * VALUE_PIECE;

		place_put(to, &w->pieces[i].place);
		le64_put(to + PLACE_SIZE, w->pieces[i].seed);
	}
	bytes_fill(v->bytes + head, size - head, seed);
	return v;
}

static int set_fact(struct flush *w, uint32_t size, size_t pieces,
    struct err *e)
{
	/* The last key is the flush's number, set by cut_number(). */
	unsigned key = w->m->next_key++ % (MODEL_KEYS - 1);
	struct value *v = value_new(w, size, pieces);
	char text[16];

	key_text(text, key);
	next_set(w, key, v);
	return array_cut_kv(w->cut, text, strlen(text), v->bytes, v->size, e);
}

static int cut_number(struct flush *w, struct err *e)
{
	struct value *v = sim_alloc(1, sizeof(*v) + 8);
	char text[16];

	v->refs = 1;
	v->size = 8;
	le64_put(v->bytes, w->m->count);
	key_text(text, MODEL_KEYS - 1);
	next_set(w, MODEL_KEYS - 1, v);
	return array_cut_kv(w->cut, text, strlen(text), v->bytes, v->size, e);
}

static struct piece value_piece(const struct value *v, size_t i)
{
	const uint8_t *at = v->bytes + VALUE_HEAD + i * VALUE_PIECE;
	struct piece p = { .seed = le64_get(at + PLACE_SIZE) };
	struct err e;

	if (place_get(&p.place, at, &e) != 0) {
		fprintf(stderr, "model: %s\n", e.text);
		abort();
	}
	return p;
}

static bool value_in(const struct value *v, uint64_t segment)
{
	for (size_t i = 0; v && i < v->pieces; i++)
		if (value_piece(v, i).place.segment == segment)
			return true;
	return false;
}

static void find_sealed(struct flush *w)
{
	uint64_t ids[16], after = 0;
	struct segment_info info;
	struct err e;
	size_t n;

	while (!w->free_segment &&
	    (n = array_segments(w->a, after, ids, 16)) > 0) {
		for (size_t i = 0; i < n && !w->free_segment; i++)
			if (array_segment(w->a, ids[i], &info, &e) == 0 &&
			    info.sealed)
				w->free_segment = ids[i];
		after = ids[n - 1];
	}
}

static int cut_free(struct flush *w, struct err *e)
{
	char text[16];

	for (unsigned k = 0; k < MODEL_KEYS; k++) {
		if (!value_in(w->next.values[k], w->free_segment))
			continue;
		next_set(w, k, NULL);
		key_text(text, k);
		if (array_cut_kv(w->cut, text, strlen(text), NULL, 0, e) != 0)
			return -1;
	}
	return array_cut_free(w->cut, w->free_segment, e);
}

static int fill_cut(struct flush *w, struct err *e)
{
	if (cut_tables(w, e) != 0)
		return -1;
	if (w->free_segment && cut_free(w, e) != 0)
		return -1;
	if (w->count > 0 && set_fact(w, 0, w->count, e) != 0)
		return -1;
	for (unsigned i = 0; i < w->f->facts; i++)
		if (set_fact(w, w->f->fact_size, 0, e) != 0)
			return -1;
	if (w->f->seal)
		array_cut_seal_all(w->cut);
	return cut_number(w, e);
}

/* The state that this flush makes, if it is done. */
static void push_state(struct flush *w)
{
	struct model *m = w->m;

	if (m->count == m->room) {
		m->room *= 2;
		m->states = realloc(m->states,
		    m->room * sizeof(struct state));
		if (!m->states)
			abort();
	}
	m->states[m->count++] = w->next;
}

static void next_release(struct flush *w)
{
	for (unsigned k = 0; k < MODEL_KEYS; k++)
		value_unref(w->next.values[k]);
}

int model_flush(struct model *m, struct array *a,
    const struct model_flush *f, struct err *e)
{
	struct flush w = { .m = m, .a = a, .f = f };
	struct flush_result result;
	int rc;

	/* The newest state that may be there: the acked one. */
	w.next = m->states[m->acked];
	for (unsigned k = 0; k < MODEL_KEYS; k++)
		if (w.next.values[k])
			w.next.values[k]->refs++;
	if (f->free_oldest)
		find_sealed(&w);
	if (append_frames(&w, e) != 0 ||
	    array_cut_begin(a, &w.cut, e) != 0) {
		next_release(&w);
		return -1;
	}
	rc = fill_cut(&w, e);
	array_cut_end(w.cut);
	push_state(&w);
	if (array_flush(a, w.cut, &result, rc == 0 ? e :
	    &(struct err){ 0 }) != 0 || rc != 0)
		return -1;
	m->acked = m->count - 1;
	sim_note(m->disks, m->acked);
	return 0;
}

/* ---- check ------------------------------------------------------------ */

static int read_pieces(struct array *a, const struct value *v,
    const char *key, struct err *e)
{
	for (size_t i = 0; i < v->pieces; i++) {
		struct piece p = value_piece(v, i);
		struct expected x = { p.seed };
		uint8_t *out = sim_alloc(p.place.size, 1);
		enum array_read r = array_read(a, &p.place, out, bytes_right,
		    &x, e);
		bool right = r == ARRAY_READ_OK &&
		    bytes_right(&x, out, p.place.size);

		free(out);
		if (r != ARRAY_READ_OK)
			return err_add(e, "read of %s, segment %llu row %u "
			    "size %u: result %d", key,
			    (unsigned long long)p.place.segment, p.place.row,
			    p.place.size, (int)r);
		if (!right)
			return err_set(e, ERR_CORRUPT, "%s: wrong bytes were "
			    "given as right", key);
	}
	return 0;
}

static int check_key(const struct model *m, struct array *a, uint64_t which,
    unsigned key, struct err *e)
{
	const struct value *v = m->states[which].values[key];
	uint8_t *got = NULL;
	char text[16];
	size_t size = 0;
	bool same;
	int rc;

	key_text(text, key);
	rc = array_kv_get(a, text, strlen(text), &got, &size, e);
	if (rc != 0 && e->code != ERR_NOT_FOUND)
		return -1;
	same = rc != 0 ? !v : v && size == v->size &&
	    memcmp(got, v->bytes, size) == 0;
	free(got);
	if (!same)
		return err_set(e, ERR_CORRUPT, "fact %s after flush %llu: %s",
		    text, (unsigned long long)which, rc != 0 ? "not there" :
		    v ? "other value" : "there, but was deleted");
	return v && key != MODEL_KEYS - 1 ? read_pieces(a, v, text, e) : 0;
}

int model_check_at(const struct model *m, struct array *a, uint64_t which,
    struct err *e)
{
	for (unsigned k = 0; k < MODEL_KEYS; k++)
		if (check_key(m, a, which, k, e) != 0)
			return -1;
	return 0;
}

int model_check(const struct model *m, struct array *a, uint64_t acked,
    uint64_t *found, struct err *e)
{
	uint8_t *value = NULL;
	uint64_t which = 0;
	char text[16];
	size_t size = 0;

	key_text(text, MODEL_KEYS - 1);
	if (array_kv_get(a, text, strlen(text), &value, &size, e) == 0)
		which = size == 8 ? le64_get(value) : UINT64_MAX;
	else if (e->code != ERR_NOT_FOUND)
		return -1;
	free(value);
	if (which < acked || which >= m->count)
		return err_set(e, ERR_CORRUPT, "the array is at flush %llu; "
		    "acked were %llu, begun %zu", (unsigned long long)which,
		    (unsigned long long)acked, m->count - 1);
	if (found)
		*found = which;
	return model_check_at(m, a, which, e);
}

/* ---- probe ------------------------------------------------------------ */

static const char probe_key[] = "probe";

int model_probe(struct array *a, uint64_t seed, struct err *e)
{
	uint8_t data[5000], value[PLACE_SIZE];
	struct flush_result result;
	struct array_cut *cut;
	struct place p;
	int rc;

	bytes_fill(data, sizeof(data), seed);
	if (array_append(a, SEG_DATA, data, sizeof(data), 0, &p, e) != 0 ||
	    array_cut_begin(a, &cut, e) != 0)
		return err_add(e, "probe");
	array_cut_finish(cut, &p);
	place_put(value, &p);
	rc = array_cut_kv(cut, probe_key, sizeof(probe_key), value,
	    sizeof(value), e);
	array_cut_end(cut);
	if (array_flush(a, cut, &result, e) != 0 || rc != 0)
		return err_add(e, "probe");
	return model_probe_check(a, seed, e);
}

int model_probe_check(struct array *a, uint64_t seed, struct err *e)
{
	struct expected x = { seed };
	uint8_t data[5000], *value;
	struct place p;
	size_t size;
	int rc;

	if (array_kv_get(a, probe_key, sizeof(probe_key), &value, &size,
	    e) != 0)
		return err_add(e, "probe");
	rc = size == PLACE_SIZE ? place_get(&p, value, e) :
	    err_set(e, ERR_CORRUPT, "%zu bytes", size);
	free(value);
	if (rc != 0)
		return err_add(e, "probe");
	if (p.size != sizeof(data))
		return err_set(e, ERR_CORRUPT, "probe: size %u", p.size);
	if (array_read(a, &p, data, bytes_right, &x, e) != ARRAY_READ_OK)
		return err_add(e, "probe");
	return 0;
}

/* ---- members ---------------------------------------------------------- */

uint64_t model_active(struct array *a)
{
	struct member_info info[RAID_MEMBERS_MAX];
	size_t n = array_members(a, info, RAID_MEMBERS_MAX);
	uint64_t bits = 0;

	for (size_t i = 0; i < n; i++)
		if (info[i].state == MEMBER_ACTIVE &&
		    strncmp(info[i].path, "sim:", 4) == 0)
			bits |= (uint64_t)1 << strtoul(info[i].path + 4,
			    NULL, 10);
	return bits;
}

uint64_t model_draw(uint64_t from, unsigned count, uint64_t *random)
{
	uint64_t out = 0;

	while (count > 0 && from & ~out) {
		uint64_t bit = (uint64_t)1 << sim_random(random) % 64;

		if (from & bit & ~out) {
			out |= bit;
			count--;
		}
	}
	return out;
}
