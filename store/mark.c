/*
 * store/mark.c - walking down from the roots.
 *
 * BITS
 *
 *   One plane per domain, one for "any" and one for domains that came later.
 *   An object's bit is first[segment] + ordinal.  The file is allocated before
 *   it is mapped, so that a full disk is an error here and not a fault later.
 *
 * WAVES
 *
 *   Pages to be walked wait in `touched` (memory, filled under the cut lock by
 *   whoever names them) and go from there to a sort by place; a wave reads
 *   them in disk order and fills the next one.  There are as many waves as
 *   the deepest tree has levels.  A page is queued once per domain, when its
 *   bit is set; so an unchanged subtree is walked once for all snapshots.
 *
 * WHY A SESSION CANNOT LOSE ANYTHING   (with gc.c)
 *
 *   From the cut at which the marked segments end, each `have`, duplicate and
 *   acceptance sets the bits of what it names before it answers.  The last
 *   look at `touched` and the condemning are one step under the same lock.
 */
#include "store/mark.h"

#include "base/extsort.h"
#include "base/le.h"
#include "proto/fmt_frame.h"
#include "store/cache.h"
#include "store/impl.h"
#include "store/keys.h"
#include "store/looks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PLANE_ANY 0u
/* Pages taken from `touched` at a time, so that its memory stays small. */
#define DRAIN_PAGES 4096u

struct mark_segment {
	uint64_t segment, first;
	uint32_t count;
	bool candidate;
};

struct touch {
	struct key key;
	struct place place;
	uint32_t plane;
};

struct mark {
	struct store *store;
	struct mark_segment *segments;
	size_t segment_count, segment_cap;
	uint64_t total;			/* objects */
	uint32_t *domains;
	size_t domain_count, domain_cap;
	/* planes * stride bytes, mapped; the index is swept without the cut
	 * lock, hence atomic. */
	atomic_uchar *bits;
	uint64_t stride;
	struct touch *touched;		/* cut lock */
	size_t touched_count, touched_cap;
	bool condemned;			/* cut lock */
	struct extsort *next;		/* the coming wave */
};

/* sort record: segment 8, row 4, offset 4 (big-endian: disk order), size 4,
 * last 1, plane 4, key */
enum { AT_ROW = 8, AT_OFFSET = 12, AT_SIZE = 16, AT_LAST = 20, AT_PLANE = 21,
	AT_KEY = 25, TOUCH_SIZE = AT_KEY + KEY_SIZE };

/* ---- life --------------------------------------------------------------- */

int mark_new(struct mark **out, struct store *s, struct err *e)
{
	struct mark *m = calloc(1, sizeof(*m));

	if (!m)
		return err_set(e, ERR_NO_MEMORY, "no memory for a mark");
	m->store = s;
	*out = m;
	return 0;
}

void mark_free(struct mark *m)
{
	if (!m)
		return;
	if (m->bits)
		munmap(m->bits, m->stride * (m->domain_count + 2));
	extsort_free(m->next);
	free(m->segments);
	free(m->domains);
	free(m->touched);
	free(m);
}

/* Room for one more of `size` bytes in an array that doubles. */
static int room(void **array, size_t count, size_t *cap, size_t size,
    struct err *e)
{
	size_t more = *cap ? *cap * 2 : 64;
	void *bigger;

	if (count < *cap)
		return 0;
	bigger = realloc(*array, more * size);
	if (!bigger)
		return err_set(e, ERR_NO_MEMORY, "no memory for a mark");
	*array = bigger;
	*cap = more;
	return 0;
}

int mark_segment(struct mark *m, uint64_t segment, uint32_t objects,
    struct err *e)
{
	void *array = m->segments;

	if (room(&array, m->segment_count, &m->segment_cap,
	    sizeof(*m->segments), e) != 0)
		return -1;
	m->segments = array;
	m->segments[m->segment_count++] = (struct mark_segment){
		.segment = segment, .first = m->total, .count = objects };
	m->total += objects;
	return 0;
}

