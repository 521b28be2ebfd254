/*
 * base/log.h - the program's log: one line per event on stderr.
 *
 * Only the two programs' own layers (server/, client/) log; libraries return
 * errors and feed warning sinks.  A line is written with one write(2), so
 * lines of several threads never mix.  Under systemd (JOURNAL_STREAM set) a
 * line begins with its <priority>, else with the time.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/err.h"

enum log_level { LOG_LEVEL_ERROR = 3, LOG_LEVEL_WARN = 4, LOG_LEVEL_INFO = 6,
	LOG_LEVEL_DEBUG = 7 };

void log_set_level(enum log_level level);
void log_line(enum log_level level, const char *fmt, ...) PRINTF_LIKE(2, 3);

#endif
