/* bkserver prune, bkserver forget - what is kept, and what goes. */
#include "base/clock.h"
#include "base/str.h"
#include "server/cmd.h"
#include "server/job.h"
#include "server/owner.h"
#include "server/snapshot_name.h"
#include "store/store.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct prune_values {
	bool none, dry_run, json;
};

static const struct opt_row rows[] = {
	{ "dry-run", 'n', OPT_FLAG, OPT_AT(struct prune_values, dry_run),
	    NULL, "only say what would stay and go, and why", NULL },
	{ "json", 0, OPT_FLAG, OPT_AT(struct prune_values, json), NULL,
	    "one JSON object a line", NULL },
	{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
};

struct prune_ask {
	bool dry_run;
	char client[CLIENT_NAME_MAX + 1];	/* "" = all */
};

static void on_snapshot(void *arg, const char *client,
    const struct snapshot_record *r, bool keep, const char *reason)
{
	struct job *j = arg;
	char id[2 * SNAPSHOT_ID_SIZE + 1], when[CLOCK_TEXT_SIZE];
	struct json_t *line = json_line("snapshot");

	hex_put(id, r->id, SNAPSHOT_ID_SIZE);
	clock_text(when, r->commit_s);
	job_line(j, TO_OUT, "%s  %s  %.12s  %s  %s", keep ? "keep" : "drop",
	    client, id, when, reason);
	json_object_set_new(line, "client", json_string(client));
	json_object_set_new(line, "id", json_string(id));
	json_time(line, "time", r->commit_s);
	json_object_set_new(line, "keep", json_boolean(keep));
	json_object_set_new(line, "reason", json_string(reason));
	job_json(j, line);
}

static void say_end(struct job *j, const struct prune_report *r, bool dry)
{
	char freed[16], moved[16];
	struct json_t *line = json_line("prune");

	str_bytes_human(freed, r->bytes_freed);
	str_bytes_human(moved, r->bytes_moved);
	if (dry)
		job_line(j, TO_OUT, "%" PRIu64 " snapshots would stay, %"
		    PRIu64 " go; nothing was changed", r->snapshots_kept,
		    r->snapshots_gone);
	else
		job_line(j, TO_OUT, "%" PRIu64 " snapshots kept, %" PRIu64
		    " dropped; %s freed (%s moved)", r->snapshots_kept,
		    r->snapshots_gone, freed, moved);
	json_object_set_new(line, "dry_run", json_boolean(dry));
	json_u64(line, "snapshots_kept", r->snapshots_kept);
	json_u64(line, "snapshots_gone", r->snapshots_gone);
	json_u64(line, "objects_live", r->objects_live);
	json_u64(line, "objects_dead", r->objects_dead);
	json_u64(line, "segments_freed", r->segments_freed);
	json_u64(line, "segments_rewritten", r->segments_rewritten);
	json_u64(line, "bytes_freed", r->bytes_freed);
	json_u64(line, "bytes_moved", r->bytes_moved);
	job_json(j, line);
}

static int prune_job(struct job *j, struct owner *o, void *arg,
    struct err *e)
{
	const struct prune_ask *ask = arg;
	const struct prune_ops ops = { .snapshot = on_snapshot, .arg = j };
	struct prune_report r = { .snapshots_kept = 0 };

	if (store_prune(o->store, ask->client[0] ? ask->client : NULL,
	    ask->dry_run, &ops, &r, job_ctl(j), e) != 0)
		return -1;
	say_end(j, &r, ask->dry_run);
	return 0;
}

static int check_client(struct owner *o, const char *name, struct err *e)
{
	struct client_record *c = malloc(sizeof(*c));
	int rc;

	if (!c)
		return err_set(e, ERR_NO_MEMORY, "no memory for a client");
	rc = store_client_get(o->store, name, c, e);
	free(c);
	return rc;
}

static int prune_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	const struct prune_values *v = call->values;
	struct prune_ask *ask = calloc(1, sizeof(*ask));
	struct job *j;
	bool joined;

	if (!ask)
		return err_set(e, ERR_NO_MEMORY, "no memory for prune");
	ask->dry_run = v->dry_run;
	if (call->count && (check_client(o, call->words[0], e) != 0 ||
	    snprintf(ask->client, sizeof(ask->client), "%s",
	    call->words[0]) < 0)) {
		free(ask);
		return -1;
	}
	if (job_start(o->jobs, JOB_PRUNE, prune_job, ask, &j, &joined,
	    e) != 0)
		return -1;
	if (joined && !v->json)
		out_text(io, "a prune is already running; this is it\n");
	return job_follow(j, io, v->json, e);
}

static int forget_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	char id[2 * SNAPSHOT_ID_SIZE + 1];
	struct snapshot_record r;

	if (snapshot_by_name(o->store, call->words[0], call->words[1], &r,
	    e) != 0 || store_forget(o->store, call->words[0], r.id, e) != 0)
		return -1;
	hex_put(id, r.id, SNAPSHOT_ID_SIZE);
	out_text(io, "forgot %s; bkserver prune frees its space\n", id);
	return 0;
}

const struct cmd cmd_prune = {
	.name = "prune",
	.synopsis = "[CLIENT] [--dry-run] [--json]",
	.summary = "drop snapshots that no rule keeps, and free space",
	.args_max = 1,
	.rows = rows,
	.values_size = sizeof(struct prune_values),
	.run = prune_run,
};

const struct cmd cmd_forget = {
	.name = "forget",
	.synopsis = "CLIENT SNAPSHOT",
	.summary = "remove one snapshot",
	.args_min = 2,
	.args_max = 2,
	.run = forget_run,
};
