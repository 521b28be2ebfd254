/*
 * Any bytes from a peer, in any pieces (the first byte says how large): cut
 * into messages within the limits or refused, the same whatever the pieces.
 */
#include "base/wire_pump.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BODY_MAX 4096

struct source {
	const uint8_t *data;
	size_t size, at, piece;
};

static long pull(void *arg, void *out, size_t size, struct err *e)
{
	struct source *s = arg;
	size_t n = s->size - s->at;

	(void)e;
	if (n == 0)
		return -2;
	if (n > size)
		n = size;
	if (n > s->piece)
		n = s->piece;
	memcpy(out, s->data + s->at, n);
	s->at += n;
	return (long)n;
}

static const struct wire_transport ops = { .pull = pull };

/* How many messages and body bytes come out. */
static uint64_t cut(struct source *s, int *refused)
{
	struct wire *w = calloc(1, sizeof(*w));
	uint64_t sum = 0;
	struct err e;
	bool more;

	if (!w)
		abort();
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->recv_ready, NULL);
	w->o.body_max = BODY_MAX;
	w->o.recv_bytes_max = 2 * BODY_MAX;
	w->ops = &ops;
	w->transport = s;
	do {
		*refused = wire_in_pump(w, &more, &e);
		if (*refused && e.code != ERR_PROTOCOL)
			abort();
		while (w->in_first) {
			struct in_msg *in = w->in_first;

			if (in->m.size > BODY_MAX || in->m.type == TYPE_PING)
				abort();
			sum = sum * 31 + in->m.size + in->m.request;
			w->in_first = in->next;
			w->in_bytes -= in_weight(in->m.size);
			wire_in_free(in);
		}
	} while (!*refused && (!w->ended || w->paused));
	wire_in_free(w->in);
	pthread_cond_destroy(&w->recv_ready);
	pthread_mutex_destroy(&w->lock);
	free(w);
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct source whole, pieces;
	uint64_t a, b;
	int bad_a, bad_b;

	if (size == 0)
		return 0;
	whole = (struct source){ data + 1, size - 1, 0, SIZE_MAX };
	pieces = whole;
	pieces.piece = data[0] + 1u;
	a = cut(&whole, &bad_a);
	b = cut(&pieces, &bad_b);
	if (a != b || bad_a != bad_b)
		abort();
	return 0;
}
