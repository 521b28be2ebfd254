/*
 * raid/log_write.c - blocks out: flushes, epochs, checkpoints and folds.
 *
 * THE PROMISE
 *
 *   When log_append() returns 0, its records are on stable storage of every
 *   member that counts from then on, and no member that lacks them can pass
 *   for current.
 *
 * THE ORDER
 *
 *   a flush   blocks to all members --> flush all.  If a member fails, it is
 *             set aside, and an epoch without it follows in the same way,
 *             before the caller is told.
 *   a fold    checkpoint to fresh extents of all members --> flush all -->
 *             superblocks, phase one --> flush --> phase two --> flush -->
 *             old extents are given back.
 *
 * WHAT A CRASH LEAVES
 *
 *   in a flush   blocks without an END, or an END that chains to nothing: not
 *                part of the history.  An END that did arrive on some member:
 *                the flush is taken over as if acked.
 *   in a fold    superblocks that name the old generation, the new one, or
 *                both: each is whole, and they tell the same.
 *
 * INVARIANTS   (tests/raid/test_log.c)
 *
 *   L1  A block that holds an acked record is never written with other
 *       content: each flush begins a new block, after the last END.
 *   L2  No loadable superblock slot names an extent that was given back.
 *   L3  The epoch in force names exactly the members that hold what is acked
 *       in it.
 *   L4  An extent is named by a link (or a superblock) that comes before any
 *       block in it.
 *
 * Locks: log->lock is held during the I/O; host callbacks run below it.
 */
#include "base/clock.h"
#include "base/hash.h"
#include "base/le.h"
#include "raid/flush_site.h"
#include "raid/log_impl.h"
#include "raid/mio.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WRITER_BLOCKS 256u	/* 1 MiB at a time */

struct writer {
	const struct log_host *host;
	struct chain *chain;
	uint64_t set;		/* members it goes to */
	uint64_t lost;		/* members that failed on the way */
	uint64_t no_room;	/* of these: for lack of an extent */
	uint64_t seq;		/* of the block being filled */
	uint64_t before;
	const struct rec_epoch *epoch;
	uint64_t flush;
	uint16_t kind;		/* LOG_CHECKPOINT or 0 */
	bool first;		/* no block was sealed yet */
	const char *site;	/* name of its flush */
	struct iobuf *buf;
	uint64_t buf_seq;	/* of its first block */
	size_t buf_cap, cap_next;	/* blocks */
	size_t used;		/* payload bytes of the block being filled */
};

static uint8_t *writer_block(struct writer *w)
{
	return w->buf->data + (w->seq - w->buf_seq) * LOG_BLOCK;
}

static int buffer_new(struct writer *w, struct err *e)
{
	w->buf = iobuf_new(w->cap_next * LOG_BLOCK);
	if (!w->buf)
		return err_set(e, ERR_NO_MEMORY, "no memory for log blocks");
	w->buf_cap = w->cap_next;
	w->buf_seq = w->seq;
	return 0;
}

static void writer_lose(struct writer *w, unsigned member)
{
	w->set &= ~(UINT64_C(1) << member);
	w->lost |= UINT64_C(1) << member;
}

/* It stays, but out of the log until the next fold. */
static void writer_no_room(struct writer *w, unsigned member)
{
	w->no_room |= UINT64_C(1) << member;
	writer_lose(w, member);
}

/* Run one request per member of the set; those that fail are set aside. */
static int run_set(struct writer *w, const struct mio_req *like, struct err *e)
{
	struct mio_req reqs[RAID_MEMBERS_MAX];
	unsigned who[RAID_MEMBERS_MAX] = { 0 };
	size_t count = 0;

	for (unsigned i = 0; i < w->host->member_count; i++) {
		struct member *m = w->host->members[i];

		if (!(w->set >> i & 1))
			continue;
		who[count] = i;
		reqs[count] = *like;
		reqs[count].mio = m->io;
		if (like->op == MIO_WRITE && !chain_block_at(w->chain,
		    w->host, i, w->buf_seq, &reqs[count].offset))
			writer_no_room(w, i);
		else
			count++;
	}
	mio_run(reqs, count);
	for (size_t i = 0; i < count; i++) {
		struct member *m = w->host->members[who[i]];

		if (reqs[i].rc == 0) {
			atomic_fetch_add(&m->written_bytes, like->size);
			continue;
		}
		*e = reqs[i].e;
		writer_lose(w, who[i]);
		w->host->member_failed(w->host->arg, who[i], &reqs[i].e);
	}
	return w->set ? 0 : err_add(e, "no member is left for the log");
}

