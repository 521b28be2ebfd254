#include "raid/machine.h"

#include "base/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool line_read(const char *path, char *out, size_t size)
{
	FILE *f = fopen(path, "re");
	bool ok;

	if (!f)
		return false;
	ok = fgets(out, (int)size, f) != NULL;
	fclose(f);
	return ok;
}

/* An id of 16 bytes from the text of this file, which may be well known and
 * is not to be told to whoever reads the disks. */
static int id_from(uint8_t out[16], const char *path, struct err *e)
{
	static const char tag[] = "bk machine";
	uint8_t hash[SHA256_SIZE];
	char text[128];
	size_t n = 0;

	if (line_read(path, text, sizeof(text)))
		n = strcspn(text, "\n");
	/* "uninitialized" is what stands there before the first boot. */
	if (n < 32)
		return random_bytes(out, 16, e);
	if (sha256(hash, (struct bytes[]){ { tag, sizeof(tag) },
	    { text, n } }, 2, e) != 0)
		return -1;
	memcpy(out, hash, 16);
	return 0;
}

/* State and start time from /proc/PID/stat, whose second word is a name that
 * may hold anything; see proc(5). */
static bool process_look(uint32_t pid, char *state, uint64_t *started)
{
	char path[40], text[1024];
	const char *p;

	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", pid);
	if (!line_read(path, text, sizeof(text)))
		return false;
	p = strrchr(text, ')');
	if (!p || p[1] != ' ' || !p[2])
		return false;
	*state = p[2];
	for (int field = 2; field < 22; field++) {
		p = strchr(p + 1, ' ');
		if (!p)
			return false;
	}
	*started = strtoull(p + 1, NULL, 10);
	return true;
}

static void host_name(char out[ARRAY_HOST_MAX + 1])
{
	memset(out, 0, ARRAY_HOST_MAX + 1);
	if (gethostname(out, ARRAY_HOST_MAX + 1) != 0 || !out[0])
		out[0] = '?';
	for (char *p = out; *p; p++)
		if (*p < 0x21 || *p > 0x7e)
			*p = '?';
}

int machine_self(struct array_machine *out, struct err *e)
{
	char state;

	memset(out, 0, sizeof(*out));
	if (id_from(out->machine, "/etc/machine-id", e) != 0 ||
	    id_from(out->boot, "/proc/sys/kernel/random/boot_id", e) != 0)
		return -1;
	host_name(out->host);
	out->pid = (uint32_t)getpid();
	(void)process_look(out->pid, &state, &out->started);
	return 0;
}

bool machine_same(const struct array_machine *a,
    const struct array_machine *b)
{
	return memcmp(a->machine, b->machine, sizeof(a->machine)) == 0 ||
	    memcmp(a->boot, b->boot, sizeof(a->boot)) == 0;
}

bool machine_runs(const struct array_machine *m,
    const struct array_machine *self)
{
	uint64_t started;
	char state;

	if (memcmp(m->boot, self->boot, sizeof(m->boot)) != 0 ||
	    m->pid == self->pid)
		return false;
	return process_look(m->pid, &state, &started) &&
	    started == m->started && state != 'Z' && state != 'X';
}
