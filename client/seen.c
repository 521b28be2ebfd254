/*
 * client/seen.c - a set of ids: a hash table that spills once.
 *
 * In memory: open addressing over 16-byte keys (ids are hashes already).  At
 * three quarters of SEEN_MEMORY_MAX the table is emptied into a sparse file of
 * buckets of 4 KiB, chosen by other bits of the key.
 */
#include "client/seen.h"

#include "base/io.h"
#include "base/le.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEY_SIZE 16u
#define SLOTS_MAX (SEEN_MEMORY_MAX / KEY_SIZE)
#define SLOTS_START 4096u
#define BUCKET_SIZE 4096u
#define BUCKET_KEYS (BUCKET_SIZE / KEY_SIZE)
#define BUCKETS 262144u		/* 1 GiB when full: 67 million ids */

struct seen {
	uint8_t *keys;		/* slots x KEY_SIZE; all zero = empty */
	size_t slots, count;
	int dir;
	int file;		/* -1 until it spills */
};

static bool key_empty(const uint8_t *key)
{
	return le64_get(key) == 0 && le64_get(key + 8) == 0;
}

int seen_new(struct seen **out, int dir, struct err *e)
{
	struct seen *s = calloc(1, sizeof(*s));

	if (s)
		s->keys = calloc(SLOTS_START, KEY_SIZE);
	if (!s || !s->keys) {
		free(s);
		return err_set(e, ERR_NO_MEMORY, "no memory for known ids");
	}
	s->slots = SLOTS_START;
	s->dir = dir;
	s->file = -1;
	*out = s;
	return 0;
}

void seen_free(struct seen *s)
{
	if (!s)
		return;
	io_close(&s->file);
	free(s->keys);
	free(s);
}

void seen_clear(struct seen *s)
{
	memset(s->keys, 0, s->slots * KEY_SIZE);
	s->count = 0;
	io_close(&s->file);
}

/* Where the key is in the table, or the empty slot where it would go. */
static uint8_t *table_slot(uint8_t *keys, size_t slots, const uint8_t *key)
{
	size_t i = le64_get(key) & (slots - 1);

	while (!key_empty(keys + i * KEY_SIZE) &&
	    memcmp(keys + i * KEY_SIZE, key, KEY_SIZE) != 0)
		i = (i + 1) & (slots - 1);
	return keys + i * KEY_SIZE;
}

static bool table_grow(struct seen *s)
{
	size_t slots = 2 * s->slots;
	uint8_t *keys = calloc(slots, KEY_SIZE);

	if (!keys)
		return false;
	for (size_t i = 0; i < s->slots; i++) {
		const uint8_t *key = s->keys + i * KEY_SIZE;

		if (!key_empty(key))
			memcpy(table_slot(keys, slots, key), key, KEY_SIZE);
	}
	free(s->keys);
	s->keys = keys;
	s->slots = slots;
	return true;
}

/* The bucket's bytes, zero where the file has none. */
static uint64_t bucket_read(const struct seen *s, const uint8_t *key,
    uint8_t bucket[static BUCKET_SIZE])
{
	uint64_t offset = (uint64_t)(le32_get(key + 8) % BUCKETS) *
	    BUCKET_SIZE;
	ssize_t got;

	do {
		got = pread(s->file, bucket, BUCKET_SIZE, (off_t)offset);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		got = 0;
	memset(bucket + got, 0, BUCKET_SIZE - (size_t)got);
	return offset;
}

/* The key's place in the bucket, an empty one, or NULL when it is full. */
static uint8_t *bucket_slot(uint8_t *bucket, const uint8_t *key)
{
	for (size_t i = 0; i < BUCKET_KEYS; i++) {
		uint8_t *at = bucket + i * KEY_SIZE;

		if (key_empty(at) || memcmp(at, key, KEY_SIZE) == 0)
			return at;
	}
	return NULL;
}

static void spill_key(struct seen *s, const uint8_t *key)
{
	uint8_t bucket[BUCKET_SIZE], *at;
	uint64_t offset = bucket_read(s, key, bucket);
	struct err ignored;

	at = bucket_slot(bucket, key);
	if (!at || !key_empty(at))
		return;
	offset += (uint64_t)(at - bucket);
	(void)!io_pwrite_all(s->file, key, KEY_SIZE, offset, "known ids",
	    &ignored);
}

static void spill(struct seen *s)
{
	if (s->file < 0)
		s->file = openat(s->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC,
		    0600);
	for (size_t i = 0; i < s->slots && s->file >= 0; i++)
		if (!key_empty(s->keys + i * KEY_SIZE))
			spill_key(s, s->keys + i * KEY_SIZE);
	memset(s->keys, 0, s->slots * KEY_SIZE);
	s->count = 0;
}

static bool in_file(const struct seen *s, const uint8_t *key)
{
	uint8_t bucket[BUCKET_SIZE], *at;

	if (s->file < 0)
		return false;
	bucket_read(s, key, bucket);
	at = bucket_slot(bucket, key);
	return at && !key_empty(at);
}

bool seen_has(struct seen *s, const struct id *id)
{
	return !key_empty(table_slot(s->keys, s->slots, id->bytes)) ||
	    in_file(s, id->bytes);
}

bool seen_add(struct seen *s, const struct id *id)
{
	if (seen_has(s, id))
		return true;
	if (4 * (s->count + 1) > 3 * s->slots &&
	    (s->slots >= SLOTS_MAX || !table_grow(s)))
		spill(s);
	memcpy(table_slot(s->keys, s->slots, id->bytes), id->bytes, KEY_SIZE);
	s->count++;
	return false;
}
