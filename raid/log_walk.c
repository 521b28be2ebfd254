/*
 * raid/log_walk.c - blocks in: one chain, put together from any member.
 *
 * Block n of a chain is any block, on any member, that is sound, bears the
 * array, generation and number n, and names the checksum of block n - 1.  So
 * a member with a hole in the middle still serves the rest, and a member that
 * diverged serves what it has in common.  Where two different blocks fit, the
 * path says which one is meant; the other is reported (w->others).
 */
#include "base/le.h"
#include "raid/log_impl.h"
#include "raid/mio.h"

#include <stdlib.h>
#include <string.h>

int walk_init(struct walk *w, const struct log_host *host,
    const struct log_root *root, const struct walk_path *path, struct err *e)
{
	memset(w, 0, sizeof(*w));
	w->host = host;
	w->path = path;
	w->chain.generation = root->generation;
	return chain_add(&w->chain, root->extent, e);
}

void walk_release(struct walk *w)
{
	for (size_t i = 0; i < RAID_MEMBERS_MAX; i++)
		iobuf_unref(w->window[i]);
	chain_release(&w->chain);
}

/* Zeroed if new.  One that a call given up may still write to is not used
 * again. */
static bool window_ready(struct walk *w, unsigned member)
{
	struct iobuf *b = w->window[member];

	if (b && atomic_load(&b->refs) == 1)
		return true;
	iobuf_unref(b);
	w->window[member] = iobuf_new(WALK_WINDOW * LOG_BLOCK);
	return w->window[member] != NULL;
}

/* A window that could not be read whole: block by block, so that one bad
 * sector hides one block only. */
static void read_piecemeal(struct walk *w, unsigned member, uint64_t offset)
{
	struct mio *io = w->host->members[member]->io;
	struct err ignored;
	uint8_t *at;

	if (!window_ready(w, member))
		return;
	at = w->window[member]->data;
	memset(at, 0, w->window_count * LOG_BLOCK);
	w->window_valid |= UINT64_C(1) << member;
	for (unsigned i = 0; i < w->window_count; i++, at += LOG_BLOCK)
		if (mio_read(io, at, LOG_BLOCK, offset + i * LOG_BLOCK, true,
		    &ignored) != 0 && ignored.code == ERR_TIMEOUT)
			return;
}

static int windows_request(struct walk *w, struct mio_req *reqs,
    unsigned *who, size_t *count, struct err *e)
{
	const struct log_host *h = w->host;

	*count = 0;
	for (unsigned i = 0; i < h->member_count; i++) {
		struct member *m = h->members[i];
		struct mio_req r = { .op = MIO_READ, .uncached = true,
			.size = w->window_count * LOG_BLOCK };

		if (!member_readable(m) || !chain_block_at(&w->chain, h, i,
		    w->window_seq, &r.offset))
			continue;
		if (!window_ready(w, i))
			return err_set(e, ERR_NO_MEMORY,
			    "no memory to read the log");
		r.mio = m->io;
		r.buf = w->window[i];
		who[*count] = i;
		reqs[(*count)++] = r;
	}
	return 0;
}

/* Read the windows of all members, beginning at `seq`, within its extent. */
static int windows_fill(struct walk *w, uint64_t seq, struct err *e)
{
	struct mio_req reqs[RAID_MEMBERS_MAX];
	unsigned who[RAID_MEMBERS_MAX] = { 0 };
	uint64_t per = log_extent_blocks(w->host);
	uint64_t left = per - seq % per;
	size_t count;

	w->window_valid = 0;
	w->window_seq = seq;
	w->window_count = left < WALK_WINDOW ? (unsigned)left : WALK_WINDOW;
	if (windows_request(w, reqs, who, &count, e) != 0)
		return -1;
	mio_run(reqs, count);
	for (size_t i = 0; i < count; i++) {
		if (reqs[i].rc == 0)
			w->window_valid |= UINT64_C(1) << who[i];
		else if (reqs[i].e.code != ERR_TIMEOUT)
			read_piecemeal(w, who[i], reqs[i].offset);
	}
	return 0;
}

static int windows_reach(struct walk *w, uint64_t seq, struct err *e)
{
	if (w->window_count > 0 && seq >= w->window_seq &&
	    seq - w->window_seq < w->window_count)
		return 0;
	return windows_fill(w, seq, e);
}

/* This member's sound block of our generation at `seq`. */
static const uint8_t *block_of(const struct walk *w, unsigned member,
    uint64_t seq, struct log_block *b)
{
	const uint8_t *at;
	struct err ignored;

	if (!(w->window_valid >> member & 1))
		return NULL;
	at = w->window[member]->data + (seq - w->window_seq) * LOG_BLOCK;
	if (log_block_get(b, at, LOG_BLOCK, &ignored) != 0 ||
	    memcmp(b->array, w->host->uuid, sizeof(b->array)) != 0 ||
	    b->generation != w->chain.generation || b->seq != seq)
		return NULL;
	return at;
}

