/*
 * raid/dev.h - what the array needs from one disk.
 *
 * Two implementations: raid/dev_file.c (a block device or a file) and
 * tests/support/dev_sim.c (in memory, with a volatile write log; fails, tears,
 * loses, misdirects, delays or forgets on demand, under a seeded scheduler).
 *
 * Alignment: sizes, offsets and buffers are multiples of RAID_ROW (4096).
 * Threads: calls on one device may come from several threads at once.
 */
#ifndef RAID_DEV_H
#define RAID_DEV_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dev;

enum dev_seen {			/* what became of the name we opened */
	DEV_SAME = 0,
	DEV_GONE,		/* the path leads nowhere */
	DEV_OTHER,		/* another inode or device is there */
};

struct dev_ops {
	/* All or nothing: a short transfer is an error.  `uncached`: from the
	 * medium, not from a cache of ours. */
	int (*read)(struct dev *d, void *buf, size_t size, uint64_t offset,
	    bool uncached, struct err *e);
	int (*write)(struct dev *d, const void *buf, size_t size,
	    uint64_t offset, struct err *e);
	/* Returns 0 only when every earlier write is on stable storage. */
	int (*flush)(struct dev *d, struct err *e);
	enum dev_seen (*look)(struct dev *d);
	void (*close)(struct dev *d);
};

struct dev {
	const struct dev_ops *ops;
	uint64_t size;		/* bytes */
	char *name;		/* path, for messages; owned by the device */
	bool read_only;
	/* Two members on one disk survive nothing together: equal non-zero
	 * values are warned of. */
	uint64_t disk;
};

/*
 * Open a block device or a regular file, exclusively (flock).  Not below
 * another owner: ERR_BUSY.  Direct I/O where the file system allows it.
 */
MUST_CHECK int dev_file_open(struct dev **out, const char *path,
    bool read_only, struct err *e);
/* Make a file of exactly `size` bytes, its blocks allocated; ERR_EXISTS if the
 * path exists. */
MUST_CHECK int dev_file_create(const char *path, uint64_t size,
    struct err *e);
void dev_close(struct dev *d);	/* NULL is fine */

#endif
