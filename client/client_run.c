/* client/client_run.c - words to command, options, exit status */
#include "client/client.h"

#include "client/cmd.h"
#include "client/config.h"
#include "client/out.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct cmd *const cmds[] = {	/* in the order of --help */
	&cmd_init, &cmd_push, &cmd_snapshots, &cmd_ls, &cmd_restore, &cmd_cat,
	&cmd_verify, NULL
};

const struct cmd *cmd_find(const char *name)
{
	for (size_t i = 0; cmds[i]; i++)
		if (strcmp(cmds[i]->name, name) == 0)
			return cmds[i];
	return NULL;
}

void cmd_common_rows(struct client *c, struct opt_row *rows)
{
	const struct opt_row all[] = {
		{ "server", 's', OPT_TEXT, &c->server, "URL",
		    "ssh://[USER@]HOST[:PORT] or exec:CMD",
		    &c->server_given },
		{ "name", 0, OPT_TEXT, &c->name, "NAME",
		    "of this client at the server", &c->name_given },
		{ "key", 0, OPT_TEXT, &c->key, "FILE", "private key",
		    &c->key_given },
		{ "known-hosts", 0, OPT_TEXT, &c->known_hosts, "FILE",
		    "host keys that are trusted", &c->known_hosts_given },
		{ "config", 0, OPT_TEXT, &c->config_file, "FILE",
		    "instead of the usual configuration", NULL },
		{ "quiet", 'q', OPT_FLAG, &c->quiet, NULL,
		    "silent on success", NULL },
		{ "verbose", 'v', OPT_FLAG, &c->verbose, NULL,
		    "name each file", NULL },
		{ "help", 'h', OPT_FLAG, &c->help, NULL, "this help", NULL },
		{ "version", 0, OPT_FLAG, &c->version, NULL,
		    "the version of the program", NULL },
		{ .name = NULL },
	};

	_Static_assert(sizeof(all) / sizeof(all[0]) <= CMD_ROWS_MAX,
	    "they fit");
	memcpy(rows, all, sizeof(all));
}

static void help_all(struct client *c)
{
	struct opt_row rows[CMD_ROWS_MAX];

	printf("usage: bkclient COMMAND [OPTION...]\n\nCommands:\n");
	for (size_t i = 0; cmds[i]; i++)
		printf("  %-10s %s\n", cmds[i]->name, cmds[i]->summary);
	printf("\nOptions of every command:\n");
	cmd_common_rows(c, rows);
	opt_help(stdout, rows);
	printf("\n`bkclient COMMAND --help' says more, and so does "
	    "bkclient(1).\n");
}

static void help_one(struct client *c, const struct cmd *cmd,
    const struct opt_row *own)
{
	struct opt_row rows[CMD_ROWS_MAX];

	printf("usage: bkclient %s %s\n\n%s\n", cmd->name, cmd->synopsis,
	    cmd->summary);
	if (own[0].name) {
		printf("\nOptions:\n");
		opt_help(stdout, own);
	}
	printf("\nOptions of every command:\n");
	cmd_common_rows(c, rows);
	opt_help(stdout, rows);
}

static bool takes_value(const struct opt_row *rows, const char *word)
{
	for (; rows->name; rows++) {
		if (rows->kind == OPT_FLAG)
			continue;
		if (word[1] == '-' && strcmp(word + 2, rows->name) == 0)
			return true;
		if (word[1] != '-' && word[1] == rows->letter &&
		    word[2] == '\0')
			return true;
	}
	return false;
}

/* Where the command's name is, argc if there is none. */
static int find_command(struct client *c, int argc, char **argv)
{
	struct opt_row rows[CMD_ROWS_MAX];
	int i;

	cmd_common_rows(c, rows);
	for (i = 1; i < argc; i++) {
		if (argv[i][0] != '-' || argv[i][1] == '\0')
			return i;
		if (takes_value(rows, argv[i]))
			i++;
	}
	return argc;
}

static int count_words(const struct cmd *cmd, int words, struct err *e)
{
	if (words < cmd->args_min ||
	    (cmd->args_max >= 0 && words > cmd->args_max))
		return err_set(e, ERR_USAGE, "usage: bkclient %s %s",
		    cmd->name, cmd->synopsis);
	return 0;
}

/* argv without the command's name. */
static int run_command(struct client *c, const struct cmd *cmd, int argc,
    char **argv, struct err *e)
{
	struct opt_row own[CMD_ROWS_MAX], common[CMD_ROWS_MAX];
	const struct opt_row *tables[] = { own, common, NULL };
	void *opts = calloc(1, cmd->opts_size ? cmd->opts_size : 1);
	int words, rc = -1;

	if (!opts)
		return err_set(e, ERR_NO_MEMORY, "no memory for options");
	own[0].name = NULL;
	if (cmd->rows)
		cmd->rows(opts, own);
	cmd_common_rows(c, common);
	words = opt_parse(argc, argv, tables, e);
	if (words >= 0 && c->help) {
		help_one(c, cmd, own);
		rc = 0;
	} else if (words >= 0 && c->version) {
		printf("bkclient %s\n", BKCLIENT_VERSION);
		rc = 0;
	} else if (words >= 0 && count_words(cmd, words, e) == 0 &&
	    config_load(c, e) == 0) {
		rc = cmd->run(c, opts, words, argv, e);
	}
	free(opts);
	return rc;
}

/* No command: only --help and --version make sense. */
static int run_nothing(struct client *c, int argc, char **argv,
    struct err *e)
{
	struct opt_row common[CMD_ROWS_MAX];
	const struct opt_row *tables[] = { common, NULL };

	cmd_common_rows(c, common);
	if (opt_parse(argc - 1, argv + 1, tables, e) < 0)
		return -1;
	if (c->version) {
		printf("bkclient %s\n", BKCLIENT_VERSION);
		return 0;
	}
	if (!c->help)
		return err_set(e, ERR_USAGE, "no command; see "
		    "bkclient --help");
	help_all(c);
	return 0;
}

static int dispatch(struct client *c, int argc, char **argv, struct err *e)
{
	int at = find_command(c, argc, argv);
	const struct cmd *cmd;

	if (at == argc)
		return run_nothing(c, argc, argv, e);
	cmd = cmd_find(argv[at]);
	if (!cmd)
		return err_set(e, ERR_USAGE, "there is no command %.100s; "
		    "see bkclient --help", argv[at]);
	memmove(argv + at, argv + at + 1,
	    (size_t)(argc - at - 1) * sizeof(*argv));
	return run_command(c, cmd, argc - 2, argv + 1, e);
}

int client_run(struct client *c, int argc, char **argv)
{
	struct err e = { .code = ERR_NONE }, late;
	int rc, gone = 0;

	rc = dispatch(c, argc, argv, &e);
	progress_clear(&c->progress);
	if (out_flush(&gone, &late) != 0 && rc >= 0) {
		e = late;
		rc = -1;
	}
	if (rc < 0 && !(gone && e.code == ERR_CANCELLED) &&
	    !atomic_load(&c->stop))
		fprintf(stderr, "bkclient: %s\n", e.text);
	if (rc < 0)
		return e.code == ERR_USAGE ? 64 : 2;
	if (gone)
		return 141;		/* as if by SIGPIPE */
	return rc == 0 && warn_count(&c->warn) > 0 ? 1 : rc;
}
