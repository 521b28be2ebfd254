#include "tests/client/fake_server.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/le.h"
#include "base/wire.h"
#include "proto/fmt_frame.h"
#include "proto/msg.h"
#include "proto/session.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct serving {
	struct fake_store *s;
	struct wire *w;
	struct session_state state;
	uint8_t snapshot[SNAPSHOT_ID_SIZE];
	uint32_t frames;
};

/* ---- the table ---------------------------------------------------------- */

struct fake_store *fake_store_new(void)
{
	struct fake_store *s = calloc(1, sizeof(*s));

	ck_assert_ptr_nonnull(s);
	memset(s->uuid, 0x11, sizeof(s->uuid));
	memset(s->domain, 0x22, sizeof(s->domain));
	memset(s->seed, 0x33, sizeof(s->seed));
	return s;
}

static void object_free(struct fake_object *o)
{
	free(o->data);
	free(o->refs);
	free(o);
}

void fake_store_free(struct fake_store *s)
{
	fake_session_end(s);
	for (size_t i = 0; i < FAKE_SLOTS; i++) {
		while (s->slots[i]) {
			struct fake_object *o = s->slots[i];

			s->slots[i] = o->next;
			object_free(o);
		}
	}
	free(s);
}

static struct fake_object **slot(struct fake_store *s, const struct id *id)
{
	struct fake_object **at = &s->slots[le16_get(id->bytes) % FAKE_SLOTS];

	while (*at && !id_equal(&(*at)->id, id))
		at = &(*at)->next;
	return at;
}

struct fake_object *fake_find(struct fake_store *s, const struct id *id)
{
	return *slot(s, id);
}

static struct fake_object *add(struct fake_store *s, const struct id *id,
    enum object_type type, const void *data, size_t size)
{
	struct fake_object **at = slot(s, id), *o;

	if (*at)
		return *at;
	o = calloc(1, sizeof(*o));
	ck_assert_ptr_nonnull(o);
	o->id = *id;
	o->type = type;
	o->data = malloc(size + 1);
	ck_assert_ptr_nonnull(o->data);
	memcpy(o->data, data, size);
	o->size = (uint32_t)size;
	*at = o;
	return o;
}

struct id fake_add(struct fake_store *s, enum object_type type,
    const void *data, size_t size, const struct id *refs, size_t ref_count)
{
	struct fake_object *o;
	struct err e;
	struct id id;

	ck_assert_int_eq(id_of(&id, type, data, size, &e), 0);
	o = add(s, &id, type, data, size);
	free(o->refs);
	o->refs = calloc(ref_count + 1, sizeof(*refs));
	ck_assert_ptr_nonnull(o->refs);
	if (ref_count > 0)
		memcpy(o->refs, refs, ref_count * sizeof(*refs));
	o->ref_count = ref_count;
	return id;
}

void fake_remove(struct fake_store *s, const struct id *id)
{
	struct fake_object **at = slot(s, id), *o = *at;

	ck_assert_ptr_nonnull(o);
	*at = o->next;
	object_free(o);
}

struct fake_object *fake_nth(struct fake_store *s, enum object_type type,
    size_t n)
{
	for (size_t i = 0; i < FAKE_SLOTS; i++)
		for (struct fake_object *o = s->slots[i]; o; o = o->next)
			if (o->type == type && n-- == 0)
				return o;
	return NULL;
}

size_t fake_count(struct fake_store *s, enum object_type type)
{
	size_t n = 0;

	while (fake_nth(s, type, n))
		n++;
	return n;
}

void fake_snapshot(struct fake_store *s, const struct id *root)
{
	struct snapshot_record *r = &s->snapshots[s->snapshot_count];

	memset(r, 0, sizeof(*r));
	r->root = *root;
	r->order = s->snapshot_count + 1;
	r->id[0] = (uint8_t)r->order;
	r->commit_s = clock_real_s();
	s->snapshot_count++;
}

/* ---- messages ----------------------------------------------------------- */

