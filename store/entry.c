/* store/entry.c - see entry.h. */
#include "store/entry.h"

#include "base/hash.h"
#include "base/le.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ORDINAL = 16, AT_SIZE = 20, AT_TYPE = 24, AT_FLAGS = 25,
	AT_RESERVED = 26, AT_OWNERS = 28, AT_LIST = 32 };

void key_of(struct key *out, uint32_t keyspace, const struct id *id)
{
	out->bytes[0] = (uint8_t)(keyspace >> 24);
	out->bytes[1] = (uint8_t)(keyspace >> 16);
	out->bytes[2] = (uint8_t)(keyspace >> 8);
	out->bytes[3] = (uint8_t)keyspace;
	memcpy(out->bytes + 4, id->bytes, ID_SIZE);
}

void key_id(const struct key *k, struct id *out)
{
	memcpy(out->bytes, k->bytes + 4, ID_SIZE);
}

struct entry *entry_new(uint32_t owners)
{
	return calloc(1, sizeof(struct entry) + owners * sizeof(uint32_t));
}

bool entry_owned(const struct entry *en, uint32_t domain)
{
	for (uint32_t i = 0; i < en->owner_count; i++)
		if (en->owners[i] >= domain)
			return en->owners[i] == domain;
	return false;
}

bool entry_whole(const struct entry *en)
{
	return !object_has_refs((enum object_type)en->type) ||
	    (en->flags & ENTRY_COMPLETE);
}

struct entry *entry_copy(const struct entry *en, uint32_t domain)
{
	struct entry *c = entry_new(en->owner_count + 1);
	uint32_t n = 0, i = 0;

	if (!c)
		return NULL;
	memcpy(c, en, sizeof(*en));
	while (i < en->owner_count && (domain == 0 || en->owners[i] < domain))
		c->owners[n++] = en->owners[i++];
	if (domain != 0) {
		c->owners[n++] = domain;
		if (i < en->owner_count && en->owners[i] == domain)
			i++;
	}
	while (i < en->owner_count)
		c->owners[n++] = en->owners[i++];
	c->owner_count = n;
	return c;
}

static uint32_t checksum(const struct key *k, const uint8_t *value,
    size_t size)
{
	return crc32c(crc32c(0, k->bytes, KEY_SIZE), value, size);
}

void entry_put(uint8_t *out, const struct key *k, const struct entry *en)
{
	size_t size = ENTRY_BYTES(en->owner_count);

	assert(en->owner_count <= ENTRY_OWNERS_MAX);
	memset(out, 0, AT_LIST);
	place_put(out, &en->place);
	le32_put(out + AT_ORDINAL, en->ordinal);
	le32_put(out + AT_SIZE, en->size);
	out[AT_TYPE] = en->type;
	out[AT_FLAGS] = en->flags;
	le32_put(out + AT_OWNERS, en->owner_count);
	for (uint32_t i = 0; i < en->owner_count; i++)
		le32_put(out + AT_LIST + 4 * i, en->owners[i]);
	le32_put(out + size - 4, checksum(k, out, size - 4));
}

/* Fields of a value whose checksum is right. */
static int fields_get(struct entry *en, const uint8_t *in, struct err *e)
{
	if (place_get(&en->place, in, e) != 0)
		return -1;
	en->ordinal = le32_get(in + AT_ORDINAL);
	en->size = le32_get(in + AT_SIZE);
	en->type = in[AT_TYPE];
	en->flags = in[AT_FLAGS];
	if (!object_type_known(en->type))
		return err_set(e, ERR_CORRUPT, "index entry of type %u",
		    en->type);
	for (uint32_t i = 0; i < en->owner_count; i++) {
		en->owners[i] = le32_get(in + AT_LIST + 4 * i);
		if (i > 0 && en->owners[i] <= en->owners[i - 1])
			return err_set(e, ERR_CORRUPT,
			    "index entry's owners are not in order");
	}
	return 0;
}

int entry_get(struct entry **out, const struct key *k, const void *data,
    size_t size, struct err *e)
{
	const uint8_t *in = data;
	struct entry *en;
	uint32_t owners;

	if (size < ENTRY_BYTES(0))
		return err_set(e, ERR_CORRUPT, "index entry of %zu bytes",
		    size);
	owners = le32_get(in + AT_OWNERS);
	if (owners > ENTRY_OWNERS_MAX || size != ENTRY_BYTES(owners) ||
	    le32_get(in + size - 4) != checksum(k, in, size - 4))
		return err_set(e, ERR_CORRUPT,
		    "index entry's checksum is wrong");
	en = entry_new(owners);
	if (!en)
		return err_set(e, ERR_NO_MEMORY, "no memory for an entry");
	en->owner_count = owners;
	if (fields_get(en, in, e) != 0) {
		free(en);
		return -1;
	}
	*out = en;
	return 0;
}
