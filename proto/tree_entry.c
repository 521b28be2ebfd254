/*
 * proto/tree_entry.c - encode and decode a directory entry.
 *
 * Each field is a row: tag, sizes, and how to read it.  A reader says false
 * for a value that is not canonical: zero where absence says the same.
 */
#include "proto/tree_entry.h"

#include "base/buf.h"
#include "base/le.h"
#include "base/reader.h"

#include <string.h>
#include <sys/stat.h>

#define NS_PER_S 1000000000u

enum {
	TAG_USER = 1, TAG_GROUP, TAG_BIRTH, TAG_FLAGS, TAG_PROJECT, TAG_STATE,
	TAG_TOTALS,
	TAG_MUST_KNOW = 128,
	TAG_NAME = 128, TAG_MODE, TAG_OWNER, TAG_MTIME, TAG_CONTENT, TAG_SIZE,
	TAG_TREE, TAG_SYMLINK, TAG_DEVICE, TAG_LINK, TAG_XATTRS,
	TAG_XATTR_REF,
};

/* ---- reading the fields ------------------------------------------------ */

static bool slice_get(struct slice *out, const uint8_t *v, size_t size)
{
	out->data = v;
	out->size = size;
	return memchr(v, 0, size) == NULL;
}

static bool id_get(struct id *out, const uint8_t *v)
{
	memcpy(out->bytes, v, ID_SIZE);
	return true;
}

static bool time_get(int64_t *s, uint32_t *ns, const uint8_t *v)
{
	*s = (int64_t)le64_get(v);
	*ns = le32_get(v + 8);
	return *ns < NS_PER_S;
}

static bool get_user(struct tree_entry *n, const uint8_t *v, size_t size)
{
	return slice_get(&n->user, v, size);
}

static bool get_group(struct tree_entry *n, const uint8_t *v, size_t size)
{
	return slice_get(&n->group, v, size);
}

static bool get_birth(struct tree_entry *n, const uint8_t *v, size_t size)
{
	(void)size;
	n->has_birth = true;
	return time_get(&n->birth_s, &n->birth_ns, v);
}

static bool get_flags(struct tree_entry *n, const uint8_t *v, size_t size)
{
	(void)size;
	n->flags = le32_get(v);
	return n->flags != 0;
}

static bool get_project(struct tree_entry *n, const uint8_t *v, size_t size)
{
	(void)size;
	n->project = le32_get(v);
	return n->project != 0;
}

static bool get_state(struct tree_entry *n, const uint8_t *v, size_t size)
{
	(void)size;
	n->state = v[0];
	return n->state != 0;
}

static bool get_totals(struct tree_entry *n, const uint8_t *v, size_t size)
{
	(void)size;
	n->files_below = le64_get(v);
	n->bytes_below = le64_get(v + 8);
	return n->files_below != 0 || n->bytes_below != 0;
}

static bool get_name(struct tree_entry *n, const uint8_t *v, size_t size)
{
	n->name.data = v;
	n->name.size = size;
	return tree_name_ok(v, size);
}

static bool get_mode(struct tree_entry *n, const uint8_t *v, size_t size)
{
	(void)size;
	n->mode = le32_get(v);
	return true;
}

static bool get_owner(struct tree_entry *n, const uint8_t *v, size_t size)
{
	(void)size;
	n->uid = le32_get(v);
	n->gid = le32_get(v + 4);
	return n->uid != 0 || n->gid != 0;
}

static bool get_mtime(struct tree_entry *n, const uint8_t *v, size_t size)
{
	(void)size;
	return time_get(&n->mtime_s, &n->mtime_ns, v) &&
	    (n->mtime_s != 0 || n->mtime_ns != 0);
}

static bool get_content(struct tree_entry *n, const uint8_t *v, size_t size)
{
	(void)size;
	n->content = (enum content_kind)v[0];
	id_get(&n->content_id, v + 1);
	return v[0] == CONTENT_CHUNK || v[0] == CONTENT_LIST;
}

static bool get_size(struct tree_entry *n, const uint8_t *v, size_t size)
{
	(void)size;
	n->size = le64_get(v);
	return n->size != 0 && n->size <= INT64_MAX;
}

static bool get_tree(struct tree_entry *n, const uint8_t *v, size_t size)
{
	(void)size;
	return id_get(&n->tree, v) && !id_is_zero(&n->tree);
}

static bool get_symlink(struct tree_entry *n, const uint8_t *v, size_t size)
{
	return slice_get(&n->symlink, v, size);
}

static bool get_device(struct tree_entry *n, const uint8_t *v, size_t size)
{
	(void)size;
	n->dev_major = le32_get(v);
	n->dev_minor = le32_get(v + 4);
	return n->dev_major != 0 || n->dev_minor != 0;
}

