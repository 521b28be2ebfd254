/*
 * store/store.h - clients' snapshots, kept in frames on an array.
 *
 *      store_create                                  (once, on a new array)
 *      store_open --> sessions, fetches, jobs --> store_close
 *
 * What is true (design.md 4 and 6):
 *   S1  A snapshot is listed only when its record is durable, and then every
 *       object below its root is durable and known good.
 *   S2  A page is accepted only when every id it names is present and complete
 *       for the session's domain; so a commit needs no walk.
 *   S3  What a domain can see, `have`, fetch or build on is what the domain
 *       itself owns; a foreign object answers exactly like none.
 *   S4  What a running session was told it may rely on is not collected.
 *   S5  The index is a cache: it can be lost, old or of another array.
 *
 * Units: bytes; times are seconds since 1970 unless named _ns.
 * Errors: as in base/err.h; ERR_NOT_FOUND for snapshots and clients,
 *   ERR_NO_SPACE, ERR_DENIED (role, min age), ERR_BUSY, ERR_CORRUPT.
 * Threads: everything from any thread; a session belongs to one thread at a
 *   time.  No lock is held over disk I/O except the committer's own turn.
 */
#ifndef STORE_STORE_H
#define STORE_STORE_H

#include "base/err.h"
#include "proto/fmt_id.h"
#include "proto/fmt_snapshot.h"
#include "raid/array.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;
struct warn_sink;

/* ---- life ------------------------------------------------------------- */

/* Gives a new array its seeds and its host key text (OpenSSH private key, kept
 * as a fact); the array stays the caller's. */
MUST_CHECK int store_create(struct array *a, const char *host_key_text,
    struct err *e);

struct store_open {
	struct array *array;	/* stays the caller's, must outlive the store */
	const char *index_dir;	/* made if missing; holds the LMDB files */
	bool read_only;
	unsigned flush_s;	/* group flush at the latest after, 0 = 15 */
	uint64_t flush_bytes;	/* ... or after so many bytes, 0 = 64 MiB */
	struct warn_sink *warn;	/* or NULL */
	/* Progress of an index rebuild at open; may be NULL. */
	void (*rebuild)(void *arg, uint64_t done, uint64_t total);
	void *arg;
};
/* Brings the index to the array's position, or rebuilds it. */
MUST_CHECK int store_open(struct store **out, const struct store_open *o,
    struct err *e);
/* A last flush, index synced, committer ended.  NULL is fine. */
int store_close(struct store *s, struct err *e);
/* Like a crash: nothing more is written. */
void store_abandon(struct store *s);

/* malloc'd text; wipe and free. */
MUST_CHECK int store_host_key(struct store *s, char **text, struct err *e);
const uint8_t *store_cut_seed(const struct store *s);	/* 32 bytes */
/* Expected bytes of index for an array that can hold `capacity`. */
uint64_t store_index_estimate(uint64_t capacity);

/* ---- clients ---------------------------------------------------------- */

#define CLIENT_NAME_MAX 64	/* [A-Za-z0-9._-], not beginning with '.' */
#define CLIENT_KEYS_MAX 16
#define CLIENT_KEY_TEXT_MAX 1024

enum { ROLE_PUSH = 1, ROLE_RESTORE = 2 };

struct retention {		/* 0 = rule not set; all 0 = keep all */
	uint32_t last, hourly, daily, weekly, monthly, yearly;
	uint64_t within_s;
	uint64_t min_age_s;
};

struct client_record {
	char name[CLIENT_NAME_MAX + 1];
	uint8_t role;			/* ROLE_* */
	bool paused;
	uint32_t domain;		/* number; by default its own */
	char domain_name[CLIENT_NAME_MAX + 1];	/* "" = its own */
	uint64_t quota;			/* bytes, 0 = none */
	struct retention keep;
	int64_t added_s, last_seen_s;
	uint32_t key_count;
	char keys[CLIENT_KEYS_MAX][CLIENT_KEY_TEXT_MAX];  /* "type base64" */
};

