/*
 * client/push.c - one push, as a sequence of passes.
 *
 * THE PROMISE
 *
 *   push_run() returns 0 only after COMMITTED.  Until then nothing on the
 *   server names the snapshot, and the cache is as it was.
 *
 * A PASS
 *
 *   threads start -> tree -> pages sent -> facts sent -> COMMIT
 *
 *   The server accepts a page only if all it names is there.  A first pass
 *   may be wrong about that (an old cache, a copy of one, an object found
 *   damaged since): then a page or the commit is answered with MISSING, and
 *   the next pass asks about everything, cached contents too, and reads again
 *   what is not there.  Nothing that was sent is sent again, since the server
 *   has it now.  After PUSH_PASSES passes the push fails.
 *
 * The first push of a domain asks about nothing: there is nothing.  But a push
 * that broke off has left chunks behind, so one that finds the mark of such
 * (cache_unfinished) asks all the same, and goes on where that one ended.
 */
#include "client/push_int.h"

#include "base/clock.h"
#include "base/hash.h"
#include "client/push_dry.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- failure ------------------------------------------------------------ */

int push_fail(struct push *p, const struct err *e)
{
	pthread_mutex_lock(&p->fail_lock);
	if (!atomic_load(&p->failed)) {
		p->error = *e;
		atomic_store(&p->failed, true);
	}
	pthread_mutex_unlock(&p->fail_lock);
	if (p->order)
		queue_fail(p->order);
	if (p->jobs)
		queue_fail(p->jobs);
	pthread_mutex_lock(&p->item_lock);
	pthread_cond_broadcast(&p->item_done);
	pthread_mutex_unlock(&p->item_lock);
	pthread_mutex_lock(&p->ask_lock);
	pthread_cond_broadcast(&p->ask_done);
	pthread_mutex_unlock(&p->ask_lock);
	pthread_mutex_lock(&p->seen_lock);
	pthread_cond_broadcast(&p->settle_done);
	pthread_mutex_unlock(&p->seen_lock);
	pthread_mutex_lock(&p->frame_lock);
	pthread_cond_broadcast(&p->frame_free);
	pthread_mutex_unlock(&p->frame_lock);
	return -1;
}

int push_check(struct push *p, struct err *e)
{
	if (!atomic_load(&p->failed))
		return 0;
	pthread_mutex_lock(&p->fail_lock);
	*e = p->error;
	pthread_mutex_unlock(&p->fail_lock);
	return -1;
}

void push_unreadable(struct push *p, const struct push_item *n,
    const char *why)
{
	atomic_fetch_add(&p->counts.unreadable, 1);
	warn_add(&p->client->warn, n->path, n->path_size, "%s", why);
}

/* ---- a pass ------------------------------------------------------------- */

static void links_release(struct push *p)
{
	for (size_t i = 0; i < sizeof(p->links) / sizeof(p->links[0]); i++) {
		while (p->links[i]) {
			struct push_link *l = p->links[i];

			p->links[i] = l->next;
			free(l->xattrs);
			free(l);
		}
	}
	p->link_count = 0;
}

static void queues_release(struct push *p)
{
	queue_free(p->order);
	queue_free(p->jobs);
	p->order = p->jobs = NULL;
}

static void counts_reset(struct push_counts *c)
{
	atomic_store(&c->files, 0);
	atomic_store(&c->dirs, 0);
	atomic_store(&c->bytes, 0);
	atomic_store(&c->vanished, 0);
	atomic_store(&c->unreadable, 0);
	atomic_store(&c->changed, 0);
	atomic_store(&c->excluded, 0);
}

static int start_threads(struct push *p, unsigned *started, struct err *e)
{
	int os;

	*started = 0;
	os = pthread_create(&p->walker, NULL, push_walk_thread, p);
	if (os != 0)
		return err_os(e, os, "start a thread");
	(*started)++;
	for (unsigned i = 0; i < PUSH_READERS; i++) {
		p->readers[i].push = p;
		p->readers[i].lane = i;
		os = pthread_create(&p->readers[i].thread, NULL,
		    push_read_thread, &p->readers[i]);
		if (os != 0)
			return err_os(e, os, "start a thread");
		(*started)++;
	}
	return 0;
}

