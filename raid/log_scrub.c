/*
 * raid/log_scrub.c - all copies of the log alike.
 *
 * Every block of the live chain is read from every member that takes part in
 * the epoch, uncached; a copy that differs from the chain is written again
 * from one that does not.  The same bytes go to the same place, so this is no
 * exception to L1.  A block that no member holds any more is no loss either:
 * the state is in memory, and a fold writes it anew.
 *
 * The lock is taken for one window at a time; a fold in between ends the scrub,
 * since what it was reading is gone and what is live was just written.
 */
#include "raid/flush_site.h"
#include "raid/log_impl.h"
#include "raid/mio.h"

#include <stdlib.h>
#include <string.h>

struct scrub {
	struct log *l;
	struct walk w;
	bool heal;
	bool must_fold;		/* a block is nowhere, or would not heal */
	uint64_t healed_on;	/* members to be flushed */
	struct scan_report *report;
	const struct scan_ops *ops;
};

static void scrub_tell(struct scrub *s, unsigned member, uint64_t seq,
    bool healed)
{
	const struct member *m = s->l->host->members[member];

	s->report->strips_bad++;
	if (healed)
		s->report->strips_healed++;
	if (s->ops && s->ops->bad_strip)
		s->ops->bad_strip(s->ops->arg, member,
		    m->path ? m->path : "", 0, (uint32_t)seq, "log", healed);
}

static void scrub_block(struct scrub *s)
{
	const struct log_host *h = s->l->host;
	const uint8_t *good = s->w.payload - LOG_PAYLOAD_AT;
	uint64_t seq = s->w.block.seq;
	uint64_t bad = log_epoch(s->l)->set & ~s->w.holders;

	s->report->stripes++;
	for (unsigned i = 0; i < h->member_count; i++) {
		struct member *m = h->members[i];
		bool healed = false;
		uint64_t offset;
		struct err ignored;

		if (!(bad >> i & 1) || !member_writable(m))
			continue;
		atomic_fetch_add(&m->errors[MERR_CHECKSUM], 1);
		/* Where the link is read last, its chain knows one more. */
		if (s->heal && chain_block_at(&s->l->chain, h, i, seq,
		    &offset) && mio_write(m->io, good, LOG_BLOCK, offset,
		    &ignored) == 0)
			healed = true;
		if (healed)
			s->healed_on |= UINT64_C(1) << i;
		else
			s->must_fold = true;
		scrub_tell(s, i, seq, healed);
	}
}

/* Locked.  1: go on; 0: done; -1. */
static int scrub_window(struct scrub *s, struct err *e)
{
	if (s->w.chain.generation != s->l->chain.generation)
		return 0;
	for (unsigned n = 0; n < WALK_WINDOW && s->w.seq < s->l->seq; n++) {
		int rc = walk_next(&s->w, e);

		if (rc < 0)
			return -1;
		if (rc == 0) {
			s->report->stripes_lost++;
			s->must_fold = true;
			return 0;
		}
		scrub_block(s);
	}
	/* What was read ahead may be written to before the next window. */
	s->w.window_count = 0;
	return s->w.seq < s->l->seq;
}

static int scrub_flush(struct scrub *s, struct err *e)
{
	const struct log_host *h = s->l->host;

	for (unsigned i = 0; i < h->member_count; i++)
		if (s->healed_on >> i & 1 && flush_site("log.scrub") &&
		    mio_flush(h->members[i]->io, e) != 0)
			return -1;
	return 0;
}

static int scrub_all(struct scrub *s, struct err *e)
{
	struct log *l = s->l;
	int rc = 1;

	while (rc == 1) {
		pthread_mutex_lock(&l->lock);
		rc = scrub_window(s, e);
		pthread_mutex_unlock(&l->lock);
	}
	if (rc == 0)
		rc = scrub_flush(s, e);
	if (rc == 0 && s->heal && s->must_fold)
		rc = log_fold(l, e);
	return rc;
}

int log_scrub(struct log *l, bool heal, struct scan_report *report,
    const struct scan_ops *ops, struct err *e)
{
	struct scrub s = { .l = l, .report = report, .ops = ops };
	struct log_root root;
	int rc;

	pthread_mutex_lock(&l->lock);
	log_root_of(l, &root);
	s.heal = heal && l->started && l->dead.code == ERR_NONE;
	pthread_mutex_unlock(&l->lock);
	rc = walk_init(&s.w, l->host, &root, NULL, e);
	if (rc == 0)
		rc = scrub_all(&s, e);
	walk_release(&s.w);
	return rc;
}
