/*
 * raid/array_replace.c - a new member takes the place of an old one.
 *
 * THE ORDER
 *
 *   everything is checked, size and signatures --> wipe what was named --> the
 *   new member joins, the old one is marked with its replacement, in one epoch
 *   --> array_mend moves the strips (raid/mend.c)
 *
 * WHAT A CRASH LEAVES   Before the epoch: a disk with our superblock that no
 * table names, taken again with its UUID as `wipe`.  After it: a replacement
 * that array_mend goes on with.
 */
#include "raid/segment.h"

#include "base/str.h"
#include "raid/dev.h"
#include "raid/heartbeat.h"
#include "raid/signature.h"

#include <inttypes.h>
#include <string.h>

static struct member *member_by_uuid(struct array *a, const uint8_t *uuid)
{
	for (size_t i = 0; i < a->as->member_count; i++)
		if (memcmp(a->as->members[i]->uuid, uuid,
		    RAID_UUID_SIZE) == 0)
			return a->as->members[i];
	return NULL;
}

/* 1: this very replacement is under way; 0: it may begin. */
static int old_check(struct array *a, const char *old, const struct dev *dev,
    struct err *e)
{
	const struct member *m = array_member_find(a, old);
	const struct member *new;

	if (!m)
		return err_set(e, ERR_NOT_FOUND, "%s is no member", old);
	new = member_by_uuid(a, m->replaced_by);	/* zero: nobody's */
	if (new && new->path && strcmp(new->path, dev->name) == 0)
		return 1;
	if (new && member_writable(new))
		return err_set(e, ERR_EXISTS, "%s is being replaced by %s "
		    "already", old, new->path ? new->path : "another");
	return 0;
}

/* A device of this many bytes has that many extents for certain: beside them
 * the two edges, and less than an extent before the middle and at the end. */
static uint64_t device_size_for(uint64_t extents, uint64_t extent_size)
{
	return (extents + 2) * extent_size + (UINT64_C(6) << 20);
}

/* What is used on the old one, and the reserve that any member keeps. */
static int size_check(struct array *a, const struct member *old,
    const struct dev *dev, struct err *e)
{
	const struct alloc_member *am = &a->alloc.m[old->index];
	uint64_t found = member_extents_in(dev->size, a->extent_size);
	uint64_t log = 0, used, needed;

	for (size_t i = 0; i < a->as->member_count; i++)
		if (a->log_extents[i] > log)
			log = a->log_extents[i];
	used = am->used - a->log_extents[old->index];
	needed = used + 2 * log + 2 + found / 25 + 2;
	if (found >= needed)
		return 0;
	return err_set(e, ERR_LIMIT, "%s is too small to replace %s: %" PRIu64
	    " bytes are needed for what is used and the reserve, and %" PRIu64
	    " found; nothing was written", dev->name,
	    old->path ? old->path : "the member",
	    device_size_for(needed, a->extent_size), dev->size);
}

static int checks(struct array *a, const char *old, struct dev *dev,
    struct err *e)
{
	int rc;

	pthread_mutex_lock(&a->lock);
	rc = old_check(a, old, dev, e);
	if (rc == 0)
		rc = size_check(a, array_member_find(a, old), dev, e);
	pthread_mutex_unlock(&a->lock);
	if (rc != 0)
		return rc;
	return assembly_size_check(dev, a->extent_size, e);
}

static int blank(struct dev *dev, const char *wipe, struct err *e)
{
	int to_wipe = 0;

	if (signature_check(dev, wipe, &to_wipe, e) != 0)
		return -1;
	return to_wipe ? signature_wipe(dev, wipe, e) : 0;
}

/* Both in the table, in memory. */
static int pair_locked(struct array *a, struct member *old, struct dev *dev,
    struct member **out, struct err *e)
{
	struct member *new;

	if (assembly_add(a->as, dev, &new, e) != 0)
		return -1;
	a->host.members = a->as->members;
	a->host.member_count = a->as->member_count;
	if (alloc_add(&a->alloc, new->index, new->extent_count, e) != 0) {
		new->state = MEMBER_REMOVED;
		return -1;
	}
	/* Keeps new stripes from it, and has its open segments sealed. */
	if (old->state == MEMBER_ACTIVE)
		array_member_lost_locked(a, old->index, MEMBER_FAILED);
	old->state = MEMBER_REPLACING;
	memcpy(old->replaced_by, new->uuid, RAID_UUID_SIZE);
	a->members_changed = false;	/* log_join writes the epoch */
	*out = new;
	return 0;
}

static int join(struct array *a, struct member *old, struct dev *dev,
    struct err *e)
{
	enum member_state was;
	struct log_position pos;
	struct member *new;
	int rc;

	log_hold(a->log);	/* it looks at the table without our lock */
	pthread_mutex_lock(&a->lock);
	was = old->state;
	rc = pair_locked(a, old, dev, &new, e);
	pthread_mutex_unlock(&a->lock);
	log_let_go(a->log);
	if (rc != 0)
		return -1;
	rc = heartbeat_join(a->heartbeat, new, e);
	if (rc == 0)
		rc = log_join(a->log, new->index, e);
	log_position(a->log, &pos);
	pthread_mutex_lock(&a->lock);
	a->flush = pos.flush;
	if (rc != 0) {
		new->state = MEMBER_REMOVED;
		old->state = was;
		memset(old->replaced_by, 0, RAID_UUID_SIZE);
		a->members_changed = true;
	}
	pthread_mutex_unlock(&a->lock);
	return rc;
}

int array_replace_begin(struct array *a, const char *old, struct dev *dev,
    const char *wipe, struct err *e)
{
	struct member *m;
	struct err later;
	int rc;

	if (a->read_only) {
		dev_close(dev);
		return err_set(e, ERR_DENIED, "the array is open read-only");
	}
	rc = checks(a, old, dev, e);
	if (rc == 0)
		rc = blank(dev, wipe, e);
	if (rc != 0) {
		dev_close(dev);
		return rc > 0 ? 0 : -1;
	}
	if (array_commit_enter(a, e) != 0) {
		dev_close(dev);
		return -1;
	}
	pthread_mutex_lock(&a->lock);
	m = array_member_find(a, old);
	pthread_mutex_unlock(&a->lock);
	if (m) {
		rc = join(a, m, dev, e);
	} else {
		dev_close(dev);
		rc = err_set(e, ERR_NOT_FOUND, "%s is no member", old);
	}
	if (array_members_commit(a, &later) != 0 && rc == 0) {
		*e = later;
		rc = -1;
	}
	array_commit_leave(a);
	return rc;
}
