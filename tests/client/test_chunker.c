/*
 * Cut points: they are format, so the table and the cuts of a fixed input are
 * pinned, and the definition in client/chunker.h is written out once more in
 * the plainest way and compared on many inputs.  Then what the choice promises:
 * little is new after a small change, and hostile inputs stay cheap.  Inputs
 * come from a seeded generator.
 */
#include "client/chunker.h"

#include "base/hash.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define MIB (1u << 20)

static const uint8_t seed[CHUNK_SEED_SIZE] = "pinned by tests/client/chunker";

static struct chunker chunker;

static void setup(void)
{
	struct err e;

	ck_assert_int_eq(chunker_init(&chunker, seed, &e), 0);
}

/* Vigna, splitmix64. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static uint8_t *random_data(size_t size, uint64_t state)
{
	uint8_t *data = malloc(size + 8);

	ck_assert_ptr_nonnull(data);
	for (size_t i = 0; i < size; i += 8) {
		uint64_t r = next_random(&state);

		memcpy(data + i, &r, 8);
	}
	return data;
}

/* h(n) of client/chunker.h, term by term; bytes before the start are none. */
static uint64_t plain_hash(const uint8_t *data, size_t n)
{
	uint64_t h = 0;

	for (size_t back = 1; back <= 64 && back <= n; back++)
		h += chunker.gear[data[n - back]] << (back - 1);
	return h;
}

static size_t plain_next(const uint8_t *data, size_t size,
    const struct chunk_sizes *s)
{
	for (size_t n = s->min; n < size && n < s->max; n++) {
		uint64_t one_in = n <= s->avg ? s->avg * s->bias :
		    s->avg / s->bias;

		/* 2^64 / one_in, where one_in is a power of two. */
		if (plain_hash(data, n) < UINT64_MAX / one_in + 1)
			return n;
	}
	return size < s->max ? size : s->max;
}

START_TEST(the_table_comes_from_the_seed)
{
	static const uint64_t first[4] = {
		0x7efec1ab8494df5d, 0x370103c47225f628,
		0x2646fd3e9d5380fc, 0x46c21cf76c614d5c,
	};

	ck_assert_mem_eq(chunker.gear, first, sizeof(first));
}
END_TEST

START_TEST(a_fixed_input_is_cut_at_fixed_places)
{
	static const size_t want[] = {
		81028, 66974, 67176, 72546, 74069, 71152, 69037, 66858, 81756,
		65806, 55496, 93289, 71198, 77409, 34782,
	};
	uint8_t *data = random_data(MIB, 20240503);
	size_t at = 0;

	for (size_t i = 0; at < MIB; i++) {
		size_t n = chunker_next(&chunker, data + at, MIB - at, true);

		ck_assert_uint_lt(i, sizeof(want) / sizeof(want[0]));
		ck_assert_uint_eq(n, want[i]);
		at += n;
	}
	free(data);
}
END_TEST

START_TEST(another_seed_cuts_elsewhere)
{
	uint8_t *data = random_data(MIB, 1);
	uint8_t other_seed[CHUNK_SEED_SIZE];
	struct chunker other;
	struct err e;

	memcpy(other_seed, seed, sizeof(seed));
	other_seed[31] ^= 1;
	ck_assert_int_eq(chunker_init(&other, other_seed, &e), 0);
	ck_assert_uint_ne(chunker_next(&chunker, data, MIB, true),
	    chunker_next(&other, data, MIB, true));
	free(data);
}
END_TEST

START_TEST(cuts_are_those_of_the_plain_definition)
{
	static const struct chunk_sizes all[] = {
		{ 64, 128, 512, 4 }, { 64, 256, 300, 2 }, { 64, 64, 1000, 4 },
		{ 1024, 4096, 16384, 4 }, { CHUNK_MIN, CHUNK_AVG, CHUNK_MAX,
		    CHUNK_BIAS },
	};
	const size_t size = 3 * MIB / 2;
	uint8_t *data = random_data(size, (uint64_t)_i);
	const struct chunk_sizes *s = &all[_i];

	memset(data + size / 2, 0, 2000);
	for (size_t at = 0, n; at < size; at += n) {
		n = chunker_next_sized(&chunker, s, data + at, size - at,
		    true);
		ck_assert_uint_eq(n, plain_next(data + at, size - at, s));
	}
	free(data);
}
END_TEST

START_TEST(small_files_are_one_chunk)
{
	uint8_t *data = random_data(CHUNK_MIN + 1, 2);

	ck_assert_uint_eq(chunker_next(&chunker, data, 0, true), 0);
	ck_assert_uint_eq(chunker_next(&chunker, data, 1, true), 1);
	ck_assert_uint_eq(chunker_next(&chunker, data, CHUNK_MIN, true),
	    CHUNK_MIN);
	ck_assert_uint_eq(chunker_next(&chunker, data, CHUNK_MIN + 1, true),
	    CHUNK_MIN + 1);
	free(data);
}
END_TEST

START_TEST(asks_for_more_rather_than_cut_by_what_was_read)
{
	uint8_t *data = random_data(CHUNK_MAX, 3);
	size_t whole = chunker_next(&chunker, data, CHUNK_MAX, false);

	ck_assert_uint_ge(whole, CHUNK_MIN);
	ck_assert_uint_le(whole, CHUNK_MAX);
	for (size_t size = 0; size < whole; size += 997)
		ck_assert_uint_eq(chunker_next(&chunker, data, size, false),
		    0);
	for (size_t size = whole + 1; size < CHUNK_MAX; size += 997)
		ck_assert_uint_eq(chunker_next(&chunker, data, size, false),
		    whole);
	ck_assert_uint_eq(chunker_next(&chunker, data, CHUNK_MAX, true),
	    whole);
	free(data);
}
END_TEST

