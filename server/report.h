/*
 * server/report.h - the state of the array, in words and in JSON; what `status`
 * and `array status` have in common.
 */
#ifndef SERVER_REPORT_H
#define SERVER_REPORT_H

#include "raid/array.h"

#include <stdbool.h>

struct cmd_io;
struct owner;

/* "read-only", "degraded", "reduced" or "ok". */
const char *report_state(struct owner *o, const struct array_info *i);
/* {"v":1,"type":"array",...} on a line, or a few lines for people. */
void report_array(struct owner *o, struct cmd_io *io, bool json);

#endif
