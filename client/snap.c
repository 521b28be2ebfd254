/* client/snap.c - the list of snapshots, SNAP, and PATH inside one */
#include "client/snap.h"

#include "base/clock.h"
#include "base/str.h"
#include "client/link.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX_MIN 6
#define PAGE_GUESS (32u << 10)

static int list_add(struct snap_list *s, const struct snapshot_record *r,
    struct err *e)
{
	if (s->count == SNAPSHOTS_CLIENT_MAX)
		return err_set(e, ERR_PROTOCOL, "the server lists more than "
		    "%u snapshots", SNAPSHOTS_CLIENT_MAX);
	if (s->count == s->room) {
		size_t room = s->room ? 2 * s->room : 64;
		void *more = realloc(s->items, room * sizeof(*r));

		if (!more)
			return err_set(e, ERR_NO_MEMORY,
			    "no memory for the snapshots");
		s->items = more;
		s->room = room;
	}
	s->items[s->count++] = *r;
	return 0;
}

/* One message of the answer: 1 = more to come, 0 = the end. */
static int list_take(struct snap_list *s, const struct wire_msg *m,
    struct err *e)
{
	struct snapshot_record r;

	if (m->type == MSG_END)
		return 0;
	if (m->type != MSG_SNAPSHOT)
		return err_set(e, ERR_PROTOCOL, "message 0x%02x among "
		    "snapshots", m->type);
	if (snapshot_record_get(&r, m->body, m->size, e) != 0 ||
	    list_add(s, &r, e) != 0)
		return -1;
	return 1;
}

static int by_order(const void *a, const void *b)
{
	const struct snapshot_record *x = a, *y = b;

	return (x->order > y->order) - (x->order < y->order);
}

int snap_list_get(struct snap_list *out, struct link *l, struct err *e)
{
	struct snap_list s = { 0 };
	struct wire_msg m;
	int rc;

	rc = link_send(l, MSG_SNAPSHOTS, link_request(l), NULL, 0, e);
	if (rc == 0)
		rc = 1;
	while (rc == 1) {
		rc = link_recv(l, &m, e);
		if (rc != 0)
			break;
		rc = list_take(&s, &m, e);
		wire_msg_release(&m);
	}
	if (rc != 0) {
		snap_list_release(&s);
		return -1;
	}
	if (s.count > 0)
		qsort(s.items, s.count, sizeof(s.items[0]), by_order);
	*out = s;
	return 0;
}

void snap_list_release(struct snap_list *s)
{
	free(s->items);
	memset(s, 0, sizeof(*s));
}

void snap_split(char *text, char **path)
{
	char *at = strstr(text, ":/");

	*path = NULL;
	if (at) {
		*at = '\0';
		*path = at + 1;
	}
}

int snap_facts(struct buf *out, struct fetch *f, const struct id *facts,
    struct err *e)
{
	struct fetch_object *o;
	int rc;

	buf_init(out, FACTS_MAX);
	if (id_is_zero(facts))
		return 0;
	if (fetch_want(&o, f, facts, OBJECT_FACTS, 4096, e) != 0)
		return -1;
	rc = fetch_wait(f, o, e);
	if (rc == 0 && o->state == FETCH_LOST)
		rc = err_set(e, o->why, "the facts of a snapshot are lost");
	if (rc == 0)
		rc = facts_check(o->data, o->size, e);
	if (rc == 0) {
		buf_add(out, o->data, o->size);
		rc = buf_ok(out, "facts", e);
	}
	fetch_drop(f, o);
	return rc;
}

static bool has_fact(const struct buf *facts, unsigned want, const char *text)
{
	struct slice value;
	unsigned tag;
	size_t pos = 0;

	while (facts_next(facts->data, facts->size, &pos, &tag, &value))
		if (tag == want && value.size == strlen(text) &&
		    memcmp(value.data, text, value.size) == 0)
			return true;
	return false;
}

/* 1 = it passes the filter, 0 = not, -1. */
static int passes(const struct snapshot_record *r, struct fetch *f,
    const struct snap_filter *filter, struct err *e)
{
	struct buf facts;
	int rc;

	if (!filter || (!filter->tag && !filter->path))
		return 1;
	rc = snap_facts(&facts, f, &r->facts, e);
	if (rc == 0)
		rc = (!filter->tag || has_fact(&facts, FACT_TAG,
		    filter->tag)) && (!filter->path || has_fact(&facts,
		    FACT_PATH, filter->path));
	buf_release(&facts);
	return rc;
}

/* The newest that was committed until then: 1 = found, 0 = none, -1. */
static int newest(struct snapshot_record *out, const struct snap_list *list,
    struct fetch *f, int64_t until, bool partial,
    const struct snap_filter *filter, struct err *e)
{
	for (size_t i = list->count; i-- > 0;) {
		const struct snapshot_record *r = &list->items[i];
		int rc;

		if ((!partial && (r->flags & SNAPSHOT_PARTIAL) != 0) ||
		    r->commit_s > until)
			continue;
		rc = passes(r, f, filter, e);
		if (rc != 0) {
			*out = *r;
			return rc;
		}
	}
	return 0;
}

