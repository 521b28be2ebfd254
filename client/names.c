/* client/names.c - two small hash tables in front of getpwuid_r and friends */
#include "client/names.h"

#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS (2 * NAMES_MAX)
#define LOOKUP_BYTES 65536
#define NAME_MAX_HERE 255

struct slot {
	bool used, found;
	uint32_t id;
	char *name;		/* owned; NULL = the id has none */
};

struct table {
	struct slot slots[SLOTS];
	size_t count;
};

struct names {
	struct table by_id[2], by_name[2];	/* enum names_kind */
	char lookup[LOOKUP_BYTES];
};

int names_new(struct names **out, struct err *e)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for names");
}

static void table_clear(struct table *t)
{
	for (size_t i = 0; i < SLOTS; i++)
		free(t->slots[i].name);
	memset(t, 0, sizeof(*t));
}

void names_free(struct names *n)
{
	if (!n)
		return;
	for (int k = 0; k < 2; k++) {
		table_clear(&n->by_id[k]);
		table_clear(&n->by_name[k]);
	}
	free(n);
}

/* The name of an id, as the system knows it, in n->lookup; or NULL. */
static const char *ask_name(struct names *n, enum names_kind kind,
    uint32_t id)
{
	struct passwd pw, *p = NULL;
	struct group gr, *g = NULL;

	if (kind == NAMES_USER)
		return getpwuid_r(id, &pw, n->lookup, LOOKUP_BYTES, &p) == 0 &&
		    p ? p->pw_name : NULL;
	return getgrgid_r(id, &gr, n->lookup, LOOKUP_BYTES, &g) == 0 && g ?
	    g->gr_name : NULL;
}

static bool ask_id(struct names *n, enum names_kind kind, const char *name,
    uint32_t *id)
{
	struct passwd pw, *p = NULL;
	struct group gr, *g = NULL;

	if (kind == NAMES_USER) {
		if (getpwnam_r(name, &pw, n->lookup, LOOKUP_BYTES, &p) != 0 ||
		    !p)
			return false;
		*id = p->pw_uid;
		return true;
	}
	if (getgrnam_r(name, &gr, n->lookup, LOOKUP_BYTES, &g) != 0 || !g)
		return false;
	*id = g->gr_gid;
	return true;
}

static size_t hash_name(const char *name)
{
	size_t h = 5381;

	while (*name)
		h = 33 * h + (unsigned char)*name++;
	return h;
}

/* The slot of an id, or an empty one; `t` is never full. */
static struct slot *slot_by_id(struct table *t, uint32_t id)
{
	size_t i = (id * 2654435761u) % SLOTS;

	while (t->slots[i].used && t->slots[i].id != id)
		i = (i + 1) % SLOTS;
	return &t->slots[i];
}

static struct slot *slot_by_name(struct table *t, const char *name)
{
	size_t i = hash_name(name) % SLOTS;

	while (t->slots[i].used && strcmp(t->slots[i].name, name) != 0)
		i = (i + 1) % SLOTS;
	return &t->slots[i];
}

const char *names_of(struct names *n, enum names_kind kind, uint32_t id)
{
	struct table *t = &n->by_id[kind];
	struct slot *s = slot_by_id(t, id);
	const char *name;

	if (s->used)
		return s->name;
	if (t->count == NAMES_MAX)
		return NULL;	/* numbers alone, from here on */
	name = ask_name(n, kind, id);
	s->name = name && strlen(name) <= NAME_MAX_HERE ? strdup(name) : NULL;
	s->id = id;
	s->used = true;
	t->count++;
	return s->name;
}

uint32_t names_id(struct names *n, enum names_kind kind, const void *name,
    size_t size, uint32_t fallback)
{
	struct table *t = &n->by_name[kind];
	char text[NAME_MAX_HERE + 1];
	struct slot *s;

	if (size == 0 || size > NAME_MAX_HERE || memchr(name, '\0', size))
		return fallback;
	memcpy(text, name, size);
	text[size] = '\0';
	s = slot_by_name(t, text);
	if (!s->used) {
		if (t->count == NAMES_MAX)
			return fallback;
		s->name = strdup(text);
		if (!s->name)
			return fallback;
		s->used = true;
		t->count++;
		s->found = ask_id(n, kind, text, &s->id);
	}
	return s->found ? s->id : fallback;
}
