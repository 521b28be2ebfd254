/*
 * client/match.c - patterns over bytes.
 *
 * A pattern is cut into components once; a path is cut as it is matched.  Two
 * small matchers do the work, each without recursion: a glob within a name
 * (the last "*" is the only place to go back to), and components within a
 * path (the last "**" likewise).
 */
#include "client/match.h"

#include "base/buf.h"
#include "base/io.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#define PATTERN_MAX 4096
#define PARTS_MAX 128
#define PATTERN_FILE_MAX (1u << 20)

struct part {
	const char *text;	/* into pattern.text */
	size_t size;
	bool any;		/* "**" */
};

enum anchor { ANCHOR_FLOATS, ANCHOR_TOP, ANCHOR_ROOT };

struct pattern {
	char *text;		/* owned, cut */
	char *shown;		/* owned, as it was given; NULL = not told */
	struct part *parts;	/* owned */
	size_t count;
	enum anchor anchor;
	bool back, dir_only;
	uint64_t hits;
};

struct match {
	struct pattern *items;
	size_t count, room;
};

int match_new(struct match **out, struct err *e)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for patterns");
}

static void pattern_release(struct pattern *p)
{
	free(p->text);
	free(p->shown);
	free(p->parts);
}

void match_free(struct match *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->count; i++)
		pattern_release(&m->items[i]);
	free(m->items);
	free(m);
}

bool match_empty(const struct match *m)
{
	return m->count == 0;
}

/* Cut `text` at its slashes; empty and "." components are left out. */
static int cut_parts(struct pattern *p, char *text, struct err *e)
{
	struct part parts[PARTS_MAX];
	size_t n = 0;

	while (*text != '\0') {
		size_t size = strcspn(text, "/");

		if (size > 0 && !(size == 1 && *text == '.')) {
			if (n == PARTS_MAX)
				return err_set(e, ERR_USAGE, "a pattern has "
				    "more than %d components", PARTS_MAX);
			parts[n].text = text;
			parts[n].size = size;
			parts[n++].any = size == 2 &&
			    memcmp(text, "**", 2) == 0;
		}
		text += size;
		text += *text == '/';
	}
	if (n == 0)
		return err_set(e, ERR_USAGE, "a pattern is empty");
	p->parts = malloc(n * sizeof(parts[0]));
	if (!p->parts)
		return err_set(e, ERR_NO_MEMORY, "no memory for a pattern");
	memcpy(p->parts, parts, n * sizeof(parts[0]));
	p->count = n;
	return 0;
}

static int pattern_parse(struct pattern *p, const char *text,
    const char *source, struct err *e)
{
	size_t size = strlen(text);
	char *at;

	if (size > PATTERN_MAX)
		return err_set(e, ERR_USAGE, "a pattern is longer than %d "
		    "bytes", PATTERN_MAX);
	p->text = strdup(text);
	p->shown = source ? strdup(text) : NULL;
	if (!p->text || (source && !p->shown))
		return err_set(e, ERR_NO_MEMORY, "no memory for a pattern");
	at = p->text;
	if (*at == '!') {
		p->back = true;
		at++;
	}
	size = strlen(at);
	p->dir_only = size > 0 && at[size - 1] == '/';
	if (*at == '/')
		p->anchor = ANCHOR_TOP;
	else if (strncmp(at, "./", 2) == 0)
		p->anchor = ANCHOR_ROOT;
	return cut_parts(p, at, e);
}

int match_add(struct match *m, const char *pattern, const char *source,
    struct err *e)
{
	struct pattern p = { 0 };

	if (m->count == m->room) {
		size_t room = m->room ? 2 * m->room : 16;
		void *more = realloc(m->items, room * sizeof(p));

		if (!more)
			return err_set(e, ERR_NO_MEMORY,
			    "no memory for patterns");
		m->items = more;
		m->room = room;
	}
	if (pattern_parse(&p, pattern, source, e) != 0) {
		pattern_release(&p);
		return err_add(e, "%.100s", pattern);
	}
	m->items[m->count++] = p;
	return 0;
}

int match_add_file(struct match *m, const char *file, struct err *e)
{
	struct buf text;
	char *line, *end;
	int rc = 0;

	buf_init(&text, PATTERN_FILE_MAX);
	if (io_file_load(AT_FDCWD, file, &text, e) != 0) {
		buf_release(&text);
		return -1;
	}
	buf_u8(&text, '\0');
	rc = buf_ok(&text, file, e);
	for (line = (char *)text.data; rc == 0 && line && *line; line = end) {
		end = strchr(line, '\n');
		if (end)
			*end++ = '\0';
		if (*line != '\0' && *line != '#')
			rc = match_add(m, line, file, e);
	}
	buf_release(&text);
	return rc;
}

