/*
 * server/out.h - where a command's words go: our own stdout and stderr, or
 * those of a caller at the other end of the control socket.
 *
 * Threads: an io belongs to the one thread that runs the command.
 */
#ifndef SERVER_OUT_H
#define SERVER_OUT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct json_t;

enum out_to { TO_OUT = 1, TO_ERR = 2 };

struct cmd_io {
	/* 0, or -1 when nobody reads any more. */
	int (*write)(void *arg, enum out_to to, const void *data, size_t size);
	void *arg;
	int status;		/* exit status so far: 0, 1 or 2 */
	bool broken;		/* a write failed: stop soon, quietly */
};

/* To our own stdout and stderr. */
void out_init_own(struct cmd_io *io);

void out_write(struct cmd_io *io, enum out_to to, const void *data,
    size_t size);
void out_text(struct cmd_io *io, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* "bkserver: " before it and a newline after it, on stderr. */
void out_warn(struct cmd_io *io, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Raise the exit status to at least `status`. */
void out_status(struct cmd_io *io, int status);
/* One JSON object on a line; takes the reference (NULL: out of memory). */
void out_json(struct cmd_io *io, struct json_t *object);

/*
 * object[key] = name.  A name that is not UTF-8 is given escaped, and its exact
 * bytes in hex under "<key>_hex".
 */
void json_name(struct json_t *object, const char *key, const void *name,
    size_t size);
/* object[key] = RFC 3339 time, or null when `seconds` is 0. */
void json_time(struct json_t *object, const char *key, int64_t seconds);
void json_u64(struct json_t *object, const char *key, uint64_t value);
/* {"v":1,"type":type}; NULL when out of memory. */
struct json_t *json_line(const char *type);

/* "3 h ago", "never" (0), "just now". */
#define OUT_AGE_SIZE 32
void out_age(char out[static OUT_AGE_SIZE], int64_t seconds);

#endif
