/*
 * raid/heartbeat.c - the owner record: who has the array.
 *
 * flock keeps two processes of one machine apart.  Two machines that see the
 * same disks have only the disks to talk by.
 *
 * THE ORDER at opening
 *
 *   records read --> (4 beats of waiting, if another machine had it and did not
 *   end cleanly) --> log read --> records read again, nothing may have moved
 *   --> our record written --> read again: ours everywhere --> epoch
 *
 * WHILE IT IS OPEN
 *
 *   every beat             read; all ours? then the counter, one higher
 *   before each log flush  read; all ours?
 *   before any write to a member whose record was not seen to be ours for a
 *   beat (we were suspended, stopped, starved): read that member's (the guard
 *   of raid/mio.h)
 *
 *   A foreign record on one member is enough: the array stops.  So does one in
 *   which no member shows ours any more: another had it and left.
 *
 * INVARIANTS   (tests/raid/test_heartbeat.c)
 *
 *   H1  Who opens while an owner beats is refused, and writes nothing.
 *   H2  Who was taken over writes no log block any more.
 *   H3  After a crash the same machine opens at once, and a clean end leaves
 *       no record.
 *
 * NOT PROVEN   Two machines that open a free array in the same milliseconds,
 * or a host that stops for 20 s between the check and the write behind it,
 * are caught at the next look only: disks have no compare-and-swap.
 *
 * No flush: a record matters only while its writer lives, and what a device
 * has taken others can read.
 */
#include "raid/heartbeat.h"

#include "raid/array_impl.h"
#include "raid/fmt_owner.h"
#include "raid/machine.h"
#include "raid/stripe_io.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/warn.h"

#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BEAT_MS 5000
#define BEATS_TO_WAIT 4		/* for a sign of life */
#define LOOKS_PER_BEAT 4	/* while waiting for it */
#define CANCEL_MS 100		/* how soon a cancelled wait ends */

enum found {
	FOUND_NOTHING,		/* could not be read, or is damaged */
	FOUND_NOBODY,
	FOUND_OURS,
	FOUND_OTHER,
};

struct seat {			/* what we know of one member */
	bool ours;		/* our record was written there */
	bool looked;
	enum found found;	/* when last looked at by one who waits */
	uint8_t owner[16];
	uint64_t counter;
	unsigned same;		/* beats in which it did not change */
};

struct heartbeat {
	struct array *a;
	struct array_machine self;
	struct warn_sink *warn;
	const atomic_bool *cancel;
	struct owner_rec rec;	/* all but its counter is constant */
	uint64_t wait_ms;	/* for a look once we beat, so that one slow
				 * member does not silence us on the others;
				 * before that 0: as long as the member's */
	bool claimed, beating;
	pthread_t thread;
	pthread_mutex_t lock;	/* guards: quit, and once it beats
				 * rec.counter, seats */
	pthread_cond_t wake;
	bool quit;
	struct seat seats[RAID_MEMBERS_MAX];
};

/* One reading of all records, by the members that take writes. */
struct look {
	uint64_t at_ms;		/* clock_boot_ms() before it */
	size_t count;
	struct member *m[RAID_MEMBERS_MAX];
	enum found found[RAID_MEMBERS_MAX];
	struct owner_rec rec[RAID_MEMBERS_MAX];
	struct member *take[RAID_MEMBERS_MAX];	/* to bear our record next */
	size_t take_count;
};

/* ---- reading and writing records --------------------------------------- */

static void members_collect(struct heartbeat *h, struct look *l)
{
	struct array *a = h->a;

	l->count = l->take_count = 0;
	pthread_mutex_lock(&a->lock);
	for (size_t i = 0; i < a->as->member_count; i++)
		if (member_writable(a->as->members[i]))
			l->m[l->count++] = a->as->members[i];
	pthread_mutex_unlock(&a->lock);
}

