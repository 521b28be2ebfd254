/*
 * client/match.h - patterns that choose paths, as in gitignore.
 *
 *   *.o          no slash: the name, at any depth
 *   d/           only a directory (and so everything below)
 *   /home/u/tmp  leading slash: the whole path from "/"
 *   ./cache      leading "./": the path below each pushed root
 *   a/b          a slash inside: these components, at any depth
 *   a/ ** /b     "**" (without the blanks) stands for any directories
 *   !keep.o      brings back what an earlier pattern took; the last wins
 *   \x           the byte x itself;  [a-z], [!a-z], ? and * never match "/"
 *
 * Paths are bytes; no locale is asked.  What is excluded is never opened, so
 * nothing below an excluded directory can be brought back.
 *
 * Threads: match_path() changes only the counters of hits: one thread.
 */
#ifndef CLIENT_MATCH_H
#define CLIENT_MATCH_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct match;

enum match_result { MATCH_NONE, MATCH_YES, MATCH_BACK };

MUST_CHECK int match_new(struct match **out, struct err *e);
void match_free(struct match *m);
/* `source` is for match_unused(): NULL = not worth telling.  ERR_USAGE. */
MUST_CHECK int match_add(struct match *m, const char *pattern,
    const char *source, struct err *e);
/* One pattern a line; '#' comments, blank lines; trailing blanks belong to
 * the pattern.  ERR_NOT_FOUND, ERR_IO, ERR_USAGE. */
MUST_CHECK int match_add_file(struct match *m, const char *file,
    struct err *e);
bool match_empty(const struct match *m);
/*
 * `path` is absolute, without a slash at the end; `root` bytes of it are the
 * pushed root (0 = "/").  The last pattern that matches decides.
 */
enum match_result match_path(struct match *m, const void *path, size_t size,
    size_t root, bool is_dir);
/* True if something below this directory could match (for --include). */
bool match_below(const struct match *m, const void *path, size_t size);
/* The patterns that never matched: *pos from 0; NULL at the end. */
const char *match_unused(const struct match *m, size_t *pos);

/* One component against one glob; both are bytes. */
bool match_glob(const char *glob, size_t glob_size, const uint8_t *name,
    size_t size);

#endif
