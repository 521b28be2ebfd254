#include "proto/fmt_id.h"

#include "base/hash.h"

_Static_assert(ID_SIZE == SHA256_SIZE, "an id is one SHA-256");

int id_of(struct id *out, enum object_type type, const void *plain,
    size_t size, struct err *e)
{
	const uint8_t tag = (uint8_t)type;
	const struct bytes pieces[] = { { &tag, 1 }, { plain, size } };

	return sha256(out->bytes, pieces, 2, e);
}

bool object_type_known(unsigned type)
{
	return type >= OBJECT_CHUNK && type <= OBJECT_FACTS;
}
