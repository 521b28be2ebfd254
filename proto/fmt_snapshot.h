/*
 * proto/fmt_snapshot.h - the record of one snapshot, and its facts.
 *
 * The record is log state (at most SNAPSHOT_RECORD_MAX bytes); paths, tags and
 * host are an object of type OBJECT_FACTS.  [format]
 *
 *   record: 0 version 1 | 1 flags 1 | 2 reserved 2 | 4 keyspace 4 | 8 id 16 |
 *     24 root id 32 | 56 facts id 32 | 88 client time ns 8 (signed) |
 *     96 commit time s 8 (server, signed) | 104 commit order 8 |
 *     112 zone offset of the client s 4 (signed) | 116 reserved 4 |
 *     120 files 8 | 128 bytes 8 | 136 new bytes 8 (sent, plain) |
 *     144 stored bytes 8 | 152 proven s 8 (last drill, 0 = never) | 160 end;
 *     what follows up to SNAPSHOT_RECORD_MAX may be ignored
 *   facts: 0 magic 2 "bS" | 2 version 1 | then fields u8 tag | le16 size |
 *     bytes:
 *     1 path (repeated, absolute) | 2 tag (repeated) | 3 host | 4 user |
 *     5 program version
 *   Values are 1 .. 65535 bytes without NUL; 3 to 5 stand at most once; tags
 *   from 128 up must be known, others may be skipped.
 */
#ifndef PROTO_FMT_SNAPSHOT_H
#define PROTO_FMT_SNAPSHOT_H

#include "base/err.h"
#include "proto/fmt_id.h"
#include "proto/fmt_tree.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

#define SNAPSHOT_ID_SIZE 16
#define SNAPSHOT_RECORD_SIZE 160
#define SNAPSHOT_RECORD_MAX 256
#define FACTS_MAX (64u << 10)
/* Of one client: an hourly one for 14 years.  Both ends list them in memory,
 * and the server keeps them in its log. */
#define SNAPSHOTS_CLIENT_MAX 131072u

enum {
	SNAPSHOT_CHANGED = 1,	/* some file changed while it was read */
	SNAPSHOT_PARTIAL = 2,	/* something could not be read */
	SNAPSHOT_FUTURE = 4,	/* client clock more than 1 h off */
	SNAPSHOT_REDUCED = 8,	/* written with less redundancy; see status */
};

struct snapshot_record {
	uint8_t id[SNAPSHOT_ID_SIZE];
	uint8_t flags;
	uint32_t keyspace;
	struct id root, facts;
	int64_t client_ns;
	int64_t commit_s;
	uint64_t order;		/* ascending with commits of the store */
	int32_t zone_s;
	uint64_t files, bytes, new_bytes, stored_bytes;
	int64_t proven_s;
};

void snapshot_record_put(uint8_t out[static SNAPSHOT_RECORD_SIZE],
    const struct snapshot_record *r);
MUST_CHECK int snapshot_record_get(struct snapshot_record *r,
    const void *data, size_t size, struct err *e);

enum { FACT_PATH = 1, FACT_TAG = 2, FACT_HOST = 3, FACT_USER = 4,
	FACT_PROGRAM = 5 };
/* Empties `out` and writes the head. */
void facts_begin(struct buf *out);
/* A value of 0 or more than 65535 bytes makes `out` bad: ask buf_ok(). */
void facts_add(struct buf *out, unsigned tag, const void *data, size_t size);
MUST_CHECK int facts_check(const void *data, size_t size, struct err *e);
/* Walk checked facts: *pos from 0; false at the end. */
bool facts_next(const void *data, size_t size, size_t *pos, unsigned *tag,
    struct slice *value);

#endif