static size_t domain_rank(const struct mark *m, uint32_t domain)
{
	size_t i = 0;

	while (i < m->domain_count && m->domains[i] < domain)
		i++;
	return i;
}

int mark_domain(struct mark *m, uint32_t domain, struct err *e)
{
	size_t i = domain_rank(m, domain);
	void *array = m->domains;

	if (i < m->domain_count && m->domains[i] == domain)
		return 0;
	if (room(&array, m->domain_count, &m->domain_cap,
	    sizeof(*m->domains), e) != 0)
		return -1;
	m->domains = array;
	memmove(m->domains + i + 1, m->domains + i,
	    (m->domain_count - i) * sizeof(*m->domains));
	m->domains[i] = domain;
	m->domain_count++;
	return 0;
}

size_t mark_domain_count(const struct mark *m)
{
	return m->domain_count;
}

uint32_t mark_domain_at(const struct mark *m, size_t i)
{
	return m->domains[i];
}

static int bits_map(struct mark *m, int fd, struct err *e)
{
	size_t size = m->stride * (m->domain_count + 2);
	int rc = posix_fallocate(fd, 0, (off_t)size);
	void *p;

	if (rc != 0) {
		err_os(e, rc, "allocate %zu bytes for a mark", size);
		if (rc == ENOSPC)
			e->code = ERR_NO_SPACE;
		return -1;
	}
	p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		return err_os(e, errno, "map %zu bytes for a mark", size);
	m->bits = p;
	return 0;
}

int mark_ready(struct mark *m, struct err *e)
{
	int fd, rc;

	m->stride = (m->total + 7) / 8 + 1;
	fd = openat(m->store->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0) {		/* a file system without O_TMPFILE */
		char name[64];

		snprintf(name, sizeof(name), "mark-%ld.tmp", (long)getpid());
		fd = openat(m->store->dir, name,
		    O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
		if (fd < 0)
			return err_os(e, errno, "make a file for a mark");
		(void)unlinkat(m->store->dir, name, 0);
	}
	rc = bits_map(m, fd, e);
	close(fd);
	if (rc == 0)
		rc = extsort_new(&m->next, m->store->dir,
		    MARK_QUEUE_MEMORY / 2, e);
	return rc;
}

/* ---- bits --------------------------------------------------------------- */

static struct mark_segment *segment_of(const struct mark *m,
    uint64_t segment)
{
	size_t low = 0, high = m->segment_count;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (m->segments[mid].segment < segment)
			low = mid + 1;
		else
			high = mid;
	}
	return low < m->segment_count && m->segments[low].segment == segment ?
	    &m->segments[low] : NULL;
}

void mark_candidate(struct mark *m, uint64_t segment)
{
	struct mark_segment *g = segment_of(m, segment);

	if (g)
		g->candidate = true;
}

static uint32_t plane_of(const struct mark *m, uint32_t domain)
{
	size_t i = domain_rank(m, domain);

	if (i < m->domain_count && m->domains[i] == domain)
		return (uint32_t)i + 1;
	return (uint32_t)m->domain_count + 1;	/* came later */
}

static bool bit_get(const struct mark *m, uint32_t plane, uint64_t at)
{
	return atomic_load_explicit(&m->bits[plane * m->stride + at / 8],
	    memory_order_relaxed) >> at % 8 & 1;
}

/* True if it was not set before. */
static bool bit_set(struct mark *m, uint32_t plane, uint64_t at)
{
	unsigned char bit = (unsigned char)(1u << at % 8);

	return !(atomic_fetch_or_explicit(&m->bits[plane * m->stride +
	    at / 8], bit, memory_order_relaxed) & bit);
}

bool mark_covers(const struct mark *m, uint64_t segment, uint32_t ordinal,
    bool candidates_only)
{
	const struct mark_segment *g = segment_of(m, segment);

	return g && ordinal < g->count && (g->candidate || !candidates_only);
}

