/*
 * base/extsort.c - sort by runs and merges (Knuth, TAOCP vol. 3, 5.4).
 *
 * One block of memory serves both phases.  While records come in, their bytes
 * grow from the front and one entry for each from the back; when the two
 * would meet, the entries are sorted and the records written as a run:
 *
 *      | size, bytes | size, bytes | ...   free   ... | entry | entry |
 *
 * While records go out, the block is cut into slots of RUN_SIZE, a read
 * buffer for each run.  More runs than slots are first merged into longer
 * ones at the end of the file, and the space of their sources is given back.
 *
 * The spill file has no name, so nothing is left after a crash.  It is read
 * with checks on every size: a disk that returns other bytes must not lead
 * past a buffer.
 */
#include "base/extsort.h"

#include "base/io.h"
#include "base/le.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD 4			/* le32 size before each record */
#define RUN_SIZE 69632		/* 17 pages: the longest record and its head */
#define MEMORY_MIN (4 * RUN_SIZE)	/* two runs in, one out, one to spare */

_Static_assert(RUN_SIZE >= EXTSORT_RECORD_MAX + HEAD, "a record fits a slot");

struct entry {
	uint64_t prefix;	/* first bytes, big-endian: most comparisons */
	size_t at;		/* of the record's head in the block */
};

struct run {
	uint64_t at, end;	/* what is still unread, in the spill file */
	uint8_t *slot;		/* while merging */
	size_t have, next;	/* bytes in the slot; offset of the record */
	uint64_t prefix;
	uint32_t size;		/* of the current record */
};

struct extsort {
	int dir, fd;		/* fd: -1 until the first spill */
	uint8_t *block;
	size_t memory;		/* bytes of block, a multiple of 16 */
	size_t used;		/* bytes of records at the front */
	size_t entries;		/* at the back, newest first */
	uint64_t file_size;
	struct run *runs;
	size_t run_count, run_cap;
	size_t *heap;		/* indices into runs, the least first */
	size_t heap_count;
	uint64_t count;
	bool started;		/* extsort_next() was called: advance first */
	size_t position;	/* in memory: the next entry */
};

int extsort_new(struct extsort **out, int dir, size_t memory_max,
    struct err *e)
{
	struct extsort *s = calloc(1, sizeof(*s));

	if (!s)
		return err_set(e, ERR_NO_MEMORY, "no memory to sort");
	s->dir = dir;
	s->fd = -1;
	s->memory = memory_max < MEMORY_MIN ? MEMORY_MIN : memory_max;
	s->memory -= s->memory % sizeof(struct entry);
	s->block = malloc(s->memory);
	if (!s->block) {
		free(s);
		return err_set(e, ERR_NO_MEMORY, "no %zu bytes to sort",
		    memory_max);
	}
	*out = s;
	return 0;
}

void extsort_free(struct extsort *s)
{
	if (!s)
		return;
	io_close(&s->fd);
	free(s->heap);
	free(s->runs);
	free(s->block);
	free(s);
}

uint64_t extsort_count(const struct extsort *s)
{
	return s->count;
}

static uint64_t prefix_of(const uint8_t *record, size_t size)
{
	uint64_t v = 0;

	for (size_t i = 0; i < 8; i++)
		v = v << 8 | (i < size ? record[i] : 0);
	return v;
}

static int compare(const uint8_t *a, size_t a_size, const uint8_t *b,
    size_t b_size)
{
	size_t least = a_size < b_size ? a_size : b_size;
	int c = least > 0 ? memcmp(a, b, least) : 0;

	if (c != 0)
		return c;
	return a_size < b_size ? -1 : a_size > b_size;
}

static int compare_entries(const void *left, const void *right, void *block)
{
	const struct entry *a = left, *b = right;
	const uint8_t *x, *y;

	if (a->prefix != b->prefix)
		return a->prefix < b->prefix ? -1 : 1;
	x = (const uint8_t *)block + a->at;
	y = (const uint8_t *)block + b->at;
	return compare(x + HEAD, le32_get(x), y + HEAD, le32_get(y));
}

static struct entry *entries(const struct extsort *s)
{
	return (struct entry *)(void *)(s->block + s->memory) - s->entries;
}

static void sort_block(struct extsort *s)
{
	qsort_r(entries(s), s->entries, sizeof(struct entry),
	    compare_entries, s->block);
}

static int open_spill(struct extsort *s, struct err *e)
{
	char name[64];

	if (s->fd >= 0)
		return 0;
	s->fd = openat(s->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (s->fd >= 0)
		return 0;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)
		return err_os(e, errno, "create a spill file");
	/* A file system without O_TMPFILE: a name for a moment. */
	snprintf(name, sizeof(name), ".sort.%d.%p.tmp", (int)getpid(),
	    (void *)s);
	s->fd = openat(s->dir, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
	    0600);
	if (s->fd < 0)
		return err_os(e, errno, "create a spill file");
	unlinkat(s->dir, name, 0);
	return 0;
}

