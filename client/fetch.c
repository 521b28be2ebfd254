/*
 * client/fetch.c - a table of wanted objects between two threads.
 *
 * The caller's thread enters objects into the table and sends FETCH; the
 * receiving thread takes in OBJECTS and FETCHED while requests are open and
 * sleeps otherwise, so that the session is free for something else when all
 * is answered.  Decompression and hashing happen in the receiving thread, in
 * parallel with whatever the caller does with earlier objects.
 *
 * An object is delivered when a frame holds bytes whose id, computed here, is
 * the wanted one.  Nothing else that the server says counts, but for FETCHED:
 * what was asked for and not delivered until then is lost, with the server's
 * reason if it gave one and ERR_CORRUPT if not.
 */
#include "client/fetch.h"

#include "base/le.h"
#include "client/link.h"
#include "proto/fmt_frame.h"
#include "proto/fmt_list.h"
#include "proto/fmt_snapshot.h"
#include "proto/fmt_tree.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 65536		/* of the hash table; objects are fewer */
#define BATCH_MAX 256		/* ids in one FETCH */

struct holder {			/* what a fetch_object is inside */
	struct fetch_object o;	/* what the caller sees */
	struct holder *next;	/* in its slot */
	unsigned refs;
	const struct request *request;	/* that asked for it */
	enum fetch_state state;	/* the receiver's truth */
	enum err_code why;
	uint8_t *data;		/* owned */
	uint32_t size;		/* or the guess */
};

struct request {
	struct request *next;
	uint32_t number;
	size_t count;
	struct id ids[BATCH_MAX];
};

struct fetch {
	pthread_mutex_t lock;	/* guards all below but batch */
	pthread_cond_t arrived;	/* an object's state changed, or failure */
	pthread_cond_t asked;	/* a request is open, or the end */
	struct holder *slots[SLOTS];
	struct request *open;	/* oldest first */
	struct request **open_end;
	size_t bytes;
	uint64_t received;
	bool failed, ending;
	struct err error;

	struct link *link;
	pthread_t thread;
	struct request *batch;	/* being collected; the caller's thread */
	uint8_t *plain;		/* the receiving thread's */
};

static size_t slot_of(const struct id *id)
{
	return le32_get(id->bytes) % SLOTS;
}

static struct holder *find(struct fetch *f, const struct id *id)
{
	struct holder *h = f->slots[slot_of(id)];

	while (h && !id_equal(&h->o.id, id))
		h = h->next;
	return h;
}

/* ---- the receiving thread ----------------------------------------------- */

static void fail(struct fetch *f, const struct err *e)
{
	pthread_mutex_lock(&f->lock);
	if (!f->failed)
		f->error = *e;
	f->failed = true;
	pthread_cond_broadcast(&f->arrived);
	pthread_mutex_unlock(&f->lock);
}

/* With the lock held: these bytes are the object's. */
static void deliver(struct fetch *f, struct holder *h, uint8_t *data,
    uint32_t size)
{
	f->bytes += size;
	f->bytes -= h->size;
	f->received += size;
	h->data = data;
	h->size = size;
	h->state = FETCH_HERE;
	pthread_cond_broadcast(&f->arrived);
}

/* What is read ahead is bounded by what was reckoned with, so nothing may turn
 * out to be much more than that. */
static uint32_t most(const struct holder *h)
{
	switch (h->o.type) {
	case OBJECT_LIST:
		return LIST_PAGE_MAX;
	case OBJECT_TREE:
		return TREE_PAGE_MAX;
	case OBJECT_FACTS:
		return FACTS_MAX;
	default:
		return h->size;
	}
}

/* Wanted, of the type that it was wanted as, and not more than that? */
static bool is_wanted(struct fetch *f, const struct frame_object *o)
{
	struct holder *h;
	bool yes;

	pthread_mutex_lock(&f->lock);
	h = find(f, &o->id);
	yes = h && h->state == FETCH_WANTED && h->o.type == o->type &&
	    o->size <= most(h);
	pthread_mutex_unlock(&f->lock);
	return yes;
}

