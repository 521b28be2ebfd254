/*
 * client/chunker.c - content-defined cut points.
 *
 * Gear hash with normalised chunking (Xia et al., FastCDC, USENIX ATC 2016):
 * one shift, one addition and one comparison per byte.  Comparing with a
 * limit looks at the top bits, the only ones that depend on all 64 bytes.
 *
 * The hash begins 64 bytes before the first place where a chunk may end, so
 * that whether a place is a candidate depends on the 64 bytes before it alone,
 * never on where the chunk began: two different histories of a file agree
 * again at the first candidate that both may take.
 */
#include "client/chunker.h"

#include "base/hash.h"
#include "base/le.h"

#include <assert.h>

#define WINDOW 64	/* bytes: after 64 shifts a byte has left h */

int chunker_init(struct chunker *c, const uint8_t seed[static CHUNK_SEED_SIZE],
    struct err *e)
{
	static const char label[8] = "bk cut 1";
	uint8_t counter[4], block[SHA256_SIZE];
	const struct bytes pieces[] = {
		{ label, sizeof(label) }, { counter, sizeof(counter) },
	};

	for (uint32_t i = 0; i < 256; i += 4) {
		le32_put(counter, i / 4);
		if (hmac_sha256(block, seed, CHUNK_SEED_SIZE, pieces, 2,
		    e) != 0)
			return -1;
		for (uint32_t k = 0; k < 4; k++)
			c->gear[i + k] = le64_get(block + 8 * k);
	}
	secret_wipe(block, sizeof(block));
	return 0;
}

/*
 * Roll *h over data[from .. to) and return the first position after a byte
 * where it is below `limit`, or 0.
 */
static size_t roll(const uint64_t *gear, const uint8_t *data, size_t from,
    size_t to, uint64_t limit, uint64_t *hash)
{
	uint64_t h = *hash;
	size_t i = from;

#define STEP(k) \
	h = (h << 1) + gear[data[i + (k)]]; \
	if (h < limit) \
		return i + (k) + 1;
	for (; i + 8 <= to; i += 8) {
		STEP(0) STEP(1) STEP(2) STEP(3)
		STEP(4) STEP(5) STEP(6) STEP(7)
	}
	for (; i < to; i++) {
		STEP(0)
	}
#undef STEP
	*hash = h;
	return 0;
}

static size_t smaller(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* 2^64 / n, for n a power of two and not 1. */
static uint64_t one_in(uint64_t n)
{
	return UINT64_MAX / n + 1;
}

size_t chunker_next_sized(const struct chunker *c,
    const struct chunk_sizes *sizes, const uint8_t *data, size_t size,
    bool end)
{
	const size_t most = smaller(size, sizes->max);
	const size_t middle = smaller(most, sizes->avg);
	uint64_t h = 0;
	size_t cut;

	assert(sizes->min >= WINDOW);
	if (size <= sizes->min)
		return end ? size : 0;
	/* The hash of the place min, then the places beyond. */
	for (size_t i = sizes->min - WINDOW; i < sizes->min; i++)
		h = (h << 1) + c->gear[data[i]];
	if (h < one_in(sizes->avg * sizes->bias))
		return sizes->min;
	cut = roll(c->gear, data, sizes->min, middle,
	    one_in(sizes->avg * sizes->bias), &h);
	if (cut == 0)
		cut = roll(c->gear, data, middle, most,
		    one_in(sizes->avg / sizes->bias), &h);
	if (cut != 0)
		return cut;
	return end || most == sizes->max ? most : 0;
}

size_t chunker_next(const struct chunker *c, const uint8_t *data,
    size_t size, bool end)
{
	static const struct chunk_sizes sizes = {
		.min = CHUNK_MIN, .avg = CHUNK_AVG, .max = CHUNK_MAX,
		.bias = CHUNK_BIAS,
	};

	return chunker_next_sized(c, &sizes, data, size, end);
}
