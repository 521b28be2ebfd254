/* client/cmd_restore.c - bkclient restore */
#include "client/client.h"
#include "client/cmd.h"
#include "client/open_snap.h"
#include "client/restore.h"
#include "client/verify.h"

#include "base/str.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct restore_opts {
	const char *to, *overwrite, *tag, *path;
	struct opt_list includes, excludes;
	bool delete, dry_run, numeric_ids, verify;
};

static void restore_rows(void *opts, struct opt_row *rows)
{
	struct restore_opts *o = opts;
	const struct opt_row all[] = {
		{ "to", 0, OPT_TEXT, &o->to, "DIR",
		    "where to; made if it is not there", NULL },
		{ "include", 0, OPT_LIST, &o->includes, "PATTERN",
		    "only what matches, and what is below", NULL },
		{ "exclude", 0, OPT_LIST, &o->excludes, "PATTERN",
		    "not what matches", NULL },
		{ "overwrite", 0, OPT_TEXT, &o->overwrite,
		    "never|changed|older|always",
		    "what may be replaced; never if not given", NULL },
		{ "delete", 0, OPT_FLAG, &o->delete, NULL,
		    "remove what the snapshot does not have", NULL },
		{ "dry-run", 0, OPT_FLAG, &o->dry_run, NULL,
		    "name what would be restored", NULL },
		{ "numeric-ids", 0, OPT_FLAG, &o->numeric_ids, NULL,
		    "owners by number, not by name", NULL },
		{ "verify", 0, OPT_FLAG, &o->verify, NULL,
		    "compare everything afterwards", NULL },
		{ "tag", 0, OPT_TEXT, &o->tag, "TAG",
		    "latest: only snapshots with this tag", NULL },
		{ "path", 0, OPT_TEXT, &o->path, "PATH",
		    "latest: only snapshots of this path", NULL },
		{ .name = NULL },
	};

	memcpy(rows, all, sizeof(all));
}

static int parse_overwrite(enum overwrite *out, const char *text,
    struct err *e)
{
	static const char *const words[] = {
		[OVERWRITE_NEVER] = "never", [OVERWRITE_CHANGED] = "changed",
		[OVERWRITE_OLDER] = "older", [OVERWRITE_ALWAYS] = "always",
	};

	*out = OVERWRITE_NEVER;
	if (!text)
		return 0;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (strcmp(words[i], text) == 0) {
			*out = (enum overwrite)i;
			return 0;
		}
	}
	return err_set(e, ERR_USAGE, "--overwrite %.50s: not never, changed, "
	    "older or always", text);
}

static void report(struct client *c, const struct restore_result *r,
    bool dry_run)
{
	char size[16];

	if (c->quiet)
		return;
	str_bytes_human(size, r->bytes);
	progress_clear(&c->progress);
	printf("%s %llu files, %s", dry_run ? "would restore" : "restored",
	    (unsigned long long)r->files, size);
	if (r->kept > 0)
		printf("; kept %llu", (unsigned long long)r->kept);
	if (r->differ > 0)
		printf("; %llu differ and were kept",
		    (unsigned long long)r->differ);
	if (r->deleted > 0)
		printf("; deleted %llu", (unsigned long long)r->deleted);
	printf("\n");
}

static int verdict(const struct restore_result *r, struct err *e)
{
	if (r->lost > 0)
		return err_set(e, ERR_CORRUPT, "%llu items are lost and were "
		    "not restored; each is named above",
		    (unsigned long long)r->lost);
	if (r->failed > 0)
		return err_set(e, ERR_IO, "%llu items could not be restored; "
		    "each is named above", (unsigned long long)r->failed);
	return r->differ > 0 ? 1 : 0;
}

static int verify_after(struct client *c, struct open_snap *s,
    const struct restore_opts *o, struct err *e)
{
	struct verify_options v = { .live = o->to, .to = true,
		.excludes = &o->excludes, .includes = &o->includes };
	struct verify_result r;

	if (verify_run(c, s->fetch, &s->at.entry, S_ISDIR(s->at.entry.mode) ?
	    s->path : s->above, &v, &r, e) != 0)
		return -1;
	if (r.differ + r.missing > 0)
		return err_set(e, ERR_CORRUPT, "what was restored differs "
		    "from the snapshot in %llu places",
		    (unsigned long long)(r.differ + r.missing));
	return 0;
}

static int restore_cmd(struct client *c, void *opts, int argc, char **argv,
    struct err *e)
{
	struct restore_opts *o = opts;
	struct restore_options p = { .to = o->to, .includes = &o->includes,
		.excludes = &o->excludes, .delete = o->delete,
		.dry_run = o->dry_run, .numeric_ids = o->numeric_ids };
	const struct snap_filter filter = { o->tag, o->path };
	struct restore_result r;
	struct open_snap s;
	int rc;

	(void)argc;
	if (!o->to)
		return err_set(e, ERR_USAGE, "restore needs --to DIR");
	if (o->delete && o->to[strspn(o->to, "/.")] == '\0')
		return err_set(e, ERR_USAGE, "--delete and --to %s: refused",
		    o->to);
	if (parse_overwrite(&p.overwrite, o->overwrite, e) != 0 ||
	    open_snap(&s, c, argv[0], &filter, e) != 0)
		return -1;
	progress_release(&c->progress);
	progress_init(&c->progress, "restoring", !c->quiet);
	c->progress.files_total = s.record.files;
	c->progress.bytes_total = S_ISDIR(s.at.entry.mode) &&
	    s.at.entry.name.size == 0 ? s.record.bytes : 0;
	rc = restore_run(c, s.fetch, &s.at.entry,
	    S_ISDIR(s.at.entry.mode) ? s.path : s.above, &p, &r, e);
	if (rc == 0) {
		report(c, &r, o->dry_run);
		rc = verdict(&r, e);
		if (rc >= 0 && o->verify && !o->dry_run &&
		    verify_after(c, &s, o, e) != 0)
			rc = -1;
	}
	close_snap(&s);
	return rc;
}

const struct cmd cmd_restore = {
	.name = "restore",
	.synopsis = "SNAP[:PATH] --to DIR [OPTION...]",
	.summary = "bring a snapshot, or a part of it, back",
	.args_min = 1,
	.args_max = 1,
	.opts_size = sizeof(struct restore_opts),
	.rows = restore_rows,
	.run = restore_cmd,
};
