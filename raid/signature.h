/*
 * raid/signature.h - is this disk blank, and if not, whose is it?
 *
 * A new member must be blank.  What else may be on it is told by libblkid
 * (file systems, partition tables, RAID, LVM, LUKS, swap, ZFS ...) and by our
 * own superblocks.  Only what the person named is wiped, every copy of it, and
 * the result is read back from the medium.
 *
 * Threads: no state; the device must not be in use.
 */
#ifndef RAID_SIGNATURE_H
#define RAID_SIGNATURE_H

#include "base/err.h"

struct dev;

struct signature {
	char type[64];		/* "ext4", "gpt", "bk" ...; "" = blank */
	char uuid[64];		/* as text; may be empty */
};

/* What is there; type is empty for a blank disk. */
MUST_CHECK int signature_find(struct dev *d, struct signature *out,
    struct err *e);

/*
 * Refuse a disk that is not blank (ERR_EXISTS, naming type and UUID), unless
 * `wipe` (may be NULL) is exactly its type or its UUID: then remember that it
 * is to be wiped (*to_wipe = 1).  Writes nothing.
 */
MUST_CHECK int signature_check(struct dev *d, const char *wipe, int *to_wipe,
    struct err *e);

/* Clear every place of every signature that `wipe` names, flush, and prove by
 * reading uncached that the disk is blank now. */
MUST_CHECK int signature_wipe(struct dev *d, const char *wipe, struct err *e);

#endif
