/*
 * raid/assemble.c - from a heap of disks to the members of one array.
 *
 * Every good slot of every device is looked at.  The member table comes from
 * the newest superblock that two slots agree on (anywhere); entries that only
 * others know, because the newest was lost with its disk, are added from them.
 * All roots that any slot names are kept: which of them begins the history is
 * for the log to say.
 *
 * A device without a sound superblock is told and left out, so that a disk
 * which was swapped for a blank one does not keep the others from serving; it
 * is an error only when there is nothing else, or when it belongs to another
 * array.
 */
#include "raid/assemble.h"

#include "base/hash.h"
#include "base/warn.h"
#include "raid/dev.h"
#include "raid/mio.h"
#include "raid/super.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct found {			/* one device */
	struct mio *io;
	struct super_slots slots;
	const struct super *own;	/* its best slot; NULL: none */
};

struct finding {
	struct found *found;
	size_t count;
	struct assembly *as;
	struct warn_sink *warn;
};

static const char *name_of(const struct found *f)
{
	return mio_dev(f->io)->name;
}

static void leave_out(struct finding *g, struct found *f, const char *why)
{
	const char *name = name_of(f);

	warn_add(g->warn, name, strlen(name), "left out: %s", why);
	f->own = NULL;
}

/* ---- the devices ------------------------------------------------------ */

static int found_read(struct finding *g, struct found *f, struct err *e)
{
	int best;

	if (member_extents_in(mio_dev(f->io)->size, RAID_EXTENT_MIN) == 0) {
		err_set(&f->slots.why, ERR_NOT_FOUND, "too small");
		leave_out(g, f, "it is too small to be a member of an array");
		return 0;
	}
	if (super_read(&f->slots, f->io, e) != 0)
		return -1;
	best = super_best(&f->slots);
	if (best >= 0) {
		f->own = &f->slots.slot[best];
		return 0;
	}
	if (f->slots.newer) {
		*e = f->slots.why;
		return err_add(e, "%s", name_of(f));
	}
	if (f->slots.why.code == ERR_NOT_FOUND)
		leave_out(g, f, "it has no superblock of an array");
	else
		leave_out(g, f, f->slots.why.text);
	return 0;
}

static int devices_take(struct finding *g, struct dev **devs, size_t count,
    uint64_t call_ms, struct err *e)
{
	int rc = 0;

	g->found = calloc(count ? count : 1, sizeof(*g->found));
	if (!g->found)
		rc = err_set(e, ERR_NO_MEMORY, "no memory to assemble");
	for (size_t i = 0; i < count; i++) {
		if (rc != 0)
			dev_close(devs[i]);
		else if (mio_new(&g->found[g->count].io, devs[i], call_ms,
		    e) != 0)
			rc = -1;
		else
			g->count++;
	}
	for (size_t i = 0; i < g->count && rc == 0; i++)
		rc = found_read(g, &g->found[i], e);
	return rc;
}

/* One array, each member once. */
static int devices_check(struct finding *g, struct err *e)
{
	const struct found *first = NULL;

	for (size_t i = 0; i < g->count; i++) {
		const struct found *f = &g->found[i];

		if (!f->own)
			continue;
		if (!first)
			first = f;
		if (memcmp(f->own->array, first->own->array,
		    RAID_UUID_SIZE) != 0)
			return err_set(e, ERR_CONFLICT,
			    "%s and %s belong to different arrays",
			    name_of(first), name_of(f));
		for (size_t k = 0; k < i; k++)
			if (g->found[k].own && memcmp(g->found[k].own->member,
			    f->own->member, RAID_UUID_SIZE) == 0)
				return err_set(e, ERR_CONFLICT, "%s and %s "
				    "are the same member: one is a copy",
				    name_of(&g->found[k]), name_of(f));
	}
	if (first)
		return 0;
	if (g->count == 0)
		return err_set(e, ERR_NOT_FOUND, "no member was given");
	if (g->found[0].slots.why.code == ERR_NOT_FOUND)
		return err_set(e, ERR_NOT_FOUND,
		    "%s has no superblock of an array", name_of(g->found));
	*e = g->found[0].slots.why;
	return err_add(e, "%s", name_of(g->found));
}

/* ---- the newest superblock -------------------------------------------- */