/* A partial one only where there is no complete one. */
static int resolve_latest(struct snapshot_record *out,
    const struct snap_list *list, struct fetch *f, const char *time,
    const struct snap_filter *filter, struct err *e)
{
	int64_t until = INT64_MAX;
	int rc;

	if (time && clock_parse(&until, time, e) != 0)
		return -1;
	rc = newest(out, list, f, until, false, filter, e);
	if (rc == 0)
		rc = newest(out, list, f, until, true, filter, e);
	if (rc != 0)
		return rc == 1 ? 0 : -1;
	return err_set(e, ERR_NOT_FOUND, "no snapshot%s%s%s",
	    time ? " until " : "", time ? time : "",
	    filter && (filter->tag || filter->path) ?
	    " with this tag and path" : "");
}

static bool is_hex(const char *text)
{
	return text[strspn(text, "0123456789abcdef")] == '\0';
}

int snap_resolve(struct snapshot_record *out, const struct snap_list *list,
    struct fetch *f, const char *text, const struct snap_filter *filter,
    struct err *e)
{
	const struct snapshot_record *found = NULL;
	size_t size = strlen(text);
	char hex[SNAP_HEX_SIZE];

	if (strcmp(text, "latest") == 0)
		return resolve_latest(out, list, f, NULL, filter, e);
	if (strncmp(text, "latest@", 7) == 0)
		return resolve_latest(out, list, f, text + 7, filter, e);
	if (size < PREFIX_MIN || size >= SNAP_HEX_SIZE || !is_hex(text))
		return err_set(e, ERR_USAGE, "%.100s: not a snapshot id (at "
		    "least %d hex digits), latest or latest@TIME", text,
		    PREFIX_MIN);
	for (size_t i = 0; i < list->count; i++) {
		hex_put(hex, list->items[i].id, SNAPSHOT_ID_SIZE);
		if (strncmp(hex, text, size) != 0)
			continue;
		if (found)
			return err_set(e, ERR_USAGE, "%s: several snapshots "
			    "begin so", text);
		found = &list->items[i];
	}
	if (!found)
		return err_set(e, ERR_NOT_FOUND, "no snapshot %s", text);
	*out = *found;
	return 0;
}

/* ---- a path inside ------------------------------------------------------ */

static int slice_cmp(const struct slice *a, const struct slice *b)
{
	size_t size = a->size < b->size ? a->size : b->size;
	int c = memcmp(a->data, b->data, size);

	return c != 0 ? c : (a->size > b->size) - (a->size < b->size);
}

/* The child of an index page that may hold the name; false if none. */
static bool choose_child(const struct tree_page *p, const struct slice *name,
    struct id *out)
{
	struct tree_child child;
	size_t pos = 0;
	bool found = false;

	while (tree_page_child(p, &pos, &child)) {
		if (found && slice_cmp(&child.first, name) > 0)
			break;
		*out = child.id;
		found = true;
	}
	return found;
}

static bool choose_entry(const struct tree_page *p, const struct slice *name,
    struct tree_entry *out)
{
	size_t pos = 0;

	while (tree_page_entry(p, &pos, out))
		if (slice_cmp(&out->name, name) == 0)
			return true;
	return false;
}

static int get_page(struct fetch_object **out, struct tree_page *page,
    struct fetch *f, const struct id *id, struct err *e)
{
	struct fetch_object *o;
	int rc;

	if (fetch_want(&o, f, id, OBJECT_TREE, PAGE_GUESS, e) != 0)
		return -1;
	rc = fetch_wait(f, o, e);
	if (rc == 0 && o->state == FETCH_LOST)
		rc = err_set(e, o->why, "a page of the directory is lost");
	if (rc == 0)
		rc = tree_page_parse(page, o->data, o->size, e);
	if (rc != 0) {
		fetch_drop(f, o);
		return -1;
	}
	*out = o;
	return 0;
}

/* The entry `name` of the directory whose root page is `tree`. */
static int find_name(struct snap_entry *out, struct fetch *f,
    const struct id *tree, const struct slice *name, struct err *e)
{
	struct id id = *tree;

	for (unsigned depth = 0; depth <= TREE_LEVEL_MAX; depth++) {
		struct fetch_object *o;
		struct tree_page page;
		bool found;

		if (get_page(&o, &page, f, &id, e) != 0)
			return -1;
		if (page.level == 0) {
			found = choose_entry(&page, name, &out->entry);
			out->page = o;
			if (found)
				return 0;
			fetch_drop(f, o);
			break;
		}
		found = choose_child(&page, name, &id);
		fetch_drop(f, o);
		if (!found)
			break;
	}
	return err_set(e, ERR_NOT_FOUND, "not in the snapshot");
}

int snap_find(struct snap_entry *out, struct fetch *f,
    const struct id *root, const char *path, struct err *e)
{
	struct snap_entry at = { .entry = {
		.mode = 0040755, .tree = *root,
	} };

	const char *whole = path;

	while (*(path += strspn(path, "/")) != '\0') {
		struct slice name = { (const uint8_t *)path,
		    strcspn(path, "/") };
		struct snap_entry next = { 0 };
		int rc;

		if ((at.entry.mode & 0170000) != 0040000)
			rc = err_set(e, ERR_NOT_FOUND, "what is above is no "
			    "directory");
		else
			rc = find_name(&next, f, &at.entry.tree, &name, e);
		snap_entry_release(&at, f);
		if (rc != 0)
			return err_add(e, "%.*s", (int)(path - whole +
			    (ptrdiff_t)name.size), whole);
		at = next;
		path += name.size;
	}
	*out = at;
	return 0;
}

void snap_entry_release(struct snap_entry *s, struct fetch *f)
{
	fetch_drop(f, s->page);
	s->page = NULL;
}
