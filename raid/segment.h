/*
 * raid/segment.h - open segments: frames into stripes, stripes to the members.
 *
 * An append copies into the stripe buffer of the open segment of its class.  A
 * full stripe is queued for the writer threads, which compute checksums and
 * parity and write all strips beside each other.  A cut closes the last stripe
 * of each segment, short; the next frame begins a new stripe.
 *
 *      open_seg:  (birth) --> frames --> cut --> frames --> cut, full --> gone
 *
 * Units: rows and strip lengths in 4 KiB (RAID_ROW), sizes in bytes.
 * Threads: array_impl.h.
 */
#ifndef RAID_SEGMENT_H
#define RAID_SEGMENT_H

#include "raid/array_impl.h"

/* The stride of strips in a stripe buffer: header and payload are written by
 * one device call. */
#define STRIP_STRIDE (STRIP_HEADER_SIZE + RAID_STRIP_MAX)

struct stripe {
	struct open_seg *os;
	struct iobuf *buf;
	size_t buf_size;
	uint32_t row;
	uint32_t fill;		/* payload bytes that are not padding */
	uint8_t units;		/* strip length; while filled the largest */
	uint64_t cut;		/* the cut it belongs to */
	struct stripe *next;	/* in the queue */
};

struct open_seg {
	struct seg *seg;
	struct stripe *stripe;	/* being filled; NULL before its first byte */
	uint32_t row;		/* of that stripe, or of the next */
	uint64_t used_bytes, frame_bytes;	/* with what is not durable */
	uint64_t room;		/* open_seg_room(), for those who only look */
	size_t reserved;	/* bytes kept for the table of the next cut */
	unsigned pending;	/* stripes queued or being written */
	bool busy;		/* an append is copying */
	bool took;		/* frames since the last cut */
	bool full;		/* takes no more; sealed by the next cut */
	bool redo;		/* its rows beyond the durable end are for
				 * nothing (raid/redo.c) */
	/* Strips that did not get to their member since the last durable
	 * record; ROW_NONE = all did. */
	uint32_t absent_from[SEG_WIDTH_MAX];
	struct open_seg *next;
};

/* Payload bytes of a stripe at `row`, if it is filled. */
size_t stripe_room(const struct open_seg *os, uint32_t row,
    const struct array *a);
/* Largest strip length there; 0 = the segment ends. */
uint8_t stripe_units_max(const struct array *a, uint32_t row);
/* Bytes that still fit into the segment.  For the thread that appends or cuts;
 * others read os->room, under the state lock. */
uint64_t open_seg_room(const struct array *a, const struct open_seg *os);
/* The shortest strip that holds `fill` bytes on k data strips. */
uint8_t stripe_units(size_t fill, unsigned k);

/*
 * Append bytes; they fit (checked by the caller).  *row and *offset are where
 * they begin.  `bounded`: wait while too many buffers are in use.
 */
MUST_CHECK int open_seg_add(struct array *a, struct open_seg *os,
    const void *data, size_t size, bool bounded, struct place *place,
    struct err *e);
/* Close the stripe being filled, if any, as the last of this cut. */
void open_seg_close_stripe(struct array *a, struct open_seg *os);

/* Take it out of every list, and free it: sealed and written, or empty. */
void open_seg_drop_locked(struct array *a, struct open_seg *os);
/* A segment goes on after a clean stop. */
MUST_CHECK int open_seg_continue(struct array *a, struct seg *s,
    struct err *e);
/* It takes no more frames.  With the state lock held. */
void open_seg_full_locked(struct array *a, struct open_seg *os);
/* It took nothing since the last flush, and nobody is copying into it. */
bool open_seg_idle_locked(const struct open_seg *os);

/* The threads that write stripes. */
MUST_CHECK int writers_start(struct array *a, struct err *e);
/* They write what is queued (or drop it, when the array is dead) and end. */
void writers_stop(struct array *a);

/* Drop all open segments and buffers (array_close, array_abandon). */
void segments_release(struct array *a);

#endif