/* Calls fn for every good slot of every device that takes part. */
static int each_slot(const struct finding *g,
    int (*fn)(void *arg, const struct super *s, struct err *e), void *arg,
    struct err *e)
{
	for (size_t i = 0; i < g->count; i++) {
		const struct found *f = &g->found[i];

		for (size_t k = 0; f->own && k < MEMBER_SLOTS; k++)
			if (f->slots.good[k] &&
			    memcmp(f->slots.slot[k].array, f->own->array,
			    RAID_UUID_SIZE) == 0 &&
			    fn(arg, &f->slots.slot[k], e) != 0)
				return -1;
	}
	return 0;
}

struct newest {
	const struct super *best, *agreed;
	const struct finding *g;
	uint64_t seq_max;
};

struct counting {
	const struct super *like;
	unsigned count;
};

static int count_same(void *arg, const struct super *s, struct err *e)
{
	struct counting *c = arg;

	(void)e;
	c->count += s->write_seq == c->like->write_seq &&
	    s->event == c->like->event;
	return 0;
}

static bool is_newer(const struct super *a, const struct super *b)
{
	if (!b || a->write_seq != b->write_seq)
		return !b || a->write_seq > b->write_seq;
	return a->event > b->event;
}

static int newest_try(void *arg, const struct super *s, struct err *e)
{
	struct newest *n = arg;
	struct counting c = { .like = s };

	if (s->write_seq > n->seq_max)
		n->seq_max = s->write_seq;
	if (is_newer(s, n->best))
		n->best = s;
	if (!is_newer(s, n->agreed))
		return 0;
	if (each_slot(n->g, count_same, &c, e) != 0)
		return -1;
	if (c.count >= 2)
		n->agreed = s;
	return 0;
}

/* ---- members ---------------------------------------------------------- */

static int member_from(struct assembly *as, const struct super *s, size_t i,
    struct err *e)
{
	const struct super_entry *p = &s->table[i];
	struct member *m = member_new();

	if (!m)
		return err_set(e, ERR_NO_MEMORY, "no memory for a member");
	m->index = (unsigned)i;
	memcpy(m->uuid, p->uuid, sizeof(m->uuid));
	memcpy(m->replaced_by, p->replaced_by, sizeof(m->replaced_by));
	m->state = p->state == MEMBER_ACTIVE ? MEMBER_MISSING : p->state;
	m->size = p->size;
	m->extent_count = p->extent_count;
	m->extent_size = as->base.extent_size;
	as->members[as->member_count++] = m;
	return 0;
}

/* Add the members that only this superblock knows. */
static int members_more(void *arg, const struct super *s, struct err *e)
{
	struct assembly *as = arg;

	while (as->member_count < s->count)
		if (member_from(as, s, as->member_count, e) != 0)
			return -1;
	return 0;
}

static int geometry_check(const struct assembly *as, const struct found *f,
    struct err *e)
{
	const struct super *s = f->own;

	if (s->extent_size != as->base.extent_size ||
	    s->parity != as->base.parity)
		return err_set(e, ERR_CONFLICT,
		    "%s: the superblocks differ in geometry", name_of(f));
	if (memcmp(as->members[s->index]->uuid, s->member,
	    RAID_UUID_SIZE) != 0)
		return err_set(e, ERR_CONFLICT, "%s is member %u, but others "
		    "know another disk as that", name_of(f), s->index);
	if (as->members[s->index]->extent_count > member_extents_in(
	    as->members[s->index]->size, s->extent_size))
		return err_set(e, ERR_CORRUPT,
		    "%s: more extents than its size allows", name_of(f));
	return 0;
}

static int member_attach(struct finding *g, struct found *f, struct err *e)
{
	struct member *m;

	if (!f->own)
		return 0;
	if (geometry_check(g->as, f, e) != 0)
		return -1;
	m = g->as->members[f->own->index];
	if (mio_dev(f->io)->size < m->size) {
		leave_out(g, f, "it is smaller than it was");
		return 0;
	}
	m->path = strdup(name_of(f));
	if (!m->path)
		return err_set(e, ERR_NO_MEMORY, "no memory for a member");
	m->io = f->io;
	f->io = NULL;
	if (m->state == MEMBER_MISSING)
		m->state = MEMBER_ACTIVE;
	return 0;
}

/* ---- roots ------------------------------------------------------------ */