/* One object of a frame: check its id and give it to who waits. */
static int take_object(struct fetch *f, const struct frame_object *o,
    const uint8_t *plain, struct err *e)
{
	struct holder *h;
	struct id id;
	uint8_t *copy;

	if (!is_wanted(f, o))
		return 0;
	if (id_of(&id, o->type, plain, o->size, e) != 0)
		return -1;
	if (!id_equal(&id, &o->id))
		return 0;		/* a lie: it stays wanted */
	copy = malloc(o->size);
	if (!copy)
		return err_set(e, ERR_NO_MEMORY, "no memory for an object");
	memcpy(copy, plain, o->size);
	pthread_mutex_lock(&f->lock);
	h = find(f, &o->id);
	if (h && h->state == FETCH_WANTED) {
		deliver(f, h, copy, o->size);
		copy = NULL;
	}
	pthread_mutex_unlock(&f->lock);
	free(copy);
	return 0;
}

/* A damaged frame delivers nothing; only lack of memory is an error. */
static int take_frame(struct fetch *f, const struct wire_msg *m,
    struct err *e)
{
	struct frame_object o;
	struct frame_view v;
	struct err damage;
	uint32_t offset = 0;

	if (!frame_hash_ok(m->body, m->size) ||
	    frame_parse(&v, m->body, m->size, &damage) != 0 ||
	    frame_unpack(&v, f->plain, &damage) != 0)
		return 0;
	for (uint32_t i = 0; i < v.object_count; i++) {
		const uint8_t *row = v.objects + i * FRAME_OBJECT_SIZE;

		memset(&o, 0, sizeof(o));
		memcpy(o.id.bytes, row, ID_SIZE);
		o.size = le32_get(row + 32);
		o.type = (enum object_type)row[38];
		if (take_object(f, &o, f->plain + offset, e) != 0)
			return -1;
		offset += o.size;
	}
	return 0;
}

/* An object that was dropped and wanted again belongs to the later request,
 * and is not lost at the end of the earlier. */
static void lose(struct fetch *f, const struct request *r,
    const struct id *id, enum err_code why)
{
	struct holder *h = find(f, id);

	if (!h || h->state != FETCH_WANTED || h->request != r)
		return;
	h->state = FETCH_LOST;
	h->why = why == ERR_NONE ? ERR_CORRUPT : why;
	f->bytes -= h->size;
	h->size = 0;
	pthread_cond_broadcast(&f->arrived);
}

/* FETCHED: the request is over, what is missing is lost. */
static int take_end(struct fetch *f, const struct wire_msg *m, struct err *e)
{
	struct request *r, **at;
	struct msg_fetched got;
	struct id id;

	if (msg_fetched_get(&got, m->body, m->size, e) != 0)
		return -1;
	pthread_mutex_lock(&f->lock);
	for (at = &f->open; *at && (*at)->number != m->request;)
		at = &(*at)->next;
	r = *at;
	for (uint32_t i = 0; r && i < got.count; i++) {
		const uint8_t *item = got.items + (size_t)i * (1 + ID_SIZE);

		memcpy(id.bytes, item + 1, ID_SIZE);
		lose(f, r, &id, err_from_wire(item[0]));
	}
	for (size_t i = 0; r && i < r->count; i++)
		lose(f, r, &r->ids[i], ERR_CORRUPT);
	if (r) {
		*at = r->next;
		if (!r->next)
			f->open_end = at;
	}
	pthread_mutex_unlock(&f->lock);
	free(r);
	if (!r)
		return err_set(e, ERR_PROTOCOL, "an answer to no request");
	return 0;
}