/* Durable when they return.  add: ERR_EXISTS (name, or a key that belongs to
 * another client); domain by domain_name. */
MUST_CHECK int store_client_add(struct store *s, struct client_record *c,
    struct err *e);
/* Replaces the record of that name. */
MUST_CHECK int store_client_set(struct store *s,
    const struct client_record *c, struct err *e);
MUST_CHECK int store_client_get(struct store *s, const char *name,
    struct client_record *out, struct err *e);
/* By name order; `each` returns non-zero to stop. */
int store_client_each(struct store *s,
    int (*each)(void *arg, const struct client_record *c), void *arg);
/* ERR_EXISTS while snapshots are there, unless `purge` (min age honoured). */
MUST_CHECK int store_client_remove(struct store *s, const char *name,
    bool purge, struct err *e);
/* The client that owns this public key, in constant time over all keys. */
bool store_client_by_key(struct store *s, const char *canonical,
    char name[static CLIENT_NAME_MAX + 1]);
/* Mark as seen now; not durable by itself. */
void store_client_seen(struct store *s, const char *name);

/* ---- sessions --------------------------------------------------------- */

struct store_session;

/* ERR_NOT_FOUND, ERR_BUSY (the index is being built).  Role and pause are the
 * caller's to ask: they bind a client, not who restores at the server. */
MUST_CHECK int store_session_open(struct store_session **out,
    struct store *s, const char *client, struct err *e);
void store_session_close(struct store_session *ss);	/* NULL is fine */
const struct client_record *store_session_client(
    const struct store_session *ss);
/* What the client's cache is valid for: changes when the domain's view of the
 * store was rebuilt or cut down. */
void store_session_domain_token(struct store_session *ss,
    uint8_t out[static 16]);
uint32_t store_session_snapshots(struct store_session *ss);

/*
 * Begin a push.  A committed snapshot of this id sets *committed and fills
 * *record.  ERR_BUSY while another session of the client pushes and was alive
 * within 10 s (see store_session_alive); a dead one is broken off.
 */
MUST_CHECK int store_session_begin(struct store_session *ss,
    const uint8_t snapshot[static SNAPSHOT_ID_SIZE], bool *committed,
    struct snapshot_record *record, struct err *e);
/* The peer was heard: keeps this session from being superseded. */
void store_session_alive(struct store_session *ss);

/* One bit per id, least significant first: present and complete for the
 * domain.  Those are pinned. */
MUST_CHECK int store_session_have(struct store_session *ss,
    const struct id *ids, size_t count, uint8_t *bitmap, struct err *e);

/*
 * Take frame `number`.  0: accepted (everything in it is stored or was).
 * 1: a page names what is not there: missing[0..*missing_count) (at most
 * PROTO_MISSING_MAX) tells; nothing of the frame was stored.  -1: error.
 * Waits when too much is unflushed.
 */
MUST_CHECK int store_session_frame(struct store_session *ss, uint32_t number,
    const void *frame, size_t size, struct id *missing, size_t missing_max,
    size_t *missing_count, struct err *e);
/* Ask for a flush soon (SYNC). */
void store_session_sync(struct store_session *ss);
/* Highest frame number such that it and all before it are durable.  -1 with
 * the reason when the session was broken off by a failed flush. */
MUST_CHECK int store_session_durable(struct store_session *ss,
    uint32_t *number, struct err *e);

struct store_commit {
	uint8_t snapshot[SNAPSHOT_ID_SIZE];
	struct id root, facts;
	int64_t client_ns;
	int32_t zone_s;
	uint8_t flags;
	uint64_t files, bytes, new_bytes;
};
/*
 * Flush, then make the snapshot durable and listed.  0 and *record; 1 with
 * missing ids as above (root or facts not complete); -1.  Idempotent for the
 * same id and root; another root is ERR_CONFLICT.
 */
MUST_CHECK int store_session_commit(struct store_session *ss,
    const struct store_commit *c, struct snapshot_record *record,
    struct id *missing, size_t missing_max, size_t *missing_count,
    struct err *e);
