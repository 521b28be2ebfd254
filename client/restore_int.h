/*
 * client/restore_int.h - the inside of a restore.
 *
 *   restore.c        events -> what to do; selection; the stack of directories
 *   restore_dir.c    directories of the target, by descriptor
 *   restore_ahead.c  what may be fetched before its turn
 *   restore_file.c   regular files: compare, write, put in place
 *   restore_node.c   links, devices, FIFOs, sockets; putting in place
 *   restore_attr.c   attributes, in the one order that works
 *   link_table.c     link groups: where the first name is
 */
#ifndef CLIENT_RESTORE_INT_H
#define CLIENT_RESTORE_INT_H

#include "base/buf.h"
#include "base/err.h"
#include "client/attr.h"
#include "client/client.h"
#include "client/fetch.h"
#include "client/flow.h"
#include "client/link_table.h"
#include "client/match.h"
#include "client/names.h"
#include "client/restore.h"
#include "client/walk.h"
#include "client/walk_int.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Directories of the target that are kept open. */
#define RESTORE_OPEN_MAX 48
#define RESTORE_TEMP_SIZE 32	/* ".bk-" and 16 hex digits */

struct restore_dir {
	struct restore_dir *up;
	struct flow_dir *flow;		/* NULL for a target without entry */
	int fd;				/* -1: not open, see state */
	uint64_t dev, ino;
	bool there;			/* in the target: made or found */
	bool fresh;			/* made by this run, with all below */
	bool skip;			/* refused: nothing below either */
	bool ours;			/* gets the archived attributes */
	bool lazy;			/* made only when something goes in */
	bool inherits;			/* a default ACL reaches new items */
	bool incomplete;		/* a page was lost: delete nothing */
	uint32_t mode_before;		/* to be put back when not ours */
	bool mode_changed;
	struct walk_names *names;	/* --delete: what is there, sorted */
	size_t budget;
	char next_name[256];		/* of names, not yet passed */
	bool has_next;
};

struct restore_file {			/* the one being restored */
	enum { FILE_NONE, FILE_WRITE, FILE_COMPARE, FILE_LINK } what;
	int fd;				/* the temporary file, or -1 */
	int old;			/* the existing file, or -1 */
	char temp[RESTORE_TEMP_SIZE];
	bool replace;			/* something may be replaced */
	bool differs;			/* compare: found a difference */
	bool failed;			/* told already */
	uint64_t written;
};

struct restore {
	struct client *client;
	struct fetch *fetch;
	struct flow *flow;
	const struct restore_options *o;
	struct restore_result *result;
	const char *prefix;		/* of paths, in the snapshot */
	struct names *names;
	struct match *include, *exclude;
	struct restore_dir *top;	/* the deepest */
	unsigned open;
	struct link_table *links;
	struct restore_file file;
	bool root;			/* we may set owners */
	uint32_t umask_free;
	const struct flow_dir *ahead;	/* restore_ahead.c: last directory */
	int ahead_fd;			/* looked into, or -1 */
	struct buf path;		/* scratch: of the current item */
	uint8_t *bytes;			/* scratch: FRAME_PLAIN_MAX */
};

/* ---- telling ------------------------------------------------------------ */

/* The path of an item in the snapshot, in r->path until the next call. */
const struct buf *restore_path(struct restore *r, const struct flow_dir *dir,
    const struct slice *name);
void restore_warn(struct restore *r, const struct flow_dir *dir,
    const struct slice *name, const char *fmt, ...) PRINTF_LIKE(4, 5);

/* ---- directories (restore_dir.c) ---------------------------------------- */

/* The target itself, made if it is not there. */
MUST_CHECK int restore_dir_top(struct restore *r, struct err *e);
/* A directory begins; trouble with it makes it one to skip. */
MUST_CHECK int restore_dir_enter(struct restore *r, struct flow_dir *d,
    bool selected, struct err *e);
