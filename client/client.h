/*
 * client/client.h - what every command of bkclient has at hand.
 *
 * main() fills it from the configuration file, the environment and the common
 * options, then runs one command.  Nothing else in client/ is global.
 *
 * Threads: `stop` may be read by any thread; the rest belongs to the main
 * thread, but for the sink and the progress line, which lock themselves.
 */
#ifndef CLIENT_CLIENT_H
#define CLIENT_CLIENT_H

#include "base/err.h"
#include "base/opt.h"
#include "base/progress.h"
#include "base/warn.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct link;

#define BKCLIENT_VERSION "0.1"

struct client {
	/* common options; the text is argv's, the environment's or the
	 * configuration's, which all outlive the command */
	const char *server;	/* "ssh://...", "exec:...", "fd:N" */
	const char *name;	/* of this client at the server */
	const char *key;	/* private key file */
	const char *known_hosts;
	const char *config_file;
	bool quiet, verbose, help, version;
	uint64_t rate_max;	/* bytes/s sent, 0 = no limit */
	bool server_given, name_given, key_given, known_hosts_given,
	    rate_given;		/* on the command line */
	/* from the configuration only */
	struct opt_list paths, excludes;

	char *config_dir;	/* owned */
	char *cache_dir;	/* owned */
	char *config_text;	/* owned; the options point into it */
	char *key_default, *hosts_default;	/* owned */

	bool tried;		/* client_connect() was called */
	struct link *link;	/* set by client_connect() */
	pthread_mutex_t link_lock;	/* guards: link, against the signal */
	atomic_bool stop;	/* a signal asked us to end */
	struct warn_sink warn;	/* what becomes exit status 1 */
	struct progress progress;
};

/*
 * One run of bkclient with these words (argv[0] is the program's name), as
 * main() does it but for signals; the exit status.  client_run.c.
 */
int client_run(struct client *c, int argc, char **argv);
void client_prepare(struct client *c);
void client_release(struct client *c);
/* From the signal thread: everything is to end.  Wakes blocked calls. */
void client_stop(struct client *c);

/* Connect and say hello, unless that is done.  ERR_USAGE when no server is
 * known; the errors of link_open(). */
MUST_CHECK int client_connect(struct client *c, struct err *e);
/* A line on stderr that is no warning, unless -q; the progress line is
 * removed before. */
void client_note(struct client *c, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
