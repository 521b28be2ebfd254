/*
 * tests/fuzz/replay.c - run a fuzz target over its corpus, without clang.
 *
 * Feeds the empty input, every file of the directory given, and of each file
 * the truncations and changes below: the same ones in every run, so that a
 * failure can be repeated.  A crash leaves the input in $TMPDIR (or /tmp)
 * under "bk-fuzz-crash" and its path on stderr.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (4u << 20)
#define CHANGES 2000	/* per corpus file; a second or so per target */

static const uint8_t *volatile now_data;	/* for the crash handler */
static volatile size_t now_size;
static char crash_path[512];
static unsigned long runs;

static void on_crash(int sig)
{
	int fd = open(crash_path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	if (fd >= 0) {
		ssize_t n = write(fd, now_data, now_size);

		n += write(2, "crash; input in ", 16);
		n += write(2, crash_path, strlen(crash_path));
		n += write(2, "\n", 1);
		(void)n;
	}
	signal(sig, SIG_DFL);
	raise(sig);
}

/* A copy of exactly this size, so that sanitizers see a step past its end. */
static void feed(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	if (size > 0)
		memcpy(copy, data, size);
	now_data = copy;
	now_size = size;
	LLVMFuzzerTestOneInput(copy, size);
	runs++;
	free(copy);
}

/* Vigna, splitmix64: small, seeded, the same everywhere. */
static uint64_t next_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void change(uint8_t *data, size_t size, uint64_t *state)
{
	static const uint8_t odd[] = { 0, 1, 0x7f, 0x80, 0xff };
	uint64_t r = next_random(state);
	size_t at = (size_t)(r >> 16) % size;

	switch (r % 4) {
	case 0:
		data[at] ^= (uint8_t)(1u << (r >> 8) % 8);
		break;
	case 1:
		data[at] = odd[(r >> 8) % sizeof(odd)];
		break;
	case 2:
		data[at] = (uint8_t)(r >> 8);
		break;
	default:	/* a length field gone wild */
		for (size_t i = at; i < size && i < at + 4; i++)
			data[i] = 0xff;
	}
}

static void feed_changes(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);
	size_t step = size / 200 + 1;
	size_t work = size > 65536 ? CHANGES / 10 : CHANGES;
	uint64_t state = 20240503;

	if (!copy)
		abort();
	for (size_t n = 0; n < size; n += n < 64 ? 1 : step)
		feed(data, n);
	for (size_t i = 0; size > 0 && i < work; i++) {
		memcpy(copy, data, size);
		for (size_t n = next_random(&state) % 3 + 1; n > 0; n--)
			change(copy, size, &state);
		feed(copy, size);
	}
	free(copy);
}

static void feed_file(const char *dir, const char *name)
{
	char path[4096];
	uint8_t *data = malloc(INPUT_MAX);
	FILE *f;
	size_t size;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "rb");
	if (!data || !f) {
		perror(path);
		exit(2);
	}
	size = fread(data, 1, INPUT_MAX, f);
	fclose(f);
	feed(data, size);
	feed_changes(data, size);
	free(data);
}

int main(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR");
	struct dirent **names = NULL;
	int count;

	if (argc != 2) {
		fprintf(stderr, "usage: %s CORPUS-DIRECTORY\n", argv[0]);
		return 64;
	}
	snprintf(crash_path, sizeof(crash_path), "%s/bk-fuzz-crash",
	    tmp ? tmp : "/tmp");
	signal(SIGABRT, on_crash);
	signal(SIGSEGV, on_crash);
	signal(SIGBUS, on_crash);
	signal(SIGFPE, on_crash);
	feed(NULL, 0);
	count = scandir(argv[1], &names, NULL, alphasort);
	if (count < 0) {
		perror(argv[1]);
		return 2;
	}
	for (int i = 0; i < count; i++) {
		if (names[i]->d_name[0] != '.')
			feed_file(argv[1], names[i]->d_name);
		free(names[i]);
	}
	free(names);
	printf("%lu inputs\n", runs);
	return 0;
}
