#include "raid/fmt_strip.h"

#include "base/hash.h"
#include "base/le.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

enum { AT_MAGIC = 0, AT_VERSION = 8, AT_FLAGS = 12, AT_ARRAY = 16,
	AT_MEMBER = 32, AT_SEGMENT = 48, AT_NONCE = 56, AT_BIRTH = 64,
	AT_EXTENT = 72, AT_ROW = 76, AT_FILL = 80, AT_STRIP = 84,
	AT_WIDTH = 85, AT_PARITY = 86, AT_UNITS = 87, AT_CLASS = 88,
	AT_SUM_TYPE = 89, AT_RESERVED = 90, AT_SUMS = 96, AT_PEERS = 224,
	AT_RESERVED2 = 544, AT_CHECKSUM = 4088 };

#define PEER_SIZE 20
#define SUM_CRC64 1

_Static_assert(AT_SUMS + 8 * SEG_WIDTH_MAX == AT_PEERS, "sums");
_Static_assert(AT_PEERS + PEER_SIZE * SEG_WIDTH_MAX == AT_RESERVED2, "peers");
_Static_assert(AT_CHECKSUM + 8 == STRIP_HEADER_SIZE, "checksum comes last");

static const uint8_t magic[8] = { 'B', 'K', 'S', 'T', 'R', 'I', 'P', '\n' };

void strip_header_put(uint8_t out[static STRIP_HEADER_SIZE],
    const struct strip_header *h)
{
	assert(h->width >= 1 && h->width <= SEG_WIDTH_MAX);
	assert(h->parity < h->width && h->parity <= SEG_PARITY_MAX);
	assert(h->strip < h->width);
	assert(h->units >= 1 && h->units <= STRIP_UNITS_MAX);

	memset(out, 0, STRIP_HEADER_SIZE);
	memcpy(out + AT_MAGIC, magic, sizeof(magic));
	le32_put(out + AT_VERSION, STRIP_VERSION);
	memcpy(out + AT_ARRAY, h->array, RAID_UUID_SIZE);
	memcpy(out + AT_MEMBER, h->member, RAID_UUID_SIZE);
	le64_put(out + AT_SEGMENT, h->segment);
	le64_put(out + AT_NONCE, h->nonce);
	le64_put(out + AT_BIRTH, h->birth);
	le32_put(out + AT_EXTENT, h->extent);
	le32_put(out + AT_ROW, h->row);
	le32_put(out + AT_FILL, h->fill);
	out[AT_STRIP] = h->strip;
	out[AT_WIDTH] = h->width;
	out[AT_PARITY] = h->parity;
	out[AT_UNITS] = h->units;
	out[AT_CLASS] = h->class;
	out[AT_SUM_TYPE] = SUM_CRC64;
	for (size_t i = 0; i < h->width; i++) {
		uint8_t *peer = out + AT_PEERS + PEER_SIZE * i;

		le64_put(out + AT_SUMS + 8 * i, h->sums[i]);
		memcpy(peer, h->peers[i].member, RAID_UUID_SIZE);
		le32_put(peer + RAID_UUID_SIZE, h->peers[i].extent);
	}
	le64_put(out + AT_CHECKSUM, crc64(0, out, AT_CHECKSUM));
}

/* True if what the checksum covers also makes sense. */
static bool fields_sound(const struct strip_header *h, const uint8_t *in)
{
	static const uint8_t zero[AT_CHECKSUM - AT_RESERVED2];
	uint32_t k;

	if (le32_get(in + AT_FLAGS) != 0 || in[AT_SUM_TYPE] != SUM_CRC64 ||
	    memcmp(in + AT_RESERVED, zero, AT_SUMS - AT_RESERVED) != 0 ||
	    memcmp(in + AT_RESERVED2, zero, sizeof(zero)) != 0)
		return false;
	if (h->width < 1 || h->width > SEG_WIDTH_MAX ||
	    h->parity >= h->width || h->parity > SEG_PARITY_MAX ||
	    h->strip >= h->width || h->class >= SEG_CLASSES ||
	    h->units < 1 || h->units > STRIP_UNITS_MAX)
		return false;
	k = (uint32_t)h->width - h->parity;
	for (size_t i = h->width; i < SEG_WIDTH_MAX; i++)
		if (le64_get(in + AT_SUMS + 8 * i) != 0 ||
		    memcmp(in + AT_PEERS + PEER_SIZE * i, zero, PEER_SIZE) != 0)
			return false;
	return h->fill >= 1 && h->fill <= k * h->units * RAID_ROW;
}

int strip_header_get(struct strip_header *h,
    const uint8_t in[static STRIP_HEADER_SIZE], struct err *e)
{
	struct strip_header got;

	if (memcmp(in + AT_MAGIC, magic, sizeof(magic)) != 0)
		return err_set(e, ERR_CORRUPT, "not a strip header");
	if (le64_get(in + AT_CHECKSUM) != crc64(0, in, AT_CHECKSUM))
		return err_set(e, ERR_CORRUPT, "strip header checksum differs");
	if (le32_get(in + AT_VERSION) != STRIP_VERSION)
		return err_set(e, ERR_VERSION, "strip version %" PRIu32
		    " is not known", le32_get(in + AT_VERSION));
	memcpy(got.array, in + AT_ARRAY, RAID_UUID_SIZE);
	memcpy(got.member, in + AT_MEMBER, RAID_UUID_SIZE);
	got.segment = le64_get(in + AT_SEGMENT);
	got.nonce = le64_get(in + AT_NONCE);
	got.birth = le64_get(in + AT_BIRTH);
	got.extent = le32_get(in + AT_EXTENT);
	got.row = le32_get(in + AT_ROW);
	got.fill = le32_get(in + AT_FILL);
	got.strip = in[AT_STRIP];
	got.width = in[AT_WIDTH];
	got.parity = in[AT_PARITY];
	got.units = in[AT_UNITS];
	got.class = in[AT_CLASS];
	for (size_t i = 0; i < SEG_WIDTH_MAX; i++) {
		const uint8_t *peer = in + AT_PEERS + PEER_SIZE * i;

		got.sums[i] = le64_get(in + AT_SUMS + 8 * i);
		memcpy(got.peers[i].member, peer, RAID_UUID_SIZE);
		got.peers[i].extent = le32_get(peer + RAID_UUID_SIZE);
	}
	if (!fields_sound(&got, in))
		return err_set(e, ERR_CORRUPT,
		    "strip header field out of range");
	*h = got;
	return 0;
}

uint64_t strip_sum(const struct strip_header *h, uint8_t strip,
    const void *payload, size_t size)
{
	uint8_t seed[RAID_UUID_SIZE + 8 + 8 + 4 + 1];

	memcpy(seed, h->array, RAID_UUID_SIZE);
	le64_put(seed + 16, h->segment);
	le64_put(seed + 24, h->nonce);
	le32_put(seed + 32, h->row);
	seed[36] = strip;
	return crc64(crc64(0, seed, sizeof(seed)), payload, size);
}
