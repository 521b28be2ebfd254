/* bkserver serve - the server, in the foreground. */
#include "base/clock.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/log.h"
#include "base/wire_ssh.h"
#include "server/cmd.h"
#include "server/control.h"
#include "server/mend.h"
#include "server/notify.h"
#include "server/owner.h"
#include "server/session.h"
#include "store/store.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TAKE_OVER_MS 15000	/* for one who was asked to give way */
#define ROOM_MS 50		/* between looks whether one more may come in */
#define LOOK_MS 1000		/* between looks at what wants mending */
#define MEMBERS_MS 30000	/* between looks at the members' paths */

struct serve_values {
	bool none;
	const char *listen;
	struct opt_list members;
};

static const struct opt_row rows[] = {
	{ "listen", 0, OPT_TEXT, OPT_AT(struct serve_values, listen),
	    "ADDR:PORT", "where to listen (default: the config's, else "
	    "127.0.0.1:2222)", NULL },
	{ "member", 0, OPT_LIST, OPT_AT(struct serve_values, members),
	    "PATH", "a member, wherever the state directory thinks it is",
	    NULL },
	{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
};

/* Ask the one who holds the array to leave.  0 = asked or nobody there. */
static int ask_to_yield(const char *dir, struct err *e)
{
	struct state s;
	int fd, rc;

	rc = state_open(&s, dir, e);
	if (rc == 0)
		rc = control_connect(&s, &fd, e);
	state_release(&s);
	if (rc != 0)
		return e->code == ERR_NOT_FOUND ? 0 : -1;
	rc = control_yield(fd, e);
	io_close(&fd);
	return rc != 0 && e->code == ERR_BUSY ? -1 : 0;
}

static int take(struct owner **out, const struct owner_options *opt,
    struct err *e)
{
	uint64_t until = clock_mono_ms() + TAKE_OVER_MS;
	struct err why;

	for (;;) {
		if (owner_open(out, opt, e) == 0)
			return 0;
		if (e->code != ERR_BUSY || clock_mono_ms() >= until)
			return -1;
		if (ask_to_yield(opt->dir, &why) != 0) {
			*e = why;
			return -1;
		}
		(void)poll(NULL, 0, 200);
	}
}

static int listen_with_key(struct owner *o, const char *where,
    struct ssh_listener **l, char fingerprint[static SSH_FINGERPRINT_SIZE],
    struct err *e)
{
	char *key = NULL;
	int rc = -1;

	if (store_host_key(o->store, &key, e) == 0 &&
	    ssh_private_key_fingerprint(key, fingerprint, e) == 0 &&
	    ssh_listener_open(l, where, key, e) == 0)
		rc = 0;
	if (key)
		secret_wipe(key, strlen(key));
	free(key);
	return rc;
}

/* With the port that was picked in the place of 0. */
static void say_ready(struct cmd_io *io, const char *where,
    const struct ssh_listener *l, const char *fingerprint)
{
	const char *colon = strrchr(where, ':');
	int size = colon ? (int)(colon - where) : (int)strlen(where);

	out_text(io, "listening on %.*s:%u\nhost key %s\n", size, where,
	    ssh_listener_port(l), fingerprint);
	notify("READY=1\nSTATUS=serving");
}

static void look_after(struct owner *o, uint64_t *looked_ms)
{
	uint64_t now = clock_mono_ms();

	if (now - *looked_ms >= MEMBERS_MS) {
		array_check_members(o->array);
		*looked_ms = now;
	}
	mend_if_wanted(o);
	/* Frames of many sizes leave holes in the heap; give them back. */
	(void)malloc_trim(0);
}

/* Until told to stop: 0.  Or until the store has failed: what is in memory is
 * not to be trusted any more, a start from the disks is. */
static int serve(struct owner *o, struct ssh_listener *l, struct err *e)
{
	struct pollfd at[] = {
		{ .fd = ssh_listener_fd(l), .events = POLLIN },
		{ .fd = o->stop_fd, .events = POLLIN },
	};
	uint64_t looked_ms = clock_mono_ms(), next_ms = looked_ms;

	while (!owner_stopping(o)) {
		bool room = sessions_room(o->sessions);

		at[0].fd = room ? ssh_listener_fd(l) : -1;
		if (poll(at, 2, room ? LOOK_MS : ROOM_MS) > 0 && room &&
		    at[0].revents)
			sessions_accept(o->sessions, l);
		if (store_failed(o->store, e))
			return err_add(e, "the store has failed and must be "
			    "opened again");
		if (clock_mono_ms() >= next_ms) {
			look_after(o, &looked_ms);
			next_ms = clock_mono_ms() + LOOK_MS;
		}
	}
	return 0;
}

static int serve_run(struct owner *none, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	const struct serve_values *v = call->values;
	const struct owner_options opt = { .dir = call->globals.dir,
	    .members = &v->members, .cwd = call->cwd, .serving = true };
	char fingerprint[SSH_FINGERPRINT_SIZE];
	struct ssh_listener *l = NULL;
	const char *where;
	struct owner *o;
	struct err closing;
	int rc;

	(void)none;
	log_set_level(call->globals.verbose ? LOG_LEVEL_DEBUG :
	    LOG_LEVEL_INFO);
	if (take(&o, &opt, e) != 0)
		return -1;
	where = v->listen ? v->listen : o->state.config.listen;
	rc = listen_with_key(o, where, &l, fingerprint, e);
	if (rc == 0) {
		say_ready(io, where, l, fingerprint);
		rc = serve(o, l, e);
		log_line(rc == 0 ? LOG_LEVEL_INFO : LOG_LEVEL_ERROR, "%s",
		    rc == 0 ? "stopping" : e->text);
		notify("STOPPING=1");
	}
	/* Sessions that still negotiate use the listener: it goes last. */
	if (owner_close(o, &closing) != 0 && rc == 0) {
		*e = closing;
		rc = -1;
	}
	ssh_listener_close(l);
	return rc;
}

const struct cmd cmd_serve = {
	.name = "serve",
	.synopsis = "[--listen ADDR:PORT] [--member PATH]...",
	.summary = "the server, in the foreground",
	.args_max = 0,
	.flags = CMD_LOCAL,
	.rows = rows,
	.values_size = sizeof(struct serve_values),
	.run = serve_run,
};