static void join_threads(struct push *p, unsigned started)
{
	if (started > 0)
		pthread_join(p->walker, NULL);
	for (unsigned i = 1; i < started; i++)
		pthread_join(p->readers[i - 1].thread, NULL);
}

/* Everything up to the root page is sent, or -1. */
static int pass(struct push *p, struct id *root, struct err *e)
{
	unsigned started;
	int rc;

	counts_reset(&p->counts);
	cache_restart(p->cache);
	seen_clear(p->seen);
	p->order = queue_new(PUSH_ORDER_ITEMS, PUSH_ORDER_BYTES,
	    push_item_drop);
	p->jobs = queue_new(PUSH_JOBS, PUSH_JOB_BYTES, push_item_drop);
	if (!p->order || !p->jobs) {
		queues_release(p);
		return err_set(e, ERR_NO_MEMORY, "no memory for a push");
	}
	rc = start_threads(p, &started, e);
	if (rc == 0)
		rc = push_tree(p, root, e);
	if (rc != 0)
		push_fail(p, e);
	join_threads(p, started);
	if (rc == 0)
		rc = push_lanes_flush(p, UINT64_MAX, e);
	if (rc == 0)
		rc = push_pages_finish(p, e);
	if (rc == 0)
		rc = push_settled(p, push_next_seq(p), e);
	queues_release(p);
	links_release(p);
	return rc;
}

/* ---- facts and commit --------------------------------------------------- */

static void add_text(struct buf *out, unsigned tag, const char *text)
{
	if (text && *text)
		facts_add(out, tag, text, strlen(text));
}

static void add_origin(struct buf *out)
{
	char host[256] = "", lookup[4096];
	struct passwd pw, *found = NULL;

	(void)!gethostname(host, sizeof(host) - 1);
	add_text(out, FACT_HOST, host);
	if (getpwuid_r(getuid(), &pw, lookup, sizeof(lookup), &found) == 0 &&
	    found)
		add_text(out, FACT_USER, found->pw_name);
	add_text(out, FACT_PROGRAM, "bkclient " BKCLIENT_VERSION);
}

static int make_facts(struct push *p, struct buf *out, struct id *id,
    struct err *e)
{
	const char *path;

	facts_begin(out);
	for (size_t i = 0; (path = walk_roots_path(p->roots, i)); i++)
		add_text(out, FACT_PATH, path);
	for (size_t i = 0; i < p->o->tags->count; i++)
		add_text(out, FACT_TAG, p->o->tags->items[i]);
	add_origin(out);
	if (buf_ok(out, "the paths and tags", e) != 0)
		return -1;
	return id_of(id, OBJECT_FACTS, out->data, out->size, e);
}

/* The facts object goes in a frame of its own. */
static int send_facts(struct push *p, struct id *id, struct err *e)
{
	struct frame_builder *b = NULL;
	struct buf facts, frame;
	uint32_t number;
	int rc = -1;

	buf_init(&facts, FACTS_MAX);
	buf_init(&frame, FRAME_STORED_MAX);
	if (make_facts(p, &facts, id, e) != 0 ||
	    frame_builder_new(&b, e) != 0 ||
	    frame_builder_add(b, id, OBJECT_FACTS, facts.data, facts.size,
	    NULL, 0, e) != 0 ||
	    frame_builder_finish(b, CODEC_ZSTD, 1, &frame, e) != 0)
		goto out;
	rc = link_send_frame(p->link, frame.data, frame.size, &number, e);
out:
	frame_builder_free(b);
	buf_release(&facts);
	buf_release(&frame);
	return rc;
}

