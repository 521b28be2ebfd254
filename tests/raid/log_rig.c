#include "tests/raid/log_rig.h"

#include "base/le.h"
#include "raid/array.h"
#include "raid/dev.h"
#include "raid/fmt_record.h"
#include "tests/support/dev_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int rig_create(struct sim *s, struct err *e)
{
	struct array_create c = { .parity = 1 };
	int rc;

	c.devs = sim_devs(s, 0, &c.dev_count);
	if (c.dev_count == 1)
		c.parity = 0;
	rc = array_create(&c, e);
	free(c.devs);
	return rc;
}

static int take(void *arg, unsigned member, uint32_t *extent, struct err *e)
{
	struct rig *r = arg;

	for (uint32_t i = 0; i < RIG_EXTENTS &&
	    !(r->no_room >> member & 1); i++) {
		if (r->taken[member][i])
			continue;
		r->taken[member][i] = true;
		*extent = i;
		return 0;
	}
	return err_set(e, ERR_NO_SPACE, "no extent on member %u", member);
}

static void give(void *arg, unsigned member, uint32_t extent)
{
	struct rig *r = arg;

	if (!r->taken[member][extent])
		abort();
	r->taken[member][extent] = false;
}

static void failed(void *arg, unsigned member, const struct err *why)
{
	struct rig *r = arg;

	(void)why;
	r->as->members[member]->state = MEMBER_FAILED;
	r->failures++;
}

static int dump(void *arg, int (*emit)(void *log, const struct log_rec *rec,
    struct err *e), void *log, struct err *e)
{
	struct rig *r = arg;

	if (r->dump_error.code != ERR_NONE) {
		*e = r->dump_error;
		return -1;
	}
	return facts_dump(r->facts, emit, log, e);
}

static int write_roots(void *arg, const struct log_root *root, struct err *e)
{
	struct rig *r = arg;

	return assembly_roots(r->as, root, failed, r, e);
}

static int replay(void *arg, const struct log_rec *rec, uint64_t flush,
    struct err *e)
{
	struct rig *r = arg;

	(void)flush;
	if (rec->type == REC_FACT_SET || rec->type == REC_FACT_DELETE)
		return facts_replay(r->facts, rec, e);
	return 0;
}

static void warned(void *arg, const uint8_t *path, size_t size,
    const char *text)
{
	struct rig *r = arg;

	snprintf(r->warned, sizeof(r->warned), "%.*s %s", (int)size,
	    path ? (const char *)path : "", text);
}

static void mark_log_extents(struct rig *r)
{
	uint32_t x[RIG_EXTENTS];

	for (unsigned i = 0; i < r->as->member_count; i++) {
		size_t n = log_extents(r->log, i, x, RIG_EXTENTS);

		for (size_t k = 0; k < n; k++)
			r->taken[i][x[k]] = true;
	}
}

static int open_devs(struct rig *r, struct dev **devs, size_t count,
    bool write, struct err *e)
{
	r->facts = facts_new();
	r->host.arg = r;
	r->host.extent_take = take;
	r->host.extent_give = give;
	r->host.member_failed = failed;
	r->host.dump = dump;
	r->host.write_roots = write_roots;
	if (assemble(&r->as, devs, count, RIG_CALL_MS, &r->warn, e) != 0)
		return -1;
	assembly_host(r->as, &r->host);
	if (log_load(&r->log, &r->host, replay, &r->pos, &r->warn, e) != 0)
		return -1;
	mark_log_extents(r);
	return write ? log_start(r->log, e) : 0;
}

int rig_open_order(struct rig *r, struct sim *s, const unsigned *order,
    size_t count, bool write, struct err *e)
{
	struct dev *devs[SIM_DISKS_MAX];
	int rc;

	memset(r, 0, sizeof(*r));
	r->sim = s;
	warn_init(&r->warn, warned, r);
	for (size_t i = 0; i < count; i++)
		devs[i] = sim_dev(s, order[i]);
	rc = open_devs(r, devs, count, write, e);
	if (rc != 0)
		rig_drop(r);
	return rc;
}

int rig_open(struct rig *r, struct sim *s, uint64_t skip, bool write,
    struct err *e)
{
	unsigned order[SIM_DISKS_MAX];
	size_t count = 0;

	for (unsigned i = 0; i < sim_disks(s); i++)
		if (!(skip >> i & 1))
			order[count++] = i;
	return rig_open_order(r, s, order, count, write, e);
}

void rig_drop(struct rig *r)
{
	log_close(r->log);
	assembly_free(r->as);
	facts_free(r->facts);
	warn_release(&r->warn);
	r->log = NULL;
	r->as = NULL;
	r->facts = NULL;
}

int rig_close(struct rig *r, struct err *e)
{
	struct log_rec stop = { .type = REC_CLEAN_STOP };
	uint64_t flush;
	int rc = log_append(r->log, &stop, 1, false, &flush, e);

	rig_drop(r);
	return rc;
}

/* ---- facts ------------------------------------------------------------ */

static void value_fill(uint8_t *value, unsigned n, size_t size)
{
	uint64_t state = n + 1;

	for (size_t i = 0; i < size; i++)
		value[i] = (uint8_t)sim_random(&state);
}

static void key_put(uint8_t key[4], unsigned n)
{
	le32_put(key, n);
}

int rig_put(struct rig *r, unsigned n, size_t size, struct err *e)
{
	uint8_t key[4], *value = malloc(size + 1);
	uint8_t *body = malloc(REC_FACT_MAX);
	struct rec_fact f = { .key = key, .key_size = 4, .value = value,
		.value_size = size };
	struct log_rec rec = { .type = REC_FACT_SET, .body = body };
	uint64_t flush;
	int rc;

	key_put(key, n);
	value_fill(value, n, size);
	rec.size = (uint32_t)rec_fact_put(body, &f);
	rc = log_append(r->log, &rec, 1, false, &flush, e);
	if (rc == 0)
		rc = facts_replay(r->facts, &rec, e);
	if (rc == 0 && log_wants_fold(r->log))
		rc = log_fold(r->log, e);
	free(value);
	free(body);
	return rc;
}

int rig_delete(struct rig *r, unsigned n, struct err *e)
{
	uint8_t key[4], body[8];
	struct rec_fact f = { .key = key, .key_size = 4 };
	struct log_rec rec = { .type = REC_FACT_DELETE, .body = body };
	uint64_t flush;

	key_put(key, n);
	rec.size = (uint32_t)rec_fact_put(body, &f);
	if (log_append(r->log, &rec, 1, false, &flush, e) != 0)
		return -1;
	return facts_replay(r->facts, &rec, e);
}

bool rig_has(const struct rig *r, unsigned n)
{
	uint8_t key[4];

	key_put(key, n);
	return facts_find(r->facts, key, 4) != NULL;
}

int rig_check(const struct rig *r, unsigned count, size_t size, struct err *e)
{
	uint8_t key[4], *value = malloc(size + 1);
	int rc = 0;

	for (unsigned n = 0; n < facts_count(r->facts) && rc == 0; n++) {
		const struct fact *f;

		key_put(key, n);
		value_fill(value, n, size);
		f = facts_find(r->facts, key, 4);
		if (!f || f->value_size != size ||
		    memcmp(f->bytes + 4, value, size) != 0)
			rc = err_set(e, ERR_CORRUPT, "fact %u is wrong", n);
	}
	free(value);
	if (rc == 0 && (facts_count(r->facts) < count ||
	    facts_count(r->facts) > count + 1))
		rc = err_set(e, ERR_CORRUPT, "%zu facts, not %u",
		    facts_count(r->facts), count);
	return rc;
}
