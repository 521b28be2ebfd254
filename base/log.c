#include "base/log.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_MAX_SIZE 16384	/* a path of PATH_MAX, escaped, and words */

static atomic_int log_level = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
	atomic_store(&log_level, (int)level);
}

static const char *level_name(enum log_level level)
{
	switch (level) {
	case LOG_LEVEL_ERROR:
		return "error: ";
	case LOG_LEVEL_WARN:
		return "warning: ";
	case LOG_LEVEL_DEBUG:
		return "debug: ";
	case LOG_LEVEL_INFO:
		break;
	}
	return "";
}

static size_t put_head(char *line, size_t size, enum log_level level)
{
	char now[CLOCK_TEXT_SIZE];

	if (getenv("JOURNAL_STREAM"))
		return (size_t)snprintf(line, size, "<%d>", (int)level);
	clock_text(now, clock_real_s());
	return (size_t)snprintf(line, size, "%s %s", now, level_name(level));
}

void log_line(enum log_level level, const char *fmt, ...)
{
	char line[LINE_MAX_SIZE];
	size_t head, size;
	va_list ap;

	if ((int)level > atomic_load(&log_level))
		return;
	head = put_head(line, sizeof(line), level);
	va_start(ap, fmt);
	vsnprintf(line + head, sizeof(line) - head - 1, fmt, ap);
	va_end(ap);
	/* One event is one line, whatever a name in it holds. */
	size = strlen(line);
	for (size_t i = head; i < size; i++)
		if (line[i] == '\n' || line[i] == '\r')
			line[i] = ' ';
	line[size++] = '\n';
	/* There is nobody to tell when the log itself cannot be written. */
	if (write(STDERR_FILENO, line, size) < 0)
		return;
}
