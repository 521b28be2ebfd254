/* client/cmd_push.c - bkclient push */
#include "client/client.h"
#include "client/cmd.h"
#include "client/out.h"
#include "client/push.h"
#include "client/push_dry.h"

#include "base/str.h"
#include "client/snap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct push_opts {
	struct opt_list excludes, exclude_files, tags;
	bool exclude_caches, one_file_system, force_read, dry_run, stats, json;
	const char *compression;
	uint64_t rate;
	bool rate_seen;
};

static void push_rows(void *opts, struct opt_row *rows)
{
	struct push_opts *o = opts;
	const struct opt_row all[] = {
		{ "exclude", 0, OPT_LIST, &o->excludes, "PATTERN",
		    "leave out what matches; see bkclient(1)", NULL },
		{ "exclude-from", 0, OPT_LIST, &o->exclude_files, "FILE",
		    "patterns, one a line", NULL },
		{ "exclude-caches", 0, OPT_FLAG, &o->exclude_caches, NULL,
		    "leave out directories with a CACHEDIR.TAG", NULL },
		{ "one-file-system", 0, OPT_FLAG, &o->one_file_system, NULL,
		    "do not enter other file systems", NULL },
		{ "compression", 0, OPT_TEXT, &o->compression,
		    "lz4|zstd[:N]|none", "of the content; lz4 if not given",
		    NULL },
		{ "limit-rate", 0, OPT_SIZE, &o->rate, "RATE",
		    "bytes a second sent at most", &o->rate_seen },
		{ "tag", 0, OPT_LIST, &o->tags, "TAG",
		    "a word to find the snapshot by", NULL },
		{ "force-read", 0, OPT_FLAG, &o->force_read, NULL,
		    "read every file, also unchanged ones", NULL },
		{ "dry-run", 0, OPT_FLAG, &o->dry_run, NULL,
		    "walk and count, send nothing", NULL },
		{ "stats", 0, OPT_FLAG, &o->stats, NULL,
		    "say what was read and sent", NULL },
		{ "json", 0, OPT_FLAG, &o->json, NULL, "JSON lines", NULL },
		{ .name = NULL },
	};

	memcpy(rows, all, sizeof(all));
}

/* "lz4", "none", "zstd", "zstd:N" */
static int parse_compression(struct push_options *p, const char *text,
    struct err *e)
{
	uint64_t level = 3;

	p->codec = CODEC_LZ4;
	if (!text || strcmp(text, "lz4") == 0)
		return 0;
	if (strcmp(text, "none") == 0) {
		p->codec = CODEC_RAW;
		return 0;
	}
	if (strncmp(text, "zstd", 4) != 0 || (text[4] && text[4] != ':'))
		return err_set(e, ERR_USAGE, "--compression %.50s: not lz4, "
		    "zstd, zstd:N or none", text);
	p->codec = CODEC_ZSTD;
	if (text[4] == ':' && (str_u64(&level, text + 5, 19, e) != 0 ||
	    level == 0))
		return err_set(e, ERR_USAGE, "--compression %.50s: the level "
		    "is 1 to 19", text);
	p->level = (int)level;
	return 0;
}

static void print_json(const struct push_result *r, const char *id)
{
	json_t *o = out_object("summary");

	if (id)
		json_object_set_new(o, "id", json_string(id));
	json_object_set_new(o, "files", json_integer((json_int_t)r->files));
	json_object_set_new(o, "dirs", json_integer((json_int_t)r->dirs));
	json_object_set_new(o, "bytes", json_integer((json_int_t)r->bytes));
	json_object_set_new(o, "read_files",
	    json_integer((json_int_t)r->read_files));
	json_object_set_new(o, "read_bytes",
	    json_integer((json_int_t)r->read_bytes));
	json_object_set_new(o, "new_bytes",
	    json_integer((json_int_t)r->new_bytes));
	json_object_set_new(o, "sent_bytes",
	    json_integer((json_int_t)r->sent_bytes));
	json_object_set_new(o, "vanished",
	    json_integer((json_int_t)r->vanished));
	json_object_set_new(o, "unreadable",
	    json_integer((json_int_t)r->unreadable));
	json_object_set_new(o, "changed",
	    json_integer((json_int_t)r->changed));
	json_object_set_new(o, "excluded",
	    json_integer((json_int_t)r->excluded));
	json_object_set_new(o, "passes", json_integer((json_int_t)r->passes));
	out_line(o);
}

