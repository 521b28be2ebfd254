/*
 * client/main.c - bkclient: signals around client_run().
 *
 * Signals that end the program are blocked in all threads and taken by one,
 * which breaks off the connection and lets the command clean up.  A command
 * that has not ended 4 s later is stuck in the kernel (a dead file server),
 * and the program ends without it.
 */
#include "client/client.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define GRACE_S 4

struct watch {
	struct client *client;
	sigset_t signals;
	volatile sig_atomic_t got;
};

static void *watch_signals(void *arg)
{
	struct watch *w = arg;
	const struct timespec grace = { .tv_sec = GRACE_S };
	int number;

	if (sigwait(&w->signals, &number) != 0)
		return NULL;
	w->got = number;
	client_stop(w->client);
	nanosleep(&grace, NULL);
	_exit(128 + number);
}

static void end_by(int number)
{
	sigset_t all;

	signal(number, SIG_DFL);
	sigfillset(&all);
	sigprocmask(SIG_UNBLOCK, &all, NULL);
	raise(number);
}

/* Deep trees are compared with a directory open on each level. */
static void more_files(void)
{
	struct rlimit files;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max;
		(void)setrlimit(RLIMIT_NOFILE, &files);
	}
}

int main(int argc, char **argv)
{
	const struct rlimit none = { 0, 0 };
	struct client c;
	struct watch w = { .client = &c };
	pthread_t thread;
	int status;

	(void)setrlimit(RLIMIT_CORE, &none);	/* memory may hold a key */
	more_files();
	signal(SIGPIPE, SIG_IGN);
	sigemptyset(&w.signals);
	sigaddset(&w.signals, SIGINT);
	sigaddset(&w.signals, SIGTERM);
	sigaddset(&w.signals, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &w.signals, NULL);
	client_prepare(&c);
	if (pthread_create(&thread, NULL, watch_signals, &w) != 0) {
		fprintf(stderr, "bkclient: no thread for signals\n");
		return 2;
	}
	status = client_run(&c, argc, argv);
	client_release(&c);
	if (w.got != 0)
		end_by(w.got);
	return status;
}
