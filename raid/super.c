/*
 * raid/super.c - superblocks on the members.
 *
 * THE ORDER   slots 0 and 2 of all members --> flush --> slots 1 and 3 -->
 *             flush.  A crash spoils at most the two slots of one phase; the
 *             other two are whole, either both old or both new.
 *
 * INVARIANTS   (tests/raid/test_super.c)
 *
 *   S1  After a crash anywhere in super_write, super_best finds the old
 *       superblock or the new one.
 *   S2  One slot that alone claims to be newer (a misdirected or forged write)
 *       does not win against two that agree.
 */
#include "raid/super.h"

#include "raid/dev.h"
#include "raid/flush_site.h"
#include "raid/mio.h"

#include <stdatomic.h>
#include <string.h>

/* The size by which slots are placed: as recorded, if one of the first two
 * slots tells (a device may have grown), else the device's. */
static uint64_t size_for_slots(const struct super_slots *s, struct mio *io)
{
	for (unsigned i = 0; i < 2; i++)
		if (s->good[i])
			return s->slot[i].table[s->slot[i].index].size;
	return mio_dev(io)->size;
}

static void slot_read(struct super_slots *out, unsigned slot, struct mio *io,
    struct err *e)
{
	uint64_t at = member_slot_offset(size_for_slots(out, io), slot);
	uint8_t raw[SUPER_SIZE];
	struct super *s = &out->slot[slot];

	if (mio_read(io, raw, SUPER_SIZE, at, true, e) != 0 ||
	    super_get(s, raw, SUPER_SIZE, e) != 0)
		return;
	if (s->slot != slot) {
		err_set(e, ERR_CORRUPT, "superblock slot %u holds slot %u",
		    slot, s->slot);
		return;
	}
	out->good[slot] = true;
}

int super_read(struct super_slots *out, struct mio *io, struct err *e)
{
	memset(out, 0, sizeof(*out));
	for (unsigned i = 0; i < MEMBER_SLOTS; i++) {
		struct err why = { .code = ERR_NONE };

		slot_read(out, i, io, &why);
		if (why.code == ERR_NO_MEMORY) {
			*e = why;
			return -1;
		}
		out->newer = out->newer || why.code == ERR_VERSION;
		/* "Nothing here" says less than any other reason. */
		if (why.code != ERR_NONE && (why.code != ERR_NOT_FOUND ||
		    out->why.code == ERR_NONE))
			out->why = why;
	}
	return 0;
}

int super_best(const struct super_slots *s)
{
	int best = -1, agreed = -1;

	for (int i = 0; i < MEMBER_SLOTS; i++) {
		if (!s->good[i])
			continue;
		if (best < 0 || s->slot[i].write_seq > s->slot[best].write_seq)
			best = i;
		for (int k = 0; k < i; k++)
			if (s->good[k] && s->slot[k].write_seq ==
			    s->slot[i].write_seq && (agreed < 0 ||
			    s->slot[i].write_seq > s->slot[agreed].write_seq))
				agreed = i;
	}
	return agreed >= 0 ? agreed : best;
}

void super_table(struct super *s, struct member *const *members, size_t count)
{
	s->count = (uint16_t)count;
	for (size_t i = 0; i < count; i++) {
		struct super_entry *p = &s->table[i];
		const struct member *m = members[i];

		memcpy(p->uuid, m->uuid, sizeof(p->uuid));
		memcpy(p->replaced_by, m->replaced_by, sizeof(p->replaced_by));
		p->size = m->size;
		p->extent_count = m->extent_count;
		p->state = m->state;
	}
}

struct writing {
	struct member **members;
	size_t count;
	uint64_t set;		/* members still taking part */
	void (*failed)(void *arg, unsigned member, const struct err *why);
	void *arg;
	struct err last;
};

/* Run the requests of the members in `who`; those that fail drop out. */
static void run(struct writing *w, struct mio_req *reqs, const unsigned *who,
    size_t count)
{
	mio_run(reqs, count);
	for (size_t i = 0; i < count; i++) {
		if (reqs[i].rc == 0 || !(w->set >> who[i] & 1))
			continue;
		w->set &= ~(UINT64_C(1) << who[i]);
		w->last = reqs[i].e;
		w->failed(w->arg, who[i], &reqs[i].e);
	}
}

static int slot_buffer(struct iobuf **out, const struct super *base,
    const struct member *m, unsigned slot, struct err *e)
{
	struct super s = *base;

	*out = iobuf_new(SUPER_SIZE);
	if (!*out)
		return err_set(e, ERR_NO_MEMORY, "no memory for a superblock");
	memcpy(s.member, m->uuid, sizeof(s.member));
	s.index = (uint16_t)m->index;
	s.slot = (uint8_t)slot;
	super_put((*out)->data, &s);
	return 0;
}

static int write_slot(struct writing *w, const struct super *base,
    unsigned slot, struct err *e)
{
	struct mio_req reqs[RAID_MEMBERS_MAX];
	unsigned who[RAID_MEMBERS_MAX] = { 0 };
	size_t count = 0;
	int rc = 0;

	for (unsigned i = 0; i < w->count && rc == 0; i++) {
		struct member *m = w->members[i];
		struct mio_req *r = &reqs[count];

		if (!(w->set >> i & 1))
			continue;
		*r = (struct mio_req){ .mio = m->io, .op = MIO_WRITE,
			.size = SUPER_SIZE,
			.offset = member_slot_offset(m->size, slot) };
		who[count] = i;
		rc = slot_buffer(&r->buf, base, m, slot, e);
		if (rc == 0)
			count++;
	}
	if (rc == 0)
		run(w, reqs, who, count);
	for (size_t i = 0; i < count; i++)
		iobuf_unref(reqs[i].buf);
	return rc;
}

static void flush_all(struct writing *w)
{
	struct mio_req reqs[RAID_MEMBERS_MAX];
	unsigned who[RAID_MEMBERS_MAX] = { 0 };
	size_t count = 0;

	for (unsigned i = 0; i < w->count; i++) {
		if (!(w->set >> i & 1))
			continue;
		who[count] = i;
		reqs[count++] = (struct mio_req){ .op = MIO_FLUSH,
			.mio = w->members[i]->io };
	}
	run(w, reqs, who, count);
}

int super_write(const struct super *base, struct member **members,
    size_t count, void (*failed)(void *arg, unsigned member,
    const struct err *why), void *arg, struct err *e)
{
	struct writing w = { .members = members, .count = count,
		.failed = failed, .arg = arg };

	for (size_t i = 0; i < count; i++)
		if (member_writable(members[i]))
			w.set |= UINT64_C(1) << i;
	err_set(&w.last, ERR_UNAVAILABLE, "no member is writable");
	for (unsigned phase = 0; phase < 2; phase++) {
		if (write_slot(&w, base, phase, e) != 0 ||
		    write_slot(&w, base, phase + 2, e) != 0)
			return -1;
		if (flush_site(phase == 0 ? "super.first" : "super.second"))
			flush_all(&w);
	}
	if (w.set != 0)
		return 0;
	*e = w.last;
	return err_add(e, "no superblock could be written");
}
