/*
 * raid/mio.h - device calls that run beside each other and end in time.
 *
 * Each member has two threads: one for writes and flushes (in the order given)
 * and one for reads.  A request that does not end within the limit is given up
 * by its caller (ERR_TIMEOUT) while the stuck thread keeps its reference to
 * the buffer: so buffers are counted, and a device call that never returns
 * delays nobody twice.  Further requests to a stuck lane fail at once.
 *
 * Units: bytes, all multiples of RAID_ROW, except `limit_ms`.
 * Threads: everything from any thread.
 */
#ifndef RAID_MIO_H
#define RAID_MIO_H

#include "base/err.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dev;
struct mio;

/* Aligned to RAID_ROW, counted.  data is zeroed when new. */
struct iobuf {
	uint8_t *data;
	size_t size;
	atomic_uint refs;
};
struct iobuf *iobuf_new(size_t size);		/* refs = 1; NULL: no memory */
struct iobuf *iobuf_ref(struct iobuf *b);
void iobuf_unref(struct iobuf *b);		/* NULL is fine */

enum mio_op { MIO_READ, MIO_WRITE, MIO_FLUSH };

struct mio_req {
	/* the caller's */
	struct mio *mio;
	enum mio_op op;
	bool uncached;		/* reads */
	struct iobuf *buf;	/* the request takes a reference of its own */
	size_t buf_offset, size;
	uint64_t offset;	/* on the device */
	/* Give up earlier than the member's limit, which then says nothing
	 * about the member; 0 = not. */
	uint64_t wait_ms;
	/* filled in */
	int rc;			/* 0 or -1 */
	struct err e;		/* when -1 */
	uint64_t took_ms;
};

/* Takes `dev` over, also on failure.  limit_ms 0 = 30 000. */
MUST_CHECK int mio_new(struct mio **out, struct dev *dev, uint64_t limit_ms,
    struct err *e);
/* Waits for the threads; one that is stuck is left behind with what it holds
 * (the device is then not closed).  Closes the device otherwise. */
void mio_free(struct mio *m);
struct dev *mio_dev(struct mio *m);

/* Run them all, different members beside each other; returns when each is
 * done or given up.  Each request tells its own result. */
void mio_run(struct mio_req *reqs, size_t count);

/* One request, for where there is nothing to do beside it. */
MUST_CHECK int mio_read(struct mio *m, void *out, size_t size,
    uint64_t offset, bool uncached, struct err *e);
MUST_CHECK int mio_write(struct mio *m, const void *data, size_t size,
    uint64_t offset, struct err *e);
MUST_CHECK int mio_flush(struct mio *m, struct err *e);

/*
 * Before a write, when nothing has been told by mio_guard_seen() for `age_ms`,
 * the block at `offset` is read on the writing thread and judged: if it is not
 * right, the write fails with what judge() says, undone.  A block that cannot
 * be read is no reason.  While it was never seen to be right, a wrong one is
 * trouble of this member alone (ERR_IO).  judge() must depend on its arguments
 * alone (a call that hangs outlives us).
 */
struct mio_guard {
	uint64_t offset, age_ms;
	uint8_t key[32];	/* for judge() */
	int (*judge)(const uint8_t *block, const uint8_t *key, struct err *e);
};
/* Once for each member; later calls do nothing. */
MUST_CHECK int mio_guard_set(struct mio *m, const struct mio_guard *g,
    struct err *e);
/* It was right at this moment (clock_boot_ms). */
void mio_guard_seen(struct mio *m, uint64_t boot_ms);

/* True while a lane of this member is stuck in a call given up. */
bool mio_stuck(struct mio *m);
/* Slowest call so far. */
uint64_t mio_slow_ms(struct mio *m);

#endif
