/*
 * tests/client/fake_server.h - the server's side of the protocol, in memory.
 *
 * Objects live in a table, snapshots in a list; the closure rule is the real
 * one: a page is taken only if all it names is there.  One session at a time,
 * served by a thread over a socket pair.  A test may look into the table, take
 * things out of it, and put hostile ones in.
 */
#ifndef TESTS_CLIENT_FAKE_SERVER_H
#define TESTS_CLIENT_FAKE_SERVER_H

#include "base/err.h"
#include "proto/fmt_id.h"
#include "proto/fmt_snapshot.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_object {
	struct fake_object *next;
	struct id id;
	enum object_type type;
	uint8_t *data;
	uint32_t size;
	struct id *refs;
	size_t ref_count;
	bool lie;		/* its bytes are given with a bit flipped */
	unsigned received;	/* times a client sent it */
	unsigned given;		/* times it was given */
};

#define FAKE_SLOTS 4096

struct fake_store {
	struct fake_object *slots[FAKE_SLOTS];
	struct snapshot_record snapshots[64];
	size_t snapshot_count;
	uint8_t uuid[16], domain[16], seed[32];
	/* what the next session does */
	bool busy;		/* refuse to begin */
	bool says_have;		/* HAVE is always answered with yes */
	unsigned die_after;	/* frames, then the line is cut; 0 = never */
	unsigned give_delay_us;	/* before each answer to FETCH */
	/* what sessions did */
	unsigned frames, have_ids, have_requests, fetch_requests,
	    missing_sent, duplicates, sessions;
	uint64_t frame_bytes;
	size_t largest_group;
	/* the running session */
	pthread_t thread;
	int fd;
	bool running;
};

struct fake_store *fake_store_new(void);
void fake_store_free(struct fake_store *s);
/* Start a session; the descriptor is the client's end. */
int fake_session(struct fake_store *s);
/* Wait for its end. */
void fake_session_end(struct fake_store *s);
void fake_counts_reset(struct fake_store *s);

struct fake_object *fake_find(struct fake_store *s, const struct id *id);
/* Store an object with the right id for its bytes. */
struct id fake_add(struct fake_store *s, enum object_type type,
    const void *data, size_t size, const struct id *refs, size_t ref_count);
void fake_remove(struct fake_store *s, const struct id *id);
/* The nth (from 0) object of a type; NULL when there are fewer.  The order is
 * the table's. */
struct fake_object *fake_nth(struct fake_store *s, enum object_type type,
    size_t n);
size_t fake_count(struct fake_store *s, enum object_type type);
/* A committed snapshot of this root. */
void fake_snapshot(struct fake_store *s, const struct id *root);

#endif
