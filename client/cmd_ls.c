/* client/cmd_ls.c - bkclient ls */
#include "client/client.h"
#include "client/cmd.h"
#include "client/flow.h"
#include "client/open_snap.h"
#include "client/out.h"

#include "base/buf.h"
#include "base/clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct ls_opts {
	bool recursive, json;
	const char *tag, *path;
};

struct lister {
	const struct ls_opts *o;
	const char *prefix;
	struct buf path;
};

static void ls_rows(void *opts, struct opt_row *rows)
{
	struct ls_opts *o = opts;
	const struct opt_row all[] = {
		{ "recursive", 'R', OPT_FLAG, &o->recursive, NULL,
		    "directories below too", NULL },
		{ "json", 0, OPT_FLAG, &o->json, NULL, "JSON lines", NULL },
		{ "tag", 0, OPT_TEXT, &o->tag, "TAG",
		    "latest: only snapshots with this tag", NULL },
		{ "path", 0, OPT_TEXT, &o->path, "PATH",
		    "latest: only snapshots of this path", NULL },
		{ .name = NULL },
	};

	memcpy(rows, all, sizeof(all));
}

static char type_letter(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR: return 'd';
	case S_IFLNK: return 'l';
	case S_IFCHR: return 'c';
	case S_IFBLK: return 'b';
	case S_IFIFO: return 'p';
	case S_IFSOCK: return 's';
	default: return '-';
	}
}

static void mode_text(char out[static 11], uint32_t mode)
{
	static const char letters[] = "rwxrwxrwx";

	out[0] = type_letter(mode);
	for (int i = 0; i < 9; i++)
		out[1 + i] = (mode & (0400u >> i)) ? letters[i] : '-';
	if (mode & S_ISUID)
		out[3] = (mode & S_IXUSR) ? 's' : 'S';
	if (mode & S_ISGID)
		out[6] = (mode & S_IXGRP) ? 's' : 'S';
	if (mode & S_ISVTX)
		out[9] = (mode & S_IXOTH) ? 't' : 'T';
	out[10] = '\0';
}

static const char *type_word(uint32_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR: return "directory";
	case S_IFLNK: return "symlink";
	case S_IFCHR: return "character device";
	case S_IFBLK: return "block device";
	case S_IFIFO: return "fifo";
	case S_IFSOCK: return "socket";
	default: return "file";
	}
}

static void print_json(struct lister *l, const struct tree_entry *n)
{
	json_t *o = out_object("entry");
	char time[CLOCK_TEXT_SIZE], mode[8];

	out_path(o, "path", l->path.data, l->path.size);
	json_object_set_new(o, "kind", json_string(type_word(n->mode)));
	(void)snprintf(mode, sizeof(mode), "%04o", n->mode & 07777);
	json_object_set_new(o, "mode", json_string(mode));
	json_object_set_new(o, "uid", json_integer(n->uid));
	json_object_set_new(o, "gid", json_integer(n->gid));
	if (n->user.size > 0)
		out_path(o, "user", n->user.data, n->user.size);
	if (n->group.size > 0)
		out_path(o, "group", n->group.data, n->group.size);
	json_object_set_new(o, "size", json_integer((json_int_t)(
	    S_ISDIR(n->mode) ? n->bytes_below : n->size)));
	clock_text_ns(time, n->mtime_s, n->mtime_ns);
	json_object_set_new(o, "mtime", json_string(time));
	json_object_set_new(o, "mtime_s", json_integer(n->mtime_s));
	json_object_set_new(o, "mtime_ns", json_integer(n->mtime_ns));
	if (S_ISLNK(n->mode))
		out_path(o, "target", n->symlink.data, n->symlink.size);
	if (n->state & TREE_STATE_CHANGED)
		json_object_set_new(o, "changed", json_true());
	if (n->state & TREE_STATE_DAMAGED)
		json_object_set_new(o, "damaged", json_true());
	out_line(o);
}

