/* client/open_snap.c - SNAP[:PATH] from the command line to an entry */
#include "client/open_snap.h"

#include "base/clock.h"
#include "base/str.h"
#include "client/client.h"

#include <stdlib.h>
#include <string.h>

/* "//a/./b/" -> "/a/b"; malloc'd. */
static char *clean_path(const char *path)
{
	char *out = malloc(strlen(path) + 2), *to = out;

	if (!out)
		return NULL;
	while (*(path += strspn(path, "/")) != '\0') {
		size_t size = strcspn(path, "/");

		if (size != 1 || *path != '.') {
			*to++ = '/';
			memcpy(to, path, size);
			to += size;
		}
		path += size;
	}
	if (to == out)
		*to++ = '/';
	*to = '\0';
	return out;
}

static char *path_above(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash == path || !slash ? strdup("/") :
	    strndup(path, (size_t)(slash - path));
}

/* The newest snapshot may be one that lacks files: say so. */
static void note_skipped(struct client *c, const struct snap_list *list,
    const struct snapshot_record *chosen)
{
	size_t newer = 0;

	for (size_t i = 0; i < list->count; i++)
		newer += list->items[i].order > chosen->order &&
		    (list->items[i].flags & SNAPSHOT_PARTIAL) != 0;
	if (newer > 0)
		client_note(c, "%zu newer snapshots are partial (something "
		    "could not be read) and are not \"latest\"; name them by "
		    "id", newer);
}

static int resolve(struct open_snap *s, struct client *c, const char *name,
    const struct snap_filter *filter, struct err *e)
{
	struct snap_list list;
	int rc;

	if (snap_list_get(&list, c->link, e) != 0)
		return -1;
	rc = fetch_new(&s->fetch, c->link, e);
	if (rc == 0)
		rc = snap_resolve(&s->record, &list, s->fetch, name, filter,
		    e);
	if (rc == 0 && strncmp(name, "latest", 6) == 0)
		note_skipped(c, &list, &s->record);
	snap_list_release(&list);
	return rc;
}

/* The newest snapshot may be one of other paths: say which it is. */
static void say_latest(const struct snapshot_record *r, struct err *e)
{
	char id[2 * SNAPSHOT_ID_SIZE + 1], time[CLOCK_TEXT_SIZE];
	struct err why = *e;

	hex_put(id, r->id, SNAPSHOT_ID_SIZE);
	clock_text(time, r->commit_s);
	err_set(e, why.code, "%.300s (latest is %.12s of %s)", why.text, id,
	    time);
}

int open_snap(struct open_snap *s, struct client *c, const char *text,
    const struct snap_filter *filter, struct err *e)
{
	char *copy = strdup(text), *path = NULL;
	int rc = -1;

	memset(s, 0, sizeof(*s));
	if (!copy) {
		err_set(e, ERR_NO_MEMORY, "no memory for a path");
		goto out;
	}
	snap_split(copy, &path);
	s->path = clean_path(path ? path : "/");
	s->above = s->path ? path_above(s->path) : NULL;
	if (!s->above) {
		err_set(e, ERR_NO_MEMORY, "no memory for a path");
		goto out;
	}
	if (client_connect(c, e) != 0 || resolve(s, c, copy, filter, e) != 0)
		goto out;
	rc = snap_find(&s->at, s->fetch, &s->record.root, s->path, e);
	if (rc != 0 && e->code == ERR_NOT_FOUND && copy[0] == 'l')
		say_latest(&s->record, e);
out:
	free(copy);
	if (rc != 0)
		close_snap(s);
	return rc;
}

void close_snap(struct open_snap *s)
{
	if (s->fetch) {
		snap_entry_release(&s->at, s->fetch);
		fetch_free(s->fetch);
	}
	free(s->path);
	free(s->above);
	memset(s, 0, sizeof(*s));
}
