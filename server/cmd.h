/*
 * server/cmd.h - one row per command; main(), --help and the relay read rows.
 *
 * A command is a row and a file.  Its options are rows of base/opt.h whose
 * `value` and `seen` are offsets into a struct of the command's own (OPT_AT),
 * so that rows are constants and no command has global state.  cmd_parse()
 * binds them to a fresh copy.
 *
 *      cmd_parse --> call.cmd->run(owner, io, &call, e) --> cmd_call_release
 *
 * The same words may be parsed twice: in the process that was started, and in
 * the owner of the array to which it relays them.  So run() writes only
 * through its io, and takes relative paths as relative to call.cwd.
 *
 * Errors: run() returns 0 or -1 with *e; then the exit status is 64 for
 * ERR_USAGE, else 2.  On 0 it is io->status (0, or raised by out_status()).
 */
#ifndef SERVER_CMD_H
#define SERVER_CMD_H

#include "base/err.h"
#include "base/opt.h"
#include "server/out.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct owner;
struct cmd_call;

enum {				/* flags of a command */
	CMD_LOCAL = 1,		/* finds the array by itself; owner is NULL */
	CMD_READS = 2,		/* a read-only owner is enough */
};

struct cmd {
	const char *name;	/* "client key add": up to three words */
	const char *synopsis;	/* after the name, as in the manual page */
	const char *summary;	/* one line, no full stop */
	int args_min, args_max;	/* words after the name; -1 = any number */
	unsigned flags;
	const struct opt_row *rows;	/* ends with a NULL name; or NULL */
	size_t values_size;	/* of the struct the rows point into */
	/* The option whose file the caller loads and attaches (its offset among
	 * the values, an OPT_TEXT), for the owner may not see that file; 0 = no
	 * such option. */
	size_t attach;
	int (*run)(struct owner *o, struct cmd_io *io,
	    const struct cmd_call *call, struct err *e);
};

/* Where the field of a command's values lies, as rows say it.  The first field
 * of such a struct is never an option: offset 0 would mean "not wanted". */
#define OPT_AT(type, field) ((void *)offsetof(type, field))

struct cmd_globals {		/* options of every command */
	bool none;
	const char *dir;	/* -d, or $BKSERVER_DIR, or the default */
	bool help, version, quiet, verbose;
};

/* A parsed command line; points into the argv it was made of. */
struct cmd_call {
	const struct cmd *cmd;
	struct cmd_globals globals;
	void *values;		/* of cmd->values_size; owned */
	int count;
	char **words;		/* after the command's name */
	const char *cwd;	/* of the one who called; not owned */
	char *attached;		/* text of the attached file, owned, or NULL */
};

#define CMD_ATTACHED_MAX (64u << 10)

/* Parse `argv` (words only: without the program's name; reordered in place).
 * call->cmd stays NULL when help or version was asked for without a command.
 * Fails with ERR_USAGE.  Release after success and failure alike. */
MUST_CHECK int cmd_parse(struct cmd_call *call, int argc, char **argv,
    struct err *e);
void cmd_call_release(struct cmd_call *call);
/* Load the file of cmd->attach into call->attached, if there is one. */
MUST_CHECK int cmd_attach(struct cmd_call *call, struct err *e);
/* `path` as the caller meant it: joined with cwd unless absolute.  malloc'd;
 * NULL (ERR_NO_MEMORY). */
char *cmd_path(const struct cmd_call *call, const char *path, struct err *e);

/* The exit status after run() returned `rc` (see the top). */
int cmd_status(int rc, const struct cmd_io *io, const struct err *e);

/* All rows, in the order of --help; ends with NULL. */
extern const struct cmd *const cmds[];
/* Of the program when `cmd` is NULL. */
void cmd_help(FILE *out, const struct cmd *cmd);

/* Each is defined in server/cmd_<first word>.c. */
extern const struct cmd cmd_init, cmd_serve, cmd_stdio, cmd_client_add,
    cmd_client_list, cmd_client_set, cmd_client_remove, cmd_client_pause,
    cmd_client_key_add, cmd_client_key_list, cmd_client_key_remove,
    cmd_server_status, cmd_snapshots, cmd_verify, cmd_prune, cmd_forget,
    cmd_restore, cmd_array_status, cmd_array_scrub, cmd_array_bench,
    cmd_array_fail, cmd_array_replace, cmd_recover;

#endif
