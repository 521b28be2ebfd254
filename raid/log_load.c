/*
 * raid/log_load.c - which chain is the history of this array, and its replay.
 *
 * A branch is one way to follow the blocks from one root.  All branches are
 * walked (usually there is one), each with its list of epochs, and then
 * weighed against each other.  What branch X has beyond the point where it
 * parts from branch Y is X's excess over Y, epoch by epoch.  It may be dropped
 * when nothing in it can have been acked:
 *
 *   - an epoch of opening in which nothing else was written; or
 *   - an epoch one of whose members is present, answers, and does not hold its
 *     first flush: an ack needs all members of the epoch; or
 *   - an epoch of which Y has a witness: a member of it that is away now, but
 *     showed its log when a later epoch of Y began (a higher event, and a flush
 *     after its own block, so that all its members hold it).  Had the member
 *     held an ack of X then, that opening would not have left X out; and had it
 *     gone over to X since, X would bear a higher event, for an event is above
 *     all that any member showed.
 *
 * An epoch of change is itself the ack of the flush before it (the member that
 * did not hold that flush has left), so its own block counts as content.  And
 * a flush is begun only when the one before it is acked: where an epoch has two
 * flushes in the excess, a member that lacks the first is no witness but an old
 * copy, or a disk that lied, and nothing is dropped on its word.
 *
 * The history is the branch over which every other has an excess that may be
 * dropped, or none; the higher event, then the longer chain are tried first.
 * If there is none, the members diverged: refused, both shown.
 *
 * INVARIANTS   (tests/raid/test_log_load.c)
 *
 *   F1  What was acked is in the history, or the open is refused.
 *   F2  The same members give the same history in any order.
 *   F3  After a crash, no open is refused.
 */
#include "base/clock.h"
#include "base/str.h"
#include "base/warn.h"
#include "raid/log_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BRANCHES_MAX 64

struct branch {
	const struct log_root *root;
	struct walk_path path;
	bool usable;		/* its checkpoint is whole */
	struct history history;
	uint64_t flush;		/* last whole one */
	uint64_t seq, before;	/* after its last block */
	uint64_t walk_end;	/* after the last block that fitted */
	uint64_t checkpoint_blocks;
	struct chain chain;
	uint64_t missing;	/* members that lack a block of it */
	uint64_t held[RAID_MEMBERS_MAX];	/* last flush each member has */
};

struct loading {
	const struct log_host *host;
	struct branch *branches[BRANCHES_MAX];
	size_t count;
	uint64_t answering;	/* members that hold any block at all */
	uint64_t event_seen;	/* the highest of any block */
};

/* ---- one pass over one branch ----------------------------------------- */

struct pass {
	struct walk w;
	struct rec_parser parser;
	int (*record)(void *arg, const struct log_rec *r, struct err *e);
	void *arg;
	bool inside;		/* between FIRST and END */
	bool whole;		/* the block just taken was an END */
	bool has_checkpoint;
	uint64_t flush;		/* last whole one */
};

static int pass_init(struct pass *p, const struct log_host *host,
    const struct log_root *root, const struct walk_path *path, struct err *e)
{
	memset(p, 0, sizeof(*p));
	if (rec_parser_init(&p->parser, e) != 0)
		return -1;
	return walk_init(&p->w, host, root, path, e);
}

static void pass_release(struct pass *p)
{
	rec_parser_release(&p->parser);
	walk_release(&p->w);
}

/* Does the block just taken continue what came before it? */
static bool block_fits(const struct pass *p)
{
	const struct log_block *b = &p->w.block;
	bool first = (b->flags & LOG_FIRST) != 0;
	bool checkpoint = (b->flags & LOG_CHECKPOINT) != 0;

	if (first == p->inside || checkpoint == p->has_checkpoint)
		return false;
	return checkpoint ? !first || b->seq == 0 : b->flush == p->flush + 1;
}

