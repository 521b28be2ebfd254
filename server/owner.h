/*
 * server/owner.h - the one process that holds the array.
 *
 *      owner_open --> commands, sessions, jobs --> owner_close
 *
 * `bkserver serve` is the usual owner.  Any other command that finds none
 * becomes the owner for as long as it takes; such a one gives way when `serve`
 * asks (control.h), and then ends within 10 s.
 *
 * What is true:
 *   O1  Whoever holds the lock of the state directory and the locks of the
 *       members is the owner; nobody else opens them.
 *   O2  The control socket exists while the owner does.  Before the array is
 *       open, callers wait in its backlog.
 *   O3  owner_stop() is heard by every loop within 300 ms.
 *
 * Threads: fields are constant after owner_open() unless said otherwise.
 */
#ifndef SERVER_OWNER_H
#define SERVER_OWNER_H

#include "base/err.h"
#include "base/warn.h"
#include "server/state.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct array;
struct control;
struct jobs;
struct sessions;
struct store;

struct owner {
	struct state state;
	pthread_mutex_t config_lock;	/* guards state.config, members */
	struct array *array;
	struct store *store;
	struct jobs *jobs;
	struct sessions *sessions;
	struct control *control;
	bool read_only, serving, quiet;
	struct warn_sink warn;		/* to the log, or our own stderr */
	atomic_bool stop;
	atomic_int signal;		/* that made us stop, or 0 */
	int stop_fd;			/* eventfd, readable once stopping */
	atomic_llong rewrite_after_s;	/* mending: not again before */
};

struct owner_options {
	const char *dir;		/* state directory */
	const struct opt_list *members;	/* more member paths, or NULL */
	const char *cwd;		/* for relative ones */
	bool read_only, serving;
	bool quiet;			/* no warnings on stderr */
	/* Even if all paths can be opened, some members may not be among
	 * them. */
	bool look_first;
};

/*
 * Lock, open, wait for late members, put the array and the store together.
 * Blocks SIGINT, SIGTERM and SIGHUP for the process; they end in
 * owner_stop() (SIGHUP only in `serve`).
 *
 * ERR_BUSY: another process holds the state directory or a member.
 * ERR_UNAVAILABLE: more members are away than the parity (not when read-only).
 */
MUST_CHECK int owner_open(struct owner **out, const struct owner_options *o,
    struct err *e);
/* Tells sessions and jobs to end, waits for them (jobs of a one-shot owner that
 * was not stopped run to their end), flushes and closes.  Frees. */
int owner_close(struct owner *o, struct err *e);

/* Ask everything to end.  `signal` is 0 when another process asked. */
void owner_stop(struct owner *o, int signal);
bool owner_stopping(const struct owner *o);

/* Read the config again (limits; the log says what needs a restart). */
void owner_reload(struct owner *o);

/*
 * Look which members are there.  ERR_UNAVAILABLE, with a sentence that counts
 * them, while more are away than the parity: then nothing is written.
 */
MUST_CHECK int owner_may_write(struct owner *o, struct err *e);

/* Remember where the members were found; called after they changed. */
void owner_save_members(struct owner *o);

/* One member opened for the array's use.  `path` absolute. */
MUST_CHECK int owner_dev_open(struct dev **out, const char *path, void *arg,
    struct err *e);

#endif