static enum found classify(const struct heartbeat *h, struct owner_rec *rec,
    const uint8_t *block)
{
	struct err e;

	if (owner_get(rec, block, OWNER_SIZE, &e) != 0)
		return e.code == ERR_NOT_FOUND ? FOUND_NOBODY : FOUND_NOTHING;
	if (memcmp(rec->array, h->rec.array, sizeof(rec->array)) != 0)
		return FOUND_NOBODY;	/* from an earlier life of the disk */
	return memcmp(rec->owner, h->rec.owner, sizeof(rec->owner)) == 0 ?
	    FOUND_OURS : FOUND_OTHER;
}

static int look_read(struct heartbeat *h, struct look *l, struct err *e)
{
	struct mio_req reqs[RAID_MEMBERS_MAX];
	int rc = 0;

	l->at_ms = clock_boot_ms();
	members_collect(h, l);
	for (size_t i = 0; i < l->count; i++) {
		reqs[i] = (struct mio_req){ .mio = l->m[i]->io,
			.op = MIO_READ, .uncached = true, .size = OWNER_SIZE,
			.offset = MEMBER_OWNER_AT,
			.wait_ms = h->wait_ms,
			.buf = iobuf_new(OWNER_SIZE) };
		if (!reqs[i].buf)
			rc = err_set(e, ERR_NO_MEMORY,
			    "no memory for owner records");
	}
	if (rc == 0)
		mio_run(reqs, l->count);
	for (size_t i = 0; i < l->count; i++) {
		l->found[i] = rc != 0 || reqs[i].rc != 0 ? FOUND_NOTHING :
		    classify(h, &l->rec[i], reqs[i].buf->data);
		if (l->found[i] == FOUND_OURS)
			mio_guard_seen(l->m[i]->io, l->at_ms);
		iobuf_unref(reqs[i].buf);
	}
	return rc;
}

/* The same block to all of these members; those that fail are set aside.  One
 * that takes longer than `wait_ms` (if not 0) is left to the next beat. */
static void block_write(struct heartbeat *h, struct member *const *members,
    size_t count, struct iobuf *block, uint64_t wait_ms)
{
	struct mio_req reqs[RAID_MEMBERS_MAX];

	for (size_t i = 0; i < count; i++)
		reqs[i] = (struct mio_req){ .mio = members[i]->io,
			.op = MIO_WRITE, .size = OWNER_SIZE, .buf = block,
			.offset = MEMBER_OWNER_AT, .wait_ms = wait_ms };
	mio_run(reqs, count);
	for (size_t i = 0; i < count; i++) {
		if (reqs[i].rc == 0 || (reqs[i].e.code == ERR_TIMEOUT &&
		    !mio_stuck(members[i]->io)))
			continue;
		member_count_error(members[i], MIO_WRITE, &reqs[i].e);
		array_member_failed(h->a, members[i]->index, &reqs[i].e);
	}
}

/* Judges a block for raid/mio.h; key: array, then owner. */
static int guard_judge(const uint8_t *block, const uint8_t *key,
    struct err *e)
{
	struct owner_rec rec;
	struct err why;

	if (owner_get(&rec, block, OWNER_SIZE, &why) != 0) {
		if (why.code != ERR_NOT_FOUND)
			return 0;
		return err_set(e, ERR_CONFLICT, "the owner record is gone: "
		    "another host has had the array meanwhile");
	}
	if (memcmp(rec.owner, key + RAID_UUID_SIZE, sizeof(rec.owner)) == 0)
		return 0;
	return err_set(e, ERR_CONFLICT, "host %s (process %" PRIu32 ") has "
	    "taken the array over", rec.by.host, rec.by.pid);
}

/* This member is to bear our record.  What it bears now was seen at `at_ms`
 * (0: could not be); so late that another may have come since, the guard looks
 * again before it is written. */
