#include "base/err.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int err_set(struct err *e, enum err_code code, const char *fmt, ...)
{
	va_list ap;

	e->code = code;
	e->os = 0;
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	return -1;
}

int err_os(struct err *e, int os, const char *fmt, ...)
{
	char what[320];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	err_set(e, os == ENOSPC || os == EDQUOT ? ERR_NO_SPACE : ERR_IO,
	    "%s: %s", what, strerror(os));
	e->os = os;
	return -1;
}

int err_add(struct err *e, const char *fmt, ...)
{
	char inner[sizeof(e->text)];
	char context[160];
	size_t room;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(context, sizeof(context), fmt, ap);
	va_end(ap);
	memcpy(inner, e->text, sizeof(inner));
	room = sizeof(e->text) - sizeof(": ") - strlen(context);
	snprintf(e->text, sizeof(e->text), "%s: %.*s", context, (int)room,
	    inner);
	return -1;
}

static const struct {
	enum err_code code;
	int wire;
	const char *name;
} codes[] = {
#define X(name, wire) { name, wire, #name },
	ERR_CODES(X)
#undef X
};

int err_wire(enum err_code code)
{
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].code == code)
			return codes[i].wire;
	return 0;
}

enum err_code err_from_wire(int wire)
{
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].wire == wire)
			return codes[i].code;
	return ERR_PROTOCOL;
}

const char *err_name(enum err_code code)
{
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
		if (codes[i].code == code)
			return codes[i].name;
	return "ERR_NONE";
}
