#include "tests/store/help.h"

#include "base/warn.h"
#include "proto/fmt_snapshot.h"
#include "proto/fmt_tree.h"
#include "tests/support/sim_pages.h"
#include "tests/support/temp_dir.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define DISKS 4
#define MIB ((uint64_t)1 << 20)

/* ---- store -------------------------------------------------------------- */

static void note_warning(void *arg, const uint8_t *path, size_t path_size,
    const char *text)
{
	struct bench *b = arg;
	size_t used = strlen(b->warnings);

	(void)path;
	(void)path_size;
	snprintf(b->warnings + used, sizeof(b->warnings) - used, "%s\n",
	    text);
}

static struct array *array_start(struct bench *b)
{
	struct array_open o = { .dev_open = sim_dev_open,
		.dev_arg = b->disks };
	struct array *a;
	struct err e;

	o.devs = sim_devs(b->disks, b->skip, &o.dev_count);
	ck_assert_msg(array_open(&a, &o, &e) == 0, "array: %s", e.text);
	free(o.devs);
	return a;
}

void bench_start(struct bench *b)
{
	struct store_open o = { .index_dir = b->index, .warn = b->warn,
		.flush_bytes = b->flush_bytes };
	struct err e;

	b->array = array_start(b);
	o.array = b->array;
	ck_assert_msg(store_open(&b->store, &o, &e) == 0, "store: %s",
	    e.text);
}

void bench_client(struct bench *b, const char *name, const char *domain)
{
	struct client_record *c = calloc(1, sizeof(*c));
	struct err e;

	snprintf(c->name, sizeof(c->name), "%s", name);
	snprintf(c->domain_name, sizeof(c->domain_name), "%s", domain);
	snprintf(c->keys[0], sizeof(c->keys[0]), "ssh-ed25519 %s", name);
	c->key_count = 1;
	c->role = ROLE_PUSH | ROLE_RESTORE;
	ck_assert_msg(store_client_add(b->store, c, &e) == 0, "%s", e.text);
	free(c);
}

static void open_with(struct bench *b, unsigned disks, unsigned mib,
    unsigned parity)
{
	struct array_create c = { .parity = parity };
	struct err e;

	memset(b, 0, sizeof(*b));
	b->dir = temp_dir_new();
	b->index = malloc(strlen(b->dir) + 10);
	snprintf(b->index, strlen(b->dir) + 10, "%s/index", b->dir);
	b->warn = calloc(1, sizeof(*b->warn));
	warn_init(b->warn, note_warning, b);
	b->disk_size = mib * MIB;
	b->disks = sim_new(disks, b->disk_size);
	c.devs = sim_devs(b->disks, 0, &c.dev_count);
	ck_assert_msg(array_create(&c, &e) == 0, "create: %s", e.text);
	free(c.devs);
	b->array = array_start(b);
	ck_assert_msg(store_create(b->array, "the host key", &e) == 0, "%s",
	    e.text);
	ck_assert_int_eq(array_close(b->array, &e), 0);
	bench_start(b);
	bench_client(b, "anna", "");
	bench_client(b, "bert", "");
}

void bench_open(struct bench *b, unsigned mib)
{
	open_with(b, DISKS, mib, 1);
}

void bench_open_two(struct bench *b, unsigned mib)
{
	open_with(b, 2, mib, 1);
}

void bench_open_bare(struct bench *b, unsigned mib)
{
	open_with(b, DISKS, mib, 0);
}

unsigned bench_damage_bytes(struct bench *b, const void *bytes, size_t size)
{
	uint8_t *disk = malloc(MIB + 64);
	unsigned found = 0;

	for (unsigned d = 0; d < sim_disks(b->disks); d++)
		for (uint64_t at = 0; at + MIB <= b->disk_size; at += MIB) {
			uint8_t *hit = disk;
			size_t n = at + MIB + 64 <= b->disk_size ? MIB + 64 :
			    MIB;

			sim_peek(b->disks, d, at, disk, n);
			while ((hit = memmem(hit, n - (size_t)(hit - disk),
			    bytes, size)) != NULL) {
				sim_flip(b->disks, d,
				    at + (uint64_t)(hit - disk), 0xff);
				found++;
				hit += size;
			}
		}
	free(disk);
	return found;
}

