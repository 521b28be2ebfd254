/*
 * client/fetch.h - objects by id, many requests in flight.
 *
 *      fetch_new --> fetch_want ... fetch_send --> fetch_wait -->
 *          fetch_drop ... --> fetch_free
 *
 * A thread receives frames, checks hash, codec, every id, and hands each
 * wanted object to its waiters.  The server is never trusted: what does not
 * have the wanted id was not delivered, and what was not delivered when the
 * server says "that is all" is lost.
 *
 * Memory: the objects that are held, and what is on the way; the caller
 * bounds both through fetch_bytes().
 * Threads: all calls from one thread.
 */
#ifndef CLIENT_FETCH_H
#define CLIENT_FETCH_H

#include "base/err.h"
#include "proto/fmt_id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fetch;
struct link;

enum fetch_state { FETCH_WANTED, FETCH_HERE, FETCH_LOST };

struct fetch_object {
	struct id id;
	enum object_type type;
	enum fetch_state state;	/* changes only inside fetch_*() calls */
	enum err_code why;	/* when lost */
	const uint8_t *data;	/* when here */
	uint32_t size;
};

MUST_CHECK int fetch_new(struct fetch **out, struct link *l, struct err *e);
/* All objects must have been dropped or are gone with it.  After an error, or
 * while requests are open, the link is of no further use. */
void fetch_free(struct fetch *f);

/* A reference to the object; requests it unless it is here or on the way.
 * `guess` is the size to reckon with until it is here, and the most that a
 * chunk may have: a larger one counts as lost. */
MUST_CHECK int fetch_want(struct fetch_object **out, struct fetch *f,
    const struct id *id, enum object_type type, uint32_t guess,
    struct err *e);
/* One more reference to an object that is held. */
void fetch_hold(struct fetch *f, struct fetch_object *o);
/* Give a reference back; NULL is fine. */
void fetch_drop(struct fetch *f, struct fetch_object *o);
/* Send the requests that fetch_want() has collected. */
MUST_CHECK int fetch_send(struct fetch *f, struct err *e);
/* Has the connection failed? */
MUST_CHECK int fetch_poll(struct fetch *f, struct err *e);
/* Bring o->state up to date; does not wait. */
void fetch_look(struct fetch *f, struct fetch_object *o);
/* Until the object is here or lost; sends what was collected first. */
MUST_CHECK int fetch_wait(struct fetch *f, struct fetch_object *o,
    struct err *e);
/* Bytes held and on the way. */
size_t fetch_bytes(struct fetch *f);
/* Bytes of objects that arrived, in all. */
uint64_t fetch_received(struct fetch *f);

#endif
