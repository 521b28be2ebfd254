/*
 * base/err.h - the one way a function in this project says it failed.
 *
 * A function that can fail returns 0 or -1 and takes a `struct err *` as its
 * last parameter.  On -1 the struct holds a code (what class of trouble, for
 * the program) and a sentence (what happened to which object, for a person).
 * On 0 the struct is untouched, so one struct serves a whole call chain.
 *
 * The callee never prints and never exits: only main() and the server's
 * session loop decide who reads the sentence.
 *
 * Memory: no allocation, so reporting "out of memory" cannot itself fail.
 * Threads: a struct err belongs to one thread.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdarg.h>

#define MUST_CHECK __attribute__((warn_unused_result))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))

/* name, number on the wire (never reused); a command that fails exits 2 */
#define ERR_CODES(X)                                                        \
	X(ERR_IO,        1)    /* the kernel refused or a disk failed */    \
	X(ERR_CORRUPT,   2)    /* bytes are not what was written */         \
	X(ERR_NOT_FOUND, 3)    /* no such snapshot, chunk, path */          \
	X(ERR_NO_SPACE,  4)    /* disk or quota full */                     \
	X(ERR_BUSY,      5)    /* another process holds the lock */         \
	X(ERR_PROTOCOL,  6)    /* the peer broke the protocol */            \
	X(ERR_LIMIT,     7)    /* a size or count above a stated limit */   \
	X(ERR_VERSION,   8)    /* sound, but made by a newer program */     \
	X(ERR_NO_MEMORY, 9)    /* malloc said no */                         \
	X(ERR_DENIED,   10)    /* not allowed: key, role, permission */     \
	X(ERR_UNAVAILABLE, 11) /* a member or a peer is away; not damage */ \
	X(ERR_CANCELLED, 12)   /* stopped on request */                     \
	X(ERR_EXISTS,   13)    /* it is already there */                    \
	X(ERR_CONFLICT, 14)    /* two truths: diverged, cloned, other root */ \
	X(ERR_USAGE,    15)    /* wrong words or options; exits 64 */       \
	X(ERR_TIMEOUT,  16)    /* no answer in the stated time */

enum err_code {
	ERR_NONE = 0,
#define X(name, wire) name = wire,
	ERR_CODES(X)
#undef X
};

struct err {
	enum err_code code;
	int os;			/* errno at the point of failure, or 0 */
	char text[480];		/* one sentence, no newline, UTF-8 */
};

/* Each of these fills *e and returns -1, so that a caller can return it. */
int err_set(struct err *e, enum err_code code, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
int err_os(struct err *e, int os, const char *fmt, ...) PRINTF_LIKE(3, 4);

/* Put "context: " before the sentence; code and os stay.  Returns -1. */
int err_add(struct err *e, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* The wire number of a code (0 for ERR_NONE), and back (ERR_PROTOCOL for a
 * number that this program does not know).  The name is as in the table. */
int err_wire(enum err_code code);
enum err_code err_from_wire(int wire);
const char *err_name(enum err_code code);

#endif
