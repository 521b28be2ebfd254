/*
 * tests/support/store_model.h - a store under test, and what must be in it.
 *
 * A model pushes snapshots of small made-up trees into a store on simulated
 * disks, forgets and prunes, and knows what each of these acked steps must
 * leave: which snapshots are listed, and every object they are made of.
 *
 *      store_model_new --> store_model_create --> store_model_open -->
 *          store_model_push, _forget, _prune ... --> store_model_close -->
 *          store_model_check (of any image, with any index) --> _free
 *
 * The index is copied after steps (store_model_keep_index), so that
 * a start can be given any of its states.
 *
 * Errors: those of the store, or ERR_CORRUPT with a sentence.
 * Threads: a model belongs to one thread.
 */
#ifndef TESTS_SUPPORT_STORE_MODEL_H
#define TESTS_SUPPORT_STORE_MODEL_H

#include "base/err.h"
#include "tests/support/dev_sim.h"

#include <stddef.h>
#include <stdint.h>

struct array;
struct store;
struct store_model;

#define STORE_MODEL_FILES 12u
#define STORE_MODEL_CLIENT "model"

struct store_model_shape {
	unsigned members, parity;
	uint64_t disk_size;
	uint64_t seed;
	uint32_t file_size;	/* the largest; sizes are drawn below it */
};

struct store_model *store_model_new(const struct store_model_shape *shape);
/* With the disks, the directories and all copies of the index. */
void store_model_free(struct store_model *m);
struct sim *store_model_disks(struct store_model *m);

/* An opened store with the array it lies on. */
struct opened {
	struct array *array;
	struct store *store;
};

/* array_create, store_create, the client; acked as the first step. */
MUST_CHECK int store_model_create(struct store_model *m, struct err *e);
/* All disks of `s` but those in `skip`; the index in `index_dir`. */
MUST_CHECK int store_model_open(const struct store_model *m, struct sim *s,
    uint64_t skip, const char *index_dir, struct opened *out, struct err *e);
MUST_CHECK int store_model_close(struct opened *o, struct err *e);
void store_model_abandon(struct opened *o);
/* The directory of the index that the recorded run uses. */
const char *store_model_index(const struct store_model *m);

/* Steps: each is acked when it returns 0, and sim_note() of the model's disks
 * tells how many were. */
/* A snapshot in which `change` of the files are new. */
MUST_CHECK int store_model_push(struct store_model *m, struct store *s,
    unsigned change, struct err *e);
/* The oldest that is listed. */
MUST_CHECK int store_model_forget(struct store_model *m, struct store *s,
    struct err *e);
MUST_CHECK int store_model_prune(struct store_model *m, struct store *s,
    struct err *e);
uint64_t store_model_acked(const struct store_model *m);

/* Keep a copy, if the index differs from the copy before. */
void store_model_keep_index(struct store_model *m);
size_t store_model_indexes(const struct store_model *m);
/* A new directory with copy `i` in it; or, with i = SIZE_MAX, an empty one.
 * Remove it with store_model_drop_index(), which frees the name. */
char *store_model_index_copy(struct store_model *m, size_t i);
void store_model_drop_index(char *dir);

/*
 * Exactly the right snapshots are listed, if `acked` steps were acked and one
 * more may have been begun; and each object of them can be fetched and is
 * what it must be.
 */
MUST_CHECK int store_model_check(const struct store_model *m,
    struct store *s, uint64_t acked, struct err *e);
/* One more push beside the model's, fetched back: the store still works. */
MUST_CHECK int store_model_probe(const struct store_model *m,
    struct store *s, uint64_t seed, struct err *e);

#endif