static bool get_link(struct tree_entry *n, const uint8_t *v, size_t size)
{
	(void)size;
	n->link = le64_get(v);
	return n->link != 0;
}

static bool get_xattrs(struct tree_entry *n, const uint8_t *v, size_t size)
{
	n->xattrs.data = v;
	n->xattrs.size = size;
	return xattrs_ok(&n->xattrs);
}

static bool get_xattr_ref(struct tree_entry *n, const uint8_t *v, size_t size)
{
	(void)size;
	n->has_xattr_ref = true;
	return id_get(&n->xattr_ref, v);
}

static const struct field {
	uint8_t tag;
	uint16_t min, max;	/* bytes */
	bool (*get)(struct tree_entry *n, const uint8_t *v, size_t size);
} fields[] = {
	{ TAG_USER, 1, TREE_NAME_MAX, get_user },
	{ TAG_GROUP, 1, TREE_NAME_MAX, get_group },
	{ TAG_BIRTH, 12, 12, get_birth },
	{ TAG_FLAGS, 4, 4, get_flags },
	{ TAG_PROJECT, 4, 4, get_project },
	{ TAG_STATE, 1, 1, get_state },
	{ TAG_TOTALS, 16, 16, get_totals },
	{ TAG_NAME, 1, TREE_NAME_MAX, get_name },
	{ TAG_MODE, 4, 4, get_mode },
	{ TAG_OWNER, 8, 8, get_owner },
	{ TAG_MTIME, 12, 12, get_mtime },
	{ TAG_CONTENT, 1 + ID_SIZE, 1 + ID_SIZE, get_content },
	{ TAG_SIZE, 8, 8, get_size },
	{ TAG_TREE, ID_SIZE, ID_SIZE, get_tree },
	{ TAG_SYMLINK, 1, TREE_SYMLINK_MAX, get_symlink },
	{ TAG_DEVICE, 8, 8, get_device },
	{ TAG_LINK, 8, 8, get_link },
	{ TAG_XATTRS, 6, TREE_XATTRS_INLINE, get_xattrs },
	{ TAG_XATTR_REF, ID_SIZE, ID_SIZE, get_xattr_ref },
};

static const struct field *field_find(unsigned tag)
{
	for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
		if (fields[i].tag == tag)
			return &fields[i];
	return NULL;
}

/* ---- what goes with what ------------------------------------------------ */

/* NULL, or what is wrong with the entry as a whole. */
static const char *entry_wrong(const struct tree_entry *n)
{
	const uint32_t type = n->mode & S_IFMT;
	const bool has_tree = !id_is_zero(&n->tree);

	if (n->mode & ~(uint32_t)(S_IFMT | 07777))
		return "unknown mode bits";
	if (type != S_IFREG && type != S_IFDIR && type != S_IFLNK &&
	    type != S_IFCHR && type != S_IFBLK && type != S_IFIFO &&
	    type != S_IFSOCK)
		return "unknown type of file";
	if ((type == S_IFDIR) != has_tree)
		return "a tree goes with a directory";
	if ((type == S_IFLNK) != (n->symlink.size > 0))
		return "a target goes with a symbolic link";
	if (n->size > 0 && type != S_IFREG)
		return "a size goes with a regular file";
	if ((n->content != CONTENT_NONE) != (n->size > 0))
		return "content goes with a size";
	if ((n->dev_major | n->dev_minor) && type != S_IFCHR &&
	    type != S_IFBLK)
		return "a number goes with a device";
	if ((n->files_below | n->bytes_below) && type != S_IFDIR)
		return "totals go with a directory";
	if (n->has_xattr_ref && n->xattrs.size > 0)
		return "xattrs twice";
	return NULL;
}

int tree_entry_get(struct tree_entry *n, const void *data, size_t size,
    struct err *e)
{
	struct tree_entry got;
	struct reader r;
	const char *wrong;
	unsigned before = 0;

	memset(&got, 0, sizeof(got));
	reader_init(&r, data, size);
	while (r.left > 0) {
		unsigned tag = reader_u8(&r);
		size_t len = reader_le16(&r);
		const uint8_t *v = reader_bytes(&r, len);
		const struct field *f = field_find(tag);

		if (!v || len == 0 || tag <= before)
			return err_set(e, ERR_CORRUPT,
			    "tree entry: field %u is out of place", tag);
		before = tag;
		if (!f && tag < TAG_MUST_KNOW)
			continue;
		if (!f)
			return err_set(e, ERR_VERSION,
			    "tree entry: field %u is of a newer program", tag);
		if (len < f->min || len > f->max || !f->get(&got, v, len))
			return err_set(e, ERR_CORRUPT,
			    "tree entry: field %u is damaged", tag);
	}
	wrong = got.name.size == 0 ? "it has no name" : entry_wrong(&got);
	if (wrong)
		return err_set(e, ERR_CORRUPT, "tree entry: %s", wrong);
	*n = got;
	return 0;
}

