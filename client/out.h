/*
 * client/out.h - what goes to standard output: lines and JSON lines.
 *
 * Human output escapes control bytes and bytes that are not UTF-8
 * (base/str.h).  JSON: one object a line, "v":1 in each; a path is the field
 * NAME, escaped in the same way, and NAME_b64, its exact bytes in base64, when
 * the two differ.
 *
 * Threads: the main thread.
 */
#ifndef CLIENT_OUT_H
#define CLIENT_OUT_H

#include "base/err.h"

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

/* Print the bytes escaped, no newline. */
void out_name(const void *name, size_t size);
/* An object with "v":1 and "type". */
json_t *out_object(const char *type);
/* Add the path fields. */
void out_path(json_t *object, const char *field, const void *path,
    size_t size);
/* Print the object as one line and release it. */
void out_line(json_t *object);
/* Base64 into a malloc'd terminated text; NULL on lack of memory. */
char *out_base64(const void *data, size_t size);
/* Flush; ERR_IO when the output could not be written.  A reader that went
 * away (EPIPE) is told by *gone and is no error. */
MUST_CHECK int out_flush(int *gone, struct err *e);

#endif
