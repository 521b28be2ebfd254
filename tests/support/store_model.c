#include "tests/support/store_model.h"
#include "base/buf.h"
#include "proto/fmt_frame.h"
#include "proto/fmt_snapshot.h"
#include "proto/fmt_tree.h"
#include "raid/array.h"
#include "store/store.h"
#include "tests/support/sim_pages.h"
#include "tests/support/temp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SNAPSHOTS_MAX 64
#define IDS_MAX 64	/* of one snapshot: files, pages, facts */

struct snapshot {
	uint8_t id[SNAPSHOT_ID_SIZE];
	uint64_t seeds[STORE_MODEL_FILES];
	struct id root, facts;
	struct id ids[IDS_MAX];		/* all it is made of */
	size_t id_count;
	uint64_t pushed, forgotten;	/* number of the step; 0 = none */
	bool push_failed, forget_failed;
};

struct store_model {
	struct store_model_shape shape;
	struct sim *disks;
	char *dir, *index;
	uint64_t random;
	uint64_t steps, acked;
	struct snapshot snaps[SNAPSHOTS_MAX];
	size_t count;
	size_t indexes, tries;
};

/* ---- life ------------------------------------------------------------- */

static char *path_in(const struct store_model *m, const char *kind, size_t i)
{
	size_t size = strlen(m->dir) + 40;
	char *path = sim_alloc(size, 1);

	snprintf(path, size, "%s/%s-%zu", m->dir, kind, i);
	return path;
}

struct store_model *store_model_new(const struct store_model_shape *shape)
{
	struct store_model *m = sim_alloc(1, sizeof(*m));

	m->shape = *shape;
	m->random = shape->seed;
	m->disks = sim_new(shape->members, shape->disk_size);
	m->dir = temp_dir_new();
	m->index = path_in(m, "index", 0);
	return m;
}

void store_model_free(struct store_model *m)
{
	sim_free(m->disks);
	free(m->index);
	temp_dir_remove(m->dir);
	free(m->dir);
	free(m);
}

struct sim *store_model_disks(struct store_model *m)
{
	return m->disks;
}

const char *store_model_index(const struct store_model *m)
{
	return m->index;
}

uint64_t store_model_acked(const struct store_model *m)
{
	return m->acked;
}

static uint64_t step_begin(struct store_model *m)
{
	return ++m->steps;
}

static void step_acked(struct store_model *m)
{
	m->acked = m->steps;
	sim_note(m->disks, m->acked);
}

static int open_array(const struct store_model *m, struct sim *s,
    uint64_t skip, struct array **out, struct err *e)
{
	struct array_open o = { .dev_open = sim_dev_open, .dev_arg = s };
	int rc;

	(void)m;
	o.devs = sim_devs(s, skip, &o.dev_count);
	rc = array_open(out, &o, e);
	free(o.devs);
	return rc;
}

int store_model_open(const struct store_model *m, struct sim *s,
    uint64_t skip, const char *index_dir, struct opened *out, struct err *e)
{
	struct store_open so = { .index_dir = index_dir };

	if (open_array(m, s, skip, &out->array, e) != 0)
		return err_add(e, "array");
	so.array = out->array;
	if (store_open(&out->store, &so, e) == 0)
		return 0;
	array_abandon(out->array);
	return err_add(e, "store");
}

int store_model_close(struct opened *o, struct err *e)
{
	struct err other;

	if (store_close(o->store, e) != 0) {
		(void)array_close(o->array, &other);
		return err_add(e, "close of the store");
	}
	return array_close(o->array, e);
}

void store_model_abandon(struct opened *o)
{
	store_abandon(o->store);
	array_abandon(o->array);
}

static int add_client(struct store *s, struct err *e)
{
	struct client_record c = {
		.name = STORE_MODEL_CLIENT,
		.role = ROLE_PUSH | ROLE_RESTORE, .key_count = 1,
		.keys = { "ssh-ed25519 AAAAmodel" },
	};

	return store_client_add(s, &c, e);
}

