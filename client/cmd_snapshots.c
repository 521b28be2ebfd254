/* client/cmd_snapshots.c - bkclient snapshots */
#include "client/client.h"
#include "client/cmd.h"
#include "client/fetch.h"
#include "client/out.h"
#include "client/snap.h"

#include "base/clock.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>

#define SHORT_ID 12

struct snapshots_opts {
	bool json;
};

static void snapshots_rows(void *opts, struct opt_row *rows)
{
	struct snapshots_opts *o = opts;
	const struct opt_row all[] = {
		{ "json", 0, OPT_FLAG, &o->json, NULL, "JSON lines", NULL },
		{ .name = NULL },
	};

	memcpy(rows, all, sizeof(all));
}

static const struct {
	unsigned bit;
	const char *name;
} flag_names[] = {
	{ SNAPSHOT_CHANGED, "changed" },
	{ SNAPSHOT_PARTIAL, "partial" },
	{ SNAPSHOT_FUTURE, "future" },
	{ SNAPSHOT_REDUCED, "reduced" },
};
#define FLAG_COUNT (sizeof(flag_names) / sizeof(flag_names[0]))

static void print_json(struct client *c, const struct snapshot_record *r,
    const struct buf *facts)
{
	json_t *o = out_object("snapshot"), *paths = json_array(),
	    *tags = json_array(), *flags = json_array();
	char id[SNAP_HEX_SIZE], time[CLOCK_TEXT_SIZE];
	struct slice value;
	unsigned tag;
	size_t pos = 0;
	struct buf text;

	hex_put(id, r->id, SNAPSHOT_ID_SIZE);
	clock_text(time, r->commit_s);
	json_object_set_new(o, "id", json_string(id));
	json_object_set_new(o, "client", json_string(c->name ? c->name : ""));
	json_object_set_new(o, "time", json_string(time));
	while (facts_next(facts->data, facts->size, &pos, &tag, &value)) {
		buf_init(&text, FACTS_MAX * 4);
		str_escape(&text, value.data, value.size);
		if (tag == FACT_PATH || tag == FACT_TAG)
			json_array_append_new(tag == FACT_PATH ? paths : tags,
			    json_stringn((char *)text.data, text.size));
		else if (tag == FACT_HOST)
			json_object_set_new(o, "host",
			    json_stringn((char *)text.data, text.size));
		buf_release(&text);
	}
	json_object_set_new(o, "paths", paths);
	json_object_set_new(o, "tags", tags);
	json_object_set_new(o, "files", json_integer((json_int_t)r->files));
	json_object_set_new(o, "bytes", json_integer((json_int_t)r->bytes));
	json_object_set_new(o, "new_bytes",
	    json_integer((json_int_t)r->new_bytes));
	for (size_t i = 0; i < FLAG_COUNT; i++)
		if (r->flags & flag_names[i].bit)
			json_array_append_new(flags,
			    json_string(flag_names[i].name));
	json_object_set_new(o, "flags", flags);
	clock_text(time, r->proven_s);
	json_object_set_new(o, "proven", r->proven_s ? json_string(time) :
	    json_null());
	out_line(o);
}

static void print_text(const struct snapshot_record *r,
    const struct buf *facts)
{
	char id[SNAP_HEX_SIZE], time[CLOCK_TEXT_SIZE], size[16], fresh[16];
	struct slice value;
	unsigned tag;
	size_t pos = 0;

	hex_put(id, r->id, SNAPSHOT_ID_SIZE);
	id[SHORT_ID] = '\0';
	clock_text(time, r->commit_s);
	str_bytes_human(size, r->bytes);
	str_bytes_human(fresh, r->new_bytes);
	printf("%s  %s  %9llu files  %10s  new %10s ", id, time,
	    (unsigned long long)r->files, size, fresh);
	while (facts_next(facts->data, facts->size, &pos, &tag, &value)) {
		if (tag != FACT_PATH && tag != FACT_TAG)
			continue;
		printf(tag == FACT_TAG ? " #" : " ");
		out_name(value.data, value.size);
	}
	for (size_t i = 0; i < FLAG_COUNT; i++)
		if (r->flags & flag_names[i].bit)
			printf(" (%s)", flag_names[i].name);
	putchar('\n');
}

/* Facts are asked for together; each is small. */
static int print_all(struct client *c, const struct snap_list *list,
    struct fetch *f, bool json, struct err *e)
{
	enum { AHEAD = 256 };
	struct fetch_object *ahead[AHEAD];
	struct buf facts;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < list->count; i++) {
		size_t held = 0;

		if (i % AHEAD == 0) {
			for (size_t k = i; k < list->count && held < AHEAD;
			    k++)
				if (!id_is_zero(&list->items[k].facts) &&
				    fetch_want(&ahead[held], f,
				    &list->items[k].facts, OBJECT_FACTS, 4096,
				    e) == 0)
					held++;
			rc = fetch_send(f, e);
		}
		if (rc == 0 && snap_facts(&facts, f, &list->items[i].facts,
		    e) != 0) {
			if (e->code == ERR_DENIED)
				return -1;
			warn_add(&c->warn, NULL, 0, "%s", e->text);
			rc = fetch_poll(f, e);
			buf_reset(&facts);
		}
		if (rc == 0) {
			if (json)
				print_json(c, &list->items[i], &facts);
			else
				print_text(&list->items[i], &facts);
			buf_release(&facts);
		}
		while (held > 0)
			fetch_drop(f, ahead[--held]);
	}
	return rc;
}

static int snapshots_cmd(struct client *c, void *opts, int argc, char **argv,
    struct err *e)
{
	const struct snapshots_opts *o = opts;
	struct snap_list list;
	struct fetch *f;
	int rc;

	(void)argc;
	(void)argv;
	if (client_connect(c, e) != 0 || snap_list_get(&list, c->link, e) != 0)
		return -1;
	rc = fetch_new(&f, c->link, e);
	if (rc == 0) {
		rc = print_all(c, &list, f, o->json, e);
		fetch_free(f);
	}
	snap_list_release(&list);
	return rc;
}

const struct cmd cmd_snapshots = {
	.name = "snapshots",
	.synopsis = "[--json]",
	.summary = "list the snapshots of this client",
	.args_min = 0,
	.args_max = 0,
	.opts_size = sizeof(struct snapshots_opts),
	.rows = snapshots_rows,
	.run = snapshots_cmd,
};
