/*
 * proto/msg.h - every message of the protocol, in one table.
 *
 * Framing is base/wire.h: length, type, request number, body; little-endian.
 * Bulk data flows one way at a time, small answers the other.  Types below
 * 0x80 come from the client, the others from the server.  Legality is the
 * table's business (state, size), not the handlers'.  docs/protocol.md has the
 * same table and a test compares them.
 *
 *  client                           server
 *   HELLO  (versions)        -->     WELCOME | ERROR
 *   BEGIN  (snapshot id)     -->     BEGUN | ERROR
 *   HAVE   (ids)             -->     HAVE_IS (bitmap)   any number, pipelined
 *   FRAME  (a frame)         -->     MISSING (ids) only when a page is refused;
 *                                    ACK (cumulative) after each group flush
 *   SYNC                     -->     ACK for everything before it
 *   COMMIT (root, counts)    -->     COMMITTED (record) | MISSING (ids) | ERROR
 *   ABORT                    -->     (nothing)
 *   SNAPSHOTS                -->     SNAPSHOT ..., END
 *   FETCH  (ids)             -->     OBJECTS (frame) ..., FETCHED (lost ids)
 *
 * `request` of FRAME is its number in the push, from 1 up by one; COMMIT has
 * request 0, so that its MISSING is not taken for that of a frame; of answers
 * it is the request they answer (0 if none).  ACK's body: le32 highest durable
 * frame number; END's: le32 count of SNAPSHOTs before it.
 */
#ifndef PROTO_MSG_H
#define PROTO_MSG_H

#include "base/err.h"
#include "proto/fmt_id.h"
#include "proto/fmt_snapshot.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

#define PROTO_VERSION 1
#define PROTO_HAVE_MAX 2048		/* ids in a HAVE */
#define PROTO_FETCH_MAX 1024		/* ids in a FETCH */
#define PROTO_MISSING_MAX 2048		/* ids in a MISSING */

/* Session states, bits. */
enum { PS_HELLO = 1, PS_READY = 2, PS_PUSH = 4, PS_CLOSED = 8 };

/* name, number, from server, states, body min, body max */
#define PROTO_MESSAGES(X) \
	X(HELLO,     0x01, 0, PS_HELLO, 17, 256) \
	X(BYE,       0x02, 0, PS_READY | PS_PUSH, 0, 0) \
	X(BEGIN,     0x10, 0, PS_READY, 28, 28) \
	X(HAVE,      0x11, 0, PS_PUSH, 32, 32 * PROTO_HAVE_MAX) \
	X(FRAME,     0x12, 0, PS_PUSH, 96, 0x130000) \
	X(SYNC,      0x13, 0, PS_PUSH, 0, 0) \
	X(COMMIT,    0x14, 0, PS_PUSH, 128, 128) \
	X(ABORT,     0x15, 0, PS_PUSH, 0, 0) \
	X(SNAPSHOTS, 0x20, 0, PS_READY, 0, 0) \
	X(FETCH,     0x21, 0, PS_READY, 32, 32 * PROTO_FETCH_MAX) \
	X(WELCOME,   0x81, 1, PS_HELLO, 96, 256) \
	X(ERROR,     0x82, 1, PS_HELLO | PS_READY | PS_PUSH, 4, 1024) \
	X(BEGUN,     0x90, 1, PS_READY, 4, 260) \
	X(HAVE_IS,   0x91, 1, PS_PUSH, 1, PROTO_HAVE_MAX / 8) \
	X(ACK,       0x92, 1, PS_PUSH, 4, 4) \
	X(MISSING,   0x93, 1, PS_PUSH, 32, 32 * PROTO_MISSING_MAX) \
	X(COMMITTED, 0x94, 1, PS_PUSH, 160, 256) \
	X(SNAPSHOT,  0xa0, 1, PS_READY, 160, 256) \
	X(END,       0xa1, 1, PS_READY, 4, 4) \
	X(OBJECTS,   0xa2, 1, PS_READY, 96, 0x130000) \
	X(FETCHED,   0xa3, 1, PS_READY, 4, 4 + 33 * PROTO_FETCH_MAX)

enum msg_type {
#define X(name, number, server, states, min, max) MSG_##name = number,
	PROTO_MESSAGES(X)
#undef X
};

struct msg_rule {
	uint8_t type;
	bool from_server;
	unsigned states;
	uint32_t size_min, size_max;
	const char *name;
};
/* NULL when unknown. */
const struct msg_rule *msg_rule_find(uint8_t type);
/* ERR_PROTOCOL unless this message may come from that side in that state. */
MUST_CHECK int msg_allowed(uint8_t type, bool from_server, unsigned state,
    uint32_t size, struct err *e);

/* ---- bodies: put into a buf / get from bytes --------------------------- */

struct msg_hello {
	uint32_t version_min, version_max;
	uint64_t capabilities;	/* none yet: 0; unknown bits are ignored */
	char program[64];
};
struct msg_welcome {
	uint32_t version;
	uint32_t keyspace;
	uint64_t capabilities;
	uint8_t store[16];	/* array uuid */
	uint8_t domain[16];	/* what a client's cache is valid for */
	uint8_t cut_seed[32];	/* of the store, keys the chunker */
	int64_t server_s;
	uint32_t snapshots;	/* of this domain; 0: `have` has none */
	uint8_t role;		/* bit 0 push, bit 1 restore */
	char program[64];
};
struct msg_begin {
	uint8_t snapshot[SNAPSHOT_ID_SIZE];
	int64_t client_ns;
	uint32_t flags;		/* 0 */
};
struct msg_begun {
	bool committed;		/* this id is committed: record follows */
	struct snapshot_record record;
};
struct msg_commit {
	struct id root, facts;
	int64_t client_ns;
	int32_t zone_s;
	uint32_t flags;		/* SNAPSHOT_* */
	uint64_t files, bytes, new_bytes, frames;
	/* 128 bytes with 16 reserved at the end */
};
struct msg_error {
	enum err_code code;
	bool fatal;		/* the session ends */
	char text[480];
};
struct msg_fetched {
	uint32_t count;		/* objects that could not be given */
	const uint8_t *items;	/* count x (u8 err wire number, id) */
};

void msg_hello_put(struct buf *b, const struct msg_hello *m);
void msg_welcome_put(struct buf *b, const struct msg_welcome *m);
void msg_begin_put(struct buf *b, const struct msg_begin *m);
void msg_begun_put(struct buf *b, const struct msg_begun *m);
void msg_commit_put(struct buf *b, const struct msg_commit *m);
void msg_error_put(struct buf *b, const struct msg_error *m);

MUST_CHECK int msg_hello_get(struct msg_hello *m, const void *body,
    size_t size, struct err *e);
MUST_CHECK int msg_welcome_get(struct msg_welcome *m, const void *body,
    size_t size, struct err *e);
MUST_CHECK int msg_begin_get(struct msg_begin *m, const void *body,
    size_t size, struct err *e);
MUST_CHECK int msg_begun_get(struct msg_begun *m, const void *body,
    size_t size, struct err *e);
MUST_CHECK int msg_commit_get(struct msg_commit *m, const void *body,
    size_t size, struct err *e);
MUST_CHECK int msg_error_get(struct msg_error *m, const void *body,
    size_t size, struct err *e);
MUST_CHECK int msg_fetched_get(struct msg_fetched *m, const void *body,
    size_t size, struct err *e);

#endif
