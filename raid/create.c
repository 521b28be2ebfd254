/*
 * raid/create.c - a new array on blank members.
 *
 * THE ORDER   check everything on every member --> wipe what was named --> the
 *             first generation of the log, flushed --> superblocks, in their
 *             two phases (log_create).
 *
 * WHAT A CRASH LEAVES   Before the superblocks: blank members.  Among them:
 *             some members with superblocks that all name the same, whole log.
 *             Then either the array opens, or the members that have none are
 *             left out and too few remain; array_create with the array's UUID
 *             as `wipe` begins anew.
 */
#include "raid/array.h"

#include "base/clock.h"
#include "base/hash.h"
#include "raid/assemble.h"
#include "raid/dev.h"
#include "raid/mio.h"
#include "raid/signature.h"

#include <stdlib.h>
#include <string.h>

/* Extents of the largest member: what a map of them costs in memory. */
#define EXTENTS_WANTED 300000

struct creating {
	struct assembly as;
	uint32_t taken[RAID_MEMBERS_MAX];	/* extents of the log */
	struct err why;				/* of a member that failed */
};

static uint64_t extent_size_for(const struct array_create *c)
{
	uint64_t largest = 0, x = RAID_EXTENT_MIN;

	for (size_t i = 0; i < c->dev_count; i++)
		if (c->devs[i]->size > largest)
			largest = c->devs[i]->size;
	while (x < RAID_EXTENT_MAX &&
	    member_extents_in(largest, x) > EXTENTS_WANTED)
		x *= 2;
	return x;
}

static int words_check(const struct array_create *c, struct err *e)
{
	uint64_t x = c->extent_size;

	if (c->parity > 2)
		return err_set(e, ERR_USAGE, "parity is 0, 1 or 2, not %u",
		    c->parity);
	if (c->dev_count <= c->parity)
		return err_set(e, ERR_USAGE,
		    "%zu members cannot have parity %u", c->dev_count,
		    c->parity);
	if (c->dev_count > RAID_MEMBERS_MAX)
		return err_set(e, ERR_LIMIT, "%zu members; at most %d",
		    c->dev_count, RAID_MEMBERS_MAX);
	if (x != 0 && (x < RAID_EXTENT_MIN || x > RAID_EXTENT_MAX ||
	    (x & (x - 1)) != 0))
		return err_set(e, ERR_USAGE,
		    "the extent size is a power of two from 2 to 64 MiB");
	return 0;
}

/* Everything that can be refused is, before the first byte is written. */
static int devices_ready(const struct array_create *c, uint64_t extent_size,
    struct err *e)
{
	int wipe[RAID_MEMBERS_MAX];

	for (size_t i = 0; i < c->dev_count; i++)
		if (assembly_size_check(c->devs[i], extent_size, e) != 0 ||
		    signature_check(c->devs[i], c->wipe, &wipe[i], e) != 0)
			return -1;
	for (size_t i = 0; i < c->dev_count; i++)
		if (wipe[i] && signature_wipe(c->devs[i], c->wipe, e) != 0)
			return -1;
	return 0;
}

static int take(void *arg, unsigned member, uint32_t *extent, struct err *e)
{
	struct creating *g = arg;

	if (g->taken[member] == g->as.members[member]->extent_count)
		return err_set(e, ERR_NO_SPACE, "a new member is full");
	*extent = g->taken[member]++;
	return 0;
}

static void give(void *arg, unsigned member, uint32_t extent)
{
	(void)arg;
	(void)member;
	(void)extent;
}

static void failed(void *arg, unsigned member, const struct err *why)
{
	struct creating *g = arg;

	g->as.members[member]->state = MEMBER_FAILED;
	g->why = *why;
}

static int write_roots(void *arg, const struct log_root *root, struct err *e)
{
	struct creating *g = arg;

	return assembly_roots(&g->as, root, failed, g, e);
}

static int write_all(struct creating *g, struct err *e)
{
	struct log_host host = { .arg = g, .extent_take = take,
		.extent_give = give, .member_failed = failed,
		.write_roots = write_roots };
	struct log *log = NULL;

	assembly_host(&g->as, &host);
	if (log_create(&log, &host, e) != 0) {
		if (g->why.code != ERR_NONE)
			*e = g->why;
		return -1;
	}
	log_close(log);
	return 0;
}

/* Hands the devices on, one after the other; *next is the first that was not.
 */
static int build(struct creating *g, const struct array_create *c,
    size_t *next, struct err *e)
{
	struct super *s = &g->as.base;
	struct member *m;

	s->parity = (uint8_t)c->parity;
	s->created_s = clock_real_s();
	s->extent_size = c->extent_size ? c->extent_size : extent_size_for(c);
	if (devices_ready(c, s->extent_size, e) != 0 ||
	    random_bytes(s->array, sizeof(s->array), e) != 0)
		return -1;
	for (; *next < c->dev_count; ++*next)
		if (assembly_add(&g->as, c->devs[*next], &m, e) != 0) {
			++*next;
			return -1;
		}
	return write_all(g, e);
}

int array_create(const struct array_create *c, struct err *e)
{
	struct creating *g = calloc(1, sizeof(*g));
	size_t next = 0;
	int rc = -1;

	if (!g || !(g->as.members = calloc(RAID_MEMBERS_MAX,
	    sizeof(struct member *))))
		err_set(e, ERR_NO_MEMORY, "no memory to make an array");
	else if (words_check(c, e) == 0)
		rc = build(g, c, &next, e);
	for (size_t i = next; i < c->dev_count; i++)
		dev_close(c->devs[i]);
	if (g) {
		for (size_t i = 0; i < g->as.member_count; i++)
			member_free(g->as.members[i]);
		free(g->as.members);
	}
	free(g);
	return rc;
}