/* A new run that begins at the end of the file. */
static struct run *add_run(struct extsort *s, struct err *e)
{
	struct run *runs = s->runs;

	if (s->run_count == s->run_cap) {
		size_t cap = s->run_cap ? s->run_cap * 2 : 16;

		runs = realloc(runs, cap * sizeof(*runs));
		if (!runs) {
			err_set(e, ERR_NO_MEMORY, "no memory for %zu runs",
			    cap);
			return NULL;
		}
		s->runs = runs;
		s->run_cap = cap;
	}
	runs[s->run_count] = (struct run){
		.at = s->file_size, .end = s->file_size,
	};
	return &runs[s->run_count++];
}

/* Bytes on their way to the end of the spill file. */
struct out {
	struct extsort *s;
	uint8_t *data;		/* RUN_SIZE bytes */
	size_t size;
};

static int out_flush(struct out *o, struct err *e)
{
	if (io_pwrite_all(o->s->fd, o->data, o->size, o->s->file_size,
	    "the spill file", e) != 0)
		return -1;
	o->s->file_size += o->size;
	o->size = 0;
	return 0;
}

static int out_record(struct out *o, const uint8_t *record, uint32_t size,
    struct err *e)
{
	if (o->size + HEAD + size > RUN_SIZE && out_flush(o, e) != 0)
		return -1;
	le32_put(o->data + o->size, size);
	if (size > 0)
		memcpy(o->data + o->size + HEAD, record, size);
	o->size += HEAD + size;
	return 0;
}

static int write_run(struct extsort *s, struct out *o, struct err *e)
{
	const struct entry *entry = entries(s);
	struct run *run;

	if (open_spill(s, e) != 0)
		return -1;
	run = add_run(s, e);
	if (!run)
		return -1;
	for (size_t i = 0; i < s->entries; i++) {
		const uint8_t *p = s->block + entry[i].at;

		if (out_record(o, p + HEAD, le32_get(p), e) != 0)
			return -1;
	}
	if (out_flush(o, e) != 0)
		return -1;
	run->end = s->file_size;
	s->used = 0;
	s->entries = 0;
	return 0;
}

static int spill(struct extsort *s, struct err *e)
{
	struct out o = { .s = s, .data = malloc(RUN_SIZE) };
	int rc;

	if (!o.data)
		return err_set(e, ERR_NO_MEMORY, "no memory to spill");
	sort_block(s);
	rc = write_run(s, &o, e);
	free(o.data);
	return rc;
}

int extsort_add(struct extsort *s, const void *record, size_t size,
    struct err *e)
{
	size_t want;
	struct entry *entry;

	if (size > EXTSORT_RECORD_MAX)
		return err_set(e, ERR_LIMIT, "a record of %zu bytes is too "
		    "long to sort", size);
	/* Twice the entries: qsort_r() makes a copy of them. */
	want = s->used + HEAD + size + 2 * (s->entries + 1) * sizeof(*entry);
	if (want > s->memory && spill(s, e) != 0)
		return -1;
	le32_put(s->block + s->used, (uint32_t)size);
	if (size > 0)
		memcpy(s->block + s->used + HEAD, record, size);
	s->entries++;
	entry = entries(s);
	entry->prefix = prefix_of(record, size);
	entry->at = s->used;
	s->used += HEAD + size;
	s->count++;
	return 0;
}

/* Fill the slot behind what it holds; 0, or -1. */
static int run_fill(struct extsort *s, struct run *r, struct err *e)
{
	size_t left = r->have - r->next;
	size_t more = RUN_SIZE - left;

	if (r->next > 0)
		memmove(r->slot, r->slot + r->next, left);
	if (more > r->end - r->at)
		more = (size_t)(r->end - r->at);
	if (io_pread_all(s->fd, r->slot + left, more, r->at, "the spill file",
	    e) != 0)
		return -1;
	r->at += more;
	r->have = left + more;
	r->next = 0;
	return 0;
}

/* Make the record at `next` current: 1, 0 at the run's end, or -1. */
static int run_load(struct extsort *s, struct run *r, struct err *e)
{
	size_t left = r->have - r->next;

	if ((left < HEAD || left - HEAD < le32_get(r->slot + r->next)) &&
	    r->at < r->end) {
		if (run_fill(s, r, e) != 0)
			return -1;
		left = r->have;
	}
	if (left == 0)
		return 0;
	if (left < HEAD || left - HEAD < le32_get(r->slot + r->next))
		return err_set(e, ERR_CORRUPT, "the spill file has other "
		    "bytes than were written");
	r->size = le32_get(r->slot + r->next);
	r->prefix = prefix_of(r->slot + r->next + HEAD, r->size);
	return 1;
}