static int pass_records(struct pass *p, struct err *e)
{
	const struct log_block *b = &p->w.block;

	if (!p->inside)
		rec_parser_reset(&p->parser);
	p->inside = true;
	if (!(b->flags & LOG_LINK) && rec_parser_feed(&p->parser,
	    p->w.payload, b->used, p->record, p->arg, e) != 0)
		return -1;
	p->whole = (b->flags & LOG_END) != 0;
	if (!p->whole)
		return 0;
	if (!rec_parser_at_end(&p->parser))
		return err_set(e, ERR_CORRUPT, "log flush %" PRIu64
		    " ends within a record", b->flush);
	p->inside = false;
	p->has_checkpoint = true;
	p->flush = b->flush;
	return 0;
}

/* 1: a block was taken; 0: the chain ends; -1. */
static int pass_step(struct pass *p, struct err *e)
{
	int rc = walk_next(&p->w, e);

	if (rc != 1)
		return rc;
	if (!block_fits(p))
		return 0;
	return pass_records(p, e) != 0 ? -1 : 1;
}

/* ---- first pass: what branches are there? ------------------------------ */

struct scan {
	struct branch *branch;
	struct rec_epoch epoch;	/* of the flush being read */
	bool has_epoch;
};

static int scan_history(struct history *h, const struct log_rec *r,
    struct err *e)
{
	struct rec_epoch p;

	if (r->size % REC_EPOCH_SIZE != 0 || r->size > REC_HISTORY_MAX)
		return err_set(e, ERR_CORRUPT, "history of %u bytes", r->size);
	h->count = 0;
	for (size_t at = 0; at < r->size; at += REC_EPOCH_SIZE) {
		if (rec_epoch_get(&p, r->body + at, REC_EPOCH_SIZE, e) != 0)
			return -1;
		history_push(h, &p);
	}
	/* A full one may have lost its beginning. */
	h->cut = h->count == HISTORY_MAX;
	return 0;
}

static int scan_record(void *arg, const struct log_rec *r, struct err *e)
{
	struct scan *s = arg;

	if (r->type == REC_HISTORY)
		return scan_history(&s->branch->history, r, e);
	if (r->type != REC_EPOCH)
		return 0;
	s->has_epoch = true;
	return rec_epoch_get(&s->epoch, r->body, r->size, e);
}

/* `lacking`: members without some block of this flush.  To hold its END alone
 * is not to hold it; nor is to have the blocks of a fold that no superblock of
 * the member names: alone, it would not find them. */
static void scan_whole(struct scan *s, const struct pass *p, uint64_t lacking)
{
	struct branch *b = s->branch;

	if (s->has_epoch)
		history_push(&b->history, &s->epoch);
	s->has_epoch = false;
	if (!b->usable)
		b->checkpoint_blocks = p->w.seq;
	b->usable = b->history.count > 0;
	b->flush = p->flush;
	b->seq = p->w.seq;
	b->before = p->w.before;
	if (b->root->named)
		lacking |= ~b->root->named;
	for (size_t i = 0; i < RAID_MEMBERS_MAX; i++)
		if (!(lacking >> i & 1))
			b->held[i] = b->flush;
}

static int branch_add(struct loading *g, const struct log_root *root,
    const struct walk_path *path, struct err *e)
{
	struct branch *b;

	if (g->count == BRANCHES_MAX)
		return err_set(e, ERR_CONFLICT,
		    "the members hold more than %d histories", BRANCHES_MAX);
	b = calloc(1, sizeof(*b));
	if (!b)
		return err_set(e, ERR_NO_MEMORY, "no memory to read the log");
	b->root = root;
	if (path)
		b->path = *path;
	g->branches[g->count++] = b;
	return 0;
}

static int path_add(struct walk_path *p, uint64_t seq, uint64_t sum,
    struct err *e)
{
	if (p->count == WALK_FORKS_MAX)
		return err_set(e, ERR_CONFLICT,
		    "the log forks more than %d times", WALK_FORKS_MAX);
	p->forks[p->count++] = (struct walk_fork){ .seq = seq, .sum = sum };
	return 0;
}

/* Other blocks fit where the one just taken is: each begins a branch. */
static int scan_forks(struct loading *g, struct branch *b,
    const struct walk *w, struct err *e)
{
	uint64_t seq = w->block.seq;

	for (size_t i = 0; i < b->path.count; i++)
		if (b->path.forks[i].seq == seq)
			return 0;
	for (size_t i = 0; i < w->other_count; i++) {
		struct walk_path path = b->path;

		if (path_add(&path, seq, w->others[i], e) != 0 ||
		    branch_add(g, b->root, &path, e) != 0)
			return -1;
	}
	return w->other_count ? path_add(&b->path, seq, w->block.sum, e) : 0;
}

