#include "raid/fmt_owner.h"

#include "base/hash.h"
#include "base/le.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

enum { AT_VERSION = 8, AT_FLAGS = 12, AT_ARRAY = 16, AT_OWNER = 32,
	AT_MACHINE = 48, AT_BOOT = 64, AT_COUNTER = 80, AT_STARTED = 88,
	AT_PID = 96, AT_INTERVAL = 100, AT_HOST = 104, AT_SUM = 4088 };

_Static_assert(AT_SUM + 8 == OWNER_SIZE, "the checksum comes last");

#define FLAGS_MUST_KNOW 0xffffu

static const uint8_t owner_magic[8] = "BKOWNER\n";
static const uint8_t nobody[16];

static bool host_is_sound(const char *host)
{
	size_t n = strnlen(host, ARRAY_HOST_MAX);

	for (size_t i = 0; i < n; i++)
		if (host[i] < 0x21 || host[i] > 0x7e)
			return false;
	return true;
}

void owner_put(uint8_t out[static OWNER_SIZE], const struct owner_rec *r)
{
	assert(memcmp(r->owner, nobody, sizeof(nobody)) != 0);
	assert(r->interval_ms >= 1 && r->interval_ms <= OWNER_INTERVAL_MAX);
	assert(host_is_sound(r->by.host));
	memset(out, 0, OWNER_SIZE);
	memcpy(out, owner_magic, sizeof(owner_magic));
	le32_put(out + AT_VERSION, OWNER_VERSION);
	memcpy(out + AT_ARRAY, r->array, sizeof(r->array));
	memcpy(out + AT_OWNER, r->owner, sizeof(r->owner));
	memcpy(out + AT_MACHINE, r->by.machine, sizeof(r->by.machine));
	memcpy(out + AT_BOOT, r->by.boot, sizeof(r->by.boot));
	le64_put(out + AT_COUNTER, r->counter);
	le64_put(out + AT_STARTED, r->by.started);
	le32_put(out + AT_PID, r->by.pid);
	le32_put(out + AT_INTERVAL, r->interval_ms);
	memcpy(out + AT_HOST, r->by.host, strnlen(r->by.host,
	    ARRAY_HOST_MAX));
	le64_put(out + AT_SUM, crc64(0, out, AT_SUM));
}

static int head_check(const uint8_t *in, size_t size, struct err *e)
{
	if (size < OWNER_SIZE ||
	    memcmp(in, owner_magic, sizeof(owner_magic)) != 0)
		return err_set(e, ERR_NOT_FOUND, "no owner record here");
	if (le64_get(in + AT_SUM) != crc64(0, in, AT_SUM))
		return err_set(e, ERR_CORRUPT, "owner record: wrong checksum");
	if (le32_get(in + AT_VERSION) != OWNER_VERSION ||
	    (le32_get(in + AT_FLAGS) & FLAGS_MUST_KNOW) != 0)
		return err_set(e, ERR_VERSION, "owner record: version %u, "
		    "flags %#x are of a newer program",
		    le32_get(in + AT_VERSION), le32_get(in + AT_FLAGS));
	return 0;
}

static int bounds_check(const struct owner_rec *r, struct err *e)
{
	if (memcmp(r->owner, nobody, sizeof(nobody)) == 0 ||
	    r->interval_ms < 1 || r->interval_ms > OWNER_INTERVAL_MAX ||
	    !host_is_sound(r->by.host))
		return err_set(e, ERR_CORRUPT,
		    "owner record: a field is out of range");
	return 0;
}

/* Whatever is not a field must be as owner_put() leaves it. */
static bool reserved_zero(const struct owner_rec *r, const uint8_t *in)
{
	uint8_t again[OWNER_SIZE];

	owner_put(again, r);
	memcpy(again + AT_FLAGS, in + AT_FLAGS, 4);
	return memcmp(again, in, AT_SUM) == 0;
}

int owner_get(struct owner_rec *r, const uint8_t *in, size_t size,
    struct err *e)
{
	struct owner_rec got = { .counter = 0 };

	if (head_check(in, size, e) != 0)
		return -1;
	memcpy(got.array, in + AT_ARRAY, sizeof(got.array));
	memcpy(got.owner, in + AT_OWNER, sizeof(got.owner));
	memcpy(got.by.machine, in + AT_MACHINE, sizeof(got.by.machine));
	memcpy(got.by.boot, in + AT_BOOT, sizeof(got.by.boot));
	got.counter = le64_get(in + AT_COUNTER);
	got.by.started = le64_get(in + AT_STARTED);
	got.by.pid = le32_get(in + AT_PID);
	got.interval_ms = le32_get(in + AT_INTERVAL);
	memcpy(got.by.host, in + AT_HOST, ARRAY_HOST_MAX);
	if (bounds_check(&got, e) != 0)
		return -1;
	if (!reserved_zero(&got, in))
		return err_set(e, ERR_CORRUPT,
		    "owner record: reserved bytes are not zero");
	*r = got;
	return 0;
}