/* It ends: its attributes, and what --delete removes. */
void restore_dir_leave(struct restore *r);
/* The descriptor to work in, making the directory if it is lazy; -1 if that
 * failed (told). */
int restore_dir_fd(struct restore *r);
void restore_dir_free_all(struct restore *r);
/* --delete: names before this one (NULL: all) that the snapshot does not have
 * go. */
void restore_delete_until(struct restore *r, const struct slice *name);

/* ---- looking ahead (restore_ahead.c) ------------------------------------ */

enum { AHEAD_UNKNOWN, AHEAD_NEW, AHEAD_THERE };	/* flow_dir.mark */

/* Can nothing be at this name in the target?  A guess, long before its turn:
 * only what is fetched ahead depends on it. */
bool restore_is_new(struct restore *r, struct flow_dir *dir,
    const struct slice *name);

/* ---- items -------------------------------------------------------------- */

void restore_file_begin(struct restore *r, const struct flow_event *ev);
MUST_CHECK int restore_file_chunk(struct restore *r,
    const struct flow_event *ev, struct err *e);
void restore_file_hole(struct restore *r, const struct flow_event *ev);
MUST_CHECK int restore_file_end(struct restore *r,
    const struct flow_event *ev, struct err *e);
/* Whatever is half done goes. */
void restore_file_abandon(struct restore *r);
/* Anything that is neither a regular file nor a directory. */
MUST_CHECK int restore_node(struct restore *r, const struct flow_event *ev,
    struct err *e);

/* restore_node.c: what is at a name. */
enum there { THERE_NOTHING, THERE_SOMETHING, THERE_ERROR };
enum there restore_look(struct restore *r, int dir, const char *name,
    struct attr *a);
/* May what is there (of another kind or content) be replaced? */
bool restore_may_replace(const struct restore *r, const struct attr *there,
    const struct tree_entry *entry);
/* Random name for a temporary file; terminated. */
void restore_temp_name(char out[static RESTORE_TEMP_SIZE]);
/* Give `temp` its final name; false if that failed (told). */
bool restore_place(struct restore *r, int dir, const char *temp,
    const struct flow_event *ev, bool replace);
/* The entry's name as a terminated string; false when it is not one name. */
bool restore_name(struct restore *r, const struct flow_dir *dir,
    const struct slice *name, char out[static 256]);
/* A later name of a group: 1 = linked or kept, 0 = do it yourself, -1 = told
 * and counted.  `equal`: what is there is known to be equal, and may go. */
int restore_link_to_first(struct restore *r, const struct flow_event *ev,
    int dir, const char *name, bool equal);
void restore_link_first(struct restore *r, const struct flow_event *ev);
/* Remove a name and all below it, one file system only; false if some of it
 * stayed. */
bool restore_remove(int dir, const char *name);

/* ---- attributes (restore_attr.c) ---------------------------------------- */

struct restore_subject {
	int fd;			/* of the inode, or -1 (links, nodes) */
	int dir;		/* with name, when fd is -1 */
	const char *name;
	bool clean;		/* it may have what it should not have */
};

/* The entry's extended attributes, fetched if need be, into `out`
 * (initialised by the caller); -1 on a failed connection; lost ones are told
 * and left out. */
MUST_CHECK int restore_xattrs_get(struct restore *r, struct buf *out,
    const struct flow_dir *dir, const struct tree_entry *entry,
    struct err *e);
/* Owner, mode, ACL, attributes, capabilities, times: in this order.  Trouble
 * is told or counted. */
void restore_attributes(struct restore *r, const struct restore_subject *s,
    const struct flow_dir *dir, const struct tree_entry *entry,
    const struct buf *xattrs);
/* Inode flags, after the final name is there. */
void restore_flags(struct restore *r, int fd, const struct flow_dir *dir,
    const struct tree_entry *entry);
/* Take away what forbids changes (immutable, append-only). */
void restore_unlock(int fd);

#endif
