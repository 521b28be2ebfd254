#include "base/opt.h"

#include "base/str.h"

#include <string.h>

/* What is being parsed: argv, and where in it. */
struct scan {
	int argc, at;
	char **argv;
	const struct opt_row *const *tables;
};

static const struct opt_row *find(const struct scan *s, const char *name,
    size_t size)
{
	for (size_t t = 0; s->tables[t]; t++)
		for (const struct opt_row *r = s->tables[t]; r->name; r++)
			if (strlen(r->name) == size &&
			    memcmp(r->name, name, size) == 0)
				return r;
	return NULL;
}

static const struct opt_row *find_letter(const struct scan *s, char letter)
{
	for (size_t t = 0; s->tables[t]; t++)
		for (const struct opt_row *r = s->tables[t]; r->name; r++)
			if (r->letter && r->letter == letter)
				return r;
	return NULL;
}

static int list_add(struct opt_list *l, const char *value, const char *name,
    struct err *e)
{
	if (l->count == sizeof(l->items) / sizeof(l->items[0]))
		return err_set(e, ERR_USAGE, "--%s was given more than %zu "
		    "times", name, l->count);
	l->items[l->count++] = value;
	return 0;
}

static int parse_bool(bool *out, const char *value, struct err *e)
{
	static const char *const yes[] = { "yes", "true", "on", "1" };
	static const char *const no[] = { "no", "false", "off", "0" };

	for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
		if (strcmp(value, yes[i]) == 0 || strcmp(value, no[i]) == 0) {
			*out = strcmp(value, yes[i]) == 0;
			return 0;
		}
	}
	return err_set(e, ERR_USAGE, "\"%s\" is neither yes nor no", value);
}

int opt_store(const struct opt_row *row, const char *value, struct err *e)
{
	int rc = 0;

	switch (row->kind) {
	case OPT_FLAG:
		if (value)
			rc = parse_bool(row->value, value, e);
		else
			*(bool *)row->value = true;
		break;
	case OPT_TEXT:
		*(const char **)row->value = value;
		break;
	case OPT_LIST:
		rc = list_add(row->value, value, row->name, e);
		break;
	case OPT_SIZE:
		rc = str_size(row->value, value, e);
		break;
	case OPT_DURATION:
		rc = str_duration(row->value, value, e);
		break;
	case OPT_COUNT:
		rc = str_u64(row->value, value, UINT64_MAX, e);
		break;
	}
	if (rc == 0 && row->seen)
		*row->seen = true;
	return rc;
}

/* The value of an option that needs one: what follows it, or the next word. */
static int parse_long(struct scan *s, struct err *e)
{
	const char *name = s->argv[s->at++] + 2;
	const char *equals = strchr(name, '=');
	size_t size = equals ? (size_t)(equals - name) : strlen(name);
	const struct opt_row *row = find(s, name, size);
	const char *value = equals ? equals + 1 : NULL;

	if (!row)
		return err_set(e, ERR_USAGE, "there is no option --%.*s",
		    (int)size, name);
	if (row->kind == OPT_FLAG && value)
		return err_set(e, ERR_USAGE, "--%s takes no value",
		    row->name);
	if (row->kind != OPT_FLAG && !value) {
		if (s->at == s->argc)
			return err_set(e, ERR_USAGE, "--%s needs a value",
			    row->name);
		value = s->argv[s->at++];
	}
	if (opt_store(row, value, e) != 0)
		return err_add(e, "--%s", row->name);
	return 0;
}

/* "-vq", "-d DIR" or "-dDIR". */
static int parse_short(struct scan *s, struct err *e)
{
	const char *letters = s->argv[s->at++] + 1;

	for (; *letters; letters++) {
		const struct opt_row *row = find_letter(s, *letters);
		const char *value = NULL;

		if (!row)
			return err_set(e, ERR_USAGE, "there is no option -%c",
			    *letters);
		if (row->kind != OPT_FLAG) {
			if (letters[1])
				value = letters + 1;
			else if (s->at < s->argc)
				value = s->argv[s->at++];
			else
				return err_set(e, ERR_USAGE,
				    "-%c needs a value", *letters);
		}
		if (opt_store(row, value, e) != 0)
			return err_add(e, "-%c", *letters);
		if (value)
			break;
	}
	return 0;
}

int opt_parse(int argc, char **argv, const struct opt_row *const *tables,
    struct err *e)
{
	struct scan s = { .argc = argc, .argv = argv, .tables = tables };
	int words = 0;
	bool only_words = false;

	while (s.at < argc) {
		char *word = argv[s.at];

		if (only_words || word[0] != '-' || word[1] == '\0') {
			argv[words++] = word;
			s.at++;
		} else if (strcmp(word, "--") == 0) {
			only_words = true;
			s.at++;
		} else if (word[1] == '-') {
			if (parse_long(&s, e) != 0)
				return -1;
		} else if (parse_short(&s, e) != 0) {
			return -1;
		}
	}
	return words;
}

void opt_help(FILE *out, const struct opt_row *rows)
{
	for (const struct opt_row *r = rows; r->name; r++) {
		int used = fprintf(out, "  ");

		if (r->letter)
			used += fprintf(out, "-%c, ", r->letter);
		used += fprintf(out, "--%s", r->name);
		if (r->arg)
			used += fprintf(out, " %s", r->arg);
		if (used > 26) {	/* too long: the text on its own line */
			fprintf(out, "\n");
			used = 0;
		}
		fprintf(out, "%*s%s\n", 28 - used, "", r->help);
	}
}
