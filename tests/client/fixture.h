/*
 * tests/client/fixture.h - a temporary home, a fake server, and bkclient run
 * in this process with its output in files.
 */
#ifndef TESTS_CLIENT_FIXTURE_H
#define TESTS_CLIENT_FIXTURE_H

#include "base/buf.h"
#include "tests/client/fake_server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fixture {
	char dir[64];		/* everything is below */
	char src[96], dst[96];	/* dir/src (made), dir/dst (not made) */
	struct fake_store *store;
	struct buf out, err;	/* of the last run, terminated */
};

void fixture_init(struct fixture *f);
void fixture_release(struct fixture *f);
/* Run `bkclient WORDS... -s fd:N` against the fake server; the words end with
 * NULL.  The exit status. */
int run(struct fixture *f, const char *first, ...);
/* The same, and it must be this status. */
#define run_ok(f, ...) do { \
	int run_status = run((f), __VA_ARGS__, NULL); \
	ck_assert_msg(run_status == 0, "status %d: %s%s", run_status, \
	    (char *)(f)->out.data, (char *)(f)->err.data); \
} while (0)
#define run_is(f, status, ...) do { \
	int run_status = run((f), __VA_ARGS__, NULL); \
	ck_assert_msg(run_status == (status), "status %d, not %d: %s%s", \
	    run_status, (status), (char *)(f)->out.data, \
	    (char *)(f)->err.data); \
} while (0)

/* DIR/NAME in a static ring of buffers, for short expressions. */
const char *at(const char *dir, const char *name);
/* Make a file with this content, and its directories. */
void put_file(const char *path, const void *data, size_t size);
void put_text(const char *path, const char *text);
void make_dir(const char *path);
/* The same pseudo-random bytes for the same seed. */
void fill_random(uint8_t *out, size_t size, uint64_t seed);
bool is_there(const char *path);
bool has_text(const char *path, const char *text);
/* rm -rf */
void remove_tree(const char *path);
bool says(const struct buf *text, const char *what);

/*
 * Compare two trees: types, modes, owners, times, sizes, content, holes,
 * links, targets, devices, extended attributes, link groups.  Differences go
 * to `why` (terminated); the number of them.
 */
unsigned compare_trees(const char *a, const char *b, struct buf *why);

#endif