/* Write the blocks before w->seq that are in the buffer.  They lie in one
 * extent, since a link is the last block of one. */
static int writer_drain(struct writer *w, struct err *e)
{
	struct mio_req like = { .op = MIO_WRITE, .buf = w->buf };
	int rc;

	if (!w->buf || w->seq == w->buf_seq)
		return 0;
	like.size = (w->seq - w->buf_seq) * LOG_BLOCK;
	rc = run_set(w, &like, e);
	/* A call that was given up may still be reading it: never reused. */
	iobuf_unref(w->buf);
	w->buf = NULL;
	return rc;
}

/* Give the block its header and go on to the next. */
static void writer_seal(struct writer *w, uint16_t flags)
{
	struct log_block b = {
		.generation = w->chain->generation, .seq = w->seq,
		.before = w->before, .event = w->epoch->event,
		.flush = w->flush, .used = (uint16_t)w->used,
		.flags = (uint16_t)(flags | w->kind),
	};

	if (w->first)
		b.flags |= LOG_FIRST;
	memcpy(b.array, w->host->uuid, sizeof(b.array));
	memcpy(b.run, w->epoch->run, sizeof(b.run));
	log_block_put(writer_block(w), &b);
	w->before = b.sum;
	w->first = false;
	w->used = 0;
	w->seq++;
}

/* One more extent on each member; a member without room is left out. */
static int extents_take(struct writer *w, uint32_t out[RAID_MEMBERS_MAX],
    struct err *e)
{
	for (unsigned i = 0; i < RAID_MEMBERS_MAX; i++) {
		out[i] = LOG_NO_EXTENT;
		if (!(w->set >> i & 1))
			continue;
		if (w->host->extent_take(w->host->arg, i, &out[i], e) == 0)
			continue;
		out[i] = LOG_NO_EXTENT;
		writer_no_room(w, i);
	}
	return w->set ? 0 : err_add(e, "no member has room for the log");
}

static void extents_give(const struct log_host *h, const struct chain *c,
    size_t from)
{
	for (size_t k = from; k < c->count; k++)
		for (unsigned i = 0; i < RAID_MEMBERS_MAX; i++)
			if (c->links[k].extent[i] != LOG_NO_EXTENT)
				h->extent_give(h->arg, i,
				    c->links[k].extent[i]);
}

/* Take the next extents and note them in the chain; on failure nothing is
 * taken. */
static int chain_grow(struct writer *w, struct err *e)
{
	uint32_t extent[RAID_MEMBERS_MAX];
	struct chain one = { .links = NULL };

	if (extents_take(w, extent, e) != 0)
		return -1;
	if (chain_add(w->chain, extent, e) == 0)
		return 0;
	if (chain_add(&one, extent, &(struct err){ 0 }) == 0)
		extents_give(w->host, &one, 0);
	chain_release(&one);
	return -1;
}

/* L4: the last block of an extent is the link to the next one. */
static int writer_link(struct writer *w, struct err *e)
{
	uint8_t body[REC_LINK_MAX];

	if (chain_grow(w, e) != 0)
		return -1;
	w->used = rec_link_put(body,
	    w->chain->links[w->chain->count - 1].extent);
	memcpy(writer_block(w) + LOG_PAYLOAD_AT, body, w->used);
	writer_seal(w, LOG_LINK);
	return writer_drain(w, e);
}

/* Make a block ready to be filled. */
static int writer_ready(struct writer *w, struct err *e)
{
	uint64_t per = log_extent_blocks(w->host);

	if (w->buf && w->seq - w->buf_seq == w->buf_cap &&
	    writer_drain(w, e) != 0)
		return -1;
	if (!w->buf && buffer_new(w, e) != 0)
		return -1;
	if (w->seq % per != per - 1)
		return 0;
	if (writer_link(w, e) != 0)
		return -1;
	return buffer_new(w, e);
}

static int writer_bytes(struct writer *w, const uint8_t *data, size_t size,
    struct err *e)
{
	while (size > 0) {
		size_t n;

		if (w->used == LOG_PAYLOAD) {
			writer_seal(w, 0);
			if (writer_ready(w, e) != 0)
				return -1;
		}
		n = LOG_PAYLOAD - w->used;
		n = n < size ? n : size;
		memcpy(writer_block(w) + LOG_PAYLOAD_AT + w->used, data, n);
		w->used += n;
		data += n;
		size -= n;
	}
	return 0;
}