void store_session_abort(struct store_session *ss);

/* ---- snapshots and fetches -------------------------------------------- */

/* Of one client (or all when NULL), in commit order. */
int store_snapshot_each(struct store *s, const char *client,
    int (*each)(void *arg, const char *client,
    const struct snapshot_record *r), void *arg);
/* ERR_NOT_FOUND, ERR_DENIED (younger than min age). */
MUST_CHECK int store_forget(struct store *s, const char *client,
    const uint8_t snapshot[static SNAPSHOT_ID_SIZE], struct err *e);

/*
 * Give the objects of these ids, in order, as frames (stored frames as they
 * are where everything in them belongs to the domain, else regrouped).  One
 * frame may answer several neighbouring ids.  What cannot be given is told to
 * `lost` with a code: ERR_NOT_FOUND, ERR_CORRUPT, ERR_UNAVAILABLE.  A callback
 * that fails ends the call.
 */
struct fetch_ops {
	int (*frame)(void *arg, const void *frame, size_t size, struct err *e);
	int (*lost)(void *arg, const struct id *id, const struct err *why,
	    struct err *e);
	void *arg;
};
MUST_CHECK int store_fetch(struct store_session *ss, const struct id *ids,
    size_t count, const struct fetch_ops *ops, struct err *e);

/* ---- jobs ------------------------------------------------------------- */

struct verify_options {
	bool heal;
	bool all;		/* else oldest first within the budget */
	uint64_t budget_s;
	uint64_t max_age_s;
};
struct verify_report {
	struct scan_report strips;
	uint64_t segments, frames, objects, bytes;
	uint64_t damaged_objects;	/* not healed: quarantined */
	uint64_t snapshots_hit;
	uint64_t unverified_beyond_age;	/* segments */
	bool finished;
};
struct verify_ops {
	/* One line each, in words, for people and logs. */
	void (*line)(void *arg, const char *text);
	/* A path of a snapshot that is lost or damaged. */
	void (*hit)(void *arg, const char *client,
	    const struct snapshot_record *r, const void *path, size_t size);
	struct scan_ops strips;
	void *arg;
};
MUST_CHECK int store_verify(struct store *s, const struct verify_options *o,
    const struct verify_ops *ops, struct verify_report *report,
    struct job_ctl *ctl, struct err *e);

struct prune_report {
	uint64_t snapshots_kept, snapshots_gone;
	uint64_t objects_live, objects_dead, segments_freed, segments_rewritten;
	uint64_t bytes_freed, bytes_moved;
};
struct prune_ops {
	/* Each snapshot with its reason to stay ("last 1", "keep all") or
	 * go. */
	void (*snapshot)(void *arg, const char *client,
	    const struct snapshot_record *r, bool keep, const char *reason);
	void *arg;
};
/* Applies retention (`client` or NULL = all), then collects and waits. */
MUST_CHECK int store_prune(struct store *s, const char *client, bool dry_run,
    const struct prune_ops *ops, struct prune_report *report,
    struct job_ctl *ctl, struct err *e);

/*
 * Give redundancy back where only new segments can (array_wants_rewrite): their
 * live frames are written anew on the members of today, least redundant first,
 * and they are freed.  Ends with what is left when space gets short
 * (ERR_NO_SPACE); other errors as store_prune().
 */
MUST_CHECK int store_mend(struct store *s, struct prune_report *report,
    struct job_ctl *ctl, struct err *e);

/* Drop the index and build it again from the tables of contents. */
MUST_CHECK int store_rebuild_index(struct store *s, struct err *e);

/* Has a flush failed, so that nothing is written any more?  Then *why.  Only
 * opening the store again helps. */
bool store_failed(struct store *s, struct err *why);

struct store_info {
	uint64_t objects, index_bytes, overlay_entries;
	uint64_t snapshots, clients, quarantined;
	int64_t last_verify_s;
	unsigned sessions;
};
void store_info(struct store *s, struct store_info *out);

#endif
