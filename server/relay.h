/*
 * server/relay.h - run a command at the owner of the array, or become it.
 *
 * Threads: called once, by main().
 */
#ifndef SERVER_RELAY_H
#define SERVER_RELAY_H

#include "server/cmd.h"

/*
 * The owner, if there is one, runs `argv` (the words as they were given);
 * otherwise the array is opened here and call->cmd run.  0 (exit status in
 * io->status) or -1, as call->cmd->run().  Ends the process by the signal that
 * stopped it, once all is closed.
 */
MUST_CHECK int relay_run(struct cmd_call *call, int argc, char *const *argv,
    struct cmd_io *io, struct err *e);

/*
 * A connected socket that is a session of `client`: of the owner, or of this
 * process, which then holds the array until relay_session_end().
 */
struct relay_session;
MUST_CHECK int relay_session_begin(struct relay_session **out,
    const char *dir, const char *client, int *fd, struct err *e);
int relay_session_end(struct relay_session *r, struct err *e);

#endif
