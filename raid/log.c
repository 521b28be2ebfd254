/*
 * raid/log.c - life and positions of the log; the history of its epochs.
 */
#include "raid/log.h"

#include "raid/log_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- chain ------------------------------------------------------------ */

void chain_release(struct chain *c)
{
	free(c->links);
	c->links = NULL;
	c->count = 0;
}

int chain_add(struct chain *c, const uint32_t extent[static RAID_MEMBERS_MAX],
    struct err *e)
{
	struct chain_link *links;

	links = realloc(c->links, (c->count + 1) * sizeof(*links));
	if (!links)
		return err_set(e, ERR_NO_MEMORY, "no memory for the log");
	c->links = links;
	memcpy(links[c->count].extent, extent, sizeof(links->extent));
	c->count++;
	return 0;
}

int chain_copy(struct chain *to, const struct chain *from, struct err *e)
{
	struct chain got = { .generation = from->generation };

	for (size_t i = 0; i < from->count; i++) {
		if (chain_add(&got, from->links[i].extent, e) != 0) {
			chain_release(&got);
			return -1;
		}
	}
	chain_release(to);
	*to = got;
	return 0;
}

uint64_t log_extent_blocks(const struct log_host *h)
{
	return h->extent_size / LOG_BLOCK;
}

bool chain_block_at(const struct chain *c, const struct log_host *h,
    unsigned member, uint64_t seq, uint64_t *offset)
{
	uint64_t per = log_extent_blocks(h);
	uint64_t ordinal = seq / per;
	const struct member *m;
	uint32_t extent;

	if (ordinal >= c->count || member >= h->member_count)
		return false;
	m = h->members[member];
	extent = c->links[ordinal].extent[member];
	if (extent == LOG_NO_EXTENT || extent >= m->extent_count)
		return false;
	*offset = member_extent_offset(m, extent) + seq % per * LOG_BLOCK;
	return true;
}

/* ---- history ---------------------------------------------------------- */

void history_push(struct history *h, const struct rec_epoch *p)
{
	if (h->count == HISTORY_MAX) {
		memmove(h->at, h->at + 1,
		    (HISTORY_MAX - 1) * sizeof(h->at[0]));
		h->count--;
		h->cut = true;
	}
	h->at[h->count++] = *p;
}

int history_find(const struct history *h, const uint8_t run[static 16])
{
	for (size_t i = h->count; i > 0; i--)
		if (memcmp(h->at[i - 1].run, run, 16) == 0)
			return (int)(i - 1);
	return -1;
}

uint64_t history_end(const struct history *h, size_t i, uint64_t end)
{
	return i + 1 < h->count ? h->at[i + 1].first - 1 : end;
}

const struct rec_epoch *log_epoch(const struct log *l)
{
	return &l->history.at[l->history.count - 1];
}

/* ---- what others ask -------------------------------------------------- */

uint64_t log_set_now(const struct log *l)
{
	uint64_t set = 0;

	for (size_t i = 0; i < l->host->member_count; i++)
		if (member_writable(l->host->members[i]))
			set |= UINT64_C(1) << i;
	return set & ~l->no_room;
}

uint64_t log_next_flush(struct log *l)
{
	uint64_t next;

	pthread_mutex_lock(&l->lock);
	next = l->flush + 1;
	pthread_mutex_unlock(&l->lock);
	return next;
}

/* Below this a fold is not worth its flushes. */
#define TAIL_MIN ((UINT64_C(1) << 20) / LOG_BLOCK)

bool log_wants_fold(struct log *l)
{
	uint64_t tail, limit;

	pthread_mutex_lock(&l->lock);
	tail = l->seq - l->checkpoint_blocks;
	limit = l->checkpoint_blocks > TAIL_MIN ? l->checkpoint_blocks :
	    TAIL_MIN;
	pthread_mutex_unlock(&l->lock);
	return tail > limit;
}

bool log_knows(struct log *l, const uint8_t run[static 16], uint64_t flush)
{
	const struct history *h = &l->history;
	bool known = false;
	int i;

	pthread_mutex_lock(&l->lock);
	i = history_find(h, run);
	if (i >= 0)
		known = flush >= h->at[i].first &&
		    flush <= history_end(h, (size_t)i, l->flush);
	pthread_mutex_unlock(&l->lock);
	return known;
}

size_t log_extents(struct log *l, unsigned member, uint32_t *out, size_t max)
{
	size_t count = 0;

	pthread_mutex_lock(&l->lock);
	for (size_t i = 0; i < l->chain.count; i++) {
		uint32_t x = l->chain.links[i].extent[member];

		if (x == LOG_NO_EXTENT)
			continue;
		if (count < max)
			out[count] = x;
		count++;
	}
	for (size_t i = 0; i < l->held_count; i++) {
		if (l->held[i].member != member)
			continue;
		if (count < max)
			out[count] = l->held[i].extent;
		count++;
	}
	pthread_mutex_unlock(&l->lock);
	return count;
}

void log_disown(struct log *l, unsigned member, uint32_t extent)
{
	size_t kept = 0;

	pthread_mutex_lock(&l->lock);
	for (size_t i = 0; i < l->held_count; i++)
		if (l->held[i].member != member ||
		    l->held[i].extent != extent)
			l->held[kept++] = l->held[i];
	l->held_count = kept;
	pthread_mutex_unlock(&l->lock);
}

uint64_t log_bytes(struct log *l)
{
	uint64_t bytes;

	pthread_mutex_lock(&l->lock);
	bytes = l->seq * LOG_BLOCK;
	pthread_mutex_unlock(&l->lock);
	return bytes;
}

void log_position(struct log *l, struct log_position *pos)
{
	pthread_mutex_lock(&l->lock);
	pos->flush = l->flush;
	pos->event = log_epoch(l)->event;
	memcpy(pos->run, log_epoch(l)->run, sizeof(pos->run));
	pos->clean = l->clean;
	pos->damaged_tail = l->damaged_tail;
	pthread_mutex_unlock(&l->lock);
}

void log_hold(struct log *l)
{
	pthread_mutex_lock(&l->lock);
}

void log_let_go(struct log *l)
{
	pthread_mutex_unlock(&l->lock);
}

void log_close(struct log *l)
{
	if (!l)
		return;
	chain_release(&l->chain);
	free(l->held);
	pthread_mutex_destroy(&l->lock);
	free(l);
}
