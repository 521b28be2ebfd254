/*
 * client/walk_int.h - inside the walk: roots as a tree, names of a directory.
 */
#ifndef CLIENT_WALK_INT_H
#define CLIENT_WALK_INT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct walk_roots;

/* A component of a root's path. */
struct walk_node {
	char *name;		/* owned; "" for "/" */
	bool root;		/* a root ends here */
	bool follow;		/* it may be a symbolic link */
	struct walk_node *child;	/* in byte order of names */
	struct walk_node *next;
};

struct walk_node *walk_roots_top(struct walk_roots *r);
/* The child of that name, or NULL. */
struct walk_node *walk_node_find(const struct walk_node *n,
    const char *name);

/*
 * The names of one directory, sorted, with the kernel's type of each
 * (DT_UNKNOWN when it does not say).
 */
struct walk_names;

/* Read all names from an open directory.  *budget is what may still be kept in
 * memory; what is used is taken off it and given back by walk_names_free(). */
MUST_CHECK int walk_names_read(struct walk_names **out, int fd,
    size_t *budget, int spill_dir, struct err *e);
void walk_names_free(struct walk_names *n);
/* 1 and the next name (valid until the next call), 0 at the end, -1. */
MUST_CHECK int walk_names_next(struct walk_names *n, const char **name,
    size_t *size, unsigned char *type, struct err *e);

#endif
