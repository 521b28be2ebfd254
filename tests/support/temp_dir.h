/*
 * tests/support/temp_dir.h - directories of a test, below $TMPDIR or /tmp.
 *
 * Errors: the test program aborts.  Threads: no state.
 */
#ifndef TESTS_SUPPORT_TEMP_DIR_H
#define TESTS_SUPPORT_TEMP_DIR_H

#include <stdbool.h>

/* A new directory; free() the path. */
char *temp_dir_new(void);
/* Removes it with all that is in it; what is not there is fine. */
void temp_dir_remove(const char *path);
/* Makes `to` with copies of the regular files of `from` (no directories); zeros
 * become holes.  Locks of LMDB ("lock.mdb") are left out. */
void temp_dir_copy(const char *from, const char *to);

/* Do the files that temp_dir_copy() takes have the same bytes in both? */
bool temp_dir_same(const char *a, const char *b);

#endif
