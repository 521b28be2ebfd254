/*
 * raid/signature.c - whose is this disk?
 *
 * libblkid wants a file descriptor, and our devices are not always files.  So
 * the parts of the disk where signatures live (the first and the last 2 MiB,
 * and a few places between) are copied into a sparse file in memory of the same
 * size; libblkid probes and wipes that, and the blocks that changed are written
 * back to the device.  It never sees the device itself, so what it does not
 * know it cannot touch.
 */
#include "raid/signature.h"

#include "base/io.h"
#include "base/str.h"
#include "raid/dev.h"
#include "raid/flush_site.h"
#include "raid/fmt_super.h"
#include "raid/member.h"

#include <blkid/blkid.h>
#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <unistd.h>

#define EDGE (UINT64_C(2) << 20)	/* bytes looked at, at either end */
/* Places wiped on one disk; a member of a ZFS pool has 512 uberblocks. */
#define ROUNDS_MAX 1024
#define OWN_TYPE "bk"

/* Works on the rows of both edges. */
struct edges {
	struct dev *d;
	int fd;			/* the copy */
	uint8_t *row;		/* RAID_ROW bytes, aligned */
	uint8_t *other;		/* the same */
	bool wiped_btrfs;
};

/* Second headers of LUKS 2, and the mirrors of btrfs. */
static const uint64_t places[] = {
	UINT64_C(2) << 20, UINT64_C(4) << 20,
	UINT64_C(64) << 20, UINT64_C(256) << 30,
};
#define PLACES (sizeof(places) / sizeof(places[0]))
#define FIRST_MIRROR 2

static void edges_release(struct edges *x)
{
	io_close(&x->fd);
	free(x->row);
	free(x->other);
}

static int each_row(struct edges *x,
    int (*fn)(struct edges *x, uint64_t offset, struct err *e), struct err *e)
{
	uint64_t size = x->d->size;
	uint64_t tail = size > 2 * EDGE ? size - EDGE : EDGE;

	for (uint64_t at = 0; at < EDGE && at < size; at += RAID_ROW)
		if (fn(x, at, e) != 0)
			return -1;
	for (uint64_t at = tail; at < size; at += RAID_ROW)
		if (fn(x, at, e) != 0)
			return -1;
	for (size_t i = 0; i < PLACES && places[i] < tail; i++)
		if (fn(x, places[i], e) != 0)
			return -1;
	return 0;
}

static bool is_zero(const uint8_t *row)
{
	return row[0] == 0 && memcmp(row, row + 1, RAID_ROW - 1) == 0;
}

static int row_copy(struct edges *x, uint64_t offset, struct err *e)
{
	if (x->d->ops->read(x->d, x->row, RAID_ROW, offset, true, e) != 0)
		return -1;
	if (is_zero(x->row))
		return 0;
	return io_pwrite_all(x->fd, x->row, RAID_ROW, offset, "memory", e);
}

static int row_write_back(struct edges *x, uint64_t offset, struct err *e)
{
	struct dev *d = x->d;

	if (d->ops->read(d, x->row, RAID_ROW, offset, true, e) != 0 ||
	    io_pread_all(x->fd, x->other, RAID_ROW, offset, "memory", e) != 0)
		return -1;
	if (memcmp(x->row, x->other, RAID_ROW) == 0)
		return 0;
	return d->ops->write(d, x->other, RAID_ROW, offset, e);
}

static int edges_load(struct edges *x, struct dev *d, struct err *e)
{
	*x = (struct edges){ .d = d, .fd = -1 };
	x->row = aligned_alloc(RAID_ROW, RAID_ROW);
	x->other = aligned_alloc(RAID_ROW, RAID_ROW);
	x->fd = memfd_create("bk-signature", MFD_CLOEXEC);
	if (!x->row || !x->other || x->fd < 0 ||
	    ftruncate(x->fd, (off_t)d->size) != 0)
		return err_os(e, errno, "make a copy of the edges of %s",
		    d->name);
	return each_row(x, row_copy, e);
}

/* ---- names ------------------------------------------------------------ */

/* Equal but for case and dashes: UUIDs are written both ways. */
static bool same_name(const char *a, const char *b)
{
	for (;;) {
		while (*a == '-')
			a++;
		while (*b == '-')
			b++;
		if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
			return false;
		if (!*a)
			return true;
		a++;
		b++;
	}
}

static bool may_wipe(const struct signature *s, const char *wipe)
{
	return wipe && (strcasecmp(s->type, wipe) == 0 ||
	    (s->uuid[0] && same_name(s->uuid, wipe)));
}

static void copy_text(char *out, size_t size, const char *text)
{
	snprintf(out, size, "%s", text);
}