bool mark_reached(const struct mark *m, uint64_t segment, uint32_t ordinal,
    uint32_t domain)
{
	const struct mark_segment *g = segment_of(m, segment);

	return g && ordinal < g->count && bit_get(m, domain == 0 ? PLANE_ANY :
	    plane_of(m, domain), g->first + ordinal);
}

bool mark_hides(const struct mark *m, const struct entry *en,
    uint32_t domain)
{
	if (!m->condemned || !mark_covers(m, en->place.segment, en->ordinal,
	    true))
		return false;
	return !mark_reached(m, en->place.segment, en->ordinal, domain);
}

/* To be walked.  Cut lock held; touch_room() was there. */
static void queue(struct mark *m, const struct key *k,
    const struct entry *en, uint32_t plane)
{
	if (!entry_quarantined(m->store, en))
		m->touched[m->touched_count++] = (struct touch){ *k,
			en->place, plane };
}

/* Before a bit is set: a set bit says that the page is queued. */
static int touch_room(struct mark *m, struct err *e)
{
	void *array = m->touched;

	if (room(&array, m->touched_count, &m->touched_cap,
	    sizeof(*m->touched), e) != 0)
		return -1;
	m->touched = array;
	return 0;
}

static int touch_plane(struct mark *m, const struct key *k,
    const struct entry *en, uint32_t plane, struct err *e)
{
	const struct mark_segment *g = segment_of(m, en->place.segment);
	bool fresh;

	if (!g || en->ordinal >= g->count)
		return 0;
	if (touch_room(m, e) != 0)
		return -1;
	(void)bit_set(m, PLANE_ANY, g->first + en->ordinal);
	fresh = bit_set(m, plane, g->first + en->ordinal);
	if (fresh && !m->condemned &&
	    object_has_refs((enum object_type)en->type))
		queue(m, k, en, plane);
	return 0;
}

int mark_touch_page(struct mark *m, const struct key *k,
    const struct entry *en, uint32_t domain, struct err *e)
{
	uint32_t plane = plane_of(m, domain);

	if (mark_covers(m, en->place.segment, en->ordinal, false))
		return touch_plane(m, k, en, plane, e);
	if (touch_room(m, e) != 0)
		return -1;
	queue(m, k, en, plane);
	return 0;
}

int mark_touch(struct mark *m, const struct key *k, const struct entry *en,
    uint32_t domain, struct err *e)
{
	return touch_plane(m, k, en, plane_of(m, domain), e);
}

bool mark_condemn(struct mark *m)
{
	if (m->touched_count > 0 || extsort_count(m->next) > 0)
		return false;
	m->condemned = true;
	return true;
}

/* ---- the queue ---------------------------------------------------------- */

static void be32_put(uint8_t *p, uint32_t v)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void touch_put(uint8_t out[static TOUCH_SIZE], const struct touch *t)
{
	be32_put(out, (uint32_t)(t->place.segment >> 32));
	be32_put(out + 4, (uint32_t)t->place.segment);
	be32_put(out + AT_ROW, t->place.row);
	be32_put(out + AT_OFFSET, t->place.offset);
	be32_put(out + AT_SIZE, t->place.size);
	out[AT_LAST] = t->place.last;
	be32_put(out + AT_PLANE, t->plane);
	memcpy(out + AT_KEY, t->key.bytes, KEY_SIZE);
}

static void touch_get(struct touch *t, const uint8_t in[static TOUCH_SIZE])
{
	t->place = (struct place){
		.segment = be64_get(in),
		.row = be32_get(in + AT_ROW),
		.offset = be32_get(in + AT_OFFSET),
		.size = be32_get(in + AT_SIZE),
		.last = in[AT_LAST],
	};
	t->plane = be32_get(in + AT_PLANE);
	memcpy(t->key.bytes, in + AT_KEY, KEY_SIZE);
}