/* ---- writing ------------------------------------------------------------ */

static void field_head(struct buf *out, uint8_t tag, size_t size)
{
	buf_u8(out, tag);
	buf_le16(out, (uint16_t)size);
}

static void put_slice(struct buf *out, uint8_t tag, const struct slice *v)
{
	if (v->size == 0)
		return;
	field_head(out, tag, v->size);
	buf_add(out, v->data, v->size);
}

static void put_le32(struct buf *out, uint8_t tag, uint32_t v)
{
	if (v == 0)
		return;
	field_head(out, tag, 4);
	buf_le32(out, v);
}

static void put_le64(struct buf *out, uint8_t tag, uint64_t v)
{
	if (v == 0)
		return;
	field_head(out, tag, 8);
	buf_le64(out, v);
}

static void put_two(struct buf *out, uint8_t tag, uint32_t a, uint32_t b)
{
	if (a == 0 && b == 0)
		return;
	field_head(out, tag, 8);
	buf_le32(out, a);
	buf_le32(out, b);
}

static void put_time(struct buf *out, uint8_t tag, int64_t s, uint32_t ns)
{
	field_head(out, tag, 12);
	buf_le64(out, (uint64_t)s);
	buf_le32(out, ns);
}

static void put_id(struct buf *out, uint8_t tag, const struct id *id)
{
	field_head(out, tag, ID_SIZE);
	buf_add(out, id->bytes, ID_SIZE);
}

static void put_optional(struct buf *out, const struct tree_entry *n)
{
	put_slice(out, TAG_USER, &n->user);
	put_slice(out, TAG_GROUP, &n->group);
	if (n->has_birth)
		put_time(out, TAG_BIRTH, n->birth_s, n->birth_ns);
	put_le32(out, TAG_FLAGS, n->flags);
	put_le32(out, TAG_PROJECT, n->project);
	if (n->state) {
		field_head(out, TAG_STATE, 1);
		buf_u8(out, n->state);
	}
	if (n->files_below || n->bytes_below) {
		field_head(out, TAG_TOTALS, 16);
		buf_le64(out, n->files_below);
		buf_le64(out, n->bytes_below);
	}
}

static void put_required(struct buf *out, const struct tree_entry *n)
{
	put_slice(out, TAG_NAME, &n->name);
	put_le32(out, TAG_MODE, n->mode);
	put_two(out, TAG_OWNER, n->uid, n->gid);
	if (n->mtime_s || n->mtime_ns)
		put_time(out, TAG_MTIME, n->mtime_s, n->mtime_ns);
	if (n->content != CONTENT_NONE) {
		field_head(out, TAG_CONTENT, 1 + ID_SIZE);
		buf_u8(out, (uint8_t)n->content);
		buf_add(out, n->content_id.bytes, ID_SIZE);
	}
	put_le64(out, TAG_SIZE, n->size);
	if (!id_is_zero(&n->tree))
		put_id(out, TAG_TREE, &n->tree);
	put_slice(out, TAG_SYMLINK, &n->symlink);
	put_two(out, TAG_DEVICE, n->dev_major, n->dev_minor);
	put_le64(out, TAG_LINK, n->link);
	put_slice(out, TAG_XATTRS, &n->xattrs);
	if (n->has_xattr_ref)
		put_id(out, TAG_XATTR_REF, &n->xattr_ref);
}

/* Every variable field within its le16, so that what is written can be read
 * back and judged. */
static bool sizes_fit(const struct tree_entry *n)
{
	const size_t max = TREE_ENTRY_MAX;

	return n->name.size <= max && n->user.size <= max &&
	    n->group.size <= max && n->symlink.size <= max &&
	    n->xattrs.size <= max;
}

int tree_entry_put(struct buf *out, const struct tree_entry *n, struct err *e)
{
	struct tree_entry again;
	size_t start = out->size, size;

	if (!sizes_fit(n))
		return err_set(e, ERR_LIMIT, "tree entry above %d bytes",
		    TREE_ENTRY_MAX);
	buf_le16(out, 0);
	put_optional(out, n);
	put_required(out, n);
	if (buf_ok(out, "tree entry", e) != 0)
		return -1;
	size = out->size - start;
	if (size > TREE_ENTRY_MAX) {
		out->size = start;
		return err_set(e, ERR_LIMIT, "tree entry of %zu bytes", size);
	}
	le16_put(out->data + start, (uint16_t)(size - 2));
	if (tree_entry_get(&again, out->data + start + 2, size - 2, e) != 0) {
		out->size = start;
		e->code = ERR_USAGE;
		return -1;
	}
	return 0;
}
