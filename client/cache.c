/*
 * client/cache.c - a hash table in a file, whose every record proves itself.
 *
 * THE PROMISE
 *
 *   Whatever is in the file, a push never stores a wrong tree because of it.
 *
 * WHY IT HOLDS
 *
 *   A record counts only if its checksum is right, its key is the one looked
 *   for, and the file's header names the store and the domain of this session.
 *   Flipped bits, torn writes, a file from elsewhere: all of them are records
 *   that do not count, and the file is read.
 *   A record that is right and old (the file was put back from a copy) names
 *   content that was there once: if the inode still looks the same it still
 *   has that content, and if the server no longer has it, closure answers
 *   `missing` and the push asks about everything (push_pass.c).
 *
 * THE ORDER
 *
 *   Records are staged in an unlinked file while the push runs and written
 *   into the table only after COMMITTED.  They are written in place, without
 *   fsync: what a crash tears does not count.
 *
 * FORMAT   version 1; little-endian
 *
 *   block 0   0 magic 8 "bkcache1" | 8 store 16 | 24 domain 16 |
 *             40 buckets 8 | 48 crc32c 4 of bytes 0..47 | zero to 4096
 *   bucket    one block of 4096: CACHE_WAYS records of RECORD_SIZE
 *   record    0 dev 8 | 8 ino 8 | 16 size 8 | 24 mtime s 8 | 32 ctime s 8 |
 *             40 mtime ns 4 | 44 ctime ns 4 | 48 read ns 8 | 56 content id 32
 *             | 88 flags 4 | 92 project 4 | 96 content kind 1 | 97 xattrs 1 |
 *             98 used 1 | 99 zero 1 | 100 crc32c 4 of bytes 0..99
 *
 *   A record lives in the bucket that a mix of dev and ino names.  A full
 *   bucket loses the record read longest ago: this is a cache.
 *
 * NOT DONE
 *
 *   No LMDB: a flipped bit in one of its branch pages ends the program.
 */
#include "client/cache.h"

#include "base/buf.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/le.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 4096u
#define RECORD_SIZE 104u
#define CACHE_WAYS (BLOCK / RECORD_SIZE)	/* 39 */
#define BUCKETS_MIN 64u
#define BUCKETS_MAX (1u << 22)	/* 16 GiB, 160 million inodes */
#define HEADER_CRC 48u
#define RECORD_CRC 100u
#define STAGE_BYTES (64u << 10)

/* A change within one tick of the file system's clock leaves no trace in the
 * times.  The kernel's coarse clock ticks at 100 Hz or faster; file systems
 * that store no nanoseconds count seconds, or two (FAT). */
#define TICK_FINE_NS INT64_C(50000000)
#define TICK_COARSE_NS INT64_C(2100000000)
#define NS_PER_S INT64_C(1000000000)

static const char tag_file[] =
    "Signature: 8a477f597d28d172789f06886806bc55\n"
    "# The cache of bkclient; may be deleted at any time.\n";

struct cache {
	int base;		/* directory given by the caller */
	int dir;		/* <base>/<store>-<domain>, or -1 */
	int file;		/* inodes, locked; -1 = no cache */
	uint64_t buckets;
	uint8_t store[16], domain[16];
	bool unfinished;
	int staged;		/* unlinked file, or -1 */
	uint64_t staged_count;
	struct buf pending;	/* staged, not yet in the file */
};

/* ---- records ------------------------------------------------------------ */

static void record_put(uint8_t *p, const struct cache_record *r)
{
	memset(p, 0, RECORD_SIZE);
	le64_put(p, r->dev);
	le64_put(p + 8, r->ino);
	le64_put(p + 16, r->size);
	le64_put(p + 24, (uint64_t)r->mtime_s);
	le64_put(p + 32, (uint64_t)r->ctime_s);
	le32_put(p + 40, r->mtime_ns);
	le32_put(p + 44, r->ctime_ns);
	le64_put(p + 48, (uint64_t)r->read_ns);
	memcpy(p + 56, r->id.bytes, ID_SIZE);
	le32_put(p + 88, r->flags);
	le32_put(p + 92, r->project);
	p[96] = (uint8_t)r->content;
	p[97] = r->xattrs;
	p[98] = 1;
	le32_put(p + RECORD_CRC, crc32c(0, p, RECORD_CRC));
}

