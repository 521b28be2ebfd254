/*
 * client/open_snap.h - what the commands that read a snapshot begin with.
 *
 *      open_snap --> ... --> close_snap
 *
 * Threads: the main thread.
 */
#ifndef CLIENT_OPEN_SNAP_H
#define CLIENT_OPEN_SNAP_H

#include "base/err.h"
#include "client/fetch.h"
#include "client/snap.h"

struct client;

struct open_snap {
	struct fetch *fetch;
	struct snapshot_record record;
	struct snap_entry at;	/* what PATH names; "/" without PATH */
	char *path;		/* owned: absolute, without a slash at the end
				 * unless it is "/" */
	char *above;		/* owned: the directory that holds it */
};

/* Connect, resolve "SNAP[:PATH]", find the path.  On failure nothing is to be
 * closed. */
MUST_CHECK int open_snap(struct open_snap *s, struct client *c,
    const char *text, const struct snap_filter *filter, struct err *e);
void close_snap(struct open_snap *s);

#endif