static int32_t zone_now(void)
{
	time_t now = (time_t)clock_real_s();
	struct tm local;

	return localtime_r(&now, &local) ? (int32_t)local.tm_gmtoff : 0;
}

static uint32_t commit_flags(const struct push *p)
{
	return (atomic_load(&p->counts.changed) ? SNAPSHOT_CHANGED : 0u) |
	    (atomic_load(&p->counts.unreadable) ? SNAPSHOT_PARTIAL : 0u);
}

/* 1 = committed, 0 = something is missing, -1. */
static int commit(struct push *p, const struct id *root, int64_t began_ns,
    struct err *e)
{
	struct msg_commit m = { .root = *root, .client_ns = began_ns,
		.zone_s = zone_now(), .flags = commit_flags(p) };
	struct buf b;
	int rc;

	if (send_facts(p, &m.facts, e) != 0)
		return -1;
	m.files = atomic_load(&p->counts.files);
	m.bytes = atomic_load(&p->counts.bytes);
	m.new_bytes = atomic_load(&p->counts.new_bytes);
	m.frames = link_frames(p->link);
	p->reply = 0;
	buf_init(&b, 256);
	msg_commit_put(&b, &m);
	rc = buf_ok(&b, "commit", e);
	if (rc == 0)
		rc = link_send(p->link, MSG_COMMIT, 0, b.data, b.size, e);
	buf_release(&b);
	return rc == 0 ? push_commit_wait(p, e) : -1;
}

static int begin(struct push *p, int64_t now_ns, struct err *e)
{
	struct msg_begin m = { .client_ns = now_ns };
	struct msg_begun begun;
	struct wire_msg got;
	struct buf b;
	int rc;

	if (random_bytes(p->id, sizeof(p->id), e) != 0)
		return -1;
	memcpy(m.snapshot, p->id, sizeof(p->id));
	buf_init(&b, 64);
	msg_begin_put(&b, &m);
	rc = buf_ok(&b, "begin", e);
	if (rc == 0)
		rc = link_send(p->link, MSG_BEGIN, link_request(p->link),
		    b.data, b.size, e);
	buf_release(&b);
	if (rc != 0 || link_recv(p->link, &got, e) != 0)
		return -1;
	if (got.type != MSG_BEGUN)
		rc = err_set(e, ERR_PROTOCOL, "the server did not begin");
	else
		rc = msg_begun_get(&begun, got.body, got.size, e);
	wire_msg_release(&got);
	if (rc == 0 && begun.committed)
		rc = err_set(e, ERR_CONFLICT, "the new snapshot's id is taken");
	return rc;
}

static bool take_missing(struct push *p)
{
	bool missing;

	pthread_mutex_lock(&p->ask_lock);
	missing = p->missing;
	p->missing = false;
	pthread_mutex_unlock(&p->ask_lock);
	return missing;
}

static int passes(struct push *p, int64_t began_ns, struct err *e)
{
	struct id root;
	int rc = 0;

	for (p->pass = 0; p->pass < PUSH_PASSES; p->pass++) {
		rc = pass(p, &root, e);
		if (rc == 0)
			rc = commit(p, &root, began_ns, e);
		if (rc < 0)
			return -1;
		if (rc == 1)
			return 0;
		(void)take_missing(p);
		p->ask = p->distrust = true;
	}
	return err_set(e, ERR_CONFLICT, "the server misses data that was sent "
	    "or that it said to have, %d times over", PUSH_PASSES);
}

/* ---- life --------------------------------------------------------------- */

static int prepare(struct push *p, struct err *e)
{
	if (walk_roots_new(&p->roots, e) != 0)
		return -1;
	for (size_t i = 0; i < p->o->path_count; i++)
		if (walk_roots_add(p->roots, p->o->paths[i], &p->client->warn,
		    e) != 0)
			return -1;
	if (walk_roots_check(p->roots, e) != 0)
		return -1;
	return push_patterns(&p->exclude, p->o, e);
}

