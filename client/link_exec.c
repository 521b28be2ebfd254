/* client/link_exec.c - the server behind a program's stdin and stdout. */
#include "client/link.h"

#include "base/clock.h"
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define REAP_MS 5000

/* The child starts with no signal blocked and SIGPIPE as usual. */
static int spawn(const char *command, int child_in, int child_out, int *pid)
{
	static const char sh[] = "/bin/sh";
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)command, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, usual;
	int rc;

	sigemptyset(&none);
	sigemptyset(&usual);
	sigaddset(&usual, SIGPIPE);
	posix_spawn_file_actions_init(&files);
	posix_spawnattr_init(&attr);
	posix_spawn_file_actions_adddup2(&files, child_in, STDIN_FILENO);
	posix_spawn_file_actions_adddup2(&files, child_out, STDOUT_FILENO);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &usual);
	posix_spawnattr_setflags(&attr,
	    POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	rc = posix_spawn(pid, sh, &files, &attr, argv, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attr);
	return rc;
}

int link_exec(const char *command, int *in, int *out, int *pid,
    struct err *e)
{
	int up[2] = { -1, -1 }, down[2] = { -1, -1 };
	int rc;

	if (pipe2(up, O_CLOEXEC) != 0 || pipe2(down, O_CLOEXEC) != 0) {
		err_os(e, errno, "pipe for %.200s", command);
		rc = -1;
	} else {
		rc = spawn(command, up[0], down[1], pid);
		if (rc != 0)
			rc = err_os(e, rc, "start %.200s", command);
	}
	io_close(&up[0]);
	io_close(&down[1]);
	if (rc != 0) {
		io_close(&up[1]);
		io_close(&down[0]);
		*pid = 0;
		return -1;
	}
	*in = down[0];
	*out = up[1];
	return 0;
}

void link_reap(int pid)
{
	const struct timespec nap = { .tv_nsec = 5000000 };
	uint64_t end = clock_mono_ms() + REAP_MS;
	int signals[] = { 0, SIGTERM, SIGKILL };

	if (pid <= 0)
		return;
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		if (signals[i] != 0)
			kill(pid, signals[i]);
		do {
			if (waitpid(pid, NULL, WNOHANG) != 0)
				return;
			nanosleep(&nap, NULL);
		} while (clock_mono_ms() < end);
		end = clock_mono_ms() + 500;
	}
}
