/* client/walk_names.c - the sorted names of one directory, in bounded memory */
#include "client/walk.h"
#include "client/walk_int.h"

#include "base/extsort.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LISTING_BYTES (64u << 10)	/* of one getdents64 */
#define SORT_BYTES (512u << 10)		/* once it spills */
#define NAME_BYTES 256

/* As the kernel writes it; see getdents64(2). */
struct kernel_dirent {
	uint64_t d_ino;
	int64_t d_off;
	unsigned short d_reclen;
	unsigned char d_type;
	char d_name[];
};

/* In memory: records of name, '\0', type, one after the other, and the offset
 * of each.  The same record goes into the external sort: a name has no NUL, so
 * the order of records is that of names. */
struct walk_names {
	char *bytes;
	size_t used, room;
	uint32_t *at;
	size_t count, at_room, next;
	size_t *budget, taken;
	struct extsort *sort;
	char name[NAME_BYTES];
};

static int no_memory(struct err *e)
{
	return err_set(e, ERR_NO_MEMORY, "no memory for a directory");
}

/* Room for one more record; 0 when the budget is used up. */
static int make_room(struct walk_names *n, size_t size, struct err *e)
{
	size_t room = n->room ? 2 * n->room : 1024;
	void *more;

	if (n->used + size > n->room) {
		if (room - n->room > *n->budget)
			return 0;
		more = realloc(n->bytes, room);
		if (!more)
			return no_memory(e);
		*n->budget -= room - n->room;
		n->taken += room - n->room;
		n->bytes = more;
		n->room = room;
	}
	if (n->count == n->at_room) {
		room = n->at_room ? 2 * n->at_room : 64;
		more = realloc(n->at, room * sizeof(*n->at));
		if (!more)
			return no_memory(e);
		n->at = more;
		n->at_room = room;
	}
	return 1;
}

/* Give the memory back, and all names to the external sort. */
static int spill(struct walk_names *n, int spill_dir, struct err *e)
{
	if (extsort_new(&n->sort, spill_dir, SORT_BYTES, e) != 0)
		return -1;
	for (size_t i = 0; i < n->count; i++) {
		const char *name = n->bytes + n->at[i];

		if (extsort_add(n->sort, name, strlen(name) + 2, e) != 0)
			return -1;
	}
	free(n->bytes);
	free(n->at);
	n->bytes = NULL;
	n->at = NULL;
	*n->budget += n->taken;
	n->taken = 0;
	return 0;
}

static int add(struct walk_names *n, const struct kernel_dirent *d,
    int spill_dir, struct err *e)
{
	char record[NAME_BYTES + 1];
	size_t size = strlen(d->d_name);
	int rc;

	if (size >= NAME_BYTES || strcmp(d->d_name, ".") == 0 ||
	    strcmp(d->d_name, "..") == 0 || size == 0)
		return 0;
	memcpy(record, d->d_name, size + 1);
	record[size + 1] = (char)d->d_type;
	if (!n->sort) {
		rc = make_room(n, size + 2, e);
		if (rc < 0 || (rc == 0 && spill(n, spill_dir, e) != 0))
			return -1;
	}
	if (n->sort)
		return extsort_add(n->sort, record, size + 2, e);
	memcpy(n->bytes + n->used, record, size + 2);
	n->at[n->count++] = (uint32_t)n->used;
	n->used += size + 2;
	return 0;
}

static int by_name(const void *a, const void *b, void *bytes)
{
	return strcmp((const char *)bytes + *(const uint32_t *)a,
	    (const char *)bytes + *(const uint32_t *)b);
}

static int read_all(struct walk_names *n, int fd, int spill_dir,
    char *listing, struct err *e)
{
	for (;;) {
		long got = syscall(SYS_getdents64, fd, listing,
		    LISTING_BYTES);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_os(e, errno, "list a directory");
		if (got == 0)
			return 0;
		for (long at = 0; at < got;) {
			const struct kernel_dirent *d =
			    (const void *)(listing + at);

			if (add(n, d, spill_dir, e) != 0)
				return -1;
			at += d->d_reclen;
		}
	}
}

int walk_names_read(struct walk_names **out, int fd, size_t *budget,
    int spill_dir, struct err *e)
{
	struct walk_names *n = calloc(1, sizeof(*n));
	char *listing = malloc(LISTING_BYTES);
	int rc = -1;

	if (!n || !listing) {
		no_memory(e);
		goto out;
	}
	n->budget = budget;
	if (read_all(n, fd, spill_dir, listing, e) != 0)
		goto out;
	if (n->sort && extsort_finish(n->sort, e) != 0)
		goto out;
	if (n->count > 1 && !n->sort)
		qsort_r(n->at, n->count, sizeof(*n->at), by_name, n->bytes);
	*out = n;
	n = NULL;
	rc = 0;
out:
	walk_names_free(n);
	free(listing);
	return rc;
}

void walk_names_free(struct walk_names *n)
{
	if (!n)
		return;
	if (n->budget)
		*n->budget += n->taken;
	extsort_free(n->sort);
	free(n->bytes);
	free(n->at);
	free(n);
}

int walk_names_next(struct walk_names *n, const char **name, size_t *size,
    unsigned char *type, struct err *e)
{
	const uint8_t *record;
	size_t bytes;
	int rc;

	if (!n->sort) {
		if (n->next == n->count)
			return 0;
		*name = n->bytes + n->at[n->next++];
		*size = strlen(*name);
		*type = (unsigned char)(*name)[*size + 1];
		return 1;
	}
	rc = extsort_next(n->sort, &record, &bytes, e);
	if (rc <= 0)
		return rc;
	if (bytes < 3 || bytes > NAME_BYTES + 1)
		return err_set(e, ERR_CORRUPT, "a spilled name is damaged");
	memcpy(n->name, record, bytes - 1);
	n->name[bytes - 2] = '\0';
	*name = n->name;
	*size = strlen(n->name);
	*type = record[bytes - 1];
	return 1;
}