static void print_text(struct lister *l, const struct tree_entry *n)
{
	char mode[11], time[CLOCK_TEXT_SIZE];

	mode_text(mode, n->mode);
	clock_text(time, n->mtime_s);
	printf("%s %5u:%-5u %12llu %s ", mode, n->uid, n->gid,
	    (unsigned long long)(S_ISDIR(n->mode) ? n->bytes_below : n->size),
	    time);
	out_name(l->path.data, l->path.size);
	if (S_ISLNK(n->mode)) {
		printf(" -> ");
		out_name(n->symlink.data, n->symlink.size);
	}
	if (n->state & TREE_STATE_CHANGED)
		printf(" (changed while it was read)");
	if (n->state & TREE_STATE_DAMAGED)
		printf(" (incomplete)");
	putchar('\n');
}

static void print(struct lister *l, const struct flow_dir *dir,
    const struct tree_entry *n)
{
	buf_reset(&l->path);
	if (strcmp(l->prefix, "/") != 0)
		buf_add(&l->path, l->prefix, strlen(l->prefix));
	flow_path(&l->path, dir, &n->name);
	if (l->o->json)
		print_json(l, n);
	else
		print_text(l, n);
}

/* Without -R the children of the top are printed as they are met, and skipped:
 * no page below is read. */
static enum flow_pick pick(void *arg, struct flow_dir *dir,
    const struct tree_entry *entry)
{
	struct lister *l = arg;

	if (l->o->recursive)
		return FLOW_TAKE;
	print(l, dir, entry);
	return FLOW_SKIP;
}

static enum flow_need need(void *arg, struct flow_dir *dir,
    const struct tree_entry *entry)
{
	(void)arg;
	(void)dir;
	(void)entry;
	return FLOW_NEED_NOTHING;
}

static int list(struct client *c, struct lister *l, struct flow *flow,
    struct err *e)
{
	struct flow_event ev;

	for (;;) {
		if (atomic_load(&c->stop) || ferror(stdout))
			return err_set(e, ERR_CANCELLED, "stopped");
		if (flow_next(flow, &ev, e) != 0)
			return -1;
		if (ev.kind == FLOW_DONE)
			return 0;
		if (ev.kind == FLOW_ITEM)
			print(l, ev.dir, ev.entry);
		else if (ev.kind == FLOW_ENTER && ev.dir->parent)
			print(l, ev.dir->parent, &ev.dir->entry);
		else if (ev.kind == FLOW_LOST) {
			buf_reset(&l->path);
			flow_path(&l->path, ev.dir, NULL);
			warn_add(&c->warn, l->path.data, l->path.size,
			    "a part of this directory is lost");
		}
	}
}

static int ls_cmd(struct client *c, void *opts, int argc, char **argv,
    struct err *e)
{
	const struct ls_opts *o = opts;
	const struct snap_filter filter = { o->tag, o->path };
	struct lister l = { .o = o };
	const struct flow_ops ops = { .pick = pick, .need = need, .arg = &l };
	struct flow *flow = NULL;
	struct open_snap s;
	int rc;

	(void)argc;
	if (open_snap(&s, c, argv[0], &filter, e) != 0)
		return -1;
	buf_init(&l.path, SIZE_MAX / 2);
	l.prefix = S_ISDIR(s.at.entry.mode) ? s.path : s.above;
	rc = flow_new(&flow, s.fetch, &ops, e);
	if (rc == 0)
		rc = flow_start(flow, &s.at.entry, e);
	if (rc == 0)
		rc = list(c, &l, flow, e);
	flow_free(flow);
	buf_release(&l.path);
	close_snap(&s);
	return rc;
}

const struct cmd cmd_ls = {
	.name = "ls",
	.synopsis = "SNAP[:PATH] [-R] [--json]",
	.summary = "list a directory of a snapshot",
	.args_min = 1,
	.args_max = 1,
	.opts_size = sizeof(struct ls_opts),
	.rows = ls_rows,
	.run = ls_cmd,
};
