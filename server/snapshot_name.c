#include "server/snapshot_name.h"

#include "base/str.h"
#include "store/store.h"

#include <stdlib.h>
#include <string.h>

#define PREFIX_MIN 6

struct looking {
	const char *name;
	struct snapshot_record *out;
	unsigned found;
};

static int look(void *arg, const char *client,
    const struct snapshot_record *r)
{
	struct looking *l = arg;
	char id[2 * SNAPSHOT_ID_SIZE + 1];

	(void)client;
	hex_put(id, r->id, SNAPSHOT_ID_SIZE);
	if (strcmp(l->name, "latest") == 0) {
		l->found = 1;
		*l->out = *r;
	} else if (strncmp(id, l->name, strlen(l->name)) == 0) {
		l->found++;
		*l->out = *r;
	}
	return 0;
}

int snapshot_by_name(struct store *s, const char *client, const char *name,
    struct snapshot_record *out, struct err *e)
{
	struct looking l = { .name = name, .out = out };
	struct client_record *c = calloc(1, sizeof(*c));
	int rc = c ? store_client_get(s, client, c, e) :
	    err_set(e, ERR_NO_MEMORY, "no memory for a client");

	free(c);
	if (rc != 0)
		return -1;
	if (strlen(name) < PREFIX_MIN)
		return err_set(e, ERR_USAGE, "a snapshot is named by at least "
		    "%d digits of its id, not \"%s\"", PREFIX_MIN, name);
	(void)store_snapshot_each(s, client, look, &l);
	if (l.found == 0)
		return err_set(e, ERR_NOT_FOUND, "%s has no snapshot %s",
		    client, name);
	if (l.found > 1)
		return err_set(e, ERR_USAGE, "%u snapshots of %s begin with "
		    "%s", l.found, client, name);
	return 0;
}