static bool record_get(struct cache_record *r, const uint8_t *p)
{
	if (p[98] != 1 || p[99] != 0 || p[96] > CONTENT_LIST || p[97] > 1 ||
	    le32_get(p + RECORD_CRC) != crc32c(0, p, RECORD_CRC))
		return false;
	r->dev = le64_get(p);
	r->ino = le64_get(p + 8);
	r->size = le64_get(p + 16);
	r->mtime_s = (int64_t)le64_get(p + 24);
	r->ctime_s = (int64_t)le64_get(p + 32);
	r->mtime_ns = le32_get(p + 40);
	r->ctime_ns = le32_get(p + 44);
	r->read_ns = (int64_t)le64_get(p + 48);
	memcpy(r->id.bytes, p + 56, ID_SIZE);
	r->flags = le32_get(p + 88);
	r->project = le32_get(p + 92);
	r->content = (enum content_kind)p[96];
	r->xattrs = p[97] != 0;
	return true;
}

/* Any good mixer; the constants are those of splitmix64. */
static uint64_t bucket_of(const struct cache *c, uint64_t dev, uint64_t ino)
{
	uint64_t x = ino ^ dev * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return (x ^ x >> 31) % c->buckets;
}

/* Seconds of a file may be anything; sums must not wrap. */
static bool older(int64_t s, uint32_t ns, int64_t tick, int64_t read_ns)
{
	int64_t read_s = read_ns / NS_PER_S;

	if (s < read_s - 4)
		return true;
	if (s > read_s + 4)
		return false;
	return s * NS_PER_S + ns + tick < read_ns;
}

bool cache_unchanged(const struct cache_record *r, const struct attr *a)
{
	int64_t tick = r->mtime_ns == 0 && r->ctime_ns == 0 ?
	    TICK_COARSE_NS : TICK_FINE_NS;

	return r->dev == a->dev && r->ino == a->ino && r->size == a->size &&
	    r->mtime_s == a->mtime_s && r->mtime_ns == a->mtime_ns &&
	    r->ctime_s == a->ctime_s && r->ctime_ns == a->ctime_ns &&
	    older(r->mtime_s, r->mtime_ns, tick, r->read_ns) &&
	    older(r->ctime_s, r->ctime_ns, tick, r->read_ns);
}

/* ---- the table ---------------------------------------------------------- */

static bool block_read(int fd, uint64_t number, uint8_t block[static BLOCK])
{
	size_t have = 0;

	while (have < BLOCK) {
		ssize_t got = pread(fd, block + have, BLOCK - have,
		    (off_t)(number * BLOCK + have));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		have += (size_t)got;
	}
	memset(block + have, 0, BLOCK - have);
	return have == BLOCK;
}

/* True if the file is a table of this store and domain. */
static bool header_load(struct cache *c, int fd)
{
	uint8_t h[BLOCK];
	uint64_t buckets;

	if (!block_read(fd, 0, h) || memcmp(h, "bkcache1", 8) != 0 ||
	    le32_get(h + HEADER_CRC) != crc32c(0, h, HEADER_CRC) ||
	    memcmp(h + 8, c->store, 16) != 0 ||
	    memcmp(h + 24, c->domain, 16) != 0)
		return false;
	buckets = le64_get(h + 40);
	if (buckets < BUCKETS_MIN || buckets > BUCKETS_MAX)
		return false;
	c->buckets = buckets;
	return true;
}

static int header_write(const struct cache *c, int fd, struct err *e)
{
	uint8_t h[BLOCK] = { 0 };

	memcpy(h, "bkcache1", 8);
	memcpy(h + 8, c->store, 16);
	memcpy(h + 24, c->domain, 16);
	le64_put(h + 40, c->buckets);
	le32_put(h + HEADER_CRC, crc32c(0, h, HEADER_CRC));
	if (ftruncate(fd, 0) != 0 ||
	    ftruncate(fd, (off_t)((c->buckets + 1) * BLOCK)) != 0)
		return err_os(e, errno, "size the cache");
	return io_pwrite_all(fd, h, BLOCK, 0, "cache", e);
}

