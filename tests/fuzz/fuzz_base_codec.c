/* Any bytes as packed data, the first byte saying how: refused or unpacked,
 * and what the packer makes of the same bytes comes back. */
#include "base/codec.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define PLAIN_MAX 65536

static void there_and_back(const uint8_t *data, size_t size, unsigned how)
{
	uint8_t *packed = malloc(codec_bound(size));
	uint8_t *plain = malloc(size + 1);
	size_t packed_size;
	enum codec used;
	struct err e;

	if (!packed || !plain || codec_pack((enum codec)(how % 3), 1, data,
	    size, packed, &packed_size, &used, &e) != 0 ||
	    codec_unpack(used, packed, packed_size, plain, size, &e) != 0 ||
	    (size > 0 && memcmp(plain, data, size) != 0))
		abort();
	free(packed);
	free(plain);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *plain;
	size_t plain_size;
	struct err e;

	if (size < 3)
		return 0;
	plain_size = (size_t)(data[1] | data[2] << 8) % PLAIN_MAX;
	plain = malloc(plain_size + 1);
	if (!plain)
		return 0;
	(void)!codec_unpack((enum codec)(data[0] % 4), data + 3, size - 3,
	    plain, plain_size, &e);
	free(plain);
	there_and_back(data + 3, size - 3, data[0]);
	return 0;
}
