/*
 * base/conf.h - configuration files: "key = value" lines, '#' comments.
 *
 * A key may occur once unless its row is OPT_LIST.  Unknown keys are an error
 * that names file and line.  Rows are those of base/opt.h; `help` documents.
 */
#ifndef BASE_CONF_H
#define BASE_CONF_H

#include "base/err.h"
#include "base/opt.h"

#include <stddef.h>

/*
 * Parse `text` (changed in place: values are terminated there, and text
 * options point into it, so it must outlive them).  text[size] must be
 * writable: the last line may lack its newline.  A value that was already
 * given on the command line (*row->seen) is kept.  ERR_USAGE on failure.
 */
MUST_CHECK int conf_parse(char *text, size_t size, const char *file,
    const struct opt_row *rows, struct err *e);

#endif
