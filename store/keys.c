/* store/keys.c - see keys.h. */
#include "store/keys.h"

#include "base/le.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void add(struct fact_key *k, const void *data, size_t size)
{
	assert(k->size + size <= sizeof(k->bytes));
	memcpy(k->bytes + k->size, data, size);
	k->size += size;
}

static void add_be(struct fact_key *k, uint64_t v, size_t bytes)
{
	uint8_t raw[8];

	for (size_t i = 0; i < bytes; i++)
		raw[i] = (uint8_t)(v >> (8 * (bytes - 1 - i)));
	add(k, raw, bytes);
}

uint64_t be64_get(const uint8_t *p)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | p[i];
	return v;
}

uint32_t be32_get(const uint8_t *p)
{
	uint32_t v = 0;

	for (int i = 0; i < 4; i++)
		v = v << 8 | p[i];
	return v;
}

struct fact_key key_text(const char *text)
{
	struct fact_key k = { .size = 0 };

	add(&k, text, strlen(text));
	return k;
}

struct fact_key key_client(const char *name)
{
	struct fact_key k = key_text("c/");

	add(&k, name, strlen(name));
	return k;
}

struct fact_key key_snapshots(const char *client)
{
	struct fact_key k = key_text("s/");

	if (client) {
		add(&k, client, strlen(client));
		add(&k, "/", 1);
	}
	return k;
}

struct fact_key key_snapshot(const char *client, uint64_t order)
{
	struct fact_key k = key_snapshots(client);

	add_be(&k, order, 8);
	return k;
}

struct fact_key key_domain(uint32_t domain)
{
	struct fact_key k = key_text("d/");

	add_be(&k, domain, 4);
	return k;
}

struct fact_key key_quarantine(uint64_t segment, uint32_t ordinal)
{
	struct fact_key k = key_text("q/");

	add_be(&k, segment, 8);
	add_be(&k, ordinal, 4);
	return k;
}

int key_snapshot_client(const uint8_t *key, size_t size, char *name,
    size_t name_size, struct err *e)
{
	size_t length = size >= 2 + 1 + 8 ? size - 2 - 1 - 8 : 0;

	if (length == 0 || length >= name_size || key[2 + length] != '/')
		return err_set(e, ERR_CORRUPT, "a snapshot's key is malformed");
	memcpy(name, key + 2, length);
	name[length] = '\0';
	return 0;
}

int key_quarantine_get(const uint8_t *key, size_t size, uint64_t *segment,
    uint32_t *ordinal, struct err *e)
{
	if (size != 2 + 8 + 4)
		return err_set(e, ERR_CORRUPT,
		    "a quarantine's key is malformed");
	*segment = be64_get(key + 2);
	*ordinal = be32_get(key + 10);
	return 0;
}

int fact_number(struct array *a, const char *key, uint64_t fallback,
    uint64_t *out, struct err *e)
{
	struct err why;
	uint8_t *value;
	size_t size;

	*out = fallback;
	if (array_kv_get(a, key, strlen(key), &value, &size, &why) != 0) {
		if (why.code == ERR_NOT_FOUND)
			return 0;
		*e = why;
		return -1;
	}
	if (size == 8)
		*out = le64_get(value);
	free(value);
	return size == 8 ? 0 :
	    err_set(e, ERR_CORRUPT, "the fact %s is malformed", key);
}
