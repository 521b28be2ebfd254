/*
 * store/session.h - what the other files of the store ask of sessions.
 */
#ifndef STORE_SESSION_H
#define STORE_SESSION_H

#include "base/err.h"
#include "raid/place.h"

#include <stdbool.h>
#include <stdint.h>

struct store;
struct store_session;

/* The session may go on pushing; -1 with the reason why not.  Cut lock
 * held. */
MUST_CHECK int session_pushing(struct store_session *ss, struct err *e);
/* The segment stays while this session may rely on it.  Cut lock held. */
MUST_CHECK int session_pin(struct store_session *ss,
    const struct place *p, struct err *e);
/* Is the segment pinned by a session, live or lingering?  Cut lock held. */
bool segment_pinned(const struct store *s, uint64_t segment);
/* Drop what lingers of this client, or (NULL) what lingers too long.  Cut lock
 * held. */
void lingers_drop(struct store *s, const char *client);

#endif
