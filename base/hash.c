#include "base/hash.h"

#include <isa-l/crc.h>
#include <isa-l/crc64.h>
#include <limits.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdlib.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#if defined(__x86_64__)
#include <immintrin.h>

/* ISA-L 2.30 returns with dirty upper halves of the vector registers; SHA
 * instructions then run at three quarters of their speed. */
__attribute__((target("avx"))) static void upper_clear(void)
{
	_mm256_zeroupper();
}

static void after_isal(void)
{
	if (__builtin_cpu_supports("avx"))
		upper_clear();
}
#else
static void after_isal(void)
{
}
#endif

uint32_t crc32c(uint32_t seed, const void *data, size_t size)
{
	/* ISA-L takes an int, does not write, and leaves the inversion of
	 * RFC 3720 to its caller. */
	unsigned char *at = (unsigned char *)(uintptr_t)data;
	uint32_t crc = ~seed;

	while (size > 0) {
		int n = size > INT_MAX ? INT_MAX : (int)size;

		crc = crc32_iscsi(at, n, crc);
		at += n;
		size -= (size_t)n;
	}
	after_isal();
	return ~crc;
}

uint64_t crc64(uint64_t seed, const void *data, size_t size)
{
	uint64_t crc = seed;

	if (size > 0) {
		crc = crc64_ecma_refl(seed, data, size);
		after_isal();
	}
	return crc;
}

void xxh128(uint8_t out[static XXH128_SIZE], const void *data, size_t size)
{
	XXH128_canonical_t canonical;

	XXH128_canonicalFromHash(&canonical, XXH3_128bits(data, size));
	memcpy(out, canonical.digest, XXH128_SIZE);
}

/* What one thread needs, fetched once: looking an algorithm up by name costs
 * more than hashing a page. */
struct context {
	EVP_MD *md;
	EVP_MD_CTX *sha;
	EVP_MAC *mac;
	EVP_MAC_CTX *hmac;
};

static pthread_once_t context_once = PTHREAD_ONCE_INIT;
static pthread_key_t context_key;

static void context_free(void *arg)
{
	struct context *c = arg;

	if (!c)
		return;
	EVP_MD_CTX_free(c->sha);
	EVP_MAC_CTX_free(c->hmac);
	EVP_MD_free(c->md);
	EVP_MAC_free(c->mac);
	free(c);
}

static void context_key_make(void)
{
	if (pthread_key_create(&context_key, context_free) != 0)
		abort();	/* at start: no program has 1024 keys */
}

static struct context *context_new(void)
{
	struct context *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->md = EVP_MD_fetch(NULL, "SHA256", NULL);
	c->sha = EVP_MD_CTX_new();
	c->mac = EVP_MAC_fetch(NULL, "HMAC", NULL);
	c->hmac = c->mac ? EVP_MAC_CTX_new(c->mac) : NULL;
	if (!c->md || !c->sha || !c->hmac ||
	    pthread_setspecific(context_key, c) != 0) {
		context_free(c);
		return NULL;
	}
	return c;
}

static struct context *context_get(void)
{
	struct context *c;

	pthread_once(&context_once, context_key_make);
	c = pthread_getspecific(context_key);
	return c ? c : context_new();
}

int sha256(uint8_t out[static SHA256_SIZE], const struct bytes *pieces,
    size_t count, struct err *e)
{
	struct context *c = context_get();
	int ok;

	if (!c)
		return err_set(e, ERR_NO_MEMORY, "no context for SHA-256");
	ok = EVP_DigestInit_ex2(c->sha, c->md, NULL);
	for (size_t i = 0; ok && i < count; i++)
		ok = EVP_DigestUpdate(c->sha, pieces[i].data, pieces[i].size);
	if (!ok || !EVP_DigestFinal_ex(c->sha, out, NULL))
		return err_set(e, ERR_NO_MEMORY, "SHA-256 failed");
	return 0;
}

int hmac_sha256(uint8_t out[static SHA256_SIZE], const void *key,
    size_t key_size, const struct bytes *pieces, size_t count, struct err *e)
{
	struct context *c = context_get();
	char name[] = "SHA256";
	OSSL_PARAM params[] = {
		OSSL_PARAM_utf8_string(OSSL_MAC_PARAM_DIGEST, name,
		    sizeof(name) - 1),
		OSSL_PARAM_END
	};
	size_t got;
	int ok;

	if (!c)
		return err_set(e, ERR_NO_MEMORY, "no context for HMAC");
	ok = EVP_MAC_init(c->hmac, key, key_size, params);
	for (size_t i = 0; ok && i < count; i++)
		ok = EVP_MAC_update(c->hmac, pieces[i].data, pieces[i].size);
	if (!ok || !EVP_MAC_final(c->hmac, out, &got, SHA256_SIZE))
		return err_set(e, ERR_NO_MEMORY, "HMAC-SHA-256 failed");
	return 0;
}

int random_bytes(void *out, size_t size, struct err *e)
{
	uint8_t *at = out;

	while (size > 0) {
		int n = size > INT_MAX ? INT_MAX : (int)size;

		if (RAND_bytes(at, n) != 1)
			return err_set(e, ERR_IO, "no random numbers");
		at += n;
		size -= (size_t)n;
	}
	return 0;
}

bool secret_equal(const void *a, const void *b, size_t size)
{
	return CRYPTO_memcmp(a, b, size) == 0;
}

void secret_wipe(void *p, size_t size)
{
	if (p)
		OPENSSL_cleanse(p, size);
}