static int take_message(struct fetch *f, struct err *e)
{
	struct wire_msg m;
	int rc;

	if (link_recv(f->link, &m, e) != 0)
		return -1;
	if (m.type == MSG_OBJECTS)
		rc = take_frame(f, &m, e);
	else if (m.type == MSG_FETCHED)
		rc = take_end(f, &m, e);
	else
		rc = err_set(e, ERR_PROTOCOL, "message 0x%02x among objects",
		    m.type);
	wire_msg_release(&m);
	return rc;
}

static void *receive(void *arg)
{
	struct fetch *f = arg;
	struct err e;
	bool more;

	for (;;) {
		pthread_mutex_lock(&f->lock);
		while (!f->open && !f->ending)
			pthread_cond_wait(&f->asked, &f->lock);
		more = f->open && !f->ending;
		pthread_mutex_unlock(&f->lock);
		if (!more)
			return NULL;
		if (take_message(f, &e) != 0) {
			fail(f, &e);
			return NULL;
		}
	}
}

/* ---- the caller's thread ------------------------------------------------ */

int fetch_new(struct fetch **out, struct link *l, struct err *e)
{
	struct fetch *f = calloc(1, sizeof(*f));
	int os;

	if (f)
		f->plain = malloc(FRAME_PLAIN_MAX);
	if (!f || !f->plain) {
		free(f);
		return err_set(e, ERR_NO_MEMORY, "no memory to fetch with");
	}
	f->link = l;
	f->open_end = &f->open;
	pthread_mutex_init(&f->lock, NULL);
	pthread_cond_init(&f->arrived, NULL);
	pthread_cond_init(&f->asked, NULL);
	os = pthread_create(&f->thread, NULL, receive, f);
	if (os != 0) {
		free(f->plain);
		free(f);
		return err_os(e, os, "start a thread");
	}
	*out = f;
	return 0;
}

static void free_objects(struct fetch *f)
{
	for (size_t i = 0; i < SLOTS; i++) {
		while (f->slots[i]) {
			struct holder *h = f->slots[i];

			f->slots[i] = h->next;
			free(h->data);
			free(h);
		}
	}
}

void fetch_free(struct fetch *f)
{
	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	if (f->open && !f->failed)
		link_abort(f->link, "cancelled");
	f->ending = true;
	pthread_cond_signal(&f->asked);
	pthread_mutex_unlock(&f->lock);
	pthread_join(f->thread, NULL);
	while (f->open) {
		struct request *r = f->open;

		f->open = r->next;
		free(r);
	}
	free_objects(f);
	free(f->batch);
	free(f->plain);
	pthread_mutex_destroy(&f->lock);
	pthread_cond_destroy(&f->arrived);
	pthread_cond_destroy(&f->asked);
	free(f);
}

/* With the lock held: show the caller what the receiver knows. */
static void refresh(struct holder *h)
{
	h->o.state = h->state;
	h->o.why = h->why;
	h->o.data = h->data;
	h->o.size = h->state == FETCH_HERE ? h->size : 0;
}

/* Put the id into the batch, sending that when it is full. */
static int collect(struct fetch *f, const struct id *id, struct err *e)
{
	if (f->batch && f->batch->count == BATCH_MAX &&
	    fetch_send(f, e) != 0)
		return -1;
	if (!f->batch) {
		f->batch = malloc(sizeof(*f->batch));
		if (!f->batch)
			return err_set(e, ERR_NO_MEMORY,
			    "no memory for a request");
		f->batch->count = 0;
	}
	f->batch->ids[f->batch->count++] = *id;
	return 0;
}

int fetch_want(struct fetch_object **out, struct fetch *f,
    const struct id *id, enum object_type type, uint32_t guess,
    struct err *e)
{
	struct holder *h;