int store_model_create(struct store_model *m, struct err *e)
{
	struct array_create c = { .parity = m->shape.parity };
	struct opened o;
	struct array *a;
	int rc;

	step_begin(m);
	c.devs = sim_devs(m->disks, 0, &c.dev_count);
	rc = array_create(&c, e);
	free(c.devs);
	if (rc != 0 || open_array(m, m->disks, 0, &a, e) != 0)
		return -1;
	rc = store_create(a, "host key", e);
	if (rc != 0) {
		array_abandon(a);
		return -1;
	}
	if (array_close(a, e) != 0 || store_model_open(m, m->disks, 0,
	    m->index, &o, e) != 0)
		return -1;
	rc = add_client(o.store, e);
	if (rc == 0)
		step_acked(m);
	if (rc != 0) {
		store_model_abandon(&o);
		return -1;
	}
	return store_model_close(&o, e);
}

/* ---- push ------------------------------------------------------------- */

struct push {
	struct store_session *ss;
	struct frame_builder *builder;
	struct buf frame;
	uint32_t number;		/* of the last frame sent */
	struct snapshot *snap;
};

static size_t file_bytes(const struct store_model *m, uint64_t seed,
    uint8_t *out)
{
	size_t size = 1 + (size_t)(sim_random(&seed) % m->shape.file_size);

	for (size_t i = 0; i < size; i += 8) {
		uint64_t v = sim_random(&seed);

		memcpy(out + i, &v, size - i < 8 ? size - i : 8);
	}
	return size;
}

static int send_frame(struct push *p, struct err *e)
{
	struct id missing[8];
	size_t count = 0;
	int rc;

	if (frame_builder_objects(p->builder) == 0)
		return 0;
	if (frame_builder_finish(p->builder, CODEC_LZ4, 0, &p->frame, e) != 0)
		return -1;
	rc = store_session_frame(p->ss, ++p->number, p->frame.data,
	    p->frame.size, missing, 8, &count, e);
	if (rc == 1)
		return err_set(e, ERR_CORRUPT, "frame %u was refused: %zu "
		    "missing", p->number, count);
	return rc;
}

static int note_id(struct push *p, const struct id *id, struct err *e)
{
	if (p->snap->id_count == IDS_MAX)
		return err_set(e, ERR_LIMIT, "too many objects");
	p->snap->ids[p->snap->id_count++] = *id;
	return 0;
}

static int add_object(struct push *p, size_t plain_max,
    enum object_type type, const struct id *id, const void *plain,
    size_t size, const struct id *refs, size_t ref_count, struct err *e)
{
	if (!frame_builder_fits(p->builder, size, ref_count, plain_max) &&
	    send_frame(p, e) != 0)
		return -1;
	return frame_builder_add(p->builder, id, type, plain, size, refs,
	    ref_count, e);
}

static int emit_page(void *arg, enum object_type type, const struct id *id,
    const void *plain, size_t size, const struct id *refs, size_t ref_count,
    struct err *e)
{
	struct push *p = arg;

	if (note_id(p, id, e) != 0)
		return -1;
	return add_object(p, FRAME_TREE_MAX, type, id, plain, size, refs,
	    ref_count, e);
}

static int push_files(const struct store_model *m, struct push *p,
    struct id ids[static STORE_MODEL_FILES],
    uint64_t sizes[static STORE_MODEL_FILES], struct err *e)
{
	uint8_t *data = sim_alloc(m->shape.file_size + 8, 1);
	uint8_t have;
	int rc = 0;

	for (unsigned i = 0; i < STORE_MODEL_FILES && rc == 0; i++) {
		sizes[i] = file_bytes(m, p->snap->seeds[i], data);
		rc = id_of(&ids[i], OBJECT_CHUNK, data, sizes[i], e);
		if (rc == 0)
			rc = note_id(p, &ids[i], e);
		if (rc == 0)
			rc = store_session_have(p->ss, &ids[i], 1, &have, e);
		if (rc == 0 && !(have & 1))
			rc = add_object(p, FRAME_GROUP_MAX, OBJECT_CHUNK,
			    &ids[i], data, sizes[i], NULL, 0, e);
	}
	free(data);
	return rc == 0 ? send_frame(p, e) : -1;
}

