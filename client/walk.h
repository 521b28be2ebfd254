/*
 * client/walk.h - the live file system, depth first, in byte order of names.
 *
 *      walk_roots_new --> walk_roots_add ... --> walk_roots_check
 *          --> walk_run --> walk_roots_free
 *
 * Several roots become one tree from "/": the directories above them come with
 * their own attributes and with nothing but what leads to a root.  Symbolic
 * links are followed above a root (that is the operator's own path), never
 * below.  Everything is reached by directory descriptors, so that paths may be
 * longer than PATH_MAX and a directory renamed meanwhile leads nowhere else.
 *
 * What is excluded is not opened.  A directory that is a mount point of another
 * file system with one_file_system, or of a pseudo file system (proc, sysfs),
 * is there and empty; a root is always entered.
 *
 * Errors: a file that vanishes or cannot be read is no error: it is counted,
 * and the latter also told to the sink.
 * Threads: walk_run() is one thread; walk_dir_hold/drop from any.
 */
#ifndef CLIENT_WALK_H
#define CLIENT_WALK_H

#include "base/err.h"
#include "base/warn.h"
#include "client/attr.h"
#include "client/match.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Directories that the walk itself keeps open; deeper, the shallowest are
 * closed and found again through "..". */
#define WALK_OPEN_MAX 48
/* Bytes of names kept in memory, over all directories on the way down. */
#define WALK_NAMES_MAX (8u << 20)

struct walk_roots;

MUST_CHECK int walk_roots_new(struct walk_roots **out, struct err *e);
void walk_roots_free(struct walk_roots *r);
/* A path as typed: relative ones are taken from the working directory; with a
 * slash at the end a symbolic link is followed. */
MUST_CHECK int walk_roots_add(struct walk_roots *r, const char *path,
    struct warn_sink *warn, struct err *e);
/* What was typed, absolute, without empty and "." components; malloc'd, NULL
 * without memory. */
char *walk_path_absolute(const char *path);
/* Every root is there and can be read, or the error names the first that is
 * not. */
MUST_CHECK int walk_roots_check(struct walk_roots *r, struct err *e);
/* The absolute paths, in order: NULL after the last. */
const char *walk_roots_path(const struct walk_roots *r, size_t i);

/* A directory descriptor that lives as long as somebody needs it. */
struct walk_dir {
	atomic_uint refs;
	int fd;
};
struct walk_dir *walk_dir_hold(struct walk_dir *d);
void walk_dir_drop(struct walk_dir *d);	/* NULL is fine */

struct walk_options {
	struct walk_roots *roots;
	struct match *exclude;	/* or NULL */
	bool exclude_caches, one_file_system;
	struct warn_sink *warn;
	int spill_dir;
	const atomic_bool *stop;	/* or NULL: ends with ERR_CANCELLED */
};

enum walk_kind { WALK_ENTER, WALK_LEAVE, WALK_ENTRY };

struct walk_item {
	enum walk_kind kind;
	struct walk_dir *dir;	/* ENTRY: that holds it; ENTER: itself, NULL
				 * when it could not be opened */
	const char *name;	/* terminated; "" for "/" */
	size_t name_size;
	struct attr attr;	/* not for LEAVE */
	const uint8_t *path;	/* absolute; "/" for the top */
	size_t path_size;
	bool unreadable;	/* ENTER: its content could not be listed */
	bool partial;		/* ENTER: only what leads to a root */
};

struct walk_counts {
	uint64_t vanished, unreadable, excluded;
};

/* A callback that returns -1 ends the walk with its error. */
typedef int (*walk_emit)(void *arg, const struct walk_item *item,
    struct err *e);

MUST_CHECK int walk_run(const struct walk_options *o, walk_emit emit,
    void *arg, struct walk_counts *counts, struct err *e);

#endif
