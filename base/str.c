#include "base/str.h"

#include "base/buf.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Digits at *text, as many as there are; moves *text behind them.
 * False if there is none or the number exceeds `max`. */
static bool digits(const char **text, uint64_t max, uint64_t *out)
{
	const char *at = *text;
	uint64_t v = 0;

	if (*at < '0' || *at > '9')
		return false;
	for (; *at >= '0' && *at <= '9'; at++) {
		uint64_t digit = (uint64_t)(*at - '0');

		if (digit > max || v > (max - digit) / 10)
			return false;
		v = v * 10 + digit;
	}
	*text = at;
	*out = v;
	return true;
}

int str_u64(uint64_t *out, const char *text, uint64_t max, struct err *e)
{
	const char *at = text;
	uint64_t v;

	if (!digits(&at, max, &v) || *at != '\0')
		return err_set(e, ERR_USAGE, "\"%s\" is not a number from 0 to "
		    "%" PRIu64, text, max);
	*out = v;
	return 0;
}

/* "K" -> 10 and so on; -1 for anything else. */
static int size_shift(const char *suffix)
{
	static const char letters[] = "KMGTP";
	const char *l;

	if (suffix[0] == '\0' || strcmp(suffix, "B") == 0)
		return 0;
	l = strchr(letters, suffix[0] & ~0x20);
	if (!l || (suffix[1] != '\0' && strcmp(suffix + 1, "iB") != 0))
		return -1;
	return 10 * (int)(l - letters + 1);
}

/* ".5" -> 500000, in millionths; further digits are dropped. */
static uint64_t fraction(const char **text)
{
	const char *at = *text;
	uint64_t v = 0, unit = 100000;

	if (at[0] != '.' || at[1] < '0' || at[1] > '9')
		return 0;
	for (at++; *at >= '0' && *at <= '9'; at++, unit /= 10)
		v += unit * (uint64_t)(*at - '0');
	*text = at;
	return v;
}

int str_size(uint64_t *out, const char *text, struct err *e)
{
	const char *at = text;
	uint64_t whole, millionths, v;
	int shift = -1;

	if (digits(&at, UINT64_MAX, &whole)) {
		millionths = fraction(&at);
		shift = size_shift(at);
	}
	if (shift < 0 || whole > UINT64_MAX >> shift)
		return err_set(e, ERR_USAGE, "\"%s\" is not a size such as "
		    "4096, 64K, 1.5G or 2T", text);
	/* millionths < 2^20 and shift <= 50: split so that nothing overflows */
	v = whole << shift;
	if (shift > 0) {
		uint64_t unit = UINT64_C(1) << shift;

		v += unit / 1000000 * millionths +
		    unit % 1000000 * millionths / 1000000;
	}
	*out = v;
	return 0;
}

int str_duration(uint64_t *out, const char *text, struct err *e)
{
	static const struct { char letter; uint64_t seconds; } units[] = {
		{ '\0', 1 }, { 's', 1 }, { 'm', 60 }, { 'h', 3600 },
		{ 'd', 86400 }, { 'w', 604800 },
	};
	const char *at = text;
	uint64_t n;

	if (!digits(&at, UINT64_MAX / 604800, &n))
		at = "?";
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (at[0] == units[i].letter &&
		    (at[0] == '\0' || at[1] == '\0')) {
			*out = n * units[i].seconds;
			return 0;
		}
	return err_set(e, ERR_USAGE, "\"%s\" is not a duration such as 90s, "
	    "5m, 2h, 30d or 3w", text);
}

void hex_put(char *out, const void *data, size_t size)
{
	static const char digit[] = "0123456789abcdef";
	const uint8_t *in = data;

	for (size_t i = 0; i < size; i++) {
		*out++ = digit[in[i] >> 4];
		*out++ = digit[in[i] & 15];
	}
	*out = '\0';
}

static int hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return -1;
}

int hex_get(void *out, size_t size, const char *text)
{
	uint8_t *to = out;

	for (size_t i = 0; i < size; i++) {
		int high = hex_digit(text[2 * i]);
		int low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);

		if (low < 0)
			return -1;
		to[i] = (uint8_t)(high << 4 | low);
	}
	return text[2 * size] == '\0' ? 0 : -1;
}

