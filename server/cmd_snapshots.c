/* bkserver snapshots - all snapshots, with their paths. */
#include "base/buf.h"
#include "base/clock.h"
#include "base/str.h"
#include "proto/fmt_frame.h"
#include "server/cmd.h"
#include "server/owner.h"
#include "store/store.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct snapshots_values {
	bool none, json;
};

static const struct opt_row rows[] = {
	{ "json", 0, OPT_FLAG, OPT_AT(struct snapshots_values, json), NULL,
	    "one JSON object a line", NULL },
	{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
};

struct item {
	char client[CLIENT_NAME_MAX + 1];
	struct snapshot_record r;
};

struct items {
	struct item *list;
	size_t count, room;
	bool failed;
};

static int collect(void *arg, const char *client,
    const struct snapshot_record *r)
{
	struct items *l = arg;

	if (l->count == l->room) {
		size_t room = l->room ? 2 * l->room : 64;
		struct item *more = reallocarray(l->list, room, sizeof(*more));

		if (!more) {
			l->failed = true;
			return -1;
		}
		l->list = more;
		l->room = room;
	}
	l->list[l->count].r = *r;
	snprintf(l->list[l->count++].client, CLIENT_NAME_MAX + 1, "%s",
	    client);
	return 0;
}

/*
 * ---- facts ----------------------------------------------------------------
 */

struct facts {			/* of one snapshot; asked from the store */
	struct id id;
	struct buf plain;	/* empty: they could not be read */
};

/* Take the wanted object out of a frame. */
static int take_facts(void *arg, const void *frame, size_t size,
    struct err *e)
{
	struct facts *f = arg;
	struct frame_object at;
	struct frame_view v;
	uint8_t *plain;
	int rc;

	if (frame_parse(&v, frame, size, e) != 0)
		return -1;
	plain = malloc(v.plain_size ? v.plain_size : 1);
	if (!plain)
		return err_set(e, ERR_NO_MEMORY, "no memory for a frame");
	rc = frame_unpack(&v, plain, e);
	for (uint32_t i = 0; rc == 0 && i < v.object_count; i++) {
		frame_object_at(&v, i, &at);
		if (at.type == OBJECT_FACTS && id_equal(&at.id, &f->id)) {
			buf_reset(&f->plain);
			buf_add(&f->plain, plain + at.offset, at.size);
		}
	}
	free(plain);
	return rc;
}

static int no_facts(void *arg, const struct id *id, const struct err *why,
    struct err *e)
{
	(void)arg;
	(void)id;
	(void)why;
	(void)e;
	return 0;
}

static void facts_load(struct store_session *ss, struct facts *f)
{
	const struct fetch_ops ops = { .frame = take_facts, .lost = no_facts,
	    .arg = f };
	struct err e;

	buf_reset(&f->plain);
	if (!ss || store_fetch(ss, &f->id, 1, &ops, &e) != 0 ||
	    f->plain.bad || facts_check(f->plain.data, f->plain.size, &e) != 0)
		buf_reset(&f->plain);
}

/*
 * ---- one line -------------------------------------------------------------
 */

static const struct {
	unsigned bit;
	const char *name;
} flags[] = {
	{ SNAPSHOT_CHANGED, "changed" }, { SNAPSHOT_PARTIAL, "partial" },
	{ SNAPSHOT_FUTURE, "future" }, { SNAPSHOT_REDUCED, "reduced" },
};
#define FLAG_COUNT (sizeof(flags) / sizeof(flags[0]))

static void say_json(struct cmd_io *io, const struct item *it,
    const struct facts *f)
{
	char id[2 * SNAPSHOT_ID_SIZE + 1];
	struct json_t *line = json_line("snapshot");
	struct json_t *paths = json_array(), *names = json_array();
	struct slice value;
	unsigned tag;
	size_t pos = 0;

	hex_put(id, it->r.id, SNAPSHOT_ID_SIZE);
	json_object_set_new(line, "id", json_string(id));
	json_object_set_new(line, "client", json_string(it->client));
	json_time(line, "time", it->r.commit_s);
	while (f->plain.size && facts_next(f->plain.data, f->plain.size, &pos,
	    &tag, &value)) {
		struct buf text;

		if (tag != FACT_PATH)
			continue;
		buf_init(&text, 4 * value.size + 16);
		str_escape(&text, value.data, value.size);
		json_array_append_new(paths, str_is_utf8(value.data,
		    value.size) ? json_stringn((const char *)value.data,
		    value.size) : json_stringn((const char *)text.data,
		    text.size));
		buf_release(&text);
	}
	json_object_set_new(line, "paths", paths);
	json_u64(line, "files", it->r.files);
	json_u64(line, "bytes", it->r.bytes);
	json_u64(line, "new_bytes", it->r.new_bytes);
	for (size_t i = 0; i < FLAG_COUNT; i++)
		if (it->r.flags & flags[i].bit)
			json_array_append_new(names,
			    json_string(flags[i].name));
	json_object_set_new(line, "flags", names);
	json_time(line, "proven", it->r.proven_s);
	out_json(io, line);
}

static void say_text(struct cmd_io *io, const struct item *it,
    const struct facts *f)
{
	char id[2 * SNAPSHOT_ID_SIZE + 1], when[CLOCK_TEXT_SIZE], bytes[16];
	char path[1024];
	struct slice value;
	unsigned tag;
	size_t pos = 0;

	hex_put(id, it->r.id, SNAPSHOT_ID_SIZE);
	clock_text(when, it->r.commit_s);
	str_bytes_human(bytes, it->r.bytes);
	out_text(io, "%.12s  %s  %-12s %8" PRIu64 " files %10s", id, when,
	    it->client, it->r.files, bytes);
	while (f->plain.size && facts_next(f->plain.data, f->plain.size, &pos,
	    &tag, &value)) {
		if (tag != FACT_PATH)
			continue;
		str_escape_to(path, sizeof(path), value.data, value.size);
		out_text(io, "  %s", path);
	}
	for (size_t i = 0; i < FLAG_COUNT; i++)
		if (it->r.flags & flags[i].bit)
			out_text(io, "  (%s)", flags[i].name);
	out_text(io, "\n");
}

/* In commit order; a session per run of one client's, for the facts. */
static void say_all(struct owner *o, struct cmd_io *io,
    const struct items *l, bool json)
{
	struct store_session *ss = NULL;
	const char *of = "";
	struct facts f;
	struct err e;

	buf_init(&f.plain, FACTS_MAX);
	for (size_t i = 0; i < l->count && !io->broken; i++) {
		const struct item *it = &l->list[i];

		if (strcmp(of, it->client) != 0) {
			store_session_close(ss);
			ss = NULL;
			of = it->client;
			if (store_session_open(&ss, o->store, of, &e) != 0)
				ss = NULL;	/* then without paths */
		}
		f.id = it->r.facts;
		facts_load(ss, &f);
		(json ? say_json : say_text)(io, it, &f);
	}
	store_session_close(ss);
	buf_release(&f.plain);
}

static int snapshots_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	const struct snapshots_values *v = call->values;
	const char *client = call->count ? call->words[0] : NULL;
	struct items l = { .list = NULL };
	struct client_record *c;
	int rc = 0;

	if (client) {
		c = malloc(sizeof(*c));
		rc = c ? store_client_get(o->store, client, c, e) :
		    err_set(e, ERR_NO_MEMORY, "no memory for a client");
		free(c);
	}
	if (rc != 0)
		return -1;
	(void)store_snapshot_each(o->store, client, collect, &l);
	if (l.failed)
		rc = err_set(e, ERR_NO_MEMORY, "no memory for %zu snapshots",
		    l.count);
	else
		say_all(o, io, &l, v->json);
	free(l.list);
	return rc;
}

const struct cmd cmd_snapshots = {
	.name = "snapshots",
	.synopsis = "[CLIENT] [--json]",
	.summary = "all snapshots, of all clients or of one",
	.args_max = 1,
	.flags = CMD_READS,
	.rows = rows,
	.values_size = sizeof(struct snapshots_values),
	.run = snapshots_run,
};
