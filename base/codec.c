#include "base/codec.h"

#include <lz4.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#define ZSTD_LEVEL_MAX 19

/* One thread's working memory, each part made at first use. */
struct context {
	void *lz4;
	ZSTD_CCtx *pack;
	ZSTD_DCtx *unpack;
};

static pthread_once_t context_once = PTHREAD_ONCE_INIT;
static pthread_key_t context_key;

static void context_free(void *arg)
{
	struct context *c = arg;

	free(c->lz4);
	ZSTD_freeCCtx(c->pack);
	ZSTD_freeDCtx(c->unpack);
	free(c);
}

static void context_key_make(void)
{
	if (pthread_key_create(&context_key, context_free) != 0)
		abort();	/* at start: no program has 1024 keys */
}

static struct context *context_get(void)
{
	struct context *c;

	pthread_once(&context_once, context_key_make);
	c = pthread_getspecific(context_key);
	if (c)
		return c;
	c = calloc(1, sizeof(*c));
	if (c && pthread_setspecific(context_key, c) != 0) {
		free(c);
		c = NULL;
	}
	return c;
}

int codec_known(unsigned number)
{
	return number == CODEC_RAW || number == CODEC_LZ4 ||
	    number == CODEC_ZSTD;
}

size_t codec_bound(size_t size)
{
	size_t bound = ZSTD_compressBound(size);

	/* LZ4's is 0 for sizes that it does not take at all. */
	if (size <= LZ4_MAX_INPUT_SIZE &&
	    (size_t)LZ4_compressBound((int)size) > bound)
		bound = (size_t)LZ4_compressBound((int)size);
	return bound;
}

/* Each packer gives the packed size, or 0 when the block does not fit or the
 * codec does not take it: the block is then stored as it is. */
static size_t pack_lz4(struct context *c, const void *in, size_t size,
    void *out)
{
	int n;

	if (size > LZ4_MAX_INPUT_SIZE)
		return 0;
	n = LZ4_compress_fast_extState(c->lz4, in, out, (int)size,
	    LZ4_compressBound((int)size), 1);
	return n > 0 ? (size_t)n : 0;
}

static size_t pack_zstd(struct context *c, int level, const void *in,
    size_t size, void *out)
{
	size_t n;

	if (level < 1)
		level = 1;
	if (level > ZSTD_LEVEL_MAX)
		level = ZSTD_LEVEL_MAX;
	n = ZSTD_compressCCtx(c->pack, out, codec_bound(size), in, size,
	    level);
	return ZSTD_isError(n) ? 0 : n;
}

static bool context_prepare(struct context *c, enum codec codec, bool pack)
{
	if (codec == CODEC_LZ4 && pack && !c->lz4)
		c->lz4 = malloc((size_t)LZ4_sizeofState());
	if (codec == CODEC_ZSTD && pack && !c->pack)
		c->pack = ZSTD_createCCtx();
	if (codec == CODEC_ZSTD && !pack && !c->unpack)
		c->unpack = ZSTD_createDCtx();
	if (codec == CODEC_LZ4)
		return !pack || c->lz4;
	return codec != CODEC_ZSTD || (pack ? (void *)c->pack :
	    (void *)c->unpack);
}

int codec_pack(enum codec want, int level, const void *in, size_t size,
    void *out, size_t *out_size, enum codec *used, struct err *e)
{
	struct context *c = context_get();
	size_t n = 0;

	if (!c || !context_prepare(c, want, true))
		return err_set(e, ERR_NO_MEMORY, "no memory to compress");
	if (want == CODEC_LZ4)
		n = pack_lz4(c, in, size, out);
	else if (want == CODEC_ZSTD)
		n = pack_zstd(c, level, in, size, out);
	if (n > 0 && n < size && n <= CODEC_WORTH(size)) {
		*out_size = n;
		*used = want;
		return 0;
	}
	if (size > 0)
		memcpy(out, in, size);
	*out_size = size;
	*used = CODEC_RAW;
	return 0;
}

static int wrong_size(struct err *e, const char *codec, size_t plain_size)
{
	return err_set(e, ERR_CORRUPT, "%s data do not give %zu bytes", codec,
	    plain_size);
}

static int unpack_lz4(const void *in, size_t size, void *out,
    size_t plain_size, struct err *e)
{
	if (size > LZ4_MAX_INPUT_SIZE || plain_size > LZ4_MAX_INPUT_SIZE ||
	    LZ4_decompress_safe(in, out, (int)size, (int)plain_size) !=
	    (int)plain_size)
		return wrong_size(e, "lz4", plain_size);
	return 0;
}

int codec_unpack(enum codec codec, const void *in, size_t size, void *out,
    size_t plain_size, struct err *e)
{
	struct context *c = context_get();

	if (!c || !context_prepare(c, codec, false))
		return err_set(e, ERR_NO_MEMORY, "no memory to decompress");
	switch (codec) {
	case CODEC_RAW:
		if (size != plain_size)
			return wrong_size(e, "raw", plain_size);
		if (size > 0)
			memcpy(out, in, size);
		return 0;
	case CODEC_LZ4:
		return unpack_lz4(in, size, out, plain_size, e);
	case CODEC_ZSTD:
		/* An error is near SIZE_MAX and so never a plain size. */
		if (ZSTD_decompressDCtx(c->unpack, out, plain_size, in, size)
		    != plain_size)
			return wrong_size(e, "zstd", plain_size);
		return 0;
	}
	return err_set(e, ERR_CORRUPT, "codec %d is not known", (int)codec);
}
