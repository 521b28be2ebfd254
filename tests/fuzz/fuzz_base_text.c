/*
 * Any text: as a configuration file, a size, a duration, a time, a public
 * key, a name for the terminal.  Accepted or refused, never out of bounds;
 * what is shown is always printable.
 */
#include "base/buf.h"
#include "base/clock.h"
#include "base/conf.h"
#include "base/str.h"
#include "base/wire_ssh.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void as_conf(char *text, size_t size)
{
	static bool flag, seen;
	static const char *word;
	static struct opt_list list;
	static uint64_t bytes, seconds, count;
	const struct opt_row rows[] = {
		{ "flag", 'f', OPT_FLAG, &flag, NULL, "", &seen },
		{ "name", 'n', OPT_TEXT, &word, "N", "", NULL },
		{ "exclude", 0, OPT_LIST, &list, "P", "", NULL },
		{ "size", 0, OPT_SIZE, &bytes, "S", "", NULL },
		{ "keep", 0, OPT_DURATION, &seconds, "D", "", NULL },
		{ "count", 0, OPT_COUNT, &count, "C", "", NULL },
		{ 0 }
	};
	struct err e;

	seen = false;
	list.count = 0;
	if (conf_parse(text, size, "file", rows, &e) != 0 &&
	    (e.code != ERR_USAGE || strlen(e.text) >= sizeof(e.text)))
		abort();
}

static void as_name(const uint8_t *data, size_t size)
{
	struct buf b;

	buf_init(&b, 4 * size);
	str_escape(&b, data, size);
	if (b.bad || !str_is_utf8(b.data, b.size))
		abort();
	for (size_t i = 0; i < b.size; i++)
		if (b.data[i] < 0x20 || b.data[i] == 0x7f)
			abort();
	buf_release(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char fingerprint[SSH_FINGERPRINT_SIZE], again[CLOCK_TEXT_SIZE];
	char *text = malloc(size + 1);
	char *canonical;
	uint64_t v;
	int64_t t;
	struct err e;

	if (!text)
		return 0;
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	as_name(data, size);
	(void)!str_size(&v, text, &e);
	(void)!str_duration(&v, text, &e);
	if (clock_parse(&t, text, &e) == 0)
		clock_text(again, t);
	if (ssh_public_key_parse(text, &canonical, fingerprint, &e) == 0)
		free(canonical);
	as_conf(text, size);
	free(text);
	return 0;
}
