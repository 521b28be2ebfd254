/* store/roots.c - see roots.h. */
#include "store/roots.h"

#include "store/client.h"
#include "store/impl.h"
#include "store/looks.h"
#include "store/mark.h"
#include "store/snapshot.h"

#include <stdlib.h>

struct domains {
	struct mark *mark;
	struct err *e;
};

static int one_domain(void *arg, const struct client_record *c)
{
	struct domains *d = arg;

	return mark_domain(d->mark, c->domain, d->e);
}

int roots_domains(struct store *s, struct mark *m, struct err *e)
{
	struct domains d = { m, e };

	return store_client_each(s, one_domain, &d) == 0 ? 0 : -1;
}

static int touch_two(struct store *s, struct mark *m,
    const struct snapshot_item *it, uint64_t *missing, struct err *e)
{
	uint32_t domain;
	struct looks l;
	struct err none;
	int rc = -1;

	if (client_domain(s, it->client, &domain, &none) != 0)
		domain = DOMAIN_NOBODY;
	looks_init(&l);
	if (looks_add(&l, &it->record.root, e) == 0 &&
	    looks_add(&l, &it->record.facts, e) == 0 &&
	    looks_lock(s, &l, false, e) == 0) {
		rc = 0;
		for (size_t i = 0; i < 2 && rc == 0; i++) {
			const struct entry *en = looks_raw(s, &l, i);

			*missing += !en || entry_quarantined(s, en);
			if (en)
				rc = mark_touch(m, &l.keys[i], en, domain, e);
		}
		pthread_mutex_unlock(&s->cut);
	}
	looks_release(&l);
	return rc;
}

int roots_touch(struct store *s, struct mark *m, uint64_t *missing,
    struct err *e)
{
	struct snapshot_item *items;
	size_t count;
	int rc = 0;

	if (snapshots_list(s, NULL, &items, &count, e) != 0)
		return -1;
	for (size_t i = 0; i < count && rc == 0; i++)
		rc = touch_two(s, m, &items[i], missing, e);
	free(items);
	return rc;
}
