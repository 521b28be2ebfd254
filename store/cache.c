/* store/cache.c - a list by recency; see cache.h.  At most a few hundred
 * frames, so looking through the list is cheap beside what it saves. */
#include "store/cache.h"

#include "proto/fmt_frame.h"

#include <pthread.h>
#include <stdlib.h>

struct cache {
	pthread_mutex_t lock;	/* guards all, and holders of each frame */
	struct cached *newest, *oldest;
	size_t bytes;
};

int cache_new(struct cache **out, struct err *e)
{
	struct cache *c = calloc(1, sizeof(*c));

	if (!c)
		return err_set(e, ERR_NO_MEMORY, "no memory for the cache");
	pthread_mutex_init(&c->lock, NULL);
	*out = c;
	return 0;
}

static void unlink_one(struct cache *c, struct cached *f)
{
	*(f->newer ? &f->newer->older : &c->newest) = f->older;
	*(f->older ? &f->older->newer : &c->oldest) = f->newer;
	f->newer = f->older = NULL;
	c->bytes -= f->size;
}

static void link_newest(struct cache *c, struct cached *f)
{
	f->older = c->newest;
	f->newer = NULL;
	*(c->newest ? &c->newest->newer : &c->oldest) = f;
	c->newest = f;
	c->bytes += f->size;
}

static void release(struct cached *f)
{
	if (--f->holders > 0)
		return;
	free(f->data);
	free(f);
}

void cache_free(struct cache *c)
{
	if (!c)
		return;
	while (c->newest) {
		struct cached *f = c->newest;

		unlink_one(c, f);
		release(f);
	}
	pthread_mutex_destroy(&c->lock);
	free(c);
}

static bool same_place(const struct place *a, const struct place *b)
{
	return a->segment == b->segment && a->row == b->row &&
	    a->offset == b->offset && a->size == b->size;
}

static struct cached *find(struct cache *c, const struct place *at)
{
	struct cached *f;

	pthread_mutex_lock(&c->lock);
	for (f = c->newest; f && !same_place(&f->place, at); f = f->older)
		;
	if (f) {
		unlink_one(c, f);
		link_newest(c, f);
		f->holders++;
	}
	pthread_mutex_unlock(&c->lock);
	return f;
}

static void insert(struct cache *c, struct cached *f)
{
	pthread_mutex_lock(&c->lock);
	f->holders++;
	link_newest(c, f);
	while (c->bytes > CACHE_BYTES && c->oldest != f) {
		struct cached *old = c->oldest;

		unlink_one(c, old);
		release(old);
	}
	pthread_mutex_unlock(&c->lock);
}

static bool good(void *arg, const void *data, size_t size)
{
	(void)arg;
	return frame_hash_ok(data, size);
}

enum array_read cache_frame(struct cache *c, struct array *a,
    const struct place *at, struct cached **out, struct err *e)
{
	struct cached *f = find(c, at);
	enum array_read got;

	*out = f;
	if (f)
		return ARRAY_READ_OK;
	f = calloc(1, sizeof(*f));
	if (f)
		f->data = malloc(at->size + 1);
	if (!f || !f->data) {
		free(f);
		err_set(e, ERR_NO_MEMORY, "no memory for a frame");
		return ARRAY_READ_UNAVAILABLE;
	}
	f->place = *at;
	f->size = at->size;
	f->holders = 1;
	got = array_read(a, at, f->data, good, NULL, e);
	if (got != ARRAY_READ_OK) {
		release(f);
		return got;
	}
	insert(c, f);
	*out = f;
	return ARRAY_READ_OK;
}

void cache_drop(struct cache *c, struct cached *f)
{
	if (!f)
		return;
	pthread_mutex_lock(&c->lock);
	release(f);
	pthread_mutex_unlock(&c->lock);
}

void cache_forget(struct cache *c, uint64_t segment)
{
	pthread_mutex_lock(&c->lock);
	for (struct cached *f = c->newest, *older; f; f = older) {
		older = f->older;
		if (f->place.segment != segment)
			continue;
		unlink_one(c, f);
		release(f);
	}
	pthread_mutex_unlock(&c->lock);
}