static int branch_walk(struct loading *g, struct branch *b, struct err *e)
{
	struct scan s = { .branch = b };
	uint64_t lacking = 0;	/* of the flush being read */
	struct pass p;
	int rc;

	rc = pass_init(&p, g->host, b->root, &b->path, e);
	p.record = scan_record;
	p.arg = &s;
	while (rc == 0 && (rc = pass_step(&p, e)) == 1) {
		rc = scan_forks(g, b, &p.w, e);
		g->answering |= p.w.holders;
		if (p.w.block.event > g->event_seen)
			g->event_seen = p.w.block.event;
		lacking |= ~p.w.holders;
		if (!p.whole)
			continue;
		scan_whole(&s, &p, lacking);
		b->missing |= lacking;
		lacking = 0;
	}
	b->walk_end = p.w.seq;
	if (rc == 0)
		rc = chain_copy(&b->chain, &p.w.chain, e);
	pass_release(&p);
	/* Sound blocks with senseless records: it is as if they were not. */
	return rc == -1 && e->code == ERR_CORRUPT ? 0 : rc;
}

static int branches_find(struct loading *g, struct err *e)
{
	const struct log_host *h = g->host;

	for (size_t i = 0; i < h->root_count; i++)
		if (h->roots[i].generation > 0 &&
		    branch_add(g, &h->roots[i], NULL, e) != 0)
			return -1;
	for (size_t i = 0; i < g->count; i++)	/* grows meanwhile */
		if (branch_walk(g, g->branches[i], e) != 0)
			return -1;
	return 0;
}

/* ---- weighing --------------------------------------------------------- */

static const struct rec_epoch *last_epoch(const struct branch *b)
{
	return &b->history.at[b->history.count - 1];
}

static int branch_compare(const void *a, const void *b)
{
	const struct branch *x = *(struct branch *const *)a;
	const struct branch *y = *(struct branch *const *)b;
	uint64_t kx[4], ky[4];

	if (x->usable != y->usable)
		return x->usable ? -1 : 1;
	if (!x->usable)
		return 0;
	kx[0] = last_epoch(x)->event;
	ky[0] = last_epoch(y)->event;
	kx[1] = x->flush;
	ky[1] = y->flush;
	kx[2] = x->root->generation;
	ky[2] = y->root->generation;
	kx[3] = x->before;	/* nothing but a rule (F2) */
	ky[3] = y->before;
	for (size_t i = 0; i < 4; i++)
		if (kx[i] != ky[i])
			return kx[i] > ky[i] ? -1 : 1;
	return 0;
}

/* Is `flush` lacking on a member that had to hold it for an ack? */
static bool never_acked(const struct loading *g, const struct branch *x,
    uint64_t set, uint64_t flush)
{
	for (size_t i = 0; i < RAID_MEMBERS_MAX; i++)
		if ((set & g->answering) >> i & 1 && x->held[i] < flush)
			return true;
	return false;
}

/* Has Y, after its epoch j, a witness that nothing of the epoch `p` was acked?
 */
static bool has_witness(const struct branch *y, int j,
    const struct rec_epoch *p)
{
	for (size_t q = (size_t)(j + 1); q < y->history.count; q++) {
		const struct rec_epoch *w = &y->history.at[q];

		if (w->event > p->event && (w->answered & p->set) != 0 &&
		    history_end(&y->history, q, y->flush) > w->first)
			return true;
	}
	return false;
}

struct excess {
	uint64_t flushes;
	bool acked;		/* something in it may have been acked */
};

struct parting {
	const struct branch *x, *y;
	int j;			/* Y's last epoch in common */
};

