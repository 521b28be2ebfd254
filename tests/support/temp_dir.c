#include "tests/support/temp_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 4096

static _Noreturn void die(const char *what, const char *path)
{
	fprintf(stderr, "%s %s: %s\n", what, path, strerror(errno));
	abort();
}

char *temp_dir_new(void)
{
	const char *base = getenv("TMPDIR");
	size_t size;
	char *path;

	if (!base || !*base)
		base = "/tmp";
	size = strlen(base) + 20;
	path = malloc(size);
	if (!path)
		abort();
	snprintf(path, size, "%s/bk-test-XXXXXX", base);
	if (!mkdtemp(path))
		die("mkdtemp", path);
	return path;
}

static int remove_one(const char *path, const struct stat *st, int flag,
    struct FTW *f)
{
	(void)st;
	(void)flag;
	(void)f;
	return remove(path);
}

void temp_dir_remove(const char *path)
{
	if (nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0 &&
	    errno != ENOENT)
		die("remove", path);
}

static void copy_bytes(int in, int out, const char *name)
{
	static const char zeros[BLOCK];
	char block[BLOCK];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(in, block, BLOCK, at)) > 0) {
		if (memcmp(block, zeros, (size_t)n) != 0 &&
		    pwrite(out, block, (size_t)n, at) != n)
			die("write", name);
		at += n;
	}
	if (n < 0 || ftruncate(out, at) != 0)
		die("copy", name);
}

static bool same_bytes(int a, int b)
{
	char x[BLOCK], y[BLOCK];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(a, x, BLOCK, at)) > 0) {
		if (pread(b, y, BLOCK, at) != n ||
		    memcmp(x, y, (size_t)n) != 0)
			return false;
		at += n;
	}
	return n == 0 && pread(b, y, BLOCK, at) == 0;
}

/* What is to be done with a file of two directories. */
typedef bool file_fn(int from, int to, const char *name);

static bool copy_file(int from, int to, const char *name)
{
	int in = openat(from, name, O_RDONLY | O_CLOEXEC);
	int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
	    0600);

	if (in < 0 || out < 0)
		die("open", name);
	copy_bytes(in, out, name);
	close(in);
	close(out);
	return true;
}

static bool same_file(int from, int to, const char *name)
{
	int a = openat(from, name, O_RDONLY | O_CLOEXEC);
	int b = openat(to, name, O_RDONLY | O_CLOEXEC);
	bool same = a >= 0 && b >= 0 && same_bytes(a, b);

	if (a >= 0)
		close(a);
	if (b >= 0)
		close(b);
	return same;
}

/* False at the first file for which `fn` says so. */
static bool each_file(const char *from, const char *to, file_fn *fn)
{
	DIR *dir = opendir(from);
	int target = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool all = true;
	struct dirent *d;
	struct stat st;

	if (!dir || target < 0)
		die("open", from);
	while (all && (d = readdir(dir))) {
		if (strcmp(d->d_name, "lock.mdb") == 0)
			continue;
		if (fstatat(dirfd(dir), d->d_name, &st, 0) == 0 &&
		    S_ISREG(st.st_mode))
			all = fn(dirfd(dir), target, d->d_name);
	}
	closedir(dir);
	close(target);
	return all;
}

void temp_dir_copy(const char *from, const char *to)
{
	if (mkdir(to, 0700) != 0)
		die("mkdir", to);
	(void)each_file(from, to, copy_file);
}

bool temp_dir_same(const char *a, const char *b)
{
	return each_file(a, b, same_file);
}