static int say(struct serving *v, uint8_t type, uint32_t request,
    const void *body, size_t size, struct err *e)
{
	if (session_out(&v->state, type, request, body, (uint32_t)size,
	    e) != 0)
		return -1;
	return wire_send(v->w, type, request, NULL, 0, body, size, e);
}

static int send_buf(struct serving *v, uint8_t type, uint32_t request,
    struct buf *b, struct err *e)
{
	int rc = buf_ok(b, "message", e);

	if (rc == 0)
		rc = say(v, type, request, b->data, b->size, e);
	buf_release(b);
	return rc;
}

static int on_hello(struct serving *v, const struct wire_msg *m,
    struct err *e)
{
	struct msg_welcome w = { .version = PROTO_VERSION, .role = 3,
		.snapshots = (uint32_t)v->s->snapshot_count,
		.server_s = clock_real_s() };
	struct buf b;

	memcpy(w.store, v->s->uuid, 16);
	memcpy(w.domain, v->s->domain, 16);
	memcpy(w.cut_seed, v->s->seed, 32);
	buf_init(&b, 4096);
	msg_welcome_put(&b, &w);
	return send_buf(v, MSG_WELCOME, m->request, &b, e);
}

static int refuse(struct serving *v, uint32_t request, enum err_code code,
    const char *text, struct err *e)
{
	struct msg_error m = { .code = code };
	struct buf b;

	(void)snprintf(m.text, sizeof(m.text), "%s", text);
	buf_init(&b, 4096);
	msg_error_put(&b, &m);
	return send_buf(v, MSG_ERROR, request, &b, e);
}

static int on_begin(struct serving *v, const struct wire_msg *m,
    struct err *e)
{
	struct msg_begun begun = { .committed = false };
	struct msg_begin got;
	struct buf b;

	if (msg_begin_get(&got, m->body, m->size, e) != 0)
		return -1;
	if (v->s->busy)
		return refuse(v, m->request, ERR_BUSY,
		    "another push of this client is running", e);
	memcpy(v->snapshot, got.snapshot, sizeof(v->snapshot));
	v->frames = 0;
	buf_init(&b, 4096);
	msg_begun_put(&b, &begun);
	return send_buf(v, MSG_BEGUN, m->request, &b, e);
}

static int on_have(struct serving *v, const struct wire_msg *m,
    struct err *e)
{
	uint8_t bitmap[PROTO_HAVE_MAX / 8] = { 0 };
	size_t count = m->size / ID_SIZE;
	struct id id;

	v->s->have_ids += (unsigned)count;
	v->s->have_requests++;
	for (size_t i = 0; i < count; i++) {
		memcpy(id.bytes, m->body + i * ID_SIZE, ID_SIZE);
		if (v->s->says_have || fake_find(v->s, &id))
			bitmap[i / 8] |= (uint8_t)(1u << (i % 8));
	}
	return say(v, MSG_HAVE_IS, m->request, bitmap, (count + 7) / 8, e);
}

/* What the frame's pages name and neither the table nor the frame has. */
static void collect_missing(struct serving *v, const struct frame_view *f,
    struct buf *missing)
{
	struct frame_object o, earlier;
	struct id ref;

	for (uint32_t i = 0; i < f->object_count; i++) {
		frame_object_at(f, i, &o);
		for (uint32_t k = 0; k < o.refs; k++) {
			bool there;

			frame_ref_at(f, o.first_ref + k, &ref);
			there = fake_find(v->s, &ref) != NULL;
			for (uint32_t j = 0; j < i && !there; j++) {
				frame_object_at(f, j, &earlier);
				there = id_equal(&earlier.id, &ref);
			}
			if (!there)
				buf_add(missing, ref.bytes, ID_SIZE);
		}
	}
}