static int push_tree(struct push *p,
    const struct id ids[static STORE_MODEL_FILES],
    const uint64_t sizes[static STORE_MODEL_FILES], struct err *e)
{
	struct tree_builder *b;
	int rc;

	if (tree_builder_new(&b, emit_page, p, e) != 0)
		return -1;
	rc = 0;
	for (unsigned i = 0; i < STORE_MODEL_FILES && rc == 0; i++) {
		char name[16];
		struct tree_entry n = {
			.mode = S_IFREG | 0644, .mtime_s = 1 + (int64_t)i,
			.content = CONTENT_CHUNK, .content_id = ids[i],
			.size = sizes[i],
		};

		snprintf(name, sizeof(name), "file%02u", i);
		n.name = (struct slice){ (const uint8_t *)name,
			strlen(name) };
		rc = tree_builder_add(b, &n, e);
	}
	if (rc == 0)
		rc = tree_builder_finish(b, &p->snap->root, e);
	tree_builder_free(b);
	return rc == 0 ? send_frame(p, e) : -1;
}

static int push_facts(struct push *p, struct err *e)
{
	struct buf b;
	int rc;

	buf_init(&b, FACTS_MAX);
	facts_begin(&b);
	facts_add(&b, FACT_PATH, "/model", 6);
	facts_add(&b, FACT_HOST, "model", 5);
	rc = buf_ok(&b, "facts", e);
	if (rc == 0)
		rc = id_of(&p->snap->facts, OBJECT_FACTS, b.data, b.size, e);
	if (rc == 0)
		rc = note_id(p, &p->snap->facts, e);
	if (rc == 0)
		rc = add_object(p, FRAME_TREE_MAX, OBJECT_FACTS,
		    &p->snap->facts, b.data, b.size, NULL, 0, e);
	buf_release(&b);
	return rc == 0 ? send_frame(p, e) : -1;
}

static int push_commit(struct push *p, struct err *e)
{
	struct store_commit c = {
		.root = p->snap->root, .facts = p->snap->facts,
		.client_ns = 1700000000000000000, .files = STORE_MODEL_FILES,
	};
	struct snapshot_record record;
	struct id missing[8];
	size_t count = 0;
	int rc;

	memcpy(c.snapshot, p->snap->id, SNAPSHOT_ID_SIZE);
	rc = store_session_commit(p->ss, &c, &record, missing, 8, &count, e);
	if (rc == 1)
		return err_set(e, ERR_CORRUPT, "the commit was refused: %zu "
		    "missing", count);
	return rc;
}

static int push_all(const struct store_model *m, struct push *p,
    struct err *e)
{
	struct id ids[STORE_MODEL_FILES];
	uint64_t sizes[STORE_MODEL_FILES];
	struct snapshot_record record;
	bool committed;

	if (store_session_begin(p->ss, p->snap->id, &committed, &record,
	    e) != 0 || push_files(m, p, ids, sizes, e) != 0)
		return -1;
	if (push_tree(p, ids, sizes, e) != 0 || push_facts(p, e) != 0)
		return -1;
	return push_commit(p, e);
}

static int push(const struct store_model *m, struct store *s,
    struct snapshot *snap, struct err *e)
{
	struct push p = { .snap = snap };
	int rc;

	if (store_session_open(&p.ss, s, STORE_MODEL_CLIENT, e) != 0)
		return -1;
	buf_init(&p.frame, FRAME_STORED_MAX);
	rc = frame_builder_new(&p.builder, e);
	if (rc == 0)
		rc = push_all(m, &p, e);
	frame_builder_free(p.builder);
	buf_release(&p.frame);
	store_session_close(p.ss);
	return rc;
}

int store_model_push(struct store_model *m, struct store *s,
    unsigned change, struct err *e)
{
	struct snapshot *n;

	if (m->count == SNAPSHOTS_MAX)
		return err_set(e, ERR_LIMIT, "too many snapshots");
	n = &m->snaps[m->count];
	if (m->count > 0)
		memcpy(n->seeds, n[-1].seeds, sizeof(n->seeds));
	else
		change = STORE_MODEL_FILES;
	for (unsigned i = 0; i < change; i++)
		n->seeds[(m->count + i) % STORE_MODEL_FILES] =
		    sim_random(&m->random);
	for (unsigned i = 0; i < SNAPSHOT_ID_SIZE; i++)
		n->id[i] = (uint8_t)sim_random(&m->random);
	m->count++;
	n->pushed = step_begin(m);
	n->push_failed = true;
	if (push(m, s, n, e) != 0)
		return -1;
	n->push_failed = false;
	step_acked(m);
	return 0;
}

