/*
 * tests/bench/chunks.c - measure cut points: docs/decisions/0003-cut-points.md.
 *
 *      chunks MIN AVG MAX BIAS GROUP FILE...
 *
 * Cuts the files one after the other, each as one stream.  Prints for each how
 * many of its bytes were not in a chunk seen before, chunk sizes, speed of the
 * chunker alone, and the ratio of lz4 over the new chunks when neighbours are
 * grouped into frames of at most GROUP bytes.  Sizes in KiB.
 *
 *      cc -std=c11 -D_GNU_SOURCE -O2 -I. -o chunks tests/bench/chunks.c \
 *          client/chunker.c base/hash.c base/codec.c base/err.c \
 *          -lcrypto -lisal -lxxhash -llz4 -lzstd -lpthread
 */
#include "base/codec.h"
#include "base/hash.h"
#include "client/chunker.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SEEN_SLOTS (1u << 22)

struct seen {
	uint8_t (*keys)[XXH128_SIZE];
};

struct totals {
	size_t chunks, new_chunks;
	size_t bytes, new_bytes, stored;
	double seconds;
};

struct group {
	uint8_t *data, *packed;
	size_t size, max;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void die(const char *what)
{
	perror(what);
	exit(2);
}

/* True the first time. */
static bool seen_add(struct seen *s, const uint8_t *data, size_t size)
{
	static const uint8_t none[XXH128_SIZE];
	uint8_t key[XXH128_SIZE];
	uint32_t at;

	xxh128(key, data, size);
	memcpy(&at, key, sizeof(at));
	for (at %= SEEN_SLOTS;; at = (at + 1) % SEEN_SLOTS) {
		if (memcmp(s->keys[at], key, sizeof(key)) == 0)
			return false;
		if (memcmp(s->keys[at], none, sizeof(key)) == 0)
			break;
	}
	memcpy(s->keys[at], key, sizeof(key));
	return true;
}

static void group_flush(struct group *g, struct totals *t)
{
	enum codec used;
	size_t size;
	struct err e;

	if (g->size == 0)
		return;
	if (codec_pack(CODEC_LZ4, 0, g->data, g->size, g->packed, &size, &used,
	    &e) != 0)
		die(e.text);
	t->stored += size;
	g->size = 0;
}

static void group_add(struct group *g, const uint8_t *data, size_t size,
    struct totals *t)
{
	if (g->size + size > g->max)
		group_flush(g, t);
	memcpy(g->data + g->size, data, size);
	g->size += size;
}

/* The chunker alone, over memory that is warm. */
static double cut_seconds(const struct chunker *c, const struct chunk_sizes *s,
    const uint8_t *data, size_t size)
{
	double best = 1e9;

	for (int round = 0; round < 3; round++) {
		double start = now();

		for (size_t at = 0; at < size;)
			at += chunker_next_sized(c, s, data + at, size - at,
			    true);
		if (now() - start < best)
			best = now() - start;
	}
	return best;
}

static void measure(const char *path, const struct chunker *c,
    const struct chunk_sizes *s, struct seen *seen, struct group *g)
{
	struct totals t = { .chunks = 0 };
	struct stat st;
	const uint8_t *data;
	int fd = open(path, O_RDONLY);

	if (fd < 0 || fstat(fd, &st) != 0 || st.st_size == 0)
		die(path);
	t.bytes = (size_t)st.st_size;
	data = mmap(NULL, t.bytes, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd,
	    0);
	close(fd);
	if (data == MAP_FAILED)
		die(path);
	t.seconds = cut_seconds(c, s, data, t.bytes);
	for (size_t at = 0, n; at < t.bytes; at += n) {
		n = chunker_next_sized(c, s, data + at, t.bytes - at, true);
		t.chunks++;
		if (!seen_add(seen, data + at, n))
			continue;
		t.new_chunks++;
		t.new_bytes += n;
		group_add(g, data + at, n, &t);
	}
	group_flush(g, &t);
	printf("%8.1f MB %7zu chunks of %6zu  new %6.2f %% (%zu)  lz4 %5.2f"
	    "  %5.2f GB/s  %s\n", (double)t.bytes / 1e6, t.chunks,
	    t.bytes / t.chunks, 100.0 * (double)t.new_bytes / (double)t.bytes,
	    t.new_chunks, t.stored ? (double)t.new_bytes / (double)t.stored : 0,
	    (double)t.bytes / t.seconds / 1e9, strrchr(path, '/') ?
	    strrchr(path, '/') + 1 : path);
	munmap((void *)(uintptr_t)data, t.bytes);
}

static size_t kib(const char *text)
{
	return (size_t)strtoul(text, NULL, 10) << 10;
}

int main(int argc, char **argv)
{
	static const uint8_t seed[CHUNK_SEED_SIZE] = "seed of the measurements";
	struct chunk_sizes s;
	struct chunker c;
	struct seen seen;
	struct group g = { .size = 0 };
	struct err e;

	if (argc < 7) {
		fputs("usage: chunks MIN AVG MAX BIAS GROUP FILE...\n",
		    stderr);
		return 64;
	}
	s = (struct chunk_sizes){ kib(argv[1]), kib(argv[2]), kib(argv[3]),
	    strtoul(argv[4], NULL, 10) };
	g.max = kib(argv[5]) > s.max ? kib(argv[5]) : s.max;
	g.data = malloc(g.max);
	g.packed = malloc(codec_bound(g.max));
	g.max = kib(argv[5]);
	seen.keys = calloc(SEEN_SLOTS, sizeof(*seen.keys));
	if (!g.data || !g.packed || !seen.keys)
		die("memory");
	if (chunker_init(&c, seed, &e) != 0)
		die(e.text);
	for (int i = 6; i < argc; i++)
		measure(argv[i], &c, &s, &seen, &g);
	free(seen.keys);
	free(g.data);
	free(g.packed);
	return 0;
}
