/*
 * raid/cut.h - a cut, between raid/cut.c (which makes it) and raid/flush.c
 * (which makes it durable).
 *
 * Threads: one at a time; it holds commit (raid/array_impl.h).
 */
#ifndef RAID_CUT_H
#define RAID_CUT_H

#include "raid/segment.h"

struct fact;

struct cut_item {		/* one open segment */
	struct open_seg *os;
	bool took;		/* frames in this flush */
	bool seal;		/* no frames after it */
	bool tabled;
	uint32_t plan_row;	/* of the last stripe of this flush */
	uint8_t plan_units;	/* its strip length; 0 = no bytes yet */
	/* since array_cut_end: */
	uint32_t rows;
	uint64_t used_bytes, frame_bytes;
	struct place table;
	struct seg_state next;	/* what the log will say */
	bool write;		/* it has something to say */
	bool wrote;		/* rows of this flush are in it */
};

struct cut_fact {
	struct fact *fact;	/* owned; the value is empty for a deletion */
	bool delete;
};

struct array_cut {
	struct array *a;
	uint64_t flush;		/* the number it will have */
	uint64_t no;		/* array.cut_no of its stripes */
	bool ended;
	bool seal_all;
	struct cut_item *items;
	size_t item_count;
	struct cut_fact *facts;
	size_t fact_count, fact_cap;
	uint64_t *frees;
	size_t free_count, free_cap;
};

/* Frees the memory; the array's locks are not touched. */
void array_cut_drop(struct array_cut *c);

#endif