static int root_add(void *arg, const struct super *s, struct err *e)
{
	struct assembly *as = arg;
	struct log_root root = { .generation = s->generation }, *more;

	for (size_t i = 0; i < RAID_MEMBERS_MAX; i++)
		root.extent[i] = i < s->count ? s->table[i].root :
		    LOG_NO_EXTENT;
	for (size_t i = 0; i < as->root_count; i++)
		if (as->roots[i].generation == root.generation &&
		    memcmp(as->roots[i].extent, root.extent,
		    sizeof(root.extent)) == 0) {
			as->roots[i].named |= UINT64_C(1) << s->index;
			return 0;
		}
	more = realloc(as->roots, (as->root_count + 1) * sizeof(*more));
	if (!more)
		return err_set(e, ERR_NO_MEMORY, "no memory to assemble");
	as->roots = more;
	root.event = s->event;
	root.named = UINT64_C(1) << s->index;
	more[as->root_count++] = root;
	return 0;
}

/* ---- all of it -------------------------------------------------------- */

static int build(struct finding *g, struct err *e)
{
	struct newest n = { .g = g };
	struct assembly *as = g->as;

	if (devices_check(g, e) != 0 ||
	    each_slot(g, newest_try, &n, e) != 0)
		return -1;
	as->base = n.agreed ? *n.agreed : *n.best;
	as->base.write_seq = n.seq_max;
	if (members_more(as, &as->base, e) != 0 ||
	    each_slot(g, members_more, as, e) != 0 ||
	    each_slot(g, root_add, as, e) != 0)
		return -1;
	for (size_t i = 0; i < g->count; i++)
		if (member_attach(g, &g->found[i], e) != 0)
			return -1;
	return 0;
}

static struct assembly *assembly_new(uint64_t call_ms)
{
	struct assembly *as = calloc(1, sizeof(*as));

	if (!as)
		return NULL;
	as->call_ms = call_ms;
	as->members = calloc(RAID_MEMBERS_MAX, sizeof(struct member *));
	if (!as->members) {
		free(as);
		return NULL;
	}
	return as;
}

int assemble(struct assembly **out, struct dev **devs, size_t dev_count,
    uint64_t call_ms, struct warn_sink *warn, struct err *e)
{
	struct finding g = { .warn = warn };
	int rc;

	rc = devices_take(&g, devs, dev_count, call_ms, e);
	if (rc == 0) {
		g.as = assembly_new(call_ms);
		if (!g.as)
			rc = err_set(e, ERR_NO_MEMORY, "no memory to assemble");
	}
	if (rc == 0)
		rc = build(&g, e);
	for (size_t i = 0; i < g.count; i++)
		mio_free(g.found[i].io);
	free(g.found);
	if (rc != 0)
		assembly_free(g.as);
	else
		*out = g.as;
	return rc;
}

void assembly_free(struct assembly *as)
{
	if (!as)
		return;
	for (size_t i = 0; i < as->member_count; i++)
		member_free(as->members[i]);
	free(as->members);
	free(as->roots);
	free(as);
}

void assembly_host(const struct assembly *as, struct log_host *host)
{
	memcpy(host->uuid, as->base.array, sizeof(host->uuid));
	host->extent_size = as->base.extent_size;
	host->roots = as->roots;
	host->root_count = as->root_count;
	host->members = as->members;
	host->member_count = as->member_count;
}

int assembly_roots(struct assembly *as, const struct log_root *root,
    void (*failed)(void *arg, unsigned member, const struct err *why),
    void *arg, struct err *e)
{
	struct super *s = &as->base;

	super_table(s, as->members, as->member_count);
	for (size_t i = 0; i < as->member_count; i++)
		s->table[i].root = root->extent[i];
	s->generation = root->generation;
	s->event = root->event;
	s->write_seq++;
	return super_write(s, as->members, as->member_count, failed, arg, e);
}

/* ---- new members ------------------------------------------------------ */

/* The smallest size with RAID_EXTENTS_MIN extents, and some to spare. */
static uint64_t size_min(uint64_t extent_size)
{
	return (RAID_EXTENTS_MIN + 2) * extent_size + (UINT64_C(6) << 20);
}

int assembly_size_check(const struct dev *d, uint64_t extent_size,
    struct err *e)
{
	uint64_t count = member_extents_in(d->size, extent_size);

