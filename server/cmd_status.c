/* bkserver status - is all well? */
#include "base/str.h"
#include "server/cmd.h"
#include "server/job.h"
#include "server/owner.h"
#include "server/report.h"
#include "server/session.h"
#include "store/store.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSIONS_SHOWN 64

struct status_values {
	bool none, json;
};

static const struct opt_row rows[] = {
	{ "json", 0, OPT_FLAG, OPT_AT(struct status_values, json), NULL,
	    "one JSON object a line", NULL },
	{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
};

/* What status says of a client; the last good push is a complete one. */
struct client_line {
	char name[CLIENT_NAME_MAX + 1];
	bool paused;
	int64_t last_seen_s, last_push_s, last_good_s;
	uint64_t snapshots, files, bytes, quota;
};

struct client_lines {
	struct client_line *items;
	size_t count;
	bool failed;
};

static int add_client(void *arg, const struct client_record *c)
{
	struct client_lines *l = arg;
	struct client_line *more = reallocarray(l->items, l->count + 1,
	    sizeof(*more));

	if (!more) {
		l->failed = true;
		return -1;
	}
	l->items = more;
	more += l->count++;
	memset(more, 0, sizeof(*more));
	memcpy(more->name, c->name, sizeof(more->name));
	more->paused = c->paused;
	more->last_seen_s = c->last_seen_s;
	more->quota = c->quota;
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct client_line *x = a, *y = b;

	return strcmp(x->name, y->name);
}

static int add_snapshot(void *arg, const char *client,
    const struct snapshot_record *r)
{
	struct client_lines *l = arg;
	struct client_line key, *c;

	snprintf(key.name, sizeof(key.name), "%s", client);
	c = bsearch(&key, l->items, l->count, sizeof(key), by_name);
	if (!c)
		return 0;
	c->snapshots++;
	c->last_push_s = r->commit_s;
	if (r->flags & SNAPSHOT_PARTIAL)
		return 0;
	c->last_good_s = r->commit_s;
	c->files = r->files;
	c->bytes = r->bytes;
	return 0;
}

static void client_json(struct cmd_io *io, const struct client_line *c)
{
	struct json_t *line = json_line("client");

	json_object_set_new(line, "name", json_string(c->name));
	json_object_set_new(line, "paused", json_boolean(c->paused));
	json_time(line, "last_good_push", c->last_good_s);
	json_time(line, "last_push", c->last_push_s);
	json_time(line, "last_seen", c->last_seen_s);
	json_u64(line, "snapshots", c->snapshots);
	json_u64(line, "files", c->files);
	json_u64(line, "bytes", c->bytes);
	json_u64(line, "quota_bytes", c->quota);
	out_json(io, line);
}

static void client_text(struct cmd_io *io, const struct client_line *c)
{
	char age[OUT_AGE_SIZE], bytes[16];

	out_age(age, c->last_good_s);
	str_bytes_human(bytes, c->bytes);
	out_text(io, "  %-16s last good push %s", c->name, age);
	if (c->last_good_s)
		out_text(io, " (%" PRIu64 " files, %s), %" PRIu64
		    " snapshots", c->files, bytes, c->snapshots);
	out_text(io, "%s\n", c->paused ? ", paused" : "");
}

static void say_clients(struct owner *o, struct cmd_io *io, bool json)
{
	struct client_lines l = { .items = NULL };

	(void)store_client_each(o->store, add_client, &l);
	if (l.failed) {
		out_warn(io, "no memory for the list of clients");
		out_status(io, 2);
	}
	if (l.count)
		qsort(l.items, l.count, sizeof(*l.items), by_name);
	(void)store_snapshot_each(o->store, NULL, add_snapshot, &l);
	if (!json)
		out_text(io, "clients%s\n", l.count ? "" : "   none");
	for (size_t i = 0; i < l.count; i++)
		(json ? client_json : client_text)(io, &l.items[i]);
	free(l.items);
}

static void say_store(struct owner *o, struct cmd_io *io, bool json)
{
	struct store_info info;
	struct json_t *line;
	char age[OUT_AGE_SIZE], index[16];

	store_info(o->store, &info);
	info.objects += info.overlay_entries;	/* not in the index yet */
	if (json) {
		line = json_line("store");
		json_time(line, "last_verify", info.last_verify_s);
		json_u64(line, "snapshots", info.snapshots);
		json_u64(line, "objects", info.objects);
		json_u64(line, "index_bytes", info.index_bytes);
		json_u64(line, "quarantined", info.quarantined);
		out_json(io, line);
		return;
	}
	out_age(age, info.last_verify_s);
	str_bytes_human(index, info.index_bytes);
	out_text(io, "store     %" PRIu64 " snapshots, %" PRIu64 " objects, "
	    "index %s\nverified  %s\n", info.snapshots, info.objects, index,
	    age);
	if (info.quarantined)
		out_text(io, "damaged   %" PRIu64 " objects are quarantined; "
		    "bkserver verify --all names what they are part of\n",
		    info.quarantined);
}

static void say_jobs(struct owner *o, struct cmd_io *io, bool json)
{
	for (unsigned i = 0; i < JOB_KINDS; i++) {
		struct json_t *line;
		struct job_info j;
		char age[OUT_AGE_SIZE];

		job_info(o->jobs, (enum job_kind)i, &j);
		if (!j.running)
			continue;
		if (json) {
			line = json_line("job");
			json_object_set_new(line, "job",
			    json_string(job_name((enum job_kind)i)));
			json_time(line, "started", j.started_s);
			json_u64(line, "done_bytes", j.done);
			json_u64(line, "total_bytes", j.total);
			out_json(io, line);
			continue;
		}
		out_age(age, j.started_s);
		out_text(io, "job       %s, begun %s",
		    job_name((enum job_kind)i), age);
		if (j.total)
			out_text(io, ", %u %%",
			    (unsigned)(100 * j.done / j.total));
		out_text(io, "\n");
	}
}

static void session_json(struct cmd_io *io, const struct session_info *s)
{
	struct json_t *line = json_line("session");

	json_u64(line, "number", s->number);
	json_object_set_new(line, "client", json_string(s->client));
	json_object_set_new(line, "peer", json_string(s->peer));
	json_object_set_new(line, "pushing", json_boolean(s->pushing));
	json_time(line, "since", s->since_s);
	json_u64(line, "sent_bytes", s->sent);
	json_u64(line, "received_bytes", s->received);
	out_json(io, line);
}

static void say_sessions(struct owner *o, struct cmd_io *io, bool json)
{
	struct session_info all[SESSIONS_SHOWN];
	size_t count = sessions_list(o->sessions, all, SESSIONS_SHOWN);

	for (size_t i = 0; i < count; i++) {
		char age[OUT_AGE_SIZE], in[16];

		if (json) {
			session_json(io, &all[i]);
			continue;
		}
		out_age(age, all[i].since_s);
		str_bytes_human(in, all[i].received);
		out_text(io, "session   %s from %s, begun %s%s, %s received\n",
		    all[i].client, all[i].peer, age,
		    all[i].pushing ? ", pushing" : "", in);
	}
}

static int status_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	const struct status_values *v = call->values;

	(void)e;
	report_array(o, io, v->json);
	say_clients(o, io, v->json);
	say_store(o, io, v->json);
	say_jobs(o, io, v->json);
	say_sessions(o, io, v->json);
	return 0;
}

const struct cmd cmd_server_status = {
	.name = "status",
	.synopsis = "[--json]",
	.summary = "the array, its space, the clients and what runs",
	.args_max = 0,
	.flags = CMD_READS,
	.rows = rows,
	.values_size = sizeof(struct status_values),
	.run = status_run,
};
