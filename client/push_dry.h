/*
 * client/push_dry.h - what a push would take, without a server.
 *
 * Threads: the main thread.
 */
#ifndef CLIENT_PUSH_DRY_H
#define CLIENT_PUSH_DRY_H

#include "client/push.h"

/* Walk as push_run() would and count; with -v name each file. */
MUST_CHECK int push_dry_run(struct client *c, const struct push_options *o,
    struct push_result *result, struct err *e);
/* The patterns of a push, in the order in which the last decides. */
struct match;
MUST_CHECK int push_patterns(struct match **out,
    const struct push_options *o, struct err *e);

#endif