static int seat_take(struct heartbeat *h, struct member *m, uint64_t at_ms,
    struct err *e)
{
	struct mio_guard g = { .offset = MEMBER_OWNER_AT,
		.age_ms = h->rec.interval_ms, .judge = guard_judge };

	memcpy(g.key, h->rec.array, RAID_UUID_SIZE);
	memcpy(g.key + RAID_UUID_SIZE, h->rec.owner, sizeof(h->rec.owner));
	if (mio_guard_set(m->io, &g, e) != 0)
		return -1;
	mio_guard_seen(m->io, at_ms);
	return 0;
}

static int look_take(struct heartbeat *h, struct look *l, size_t i,
    struct err *e)
{
	l->take[l->take_count++] = l->m[i];
	return seat_take(h, l->m[i], l->found[i] == FOUND_NOTHING ? 0 :
	    l->at_ms, e);
}

/* Our record, with the counter as it is, on these members. */
static int records_write(struct heartbeat *h, struct member *const *members,
    size_t count, uint64_t wait_ms, struct err *e)
{
	struct iobuf *block = iobuf_new(OWNER_SIZE);

	if (!block)
		return err_set(e, ERR_NO_MEMORY, "no memory for owner records");
	pthread_mutex_lock(&h->lock);
	owner_put(block->data, &h->rec);
	pthread_mutex_unlock(&h->lock);
	block_write(h, members, count, block, wait_ms);
	iobuf_unref(block);
	pthread_mutex_lock(&h->lock);
	for (size_t i = 0; i < count; i++)
		h->seats[members[i]->index].ours = true;
	pthread_mutex_unlock(&h->lock);
	return 0;
}

/* ---- before it is ours -------------------------------------------------- */

static const char *path_of(const struct member *m)
{
	return m->path ? m->path : "a member";
}

static int busy_here(const struct member *m, const struct owner_rec *r,
    struct err *e)
{
	return err_set(e, ERR_BUSY, "%s: process %" PRIu32 " of this host has "
	    "the array open, by another path to the same disk; end it first",
	    path_of(m), r->by.pid);
}

static int busy_there(const struct member *m, const struct owner_rec *r,
    struct err *e)
{
	return err_set(e, ERR_BUSY, "%s: host %s has the array open (process "
	    "%" PRIu32 ", and it is alive); end it there first", path_of(m),
	    r->by.host, r->by.pid);
}

static void seat_note(struct seat *s, enum found found,
    const struct owner_rec *rec)
{
	s->looked = true;
	s->found = found;
	if (found != FOUND_OTHER)
		return;
	memcpy(s->owner, rec->owner, sizeof(s->owner));
	s->counter = rec->counter;
}

/* Has an owner been at work since the seat was noted? */
static bool seat_moved(const struct seat *s, enum found found,
    const struct owner_rec *rec)
{
	if (found != FOUND_OTHER || s->found == FOUND_NOTHING)
		return false;
	return s->found != FOUND_OTHER || s->counter != rec->counter ||
	    memcmp(s->owner, rec->owner, sizeof(s->owner)) != 0;
}

/* Notes all; *last: the owner to wait for, NULL = nobody. */
static int look_first(struct heartbeat *h, struct look *l,
    const struct owner_rec **last, struct err *e)
{
	*last = NULL;
	if (look_read(h, l, e) != 0)
		return -1;
	for (size_t i = 0; i < l->count; i++) {
		const struct owner_rec *r = &l->rec[i];

		seat_note(&h->seats[l->m[i]->index], l->found[i], r);
		if (l->found[i] != FOUND_OTHER)
			continue;
		if (machine_runs(&r->by, &h->self))
			return busy_here(l->m[i], r, e);
		if (!machine_same(&r->by, &h->self) && (!*last ||
		    (*last)->interval_ms < r->interval_ms))
			*last = r;
	}
	return 0;
}

