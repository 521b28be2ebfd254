#include "base/conf.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 256		/* more rows than any program here has */

/* Which rows the file has given (by index), and which came before it. */
struct state {
	const char *file;
	const struct opt_row *rows;
	size_t count;
	bool given[ROWS_MAX];
	bool before[ROWS_MAX];
	size_t line;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Without blanks at both ends; terminated in place. */
static char *trim(char *text)
{
	size_t size;

	while (is_blank(*text))
		text++;
	size = strlen(text);
	while (size > 0 && is_blank(text[size - 1]))
		size--;
	text[size] = '\0';
	return text;
}

static int bad(const struct state *s, struct err *e, const char *what,
    const char *key)
{
	return err_set(e, ERR_USAGE, "%s:%zu: %s%s", s->file, s->line, what,
	    key);
}

static int parse_line(struct state *s, char *line, struct err *e)
{
	char *key = trim(line);
	char *equals = strchr(key, '=');
	const struct opt_row *row;
	char *value;
	size_t i;

	if (*key == '\0' || *key == '#')
		return 0;
	if (!equals)
		return bad(s, e, "no \"=\" after ", key);
	*equals = '\0';
	value = trim(equals + 1);
	key = trim(key);
	for (i = 0; i < s->count; i++)
		if (strcmp(s->rows[i].name, key) == 0)
			break;
	if (i == s->count)
		return bad(s, e, "there is no key ", key);
	row = &s->rows[i];
	if (s->given[i] && row->kind != OPT_LIST)
		return bad(s, e, "given twice: ", key);
	s->given[i] = true;
	if (s->before[i])	/* the command line wins */
		return 0;
	if (opt_store(row, value, e) != 0)
		return err_add(e, "%s:%zu: %s", s->file, s->line, key);
	return 0;
}

int conf_parse(char *text, size_t size, const char *file,
    const struct opt_row *rows, struct err *e)
{
	struct state s = { .file = file, .rows = rows };
	char *end = text + size;

	for (; rows[s.count].name && s.count < ROWS_MAX; s.count++)
		s.before[s.count] = rows[s.count].seen &&
		    *rows[s.count].seen;
	if (memchr(text, '\0', size))
		return err_set(e, ERR_USAGE, "%s: not a text file", file);
	while (text < end) {
		char *next = memchr(text, '\n', (size_t)(end - text));

		s.line++;
		if (!next)	/* needs the byte behind: see the header */
			next = end;
		*next = '\0';
		if (parse_line(&s, text, e) != 0)
			return -1;
		text = next + 1;
	}
	return 0;
}
