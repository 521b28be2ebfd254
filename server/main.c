/*
 * server/main.c - bkserver.
 *
 * Memory holds keys (the host's, the store's seed): no core dumps, and nothing
 * that is started can gain privileges.  All files are private to our user.
 */
#include "base/log.h"
#include "server/cmd.h"
#include "server/relay.h"
#include "server/version.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void harden(void)
{
	const struct rlimit none = { 0, 0 };

	(void)setrlimit(RLIMIT_CORE, &none);
	(void)prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	signal(SIGPIPE, SIG_IGN);
	umask(077);
	/* Frames are made in one thread and freed in another: with an arena for
	 * each thread the heap would grow to several times what is in use. */
	(void)mallopt(M_ARENA_MAX, 2);
	log_set_level(LOG_LEVEL_WARN);	/* serve says more */
}

static int run(struct cmd_call *call, int argc, char *const *argv,
    struct cmd_io *io, struct err *e)
{
	int rc;

	if (call->globals.version) {
		printf("bkserver %s\n", BK_VERSION);
		return fflush(stdout) != 0 ? 2 : 0;
	}
	if (call->globals.help) {
		cmd_help(stdout, call->cmd);
		return fflush(stdout) != 0 ? 2 : 0;
	}
	if (call->cmd->flags & CMD_LOCAL)
		rc = call->cmd->run(NULL, io, call, e);
	else
		rc = relay_run(call, argc, argv, io, e);
	if (rc == 0)
		e->code = ERR_NONE;	/* of something that was tried again */
	return cmd_status(rc, io, e);
}

int main(int argc, char **argv)
{
	char **words = calloc((size_t)argc + 1, sizeof(*words));
	char *cwd = getcwd(NULL, 0);
	struct err e = { .code = ERR_NONE };
	struct cmd_call call;
	struct cmd_io io;
	int status = 64;

	out_init_own(&io);
	harden();
	if (!words) {
		out_warn(&io, "no memory");
		return 2;
	}
	for (int i = 1; i < argc; i++)
		words[i - 1] = argv[i];
	if (cmd_parse(&call, argc - 1, words, &e) == 0) {
		call.cwd = cwd ? cwd : "/";
		status = run(&call, argc - 1, argv + 1, &io, &e);
	}
	if (e.code != ERR_NONE)
		out_warn(&io, "%s", e.text);
	cmd_call_release(&call);
	free(words);
	free(cwd);
	return status;
}