/* Epoch i of X, from flush `from` on, is not in Y. */
static void excess_epoch(const struct loading *g, const struct parting *d,
    size_t i, uint64_t from, struct excess *out)
{
	const struct branch *x = d->x;
	const struct rec_epoch *p = &x->history.at[i];
	uint64_t end = history_end(&x->history, i, x->flush);

	if (from > end)
		return;
	out->flushes += end - from + 1;
	if (from == p->first && p->why == EPOCH_OPEN)
		from++;
	if (from < end || (from == end && !never_acked(g, x, p->set, from) &&
	    !has_witness(d->y, d->j, p)))
		out->acked = true;
}

static struct excess excess_over(const struct loading *g,
    const struct branch *x, const struct branch *y)
{
	const struct history *hx = &x->history, *hy = &y->history;
	struct parting d = { .x = x, .y = y, .j = -1 };
	struct excess out = { .flushes = 0 };
	size_t i = hx->count;

	while (i > 0 && d.j < 0)
		d.j = history_find(hy, hx->at[--i].run);
	if (d.j < 0) {
		/* Older than the history reaches: taken for an ancestor. */
		if (hy->cut && last_epoch(x)->event < hy->at[0].event)
			return out;
		out.flushes = x->flush;
		out.acked = true;
		return out;
	}
	excess_epoch(g, &d, i, history_end(hy, (size_t)d.j, y->flush) + 1,
	    &out);
	for (size_t k = i + 1; k < hx->count; k++)
		excess_epoch(g, &d, k, hx->at[k].first, &out);
	return out;
}

/* The first branch in the way of `y`, or NULL. */
static struct branch *objection(const struct loading *g,
    const struct branch *y)
{
	for (size_t i = 0; i < g->count; i++) {
		struct branch *x = g->branches[i];

		if (x != y && x->usable && excess_over(g, x, y).acked)
			return x;
	}
	return NULL;
}

static void describe(const struct loading *g, const struct branch *b,
    char *out, size_t size)
{
	char when[CLOCK_TEXT_SIZE], run[9];
	int n;

	clock_text(when, last_epoch(b)->time_s);
	hex_put(run, last_epoch(b)->run, 4);
	n = snprintf(out, size, "event %" PRIu64 ", run %s of %s, flush %"
	    PRIu64 ", on", last_epoch(b)->event, run, when, b->flush);
	for (size_t i = 0; i < g->host->member_count; i++) {
		const char *path = g->host->members[i]->path;

		if (b->held[i] != b->flush || n < 0 || (size_t)n >= size)
			continue;
		n += snprintf(out + n, size - (size_t)n, " %s",
		    path ? path : "?");
	}
}

static int refuse(const struct loading *g, struct err *e)
{
	const struct branch *y = g->branches[0];
	char a[175], b[175];

	describe(g, y, a, sizeof(a));
	describe(g, objection(g, y), b, sizeof(b));
	return err_set(e, ERR_CONFLICT, "the members diverged: (%s) and (%s); "
	    "nothing was written; keep one side: start with its members "
	    "alone, then replace the others", a, b);
}

static int branch_choose(struct loading *g, struct branch **out,
    struct err *e)
{
	qsort(g->branches, g->count, sizeof(g->branches[0]), branch_compare);
	if (g->count == 0 || !g->branches[0]->usable)
		return err_set(e, ERR_CORRUPT,
		    "no whole log on the members that are here");
	for (size_t i = 0; i < g->count; i++) {
		*out = g->branches[i];
		if ((*out)->usable && !objection(g, *out))
			return 0;
	}
	return refuse(g, e);
}

static void tell_dropped(const struct loading *g, const struct branch *chosen,
    struct warn_sink *warn)
{
	for (size_t i = 0; i < g->count; i++) {
		const struct branch *x = g->branches[i];
		struct excess ex;
		char what[240];

		if (x == chosen || !x->usable)
			continue;
		ex = excess_over(g, x, chosen);
		if (ex.flushes == 0)
			continue;
		describe(g, x, what, sizeof(what));
		warn_add(warn, NULL, 0, "left out %" PRIu64
		    " flushes that were never acknowledged (%s)", ex.flushes,
		    what);
	}
}

/* ---- second pass: replay ---------------------------------------------- */

struct replaying {
	int (*replay)(void *arg, const struct log_rec *r, uint64_t flush,
	    struct err *e);
	void *arg;
	const struct pass *pass;
	struct rec_member table[RAID_MEMBERS_MAX];
	size_t table_count;
	uint16_t last_type;
};