static int writer_record(void *arg, const struct log_rec *r, struct err *e)
{
	uint8_t head[LOG_RECORD_HEAD] = { 0 };
	struct writer *w = arg;

	assert(r->size <= REC_BODY_MAX);
	le16_put(head, r->type);
	le32_put(head + 4, r->size);
	if (writer_bytes(w, head, sizeof(head), e) != 0)
		return -1;
	return writer_bytes(w, r->body, r->size, e);
}

/* The last block, and everything flushed. */
static int writer_end(struct writer *w, struct err *e)
{
	struct mio_req like = { .op = MIO_FLUSH };

	writer_seal(w, LOG_END);
	if (writer_drain(w, e) != 0)
		return -1;
	if (!flush_site(w->site))
		return 0;
	return run_set(w, &like, e);
}

static void writer_release(struct writer *w)
{
	iobuf_unref(w->buf);
	w->buf = NULL;
}

/* ---- the log's own records -------------------------------------------- */

static int put_members(struct writer *w, struct err *e)
{
	uint8_t body[REC_MEMBERS_MAX];
	struct log_rec r = { .type = REC_MEMBERS, .body = body };

	for (size_t i = 0; i < w->host->member_count; i++) {
		const struct member *m = w->host->members[i];
		struct rec_member p = { .size = m->size, .state = m->state,
			.extent_count = m->extent_count };

		memcpy(p.uuid, m->uuid, sizeof(p.uuid));
		memcpy(p.replaced_by, m->replaced_by, sizeof(p.replaced_by));
		for (size_t k = 0; k < ARRAY_ERROR_KINDS; k++)
			p.errors[k] = atomic_load(&m->errors[k]);
		rec_member_put(body + i * REC_MEMBER_SIZE, &p);
	}
	r.size = (uint32_t)(w->host->member_count * REC_MEMBER_SIZE);
	return writer_record(w, &r, e);
}

static int put_epoch(struct writer *w, struct err *e)
{
	uint8_t body[REC_EPOCH_SIZE];
	struct log_rec r = { .type = REC_EPOCH, .body = body,
		.size = REC_EPOCH_SIZE };

	rec_epoch_put(body, w->epoch);
	if (writer_record(w, &r, e) != 0)
		return -1;
	return put_members(w, e);
}

static int put_history(struct writer *w, const struct history *h,
    struct err *e)
{
	struct log_rec r = { .type = REC_HISTORY };
	uint8_t *body = malloc(REC_HISTORY_MAX);
	int rc;

	if (!body)
		return err_set(e, ERR_NO_MEMORY, "no memory for the history");
	for (size_t i = 0; i < h->count; i++)
		rec_epoch_put(body + i * REC_EPOCH_SIZE, &h->at[i]);
	r.body = body;
	r.size = (uint32_t)(h->count * REC_EPOCH_SIZE);
	rc = writer_record(w, &r, e);
	free(body);
	return rc;
}

/* ---- one flush -------------------------------------------------------- */

struct batch {
	const struct log_rec *recs;
	size_t count;
	const struct rec_epoch *epoch;	/* begin this one; or NULL */
};

static size_t blocks_for(const struct batch *b)
{
	size_t bytes = b->epoch ? REC_EPOCH_SIZE + REC_MEMBERS_MAX : 0;

	for (size_t i = 0; i < b->count; i++)
		bytes += LOG_RECORD_HEAD + b->recs[i].size;
	bytes = bytes / LOG_PAYLOAD + 2;
	return bytes < WRITER_BLOCKS ? bytes : WRITER_BLOCKS;
}

static int write_batch(struct writer *w, const struct batch *b,
    struct err *e)
{
	if (writer_ready(w, e) != 0)
		return -1;
	if (b->epoch && put_epoch(w, e) != 0)
		return -1;
	for (size_t i = 0; i < b->count; i++)
		if (writer_record(w, &b->recs[i], e) != 0)
			return -1;
	return writer_end(w, e);
}

static int die(struct log *l, struct err *e)
{
	l->dead = *e;
	return -1;
}

/* Locked.  *lost: a member fell out, so that an epoch must follow. */
static int append_once(struct log *l, const struct batch *b, bool *lost,
    struct err *e)
{
	struct writer w = {
		.host = l->host, .chain = &l->chain, .set = log_set_now(l),
		.seq = l->seq, .before = l->before,
		.epoch = b->epoch ? b->epoch : log_epoch(l),
		.flush = l->flush + 1, .first = true,
		.site = b->epoch ? "log.epoch" : "log.append",
		.cap_next = blocks_for(b),
	};
	int rc;