/* ---- what is shared ----------------------------------------------------- */

struct keys {
	uint8_t (*keys)[XXH128_SIZE];
	size_t count;
};

static void keys_add(struct keys *k, const uint8_t *data, size_t size)
{
	k->keys = realloc(k->keys, (k->count + 1) * sizeof(*k->keys));
	ck_assert_ptr_nonnull(k->keys);
	xxh128(k->keys[k->count++], data, size);
}

static bool keys_have(const struct keys *k, const uint8_t *key)
{
	for (size_t i = 0; i < k->count; i++)
		if (memcmp(k->keys[i], key, XXH128_SIZE) == 0)
			return true;
	return false;
}

/* Cut `data`; adds what `k` lacks and returns how many these are. */
static size_t cut_into(struct keys *k, const uint8_t *data, size_t size)
{
	size_t count = 0;
	uint8_t key[XXH128_SIZE];

	for (size_t at = 0, n; at < size; at += n) {
		n = chunker_next(&chunker, data + at, size - at, true);
		ck_assert_uint_ge(n, 1);
		ck_assert_uint_le(n, CHUNK_MAX);
		if (at + n < size)
			ck_assert_uint_ge(n, CHUNK_MIN);
		xxh128(key, data + at, n);
		if (keys_have(k, key))
			continue;
		keys_add(k, data + at, n);
		count++;
	}
	return count;
}

START_TEST(a_byte_in_front_makes_at_most_three_chunks)
{
	const size_t size = 100 * MIB;
	uint8_t *data = random_data(size + 1, 4);
	struct keys k = { .count = 0 };
	size_t all = cut_into(&k, data + 1, size);

	ck_assert_uint_gt(all, size / CHUNK_AVG / 2);
	ck_assert_uint_le(cut_into(&k, data, size + 1), 3);
	free(k.keys);
	free(data);
}
END_TEST

START_TEST(an_edit_in_the_middle_makes_at_most_three_chunks)
{
	const size_t size = 8 * MIB;
	uint8_t *data = random_data(size, 5);
	struct keys k = { .count = 0 };
	size_t most = 0, sum = 0;

	cut_into(&k, data, size);
	for (size_t at = 4096; at + 4096 < size; at += size / 32) {
		struct keys copy = { .count = k.count };
		size_t some;

		copy.keys = malloc(k.count * sizeof(*k.keys));
		ck_assert_ptr_nonnull(copy.keys);
		memcpy(copy.keys, k.keys, k.count * sizeof(*k.keys));
		data[at] ^= 0xff;
		some = cut_into(&copy, data, size);
		data[at] ^= 0xff;
		free(copy.keys);
		sum += some;
		most = some > most ? some : most;
	}
	ck_assert_uint_le(most, 5);
	ck_assert_uint_le(sum, 32 * 2);
	free(k.keys);
	free(data);
}
END_TEST

START_TEST(regular_inputs_make_few_different_chunks)	/* _i: which */
{
	const size_t size = 16 * MIB;
	uint8_t *data = malloc(size);
	uint8_t *period = random_data(64, (uint64_t)_i);
	size_t length = _i == 0 ? 1 : _i == 1 ? 4 : 64;
	struct keys k = { .count = 0 };

	ck_assert_ptr_nonnull(data);
	if (_i == 0)
		period[0] = 0;
	if (_i == 1)
		memcpy(period, "yes\n", 4);
	for (size_t i = 0; i < size; i++)
		data[i] = period[i % length];
	ck_assert_uint_le(cut_into(&k, data, size), 4);
	free(k.keys);
	free(period);
	free(data);
}
END_TEST

START_TEST(chunks_are_near_the_average)
{
	const size_t size = 64 * MIB;
	uint8_t *data = random_data(size, 6);
	size_t count = 0, at_max = 0;

	for (size_t at = 0, n; at < size; at += n, count++) {
		n = chunker_next(&chunker, data + at, size - at, true);
		at_max += n == CHUNK_MAX;
	}
	ck_assert_uint_gt(size / count, CHUNK_AVG);
	ck_assert_uint_lt(size / count, CHUNK_AVG * 3 / 2);
	ck_assert_uint_le(at_max, 1);
	free(data);
}
END_TEST

Suite *client_chunker_suite(void);
Suite *client_chunker_suite(void)
{
	Suite *s = suite_create("chunker");
	TCase *t = tcase_create("chunker");

	tcase_add_checked_fixture(t, setup, NULL);
	tcase_add_test(t, the_table_comes_from_the_seed);
	tcase_add_test(t, a_fixed_input_is_cut_at_fixed_places);
	tcase_add_test(t, another_seed_cuts_elsewhere);
	tcase_add_loop_test(t, cuts_are_those_of_the_plain_definition, 0, 5);
	tcase_add_test(t, small_files_are_one_chunk);
	tcase_add_test(t, asks_for_more_rather_than_cut_by_what_was_read);
	tcase_add_test(t, a_byte_in_front_makes_at_most_three_chunks);
	tcase_add_test(t, an_edit_in_the_middle_makes_at_most_three_chunks);
	tcase_add_loop_test(t, regular_inputs_make_few_different_chunks, 0, 8);
	tcase_add_test(t, chunks_are_near_the_average);
	suite_add_tcase(s, t);
	return s;
}
