/*
 * raid/facts.c - a sorted table of pointers to facts.
 *
 * A store has some hundred thousand facts at most, and a checkpoint brings them
 * in order, so that each insertion is at the end: moving pointers is cheaper
 * here than any tree.
 */
#include "raid/facts.h"

#include "raid/array.h"
#include "raid/fmt_record.h"
#include "raid/log.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct facts {
	struct fact **table;	/* by key */
	size_t count, cap;
	uint64_t bytes;
};

int fact_new(struct fact **out, const void *key, size_t key_size,
    const void *value, size_t value_size, struct err *e)
{
	struct fact *f;

	if (key_size < 1 || key_size > RAID_KEY_MAX ||
	    value_size > RAID_VALUE_MAX)
		return err_set(e, ERR_LIMIT,
		    "a fact with a key of %zu and a value of %zu bytes",
		    key_size, value_size);
	f = malloc(sizeof(*f) + key_size + value_size);
	if (!f)
		return err_set(e, ERR_NO_MEMORY, "no memory for a fact");
	f->key_size = (uint32_t)key_size;
	f->value_size = (uint32_t)value_size;
	memcpy(f->bytes, key, key_size);
	if (value_size > 0)
		memcpy(f->bytes + key_size, value, value_size);
	*out = f;
	return 0;
}

struct facts *facts_new(void)
{
	return calloc(1, sizeof(struct facts));
}

void facts_free(struct facts *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->count; i++)
		free(f->table[i]);
	free(f->table);
	free(f);
}

int facts_reserve(struct facts *f, size_t more, struct err *e)
{
	size_t cap = f->cap ? f->cap : 64;
	struct fact **table;

	while (cap < f->count + more)
		cap *= 2;
	if (cap == f->cap)
		return 0;
	table = realloc(f->table, cap * sizeof(*table));
	if (!table)
		return err_set(e, ERR_NO_MEMORY, "no memory for %zu facts",
		    cap);
	f->table = table;
	f->cap = cap;
	return 0;
}

static int key_compare(const void *a, size_t a_size, const void *b,
    size_t b_size)
{
	int c = memcmp(a, b, a_size < b_size ? a_size : b_size);

	return c != 0 ? c : (a_size > b_size) - (a_size < b_size);
}

/* The first place whose key is not below this one. */
static size_t place_of(const struct facts *f, const void *key, size_t size)
{
	size_t low = 0, high = f->count;

	/* Checkpoints come in order: look at the end first. */
	if (high > 0 && key_compare(f->table[high - 1]->bytes,
	    f->table[high - 1]->key_size, key, size) < 0)
		return high;
	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct fact *t = f->table[mid];

		if (key_compare(t->bytes, t->key_size, key, size) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool is_at(const struct facts *f, size_t i, const void *key,
    size_t size)
{
	return i < f->count && f->table[i]->key_size == size &&
	    memcmp(f->table[i]->bytes, key, size) == 0;
}

static uint64_t weight(const struct fact *t)
{
	return (uint64_t)t->key_size + t->value_size;
}

void facts_set(struct facts *f, struct fact *fact)
{
	size_t i = place_of(f, fact->bytes, fact->key_size);

	f->bytes += weight(fact);
	if (is_at(f, i, fact->bytes, fact->key_size)) {
		f->bytes -= weight(f->table[i]);
		free(f->table[i]);
		f->table[i] = fact;
		return;
	}
	assert(f->count < f->cap);
	memmove(f->table + i + 1, f->table + i,
	    (f->count - i) * sizeof(*f->table));
	f->table[i] = fact;
	f->count++;
}

void facts_delete(struct facts *f, const void *key, size_t key_size)
{
	size_t i = place_of(f, key, key_size);

	if (!is_at(f, i, key, key_size))
		return;
	f->bytes -= weight(f->table[i]);
	free(f->table[i]);
	f->count--;
	memmove(f->table + i, f->table + i + 1,
	    (f->count - i) * sizeof(*f->table));
}

const struct fact *facts_find(const struct facts *f, const void *key,
    size_t key_size)
{
	size_t i = place_of(f, key, key_size);

	return is_at(f, i, key, key_size) ? f->table[i] : NULL;
}

int facts_each(const struct facts *f, const void *prefix, size_t prefix_size,
    int (*each)(void *arg, const uint8_t *key, size_t key_size,
    const uint8_t *value, size_t value_size), void *arg)
{
	for (size_t i = prefix_size ? place_of(f, prefix, prefix_size) : 0;
	    i < f->count; i++) {
		const struct fact *t = f->table[i];
		int rc;

		if (t->key_size < prefix_size || (prefix_size > 0 &&
		    memcmp(t->bytes, prefix, prefix_size) != 0))
			break;
		rc = each(arg, t->bytes, t->key_size, t->bytes + t->key_size,
		    t->value_size);
		if (rc != 0)
			return rc;
	}
	return 0;
}

size_t facts_count(const struct facts *f)
{
	return f->count;
}

uint64_t facts_bytes(const struct facts *f)
{
	return f->bytes;
}

int facts_replay(struct facts *f, const struct log_rec *r, struct err *e)
{
	struct rec_fact got;
	struct fact *fact;

	assert(r->type == REC_FACT_SET || r->type == REC_FACT_DELETE);
	if (rec_fact_get(&got, r->type, r->body, r->size, e) != 0)
		return -1;
	if (r->type == REC_FACT_DELETE) {
		facts_delete(f, got.key, got.key_size);
		return 0;
	}
	if (facts_reserve(f, 1, e) != 0 || fact_new(&fact, got.key,
	    got.key_size, got.value, got.value_size, e) != 0)
		return -1;
	facts_set(f, fact);
	return 0;
}

int facts_dump(const struct facts *f,
    int (*emit)(void *log, const struct log_rec *r, struct err *e), void *log,
    struct err *e)
{
	uint8_t *body = malloc(REC_FACT_MAX);
	int rc = -1;

	if (!body)
		return err_set(e, ERR_NO_MEMORY, "no memory to dump facts");
	for (size_t i = 0; i < f->count; i++) {
		const struct fact *t = f->table[i];
		struct rec_fact p = { .key = t->bytes,
			.key_size = t->key_size,
			.value = t->bytes + t->key_size,
			.value_size = t->value_size };
		struct log_rec r = { .type = REC_FACT_SET, .body = body };

		r.size = (uint32_t)rec_fact_put(body, &p);
		if (emit(log, &r, e) != 0)
			goto out;
	}
	rc = 0;
out:
	free(body);
	return rc;
}