static int look_again(struct heartbeat *h, struct look *l, struct err *e)
{
	if (look_read(h, l, e) != 0)
		return -1;
	for (size_t i = 0; i < l->count; i++)
		if (seat_moved(&h->seats[l->m[i]->index], l->found[i],
		    &l->rec[i]))
			return busy_there(l->m[i], &l->rec[i], e);
	return 0;
}

static int pause_ms(const struct heartbeat *h, uint64_t ms, struct err *e)
{
	uint64_t until = clock_boot_ms() + ms, now;

	while ((now = clock_boot_ms()) < until) {
		if (h->cancel && atomic_load(h->cancel))
			return err_set(e, ERR_CANCELLED,
			    "stopped while waiting for another host");
		(void)poll(NULL, 0, (int)(until - now < CANCEL_MS ?
		    until - now : CANCEL_MS));
	}
	return 0;
}

static int wait_for(struct heartbeat *h, struct look *l, uint64_t interval_ms,
    struct err *e)
{
	for (int i = 0; i < BEATS_TO_WAIT * LOOKS_PER_BEAT; i++)
		if (pause_ms(h, (interval_ms + LOOKS_PER_BEAT - 1) /
		    LOOKS_PER_BEAT, e) != 0 || look_again(h, l, e) != 0)
			return -1;
	return 0;
}

int heartbeat_look(struct heartbeat *h, struct err *e)
{
	struct look *l = calloc(1, sizeof(*l));
	const struct owner_rec *last;
	int rc;

	if (!l)
		return err_set(e, ERR_NO_MEMORY, "no memory for owner records");
	rc = look_first(h, l, &last, e);
	if (rc == 0 && last) {
		uint64_t interval_ms = last->interval_ms;

		warn_add(h->warn, NULL, 0, "host %s (process %" PRIu32 ") had "
		    "the array last and did not end cleanly: waiting %" PRIu64
		    " s for a sign of life", last->by.host, last->by.pid,
		    (BEATS_TO_WAIT * interval_ms + 999) / 1000);
		rc = wait_for(h, l, interval_ms, e);
	}
	free(l);
	return rc;
}

void heartbeat_tell(struct heartbeat *h)
{
	struct look *l = calloc(1, sizeof(*l));
	const struct owner_rec *last;
	struct err e;

	if (!l)
		return;
	if (look_first(h, l, &last, &e) != 0)
		warn_add(h->warn, NULL, 0, "another process of this host has "
		    "the array open: what is read may change meanwhile");
	else if (last)
		warn_add(h->warn, NULL, 0, "host %s (process %" PRIu32 ") has "
		    "the array open, or did not end cleanly: what is read may "
		    "change meanwhile", last->by.host, last->by.pid);
	free(l);
}

/* ---- while it is ours --------------------------------------------------- */

static int lost_to(const struct member *m, const struct owner_rec *r,
    struct err *e)
{
	return err_set(e, ERR_CONFLICT, "%s: host %s (process %" PRIu32 ") "
	    "has taken the array over while this one was away; leave it to "
	    "that one, or end it there and start again here", path_of(m),
	    r->by.host, r->by.pid);
}

/* Are the records that were ours still ours? */
static int look_judge(struct heartbeat *h, const struct look *l,
    struct err *e)
{
	size_t ours = 0, nobody = 0, unknown = 0;
	int rc = 0;

	pthread_mutex_lock(&h->lock);
	for (size_t i = 0; i < l->count && rc == 0; i++) {
		if (!h->seats[l->m[i]->index].ours)
			continue;
		ours += l->found[i] == FOUND_OURS;
		nobody += l->found[i] == FOUND_NOBODY;
		unknown += l->found[i] == FOUND_NOTHING;
		if (l->found[i] == FOUND_OTHER)
			rc = lost_to(l->m[i], &l->rec[i], e);
	}
	pthread_mutex_unlock(&h->lock);
	if (rc == 0 && ours == 0 && unknown == 0 && nobody > 0)
		return err_set(e, ERR_CONFLICT, "the owner record is gone from "
		    "every member: another host has had the array meanwhile; "
		    "start again here when it has ended there");
	return rc;
}

