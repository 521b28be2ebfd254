/*
 * bkserver restore - at the server itself, without SSH and without a key.
 *
 * The files are written by bkclient, which is started with one end of a socket
 * as its server; at the other end is a session, of the owner or of ours.  So
 * there is one restore in the project, and this is it.
 */
#include "base/io.h"
#include "server/cmd.h"
#include "server/relay.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_FD 3		/* the session's socket, in bkclient */

extern char **environ;

struct restore_values {
	bool none;
	const char *to, *overwrite;
};

static const struct opt_row rows[] = {
	{ "to", 0, OPT_TEXT, OPT_AT(struct restore_values, to), "DIR",
	    "where the files go (required)", NULL },
	{ "overwrite", 0, OPT_TEXT, OPT_AT(struct restore_values, overwrite),
	    "never|changed|older|always",
	    "what becomes of files that are there (default never)", NULL },
	{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
};

/* bkclient beside our own program, else wherever PATH has it. */
static void client_program(char *out, size_t size)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
	char *slash;

	snprintf(out, size, "bkclient");
	if (n <= 0)
		return;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return;
	*slash = '\0';
	if (snprintf(out, size, "%s/bkclient", self) >= (int)size ||
	    access(out, X_OK) != 0)
		snprintf(out, size, "bkclient");
}

/* The child gets default signals, the socket as CHILD_FD, and nothing else. */
static int spawn(char *const *argv, int fd, pid_t *pid, struct err *e)
{
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	char program[PATH_MAX];
	sigset_t none, all;
	int rc;

	client_program(program, sizeof(program));
	sigemptyset(&none);
	sigemptyset(&all);
	sigaddset(&all, SIGPIPE);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, fd, CHILD_FD);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK |
	    POSIX_SPAWN_SETSIGDEF);
	rc = posix_spawnp(pid, program, &files, &attr, argv, environ);
	posix_spawnattr_destroy(&attr);
	posix_spawn_file_actions_destroy(&files);
	if (rc != 0)
		return err_os(e, rc, "start %s", program);
	return 0;
}

static int wait_for(pid_t pid, struct cmd_io *io, struct err *e)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return err_os(e, errno, "wait for bkclient");
	if (WIFSIGNALED(status))
		return err_set(e, ERR_CANCELLED, "bkclient was ended by "
		    "signal %d", WTERMSIG(status));
	/* Wrong usage of bkclient's is ours, but for a status of its own. */
	out_status(io, WEXITSTATUS(status));
	return 0;
}

static int run_client(const struct cmd_call *call, int fd,
    struct cmd_io *io, struct err *e)
{
	const struct restore_values *v = call->values;
	char server[16];
	char *argv[16];
	size_t n = 0;
	pid_t pid;

	snprintf(server, sizeof(server), "fd:%d", CHILD_FD);
	argv[n++] = (char *)(uintptr_t)"bkclient";
	argv[n++] = (char *)(uintptr_t)"restore";
	argv[n++] = (char *)(uintptr_t)"-s";
	argv[n++] = server;
	argv[n++] = (char *)(uintptr_t)"--to";
	argv[n++] = (char *)(uintptr_t)v->to;
	if (v->overwrite) {
		argv[n++] = (char *)(uintptr_t)"--overwrite";
		argv[n++] = (char *)(uintptr_t)v->overwrite;
	}
	if (call->globals.quiet)
		argv[n++] = (char *)(uintptr_t)"-q";
	if (call->globals.verbose)
		argv[n++] = (char *)(uintptr_t)"-v";
	argv[n++] = (char *)(uintptr_t)"--";
	argv[n++] = call->words[1];
	argv[n] = NULL;
	if (spawn(argv, fd, &pid, e) != 0)
		return -1;
	return wait_for(pid, io, e);
}

static int restore_run(struct owner *none, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	const struct restore_values *v = call->values;
	struct relay_session *r;
	struct err closing;
	int fd, rc;

	(void)none;
	if (!v->to)
		return err_set(e, ERR_USAGE, "restore needs --to DIR");
	if (relay_session_begin(&r, call->globals.dir, call->words[0], &fd,
	    e) != 0)
		return -1;
	rc = run_client(call, fd, io, e);
	io_close(&fd);
	if (relay_session_end(r, &closing) != 0 && rc == 0) {
		*e = closing;
		rc = -1;
	}
	return rc;
}

const struct cmd cmd_restore = {
	.name = "restore",
	.synopsis = "CLIENT SNAP[:PATH] --to DIR [--overwrite WHEN]",
	.summary = "restore a client's files here, without SSH",
	.args_min = 2,
	.args_max = 2,
	.flags = CMD_LOCAL,
	.rows = rows,
	.values_size = sizeof(struct restore_values),
	.run = restore_run,
};