static bool path_wants(const struct walk *w, uint64_t sum)
{
	for (size_t i = 0; w->path && i < w->path->count; i++)
		if (w->path->forks[i].seq == w->seq)
			return w->path->forks[i].sum == sum;
	return true;
}

static void others_add(struct walk *w, uint64_t sum)
{
	for (size_t i = 0; i < w->other_count; i++)
		if (w->others[i] == sum)
			return;
	w->others[w->other_count++] = sum;
}

/* The block at w->seq that the path wants, or the first that fits. */
static bool block_choose(struct walk *w)
{
	bool found = false;

	w->holders = 0;
	w->other_count = 0;
	for (unsigned i = 0; i < RAID_MEMBERS_MAX; i++) {
		struct log_block b;
		const uint8_t *at = block_of(w, i, w->seq, &b);

		if (!at || b.before != w->before)
			continue;
		if (found ? b.sum != w->block.sum : !path_wants(w, b.sum)) {
			others_add(w, b.sum);
			continue;
		}
		found = true;
		w->block = b;
		w->payload = at + LOG_PAYLOAD_AT;
		w->holders |= UINT64_C(1) << i;
	}
	return found;
}

/* A link must be the last block of an extent, and nothing else may be. */
static int link_follow(struct walk *w, struct err *e)
{
	uint32_t extent[RAID_MEMBERS_MAX];
	uint64_t per = log_extent_blocks(w->host);
	bool is_link = (w->block.flags & LOG_LINK) != 0;
	struct err ignored;

	if (is_link != (w->seq % per == per - 1))
		return 0;
	if (!is_link)
		return 1;
	if (rec_link_get(extent, w->payload, w->block.used, &ignored) != 0)
		return 0;
	return chain_add(&w->chain, extent, e) != 0 ? -1 : 1;
}

int walk_next(struct walk *w, struct err *e)
{
	uint64_t per = log_extent_blocks(w->host);
	int rc;

	if (w->seq / per >= w->chain.count)
		return 0;
	if (windows_reach(w, w->seq, e) != 0)
		return -1;
	if (!block_choose(w))
		return 0;
	rc = link_follow(w, e);
	if (rc != 1)
		return rc;
	w->before = w->block.sum;
	w->seq++;
	return 1;
}

int walk_probe(struct walk *w, uint64_t seq, uint64_t *flush, struct err *e)
{
	uint64_t per = log_extent_blocks(w->host);
	struct log_block b;
	int found = 0;

	if (seq / per >= w->chain.count)
		return 0;
	if (windows_reach(w, seq, e) != 0)
		return -1;
	for (unsigned i = 0; i < RAID_MEMBERS_MAX; i++) {
		if (!block_of(w, i, seq, &b))
			continue;
		if (!found || b.flush > *flush)
			*flush = b.flush;
		found = 1;
	}
	return found;
}

/* ---- records ---------------------------------------------------------- */

int rec_parser_init(struct rec_parser *p, struct err *e)
{
	memset(p, 0, sizeof(*p));
	p->body = malloc(REC_BODY_MAX);
	if (!p->body)
		return err_set(e, ERR_NO_MEMORY, "no memory for a record");
	return 0;
}

void rec_parser_release(struct rec_parser *p)
{
	free(p->body);
	p->body = NULL;
}

void rec_parser_reset(struct rec_parser *p)
{
	p->head_have = p->body_have = p->body_size = 0;
}

bool rec_parser_at_end(const struct rec_parser *p)
{
	return p->head_have == 0;
}

static size_t take(uint8_t *to, size_t have, size_t want,
    const uint8_t **data, size_t *size)
{
	size_t n = want - have < *size ? want - have : *size;

	if (n > 0)
		memcpy(to + have, *data, n);
	*data += n;
	*size -= n;
	return n;
}

static int head_decode(struct rec_parser *p, struct err *e)
{
	p->type = le16_get(p->head);
	p->body_size = le32_get(p->head + 4);
	if (p->type == 0 || le16_get(p->head + 2) != 0 ||
	    p->body_size > REC_BODY_MAX)
		return err_set(e, ERR_CORRUPT,
		    "log record of type %u and %zu bytes", p->type,
		    p->body_size);
	return 0;
}

int rec_parser_feed(struct rec_parser *p, const uint8_t *data, size_t size,
    int (*each)(void *arg, const struct log_rec *r, struct err *e), void *arg,
    struct err *e)
{
	while (size > 0) {
		struct log_rec r = { .body = p->body };

		if (p->head_have < LOG_RECORD_HEAD) {
			p->head_have += take(p->head, p->head_have,
			    LOG_RECORD_HEAD, &data, &size);
			if (p->head_have < LOG_RECORD_HEAD)
				return 0;
			if (head_decode(p, e) != 0)
				return -1;
		}
		p->body_have += take(p->body, p->body_have, p->body_size,
		    &data, &size);
		if (p->body_have < p->body_size)
			return 0;
		r.type = p->type;
		r.size = (uint32_t)p->body_size;
		rec_parser_reset(p);
		if (each(arg, &r, e) != 0)
			return -1;
	}
	return 0;
}