static void store_frame(struct serving *v, const struct frame_view *f,
    const uint8_t *plain)
{
	struct id refs[FRAME_REFS_MAX];
	struct frame_object o;

	for (uint32_t i = 0; i < f->object_count; i++) {
		struct fake_object *have;

		frame_object_at(f, i, &o);
		for (uint32_t k = 0; k < o.refs; k++)
			frame_ref_at(f, o.first_ref + k, &refs[k]);
		fake_add(v->s, o.type, plain + o.offset, o.size, refs,
		    o.refs);
		have = fake_find(v->s, &o.id);
		if (have->received++ > 0)
			v->s->duplicates++;
	}
}

static int on_frame(struct serving *v, const struct wire_msg *m,
    struct err *e)
{
	struct frame_view f;
	struct buf missing;
	uint8_t *plain;
	int rc = -1;

	v->frames = m->request;
	v->s->frames++;
	v->s->frame_bytes += m->size;
	if (v->s->die_after && v->s->frames >= v->s->die_after)
		return err_set(e, ERR_CANCELLED, "told to die");
	if (!frame_hash_ok(m->body, m->size) ||
	    frame_parse(&f, m->body, m->size, e) != 0)
		return err_set(e, ERR_CORRUPT, "a bad frame");
	if (f.object_count > 1 && f.plain_size > v->s->largest_group)
		v->s->largest_group = f.plain_size;
	plain = malloc(f.plain_size);
	ck_assert_ptr_nonnull(plain);
	buf_init(&missing, 32 * PROTO_MISSING_MAX);
	if (frame_unpack(&f, plain, e) != 0 ||
	    frame_check_objects(&f, plain, e) != 0)
		goto out;
	collect_missing(v, &f, &missing);
	if (missing.size > 0) {
		v->s->missing_sent++;
		rc = say(v, MSG_MISSING, m->request, missing.data,
		    missing.size, e);
	} else {
		store_frame(v, &f, plain);
		rc = 0;
	}
out:
	buf_release(&missing);
	free(plain);
	return rc;
}

static int send_ack(struct serving *v, struct err *e)
{
	uint8_t body[4];

	le32_put(body, v->frames);
	return say(v, MSG_ACK, 0, body, sizeof(body), e);
}

static int on_commit(struct serving *v, struct err *e,
    const struct wire_msg *m)
{
	uint8_t body[SNAPSHOT_RECORD_SIZE];
	struct snapshot_record *r;
	struct msg_commit c;

	if (msg_commit_get(&c, m->body, m->size, e) != 0)
		return -1;
	ck_assert_uint_eq(c.frames, v->frames);
	if (send_ack(v, e) != 0)
		return -1;
	if (!fake_find(v->s, &c.root) || !fake_find(v->s, &c.facts)) {
		v->s->missing_sent++;
		return say(v, MSG_MISSING, 0, c.root.bytes, ID_SIZE, e);
	}
	fake_snapshot(v->s, &c.root);
	r = &v->s->snapshots[v->s->snapshot_count - 1];
	memcpy(r->id, v->snapshot, sizeof(r->id));
	r->facts = c.facts;
	r->flags = (uint8_t)c.flags;
	r->files = c.files;
	r->bytes = c.bytes;
	r->new_bytes = c.new_bytes;
	snapshot_record_put(body, r);
	return say(v, MSG_COMMITTED, 0, body, sizeof(body), e);
}

static int on_snapshots(struct serving *v, const struct wire_msg *m,
    struct err *e)
{
	uint8_t body[SNAPSHOT_RECORD_SIZE], end[4];

	for (size_t i = 0; i < v->s->snapshot_count; i++) {
		snapshot_record_put(body, &v->s->snapshots[i]);
		if (say(v, MSG_SNAPSHOT, m->request, body, sizeof(body),
		    e) != 0)
			return -1;
	}
	le32_put(end, (uint32_t)v->s->snapshot_count);
	return say(v, MSG_END, m->request, end, sizeof(end), e);
}

/* One object in a frame of its own. */
static int give(struct serving *v, uint32_t request, struct fake_object *o,
    struct err *e)
{
	struct frame_builder *b = NULL;
	uint8_t *data = malloc(o->size);
	struct buf out;
	int rc = -1;

