/*
 * bkserver recover - a state directory from the members alone.
 *
 * Nothing of the old one is needed: clients, snapshots and the host key are in
 * the array; the index is made again from it.  So clients notice nothing.
 */
#include "base/hash.h"
#include "base/wire_ssh.h"
#include "server/cmd.h"
#include "server/owner.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct recover_values {
	bool none;
	const char *index;
};

static const struct opt_row rows[] = {
	{ "index", 0, OPT_TEXT, OPT_AT(struct recover_values, index), "DIR",
	    "where the index lies (default: in the state directory)", NULL },
	{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
};

struct counting {
	struct cmd_io *io;
	struct store *store;
	uint64_t clients, snapshots;
	char name[CLIENT_NAME_MAX + 1];
	uint64_t of_one;
};

static int count_snapshot(void *arg, const char *client,
    const struct snapshot_record *r)
{
	struct counting *c = arg;

	(void)r;
	if (strcmp(c->name, client) == 0)
		c->of_one++;
	return 0;
}

struct names {
	char (*items)[CLIENT_NAME_MAX + 1];
	size_t count;
};

static int add_name(void *arg, const struct client_record *c)
{
	struct names *l = arg;
	void *more = reallocarray(l->items, l->count + 1, sizeof(*l->items));

	if (!more)
		return -1;
	l->items = more;
	memcpy(l->items[l->count++], c->name, sizeof(*l->items));
	return 0;
}

static void say_clients(struct owner *o, struct cmd_io *io)
{
	struct names l = { .items = NULL };
	struct counting c = { .io = io };

	(void)store_client_each(o->store, add_name, &l);
	for (size_t i = 0; i < l.count; i++) {
		memcpy(c.name, l.items[i], sizeof(c.name));
		c.of_one = 0;
		(void)store_snapshot_each(o->store, c.name, count_snapshot,
		    &c);
		out_text(io, "client   %-16s %" PRIu64 " snapshots\n", c.name,
		    c.of_one);
		c.snapshots += c.of_one;
	}
	out_text(io, "found    %zu clients, %" PRIu64 " snapshots\n", l.count,
	    c.snapshots);
	free(l.items);
}

static int say_key(struct owner *o, struct cmd_io *io, struct err *e)
{
	char fingerprint[SSH_FINGERPRINT_SIZE];
	char *key = NULL;
	int rc;

	rc = store_host_key(o->store, &key, e);
	if (rc == 0)
		rc = ssh_private_key_fingerprint(key, fingerprint, e);
	if (key)
		secret_wipe(key, strlen(key));
	free(key);
	if (rc == 0)
		out_text(io, "host key %s\n", fingerprint);
	return rc;
}

/* Make the directory; on failure nothing of it stays. */
static int make_state(const struct cmd_call *call, const char *index,
    struct err *e)
{
	struct path_list paths;
	struct state s = { .fd = -1 };
	int rc = 0;

	paths.count = 0;
	for (int i = 0; rc == 0 && i < call->count; i++)
		rc = path_list_add(&paths, call->cwd, call->words[i], true, e);
	if (rc == 0)
		rc = state_create(&s, call->globals.dir, index, &paths, e);
	state_release(&s);
	path_list_release(&paths);
	return rc;
}

static void unmake_state(const char *dir)
{
	static const char *const files[] = { "members", "config" };
	struct state s;
	struct err e;

	if (state_open(&s, dir, &e) == 0)
		for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
			(void)unlinkat(s.fd, files[i], 0);
	state_release(&s);
}

static int recover_run(struct owner *none, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	const struct recover_values *v = call->values;
	const struct owner_options opt = { .dir = call->globals.dir,
	    .quiet = call->globals.quiet, .look_first = true };
	struct err closing;
	struct owner *o;
	char *index = NULL;
	bool fresh;
	int rc;

	(void)none;
	fresh = access(call->globals.dir, F_OK) != 0;
	if (v->index && !(index = cmd_path(call, v->index, e)))
		return -1;
	rc = make_state(call, index, e);
	free(index);
	if (rc != 0)
		return -1;
	if (owner_open(&o, &opt, e) != 0) {
		unmake_state(call->globals.dir);
		if (fresh)
			(void)rmdir(call->globals.dir);	/* if it is empty */
		return -1;
	}
	say_clients(o, io);
	rc = say_key(o, io, e);
	if (owner_close(o, &closing) != 0 && rc == 0) {
		*e = closing;
		rc = -1;
	}
	if (rc == 0)
		out_text(io, "bkserver -d %s serve will serve them\n",
		    call->globals.dir);
	return rc;
}

const struct cmd cmd_recover = {
	.name = "recover",
	.synopsis = "-d NEWDIR [--index DIR] MEMBER...",
	.summary = "make a state directory from the members alone",
	.args_min = 1,
	.args_max = -1,
	.flags = CMD_LOCAL,
	.rows = rows,
	.values_size = sizeof(struct recover_values),
	.run = recover_run,
};
