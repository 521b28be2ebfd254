/*
 * server/relay.c - a command finds the owner, or becomes it.
 *
 * Between "nobody listens" and "the lock is taken" there are moments: an owner
 * that has just begun or is about to end.  So both are tried in turn until
 * PATIENCE_MS have passed, and then the sentence is the last refusal.
 */
#include "server/relay.h"

#include "base/clock.h"
#include "base/io.h"
#include "server/control.h"
#include "server/owner.h"
#include "server/session.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_MS 10000
#define AGAIN_MS 100

/* Connect to the owner: 1 and *fd, 0 = nobody there, -1. */
static int find_owner(const char *dir, int *fd, struct err *e)
{
	struct state s;
	int rc;

	rc = state_open(&s, dir, e);
	if (rc == 0)
		rc = control_connect(&s, fd, e);
	else
		e->code = e->code == ERR_NOT_FOUND ? ERR_USAGE : e->code;
	state_release(&s);
	if (rc == 0)
		return 1;
	return e->code == ERR_NOT_FOUND ? 0 : -1;
}

/* May this refusal pass by itself? */
static bool passing(const struct err *e)
{
	return e->code == ERR_BUSY || e->code == ERR_UNAVAILABLE;
}

/* The signal was held back until all was closed; now it does what it does. */
static void die_by(int signal_number)
{
	sigset_t set;

	signal(signal_number, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, signal_number);
	raise(signal_number);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static int run_here(struct owner *o, struct cmd_call *call,
    struct cmd_io *io, struct err *e)
{
	struct err closing;
	int number;
	int rc = cmd_attach(call, e);

	if (rc == 0)
		rc = call->cmd->run(o, io, call, e);
	number = atomic_load(&o->signal);
	if (owner_close(o, &closing) != 0 && rc == 0) {
		*e = closing;
		rc = -1;
	}
	if (number)
		die_by(number);
	return rc;
}

/* 1 = done, 0 = try again (*e says why not yet), -1. */
static int try_once(struct cmd_call *call, int argc, char *const *argv,
    struct cmd_io *io, struct err *e)
{
	const struct owner_options opt = { .dir = call->globals.dir,
	    .cwd = call->cwd, .quiet = call->globals.quiet,
	    .read_only = (call->cmd->flags & CMD_READS) != 0 };
	struct owner *o;
	int fd, status, rc;

	rc = find_owner(call->globals.dir, &fd, e);
	if (rc < 0)
		return -1;
	if (rc > 0) {
		rc = cmd_attach(call, e);
		if (rc == 0)
			rc = control_run(fd, call, argc, argv, io, &status, e);
		io_close(&fd);
		if (rc == 0)
			out_status(io, status);
		return rc == 0 ? 1 : passing(e) ? 0 : -1;
	}
	if (owner_open(&o, &opt, e) != 0)
		return e->code == ERR_BUSY ? 0 : -1;
	return run_here(o, call, io, e) == 0 ? 1 : -1;
}

int relay_run(struct cmd_call *call, int argc, char *const *argv,
    struct cmd_io *io, struct err *e)
{
	uint64_t until = clock_mono_ms() + PATIENCE_MS;
	int rc;

	while ((rc = try_once(call, argc, argv, io, e)) == 0) {
		if (clock_mono_ms() >= until)
			return -1;
		(void)poll(NULL, 0, AGAIN_MS);
	}
	return rc > 0 ? 0 : -1;
}

/*
 * ---- a session without SSH ------------------------------------------------
 */

struct relay_session {
	struct owner *o;	/* NULL: another process owns the array */
	char *client;
	int fd;			/* the server's end */
	pthread_t thread;
	bool started;
};

static void *serve_main(void *arg)
{
	struct relay_session *r = arg;

	sessions_serve_fd(r->o->sessions, r->fd, r->client, true);
	return NULL;
}

static int serve_here(struct relay_session *r, int *fd, struct err *e)
{
	int ends[2];
	int rc;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
		return err_os(e, errno, "make a socket pair");
	r->fd = ends[0];
	rc = pthread_create(&r->thread, NULL, serve_main, r);
	if (rc != 0) {
		close(ends[0]);
		close(ends[1]);
		return err_os(e, rc, "start a thread");
	}
	r->started = true;
	*fd = ends[1];
	return 0;
}

static int begin_once(struct relay_session *r, const char *dir, int *fd,
    struct err *e)
{
	const struct owner_options opt = { .dir = dir };
	const struct owner_options only_read = { .dir = dir,
	    .read_only = true };
	int rc = find_owner(dir, fd, e);

	if (rc < 0)
		return -1;
	if (rc > 0) {
		if (control_session(*fd, r->client, true, e) == 0)
			return 1;
		io_close(fd);
		return passing(e) ? 0 : -1;
	}
	rc = owner_open(&r->o, &opt, e);
	if (rc != 0 && e->code == ERR_UNAVAILABLE)
		rc = owner_open(&r->o, &only_read, e);
	if (rc != 0)
		return e->code == ERR_BUSY ? 0 : -1;
	return serve_here(r, fd, e) == 0 ? 1 : -1;
}

int relay_session_begin(struct relay_session **out, const char *dir,
    const char *client, int *fd, struct err *e)
{
	uint64_t until = clock_mono_ms() + PATIENCE_MS;
	struct relay_session *r = calloc(1, sizeof(*r));
	struct err ignored;
	int rc = 0;

	if (!r)
		return err_set(e, ERR_NO_MEMORY, "no memory for a session");
	r->client = strdup(client);
	if (!r->client)
		rc = err_set(e, ERR_NO_MEMORY, "no memory for a session");
	while (rc == 0) {
		rc = begin_once(r, dir, fd, e);
		if (rc == 0 && clock_mono_ms() >= until)
			rc = -1;
		if (rc == 0)
			(void)poll(NULL, 0, AGAIN_MS);
	}
	if (rc > 0) {
		*out = r;
		return 0;
	}
	(void)relay_session_end(r, &ignored);
	return -1;
}

int relay_session_end(struct relay_session *r, struct err *e)
{
	int number = 0, rc = 0;

	if (r->started)
		pthread_join(r->thread, NULL);
	if (r->o) {
		number = atomic_load(&r->o->signal);
		rc = owner_close(r->o, e);
	}
	free(r->client);
	free(r);
	if (number)
		die_by(number);
	return rc;
}
