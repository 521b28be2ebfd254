/* client/push_dry.c - the walk of a push, alone */
#include "client/push_dry.h"

#include "base/io.h"
#include "client/client.h"
#include "client/match.h"
#include "client/out.h"
#include "client/walk.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct dry {
	struct client *client;
	struct push_result *result;
};

static int emit(void *arg, const struct walk_item *it, struct err *e)
{
	struct dry *d = arg;

	(void)e;
	if (it->kind == WALK_LEAVE)
		return 0;
	if (it->kind == WALK_ENTER) {
		d->result->dirs++;
		return 0;
	}
	d->result->files++;
	if (S_ISREG(it->attr.mode))
		d->result->bytes += it->attr.size;
	atomic_fetch_add(&d->client->progress.files, 1);
	progress_tick(&d->client->progress);
	if (d->client->verbose) {
		progress_clear(&d->client->progress);
		out_name(it->path, it->path_size);
		putchar('\n');
	}
	return 0;
}

int push_patterns(struct match **out, const struct push_options *o,
    struct err *e)
{
	if (match_new(out, e) != 0)
		return -1;
	for (size_t i = 0; i < o->quiet_excludes->count; i++)
		if (match_add(*out, o->quiet_excludes->items[i], NULL, e) != 0)
			return -1;
	for (size_t i = 0; i < o->exclude_files->count; i++)
		if (match_add_file(*out, o->exclude_files->items[i], e) != 0)
			return -1;
	for (size_t i = 0; i < o->excludes->count; i++)
		if (match_add(*out, o->excludes->items[i], "option", e) != 0)
			return -1;
	return 0;
}

static int walk(struct client *c, const struct push_options *o,
    const struct walk_options *w, struct push_result *result, struct err *e)
{
	struct dry d = { c, result };
	struct walk_counts counts;

	for (size_t i = 0; i < o->path_count; i++)
		if (walk_roots_add(w->roots, o->paths[i], &c->warn, e) != 0)
			return -1;
	if (walk_roots_check(w->roots, e) != 0 ||
	    walk_run(w, emit, &d, &counts, e) != 0)
		return -1;
	result->vanished = counts.vanished;
	result->unreadable = counts.unreadable;
	result->excluded = counts.excluded;
	return 0;
}

int push_dry_run(struct client *c, const struct push_options *o,
    struct push_result *result, struct err *e)
{
	struct walk_options w = {
		.exclude_caches = o->exclude_caches,
		.one_file_system = o->one_file_system,
		.warn = &c->warn, .stop = &c->stop,
	};
	int rc;

	memset(result, 0, sizeof(*result));
	w.spill_dir = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = walk_roots_new(&w.roots, e);
	if (rc == 0)
		rc = push_patterns(&w.exclude, o, e);
	if (rc == 0)
		rc = walk(c, o, &w, result, e);
	walk_roots_free(w.roots);
	match_free(w.exclude);
	io_close(&w.spill_dir);
	return rc;
}