static int table_get(struct replaying *p, const struct log_rec *r,
    struct err *e)
{
	if (r->size % REC_MEMBER_SIZE != 0 || r->size > REC_MEMBERS_MAX)
		return err_set(e, ERR_CORRUPT, "member table of %u bytes",
		    r->size);
	p->table_count = r->size / REC_MEMBER_SIZE;
	for (size_t i = 0; i < p->table_count; i++)
		if (rec_member_get(&p->table[i], r->body +
		    i * REC_MEMBER_SIZE, e) != 0)
			return -1;
	return 0;
}

static int replay_record(void *arg, const struct log_rec *r, struct err *e)
{
	struct replaying *p = arg;

	p->last_type = r->type;
	if (r->type == REC_EPOCH || r->type == REC_HISTORY)
		return 0;
	if (r->type == REC_MEMBERS)
		return table_get(p, r, e);
	return p->replay(p->arg, r, p->pass->w.block.flush, e);
}

static void member_apply(struct member *m, const struct rec_member *p)
{
	memcpy(m->replaced_by, p->replaced_by, sizeof(m->replaced_by));
	for (size_t k = 0; k < ARRAY_ERROR_KINDS; k++)
		atomic_store(&m->errors[k], p->errors[k]);
	m->state = p->state;
	if (p->state == MEMBER_MISSING && m->io)
		m->state = MEMBER_ACTIVE;
	if (p->state == MEMBER_ACTIVE && !m->io)
		m->state = MEMBER_MISSING;
}

static int table_apply(const struct log_host *h, const struct replaying *p,
    struct err *e)
{
	for (size_t i = 0; i < p->table_count; i++) {
		if (i >= h->member_count || memcmp(h->members[i]->uuid,
		    p->table[i].uuid, RAID_UUID_SIZE) != 0)
			return err_set(e, ERR_CORRUPT,
			    "the log knows a member %zu that no superblock "
			    "names", i);
		member_apply(h->members[i], &p->table[i]);
	}
	return 0;
}

/* A sound block two or more flushes beyond the end: what lay between was
 * durable once, and is gone. */
static int tail_check(struct log *l, struct walk *w, uint64_t from,
    struct err *e)
{
	uint64_t end = w->chain.count * log_extent_blocks(w->host);

	for (uint64_t seq = from; seq < end; seq++) {
		uint64_t flush;
		int rc = walk_probe(w, seq, &flush, e);

		if (rc < 0)
			return -1;
		if (rc == 1 && flush >= l->flush + 2)
			l->damaged_tail = true;
	}
	return 0;
}

static uint64_t walk_end_of(const struct loading *g,
    const struct branch *chosen)
{
	uint64_t end = chosen->walk_end;

	for (size_t i = 0; i < g->count; i++) {
		const struct branch *x = g->branches[i];

		if (x->root->generation == chosen->root->generation &&
		    x->walk_end > end)
			end = x->walk_end;
	}
	return end;
}

static int branch_replay(struct log *l, const struct loading *g,
    const struct branch *b, struct replaying *r, struct err *e)
{
	struct pass p;
	int rc = pass_init(&p, g->host, b->root, &b->path, e);

	p.record = replay_record;
	p.arg = r;
	r->pass = &p;
	while (rc == 0 && p.w.seq < b->seq) {
		rc = pass_step(&p, e);
		if (rc == 0)
			rc = err_set(e, ERR_IO, "the log reads differently a "
			    "second time, at flush %" PRIu64, p.flush);
		else if (rc == 1)
			rc = 0;
	}
	if (rc == 0)
		rc = chain_copy(&l->chain, &p.w.chain, e);
	if (rc == 0)
		rc = tail_check(l, &p.w, walk_end_of(g, b), e);
	pass_release(&p);
	return rc;
}