	if (count >= RAID_EXTENTS_MIN && count <= RAID_EXTENTS_MAX)
		return 0;
	if (count < RAID_EXTENTS_MIN)
		return err_set(e, ERR_LIMIT, "%s is too small: %" PRIu64
		    " MiB, at least %" PRIu64 " MiB are needed (extents of %"
		    PRIu64 " MiB)", d->name, d->size >> 20,
		    size_min(extent_size) >> 20, extent_size >> 20);
	return err_set(e, ERR_LIMIT, "%s is too big: %" PRIu64
	    " MiB, at most %" PRIu64 " MiB fit (extents of %" PRIu64 " MiB)",
	    d->name, d->size >> 20, RAID_EXTENTS_MAX * (extent_size >> 20),
	    extent_size >> 20);
}

static int member_on(struct assembly *as, struct dev *dev, struct member *m,
    struct err *e)
{
	m->index = (unsigned)as->member_count;
	m->size = dev->size;
	m->extent_size = as->base.extent_size;
	m->extent_count = (uint32_t)member_extents_in(m->size,
	    m->extent_size);
	m->state = MEMBER_ACTIVE;
	m->path = strdup(dev->name);
	if (!m->path) {
		dev_close(dev);
		return err_set(e, ERR_NO_MEMORY, "no memory for a member");
	}
	if (mio_new(&m->io, dev, as->call_ms, e) != 0)
		return -1;
	return random_bytes(m->uuid, sizeof(m->uuid), e);
}

int assembly_add(struct assembly *as, struct dev *dev, struct member **out,
    struct err *e)
{
	struct member *m = NULL;

	if (as->member_count == RAID_MEMBERS_MAX)
		err_set(e, ERR_LIMIT, "an array has at most %d members",
		    RAID_MEMBERS_MAX);
	else if (dev->read_only)
		err_set(e, ERR_DENIED, "%s is read-only", dev->name);
	else if (assembly_size_check(dev, as->base.extent_size, e) == 0) {
		m = member_new();
		if (!m)
			err_set(e, ERR_NO_MEMORY, "no memory for a member");
	}
	if (!m) {
		dev_close(dev);
		return -1;
	}
	if (member_on(as, dev, m, e) != 0) {
		member_free(m);
		return -1;
	}
	as->members[as->member_count++] = m;
	*out = m;
	return 0;
}

/* ---- scrub ------------------------------------------------------------ */

/* Is this slot what was last written there?  Counters of other runs apart. */
static bool slot_is_current(const struct assembly *as,
    const struct super_slots *s, unsigned slot)
{
	return s->good[slot] &&
	    s->slot[slot].write_seq == as->base.write_seq &&
	    memcmp(s->slot[slot].array, as->base.array,
	    RAID_UUID_SIZE) == 0;
}

static int member_scrub(const struct assembly *as, struct member *m,
    const struct scan_ops *ops, bool heal, size_t *bad, struct err *e)
{
	struct super_slots slots;

	if (super_read(&slots, m->io, e) != 0)
		return -1;
	for (unsigned i = 0; i < MEMBER_SLOTS; i++) {
		if (slot_is_current(as, &slots, i) && memcmp(
		    slots.slot[i].member, m->uuid, RAID_UUID_SIZE) == 0)
			continue;
		(*bad)++;
		atomic_fetch_add(&m->errors[MERR_CHECKSUM], 1);
		if (ops && ops->bad_strip)
			ops->bad_strip(ops->arg, m->index, m->path, 0, i,
			    "superblock", heal);
	}
	return 0;
}

int assembly_scrub(struct assembly *as, struct log *l, bool heal,
    struct scan_report *report, const struct scan_ops *ops, struct err *e)
{
	size_t bad = 0;
	int rc = 0;

	log_hold(l);
	for (size_t i = 0; i < as->member_count && rc == 0; i++)
		if (member_writable(as->members[i]))
			rc = member_scrub(as, as->members[i], ops, heal, &bad,
			    e);
	log_let_go(l);
	if (rc != 0)
		return -1;
	report->stripes += MEMBER_SLOTS;
	report->strips_bad += bad;
	if (bad == 0 || !heal)
		return 0;
	if (log_write_roots(l, e) != 0)
		return -1;
	report->strips_healed += bad;
	return 0;
}
