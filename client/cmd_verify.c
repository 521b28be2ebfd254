/* client/cmd_verify.c - bkclient verify */
#include "client/client.h"
#include "client/cmd.h"
#include "client/open_snap.h"
#include "client/verify.h"
#include "client/walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct verify_opts {
	struct opt_list excludes;
	const char *tag, *path;
};

static void verify_rows(void *opts, struct opt_row *rows)
{
	struct verify_opts *o = opts;
	const struct opt_row all[] = {
		{ "exclude", 0, OPT_LIST, &o->excludes, "PATTERN",
		    "do not compare what matches", NULL },
		{ "tag", 0, OPT_TEXT, &o->tag, "TAG",
		    "latest: only snapshots with this tag", NULL },
		{ "path", 0, OPT_TEXT, &o->path, "PATH",
		    "latest: only snapshots of this path", NULL },
		{ .name = NULL },
	};

	memcpy(rows, all, sizeof(all));
}

static void add(struct verify_result *sum, const struct verify_result *r)
{
	sum->equal += r->equal;
	sum->differ += r->differ;
	sum->missing += r->missing;
	sum->extra += r->extra;
	sum->lost += r->lost;
}

/* Compare what the snapshot has at `path` with what is there now. */
static int verify_path(struct client *c, struct open_snap *s,
    const char *path, const struct verify_opts *o, struct verify_result *sum,
    struct err *e)
{
	struct verify_options v = { .excludes = &o->excludes,
		.more_excludes = &c->excludes };
	struct verify_result r;
	struct snap_entry at;
	const char *slash = strrchr(path, '/');
	char *above;
	bool is_dir;
	int rc;

	if (snap_find(&at, s->fetch, &s->record.root, path, e) != 0)
		return -1;
	above = slash && slash != path ?
	    strndup(path, (size_t)(slash - path)) : strdup("/");
	is_dir = S_ISDIR(at.entry.mode);
	v.live = is_dir ? path : above;
	rc = above ? verify_run(c, s->fetch, &at.entry, v.live, &v, &r, e) :
	    err_set(e, ERR_NO_MEMORY, "no memory for a path");
	if (rc == 0)
		add(sum, &r);
	free(above);
	snap_entry_release(&at, s->fetch);
	return rc;
}

/* The paths that were pushed. */
static int verify_facts(struct client *c, struct open_snap *s,
    const struct verify_opts *o, struct verify_result *sum, struct err *e)
{
	struct slice value;
	struct buf facts;
	size_t pos = 0;
	unsigned tag;
	int rc;

	rc = snap_facts(&facts, s->fetch, &s->record.facts, e);
	while (rc == 0 && facts_next(facts.data, facts.size, &pos, &tag,
	    &value)) {
		char *path;

		if (tag != FACT_PATH)
			continue;
		path = strndup((const char *)value.data, value.size);
		rc = path ? verify_path(c, s, path, o, sum, e) :
		    err_set(e, ERR_NO_MEMORY, "no memory for a path");
		free(path);
	}
	buf_release(&facts);
	return rc;
}

/* A path as typed. */
static int verify_word(struct client *c, struct open_snap *s,
    const char *word, const struct verify_opts *o, struct verify_result *sum,
    struct err *e)
{
	char *path = walk_path_absolute(word);
	int rc = path ? verify_path(c, s, path, o, sum, e) :
	    err_set(e, ERR_NO_MEMORY, "no memory for a path");

	free(path);
	return rc;
}

static int verify_cmd(struct client *c, void *opts, int argc, char **argv,
    struct err *e)
{
	const struct verify_opts *o = opts;
	const struct snap_filter filter = { o->tag, o->path };
	struct verify_result sum = { 0 };
	struct open_snap s;
	int rc = 0;

	if (open_snap(&s, c, argv[0], &filter, e) != 0)
		return -1;
	progress_release(&c->progress);
	progress_init(&c->progress, "comparing", !c->quiet);
	if (argc == 1 && strcmp(s.path, "/") == 0)
		rc = verify_facts(c, &s, o, &sum, e);
	else if (argc == 1)
		rc = verify_path(c, &s, s.path, o, &sum, e);
	for (int i = 1; rc == 0 && i < argc; i++)
		rc = verify_word(c, &s, argv[i], o, &sum, e);
	close_snap(&s);
	progress_clear(&c->progress);
	if (rc != 0)
		return -1;
	if (!c->quiet)
		printf("%llu equal, %llu changed, %llu missing, %llu new\n",
		    (unsigned long long)sum.equal,
		    (unsigned long long)sum.differ,
		    (unsigned long long)sum.missing,
		    (unsigned long long)sum.extra);
	if (sum.lost > 0)
		return err_set(e, ERR_CORRUPT, "%llu pages of the snapshot "
		    "are lost", (unsigned long long)sum.lost);
	return sum.differ + sum.missing + sum.extra > 0 ? 1 : 0;
}

const struct cmd cmd_verify = {
	.name = "verify",
	.synopsis = "SNAP[:PATH] [PATH...]",
	.summary = "compare a snapshot with the live files",
	.args_min = 1,
	.args_max = -1,
	.opts_size = sizeof(struct verify_opts),
	.rows = verify_rows,
	.run = verify_cmd,
};