int heartbeat_check(struct heartbeat *h, struct err *e)
{
	struct look *l;
	int rc;

	if (!h)
		return 0;
	l = malloc(sizeof(*l));
	if (!l)
		return err_set(e, ERR_NO_MEMORY, "no memory for owner records");
	rc = look_read(h, l, e);
	if (rc == 0)
		rc = look_judge(h, l, e);
	free(l);
	return rc;
}

/* A member that takes writes again, with another's record on it: left alone
 * until that has stood still for as long as a take-over waits. */
static bool seat_free(struct heartbeat *h, struct seat *s, enum found found,
    const struct owner_rec *rec)
{
	if (s->ours || found != FOUND_OTHER ||
	    (machine_same(&rec->by, &h->self) &&
	    !machine_runs(&rec->by, &h->self)))
		return true;
	s->same = s->looked && !seat_moved(s, found, rec) ? s->same + 1 : 0;
	seat_note(s, found, rec);
	return s->same >= BEATS_TO_WAIT;
}

static int beat(struct heartbeat *h, struct look *l, struct err *e)
{
	int rc = 0;

	if (look_read(h, l, e) != 0 || look_judge(h, l, e) != 0)
		return -1;
	pthread_mutex_lock(&h->lock);
	for (size_t i = 0; i < l->count && rc == 0; i++)
		if (seat_free(h, &h->seats[l->m[i]->index], l->found[i],
		    &l->rec[i]))
			rc = look_take(h, l, i, e);
	h->rec.counter++;
	pthread_mutex_unlock(&h->lock);
	return rc != 0 ? -1 : records_write(h, l->take, l->take_count,
	    h->wait_ms, e);
}

/* With h->lock held. */
static void sleep_until(struct heartbeat *h, uint64_t mono_ms)
{
	struct timespec ts = {
		.tv_sec = (time_t)(mono_ms / 1000),
		.tv_nsec = (long)(mono_ms % 1000) * 1000000,
	};

	while (!h->quit && clock_mono_ms() < mono_ms)
		pthread_cond_timedwait(&h->wake, &h->lock, &ts);
}

static void stop_array(struct heartbeat *h, const struct err *why)
{
	struct array *a = h->a;
	bool news;

	pthread_mutex_lock(&a->lock);
	news = !a->stopped;
	array_stop_locked(a, why);
	pthread_mutex_unlock(&a->lock);
	if (news)
		warn_add(h->warn, NULL, 0, "%s; nothing more is written",
		    why->text);
}

static void *beats(void *arg)
{
	struct heartbeat *h = arg;
	struct look *l = malloc(sizeof(*l));
	bool lost = !l;
	struct err e;

	pthread_mutex_lock(&h->lock);
	while (!h->quit && !lost) {
		sleep_until(h, clock_mono_ms() + h->rec.interval_ms);
		if (h->quit)
			break;
		pthread_mutex_unlock(&h->lock);
		/* Without memory it is tried again; others wait for 4. */
		lost = beat(h, l, &e) != 0 && e.code == ERR_CONFLICT;
		if (lost)
			stop_array(h, &e);
		pthread_mutex_lock(&h->lock);
	}
	pthread_mutex_unlock(&h->lock);
	free(l);
	return NULL;
}

/* ---- life --------------------------------------------------------------- */