unsigned bench_damage(struct bench *b, uint64_t seed, size_t size)
{
	uint8_t *data = malloc(size + 8);
	unsigned found;

	chunk_make(seed, size, data);
	found = bench_damage_bytes(b, data, 32);
	free(data);
	return found;
}

void bench_stop(struct bench *b, bool crash)
{
	struct err e;

	if (crash) {
		store_abandon(b->store);
		array_abandon(b->array);
		sim_power_cut_all_kept(b->disks);
	} else {
		ck_assert_msg(store_close(b->store, &e) == 0, "%s", e.text);
		ck_assert_msg(array_close(b->array, &e) == 0, "%s", e.text);
	}
	b->store = NULL;
	b->array = NULL;
}

void bench_reopen(struct bench *b)
{
	bench_stop(b, false);
	bench_start(b);
}

void bench_crash(struct bench *b)
{
	bench_stop(b, true);
	bench_start(b);
}

void bench_close(struct bench *b)
{
	if (b->store)
		bench_stop(b, false);
	sim_free(b->disks);
	warn_release(b->warn);
	free(b->warn);
	temp_dir_remove(b->dir);
	free(b->index);
	free(b->dir);
}

/* ---- pushing ------------------------------------------------------------ */

void pusher_open(struct pusher *p, struct bench *b, const char *client)
{
	struct err e;

	memset(p, 0, sizeof(*p));
	buf_init(&p->frame, FRAME_STORED_MAX);
	ck_assert_int_eq(frame_builder_new(&p->builder, &e), 0);
	ck_assert_msg(store_session_open(&p->ss, b->store, client, &e) == 0,
	    "%s", e.text);
}

void pusher_begin(struct pusher *p, uint8_t id)
{
	struct snapshot_record record;
	bool committed;
	struct err e;

	memset(p->snapshot, id, sizeof(p->snapshot));
	p->number = 0;
	ck_assert_msg(store_session_begin(p->ss, p->snapshot, &committed,
	    &record, &e) == 0, "%s", e.text);
	ck_assert(!committed);
}

void pusher_close(struct pusher *p)
{
	store_session_close(p->ss);
	frame_builder_free(p->builder);
	buf_release(&p->frame);
}

struct id chunk_make(uint64_t seed, size_t size, uint8_t *out)
{
	struct id id;
	struct err e;

	for (size_t i = 0; i < size; i += 8) {
		uint64_t v = sim_random(&seed);

		memcpy(out + i, &v, size - i < 8 ? size - i : 8);
	}
	ck_assert_int_eq(id_of(&id, OBJECT_CHUNK, out, size, &e), 0);
	return id;
}

struct id chunk_id(uint64_t seed, size_t size)
{
	uint8_t *data = malloc(size + 8);
	struct id id = chunk_make(seed, size, data);

	free(data);
	return id;
}

void pusher_add_chunk(struct pusher *p, uint64_t seed, size_t size)
{
	uint8_t *data = malloc(size + 8);
	struct id id = chunk_make(seed, size, data);
	struct err e;

	ck_assert_msg(frame_builder_add(p->builder, &id, OBJECT_CHUNK, data,
	    size, NULL, 0, &e) == 0, "%s", e.text);
	free(data);
}

int pusher_send(struct pusher *p, struct err *e)
{
	ck_assert_msg(frame_builder_finish(p->builder, CODEC_LZ4, 0,
	    &p->frame, e) == 0, "%s", e->text);
	return store_session_frame(p->ss, ++p->number, p->frame.data,
	    p->frame.size, p->missing, 64, &p->missing_count, e);
}

struct id pusher_chunk(struct pusher *p, uint64_t seed, size_t size)
{
	struct err e;

	pusher_add_chunk(p, seed, size);
	ck_assert_msg(pusher_send(p, &e) == 0, "%s", e.text);
	return chunk_id(seed, size);
}

struct page_out {
	struct pusher *p;
	int rc;
	struct err *e;
};

static int emit_page(void *arg, enum object_type type, const struct id *id,
    const void *plain, size_t size, const struct id *refs, size_t ref_count,
    struct err *e)
{
	struct page_out *out = arg;

