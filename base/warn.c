#include "base/warn.h"

#include <stdarg.h>
#include <stdio.h>

void warn_init(struct warn_sink *w,
    void (*emit)(void *, const uint8_t *, size_t, const char *), void *arg)
{
	pthread_mutex_init(&w->lock, NULL);
	w->emit = emit;
	w->arg = arg;
	w->count = 0;
}

void warn_release(struct warn_sink *w)
{
	pthread_mutex_destroy(&w->lock);
}

void warn_add(struct warn_sink *w, const void *path, size_t path_size,
    const char *fmt, ...)
{
	char text[sizeof(((struct err *)0)->text)];
	va_list ap;

	if (!w)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&w->lock);
	w->count++;
	if (w->emit)
		w->emit(w->arg, path, path_size, text);
	pthread_mutex_unlock(&w->lock);
}

uint64_t warn_count(struct warn_sink *w)
{
	uint64_t count;

	pthread_mutex_lock(&w->lock);
	count = w->count;
	pthread_mutex_unlock(&w->lock);
	return count;
}
