#include "server/out.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/str.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX 8192		/* of one call; longer is cut */

static int write_own(void *arg, enum out_to to, const void *data, size_t size)
{
	struct err e;

	(void)arg;
	return io_write_all(to == TO_OUT ? STDOUT_FILENO : STDERR_FILENO,
	    data, size, "output", &e);
}

void out_init_own(struct cmd_io *io)
{
	memset(io, 0, sizeof(*io));
	io->write = write_own;
}

void out_write(struct cmd_io *io, enum out_to to, const void *data,
    size_t size)
{
	if (io->broken || size == 0)
		return;
	if (io->write(io->arg, to, data, size) != 0)
		io->broken = true;
}

void out_text(struct cmd_io *io, const char *fmt, ...)
{
	char text[TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	out_write(io, TO_OUT, text, strlen(text));
}

void out_warn(struct cmd_io *io, const char *fmt, ...)
{
	static const char head[] = "bkserver: ";
	char text[TEXT_MAX];
	size_t size;
	va_list ap;

	memcpy(text, head, sizeof(head));
	va_start(ap, fmt);
	vsnprintf(text + sizeof(head) - 1, sizeof(text) - sizeof(head), fmt,
	    ap);
	va_end(ap);
	size = strlen(text);
	text[size++] = '\n';
	out_write(io, TO_ERR, text, size);
}

void out_status(struct cmd_io *io, int status)
{
	if (status > io->status)
		io->status = status;
}

void out_json(struct cmd_io *io, struct json_t *object)
{
	char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;

	json_decref(object);
	if (!text) {
		out_warn(io, "no memory for a line of JSON");
		out_status(io, 2);
		return;
	}
	out_write(io, TO_OUT, text, strlen(text));
	out_write(io, TO_OUT, "\n", 1);
	free(text);
}

struct json_t *json_line(const char *type)
{
	return json_pack("{s:i, s:s}", "v", 1, "type", type);
}

void json_u64(struct json_t *object, const char *key, uint64_t value)
{
	json_object_set_new(object, key, json_integer((json_int_t)value));
}

void json_time(struct json_t *object, const char *key, int64_t seconds)
{
	char text[CLOCK_TEXT_SIZE];

	if (seconds == 0) {
		json_object_set_new(object, key, json_null());
		return;
	}
	clock_text(text, seconds);
	json_object_set_new(object, key, json_string(text));
}

void json_name(struct json_t *object, const char *key, const void *name,
    size_t size)
{
	char hex_key[64];
	struct buf text;
	char *hex;

	if (str_is_utf8(name, size)) {
		json_object_set_new(object, key, json_stringn(name, size));
		return;
	}
	buf_init(&text, 4 * size + 16);
	str_escape(&text, name, size);
	json_object_set_new(object, key,
	    json_stringn((const char *)text.data, text.size));
	buf_release(&text);
	hex = malloc(2 * size + 1);
	if (!hex)
		return;
	hex_put(hex, name, size);
	snprintf(hex_key, sizeof(hex_key), "%s_hex", key);
	json_object_set_new(object, hex_key, json_string(hex));
	free(hex);
}

void out_age(char out[static OUT_AGE_SIZE], int64_t seconds)
{
	static const struct {
		int64_t per;
		const char *unit;
	} units[] = {
		{ 86400, "d" }, { 3600, "h" }, { 60, "min" }, { 1, "s" }
	};
	int64_t age = clock_real_s() - seconds;

	if (seconds == 0) {
		snprintf(out, OUT_AGE_SIZE, "never");
		return;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (age >= units[i].per) {
			snprintf(out, OUT_AGE_SIZE, "%" PRId64 " %s ago",
			    age / units[i].per, units[i].unit);
			return;
		}
	}
	snprintf(out, OUT_AGE_SIZE, "just now");
}
