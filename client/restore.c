/*
 * client/restore.c - the events of a snapshot, written down.
 *
 * THE PROMISE
 *
 *   Under a final name there is the right content with its attributes, or
 *   what was there before, or nothing.  Whatever cannot be had or written is
 *   named, and costs nothing but itself.
 *
 * TRUST
 *
 *   Nothing that comes from the server is trusted: objects are checked against
 *   their ids (fetch.c), pages against their rules (proto/), every name once
 *   more before it is used, and each is used alone in the descriptor of its
 *   directory (restore_dir.c, D1).
 *
 * SELECTION
 *
 *   Without --include everything is selected but what --exclude takes.  With
 *   it: what matches, and everything below; directories on the way are made
 *   only if something goes in, with their archived attributes, and are left
 *   alone if they were there.
 */
#include "client/restore.h"
#include "client/restore_int.h"

#include "base/io.h"
#include "client/out.h"
#include "proto/fmt_frame.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- telling ------------------------------------------------------------ */

const struct buf *restore_path(struct restore *r, const struct flow_dir *dir,
    const struct slice *name)
{
	buf_reset(&r->path);
	if (strcmp(r->prefix, "/") != 0)
		buf_add(&r->path, r->prefix, strlen(r->prefix));
	flow_path(&r->path, dir, name);
	if (r->path.size == 0)
		buf_u8(&r->path, '/');
	return &r->path;
}

void restore_warn(struct restore *r, const struct flow_dir *dir,
    const struct slice *name, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (!dir)
		name = NULL;	/* the top's own name is in the prefix */
	restore_path(r, dir, name);
	warn_add(&r->client->warn, r->path.data, r->path.size, "%s", text);
}

/* ---- selection ---------------------------------------------------------- */

/* The path or one of the directories above it matches an include. */
static bool is_selected(struct restore *r, const struct buf *path,
    bool is_dir)
{
	if (match_empty(r->include))
		return true;
	if (match_path(r->include, path->data, path->size, 0, is_dir) ==
	    MATCH_YES)
		return true;
	for (size_t at = 1; at < path->size; at++)
		if (path->data[at] == '/' && match_path(r->include,
		    path->data, at, 0, true) == MATCH_YES)
			return true;
	return false;
}

static enum flow_pick pick(void *arg, struct flow_dir *dir,
    const struct tree_entry *entry)
{
	struct restore *r = arg;
	bool is_dir = S_ISDIR(entry->mode);
	const struct buf *path;

	if (match_empty(r->exclude) && match_empty(r->include))
		return FLOW_TAKE;
	path = restore_path(r, dir, &entry->name);
	if (match_path(r->exclude, path->data, path->size, 0, is_dir) ==
	    MATCH_YES)
		return FLOW_SKIP;
	if (is_selected(r, path, is_dir))
		return FLOW_TAKE;
	return is_dir && match_below(r->include, path->data, path->size) ?
	    FLOW_TAKE : FLOW_SKIP;
}

/* Content is requested ahead where nothing can be there already. */
static enum flow_need need(void *arg, struct flow_dir *dir,
    const struct tree_entry *entry)
{
	struct restore *r = arg;

	if (r->o->dry_run)
		return FLOW_NEED_NOTHING;
	if (entry->link != 0)
		return FLOW_NEED_ASK;
	if (r->o->overwrite == OVERWRITE_ALWAYS)
		return FLOW_NEED_DATA;
	return restore_is_new(r, dir, &entry->name) ? FLOW_NEED_DATA :
	    FLOW_NEED_ASK;
}

/* ---- events ------------------------------------------------------------- */

static void say(struct restore *r, const char *what,
    const struct flow_dir *dir, const struct slice *name)
{
	const struct buf *path = restore_path(r, dir, name);

	progress_clear(&r->client->progress);
	printf("%s", what);
	out_name(path->data, path->size);
	putchar('\n');
}

/* --dry-run: what would be written. */
static void dry_item(struct restore *r, const struct flow_event *ev)
{
	r->result->files++;
	r->result->bytes += ev->entry->size;
	if (!r->client->quiet)
		say(r, "would restore ", ev->dir, &ev->entry->name);
}

static int on_enter(struct restore *r, const struct flow_event *ev,
    struct err *e)
{
	const struct buf *path;

	if (!ev->dir->parent) {		/* the target stands for it */
		r->top->flow = ev->dir;
		ev->dir->user = r->top;
		ev->dir->mark = r->top->fresh ? AHEAD_NEW : AHEAD_THERE;
		return 0;
	}
	if (!r->top->skip && r->top->there)
		restore_delete_until(r, &ev->dir->entry.name);
	path = restore_path(r, ev->dir, NULL);
	return restore_dir_enter(r, ev->dir, is_selected(r, path, true), e);
}