bool cache_find(struct cache *c, uint64_t dev, uint64_t ino,
    struct cache_record *out)
{
	uint8_t block[BLOCK];

	if (c->file < 0)
		return false;
	block_read(c->file, 1 + bucket_of(c, dev, ino), block);
	for (size_t i = 0; i < CACHE_WAYS; i++) {
		const uint8_t *p = block + i * RECORD_SIZE;

		if (le64_get(p + 8) == ino && le64_get(p) == dev &&
		    record_get(out, p))
			return true;
	}
	return false;
}

/* Where this record goes: its old place, a free or damaged one, or that of
 * the one read longest ago. */
static size_t choose_way(const uint8_t *block, const uint8_t *record)
{
	int64_t oldest = INT64_MAX;
	size_t way = 0;

	for (size_t i = 0; i < CACHE_WAYS; i++) {
		const uint8_t *p = block + i * RECORD_SIZE;
		struct cache_record r;

		if (memcmp(p, record, 16) == 0)
			return i;
		if (!record_get(&r, p))
			r.read_ns = INT64_MIN;
		if (r.read_ns < oldest) {
			oldest = r.read_ns;
			way = i;
		}
	}
	return way;
}

static int table_put(struct cache *c, const uint8_t *record, struct err *e)
{
	uint8_t block[BLOCK];
	uint64_t number = 1 + bucket_of(c, le64_get(record),
	    le64_get(record + 8));
	size_t way;

	block_read(c->file, number, block);
	way = choose_way(block, record);
	return io_pwrite_all(c->file, record, RECORD_SIZE,
	    number * BLOCK + way * RECORD_SIZE, "cache", e);
}

