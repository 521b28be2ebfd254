#include "base/progress.h"

#include "base/clock.h"
#include "base/str.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define REDRAW_MS 250
#define LINE_SIZE 512

void progress_init(struct progress *p, const char *verb, bool on)
{
	*p = (struct progress){ .verb = verb };
	pthread_mutex_init(&p->lock, NULL);
	atomic_init(&p->files, 0);
	atomic_init(&p->bytes, 0);
	p->started_ms = clock_mono_ms();
	p->on = on && isatty(STDERR_FILENO);
}

void progress_release(struct progress *p)
{
	progress_clear(p);
	pthread_mutex_destroy(&p->lock);
}

void progress_file(struct progress *p, const void *name, size_t size)
{
	if (!p->on)
		return;
	pthread_mutex_lock(&p->lock);
	str_escape_to(p->current, sizeof(p->current), name, size);
	pthread_mutex_unlock(&p->lock);
}

static size_t columns(void)
{
	struct winsize w;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 20)
		return w.ws_col;
	return 80;
}

/* ", 3:07 left"; nothing while it is not known. */
static void put_left(char *out, size_t size, const struct progress *p,
    uint64_t bytes, uint64_t ms)
{
	uint64_t s;

	out[0] = '\0';
	if (p->bytes_total <= bytes || bytes == 0 || ms < 2000)
		return;
	s = (uint64_t)((double)(p->bytes_total - bytes) / (double)bytes *
	    (double)ms / 1000);
	if (s >= 3600)
		snprintf(out, size, ", %" PRIu64 ":%02" PRIu64 ":%02" PRIu64
		    " left", s / 3600, s / 60 % 60, s % 60);
	else
		snprintf(out, size, ", %" PRIu64 ":%02" PRIu64 " left",
		    s / 60, s % 60);
}

/* At most `max` columns; a cut never splits a character. */
static size_t fit(const char *line, size_t max)
{
	size_t bytes = 0, used = 0;

	while (line[bytes]) {
		if (((unsigned char)line[bytes] & 0xc0) != 0x80 &&
		    used++ == max)
			break;
		bytes++;
	}
	return bytes;
}

/* Needs the lock. */
static void draw(struct progress *p, uint64_t now)
{
	unsigned long long files = atomic_load(&p->files);
	unsigned long long bytes = atomic_load(&p->bytes);
	uint64_t ms = now - p->started_ms;
	char amount[16], total[16], rate[16], left[48], text[LINE_SIZE];
	char out[LINE_SIZE + 8];
	int n;

	str_bytes_human(amount, bytes);
	str_bytes_human(total, p->bytes_total);
	str_bytes_human(rate, ms > 0 ? bytes * 1000 / ms : 0);
	put_left(left, sizeof(left), p, bytes, ms);
	snprintf(text, sizeof(text), "%s: %llu files, %s%s%s, %s/s%s  %s",
	    p->verb, files, amount, p->bytes_total ? " of " : "",
	    p->bytes_total ? total : "", rate, left, p->current);
	n = snprintf(out, sizeof(out), "\r%.*s\033[K",
	    (int)fit(text, columns() - 1), text);
	p->drawn_ms = now;
	p->shown = n > 0 && write(STDERR_FILENO, out, (size_t)n) > 0;
}

void progress_tick(struct progress *p)
{
	uint64_t now;

	if (!p->on)
		return;
	now = clock_mono_ms();
	pthread_mutex_lock(&p->lock);
	if (now - p->drawn_ms >= REDRAW_MS)
		draw(p, now);
	pthread_mutex_unlock(&p->lock);
}

void progress_clear(struct progress *p)
{
	static const char clear[] = "\r\033[K";

	if (!p->on)
		return;
	pthread_mutex_lock(&p->lock);
	if (p->shown && write(STDERR_FILENO, clear, sizeof(clear) - 1) > 0)
		p->shown = false;
	p->drawn_ms = 0;
	pthread_mutex_unlock(&p->lock);
}
