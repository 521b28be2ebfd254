/*
 * client/walk_roots.c - the paths to push, as a tree of their components.
 *
 * A root's path is kept as it was typed, made absolute: what was pushed as
 * /cur/data is restored as SNAP:/cur/data, also where /cur is a symbolic link.
 * ".." cannot be resolved by text alone, so a path with it goes through
 * realpath().
 */
#include "client/walk.h"
#include "client/walk_int.h"

#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct walk_roots {
	struct walk_node top;
	char **paths;		/* owned, absolute */
	size_t count;
};

int walk_roots_new(struct walk_roots **out, struct err *e)
{
	struct walk_roots *r = calloc(1, sizeof(*r));

	if (r)
		r->top.name = strdup("");
	if (!r || !r->top.name) {
		free(r);
		return err_set(e, ERR_NO_MEMORY, "no memory for the roots");
	}
	*out = r;
	return 0;
}

/* Children are freed by going down to the first leaf again and again: the
 * depth of a path is not bounded by our stack. */
static void node_release(struct walk_node *top)
{
	while (top->child) {
		struct walk_node *parent = top, *n;

		while (parent->child->child)
			parent = parent->child;
		n = parent->child;
		parent->child = n->next;
		free(n->name);
		free(n);
	}
}

void walk_roots_free(struct walk_roots *r)
{
	if (!r)
		return;
	node_release(&r->top);
	free(r->top.name);
	for (size_t i = 0; i < r->count; i++)
		free(r->paths[i]);
	free(r->paths);
	free(r);
}

struct walk_node *walk_roots_top(struct walk_roots *r)
{
	return &r->top;
}

struct walk_node *walk_node_find(const struct walk_node *n, const char *name)
{
	struct walk_node *c;

	for (c = n ? n->child : NULL; c; c = c->next)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

static struct walk_node *node_add(struct walk_node *n, const char *name,
    size_t size)
{
	struct walk_node **at = &n->child, *c;

	while (*at && (strncmp((*at)->name, name, size) < 0 ||
	    (strncmp((*at)->name, name, size) == 0 &&
	    strlen((*at)->name) < size)))
		at = &(*at)->next;
	if (*at && strlen((*at)->name) == size &&
	    memcmp((*at)->name, name, size) == 0)
		return *at;
	c = calloc(1, sizeof(*c));
	if (c)
		c->name = strndup(name, size);
	if (!c || !c->name) {
		free(c);
		return NULL;
	}
	c->next = *at;
	*at = c;
	return c;
}

static bool has_dotdot(const char *path)
{
	for (const char *at = path; (at = strstr(at, "..")); at += 2)
		if ((at == path || at[-1] == '/') &&
		    (at[2] == '/' || at[2] == '\0'))
			return true;
	return false;
}

char *walk_path_absolute(const char *path)
{
	char *cwd = path[0] == '/' ? strdup("") : getcwd(NULL, 0);
	char *full, *to;
	size_t size;

	if (!cwd)
		return NULL;
	size = strlen(cwd) + strlen(path) + 3;
	full = malloc(size);
	if (full) {
		to = full;
		for (const char *from = cwd; from; from = from == cwd ?
		    path : NULL) {
			const char *at = from;

			while (*(at += strspn(at, "/")) != '\0') {
				size_t part = strcspn(at, "/");

				if (part != 1 || *at != '.') {
					*to++ = '/';
					memcpy(to, at, part);
					to += part;
				}
				at += part;
			}
		}
		if (to == full)
			*to++ = '/';
		*to = '\0';
	}
	free(cwd);
	return full;
}

static int add_path(struct walk_roots *r, char *path, bool follow,
    struct err *e)
{
	struct walk_node *n = &r->top;
	const char *at = path;
	char **more;

	while (n && *(at += strspn(at, "/")) != '\0') {
		size_t size = strcspn(at, "/");

		n = node_add(n, at, size);
		at += size;
	}
	more = realloc(r->paths, (r->count + 1) * sizeof(*more));
	if (more)
		r->paths = more;
	if (!n || !more) {
		free(path);
		return err_set(e, ERR_NO_MEMORY, "no memory for the roots");
	}
	if (n->root) {			/* given twice */
		n->follow |= follow;
		free(path);
		return 0;
	}
	n->root = true;
	n->follow = follow;
	r->paths[r->count++] = path;
	return 0;
}

int walk_roots_add(struct walk_roots *r, const char *path,
    struct warn_sink *warn, struct err *e)
{
	size_t size = strlen(path);
	bool follow = size > 0 && path[size - 1] == '/';
	struct stat s;
	char *full;

	if (size == 0)
		return err_set(e, ERR_USAGE, "a path is empty");
	if (size > 1 && strcmp(path + size - 2, "/.") == 0)
		follow = true;
	full = has_dotdot(path) ? realpath(path, NULL) :
	    walk_path_absolute(path);
	if (!full)
		return err_os(e, errno, "%.300s", path);
	if (!follow && lstat(full, &s) == 0 && S_ISLNK(s.st_mode))
		warn_add(warn, full, strlen(full), "is a symbolic link and "
		    "is stored as one; write a slash behind it to follow it");
	return add_path(r, full, follow, e);
}

int walk_roots_check(struct walk_roots *r, struct err *e)
{
	for (size_t i = 0; i < r->count; i++) {
		const char *path = r->paths[i];
		struct stat s;
		int fd;

		if (lstat(path, &s) != 0)
			return err_os(e, errno, "%.300s", path);
		if (S_ISLNK(s.st_mode) && stat(path, &s) != 0)
			continue;	/* a dangling link is stored as it is */
		if (!S_ISREG(s.st_mode) && !S_ISDIR(s.st_mode))
			continue;
		fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
		if (fd < 0)
			return err_os(e, errno, "%.300s", path);
		io_close(&fd);
	}
	return 0;
}

const char *walk_roots_path(const struct walk_roots *r, size_t i)
{
	return i < r->count ? r->paths[i] : NULL;
}