	if (w.set == 0) {
		err_set(e, ERR_UNAVAILABLE, "no member takes log blocks");
		return die(l, e);
	}
	rc = write_batch(&w, b, e);
	writer_release(&w);
	l->no_room |= w.no_room;
	*lost = w.lost != 0;
	if (rc != 0)
		return die(l, e);
	l->seq = w.seq;
	l->before = w.before;
	l->flush = w.flush;
	if (b->epoch)
		history_push(&l->history, b->epoch);
	return 0;
}

static int epoch_new(const struct log *l, struct rec_epoch *p,
    enum epoch_why why, struct err *e)
{
	uint64_t event = l->history.count ? log_epoch(l)->event : 0;
	uint64_t set = log_set_now(l);

	*p = (struct rec_epoch){
		.event = (event > l->event_seen ? event : l->event_seen) + 1,
		.first = l->flush + 1, .set = set, .why = why,
		.time_s = clock_real_s(),
		.answered = set & (why == EPOCH_OPEN ? l->answering :
		    log_epoch(l)->set),
	};
	return random_bytes(p->run, sizeof(p->run), e);
}

/* L3: go on until an epoch stands whose members all hold it. */
static int append_locked(struct log *l, const struct log_rec *recs,
    size_t count, bool epoch, enum epoch_why why, uint64_t *flush,
    struct err *e)
{
	struct batch b = { .recs = recs, .count = count };
	struct rec_epoch p;
	bool lost = false;

	/* A member that was set aside meanwhile, without telling. */
	if (!epoch && log_set_now(l) != log_epoch(l)->set)
		epoch = true;
	do {
		if (epoch && epoch_new(l, &p, why, e) != 0)
			return die(l, e);
		b.epoch = epoch ? &p : NULL;
		if (append_once(l, &b, &lost, e) != 0)
			return -1;
		if (flush)
			*flush = l->flush;
		flush = NULL;
		b.recs = NULL;
		b.count = 0;
		epoch = true;
		why = EPOCH_CHANGE;
	} while (lost);
	return 0;
}

static int writable_check(const struct log *l, struct err *e)
{
	if (l->dead.code != ERR_NONE) {
		*e = l->dead;
		return err_add(e, "the log stopped");
	}
	if (!l->started)
		return err_set(e, ERR_DENIED, "the log is read-only");
	return 0;
}