/* Make the table `buckets` large, keeping what it has. */
static int table_resize(struct cache *c, uint64_t buckets, struct err *e)
{
	struct cache bigger = *c;
	uint8_t block[BLOCK];
	int rc = 0;

	bigger.buckets = buckets;
	bigger.file = openat(c->dir, "inodes.new",
	    O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (bigger.file < 0)
		return err_os(e, errno, "create a larger cache");
	if (flock(bigger.file, LOCK_EX | LOCK_NB) != 0)
		rc = err_os(e, errno, "lock the larger cache");
	if (rc == 0)
		rc = header_write(&bigger, bigger.file, e);
	for (uint64_t b = 0; rc == 0 && b < c->buckets; b++) {
		block_read(c->file, 1 + b, block);
		for (size_t i = 0; rc == 0 && i < CACHE_WAYS; i++) {
			struct cache_record r;

			if (record_get(&r, block + i * RECORD_SIZE))
				rc = table_put(&bigger,
				    block + i * RECORD_SIZE, e);
		}
	}
	if (rc == 0 && renameat(c->dir, "inodes.new", c->dir, "inodes") != 0)
		rc = err_os(e, errno, "rename the larger cache");
	if (rc != 0) {
		io_close(&bigger.file);
		return -1;
	}
	io_close(&c->file);
	c->file = bigger.file;
	c->buckets = buckets;
	return 0;
}

/* ---- life --------------------------------------------------------------- */

static void open_dirs(struct cache *c, const char *path)
{
	char name[2 * 32 + 2];
	struct err ignored;
	int fd;

	if (io_mkdirs(path, 0700, &ignored) != 0)
		return;
	c->base = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (c->base < 0)
		return;
	fd = openat(c->base, "CACHEDIR.TAG",
	    O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd >= 0)
		(void)!io_write_all(fd, tag_file, sizeof(tag_file) - 1,
		    "CACHEDIR.TAG", &ignored);
	io_close(&fd);
	hex_put(name, c->store, 16);
	name[32] = '-';
	hex_put(name + 33, c->domain, 16);
	if (mkdirat(c->base, name, 0700) != 0 && errno != EEXIST)
		return;
	c->dir = openat(c->base, name,
	    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

static void open_table(struct cache *c)
{
	struct err ignored;
	struct stat s;

	c->file = openat(c->dir, "inodes",
	    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (c->file < 0)
		return;
	if (flock(c->file, LOCK_EX | LOCK_NB) != 0) {
		io_close(&c->file);	/* another push has it */
		return;
	}
	c->unfinished = fstatat(c->dir, "unfinished", &s,
	    AT_SYMLINK_NOFOLLOW) == 0;
	if (header_load(c, c->file))
		return;
	c->buckets = BUCKETS_MIN;
	if (header_write(c, c->file, &ignored) != 0)
		io_close(&c->file);
}

int cache_open(struct cache **out, const char *dir,
    const uint8_t store[static 16], const uint8_t domain[static 16],
    struct err *e)
{
	struct cache *c = calloc(1, sizeof(*c));

	if (!c)
		return err_set(e, ERR_NO_MEMORY, "no memory for the cache");
	memcpy(c->store, store, 16);
	memcpy(c->domain, domain, 16);
	c->base = c->dir = c->file = c->staged = -1;
	buf_init(&c->pending, STAGE_BYTES + RECORD_SIZE);
	if (dir)
		open_dirs(c, dir);
	if (c->dir >= 0)
		open_table(c);
	if (c->base < 0)
		c->base = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	*out = c;
	return 0;
}

void cache_close(struct cache *c)
{
	if (!c)
		return;
	buf_release(&c->pending);
	io_close(&c->staged);
	io_close(&c->file);
	io_close(&c->dir);
	io_close(&c->base);
	free(c);
}

int cache_dir_fd(const struct cache *c)
{
	return c->base;
}

bool cache_unfinished(const struct cache *c)
{
	return c->unfinished;
}

void cache_begin(struct cache *c)
{
	int fd;

	if (c->dir < 0)
		return;
	fd = openat(c->dir, "unfinished",
	    O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	io_close(&fd);
}

/* ---- staging ------------------------------------------------------------ */

/* Without a place to stage, nothing is remembered. */
static void stage_flush(struct cache *c)
{
	struct err ignored;

	if (c->staged < 0)
		c->staged = openat(c->base, ".",
		    O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (c->staged < 0 || io_write_all(c->staged, c->pending.data,
	    c->pending.size, "cache", &ignored) != 0)
		io_close(&c->file);
	else
		c->staged_count += c->pending.size / RECORD_SIZE;
	buf_reset(&c->pending);
}

void cache_stage(struct cache *c, const struct cache_record *r)
{
	uint8_t *room;

	if (c->file < 0)
		return;
	room = buf_room(&c->pending, RECORD_SIZE);
	if (room)
		record_put(room, r);
	else
		buf_reset(&c->pending);
	if (c->pending.size >= STAGE_BYTES)
		stage_flush(c);
}

void cache_restart(struct cache *c)
{
	buf_reset(&c->pending);
	io_close(&c->staged);
	c->staged_count = 0;
}

/* Buckets that hold `more` further records at two thirds. */
static int make_room(struct cache *c, uint64_t more, struct err *e)
{
	uint64_t used = 0, want;
	uint8_t block[BLOCK];

	for (uint64_t b = 0; b < c->buckets; b++) {
		block_read(c->file, 1 + b, block);
		for (size_t i = 0; i < CACHE_WAYS; i++)
			used += block[i * RECORD_SIZE + 98];
	}
	want = (used + more) / (CACHE_WAYS * 2 / 3) + 1;
	if (want <= c->buckets)
		return 0;
	want *= 2;
	return table_resize(c, want < BUCKETS_MAX ? want : BUCKETS_MAX, e);
}

int cache_commit(struct cache *c, struct err *e)
{
	uint8_t record[RECORD_SIZE];
	int rc = 0;

	if (c->pending.size > 0)
		stage_flush(c);
	if (c->file >= 0 && c->staged_count > 0)
		rc = make_room(c, c->staged_count, e);
	for (uint64_t i = 0; rc == 0 && c->file >= 0 && i < c->staged_count;
	    i++) {
		rc = io_pread_all(c->staged, record, RECORD_SIZE,
		    i * RECORD_SIZE, "staged cache", e);
		if (rc == 0)
			rc = table_put(c, record, e);
	}
	cache_restart(c);
	if (c->dir >= 0)
		(void)unlinkat(c->dir, "unfinished", 0);
	c->unfinished = false;
	return rc;
}