	pthread_mutex_lock(&f->lock);
	h = find(f, id);
	if (h) {
		h->refs++;
		refresh(h);
	}
	pthread_mutex_unlock(&f->lock);
	if (h) {
		*out = &h->o;
		return 0;
	}
	if (collect(f, id, e) != 0)
		return -1;
	h = calloc(1, sizeof(*h));
	if (!h) {
		f->batch->count--;
		return err_set(e, ERR_NO_MEMORY, "no memory for an object");
	}
	h->o.id = *id;
	h->o.type = type;
	h->refs = 1;
	h->request = f->batch;
	h->size = guess;
	pthread_mutex_lock(&f->lock);
	h->next = f->slots[slot_of(id)];
	f->slots[slot_of(id)] = h;
	f->bytes += guess;
	pthread_mutex_unlock(&f->lock);
	*out = &h->o;
	return 0;
}

void fetch_hold(struct fetch *f, struct fetch_object *o)
{
	pthread_mutex_lock(&f->lock);
	((struct holder *)o)->refs++;
	pthread_mutex_unlock(&f->lock);
}

/* With the lock held: out of the table, freed.  One that is on the way stays
 * until it arrives or is lost: its id is in an open request. */
static void forget(struct fetch *f, struct holder *h)
{
	struct holder **at = &f->slots[slot_of(&h->o.id)];

	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	f->bytes -= h->size;
	free(h->data);
	free(h);
}

void fetch_drop(struct fetch *f, struct fetch_object *o)
{
	struct holder *h = (struct holder *)o;

	if (!h)
		return;
	pthread_mutex_lock(&f->lock);
	assert(h->refs > 0);
	if (--h->refs == 0)
		forget(f, h);
	pthread_mutex_unlock(&f->lock);
}

int fetch_send(struct fetch *f, struct err *e)
{
	struct request *r = f->batch;

	if (!r || r->count == 0)
		return 0;
	f->batch = NULL;
	r->number = link_request(f->link);
	r->next = NULL;
	pthread_mutex_lock(&f->lock);
	*f->open_end = r;
	f->open_end = &r->next;
	pthread_mutex_unlock(&f->lock);
	if (link_send(f->link, MSG_FETCH, r->number, r->ids,
	    r->count * ID_SIZE, e) != 0)
		return -1;
	pthread_mutex_lock(&f->lock);
	pthread_cond_signal(&f->asked);
	pthread_mutex_unlock(&f->lock);
	return 0;
}

/* With the lock held. */
static int failure(struct fetch *f, struct err *e)
{
	if (!f->failed)
		return 0;
	*e = f->error;
	return -1;
}

int fetch_poll(struct fetch *f, struct err *e)
{
	int rc;

	pthread_mutex_lock(&f->lock);
	rc = failure(f, e);
	pthread_mutex_unlock(&f->lock);
	return rc;
}

void fetch_look(struct fetch *f, struct fetch_object *o)
{
	pthread_mutex_lock(&f->lock);
	refresh((struct holder *)o);
	pthread_mutex_unlock(&f->lock);
}

int fetch_wait(struct fetch *f, struct fetch_object *o, struct err *e)
{
	struct holder *h = (struct holder *)o;
	int rc = 0;

	if (fetch_send(f, e) != 0)
		return -1;
	pthread_mutex_lock(&f->lock);
	while (h->state == FETCH_WANTED && rc == 0) {
		rc = failure(f, e);
		if (rc == 0)
			pthread_cond_wait(&f->arrived, &f->lock);
	}
	refresh(h);
	pthread_mutex_unlock(&f->lock);
	return h->o.state == FETCH_WANTED ? -1 : 0;
}

size_t fetch_bytes(struct fetch *f)
{
	size_t bytes;

	pthread_mutex_lock(&f->lock);
	bytes = f->bytes;
	pthread_mutex_unlock(&f->lock);
	return bytes;
}

uint64_t fetch_received(struct fetch *f)
{
	uint64_t bytes;

	pthread_mutex_lock(&f->lock);
	bytes = f->received;
	pthread_mutex_unlock(&f->lock);
	return bytes;
}