	ck_assert_int_eq(frame_builder_add(out->p->builder, id, type, plain,
	    size, refs, ref_count, e), 0);
	out->rc = pusher_send(out->p, out->e);
	return 0;
}

static int tree_send(struct pusher *p, struct tree_entry *entries,
    size_t count, struct id *root, struct err *e)
{
	struct page_out out = { p, 0, e };
	struct tree_builder *b;
	struct err bad;

	ck_assert_int_eq(tree_builder_new(&b, emit_page, &out, &bad), 0);
	for (size_t i = 0; i < count; i++)
		ck_assert_int_eq(tree_builder_add(b, &entries[i], &bad), 0);
	ck_assert_int_eq(tree_builder_finish(b, root, &bad), 0);
	tree_builder_free(b);
	return out.rc;
}

int pusher_tree(struct pusher *p, const struct id *chunks, size_t count,
    struct id *root, struct err *e)
{
	struct tree_entry *entries = calloc(count + 1, sizeof(*entries));
	char (*names)[32] = calloc(count + 1, sizeof(*names));
	int rc;

	for (size_t i = 0; i < count; i++) {
		snprintf(names[i], sizeof(names[i]), "f%05zu", i);
		entries[i] = (struct tree_entry){ .mode = S_IFREG | 0644,
			.mtime_s = 1, .content = CONTENT_CHUNK,
			.content_id = chunks[i], .size = 1,
			.name = { (const uint8_t *)names[i],
			strlen(names[i]) } };
	}
	rc = tree_send(p, entries, count, root, e);
	free(entries);
	free(names);
	return rc;
}

int pusher_tree_of(struct pusher *p, const struct id *below,
    struct id *root, struct err *e)
{
	struct tree_entry entry = { .mode = S_IFDIR | 0755, .tree = *below,
		.name = { (const uint8_t *)"d", 1 } };

	return tree_send(p, &entry, 1, root, e);
}

int pusher_tree_of_two(struct pusher *p, const struct id *below,
    struct id *root, struct err *e)
{
	struct tree_entry entries[2] = {
		{ .mode = S_IFDIR | 0755, .tree = *below,
		    .name = { (const uint8_t *)"a", 1 } },
		{ .mode = S_IFDIR | 0755, .tree = *below,
		    .name = { (const uint8_t *)"b", 1 } },
	};

	return tree_send(p, entries, 2, root, e);
}

struct id pusher_facts(struct pusher *p, const char *path)
{
	struct id id;
	struct buf b;
	struct err e;

	buf_init(&b, FACTS_MAX);
	facts_begin(&b);
	facts_add(&b, FACT_PATH, path, strlen(path));
	ck_assert_int_eq(id_of(&id, OBJECT_FACTS, b.data, b.size, &e), 0);
	ck_assert_int_eq(frame_builder_add(p->builder, &id, OBJECT_FACTS,
	    b.data, b.size, NULL, 0, &e), 0);
	buf_release(&b);
	ck_assert_msg(pusher_send(p, &e) == 0, "%s", e.text);
	return id;
}

int pusher_commit(struct pusher *p, const struct id *root,
    const struct id *facts, struct snapshot_record *out, struct err *e)
{
	struct store_commit c = { .root = *root, .facts = *facts,
		.client_ns = (int64_t)time(NULL) * 1000000000, .files = 1 };

	memcpy(c.snapshot, p->snapshot, sizeof(c.snapshot));
	return store_session_commit(p->ss, &c, out, p->missing, 64,
	    &p->missing_count, e);
}

struct id push_simple(struct bench *b, const char *client, uint8_t id,
    uint64_t seed, size_t count, size_t size)
{
	struct id *chunks = calloc(count, sizeof(*chunks)), root, facts;
	struct snapshot_record record;
	struct pusher p;
	struct err e;

	pusher_open(&p, b, client);
	pusher_begin(&p, id);
	for (size_t i = 0; i < count; i++)
		chunks[i] = pusher_chunk(&p, seed + i, size);
	ck_assert_msg(pusher_tree(&p, chunks, count, &root, &e) == 0,
	    "%s (%zu missing)", e.text, p.missing_count);
	facts = pusher_facts(&p, "/simple");
	ck_assert_msg(pusher_commit(&p, &root, &facts, &record, &e) == 0,
	    "%s", e.text);
	pusher_close(&p);
	free(chunks);
	return root;
}