	ck_assert_ptr_nonnull(data);
	memcpy(data, o->data, o->size);
	if (o->lie)
		data[o->size / 2] ^= 1;
	o->given++;
	buf_init(&out, FRAME_STORED_MAX);
	if (frame_builder_new(&b, e) == 0 && frame_builder_add(b, &o->id,
	    o->type, data, o->size, o->refs, o->ref_count, e) == 0 &&
	    frame_builder_finish(b, CODEC_LZ4, 0, &out, e) == 0)
		rc = say(v, MSG_OBJECTS, request, out.data, out.size, e);
	frame_builder_free(b);
	buf_release(&out);
	free(data);
	return rc;
}

static int on_fetch(struct serving *v, const struct wire_msg *m,
    struct err *e)
{
	uint32_t lost = 0;
	struct buf end;
	struct id id;

	v->s->fetch_requests++;
	if (v->s->give_delay_us)
		usleep(v->s->give_delay_us);
	buf_init(&end, 4 + 33 * PROTO_FETCH_MAX);
	buf_le32(&end, 0);
	for (size_t i = 0; i < m->size / ID_SIZE; i++) {
		struct fake_object *o;

		memcpy(id.bytes, m->body + i * ID_SIZE, ID_SIZE);
		o = fake_find(v->s, &id);
		if (!o) {
			buf_u8(&end, (uint8_t)err_wire(ERR_CORRUPT));
			buf_add(&end, id.bytes, ID_SIZE);
			lost++;
		} else if (give(v, m->request, o, e) != 0) {
			buf_release(&end);
			return -1;
		}
	}
	le32_put(end.data, lost);
	return send_buf(v, MSG_FETCHED, m->request, &end, e);
}

static int take(struct serving *v, const struct wire_msg *m, struct err *e)
{
	switch (m->type) {
	case MSG_HELLO: return on_hello(v, m, e);
	case MSG_BEGIN: return on_begin(v, m, e);
	case MSG_HAVE: return on_have(v, m, e);
	case MSG_FRAME: return on_frame(v, m, e);
	case MSG_SYNC: return send_ack(v, e);
	case MSG_COMMIT: return on_commit(v, e, m);
	case MSG_SNAPSHOTS: return on_snapshots(v, m, e);
	case MSG_FETCH: return on_fetch(v, m, e);
	default: return err_set(e, ERR_CANCELLED, "bye");
	}
}

static void *serve(void *arg)
{
	struct serving v = { .s = arg };
	struct wire_msg m;
	struct err e;
	int rc;

	rc = wire_open_fd(&v.w, v.s->fd, dup(v.s->fd), NULL, &e);
	session_init(&v.state, true);
	while (rc == 0 && wire_recv(v.w, &m, &e) == 0) {
		rc = session_in(&v.state, m.type, m.request, m.body, m.size,
		    &e);
		if (rc == 0)
			rc = take(&v, &m, &e);
		if (rc != 0 && e.code != ERR_CANCELLED)
			fprintf(stderr, "fake server: %s\n", e.text);
		wire_msg_release(&m);
	}
	if (rc != 0)
		wire_abort(v.w, "done");
	wire_close(v.w);
	return NULL;
}

int fake_session(struct fake_store *s)
{
	int pair[2];

	fake_session_end(s);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	s->fd = pair[0];
	ck_assert_int_eq(pthread_create(&s->thread, NULL, serve, s), 0);
	s->running = true;
	s->sessions++;
	return pair[1];
}

void fake_session_end(struct fake_store *s)
{
	if (s->running)
		pthread_join(s->thread, NULL);
	s->running = false;
}

void fake_counts_reset(struct fake_store *s)
{
	s->frames = s->have_ids = s->have_requests = s->fetch_requests = 0;
	s->missing_sent = s->duplicates = 0;
	s->frame_bytes = 0;
	for (size_t i = 0; i < FAKE_SLOTS; i++)
		for (struct fake_object *o = s->slots[i]; o; o = o->next)
			o->received = o->given = 0;
}