int store_model_forget(struct store_model *m, struct store *s,
    struct err *e)
{
	for (size_t i = 0; i < m->count; i++) {
		struct snapshot *n = &m->snaps[i];

		if (n->forgotten || n->push_failed)
			continue;
		n->forgotten = step_begin(m);
		n->forget_failed = true;
		if (store_forget(s, STORE_MODEL_CLIENT, n->id, e) != 0)
			return -1;
		n->forget_failed = false;
		step_acked(m);
		return 0;
	}
	return err_set(e, ERR_NOT_FOUND, "nothing to forget");
}

static void say_nothing(void *arg, const char *client,
    const struct snapshot_record *r, bool keep, const char *reason)
{
	(void)arg;
	(void)client;
	(void)r;
	(void)keep;
	(void)reason;
}

static int prune(struct store *s, struct err *e)
{
	const struct prune_ops ops = { .snapshot = say_nothing };
	struct prune_report report = { 0 };
	struct job_ctl ctl = { 0 };

	return store_prune(s, NULL, false, &ops, &report, &ctl, e);
}

int store_model_prune(struct store_model *m, struct store *s, struct err *e)
{
	step_begin(m);
	if (prune(s, e) != 0)
		return -1;
	step_acked(m);
	return 0;
}

/* ---- the index --------------------------------------------------------- */

/* Copied while the store is open: again, if it was written meanwhile. */
static void copy_index(const struct store_model *m, const char *to)
{
	temp_dir_copy(m->index, to);
	while (!temp_dir_same(m->index, to)) {
		temp_dir_remove(to);
		temp_dir_copy(m->index, to);
	}
}

void store_model_keep_index(struct store_model *m)
{
	char *last = m->indexes ? path_in(m, "kept", m->indexes - 1) : NULL;
	char *to;

	if (!last || !temp_dir_same(m->index, last)) {
		to = path_in(m, "kept", m->indexes++);
		copy_index(m, to);
		free(to);
	}
	free(last);
}

size_t store_model_indexes(const struct store_model *m)
{
	return m->indexes;
}

char *store_model_index_copy(struct store_model *m, size_t i)
{
	char *to = path_in(m, "try", m->tries++), *from;

	if (i != SIZE_MAX) {
		from = path_in(m, "kept", i);
		temp_dir_copy(from, to);
		free(from);
	}
	return to;
}

void store_model_drop_index(char *dir)
{
	temp_dir_remove(dir);
	free(dir);
}

/* ---- check ------------------------------------------------------------ */

struct fetched {
	const struct snapshot *snap;
	bool got[IDS_MAX];
};

static int take_frame(void *arg, const void *frame, size_t size,
    struct err *e)
{
	struct fetched *f = arg;
	struct frame_object o;
	struct frame_view v;
	uint8_t *plain;
	int rc;

	if (!frame_hash_ok(frame, size))
		return err_set(e, ERR_CORRUPT, "a frame with a wrong hash");
	if (frame_parse(&v, frame, size, e) != 0)
		return -1;
	plain = sim_alloc(v.plain_size, 1);
	rc = frame_unpack(&v, plain, e);
	if (rc == 0)
		rc = frame_check_objects(&v, plain, e);
	free(plain);
	for (uint32_t i = 0; rc == 0 && i < v.object_count; i++) {
		frame_object_at(&v, i, &o);
		for (size_t k = 0; k < f->snap->id_count; k++)
			if (id_equal(&o.id, &f->snap->ids[k]))
				f->got[k] = true;
	}
	return rc;
}

static int take_lost(void *arg, const struct id *id, const struct err *why,
    struct err *e)
{
	(void)arg;
	return err_set(e, why->code, "object %02x%02x%02x%02x is lost: %s",
	    id->bytes[0], id->bytes[1], id->bytes[2], id->bytes[3],
	    why->text);
}