static int run_step(struct extsort *s, struct run *r, struct err *e)
{
	r->next += HEAD + r->size;
	return run_load(s, r, e);
}

static bool run_less(const struct run *a, const struct run *b)
{
	if (a->prefix != b->prefix)
		return a->prefix < b->prefix;
	return compare(a->slot + a->next + HEAD, a->size,
	    b->slot + b->next + HEAD, b->size) < 0;
}

static void heap_down(struct extsort *s, size_t i)
{
	size_t *h = s->heap;

	for (;;) {
		size_t least = i, child = 2 * i + 1, t;

		for (size_t c = child; c < child + 2; c++)
			if (c < s->heap_count &&
			    run_less(&s->runs[h[c]], &s->runs[h[least]]))
				least = c;
		if (least == i)
			return;
		t = h[i];
		h[i] = h[least];
		h[least] = t;
		i = least;
	}
}

/* Begin to merge runs[first .. first + count). */
static int merge_begin(struct extsort *s, size_t first, size_t count,
    struct err *e)
{
	s->heap_count = 0;
	for (size_t i = 0; i < count; i++) {
		struct run *r = &s->runs[first + i];
		int more;

		r->slot = s->block + i * RUN_SIZE;
		r->have = r->next = 0;
		more = run_load(s, r, e);
		if (more < 0)
			return -1;
		if (more > 0)
			s->heap[s->heap_count++] = first + i;
	}
	for (size_t i = s->heap_count; i-- > 0;)
		heap_down(s, i);
	return 0;
}

/* The least run's record was used up: 0 or -1. */
static int merge_step(struct extsort *s, struct err *e)
{
	int more = run_step(s, &s->runs[s->heap[0]], e);

	if (more < 0)
		return -1;
	if (more == 0)
		s->heap[0] = s->heap[--s->heap_count];
	heap_down(s, 0);
	return 0;
}

/* Merge runs[first .. first + count) into a new run at the end. */
static int merge_runs(struct extsort *s, size_t first, size_t count,
    struct err *e)
{
	struct out o = { .s = s, .data = s->block + count * RUN_SIZE };
	uint64_t begin = s->runs[first].at;
	uint64_t end = s->runs[first + count - 1].end;

	if (!add_run(s, e) || merge_begin(s, first, count, e) != 0)
		return -1;
	while (s->heap_count > 0) {
		const struct run *r = &s->runs[s->heap[0]];

		if (out_record(&o, r->slot + r->next + HEAD, r->size, e) != 0 ||
		    merge_step(s, e) != 0)
			return -1;
	}
	if (out_flush(&o, e) != 0)
		return -1;
	s->runs[s->run_count - 1].end = s->file_size;
	/* Space back; a file system that cannot keeps it until the end. */
	(void)fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
	    (off_t)begin, (off_t)(end - begin));
	return 0;
}

int extsort_finish(struct extsort *s, struct err *e)
{
	size_t slots = s->memory / RUN_SIZE;
	size_t first = 0;

	if (s->run_count == 0) {
		sort_block(s);
		return 0;
	}
	if (s->entries > 0 && spill(s, e) != 0)
		return -1;
	s->heap = calloc(slots, sizeof(*s->heap));
	if (!s->heap)
		return err_set(e, ERR_NO_MEMORY, "no memory to merge");
	/* Runs stay in file order: sources first, their merger at the end. */
	while (s->run_count - first > slots) {
		if (merge_runs(s, first, slots - 1, e) != 0)
			return -1;
		first += slots - 1;
	}
	return merge_begin(s, first, s->run_count - first, e);
}

static int next_in_memory(struct extsort *s, const uint8_t **record,
    size_t *size)
{
	const uint8_t *p;

	if (s->position == s->entries)
		return 0;
	p = s->block + entries(s)[s->position++].at;
	*record = p + HEAD;
	*size = le32_get(p);
	return 1;
}

int extsort_next(struct extsort *s, const uint8_t **record, size_t *size,
    struct err *e)
{
	const struct run *r;

	if (s->run_count == 0)
		return next_in_memory(s, record, size);
	assert(s->heap);	/* extsort_finish() was called */
	if (s->started && s->heap_count > 0 && merge_step(s, e) != 0)
		return -1;
	s->started = true;
	if (s->heap_count == 0)
		return 0;
	r = &s->runs[s->heap[0]];
	*record = r->slot + r->next + HEAD;
	*size = r->size;
	return 1;
}
