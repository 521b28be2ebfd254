/* Proves base/hash.h against published vectors, in pieces and from threads. */
#include "base/hash.h"
#include "base/str.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

Suite *base_hash_suite(void);

static void sha_hex(char out[65], const struct bytes *p, size_t n)
{
	uint8_t raw[SHA256_SIZE];
	struct err e;

	ck_assert_int_eq(sha256(raw, p, n, &e), 0);
	hex_put(out, raw, sizeof(raw));
}

START_TEST(checksums_match_their_published_check_values)
{
	static const char nine[] = "123456789";
	char hex[33];
	uint8_t raw[XXH128_SIZE];

	ck_assert_uint_eq(crc32c(0, nine, 9), 0xe3069283);
	ck_assert_uint_eq(crc64(0, nine, 9), 0x995dc9bbdf1939fa);
	ck_assert_uint_eq(crc32c(0, NULL, 0), 0);
	ck_assert_uint_eq(crc64(0, NULL, 0), 0);
	xxh128(raw, "", 0);	/* xxHash's own sanity check, seed 0 */
	hex_put(hex, raw, sizeof(raw));
	ck_assert_str_eq(hex, "99aa06d3014798d86001c324468d497f");
}
END_TEST

START_TEST(checksums_continue_over_pieces)
{
	uint8_t data[1000];

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 31 + 7);
	for (size_t cut = 0; cut <= sizeof(data); cut += 37) {
		uint32_t a = crc32c(0, data, cut);
		uint64_t b = crc64(0, data, cut);

		ck_assert_uint_eq(crc32c(a, data + cut, sizeof(data) - cut),
		    crc32c(0, data, sizeof(data)));
		ck_assert_uint_eq(crc64(b, data + cut, sizeof(data) - cut),
		    crc64(0, data, sizeof(data)));
	}
}
END_TEST

START_TEST(sha256_matches_fips_180)
{
	struct bytes abc = { "abc", 3 };
	struct bytes pieces[] = { { "a", 1 }, { NULL, 0 }, { "bc", 2 } };
	char hex[65];

	sha_hex(hex, &abc, 1);
	ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223"
	    "b00361a396177a9cb410ff61f20015ad");
	sha_hex(hex, pieces, 3);
	ck_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223"
	    "b00361a396177a9cb410ff61f20015ad");
	sha_hex(hex, NULL, 0);
	ck_assert_str_eq(hex, "e3b0c44298fc1c149afbf4c8996fb924"
	    "27ae41e4649b934ca495991b7852b855");
}
END_TEST

START_TEST(hmac_matches_rfc_4231)
{
	struct bytes p[] = { { "what do ya want ", 16 },
		{ "for nothing?", 12 } };
	uint8_t raw[SHA256_SIZE];
	char hex[65];
	struct err e;

	ck_assert_int_eq(hmac_sha256(raw, "Jefe", 4, p, 2, &e), 0);
	hex_put(hex, raw, sizeof(raw));
	ck_assert_str_eq(hex, "5bdcc146bf60754e6a042426089575c7"
	    "5a003f089d2739839dec58b964ec3843");
}
END_TEST

static void *hash_much(void *arg)
{
	struct bytes abc = { "abc", 3 };
	uint8_t first[SHA256_SIZE], raw[SHA256_SIZE];
	struct err e;

	if (sha256(first, &abc, 1, &e) != 0)
		return NULL;
	for (int i = 0; i < 1000; i++) {
		(void)crc32c(0, first, sizeof(first));
		if (sha256(raw, &abc, 1, &e) != 0 ||
		    memcmp(raw, first, sizeof(raw)) != 0)
			return NULL;
	}
	return arg;
}

START_TEST(threads_do_not_disturb_each_other)
{
	pthread_t t[8];
	void *result;
	int one;

	for (int i = 0; i < 8; i++)
		pthread_create(&t[i], NULL, hash_much, &one);
	for (int i = 0; i < 8; i++) {
		pthread_join(t[i], &result);
		ck_assert_ptr_nonnull(result);
	}
}
END_TEST

START_TEST(secrets_are_compared_and_wiped)
{
	uint8_t a[32], b[32], zero[32] = { 0 };
	struct err e;

	ck_assert_int_eq(random_bytes(a, sizeof(a), &e), 0);
	ck_assert_int_eq(random_bytes(b, sizeof(b), &e), 0);
	ck_assert(!secret_equal(a, b, sizeof(a)));
	ck_assert(secret_equal(a, a, sizeof(a)));
	secret_wipe(a, sizeof(a));
	ck_assert_mem_eq(a, zero, sizeof(a));
	secret_wipe(NULL, 0);
}
END_TEST

Suite *base_hash_suite(void)
{
	Suite *s = suite_create("hash");
	TCase *t = tcase_create("all");

	tcase_add_test(t, checksums_match_their_published_check_values);
	tcase_add_test(t, checksums_continue_over_pieces);
	tcase_add_test(t, sha256_matches_fips_180);
	tcase_add_test(t, hmac_matches_rfc_4231);
	tcase_add_test(t, threads_do_not_disturb_each_other);
	tcase_add_test(t, secrets_are_compared_and_wiped);
	suite_add_tcase(s, t);
	return s;
}