static int on_item(struct restore *r, const struct flow_event *ev,
    struct err *e)
{
	memset(&r->file, 0, sizeof(r->file));
	r->file.fd = r->file.old = -1;
	if (r->top->skip) {
		flow_set_need(r->flow, FLOW_NEED_NOTHING);
		return 0;
	}
	if (r->o->dry_run) {
		dry_item(r, ev);
		return 0;
	}
	if (r->top->there)
		restore_delete_until(r, &ev->entry->name);
	if (r->client->verbose)
		say(r, "", ev->dir, &ev->entry->name);
	if (S_ISREG(ev->entry->mode))
		restore_file_begin(r, ev);
	else
		return restore_node(r, ev, e);
	return 0;
}

static void on_lost(struct restore *r, const struct flow_event *ev)
{
	r->result->lost++;
	r->top->incomplete = true;
	restore_warn(r, ev->dir, NULL, "a part of this directory is lost: "
	    "its entries, and what is below them, cannot be named");
}

static int take(struct restore *r, const struct flow_event *ev,
    struct err *e)
{
	switch (ev->kind) {
	case FLOW_ENTER:
		return on_enter(r, ev, e);
	case FLOW_LEAVE:
		/* "/" of a snapshot has no attributes of its own. */
		if (!ev->dir->parent && ev->dir->entry.name.size == 0)
			r->top->ours = false;
		restore_dir_leave(r);
		return 0;
	case FLOW_ITEM:
		return on_item(r, ev, e);
	case FLOW_CHUNK:
		return restore_file_chunk(r, ev, e);
	case FLOW_HOLE:
		restore_file_hole(r, ev);
		return 0;
	case FLOW_END:
		return restore_file_end(r, ev, e);
	default:
		on_lost(r, ev);
		return 0;
	}
}

static int events(struct restore *r, struct err *e)
{
	struct flow_event ev;

	for (;;) {
		if (atomic_load(&r->client->stop))
			return err_set(e, ERR_CANCELLED, "stopped");
		if (flow_next(r->flow, &ev, e) != 0)
			return -1;
		if (ev.kind == FLOW_DONE)
			return 0;
		if (take(r, &ev, e) != 0)
			return -1;
		progress_tick(&r->client->progress);
	}
}

/* ---- life --------------------------------------------------------------- */

static int add_all(struct match **out, const struct opt_list *list,
    struct err *e)
{
	if (match_new(out, e) != 0)
		return -1;
	for (size_t i = 0; i < list->count; i++)
		if (match_add(*out, list->items[i], "pattern", e) != 0)
			return -1;
	return 0;
}

static int prepare(struct restore *r, const struct tree_entry *entry,
    struct err *e)
{
	const struct flow_ops ops = { .pick = pick, .need = need, .arg = r };
	const char *tmp = getenv("TMPDIR");

	r->bytes = malloc(FRAME_PLAIN_MAX);
	if (!r->bytes)
		return err_set(e, ERR_NO_MEMORY, "no memory to restore");
	if (names_new(&r->names, e) != 0 ||
	    link_table_new(&r->links, tmp && *tmp ? tmp : "/tmp", e) != 0 ||
	    add_all(&r->include, r->o->includes, e) != 0 ||
	    add_all(&r->exclude, r->o->excludes, e) != 0 ||
	    flow_new(&r->flow, r->fetch, &ops, e) != 0)
		return -1;
	if (restore_dir_top(r, e) != 0)
		return -1;
	return flow_start(r->flow, entry, e);
}

static void tell_patterns(struct restore *r)
{
	const char *text;
	size_t pos = 0;

	while ((text = match_unused(r->exclude, &pos)) != NULL)
		client_note(r->client, "the pattern %s matched nothing",
		    text);
	for (pos = 0; (text = match_unused(r->include, &pos)) != NULL;)
		warn_add(&r->client->warn, text, strlen(text),
		    "this pattern matched nothing");
}

static void release(struct restore *r)
{
	restore_file_abandon(r);
	restore_dir_free_all(r);
	io_close(&r->ahead_fd);
	flow_free(r->flow);
	names_free(r->names);
	link_table_free(r->links);
	match_free(r->include);
	match_free(r->exclude);
	buf_release(&r->path);
	free(r->bytes);
}

static void tell_not_permitted(struct restore *r)
{
	const struct restore_result *res = r->result;

	if (res->owners + res->attributes == 0)
		return;
	warn_add(&r->client->warn, NULL, 0, "not permitted to set the owner "
	    "of %llu items and %llu other attributes; they are as an ordinary "
	    "user could set them", (unsigned long long)res->owners,
	    (unsigned long long)res->attributes);
}

int restore_run(struct client *c, struct fetch *f,
    const struct tree_entry *entry, const char *path,
    const struct restore_options *o, struct restore_result *result,
    struct err *e)
{
	struct restore r = { .client = c, .fetch = f, .o = o,
		.result = result, .prefix = path, .root = geteuid() == 0 };
	int rc;

	memset(result, 0, sizeof(*result));
	r.file.fd = r.file.old = r.ahead_fd = -1;
	buf_init(&r.path, SIZE_MAX / 2);
	rc = prepare(&r, entry, e);
	if (rc == 0)
		rc = events(&r, e);
	if (rc == 0) {
		tell_patterns(&r);
		tell_not_permitted(&r);
	}
	release(&r);
	return rc;
}