/* [a-z], [!a-z], [^a-z] at *glob (after the bracket); moves *glob behind. */
static bool match_set(const char **glob, const char *end, uint8_t byte)
{
	const char *g = *glob;
	bool invert = g < end && (*g == '!' || *g == '^');
	bool found = false, first = true;

	if (invert)
		g++;
	while (g < end && (first || *g != ']')) {
		uint8_t low, high;

		first = false;
		if (*g == '\\' && g + 1 < end)
			g++;
		low = high = (uint8_t)*g++;
		if (g + 1 < end && *g == '-' && g[1] != ']') {
			high = (uint8_t)g[1];
			g += 2;
		}
		if (low <= byte && byte <= high)
			found = true;
	}
	*glob = g < end ? g + 1 : g;
	return found != invert;
}

/* One step of the glob that is no "*" against one byte; moves *glob. */
static bool match_one(const char **glob, const char *end, uint8_t byte)
{
	char g = *(*glob)++;

	if (g == '?')
		return true;
	if (g == '[' && memchr(*glob, ']', (size_t)(end - *glob)))
		return match_set(glob, end, byte);
	if (g == '\\' && *glob < end)
		g = *(*glob)++;
	return (uint8_t)g == byte;
}

bool match_glob(const char *glob, size_t glob_size, const uint8_t *name,
    size_t size)
{
	const char *end = glob + glob_size, *star = NULL;
	const uint8_t *stop = name + size, *resume = NULL;

	while (name < stop) {
		if (glob < end && *glob == '*') {
			star = ++glob;
			resume = name;
			continue;
		}
		if (glob < end && match_one(&glob, end, *name)) {
			name++;
			continue;
		}
		if (!star)
			return false;
		glob = star;
		name = ++resume;
	}
	while (glob < end && *glob == '*')
		glob++;
	return glob == end;
}

/* The component at *at of the path; moves *at behind its slash. */
static bool next_part(const uint8_t **at, const uint8_t *end,
    const uint8_t **name, size_t *size)
{
	const uint8_t *slash;

	while (*at < end && **at == '/')
		(*at)++;
	if (*at == end)
		return false;
	slash = memchr(*at, '/', (size_t)(end - *at));
	*name = *at;
	*size = (size_t)((slash ? slash : end) - *at);
	*at = slash ? slash + 1 : end;
	return true;
}

/* All parts against the whole path, from its first component. */
static bool match_parts(const struct pattern *p, const uint8_t *at,
    const uint8_t *end)
{
	const uint8_t *resume = NULL, *name;
	size_t i = 0, back = 0, size;
	bool any = p->anchor == ANCHOR_FLOATS;

	if (any)
		resume = at;
	while (next_part(&at, end, &name, &size)) {
		if (i < p->count && p->parts[i].any) {
			any = true;
			back = ++i;
			at = name;
			resume = at;
			/* "a/ ** " takes everything below a. */
			if (i == p->count)
				return true;
			continue;
		}
		if (i < p->count && match_glob(p->parts[i].text,
		    p->parts[i].size, name, size)) {
			i++;
			continue;
		}
		if (!any || !next_part(&resume, end, &name, &size))
			return false;
		i = back;
		at = resume;
	}
	return i == p->count;
}

static bool match_pattern(const struct pattern *p, const uint8_t *path,
    size_t size, size_t root, bool is_dir)
{
	const uint8_t *from = path;

	if (p->dir_only && !is_dir)
		return false;
	if (p->anchor == ANCHOR_ROOT) {
		if (size <= root)
			return false;
		from = path + root;
	}
	return match_parts(p, from, path + size);
}

enum match_result match_path(struct match *m, const void *path, size_t size,
    size_t root, bool is_dir)
{
	for (size_t i = m->count; i-- > 0;) {
		struct pattern *p = &m->items[i];

		if (!match_pattern(p, path, size, root, is_dir))
			continue;
		p->hits++;
		return p->back ? MATCH_BACK : MATCH_YES;
	}
	return MATCH_NONE;
}

/* Could a path below `path` match?  True unless the pattern is anchored at
 * the top and its beginning already differs. */
static bool could_below(const struct pattern *p, const uint8_t *path,
    size_t size)
{
	const uint8_t *at = path, *end = path + size, *name;
	size_t part, i = 0;

	if (p->back)
		return false;
	if (p->anchor != ANCHOR_TOP)
		return true;
	while (next_part(&at, end, &name, &part)) {
		if (i == p->count)
			return true;	/* below what matched */
		if (p->parts[i].any)
			return true;
		if (!match_glob(p->parts[i].text, p->parts[i].size, name,
		    part))
			return false;
		i++;
	}
	return true;
}

bool match_below(const struct match *m, const void *path, size_t size)
{
	for (size_t i = 0; i < m->count; i++)
		if (could_below(&m->items[i], path, size))
			return true;
	return false;
}

const char *match_unused(const struct match *m, size_t *pos)
{
	while (*pos < m->count) {
		const struct pattern *p = &m->items[(*pos)++];

		if (p->hits == 0 && p->shown)
			return p->shown;
	}
	return NULL;
}
