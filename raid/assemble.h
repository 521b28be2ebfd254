/*
 * raid/assemble.h - from a heap of disks to the members of one array.
 *
 * Superblocks alone decide: any order, any names.  The assembly holds the
 * member table, by index, with the devices that are there; the log then says
 * what is newer than the superblocks (log_load).
 *
 *      assemble --> log_load ... assembly_roots ... --> assembly_free
 *
 * A device without a sound superblock is told to `warn` and left out.
 *
 * Errors: ERR_NOT_FOUND no superblock on any device; ERR_CONFLICT two arrays,
 *   or one member twice (both paths named); ERR_CORRUPT; ERR_VERSION.
 * Threads: the array's state lock guards members and member_count.
 */
#ifndef RAID_ASSEMBLE_H
#define RAID_ASSEMBLE_H

#include "base/err.h"
#include "raid/array.h"
#include "raid/fmt_super.h"
#include "raid/log.h"
#include "raid/member.h"

#include <stddef.h>
#include <stdint.h>

struct dev;
struct warn_sink;

struct assembly {
	struct super base;		/* what the next super_write writes */
	struct member **members;	/* RAID_MEMBERS_MAX places, by index */
	size_t member_count;
	struct log_root *roots;		/* every root that a superblock names */
	size_t root_count;
	uint64_t call_ms;
};

/* Takes the devices over, also on failure (then they are closed). */
MUST_CHECK int assemble(struct assembly **out, struct dev **devs,
    size_t dev_count, uint64_t call_ms, struct warn_sink *warn,
    struct err *e);
/* Frees the members and closes their devices.  NULL is fine. */
void assembly_free(struct assembly *as);

/* log_host.uuid, extent_size, roots, members from the assembly. */
void assembly_host(const struct assembly *as, struct log_host *host);

/*
 * log_host.write_roots: note the root, and write all superblocks with the
 * members as they are now.  A member that fails is told to `failed`, as in
 * log_host.member_failed.
 */
MUST_CHECK int assembly_roots(struct assembly *as, const struct log_root *root,
    void (*failed)(void *arg, unsigned member, const struct err *why),
    void *arg, struct err *e);

/*
 * Make a member of this blank device (signature_check and _wipe are done): new
 * UUID, next index, ACTIVE, extents counted.  ERR_LIMIT: the device is too
 * small or too big, or the table is full.  Writes nothing; log_join makes it
 * durable.  Takes `dev` over, also on failure.
 */
MUST_CHECK int assembly_add(struct assembly *as, struct dev *dev,
    struct member **out, struct err *e);

/* ERR_LIMIT, naming the size that would fit. */
MUST_CHECK int assembly_size_check(const struct dev *d, uint64_t extent_size,
    struct err *e);

/*
 * Read all superblock slots of the writable members; if one is not as it was
 * last written, count and tell it (kind "superblock"), and with `heal` write
 * all of them again.
 */
MUST_CHECK int assembly_scrub(struct assembly *as, struct log *l, bool heal,
    struct scan_report *report, const struct scan_ops *ops, struct err *e);

#endif
