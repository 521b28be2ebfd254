/*
 * base/opt.h - command-line options from tables.
 *
 * Options may stand before or after the command's words; "--" ends them.
 * Long options take "--name VALUE" or "--name=VALUE"; a short one is a single
 * letter.  The same rows give --help, the shell completions and the test that
 * every option is in the manual page.
 */
#ifndef BASE_OPT_H
#define BASE_OPT_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum opt_kind {
	OPT_FLAG,	/* bool */
	OPT_TEXT,	/* const char * (points into argv) */
	OPT_LIST,	/* struct opt_list: may be given many times */
	OPT_SIZE,	/* uint64_t bytes */
	OPT_DURATION,	/* uint64_t seconds */
	OPT_COUNT,	/* uint64_t */
};

struct opt_list {
	const char *items[256];
	size_t count;
};

struct opt_row {
	const char *name;	/* without "--" */
	char letter;		/* or 0 */
	enum opt_kind kind;
	void *value;		/* where to store */
	const char *arg;	/* "SIZE" in --help; NULL for a flag */
	const char *help;
	bool *seen;		/* set when given; may be NULL */
};

/*
 * Parse argv[0..argc).  Words that are not options are moved to the front of
 * argv in order; returns how many, or -1 with ERR_USAGE naming the option.
 * `tables` is NULL-terminated; each table ends with a row whose name is NULL.
 * After the word "--" all else are words; a lone "-" is a word.
 */
MUST_CHECK int opt_parse(int argc, char **argv,
    const struct opt_row *const *tables, struct err *e);
/* Store one value as parsing would; `value` NULL turns a flag on, else a flag
 * takes yes, no, true, false, on, off, 1, 0.  ERR_USAGE. */
MUST_CHECK int opt_store(const struct opt_row *row, const char *value,
    struct err *e);
/* One line per row, as --help shows them. */
void opt_help(FILE *out, const struct opt_row *rows);

#endif