/* Move what was touched to the coming wave. */
static int drain(struct mark *m, struct err *e)
{
	struct touch *list;
	size_t count;
	int rc = 0;

	pthread_mutex_lock(&m->store->cut);
	list = m->touched;
	count = m->touched_count;
	m->touched = NULL;
	m->touched_count = m->touched_cap = 0;
	pthread_mutex_unlock(&m->store->cut);
	for (size_t i = 0; i < count && rc == 0; i++) {
		uint8_t raw[TOUCH_SIZE];

		touch_put(raw, &list[i]);
		rc = extsort_add(m->next, raw, sizeof(raw), e);
	}
	free(list);
	return rc;
}

/* ---- walking ------------------------------------------------------------ */

static bool find_page(const struct frame_view *v, const struct key *k,
    struct frame_object *out)
{
	struct id id;

	key_id(k, &id);
	for (uint32_t i = 0; i < v->object_count; i++) {
		frame_object_at(v, i, out);
		if (id_equal(&out->id, &id))
			return true;
	}
	return false;
}

/* Touch all that a page names, for the domain of that plane. */
static int page_refs(struct mark *m, const struct frame_view *v,
    const struct frame_object *o, uint32_t plane, struct mark_result *r,
    struct err *e)
{
	struct store *s = m->store;
	struct looks l;
	int rc = 0;

	looks_init(&l);
	for (uint32_t i = 0; i < o->refs && rc == 0; i++) {
		struct id id;

		frame_ref_at(v, o->first_ref + i, &id);
		rc = looks_add(&l, &id, e);
	}
	if (rc == 0)
		rc = looks_lock(s, &l, false, e);
	if (rc == 0) {
		for (size_t i = 0; i < l.count && rc == 0; i++) {
			const struct entry *en = looks_raw(s, &l, i);

			r->missing += !en || entry_quarantined(s, en);
			if (en)
				rc = touch_plane(m, &l.keys[i], en, plane, e);
		}
		pthread_mutex_unlock(&s->cut);
	}
	looks_release(&l);
	return rc;
}

static int walk_one(struct mark *m, const struct touch *t,
    struct mark_result *r, struct err *e)
{
	struct store *s = m->store;
	struct frame_object o;
	struct frame_view v;
	struct cached *c;
	struct err why;
	int rc = 0;

	switch (cache_frame(s->cache, s->array, &t->place, &c, &why)) {
	case ARRAY_READ_OK:
		break;
	case ARRAY_READ_UNAVAILABLE:
		r->away++;
		return 0;
	default:
		r->damaged++;
		return 0;
	}
	r->pages++;
	if (frame_parse(&v, c->data, c->size, &why) != 0 ||
	    !find_page(&v, &t->key, &o))
		r->damaged++;
	else
		rc = page_refs(m, &v, &o, t->plane, r, e);
	cache_drop(s->cache, c);
	return rc;
}

static int wave(struct mark *m, struct extsort *queue,
    struct mark_result *r, struct job_ctl *ctl, struct err *e)
{
	const uint8_t *raw;
	struct touch t;
	size_t size, n = 0;
	int rc;

	while ((rc = extsort_next(queue, &raw, &size, e)) == 1) {
		if (ctl && atomic_load(&ctl->cancel))
			return err_set(e, ERR_CANCELLED, "cancelled");
		if (size != TOUCH_SIZE)
			return err_set(e, ERR_CORRUPT, "a mark's queue");
		touch_get(&t, raw);
		if (walk_one(m, &t, r, e) != 0)
			return -1;
		if (++n % DRAIN_PAGES == 0 && drain(m, e) != 0)
			return -1;
	}
	return rc;
}

int mark_run(struct mark *m, struct mark_result *r, struct job_ctl *ctl,
    struct err *e)
{
	for (;;) {
		struct extsort *queue = NULL, *fresh;
		int rc;

		if (drain(m, e) != 0)
			return -1;
		if (extsort_count(m->next) == 0)
			return 0;
		if (extsort_new(&fresh, m->store->dir, MARK_QUEUE_MEMORY / 2,
		    e) != 0)
			return -1;
		queue = m->next;
		m->next = fresh;
		rc = extsort_finish(queue, e);
		if (rc == 0)
			rc = wave(m, queue, r, ctl, e);
		extsort_free(queue);
		if (rc != 0)
			return -1;
	}
}
