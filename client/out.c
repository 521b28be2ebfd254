/* client/out.c - escaped names, JSON lines, and a reader that went away */
#include "client/out.h"

#include "base/buf.h"
#include "base/str.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

/* "\xHH" for each byte of the longest path we print. */
#define NAME_OUT_MAX (64u << 20)

void out_name(const void *name, size_t size)
{
	struct buf b;

	buf_init(&b, NAME_OUT_MAX);
	str_escape(&b, name, size);
	if (b.size > 0)
		(void)!fwrite(b.data, 1, b.size, stdout);
	buf_release(&b);
}

json_t *out_object(const char *type)
{
	return json_pack("{s:i, s:s}", "v", 1, "type", type);
}

char *out_base64(const void *data, size_t size)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	    "abcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *in = data;
	char *text = malloc((size + 2) / 3 * 4 + 1), *at = text;

	if (!text)
		return NULL;
	for (size_t i = 0; i < size; i += 3) {
		unsigned v = (unsigned)in[i] << 16;

		if (i + 1 < size)
			v |= (unsigned)in[i + 1] << 8;
		if (i + 2 < size)
			v |= in[i + 2];
		*at++ = digits[v >> 18];
		*at++ = digits[v >> 12 & 63];
		*at++ = i + 1 < size ? digits[v >> 6 & 63] : '=';
		*at++ = i + 2 < size ? digits[v & 63] : '=';
	}
	*at = '\0';
	return text;
}

void out_path(json_t *object, const char *field, const void *path,
    size_t size)
{
	char name[64], *exact;
	struct buf b;

	buf_init(&b, NAME_OUT_MAX);
	str_escape(&b, path, size);
	json_object_set_new(object, field,
	    json_stringn(b.data ? (char *)b.data : "", b.size));
	if (!str_is_utf8(path, size) || b.size != size) {
		exact = out_base64(path, size);
		if (exact && snprintf(name, sizeof(name), "%s_b64", field) > 0)
			json_object_set_new(object, name, json_string(exact));
		free(exact);
	}
	buf_release(&b);
}

void out_line(json_t *object)
{
	char *text = json_dumps(object, JSON_COMPACT);

	if (text)
		printf("%s\n", text);
	free(text);
	json_decref(object);
}

int out_flush(int *gone, struct err *e)
{
	*gone = 0;
	errno = 0;
	if (fflush(stdout) == 0 && !ferror(stdout))
		return 0;
	if (errno == EPIPE || errno == 0) {
		*gone = 1;
		return 0;
	}
	return err_os(e, errno, "write to standard output");
}
