/*
 * raid/stripe_io.h - whole stripes to and from the members, and the judgement
 * of each strip.
 *
 * Strip number i (0..k-1 data, k..w-1 parity) lies in slot (i + id) mod w of
 * its segment, so parity is spread over the members from segment to segment
 * [format].
 *
 * A strip is good if its header is sound, tells this very place (array,
 * member, extent, row) and content (segment, nonce, strip, geometry), and its
 * payload has the checksum that the *stripe's* headers agree on: a wrong strip
 * cannot vouch for itself.
 *
 * Threads: an image belongs to one thread; the segment is held or leased.
 */
#ifndef RAID_STRIPE_IO_H
#define RAID_STRIPE_IO_H

#include "raid/array_impl.h"

struct stripe;

enum strip_is {
	STRIP_GOOD = 0,
	STRIP_AWAY,		/* its member is not there */
	STRIP_ABSENT,		/* never written (the reduced set) */
	STRIP_UNREADABLE,	/* the device reports an error */
	STRIP_BAD_HEADER,
	STRIP_STALE,		/* of an older segment in this place */
	STRIP_MISDIRECTED,	/* of another place */
	STRIP_BAD_PAYLOAD,
};
/* As in struct scan_ops. */
const char *strip_is_name(enum strip_is is);
/* Damage of a strip whose member is there. */
bool strip_is_bad(enum strip_is is);

struct stripe_img {
	struct seg_state g;
	uint32_t row;
	uint8_t units;
	struct iobuf *buf;	/* strip i at base + i * stride, header first */
	size_t base, stride;
	enum strip_is is[SEG_WIDTH_MAX];	/* by strip number */
	bool read[SEG_WIDTH_MAX];	/* its bytes are in buf */
	bool sound[SEG_WIDTH_MAX];	/* payload proven (header may be bad) */
	bool headed;		/* head is what the headers agree on */
	struct strip_header head;
};

static inline unsigned strip_slot(const struct seg_state *g, unsigned strip)
{
	return (unsigned)((strip + g->id) % g->width);
}

static inline unsigned seg_k(const struct seg_state *g)
{
	return (unsigned)g->width - g->parity;
}

/* Where row `row` of a slot lies on its member. */
uint64_t strip_offset(const struct array *a, const struct seg_state *g,
    unsigned slot, uint32_t row);
/* Can this slot's member be read now?  FAILED ones only as a last resort.
 * Takes the state lock. */
bool strip_readable(struct array *a, const struct seg_state *g,
    unsigned slot, bool last_resort);

/*
 * Checksums, parity, headers, and the writes of all strips beside each other.
 * missing[slot] tells which did not get there.  Members that fail are set
 * aside.
 */
void stripe_write(struct array *a, const struct seg_state *g,
    struct stripe *s, bool missing[static SEG_WIDTH_MAX]);

/* Room for a stripe of this geometry; ERR_NO_MEMORY.  Or make one by hand over
 * a buffer that holds more than it (raid/scan.c). */
MUST_CHECK int stripe_img_init(struct stripe_img *img,
    const struct seg_state *g, uint32_t row, uint8_t units, struct err *e);
void stripe_img_release(struct stripe_img *img);
/* Read every strip, uncached, and judge it.  Only lack of memory fails. */
void stripe_img_load(struct array *a, struct stripe_img *img,
    bool last_resort);
/* Judge what is in buf already (is[] tells AWAY, ABSENT, UNREADABLE). */
void stripe_img_judge(struct array *a, struct stripe_img *img);
/*
 * Compute all payloads that are not proven, from those that are; each must
 * match the checksum of the stripe.  On 0 all payloads in buf are right.
 * ERR_UNAVAILABLE: enough would be there with the members that are away;
 * ERR_CORRUPT otherwise.
 */
MUST_CHECK int stripe_img_rebuild(struct array *a, struct stripe_img *img,
    struct err *e);
/* Payload of strip i; its header is STRIP_HEADER_SIZE before. */
uint8_t *stripe_img_strip(const struct stripe_img *img, unsigned strip);
/* The stripe's payload in order, `fill` bytes of it, into out. */
void stripe_img_copy(const struct stripe_img *img, uint8_t *out,
    size_t offset, size_t size);

/* The kind of one header as read from strip `strip` of this stripe; *h is
 * filled when it is sound.  units 0: any length. */
enum strip_is strip_judge(struct array *a, const struct seg_state *g,
    uint32_t row, uint8_t units, unsigned strip, const uint8_t *raw,
    struct strip_header *h);

/*
 * The headers at `row` of all slots: the strip length there, from any that is
 * right.  ERR_CORRUPT when none is; ERR_UNAVAILABLE when members are away.
 */
MUST_CHECK int stripe_find(struct array *a, const struct seg_state *g,
    uint32_t row, struct strip_header *out, struct err *e);

/* A header for strip `strip` of the stripe that img->head describes, as it
 * lies on `member` at `extent`. */
void strip_header_make(struct array *a, const struct stripe_img *img,
    unsigned strip, unsigned member, uint32_t extent,
    uint8_t out[static STRIP_HEADER_SIZE]);

/* Note a failed device call at the member's counters.  Takes no lock. */
void member_count_error(struct member *m, enum mio_op op,
    const struct err *e);
/* And a strip that was found bad. */
void member_count_bad(struct member *m, enum strip_is is);

#endif
