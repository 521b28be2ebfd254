/*
 * client/config.h - the configuration file: ~/.config/bkclient/config, for
 * root /etc/bkclient/config; $XDG_CONFIG_HOME and $XDG_CACHE_HOME are heard.
 *
 * Threads: the main thread.
 */
#ifndef CLIENT_CONFIG_H
#define CLIENT_CONFIG_H

#include "base/err.h"
#include "base/opt.h"

struct client;

#define CONFIG_ROWS 8

/* The rows of the file, which fill `c`; CONFIG_ROWS of them, the last without
 * a name. */
void config_rows(struct client *c, struct opt_row *rows);
/* After the command line was parsed: find the directories, read the file, the
 * environment and what `init` made.  A file that is not there is fine unless
 * it was named. */
MUST_CHECK int config_load(struct client *c, struct err *e);

#endif