int log_append(struct log *l, const struct log_rec *recs, size_t count,
    bool epoch, uint64_t *flush, struct err *e)
{
	int rc;

	pthread_mutex_lock(&l->lock);
	rc = writable_check(l, e);
	if (rc == 0)
		rc = append_locked(l, recs, count, epoch, EPOCH_CHANGE, flush,
		    e);
	if (rc == 0)
		l->clean = count > 0 &&
		    recs[count - 1].type == REC_CLEAN_STOP;
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/* ---- fold ------------------------------------------------------------- */

void log_root_of(const struct log *l, struct log_root *out)
{
	out->generation = l->chain.generation;
	out->event = log_epoch(l)->event;
	for (unsigned i = 0; i < RAID_MEMBERS_MAX; i++)
		out->extent[i] = l->chain.count > 0 ?
		    l->chain.links[0].extent[i] : LOG_NO_EXTENT;
}

static int write_checkpoint(struct log *l, struct writer *w, struct err *e)
{
	if (chain_grow(w, e) != 0 || writer_ready(w, e) != 0 ||
	    put_history(w, &l->history, e) != 0 || put_members(w, e) != 0)
		return -1;
	if (l->host->dump &&
	    l->host->dump(l->host->arg, writer_record, w, e) != 0)
		return -1;
	return writer_end(w, e);
}

/* The new generation is whole and flushed: make it the live one. */
static int fold_switch(struct log *l, struct chain *next,
    const struct writer *w, struct err *e)
{
	struct chain old = l->chain;
	struct log_root root;

	l->chain = *next;
	*next = (struct chain){ .links = NULL };
	l->seq = l->checkpoint_blocks = w->seq;
	l->before = w->before;
	l->complete = w->set;
	l->no_room = w->no_room;
	log_root_of(l, &root);
	if (l->host->write_roots(l->host->arg, &root, e) != 0) {
		/* Some slots may name either: nothing is given back. */
		chain_release(&old);
		return die(l, e);
	}
	extents_give(l->host, &old, 0);		/* L2 */
	chain_release(&old);
	return 0;
}

int log_fold_locked(struct log *l, struct err *e)
{
	struct chain next = { .generation = l->chain.generation + 1 };
	struct writer w = {
		.host = l->host, .chain = &next, .epoch = log_epoch(l),
		.flush = l->flush, .kind = LOG_CHECKPOINT, .first = true,
		.site = "log.checkpoint",
		.cap_next = WRITER_BLOCKS,
	};
	int rc;

	l->no_room = 0;		/* let them try again */
	w.set = log_set_now(l);
	rc = write_checkpoint(l, &w, e);
	writer_release(&w);
	if (rc != 0) {
		l->no_room |= w.no_room;
		extents_give(l->host, &next, 0);
		chain_release(&next);
		return -1;
	}
	return fold_switch(l, &next, &w, e);
}

int log_fold(struct log *l, struct err *e)
{
	int rc;

	pthread_mutex_lock(&l->lock);
	rc = writable_check(l, e);
	if (rc == 0)
		rc = log_fold_locked(l, e);
	/* Who fell out on the way, or found room again? */
	if (rc == 0 && log_set_now(l) != log_epoch(l)->set)
		rc = append_locked(l, NULL, 0, true, EPOCH_CHANGE, NULL, e);
	pthread_mutex_unlock(&l->lock);
	return rc;
}

int log_join(struct log *l, unsigned member, struct err *e)
{
	int rc;

	pthread_mutex_lock(&l->lock);
	rc = writable_check(l, e);
	if (rc == 0)
		rc = log_fold_locked(l, e);
	if (rc == 0)
		rc = append_locked(l, NULL, 0, true, EPOCH_CHANGE, NULL, e);
	if (rc == 0 && !(log_epoch(l)->set >> member & 1))
		rc = err_set(e, ERR_IO, "%s failed while it joined",
		    l->host->members[member]->path ?
		    l->host->members[member]->path : "the member");
	pthread_mutex_unlock(&l->lock);
	return rc;
}

int log_write_roots(struct log *l, struct err *e)
{
	struct log_root root;
	int rc;

	pthread_mutex_lock(&l->lock);
	rc = writable_check(l, e);
	if (rc == 0) {
		log_root_of(l, &root);
		rc = l->host->write_roots(l->host->arg, &root, e);
	}
	pthread_mutex_unlock(&l->lock);
	return rc;
}

/* ---- beginnings ------------------------------------------------------- */

static void held_give(struct log *l)
{
	const struct log_host *h = l->host;

	for (size_t i = 0; i < l->held_count; i++)
		h->extent_give(h->arg, l->held[i].member, l->held[i].extent);
	l->held_count = 0;
}

/* Locked.  Every writable member on the chosen chain, every slot naming it.
 * L2: other generations that slots name are safe until then. */
static int catch_up(struct log *l, struct err *e)
{
	struct log_root root;
	int rc;

	if ((log_set_now(l) & ~l->complete) != 0) {
		rc = log_fold_locked(l, e);
	} else {
		log_root_of(l, &root);
		rc = l->host->write_roots(l->host->arg, &root, e);
	}
	if (rc == 0)
		held_give(l);
	return rc;
}

int log_start(struct log *l, struct err *e)
{
	int rc = -1;

	pthread_mutex_lock(&l->lock);
	if (l->damaged_tail)
		err_set(e, ERR_CORRUPT, "the log is damaged after flush %"
		    PRIu64 ": it can only be read", l->flush);
	else
		rc = catch_up(l, e);
	if (rc == 0)
		rc = append_locked(l, NULL, 0, true, EPOCH_OPEN, NULL, e);
	if (rc == 0) {
		l->started = true;
		l->clean = false;
	}
	pthread_mutex_unlock(&l->lock);
	return rc;
}

int log_create(struct log **out, const struct log_host *host, struct err *e)
{
	struct log *l = calloc(1, sizeof(*l));
	struct rec_epoch p;

	if (!l)
		return err_set(e, ERR_NO_MEMORY, "no memory for the log");
	pthread_mutex_init(&l->lock, NULL);
	l->host = host;
	if (epoch_new(l, &p, EPOCH_OPEN, e) != 0) {
		log_close(l);
		return -1;
	}
	history_push(&l->history, &p);
	l->flush = p.first;
	l->started = true;
	if (log_fold_locked(l, e) != 0) {
		log_close(l);
		return -1;
	}
	if (log_set_now(l) != p.set) {
		log_close(l);
		return err_set(e, ERR_IO, "a new member failed at once");
	}
	*out = l;
	return 0;
}
