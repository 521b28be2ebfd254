/*
 * server/state.h - the state directory: hints, nothing that cannot be lost.
 *
 *   config     "key = value" lines written by people (and a first time by
 *              init and recover); rows in state.c, shown by docs/man
 *   members    where the members were last seen, kept by the owner: lines of
 *              "UUID PATH" or PATH; a '-' in front: not waited for (failed)
 *   index/     the LMDB index, unless the config names another place
 *   control    the owner's socket
 *
 * The directory itself is flock'ed by the owner.  All of it can be made again
 * from the members (`bkserver recover`).
 *
 * Threads: a state belongs to its owner; config is replaced only by the thread
 * that reloads, under owner->config_lock.
 */
#ifndef SERVER_STATE_H
#define SERVER_STATE_H

#include "base/err.h"
#include "base/opt.h"
#include "raid/array.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STATE_DIR_DEFAULT "/var/lib/bkserver"
#define STATE_UUID_TEXT (2 * RAID_UUID_SIZE + 1)
#define STATE_CONFIG_MAX (64u << 10)	/* bytes of a config file */

struct config {
	bool none;
	const char *listen;		/* "ADDR:PORT" */
	struct opt_list members;	/* besides those of `members` */
	const char *index;		/* directory; NULL = "index" in ours */
	uint64_t wait_members_s;	/* for members that are late; 30 */
	uint64_t sessions_max;		/* at once; 24 */
	uint64_t sessions_client_max;	/* of one client at once; 8 */
	uint64_t unauthenticated_max;	/* at once; 16 */
	uint64_t session_idle_s;	/* without a message; 3600 */
	uint64_t flush_s;		/* group flush at least so often; 15 */
	char *text;			/* owned; the others point into it */
};

struct path_list {
	char *paths[RAID_MEMBERS_MAX];	/* owned */
	bool wait[RAID_MEMBERS_MAX];	/* worth waiting for */
	char uuid[RAID_MEMBERS_MAX][STATE_UUID_TEXT];	/* "" = not known */
	size_t count;
};

struct state {
	char *dir;		/* absolute path, owned */
	int fd;			/* the directory */
	struct config config;
	struct path_list members;
};

/* An existing one; ERR_NOT_FOUND says what to do. */
MUST_CHECK int state_open(struct state *s, const char *dir, struct err *e);
/*
 * Make one (mode 0700).  ERR_EXISTS when it already has a `members` file.
 * `index` may be NULL; `paths` are the members.
 */
MUST_CHECK int state_create(struct state *s, const char *dir,
    const char *index, const struct path_list *paths, struct err *e);
void state_release(struct state *s);

/* Become the only owner of the directory until release; ERR_BUSY. */
MUST_CHECK int state_lock(struct state *s, struct err *e);
/* Read the config again. */
MUST_CHECK int state_config_load(struct state *s, struct config *out,
    struct err *e);
void config_release(struct config *c);
/* Write `members` if it changed. */
MUST_CHECK int state_members_save(struct state *s,
    const struct path_list *paths, struct err *e);
/* The index directory, absolute, malloc'd. */
char *state_index_dir(const struct state *s, struct err *e);

/* `path` as one text: below `cwd` (or NULL) unless absolute, without "//" and
 * "/./".  malloc'd; NULL (ERR_NO_MEMORY). */
char *path_absolute(const char *cwd, const char *path, struct err *e);

/* ERR_LIMIT beyond RAID_MEMBERS_MAX; a path that is there already is not added
 * again.  Relative paths are taken from `cwd`. */
MUST_CHECK int path_list_add(struct path_list *l, const char *cwd,
    const char *path, bool wait, struct err *e);
/* The path that this UUID had, or the UUID of this path; NULL. */
const char *path_list_path(const struct path_list *l, const char *uuid);
const char *path_list_uuid(const struct path_list *l, const char *path);
void path_list_release(struct path_list *l);

#endif
