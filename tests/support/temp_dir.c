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

static void copy_file(int from, int to, const char *name)
{
	int in = openat(from, name, O_RDONLY | O_CLOEXEC);
	int out = openat(to, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
	    0600);

	if (in < 0 || out < 0)
		die("open", name);
	copy_bytes(in, out, name);
	close(in);
	close(out);
}

void temp_dir_copy(const char *from, const char *to)
{
	struct dirent *d;
	struct stat st;
	int target;
	DIR *dir;

	if (mkdir(to, 0700) != 0)
		die("mkdir", to);
	dir = opendir(from);
	target = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!dir || target < 0)
		die("open", from);
	while ((d = readdir(dir))) {
		if (strcmp(d->d_name, "lock.mdb") == 0)
			continue;
		if (fstatat(dirfd(dir), d->d_name, &st, 0) == 0 &&
		    S_ISREG(st.st_mode))
			copy_file(dirfd(dir), target, d->d_name);
	}
	closedir(dir);
	close(target);
}