void str_bytes_human(char out[static 16], uint64_t bytes)
{
	static const char *const unit[] = {
		"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB",
	};
	size_t i = 0;
	double v;

	if (bytes == UINT64_MAX) {
		snprintf(out, 16, "-");
		return;
	}
	for (v = (double)bytes; v >= 1023.95 && i < 6; i++)
		v /= 1024;
	snprintf(out, 16, i == 0 ? "%.0f %s" : "%.1f %s", v, unit[i]);
}

/* RFC 3629, table 3-7 of Unicode: the length of the well-formed sequence at
 * `s` and its code point, or 0. */
static size_t utf8_decode(const uint8_t *s, size_t size, uint32_t *point)
{
	size_t more;
	uint32_t least, v;

	if (s[0] < 0x80) {
		*point = s[0];
		return 1;
	}
	if (s[0] >= 0xc2 && s[0] <= 0xdf)
		more = 1, least = 0x80, v = s[0] & 0x1f;
	else if (s[0] >= 0xe0 && s[0] <= 0xef)
		more = 2, least = 0x800, v = s[0] & 0x0f;
	else if (s[0] >= 0xf0 && s[0] <= 0xf4)
		more = 3, least = 0x10000, v = s[0] & 0x07;
	else
		return 0;
	if (more >= size)
		return 0;
	for (size_t i = 1; i <= more; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		v = v << 6 | (s[i] & 0x3f);
	}
	if (v < least || v > 0x10ffff || (v >= 0xd800 && v <= 0xdfff))
		return 0;
	*point = v;
	return more + 1;
}

/* Controls, and what reorders or hides text on a terminal (bidirectional
 * controls, zero-width characters, separators, byte order mark). */
static bool is_plain(uint32_t c)
{
	return c >= 0x20 && c != 0x7f && c != '\\' &&
	    !(c >= 0x80 && c < 0xa0) && !(c >= 0x200b && c <= 0x200f) &&
	    !(c >= 0x2028 && c <= 0x202e) && !(c >= 0x2066 && c <= 0x2069) &&
	    c != 0xfeff && c != 0x061c;
}

/* One step: what to write for the bytes at `s`; returns how many it covers. */
static size_t escape_one(const uint8_t *s, size_t size, char out[static 5],
    size_t *out_size)
{
	uint32_t point = 0;
	size_t n = utf8_decode(s, size, &point);
	const char *text = NULL;

	if (n > 0 && is_plain(point)) {
		memcpy(out, s, n);
		*out_size = n;
		return n;
	}
	if (s[0] == '\n')
		text = "\\n";
	else if (s[0] == '\t')
		text = "\\t";
	else if (s[0] == '\r')
		text = "\\r";
	else if (s[0] == '\\')
		text = "\\\\";
	if (text)
		snprintf(out, 5, "%s", text);
	else
		snprintf(out, 5, "\\x%02X", s[0]);
	*out_size = strlen(out);
	return 1;
}

void str_escape(struct buf *out, const void *name, size_t size)
{
	const uint8_t *s = name;
	char text[5];
	size_t n;

	for (size_t i = 0; i < size;) {
		i += escape_one(s + i, size - i, text, &n);
		buf_add(out, text, n);
	}
}

void str_escape_to(char *out, size_t out_size, const void *name, size_t size)
{
	const uint8_t *s = name;
	size_t used = 0, n;
	char text[5];

	if (out_size == 0)
		return;
	for (size_t i = 0; i < size;) {
		i += escape_one(s + i, size - i, text, &n);
		if (used + n >= out_size)
			break;
		memcpy(out + used, text, n);
		used += n;
	}
	out[used] = '\0';
}

bool str_is_utf8(const void *name, size_t size)
{
	const uint8_t *s = name;
	uint32_t point;

	for (size_t i = 0; i < size;) {
		size_t n = utf8_decode(s + i, size - i, &point);

		if (n == 0 || point == 0)
			return false;
		i += n;
	}
	return true;
}
