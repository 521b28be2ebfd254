/*
 * tests/store/help.h - a store on simulated disks, and a client by hand.
 *
 * `struct bench` is the store with its disks; `struct pusher` a session that
 * builds frames.  All functions abort the test (ck_assert) on errors unless
 * they return something.
 */
#ifndef TESTS_STORE_HELP_H
#define TESTS_STORE_HELP_H

#include "base/buf.h"
#include "proto/fmt_frame.h"
#include "raid/array.h"
#include "store/store.h"
#include "tests/support/dev_sim.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bench {
	struct sim *disks;
	struct array *array;
	struct store *store;
	char *dir, *index;
	struct warn_sink *warn;
	char warnings[4096];	/* all texts, a line each */
	uint64_t flush_bytes, disk_size;
	uint64_t skip;		/* bit i: disk i is left away at the start */
};

/* Four disks of `mib` MiB, one parity, clients "anna" and "bert", each its own
 * domain. */
void bench_open(struct bench *b, unsigned mib);
/* Two disks, which hold the same: the least space to fill. */
void bench_open_two(struct bench *b, unsigned mib);
/* The same with a parity of 0: what is damaged there is lost. */
void bench_open_bare(struct bench *b, unsigned mib);
/* Flip the bytes of this chunk wherever they lie; how many places. */
unsigned bench_damage(struct bench *b, uint64_t seed, size_t size);
/* Clean stop and start. */
void bench_reopen(struct bench *b);
/* Power cut in which all that was written arrives; start. */
void bench_crash(struct bench *b);
/* Between: array and store are closed, or gone. */
void bench_stop(struct bench *b, bool crash);
void bench_start(struct bench *b);
void bench_close(struct bench *b);
void bench_client(struct bench *b, const char *name, const char *domain);

/* The same for any bytes. */
unsigned bench_damage_bytes(struct bench *b, const void *bytes, size_t size);

struct pusher {
	struct store_session *ss;
	struct frame_builder *builder;
	struct buf frame;
	uint32_t number;
	struct id missing[64];
	size_t missing_count;
	uint8_t snapshot[SNAPSHOT_ID_SIZE];
};

void pusher_open(struct pusher *p, struct bench *b, const char *client);
/* Begins a push of the snapshot id that repeats `id`. */
void pusher_begin(struct pusher *p, uint8_t id);
void pusher_close(struct pusher *p);

/* `size` bytes drawn from `seed`; returns their id as a chunk. */
struct id chunk_make(uint64_t seed, size_t size, uint8_t *out);
struct id chunk_id(uint64_t seed, size_t size);
/* Into the frame being built. */
void pusher_add_chunk(struct pusher *p, uint64_t seed, size_t size);
/* Sends what was added; the result of store_session_frame. */
int pusher_send(struct pusher *p, struct err *e);
/* Chunk alone in a frame, must be accepted. */
struct id pusher_chunk(struct pusher *p, uint64_t seed, size_t size);
/* A directory of files "f0", "f1" ... with these contents; its page alone in a
 * frame.  The result of store_session_frame. */
int pusher_tree(struct pusher *p, const struct id *chunks, size_t count,
    struct id *root, struct err *e);
/* A directory whose only entry "d" is the directory `below`. */
int pusher_tree_of(struct pusher *p, const struct id *below,
    struct id *root, struct err *e);
/* ... whose entries "a" and "b" are both that directory. */
int pusher_tree_of_two(struct pusher *p, const struct id *below,
    struct id *root, struct err *e);
struct id pusher_facts(struct pusher *p, const char *path);
int pusher_commit(struct pusher *p, const struct id *root,
    const struct id *facts, struct snapshot_record *out, struct err *e);
/* One whole push: `count` chunks of `size` bytes from `seed` on. */
struct id push_simple(struct bench *b, const char *client, uint8_t id,
    uint64_t seed, size_t count, size_t size);
void pusher_settle(struct pusher *p);	/* all is durable */
bool pusher_has(struct pusher *p, const struct id *id);

/* Fetch for a client: 0 and the plain bytes in `out` (if not NULL), or the
 * code that was told for the id. */
enum err_code fetch_one(struct bench *b, const char *client,
    const struct id *id, void *out, size_t size);
/* All chunks of push_simple can be fetched and are right, tree and facts
 * too. */
void check_simple(struct bench *b, const char *client, uint64_t seed,
    size_t count, size_t size, const struct id *root);
size_t count_snapshots(struct bench *b, const char *client);
/* A prune that must succeed. */
struct prune_report prune_now(struct bench *b);
struct verify_report verify_now(struct bench *b, bool heal);

#endif