/* ---- libblkid --------------------------------------------------------- */

static blkid_probe probe_new(struct edges *x, struct err *e)
{
	blkid_probe pr = blkid_new_probe();

	if (!pr || blkid_probe_set_device(pr, x->fd, 0,
	    (blkid_loff_t)x->d->size) != 0) {
		blkid_free_probe(pr);
		err_set(e, ERR_NO_MEMORY, "libblkid cannot look at %s",
		    x->d->name);
		return NULL;
	}
	blkid_probe_enable_superblocks(pr, 1);
	blkid_probe_set_superblocks_flags(pr, BLKID_SUBLKS_MAGIC |
	    BLKID_SUBLKS_TYPE | BLKID_SUBLKS_UUID | BLKID_SUBLKS_BADCSUM);
	blkid_probe_enable_partitions(pr, 1);
	blkid_probe_set_partitions_flags(pr, BLKID_PARTS_MAGIC |
	    BLKID_PARTS_FORCE_GPT);
	return pr;
}

static void probe_name(blkid_probe pr, struct signature *s)
{
	const char *text;

	memset(s, 0, sizeof(*s));
	if (blkid_probe_lookup_value(pr, "TYPE", &text, NULL) == 0 ||
	    blkid_probe_lookup_value(pr, "PTTYPE", &text, NULL) == 0)
		copy_text(s->type, sizeof(s->type), text);
	else
		copy_text(s->type, sizeof(s->type), "unknown");
	if (blkid_probe_lookup_value(pr, "UUID", &text, NULL) == 0 ||
	    blkid_probe_lookup_value(pr, "PTUUID", &text, NULL) == 0)
		copy_text(s->uuid, sizeof(s->uuid), text);
}

/* 1 and the first foreign signature, 0: none, -1. */
static int foreign_find(struct edges *x, struct signature *out, struct err *e)
{
	blkid_probe pr = probe_new(x, e);
	int rc;

	if (!pr)
		return -1;
	rc = blkid_do_probe(pr);
	if (rc == 0)
		probe_name(pr, out);
	blkid_free_probe(pr);
	if (rc < 0)
		return err_set(e, ERR_IO, "libblkid cannot probe %s",
		    x->d->name);
	return rc == 0;
}

/* Clear in the copy every signature that may go; ERR_EXISTS at one that may
 * not. */
static int foreign_wipe(struct edges *x, const char *wipe, struct err *e)
{
	bool wiped_gpt = false;

	for (int i = 0; i < ROUNDS_MAX; i++) {
		blkid_probe pr = probe_new(x, e);
		struct signature s;
		int rc;

		if (!pr)
			return -1;
		rc = blkid_do_probe(pr);
		if (rc == 0) {
			probe_name(pr, &s);
			/* A GPT has a protective MBR, which names nobody. */
			if (!may_wipe(&s, wipe) && !(wiped_gpt &&
			    strcasecmp(s.type, "PMBR") == 0)) {
				blkid_free_probe(pr);
				return err_set(e, ERR_EXISTS, "%s also holds "
				    "%s %s", x->d->name, s.type, s.uuid);
			}
			wiped_gpt = wiped_gpt || strcmp(s.type, "gpt") == 0;
			x->wiped_btrfs = x->wiped_btrfs ||
			    strcmp(s.type, "btrfs") == 0;
			rc = blkid_do_wipe(pr, 0) == 0 ? 0 : -1;
		}
		blkid_free_probe(pr);
		if (rc == 1)
			return 0;
		if (rc < 0)
			return err_set(e, ERR_IO, "libblkid cannot wipe %s",
			    x->d->name);
	}
	return err_set(e, ERR_LIMIT, "%s holds more than %d signatures",
	    x->d->name, ROUNDS_MAX);
}

/* btrfs finds itself again by its mirrors, which libblkid leaves. */
static int mirrors_wipe(struct edges *x, struct err *e)
{
	for (size_t i = FIRST_MIRROR; i < PLACES; i++) {
		if (places[i] + RAID_ROW > x->d->size)
			break;
		if (io_pread_all(x->fd, x->row, RAID_ROW, places[i], "memory",
		    e) != 0)
			return -1;
		if (memcmp(x->row + 64, "_BHRfS_M", 8) != 0)
			continue;
		memset(x->row, 0, RAID_ROW);
		if (io_pwrite_all(x->fd, x->row, RAID_ROW, places[i],
		    "memory", e) != 0)
			return -1;
	}
	return 0;
}

/* ---- our own ---------------------------------------------------------- */

static int slot_load(struct dev *d, unsigned slot, uint8_t *raw,
    struct err *e)
{
	return d->ops->read(d, raw, SUPER_SIZE,
	    member_slot_offset(d->size, slot), true, e);
}

