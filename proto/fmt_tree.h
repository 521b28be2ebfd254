/*
 * proto/fmt_tree.h - pages of a directory.  [format]
 *
 * A directory is a sequence of entries in byte order of names, cut into leaf
 * pages by content (of the entry's name), with index pages above, any depth.
 *
 *   0 magic 2 "bT" | 2 version 1 | 3 level 1 | 4 count 2 | 6 reserved 2
 *   leaf:   entry: le16 size of what follows, then fields
 *             field: u8 tag | le16 size | bytes; tags ascending, each once;
 *             tag >= 128 must be known, others are skipped by size
 *   index:  entry: 0 id 32 | 32 entries below 8 | 40 le16 size of the first
 *           name below | name
 *
 * Fields (absent = zero or empty):
 *   128 name      1..255 bytes; no '/' and no NUL; not "." and ".."
 *   129 mode      le32: type and permission bits as st_mode
 *   130 owner     le32 uid, le32 gid
 *   131 mtime     le64 seconds (signed), le32 nanoseconds
 *   132 content   u8 kind (1 chunk, 2 list), id 32      (regular files)
 *   133 size      le64                                  (regular files)
 *   134 tree      id 32: root page                      (directories)
 *   135 symlink   1..4095 bytes
 *   136 device    le32 major, le32 minor
 *   137 link      le64 link-group id: names with the same id in one snapshot
 *                 are one inode
 *   138 xattrs    repeated: u8 name size, name, le32 value size, value;
 *                 sorted by name (small ones, at most TREE_XATTRS_INLINE)
 *   139 xattr_ref id 32 of a chunk that holds the same, when larger
 *     1 user      name    2 group  name
 *     3 birth     le64 seconds, le32 nanoseconds
 *     4 flags     le32 inode flags       5 project le32
 *     6 state     u8 bits: 1 changed while read, 2 damaged
 *     7 totals    le64 files, le64 bytes below              (directories)
 *
 * An entry holds nothing volatile: no ctime, atime, device or link count.
 * A page is cut after an item (entry or child) of `size` bytes, its le16 and
 * fixed fields included, once the page has TREE_PAGE_MIN bytes and
 *      le32(xxh128(level byte || name)) >> 18  <  size
 * (name: of the entry, or the first below the child), and always before
 * TREE_PAGE_MAX would be exceeded.  So a page has 32 KiB on average whatever
 * the size of the entries.  No index page has fewer than two children: see
 * proto/pages.h for the end of a level.
 *
 * A page is canonical, or refused: a value that is zero or empty is absent,
 * and each field stands only with the types of file it belongs to; a directory
 * has a tree, a link a target, and a regular file content exactly when its
 * size is not 0.
 */
#ifndef PROTO_FMT_TREE_H
#define PROTO_FMT_TREE_H

#include "base/err.h"
#include "proto/fmt_id.h"
#include "proto/fmt_list.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TREE_NAME_MAX 255
#define TREE_SYMLINK_MAX 4095
#define TREE_XATTRS_INLINE 2048
#define TREE_XATTRS_MAX (1u << 20)	/* of one file, as a chunk */
#define TREE_ENTRY_MAX 8192
#define TREE_PAGE_MIN (16u << 10)
#define TREE_PAGE_MAX (56u << 10)
#define TREE_LEVEL_MAX 16

enum content_kind { CONTENT_NONE = 0, CONTENT_CHUNK = 1, CONTENT_LIST = 2 };

enum { TREE_STATE_CHANGED = 1, TREE_STATE_DAMAGED = 2 };

struct slice {			/* bytes of somebody else's */
	const uint8_t *data;
	size_t size;
};

struct tree_entry {
	struct slice name;
	uint32_t mode, uid, gid;
	int64_t mtime_s;
	uint32_t mtime_ns;
	enum content_kind content;
	struct id content_id;
	uint64_t size;
	struct id tree;			/* directories */
	struct slice symlink;
	uint32_t dev_major, dev_minor;
	uint64_t link;			/* 0 = not linked */
	struct slice xattrs;		/* encoded list, see above */
	bool has_xattr_ref;
	struct id xattr_ref;
	struct slice user, group;
	bool has_birth;
	int64_t birth_s;
	uint32_t birth_ns;
	uint32_t flags, project;
	uint8_t state;
	uint64_t files_below, bytes_below;
};

struct tree_child {
	struct id id;
	uint64_t entries;
	struct slice first;		/* first name below */
};

struct tree_page {
	unsigned level, count;
	const uint8_t *at;
	size_t size;
};

/* Checks the whole page: every entry's fields, names legal and ascending. */
MUST_CHECK int tree_page_parse(struct tree_page *p, const void *plain,
    size_t size, struct err *e);
/* Walk: *pos from 0.  Slices point into the page. */
bool tree_page_entry(const struct tree_page *p, size_t *pos,
    struct tree_entry *out);
bool tree_page_child(const struct tree_page *p, size_t *pos,
    struct tree_child *out);
/* The ids it names, in order, into out[max]; returns how many there are.  Of an
 * entry: content or tree, then xattr_ref. */
size_t tree_page_refs(const struct tree_page *p, struct id *out, size_t max);
/* Entries in the page, or below it. */
uint64_t tree_page_entries(const struct tree_page *p);
/*
 * Is `p` what `parent` says of `child`: one level less, as many entries, the
 * same first name, the last one below `next` (first name of the following
 * child, or NULL)?  Every reader of a tree asks this on its way down;
 * ERR_CORRUPT.
 */
MUST_CHECK int tree_page_check_child(const struct tree_page *p,
    const struct tree_page *parent, const struct tree_child *child,
    const struct slice *next, struct err *e);
/* Memory order, the shorter first on a tie: < 0, 0, > 0. */
int tree_name_compare(const struct slice *a, const struct slice *b);
/* True if `name` may be a directory entry. */
bool tree_name_ok(const void *name, size_t size);

/* Walk an encoded xattr list: *pos from 0; 1 = one, 0 = end, -1 = malformed. */
int xattrs_next(const struct slice *list, size_t *pos, struct slice *name,
    struct slice *value);
/* True if the whole list is well formed and its names ascend. */
bool xattrs_ok(const struct slice *list);

/* Entries come in ascending order of names. */
struct tree_builder;
MUST_CHECK int tree_builder_new(struct tree_builder **out, page_emit emit,
    void *arg, struct err *e);
void tree_builder_free(struct tree_builder *b);
/* ERR_USAGE for an entry that tree_page_parse() would refuse or whose name does
 * not ascend, ERR_LIMIT for one above TREE_ENTRY_MAX; the builder is as before
 * then.  After any other failure only tree_builder_free() is allowed. */
MUST_CHECK int tree_builder_add(struct tree_builder *b,
    const struct tree_entry *entry, struct err *e);
/* The root page's id (an empty directory has one empty leaf).  Ready for the
 * next directory afterwards. */
MUST_CHECK int tree_builder_finish(struct tree_builder *b, struct id *root,
    struct err *e);

#endif
