#include "tests/client/fixture.h"

#include "base/io.h"
#include "client/client.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OUTPUT_MAX (64u << 20)

void fixture_init(struct fixture *f)
{
	const char *tmp = getenv("TMPDIR");

	memset(f, 0, sizeof(*f));
	(void)snprintf(f->dir, sizeof(f->dir), "%s/bk-client-XXXXXX",
	    tmp && strlen(tmp) < 32 ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(f->dir));
	(void)snprintf(f->src, sizeof(f->src), "%s/src", f->dir);
	(void)snprintf(f->dst, sizeof(f->dst), "%s/dst", f->dir);
	make_dir(f->src);
	setenv("XDG_CONFIG_HOME", at(f->dir, "config"), 1);
	setenv("XDG_CACHE_HOME", at(f->dir, "cache"), 1);
	unsetenv("BKCLIENT_SERVER");
	f->store = fake_store_new();
	buf_init(&f->out, OUTPUT_MAX);
	buf_init(&f->err, OUTPUT_MAX);
}

void fixture_release(struct fixture *f)
{
	fake_store_free(f->store);
	buf_release(&f->out);
	buf_release(&f->err);
	remove_tree(f->dir);
}

/* ---- running ------------------------------------------------------------ */

static int redirect(int fd, const char *path)
{
	int saved = dup(fd);
	int file = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ck_assert_int_ge(saved, 0);
	ck_assert_int_ge(file, 0);
	ck_assert_int_eq(dup2(file, fd), fd);
	close(file);
	return saved;
}

static void put_back(int fd, int saved, const char *path, struct buf *out)
{
	struct err e;

	dup2(saved, fd);
	close(saved);
	buf_reset(out);
	ck_assert_int_eq(io_file_load(AT_FDCWD, path, out, &e), 0);
	buf_u8(out, '\0');
}

int run(struct fixture *f, const char *first, ...)
{
	char server[32], out[128], err[128];
	int fd;
	const char *argv[64] = { "bkclient", "-s", server, first };
	int argc = first ? 4 : 3, status, saved_out, saved_err;
	struct client c;
	va_list words;

	va_start(words, first);
	while (first && argc < 63 && (argv[argc] = va_arg(words,
	    const char *)))
		argc++;
	va_end(words);
	argv[argc] = NULL;
	fd = fake_session(f->store);
	(void)snprintf(server, sizeof(server), "fd:%d", fd);
	(void)snprintf(out, sizeof(out), "%s/stdout", f->dir);
	(void)snprintf(err, sizeof(err), "%s/stderr", f->dir);
	fflush(stdout);
	fflush(stderr);
	saved_out = redirect(STDOUT_FILENO, out);
	saved_err = redirect(STDERR_FILENO, err);
	client_prepare(&c);
	status = client_run(&c, argc, (char **)(uintptr_t)argv);
	if (!c.tried)		/* it never took the descriptor */
		close(fd);
	client_release(&c);
	fflush(stdout);
	fflush(stderr);
	put_back(STDOUT_FILENO, saved_out, out, &f->out);
	put_back(STDERR_FILENO, saved_err, err, &f->err);
	fake_session_end(f->store);
	return status;
}

/* ---- files -------------------------------------------------------------- */

const char *at(const char *dir, const char *name)
{
	static char ring[8][512];
	static unsigned next;
	char *out = ring[next++ % 8];

	ck_assert_int_lt(snprintf(out, 512, "%s/%s", dir, name), 512);
	return out;
}

void make_dir(const char *path)
{
	struct err e;

	ck_assert_msg(io_mkdirs(path, 0755, &e) == 0, "%s", e.text);
}

void put_file(const char *path, const void *data, size_t size)
{
	const char *slash = strrchr(path, '/');
	char dir[512];
	struct err e;
	int fd;

	(void)snprintf(dir, sizeof(dir), "%.*s", (int)(slash - path), path);
	make_dir(dir);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	ck_assert_msg(fd >= 0, "%s", path);
	ck_assert_int_eq(io_write_all(fd, data, size, path, &e), 0);
	close(fd);
}

void put_text(const char *path, const char *text)
{
	put_file(path, text, strlen(text));
}

void fill_random(uint8_t *out, size_t size, uint64_t seed)
{
	uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

	for (size_t i = 0; i < size; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		out[i] = (uint8_t)(x >> 32);
	}
}

bool is_there(const char *path)
{
	struct stat s;

	return lstat(path, &s) == 0;
}

bool has_text(const char *path, const char *text)
{
	struct buf b;
	struct err e;
	bool same;

	buf_init(&b, OUTPUT_MAX);
	same = io_file_load(AT_FDCWD, path, &b, &e) == 0 &&
	    b.size == strlen(text) &&
	    (b.size == 0 || memcmp(b.data, text, b.size) == 0);
	buf_release(&b);
	return same;
}

bool says(const struct buf *text, const char *what)
{
	return strstr((const char *)text->data, what) != NULL;
}

/* Paths may be longer than PATH_MAX and files immutable: by descriptor. */
static void remove_in(int dir, const char *name)
{
	int fd;

	if (unlinkat(dir, name, 0) == 0 ||
	    unlinkat(dir, name, AT_REMOVEDIR) == 0)
		return;
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW |
	    O_CLOEXEC);
	if (fd < 0)
		return;
	fchmod(fd, 0700);
	for (;;) {
		char listing[4096];
		ssize_t got;
		bool any = false;

		lseek(fd, 0, SEEK_SET);
		while ((got = getdents64(fd, listing, sizeof(listing))) > 0) {
			for (ssize_t i = 0; i < got;) {
				struct dirent64 *d = (void *)(listing + i);

				if (strcmp(d->d_name, ".") != 0 &&
				    strcmp(d->d_name, "..") != 0) {
					remove_in(fd, d->d_name);
					any = true;
				}
				i += d->d_reclen;
			}
		}
		if (!any)
			break;
	}
	close(fd);
	unlinkat(dir, name, AT_REMOVEDIR);
}

void remove_tree(const char *path)
{
	remove_in(AT_FDCWD, path);
}