static void tell_stale(struct log *l, const struct branch *b,
    struct warn_sink *warn)
{
	for (size_t i = 0; i < l->host->member_count; i++) {
		struct member *m = l->host->members[i];

		m->stale = member_readable(m) && b->held[i] < b->flush;
		if (m->stale && last_epoch(b)->set >> i & 1 &&
		    b->held[i] + 1 < b->flush)
			warn_add(warn, m->path, m->path ? strlen(m->path) : 0,
			    "its log ends at flush %" PRIu64 " of %" PRIu64
			    ", though it had confirmed more: an old copy, or a "
			    "disk that lies; verify --all finds what it lacks",
			    b->held[i], b->flush);
		else if (m->stale)
			warn_add(warn, m->path, m->path ? strlen(m->path) : 0,
			    "its log ends at flush %" PRIu64 " of %" PRIu64,
			    b->held[i], b->flush);
	}
}

/* ---- what other slots name -------------------------------------------- */

static bool is_known(const struct log *l, unsigned member, uint32_t extent)
{
	for (size_t i = 0; i < l->chain.count; i++)
		if (l->chain.links[i].extent[member] == extent)
			return true;
	for (size_t i = 0; i < l->held_count; i++)
		if (l->held[i].member == member &&
		    l->held[i].extent == extent)
			return true;
	return false;
}

static int hold_link(struct log *l, const struct chain_link *link,
    struct err *e)
{
	for (unsigned i = 0; i < l->host->member_count; i++) {
		struct held_extent x = { .member = i,
			.extent = link->extent[i] }, *more;

		if (x.extent >= l->host->members[i]->extent_count ||
		    is_known(l, i, x.extent))
			continue;
		more = realloc(l->held, (l->held_count + 1) * sizeof(x));
		if (!more)
			return err_set(e, ERR_NO_MEMORY,
			    "no memory for the log");
		l->held = more;
		l->held[l->held_count++] = x;
	}
	return 0;
}

/* L2: until all slots name the chosen chain, the others must stay whole. */
static int hold_others(struct log *l, const struct loading *g, struct err *e)
{
	for (size_t i = 0; i < g->count; i++) {
		const struct branch *b = g->branches[i];

		for (size_t k = 0; b->usable && k < b->chain.count; k++)
			if (hold_link(l, &b->chain.links[k], e) != 0)
				return -1;
	}
	return 0;
}

static int log_adopt(struct log *l, const struct loading *g,
    const struct branch *b, struct replaying *r, struct warn_sink *warn,
    struct err *e)
{
	l->history = b->history;
	l->flush = b->flush;
	l->seq = b->seq;
	l->before = b->before;
	l->checkpoint_blocks = b->checkpoint_blocks;
	l->complete = ~b->missing;
	l->event_seen = g->event_seen;
	l->answering = g->answering;
	if (branch_replay(l, g, b, r, e) != 0 ||
	    table_apply(l->host, r, e) != 0 || hold_others(l, g, e) != 0)
		return -1;
	l->clean = r->last_type == REC_CLEAN_STOP;
	tell_stale(l, b, warn);
	tell_dropped(g, b, warn);
	if (l->damaged_tail)
		warn_add(warn, NULL, 0, "the log is damaged after flush %"
		    PRIu64 ": later flushes are there but not the one between",
		    l->flush);
	return 0;
}

int log_load(struct log **out, const struct log_host *host,
    int (*replay)(void *arg, const struct log_rec *r, uint64_t flush,
    struct err *e), struct log_position *pos, struct warn_sink *warn,
    struct err *e)
{
	struct replaying r = { .replay = replay, .arg = host->arg };
	struct loading g = { .host = host };
	struct branch *chosen = NULL;
	struct log *l = calloc(1, sizeof(*l));
	int rc = -1;

	if (!l)
		return err_set(e, ERR_NO_MEMORY, "no memory for the log");
	pthread_mutex_init(&l->lock, NULL);
	l->host = host;
	if (branches_find(&g, e) != 0 || branch_choose(&g, &chosen, e) != 0 ||
	    log_adopt(l, &g, chosen, &r, warn, e) != 0)
		goto out;
	log_position(l, pos);
	*out = l;
	l = NULL;
	rc = 0;
out:
	for (size_t i = 0; i < g.count; i++) {
		chain_release(&g.branches[i]->chain);
		free(g.branches[i]);
	}
	log_close(l);
	return rc;
}
