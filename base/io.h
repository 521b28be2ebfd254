/*
 * base/io.h - file descriptors: whole transfers, durable replacement.
 *
 * Errors: ERR_IO / ERR_NO_SPACE with errno in e->os; the sentence names the
 * object the caller passes as `what`.
 * Threads: no state.
 */
#ifndef BASE_IO_H
#define BASE_IO_H

#include "base/err.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;

/* All bytes or an error; EINTR is retried. */
MUST_CHECK int io_write_all(int fd, const void *data, size_t size,
    const char *what, struct err *e);
MUST_CHECK int io_pwrite_all(int fd, const void *data, size_t size,
    uint64_t offset, const char *what, struct err *e);
/* Fails with ERR_CORRUPT when the file ends before `size` bytes. */
MUST_CHECK int io_pread_all(int fd, void *data, size_t size,
    uint64_t offset, const char *what, struct err *e);

/*
 * Give the file `name` in directory `dir` this content, mode `mode`.  After a
 * crash it holds the old content or the new, never a mixture; after a return
 * of 0, the new.  The only place that calls rename on files of ours.
 */
MUST_CHECK int io_file_replace(int dir, const char *name, mode_t mode,
    const void *data, size_t size, struct err *e);

/* The whole file into `out` (empty, initialised; its max is the bound).
 * ERR_NOT_FOUND when there is none. */
MUST_CHECK int io_file_load(int dir, const char *name, struct buf *out,
    struct err *e);

/* mkdir -p, mode `mode` for each directory made. */
MUST_CHECK int io_mkdirs(const char *path, mode_t mode, struct err *e);

/* close() and set to -1; negative is fine. */
void io_close(int *fd);

#endif