static void print_size(const char *what, uint64_t bytes)
{
	char text[16];

	str_bytes_human(text, bytes);
	printf("%-10s %s\n", what, text);
}

static void print_stats(const struct push_result *r)
{
	printf("files      %llu in %llu directories\n",
	    (unsigned long long)r->files, (unsigned long long)r->dirs);
	print_size("size", r->bytes);
	printf("read       %llu files\n", (unsigned long long)r->read_files);
	print_size("read", r->read_bytes);
	print_size("new", r->new_bytes);
	print_size("sent", r->sent_bytes);
	printf("excluded   %llu\nvanished   %llu\nunreadable %llu\n"
	    "changed    %llu\n", (unsigned long long)r->excluded,
	    (unsigned long long)r->vanished,
	    (unsigned long long)r->unreadable,
	    (unsigned long long)r->changed);
}

/* Of a dry run: nothing was read or sent. */
static void print_plan(const struct push_result *r)
{
	printf("files      %llu in %llu directories\n",
	    (unsigned long long)r->files, (unsigned long long)r->dirs);
	print_size("size", r->bytes);
	printf("excluded   %llu\nunreadable %llu\n",
	    (unsigned long long)r->excluded,
	    (unsigned long long)r->unreadable);
}

static void report(struct client *c, const struct push_opts *o,
    const struct push_result *r)
{
	char id[SNAP_HEX_SIZE];

	hex_put(id, r->record.id, SNAPSHOT_ID_SIZE);
	if ((r->record.flags & SNAPSHOT_REDUCED) != 0)
		warn_add(&c->warn, NULL, 0, "the server wrote this snapshot "
		    "with less redundancy than it should have; see its "
		    "status");
	if (r->vanished > 0 && c->verbose)
		client_note(c, "%llu files vanished while they were read",
		    (unsigned long long)r->vanished);
	progress_clear(&c->progress);
	if (o->stats && !o->json && !o->dry_run)
		print_stats(r);
	if (o->json)
		print_json(r, o->dry_run ? NULL : id);
	else if (o->dry_run)
		print_plan(r);
	else if (!c->quiet)
		printf("%s\n", id);
}

static int push_cmd(struct client *c, void *opts, int argc, char **argv,
    struct err *e)
{
	struct push_opts *o = opts;
	struct push_options p = {
		.paths = argv, .path_count = (size_t)argc,
		.excludes = &o->excludes, .quiet_excludes = &c->excludes,
		.exclude_files = &o->exclude_files, .tags = &o->tags,
		.exclude_caches = o->exclude_caches,
		.one_file_system = o->one_file_system,
		.force_read = o->force_read,
	};
	struct push_result r;
	int rc;

	if (o->rate_seen)
		c->rate_max = o->rate;
	if (argc == 0) {
		p.paths = (char **)(uintptr_t)c->paths.items;
		p.path_count = c->paths.count;
	}
	if (p.path_count == 0)
		return err_set(e, ERR_USAGE, "nothing to push: name a PATH, "
		    "or set path in the configuration");
	if (parse_compression(&p, o->compression, e) != 0)
		return -1;
	progress_release(&c->progress);
	progress_init(&c->progress, "pushing", !c->quiet && !o->json);
	rc = o->dry_run ? push_dry_run(c, &p, &r, e) : push_run(c, &p, &r, e);
	if (rc != 0)
		return -1;
	report(c, o, &r);
	return 0;
}

const struct cmd cmd_push = {
	.name = "push",
	.synopsis = "[PATH...] [--exclude PATTERN] [--tag TAG] ...",
	.summary = "make one snapshot of the paths",
	.args_min = 0,
	.args_max = -1,
	.opts_size = sizeof(struct push_opts),
	.rows = push_rows,
	.run = push_cmd,
};
