/*
 * client/push_pages.c - pages, in the order they were made.
 *
 *   waiting for an answer --> being grouped --> ready --> wire
 *
 * The three stages keep the order in which pages were handed in, and a page is
 * handed in after the pages below it: so in every frame refs point to what was
 * sent before, or earlier in the frame.  A ready frame leaves when all chunks
 * that were claimed before it was closed are settled (push_lane.c, L1).  Who
 * hands in a page waits for that only when PUSH_READY_BYTES are ready.
 *
 * Metadata is compressed with zstd whatever the content is compressed with:
 * it is small, and names and ids repeat.
 */
#include "client/push_int.h"

#include <stdlib.h>

/* ---- ready frames ------------------------------------------------------- */

/* Close the frame being filled. */
static int close_frame(struct push *p, struct err *e)
{
	struct push_pages *g = &p->pages;
	size_t plain = frame_builder_plain(g->builder);
	struct push_frame *f;

	if (frame_builder_objects(g->builder) == 0)
		return 0;
	f = calloc(1, sizeof(*f));
	if (!f)
		return err_set(e, ERR_NO_MEMORY, "no memory for a page");
	buf_init(&f->out, FRAME_STORED_MAX);
	if (frame_builder_finish(g->builder, CODEC_ZSTD, 1, &f->out, e) != 0) {
		buf_release(&f->out);
		free(f);
		return -1;
	}
	f->after = push_next_seq(p);
	f->count = plain;
	*g->ready_end = f;
	g->ready_end = &f->next;
	g->ready_bytes += f->out.cap;
	return 0;
}

static int send_first(struct push *p, struct err *e)
{
	struct push_pages *g = &p->pages;
	struct push_frame *f = g->ready;
	uint32_t number;
	int rc;

	g->ready = f->next;
	if (!g->ready)
		g->ready_end = &g->ready;
	g->ready_bytes -= f->out.cap;
	rc = link_send_frame(p->link, f->out.data, f->out.size, &number, e);
	if (rc == 0)
		atomic_fetch_add(&p->counts.new_bytes, f->count);
	buf_release(&f->out);
	free(f);
	return rc;
}

/* Send what may go; with `all`, what is ready, waiting for its chunks. */
static int send_ready(struct push *p, bool all, struct err *e)
{
	struct push_pages *g = &p->pages;

	while (g->ready) {
		uint64_t after = g->ready->after;

		if (!push_is_settled(p, after)) {
			if (!all && g->ready_bytes <= PUSH_READY_BYTES)
				return 0;
			if (push_lanes_flush(p, after, e) != 0 ||
			    push_settled(p, after, e) != 0)
				return -1;
		}
		if (send_first(p, e) != 0)
			return -1;
	}
	return 0;
}

/* ---- grouping ----------------------------------------------------------- */

static int group(struct push *p, const struct push_pending *n,
    const void *plain, const struct id *refs, struct err *e)
{
	struct push_pages *g = &p->pages;

	if (!frame_builder_fits(g->builder, n->size, n->ref_count,
	    FRAME_TREE_MAX) && close_frame(p, e) != 0)
		return -1;
	return frame_builder_add(g->builder, &n->id, n->type, plain, n->size,
	    refs, n->ref_count, e);
}

/* The refs lie behind the bytes, at any alignment. */
static int group_pending(struct push *p, const struct push_pending *n,
    struct err *e)
{
	size_t size = n->ref_count * sizeof(struct id);
	struct id *refs = NULL;
	int rc;

	if (size > 0) {
		refs = malloc(size);
		if (!refs)
			return err_set(e, ERR_NO_MEMORY,
			    "no memory for a page");
		memcpy(refs, n->data + n->size, size);
	}
	rc = group(p, n, n->data, refs, e);
	free(refs);
	return rc;
}

/* Work off the answers; with `all`, wait until nothing waits. */
static int advance(struct push *p, bool all, struct err *e)
{
	struct push_fifo *f = &p->pages.asked;
	int rc;

	if (push_fifo_ask(p, f, all, e) != 0)
		return -1;
	while (f->first) {
		struct push_pending *n = f->first;
		bool full = f->bytes > PUSH_ASKED_BYTES;

		if (!n->ask && push_fifo_ask(p, f, true, e) != 0)
			return -1;
		rc = push_ask_ready(p, n->ask, all || full);
		if (rc < 0)
			return push_check(p, e);
		if (rc == 0)
			break;
		if (!push_ask_has(n->ask, n->ask_index) &&
		    group_pending(p, n, e) != 0)
			return -1;
		push_fifo_pop(p, f);
		if (push_fifo_ask(p, f, all, e) != 0)
			return -1;
	}
	return 0;
}

static bool seen_before(struct push *p, const struct id *id)
{
	bool yes;

	pthread_mutex_lock(&p->seen_lock);
	yes = seen_add(p->seen, id);
	pthread_mutex_unlock(&p->seen_lock);
	return yes;
}

int push_page(void *arg, enum object_type type, const struct id *id,
    const void *plain, size_t size, const struct id *refs, size_t ref_count,
    struct err *e)
{
	struct push *p = arg;
	struct push_pages *g = &p->pages;
	struct push_pending n = { .id = *id, .type = type, .size = size,
		.ref_count = ref_count };
	int rc;

	pthread_mutex_lock(&g->lock);
	if (seen_before(p, id)) {
		pthread_mutex_unlock(&g->lock);
		return 0;
	}
	if (!p->ask) {
		rc = group(p, &n, plain, refs, e);
	} else {
		rc = push_fifo_add(&g->asked, &n, plain, refs, e);
		if (rc == 0)
			rc = advance(p, false, e);
	}
	if (rc == 0)
		rc = send_ready(p, false, e);
	pthread_mutex_unlock(&g->lock);
	return rc;
}

int push_pages_finish(struct push *p, struct err *e)
{
	struct push_pages *g = &p->pages;
	int rc;

	pthread_mutex_lock(&g->lock);
	rc = p->ask ? advance(p, true, e) : 0;
	if (rc == 0)
		rc = close_frame(p, e);
	if (rc == 0)
		rc = send_ready(p, true, e);
	pthread_mutex_unlock(&g->lock);
	return rc;
}
