/*
 * server/cmd.c - from words to a command with its options.
 *
 * Options may stand before the command's name, and which options take a value
 * depends on the command.  So the name is looked for first, with all rows of
 * all commands at hand to skip values; an option has the same kind wherever it
 * occurs (tests/server/test_cmd.c checks that).
 */
#include "server/cmd.h"

#include "base/buf.h"
#include "base/io.h"
#include "server/state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WORDS_MAX 3		/* of a command's name */
#define ROWS_MAX 32		/* options of one command */

const struct cmd *const cmds[] = {	/* in the order of --help */
	&cmd_init, &cmd_serve, &cmd_stdio, &cmd_client_add, &cmd_client_list,
	&cmd_client_set, &cmd_client_pause, &cmd_client_remove,
	&cmd_client_key_add, &cmd_client_key_list, &cmd_client_key_remove,
	&cmd_server_status, &cmd_snapshots, &cmd_verify, &cmd_prune,
	&cmd_forget, &cmd_restore, &cmd_array_status, &cmd_array_scrub,
	&cmd_array_bench, &cmd_array_fail, &cmd_array_replace, &cmd_recover,
	NULL
};

static const struct opt_row global_rows[] = {
	{ "dir", 'd', OPT_TEXT, OPT_AT(struct cmd_globals, dir), "DIR",
	    "state directory (default: $BKSERVER_DIR, else "
	    STATE_DIR_DEFAULT ")", NULL },
	{ "quiet", 'q', OPT_FLAG, OPT_AT(struct cmd_globals, quiet), NULL,
	    "say nothing when all is well", NULL },
	{ "verbose", 'v', OPT_FLAG, OPT_AT(struct cmd_globals, verbose), NULL,
	    "say more", NULL },
	{ "help", 'h', OPT_FLAG, OPT_AT(struct cmd_globals, help), NULL,
	    "show this help", NULL },
	{ "version", 0, OPT_FLAG, OPT_AT(struct cmd_globals, version), NULL,
	    "show the version", NULL },
	{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
};

static const struct opt_row *row_in(const struct opt_row *rows,
    const char *name, size_t size, char letter)
{
	for (const struct opt_row *r = rows; r && r->name; r++)
		if (letter ? r->letter == letter :
		    strlen(r->name) == size && memcmp(r->name, name, size) == 0)
			return r;
	return NULL;
}

/* Does this option, met before the command is known, eat the next word? */
static bool eats_next(const char *word)
{
	bool is_long = word[1] == '-';
	const char *name = is_long ? word + 2 : word + 1;
	size_t size = strlen(name);
	char letter = is_long ? '\0' : name[size - 1];
	const struct opt_row *r;

	if (is_long && strchr(name, '='))
		return false;
	r = row_in(global_rows, name, size, letter);
	for (size_t i = 0; !r && cmds[i]; i++)
		r = row_in(cmds[i]->rows, name, size, letter);
	return r && r->kind != OPT_FLAG && (is_long || size == 1);
}

/* The first words that are no options; returns how many of them. */
static size_t first_words(int argc, char **argv, const char *words[WORDS_MAX])
{
	size_t count = 0;

	for (int i = 0; i < argc && count < WORDS_MAX; i++) {
		if (strcmp(argv[i], "--") == 0)
			break;
		if (argv[i][0] != '-' || argv[i][1] == '\0')
			words[count++] = argv[i];
		else if (eats_next(argv[i]))
			i++;
	}
	return count;
}

/* How many of `words` spell the name of `c`; 0 = they do not. */
static size_t spells(const struct cmd *c, const char *const *words,
    size_t count)
{
	const char *at = c->name;
	size_t used = 0;

	while (*at) {
		size_t size = strcspn(at, " ");

		if (used == count || strlen(words[used]) != size ||
		    memcmp(words[used], at, size) != 0)
			return 0;
		used++;
		at += size + (at[size] == ' ');
	}
	return used;
}

static const struct cmd *find(const char *const *words, size_t count,
    size_t *used)
{
	const struct cmd *best = NULL;

	*used = 0;
	for (size_t i = 0; cmds[i]; i++) {
		size_t n = spells(cmds[i], words, count);

		if (n > *used) {
			*used = n;
			best = cmds[i];
		}
	}
	return best;
}

/* Names of commands that begin with `word`, for the one who forgot the rest. */
static int unknown(const char *word, struct err *e)
{
	char names[256] = "";
	size_t used = 0;

	for (size_t i = 0; cmds[i]; i++) {
		size_t size = strlen(word);

		if (strncmp(cmds[i]->name, word, size) != 0 ||
		    cmds[i]->name[size] != ' ')
			continue;
		used += (size_t)snprintf(names + used, sizeof(names) - used,
		    "%s%s", used ? ", " : "", cmds[i]->name + size + 1);
		if (used >= sizeof(names))
			break;
	}
	if (names[0])
		return err_set(e, ERR_USAGE, "%s needs one of: %s", word,
		    names);
	return err_set(e, ERR_USAGE, "there is no command %s; see "
	    "bkserver --help", word);
}

/* A copy of `rows` whose pointers lead into `values`. */
static void bind_rows(struct opt_row *out, const struct opt_row *rows,
    void *values)
{
	size_t n = 0;

	for (; rows && rows[n].name && n < ROWS_MAX; n++) {
		out[n] = rows[n];
		out[n].value = (char *)values + (uintptr_t)rows[n].value;
		if (rows[n].seen)
			out[n].seen = (bool *)((char *)values +
			    (uintptr_t)rows[n].seen);
	}
	memset(&out[n], 0, sizeof(out[n]));
}

/* Lines of the synopsis, for a sentence. */
static void one_line(char *out, size_t size, const char *synopsis)
{
	size_t used = 0;

	for (const char *p = synopsis; *p && used + 1 < size; p++) {
		out[used++] = *p == '\n' ? ' ' : *p;
		if (*p == '\n')
			p += strspn(p + 1, " ");
	}
	out[used] = '\0';
}

static int check_count(const struct cmd_call *call, struct err *e)
{
	const struct cmd *c = call->cmd;
	char synopsis[320];

	if (call->count >= c->args_min && (c->args_max < 0 ||
	    call->count <= c->args_max))
		return 0;
	one_line(synopsis, sizeof(synopsis), c->synopsis);
	return err_set(e, ERR_USAGE, "too %s words; the usage is: "
	    "bkserver %s%s%s", call->count < c->args_min ? "few" : "many",
	    c->name, synopsis[0] ? " " : "", synopsis);
}

int cmd_parse(struct cmd_call *call, int argc, char **argv, struct err *e)
{
	struct opt_row globals[ROWS_MAX + 1], own[ROWS_MAX + 1];
	const struct opt_row *const tables[] = { globals, own, NULL };
	const char *words[WORDS_MAX];
	size_t used, count = first_words(argc, argv, words);
	int left;

	memset(call, 0, sizeof(*call));
	call->cmd = find(words, count, &used);
	if (!call->cmd && count)
		return unknown(words[0], e);
	call->values = calloc(1, call->cmd && call->cmd->values_size ?
	    call->cmd->values_size : 1);
	if (!call->values)
		return err_set(e, ERR_NO_MEMORY, "no memory for options");
	bind_rows(globals, global_rows, &call->globals);
	bind_rows(own, call->cmd ? call->cmd->rows : NULL, call->values);
	left = opt_parse(argc, argv, tables, e);
	if (left < 0)
		return -1;
	if (!call->globals.dir)
		call->globals.dir = getenv("BKSERVER_DIR");
	if (!call->globals.dir || !call->globals.dir[0])
		call->globals.dir = STATE_DIR_DEFAULT;
	if (call->globals.help || call->globals.version)
		return 0;
	if (!call->cmd)
		return err_set(e, ERR_USAGE, "which command?  See bkserver "
		    "--help");
	call->words = argv + used;
	call->count = left - (int)used;
	return check_count(call, e);
}

void cmd_call_release(struct cmd_call *call)
{
	free(call->values);
	free(call->attached);
	memset(call, 0, sizeof(*call));
}

int cmd_attach(struct cmd_call *call, struct err *e)
{
	const char *file;
	struct buf text;

	if (!call->cmd->attach || call->attached)
		return 0;
	memcpy(&file, (char *)call->values + call->cmd->attach, sizeof(file));
	if (!file)
		return 0;
	buf_init(&text, CMD_ATTACHED_MAX);
	if (io_file_load(AT_FDCWD, file, &text, e) != 0) {
		buf_release(&text);
		return -1;
	}
	buf_u8(&text, 0);
	if (buf_ok(&text, file, e) != 0) {
		buf_release(&text);
		return -1;
	}
	call->attached = (char *)text.data;	/* handed on */
	return 0;
}

char *cmd_path(const struct cmd_call *call, const char *path, struct err *e)
{
	return path_absolute(call->cwd, path, e);
}

int cmd_status(int rc, const struct cmd_io *io, const struct err *e)
{
	if (rc == 0)
		return io->status;
	return e->code == ERR_USAGE ? 64 : 2;
}

void cmd_help(FILE *out, const struct cmd *cmd)
{
	if (cmd) {
		fprintf(out, "usage: bkserver %s%s%s\n\n%s.\n\n", cmd->name,
		    cmd->synopsis[0] ? " " : "", cmd->synopsis, cmd->summary);
		if (cmd->rows && cmd->rows[0].name)
			opt_help(out, cmd->rows);
	} else {
		fprintf(out, "usage: bkserver COMMAND [OPTION...] [WORD...]\n"
		    "\nA backup server on its own redundant array.\n\n");
		for (size_t i = 0; cmds[i]; i++)
			fprintf(out, "  %-18s %s\n", cmds[i]->name,
			    cmds[i]->summary);
		fprintf(out, "\nEach command has --help of its own.  "
		    "For every command:\n");
	}
	opt_help(out, global_rows);
	fprintf(out, "\nExit status: 0 done, 1 done with warnings, 2 failed, "
	    "64 wrong usage.\n");
}
