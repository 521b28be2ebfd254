#include "raid/parity.h"

#include <assert.h>
#include <isa-l/erasure_code.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

/* ISA-L 2.30 returns with dirty upper halves of the vector registers, which
 * slows later SHA instructions of the thread by a quarter. */
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

/* Slices that stay in the second-level cache together. */
#define SLICE (32u << 10)

void parity_init(struct parity *c, unsigned k, unsigned p)
{
	assert(k >= 1 && p <= SEG_PARITY_MAX && k + p <= SEG_WIDTH_MAX);
	memset(c, 0, sizeof(*c));
	c->k = (uint8_t)k;
	c->p = (uint8_t)p;
	if (k == 1) {
		memset(c->matrix, 1, 1 + p);
		return;
	}
	gf_gen_rs_matrix(c->matrix, (int)(k + p), (int)k);
	if (p > 0)
		ec_init_tables((int)k, (int)p, c->matrix + k * k, c->tables);
}

/* out[0..rows-1] = tables * in[0..k-1], in slices. */
static void apply(unsigned k, unsigned rows, uint8_t *tables,
    uint8_t *const *in, uint8_t *const *out, size_t size)
{
	uint8_t *from[SEG_WIDTH_MAX], *to[SEG_WIDTH_MAX];

	for (size_t at = 0; at < size; at += SLICE) {
		size_t n = size - at < SLICE ? size - at : SLICE;

		for (unsigned i = 0; i < k; i++)
			from[i] = in[i] + at;
		for (unsigned i = 0; i < rows; i++)
			to[i] = out[i] + at;
		ec_encode_data((int)n, (int)k, (int)rows, tables, from, to);
	}
	after_isal();
}

void parity_encode(const struct parity *c, uint8_t *const *strips,
    size_t size)
{
	uint8_t tables[sizeof(c->tables)];

	if (c->p == 0)
		return;
	if (c->k == 1) {
		for (unsigned i = 1; i <= c->p; i++)
			memcpy(strips[i], strips[0], size);
		return;
	}
	memcpy(tables, c->tables, sizeof(tables));	/* ISA-L is not const */
	apply(c->k, c->p, tables, strips, strips + c->k, size);
}

/* The k good strips that serve as sources; false if there are fewer. */
static bool sources(const struct parity *c, const bool *good,
    uint8_t from[SEG_WIDTH_MAX])
{
	unsigned n = 0;

	for (unsigned i = 0; i < (unsigned)c->k + c->p && n < c->k; i++)
		if (good[i])
			from[n++] = (uint8_t)i;
	return n == c->k;
}

/* Rows that give the missing strips from the sources: for a data strip the
 * row of the inverse, for a parity strip its row times the inverse. */
static void decode_rows(const struct parity *c, const uint8_t *inverse,
    const uint8_t *lost, unsigned count, uint8_t *rows)
{
	unsigned k = c->k;

	for (unsigned i = 0; i < count; i++) {
		const uint8_t *row = c->matrix + (size_t)lost[i] * k;

		for (unsigned col = 0; col < k; col++) {
			uint8_t sum = 0;

			for (unsigned j = 0; j < k; j++)
				sum ^= gf_mul(row[j], inverse[j * k + col]);
			rows[i * k + col] = sum;
		}
	}
}

static int decode(const struct parity *c, uint8_t *const *strips,
    const bool *good, size_t size, struct err *e)
{
	uint8_t square[SEG_WIDTH_MAX * SEG_WIDTH_MAX];
	uint8_t inverse[SEG_WIDTH_MAX * SEG_WIDTH_MAX];
	uint8_t rows[SEG_PARITY_MAX * SEG_WIDTH_MAX];
	uint8_t tables[sizeof(c->tables)];
	uint8_t from[SEG_WIDTH_MAX], lost[SEG_PARITY_MAX];
	uint8_t *in[SEG_WIDTH_MAX], *out[SEG_PARITY_MAX];
	unsigned count = 0, k = c->k;

	if (!sources(c, good, from))
		return err_set(e, ERR_CORRUPT,
		    "fewer than %u good strips", k);
	for (unsigned i = 0; i < k; i++) {
		memcpy(square + i * k, c->matrix + (size_t)from[i] * k, k);
		in[i] = strips[from[i]];
	}
	for (unsigned i = 0; i < k + c->p; i++)
		if (!good[i]) {
			lost[count] = (uint8_t)i;
			out[count++] = strips[i];
		}
	if (count == 0)
		return 0;
	if (gf_invert_matrix(square, inverse, (int)k) != 0)
		return err_set(e, ERR_CORRUPT, "no inverse for these strips");
	decode_rows(c, inverse, lost, count, rows);
	ec_init_tables((int)k, (int)count, rows, tables);
	apply(k, count, tables, in, out, size);
	return 0;
}

int parity_decode(const struct parity *c, uint8_t *const *strips,
    const bool *good, size_t size, struct err *e)
{
	uint8_t from[SEG_WIDTH_MAX] = { 0 };

	if (c->k > 1)
		return decode(c, strips, good, size, e);
	if (!sources(c, good, from))
		return err_set(e, ERR_CORRUPT, "no good strip");
	for (unsigned i = 0; i < 1u + c->p; i++)
		if (!good[i])
			memcpy(strips[i], strips[from[0]], size);
	return 0;
}