int heartbeat_new(struct heartbeat **out, struct array *a,
    const struct array_open *o, struct err *e)
{
	struct heartbeat *h = calloc(1, sizeof(*h));
	pthread_condattr_t attr;

	if (!h)
		return err_set(e, ERR_NO_MEMORY, "no memory for owner records");
	h->a = a;
	h->warn = o->warn;
	h->cancel = o->cancel;
	pthread_mutex_init(&h->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&h->wake, &attr);
	pthread_condattr_destroy(&attr);
	*out = h;
	memcpy(h->rec.array, a->uuid, RAID_UUID_SIZE);
	h->rec.interval_ms = !o->beat_ms ? BEAT_MS :
	    o->beat_ms < OWNER_INTERVAL_MAX ? o->beat_ms : OWNER_INTERVAL_MAX;
	if (o->machine)
		h->self = *o->machine;
	else if (machine_self(&h->self, e) != 0)
		return -1;
	h->rec.by = h->self;
	h->rec.counter = 1;
	return random_bytes(h->rec.owner, sizeof(h->rec.owner), e);
}

/* Those whose record did not move, or is nobody's. */
static int claim_whom(struct heartbeat *h, struct look *l, struct err *e)
{
	for (size_t i = 0; i < l->count; i++) {
		struct seat *s = &h->seats[l->m[i]->index];

		if (!s->looked && l->found[i] == FOUND_OTHER) {
			if (machine_runs(&l->rec[i].by, &h->self))
				return busy_here(l->m[i], &l->rec[i], e);
			if (!machine_same(&l->rec[i].by, &h->self))
				continue;	/* seat_free() sees to it */
		}
		if (look_take(h, l, i, e) != 0)
			return -1;
	}
	return 0;
}

static int claim(struct heartbeat *h, struct look *l, struct err *e)
{
	if (look_read(h, l, e) != 0)
		return -1;
	for (size_t i = 0; i < l->count; i++) {
		const struct seat *s = &h->seats[l->m[i]->index];

		if (s->looked && seat_moved(s, l->found[i], &l->rec[i]))
			return busy_there(l->m[i], &l->rec[i], e);
	}
	if (claim_whom(h, l, e) != 0 ||
	    records_write(h, l->take, l->take_count, 0, e) != 0)
		return -1;
	h->claimed = true;
	if (look_read(h, l, e) != 0)
		return -1;
	if (look_judge(h, l, e) != 0) {
		e->code = ERR_BUSY;
		return -1;
	}
	return 0;
}

int heartbeat_claim(struct heartbeat *h, struct err *e)
{
	struct look *l = malloc(sizeof(*l));
	int rc, os;

	if (!l)
		return err_set(e, ERR_NO_MEMORY, "no memory for owner records");
	rc = claim(h, l, e);
	free(l);
	if (rc != 0)
		return -1;
	h->wait_ms = h->rec.interval_ms / 2 + 1;
	os = pthread_create(&h->thread, NULL, beats, h);
	if (os != 0)
		return err_os(e, os, "start the heartbeat");
	h->beating = true;
	return 0;
}

int heartbeat_join(struct heartbeat *h, struct member *m, struct err *e)
{
	if (seat_take(h, m, clock_boot_ms(), e) != 0)
		return -1;
	return records_write(h, &m, 1, 0, e);
}

/* Zeros where our record is. */
static void records_clear(struct heartbeat *h)
{
	struct look *l = malloc(sizeof(*l));
	struct iobuf *zero = iobuf_new(OWNER_SIZE);
	struct member *ours[RAID_MEMBERS_MAX];
	size_t count = 0;
	struct err e;

	if (l && zero && look_read(h, l, &e) == 0) {
		for (size_t i = 0; i < l->count; i++)
			if (l->found[i] == FOUND_OURS)
				ours[count++] = l->m[i];
		block_write(h, ours, count, zero, 0);
	}
	iobuf_unref(zero);
	free(l);
}

void heartbeat_end(struct heartbeat *h, bool clear)
{
	if (!h)
		return;
	pthread_mutex_lock(&h->lock);
	h->quit = true;
	pthread_cond_signal(&h->wake);
	pthread_mutex_unlock(&h->lock);
	if (h->beating)
		pthread_join(h->thread, NULL);
	if (clear && h->claimed)
		records_clear(h);
	pthread_cond_destroy(&h->wake);
	pthread_mutex_destroy(&h->lock);
	free(h);
}