void pusher_settle(struct pusher *p)
{
	struct timespec nap = { 0, 2000000 };
	uint32_t number = 0;
	struct err e;

	store_session_sync(p->ss);
	for (int i = 0; i < 5000 && number < p->number; i++) {
		ck_assert_msg(store_session_durable(p->ss, &number,
		    &e) == 0, "%s", e.text);
		if (number < p->number)
			nanosleep(&nap, NULL);
	}
	ck_assert_uint_eq(number, p->number);
}

bool pusher_has(struct pusher *p, const struct id *id)
{
	uint8_t bit;
	struct err e;

	ck_assert_msg(store_session_have(p->ss, id, 1, &bit, &e) == 0, "%s",
	    e.text);
	return bit & 1;
}

/* ---- looking ------------------------------------------------------------ */

struct got {
	const struct id *id;
	void *out;
	size_t size;
	enum err_code code;
	bool found;
};

static int got_frame(void *arg, const void *frame, size_t size,
    struct err *e)
{
	uint8_t *plain = malloc(FRAME_PLAIN_MAX);
	struct got *g = arg;
	struct frame_object o;
	struct frame_view v;

	ck_assert_int_eq(frame_parse(&v, frame, size, e), 0);
	ck_assert(frame_hash_ok(frame, size));
	ck_assert_int_eq(frame_unpack(&v, plain, e), 0);
	ck_assert_int_eq(frame_check_objects(&v, plain, e), 0);
	for (uint32_t i = 0; i < v.object_count; i++) {
		frame_object_at(&v, i, &o);
		if (!id_equal(&o.id, g->id))
			continue;
		g->found = true;
		if (g->out)
			memcpy(g->out, plain + o.offset,
			    o.size < g->size ? o.size : g->size);
	}
	free(plain);
	return 0;
}

static int got_lost(void *arg, const struct id *id, const struct err *why,
    struct err *e)
{
	struct got *g = arg;

	(void)e;
	ck_assert(id_equal(id, g->id));
	g->code = why->code;
	return 0;
}

enum err_code fetch_one(struct bench *b, const char *client,
    const struct id *id, void *out, size_t size)
{
	struct got g = { .id = id, .out = out, .size = size };
	struct fetch_ops ops = { got_frame, got_lost, &g };
	struct store_session *ss;
	struct err e;

	ck_assert_msg(store_session_open(&ss, b->store, client, &e) == 0,
	    "%s", e.text);
	ck_assert_msg(store_fetch(ss, id, 1, &ops, &e) == 0, "%s", e.text);
	store_session_close(ss);
	ck_assert(g.found == (g.code == ERR_NONE));
	return g.code;
}

void check_simple(struct bench *b, const char *client, uint64_t seed,
    size_t count, size_t size, const struct id *root)
{
	uint8_t *want = malloc(size + 8), *have = malloc(size + 8);

	for (size_t i = 0; i < count; i++) {
		struct id id = chunk_make(seed + i, size, want);

		ck_assert_int_eq(fetch_one(b, client, &id, have, size),
		    ERR_NONE);
		ck_assert_mem_eq(want, have, size);
	}
	ck_assert_int_eq(fetch_one(b, client, root, NULL, 0), ERR_NONE);
	free(want);
	free(have);
}

static int count_one(void *arg, const char *client,
    const struct snapshot_record *r)
{
	(void)client;
	(void)r;
	++*(size_t *)arg;
	return 0;
}

size_t count_snapshots(struct bench *b, const char *client)
{
	size_t n = 0;

	ck_assert_int_eq(store_snapshot_each(b->store, client, count_one,
	    &n), 0);
	return n;
}

struct prune_report prune_now(struct bench *b)
{
	struct prune_report r;
	struct err e;

	ck_assert_msg(store_prune(b->store, NULL, false, NULL, &r, NULL,
	    &e) == 0, "%s", e.text);
	return r;
}

struct verify_report verify_now(struct bench *b, bool heal)
{
	struct verify_options o = { .heal = heal, .all = true };
	struct verify_report r;
	struct err e;

	ck_assert_msg(store_verify(b->store, &o, NULL, &r, NULL, &e) == 0,
	    "%s", e.text);
	return r;
}
