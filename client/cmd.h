/*
 * client/cmd.h - one row per command; main(), --help, the completions and the
 * test of the manual page read the rows.
 *
 * Each row is defined in client/cmd_<name>.c.  The options of a command live
 * in a struct of its own, which main() allocates zeroed.
 */
#ifndef CLIENT_CMD_H
#define CLIENT_CMD_H

#include "base/err.h"
#include "base/opt.h"

#include <stddef.h>

struct client;

#define CMD_ROWS_MAX 32

struct cmd {
	const char *name;
	const char *synopsis;	/* after the name, as in the manual page */
	const char *summary;	/* one line, no full stop */
	int args_min, args_max;	/* words; -1 = any number */
	size_t opts_size;
	/* Fill rows[CMD_ROWS_MAX], ended by a row without name, whose values
	 * point into `opts`. */
	void (*rows)(void *opts, struct opt_row *rows);
	/* 0 = done, 1 = done with warnings or differences, -1 and *e. */
	int (*run)(struct client *c, void *opts, int argc, char **argv,
	    struct err *e);
};

extern const struct cmd cmd_init, cmd_push, cmd_snapshots, cmd_ls,
    cmd_restore, cmd_cat, cmd_verify;

/* The rows in the order of --help; ends with NULL. */
extern const struct cmd *const cmds[];
/* The options of every command. */
void cmd_common_rows(struct client *c, struct opt_row *rows);
/* NULL if there is none of that name. */
const struct cmd *cmd_find(const char *name);

#endif