/* 1: a superblock of ours, sound or not, is in one of the slots. */
static int own_find(struct dev *d, struct signature *out, struct err *e)
{
	uint8_t *raw = aligned_alloc(RAID_ROW, SUPER_SIZE);
	int found = 0;

	if (!raw)
		return err_set(e, ERR_NO_MEMORY, "no memory to look at %s",
		    d->name);
	for (unsigned i = 0; i < MEMBER_SLOTS && found == 0; i++) {
		struct super s;
		struct err why;

		if (slot_load(d, i, raw, e) != 0) {
			found = -1;
		} else if (super_get(&s, raw, SUPER_SIZE, &why) == 0 ||
		    why.code != ERR_NOT_FOUND) {
			found = 1;
			copy_text(out->type, sizeof(out->type), OWN_TYPE);
			hex_put(out->uuid, raw + SUPER_ARRAY_AT,
			    RAID_UUID_SIZE);
		}
	}
	free(raw);
	return found;
}

static int own_wipe(struct dev *d, struct err *e)
{
	uint8_t *raw = aligned_alloc(RAID_ROW, SUPER_SIZE);
	int rc = 0;

	if (!raw)
		return err_set(e, ERR_NO_MEMORY, "no memory to wipe %s",
		    d->name);
	memset(raw, 0, SUPER_SIZE);
	for (unsigned i = 0; i < MEMBER_SLOTS && rc == 0; i++)
		rc = d->ops->write(d, raw, SUPER_SIZE,
		    member_slot_offset(d->size, i), e);
	if (rc == 0)
		rc = d->ops->write(d, raw, RAID_ROW, MEMBER_OWNER_AT, e);
	free(raw);
	return rc;
}

/* ---- both ------------------------------------------------------------- */

#define SIZE_MIN (UINT64_C(16) << 20)	/* below it there are no slots */

int signature_find(struct dev *d, struct signature *out, struct err *e)
{
	struct edges x;
	int rc = 0;

	memset(out, 0, sizeof(*out));
	if (d->size >= SIZE_MIN)
		rc = own_find(d, out, e);
	if (rc == 0) {
		rc = edges_load(&x, d, e);
		if (rc == 0)
			rc = foreign_find(&x, out, e);
		edges_release(&x);
	}
	return rc < 0 ? -1 : 0;
}

int signature_check(struct dev *d, const char *wipe, int *to_wipe,
    struct err *e)
{
	struct signature s;

	*to_wipe = 0;
	if (signature_find(d, &s, e) != 0)
		return -1;
	if (!s.type[0])
		return 0;
	if (may_wipe(&s, wipe)) {
		*to_wipe = 1;
		return 0;
	}
	if (strcmp(s.type, OWN_TYPE) == 0)
		return err_set(e, ERR_EXISTS, "%s is a member of an array (bk "
		    "%s): recover opens that; --wipe=%s would destroy what it "
		    "has of it", d->name, s.uuid, s.uuid);
	return err_set(e, ERR_EXISTS, "%s is not blank: it holds %s%s%s; "
	    "--wipe=%s would clear it", d->name, s.type,
	    s.uuid[0] ? " " : "", s.uuid, s.uuid[0] ? s.uuid : s.type);
}

static int wipe_all(struct edges *x, const char *wipe, struct err *e)
{
	struct signature s;
	struct dev *d = x->d;
	int own = own_find(d, &s, e);

	if (own < 0 || foreign_wipe(x, wipe, e) != 0)
		return -1;
	if (own && !may_wipe(&s, wipe))
		return err_set(e, ERR_EXISTS, "%s also holds %s %s", d->name,
		    s.type, s.uuid);
	if (x->wiped_btrfs && mirrors_wipe(x, e) != 0)
		return -1;
	/* The copy still has our superblocks: they go last. */
	if (each_row(x, row_write_back, e) != 0)
		return -1;
	if (own && own_wipe(d, e) != 0)
		return -1;
	return flush_site("signature.wipe") ? d->ops->flush(d, e) : 0;
}

int signature_wipe(struct dev *d, const char *wipe, struct err *e)
{
	struct signature left;
	struct edges x;
	int rc;

	rc = edges_load(&x, d, e);
	if (rc == 0)
		rc = wipe_all(&x, wipe, e);
	edges_release(&x);
	if (rc != 0 || signature_find(d, &left, e) != 0)
		return -1;
	if (left.type[0])
		return err_set(e, ERR_EXISTS, "%s still holds %s %s after "
		    "wiping", d->name, left.type, left.uuid);
	return 0;
}