static int fetch_all(struct store *s, const struct snapshot *n,
    struct err *e)
{
	struct fetched f = { .snap = n };
	struct fetch_ops ops = { take_frame, take_lost, &f };
	struct store_session *ss;
	int rc;

	if (store_session_open(&ss, s, STORE_MODEL_CLIENT, e) != 0)
		return -1;
	rc = store_fetch(ss, n->ids, n->id_count, &ops, e);
	store_session_close(ss);
	for (size_t i = 0; rc == 0 && i < n->id_count; i++)
		if (!f.got[i])
			rc = err_set(e, ERR_CORRUPT, "object %zu was not "
			    "given", i);
	return rc == 0 ? 0 : err_add(e, "fetch of the snapshot of step %llu",
	    (unsigned long long)n->pushed);
}

struct listed {
	struct snapshot_record records[SNAPSHOTS_MAX];
	size_t count;
};

static int list_one(void *arg, const char *client,
    const struct snapshot_record *r)
{
	struct listed *l = arg;

	(void)client;
	if (l->count == SNAPSHOTS_MAX)
		return 1;
	l->records[l->count++] = *r;
	return 0;
}

static const struct snapshot_record *listed_find(const struct listed *l,
    const struct snapshot *n)
{
	for (size_t i = 0; i < l->count; i++)
		if (memcmp(l->records[i].id, n->id, SNAPSHOT_ID_SIZE) == 0)
			return &l->records[i];
	return NULL;
}

static int check_snapshot(struct store *s, const struct snapshot *n,
    const struct snapshot_record *r, uint64_t acked, struct err *e)
{
	bool pushed = !n->push_failed && n->pushed <= acked;
	bool begun = n->forgotten && n->forgotten <= acked + 1;
	bool gone = n->forgotten && !n->forget_failed &&
	    n->forgotten <= acked;

	if (!r && pushed && !begun && !(n->forgotten && n->forget_failed))
		return err_set(e, ERR_CORRUPT, "the snapshot of step %llu is "
		    "not listed, %llu are acked", (unsigned long long)
		    n->pushed, (unsigned long long)acked);
	if (r && gone)
		return err_set(e, ERR_CORRUPT, "the snapshot of step %llu is "
		    "listed, but was forgotten", (unsigned long long)
		    n->pushed);
	if (r && !id_equal(&r->root, &n->root))
		return err_set(e, ERR_CORRUPT, "the snapshot of step %llu "
		    "has another root", (unsigned long long)n->pushed);
	return r ? fetch_all(s, n, e) : 0;
}

int store_model_check(const struct store_model *m, struct store *s,
    uint64_t acked, struct err *e)
{
	struct listed l = { .count = 0 };
	size_t known = 0;

	store_snapshot_each(s, STORE_MODEL_CLIENT, list_one, &l);
	for (size_t i = 0; i < m->count; i++) {
		const struct snapshot_record *r = listed_find(&l,
		    &m->snaps[i]);

		known += r != NULL;
		if (check_snapshot(s, &m->snaps[i], r, acked, e) != 0)
			return -1;
	}
	if (known != l.count)
		return err_set(e, ERR_CORRUPT, "%zu snapshots are listed, "
		    "%zu are known", l.count, known);
	return 0;
}

int store_model_probe(const struct store_model *m, struct store *s,
    uint64_t seed, struct err *e)
{
	struct snapshot *n = sim_alloc(1, sizeof(*n));
	int rc;

	for (unsigned i = 0; i < STORE_MODEL_FILES; i++)
		n->seeds[i] = i < 2 || m->count == 0 ? sim_random(&seed) :
		    m->snaps[m->count - 1].seeds[i];
	for (unsigned i = 0; i < SNAPSHOT_ID_SIZE; i++)
		n->id[i] = (uint8_t)sim_random(&seed);
	rc = push(m, s, n, e);
	if (rc == 0)
		rc = fetch_all(s, n, e);
	if (rc == 0)
		rc = store_forget(s, STORE_MODEL_CLIENT, n->id, e);
	free(n);
	return rc == 0 ? 0 : err_add(e, "probe");
}