static void push_init(struct push *p, struct client *c,
    const struct push_options *o)
{
	p->client = c;
	p->o = o;
	p->link = c->link;
	pthread_mutex_init(&p->fail_lock, NULL);
	pthread_mutex_init(&p->item_lock, NULL);
	pthread_mutex_init(&p->ask_lock, NULL);
	pthread_mutex_init(&p->seen_lock, NULL);
	pthread_mutex_init(&p->frame_lock, NULL);
	pthread_cond_init(&p->item_done, NULL);
	pthread_cond_init(&p->ask_done, NULL);
	pthread_cond_init(&p->settle_done, NULL);
	pthread_cond_init(&p->frame_free, NULL);
}

static void push_release(struct push *p)
{
	push_lanes_release(p);
	match_free(p->exclude);
	walk_roots_free(p->roots);
	cache_close(p->cache);
	pthread_mutex_destroy(&p->fail_lock);
	pthread_mutex_destroy(&p->item_lock);
	pthread_mutex_destroy(&p->ask_lock);
	pthread_mutex_destroy(&p->seen_lock);
	pthread_mutex_destroy(&p->frame_lock);
	pthread_cond_destroy(&p->item_done);
	pthread_cond_destroy(&p->ask_done);
	pthread_cond_destroy(&p->settle_done);
	pthread_cond_destroy(&p->frame_free);
}

static void tell_unused(struct push *p)
{
	const char *pattern;
	size_t pos = 0;

	while ((pattern = match_unused(p->exclude, &pos)) != NULL)
		client_note(p->client, "the pattern %s matched nothing",
		    pattern);
}

static void fill_result(struct push *p, struct push_result *r)
{
	struct push_counts *c = &p->counts;
	uint64_t received;

	memset(r, 0, sizeof(*r));
	r->record = p->record;
	r->files = atomic_load(&c->files);
	r->dirs = atomic_load(&c->dirs);
	r->bytes = atomic_load(&c->bytes);
	r->read_files = atomic_load(&c->read_files);
	r->read_bytes = atomic_load(&c->read_bytes);
	r->new_bytes = atomic_load(&c->new_bytes);
	r->vanished = atomic_load(&c->vanished);
	r->unreadable = atomic_load(&c->unreadable);
	r->changed = atomic_load(&c->changed);
	r->excluded = atomic_load(&c->excluded);
	r->passes = p->pass + 1;
	if (p->link)
		link_counts(p->link, &r->sent_bytes, &received);
}

static int run(struct push *p, struct err *e)
{
	const struct msg_welcome *w = link_welcome(p->link);
	int64_t now_ns = clock_real_ns();
	struct err ignored;
	int rc;

	if (cache_open(&p->cache, p->client->cache_dir, w->store, w->domain,
	    e) != 0 || push_lanes_init(p, e) != 0 ||
	    chunker_init(&p->chunker, w->cut_seed, e) != 0 ||
	    begin(p, now_ns, e) != 0)
		return -1;
	p->ask = w->snapshots != 0 || cache_unfinished(p->cache);
	cache_begin(p->cache);
	rc = push_receiver_start(p, e);
	if (rc == 0)
		rc = passes(p, now_ns, e);
	push_receiver_end(p);
	if (rc == 0 && cache_commit(p->cache, &ignored) != 0)
		client_note(p->client, "the cache could not be written: %s",
		    ignored.text);
	return rc;
}

int push_run(struct client *c, const struct push_options *o,
    struct push_result *result, struct err *e)
{
	struct push *p = calloc(1, sizeof(*p));
	int rc;

	if (!p)
		return err_set(e, ERR_NO_MEMORY, "no memory for a push");
	push_init(p, c, o);
	rc = prepare(p, e);
	if (rc == 0)
		rc = client_connect(c, e);
	if (rc == 0) {
		p->link = c->link;
		rc = run(p, e);
	}
	if (rc == 0) {
		tell_unused(p);
		fill_result(p, result);
	}
	push_release(p);
	free(p);
	return rc;
}
