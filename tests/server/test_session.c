/*
 * A session against a real store on simulated disks: a push is listed and can
 * be fetched, roles are kept, what is malformed or out of turn ends the session
 * with one sentence and nothing else, and a stopping server says so.
 *
 * Method: the session runs in a thread at one end of a socket pair, the test
 * speaks the protocol at the other.
 */
#include "server/session.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/le.h"
#include "base/wire.h"
#include "proto/fmt_frame.h"
#include "proto/fmt_tree.h"
#include "proto/msg.h"
#include "raid/array.h"
#include "server/owner.h"
#include "store/store.h"
#include "tests/support/dev_sim.h"
#include "tests/support/temp_dir.h"

#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

Suite *server_session_suite(void);

#define DISK_SIZE (UINT64_C(128) << 20)

static struct owner owner;
static struct sim *sim;
static char *dir;
static struct wire *wire;	/* the client's end */
static struct session session;
static pthread_t thread;
static int result;
static struct err result_err;

/*
 * ---- the world ------------------------------------------------------------
 */

static void *session_main(void *arg)
{
	(void)arg;
	result = session_run(&session, &result_err);
	wire_close(session.wire);
	return NULL;
}

static void add_client(const char *name, uint8_t role, bool paused)
{
	struct client_record *c = calloc(1, sizeof(*c));
	struct err e;

	snprintf(c->name, sizeof(c->name), "%s", name);
	c->role = role;
	c->paused = paused;
	c->key_count = 1;
	snprintf(c->keys[0], sizeof(c->keys[0]), "ssh-ed25519 %s", name);
	ck_assert_msg(store_client_add(owner.store, c, &e) == 0, "%s", e.text);
	free(c);
}

static void open_array(void)
{
	struct array_create make = { .parity = 1 };
	struct array_open o = { .dev_open = sim_dev_open };
	struct err e;

	sim = sim_new(3, DISK_SIZE);
	make.devs = sim_devs(sim, 0, &make.dev_count);
	ck_assert_msg(array_create(&make, &e) == 0, "%s", e.text);
	free(make.devs);
	o.dev_arg = sim;
	o.devs = sim_devs(sim, 0, &o.dev_count);
	ck_assert_msg(array_open(&owner.array, &o, &e) == 0, "%s", e.text);
	free(o.devs);
}

static void set_up(void)
{
	struct store_open s = { .flush_s = 1 };
	struct err e;

	memset(&owner, 0, sizeof(owner));
	pthread_mutex_init(&owner.config_lock, NULL);
	owner.state.config.session_idle_s = 60;
	open_array();
	dir = temp_dir_new();
	s.array = owner.array;
	s.index_dir = dir;
	ck_assert_msg(store_create(owner.array, "host key", &e) == 0, "%s",
	    e.text);
	ck_assert_msg(store_open(&owner.store, &s, &e) == 0, "%s", e.text);
	add_client("both", ROLE_PUSH | ROLE_RESTORE, false);
	add_client("pusher", ROLE_PUSH, false);
	add_client("reader", ROLE_RESTORE, false);
	add_client("paused", ROLE_PUSH | ROLE_RESTORE, true);
}

static void tear_down(void)
{
	struct err e;

	ck_assert_int_eq(store_close(owner.store, &e), 0);
	ck_assert_int_eq(array_close(owner.array, &e), 0);
	sim_free(sim);
	temp_dir_remove(dir);
	free(dir);
	pthread_mutex_destroy(&owner.config_lock);
}

static void connect_as(const char *client, bool operator)
{
	const struct wire_options o = { .send_bytes_max = 0 };
	struct err e;
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	memset(&session, 0, sizeof(session));
	session.owner = &owner;
	session.client = client;
	session.operator = operator;
	ck_assert_int_eq(wire_open_fd(&wire, ends[0], ends[0], &o, &e), 0);
	ck_assert_int_eq(wire_open_fd(&session.wire, ends[1], ends[1], &o,
	    &e), 0);
	ck_assert_int_eq(pthread_create(&thread, NULL, session_main, NULL),
	    0);
}

/* Hang up; returns what session_run() returned. */
static int hang_up(void)
{
	wire_close(wire);
	pthread_join(thread, NULL);
	return result;
}

/*
 * ---- the client's side ----------------------------------------------------
 */

static void say(uint8_t type, uint32_t request, const void *body, size_t size)
{
	struct err e;

	ck_assert_msg(wire_send(wire, type, request, NULL, 0, body, size,
	    &e) == 0, "%s", e.text);
}

/* The next message, which is of this type (ACKs before it are passed over). */
static struct wire_msg hear(uint8_t type)
{
	struct wire_msg m;
	struct err e;

	do {
		int rc = wire_recv_wait(wire, &m, 20000, &e);

		ck_assert_msg(rc == 1, "no message: %s", rc ? e.text :
		    "silence");
		if (m.type == MSG_ACK && type != MSG_ACK)
			wire_msg_release(&m);
		else
			break;
	} while (true);
	ck_assert_msg(m.type == type, "0x%02x, not 0x%02x", m.type, type);
	return m;
}

static struct msg_error hear_error(void)
{
	struct wire_msg m = hear(MSG_ERROR);
	struct msg_error got;
	struct err e;

	ck_assert_int_eq(msg_error_get(&got, m.body, m.size, &e), 0);
	ck_assert_ptr_null(strchr(got.text, '\n'));
	wire_msg_release(&m);
	return got;
}

static struct msg_welcome greet(const char *client, bool operator)
{
	const struct msg_hello h = { .version_min = 1,
	    .version_max = PROTO_VERSION, .program = "test" };
	struct msg_welcome w;
	struct wire_msg m;
	struct buf b;
	struct err e;

	connect_as(client, operator);
	buf_init(&b, 512);
	msg_hello_put(&b, &h);
	say(MSG_HELLO, 1, b.data, b.size);
	buf_release(&b);
	m = hear(MSG_WELCOME);
	ck_assert_int_eq(msg_welcome_get(&w, m.body, m.size, &e), 0);
	wire_msg_release(&m);
	return w;
}

static void begin(uint8_t number)
{
	struct msg_begin m = { .client_ns = 0 };
	struct buf b;

	memset(m.snapshot, number, sizeof(m.snapshot));
	buf_init(&b, 64);
	msg_begin_put(&b, &m);
	say(MSG_BEGIN, 7, b.data, b.size);
	buf_release(&b);
}

struct page {			/* what a builder of pages emitted last */
	struct id id;
	uint8_t plain[TREE_PAGE_MAX];
	size_t size;
};

static int keep_page(void *arg, enum object_type type, const struct id *id,
    const void *plain, size_t size, const struct id *refs, size_t ref_count,
    struct err *e)
{
	struct page *p = arg;

	(void)type;
	(void)refs;
	(void)e;
	ck_assert_uint_eq(ref_count, 0);
	p->id = *id;
	memcpy(p->plain, plain, size);
	p->size = size;
	return 0;
}

static void send_object(uint32_t number, enum object_type type,
    const struct id *id, const void *plain, size_t size)
{
	struct frame_builder *f;
	struct buf b;
	struct err e;

	buf_init(&b, FRAME_STORED_MAX);
	ck_assert_int_eq(frame_builder_new(&f, &e), 0);
	ck_assert_int_eq(frame_builder_add(f, id, type, plain, size, NULL, 0,
	    &e), 0);
	ck_assert_int_eq(frame_builder_finish(f, CODEC_LZ4, 0, &b, &e), 0);
	frame_builder_free(f);
	say(MSG_FRAME, number, b.data, b.size);
	buf_release(&b);
}

/* An empty directory and its facts: frames 1 and 2, and what to commit. */
static void send_snapshot(struct msg_commit *c)
{
	static struct page page;
	struct tree_builder *t;
	struct buf facts;
	struct err e;

	memset(c, 0, sizeof(*c));
	ck_assert_int_eq(tree_builder_new(&t, keep_page, &page, &e), 0);
	ck_assert_int_eq(tree_builder_finish(t, &c->root, &e), 0);
	tree_builder_free(t);
	ck_assert(id_equal(&c->root, &page.id));
	buf_init(&facts, FACTS_MAX);
	facts_begin(&facts);
	facts_add(&facts, FACT_PATH, "/some/where", 11);
	ck_assert_int_eq(id_of(&c->facts, OBJECT_FACTS, facts.data,
	    facts.size, &e), 0);
	send_object(1, OBJECT_TREE, &page.id, page.plain, page.size);
	send_object(2, OBJECT_FACTS, &c->facts, facts.data, facts.size);
	buf_release(&facts);
	c->frames = 2;
	c->files = 1;
}

static void commit(const struct msg_commit *c)
{
	struct buf b;

	buf_init(&b, 256);
	msg_commit_put(&b, c);
	say(MSG_COMMIT, 0, b.data, b.size);
	buf_release(&b);
}

static struct msg_commit push(uint8_t number)
{
	struct msg_commit c;
	struct wire_msg m;

	begin(number);
	m = hear(MSG_BEGUN);
	wire_msg_release(&m);
	send_snapshot(&c);
	commit(&c);
	m = hear(MSG_COMMITTED);
	wire_msg_release(&m);
	return c;
}

static uint32_t count_snapshots(void)
{
	struct wire_msg m;
	struct err e;
	uint32_t n = 0;

	say(MSG_SNAPSHOTS, 50, NULL, 0);
	for (;;) {
		ck_assert_int_eq(wire_recv_wait(wire, &m, 20000, &e), 1);
		if (m.type == MSG_END)
			break;
		ck_assert_int_eq(m.type, MSG_SNAPSHOT);
		wire_msg_release(&m);
		n++;
	}
	ck_assert_uint_eq(le32_get(m.body), n);
	wire_msg_release(&m);
	return n;
}

/*
 * ---- tests ----------------------------------------------------------------
 */

START_TEST(welcomes_with_what_a_client_needs)
{
	struct msg_welcome w = greet("both", false);

	ck_assert_uint_eq(w.version, PROTO_VERSION);
	ck_assert_uint_eq(w.role, ROLE_PUSH | ROLE_RESTORE);
	ck_assert_mem_eq(w.store, array_uuid(owner.array), 16);
	ck_assert_mem_eq(w.cut_seed, store_cut_seed(owner.store), 32);
	say(MSG_BYE, 2, NULL, 0);
	ck_assert_int_eq(hang_up(), 0);
}
END_TEST

START_TEST(a_push_is_listed_and_fetched)
{
	struct msg_commit c;
	struct wire_msg m;

	greet("both", false);
	ck_assert_uint_eq(count_snapshots(), 0);
	c = push(1);
	ck_assert_uint_eq(count_snapshots(), 1);
	say(MSG_FETCH, 60, c.root.bytes, ID_SIZE);
	m = hear(MSG_OBJECTS);
	wire_msg_release(&m);
	m = hear(MSG_FETCHED);
	ck_assert_uint_eq(le32_get(m.body), 0);
	wire_msg_release(&m);
	say(MSG_BYE, 2, NULL, 0);
	ck_assert_int_eq(hang_up(), 0);
}
END_TEST

START_TEST(a_foreign_object_is_like_none)
{
	struct msg_commit c;
	struct wire_msg m;

	greet("both", false);
	c = push(1);
	say(MSG_BYE, 2, NULL, 0);
	hang_up();
	greet("reader", false);
	ck_assert_uint_eq(count_snapshots(), 0);
	say(MSG_FETCH, 60, c.root.bytes, ID_SIZE);
	m = hear(MSG_FETCHED);
	ck_assert_uint_eq(le32_get(m.body), 1);
	ck_assert_int_eq(m.body[4], err_wire(ERR_NOT_FOUND));
	wire_msg_release(&m);
	hang_up();
}
END_TEST

START_TEST(a_push_again_is_known)
{
	struct msg_begun b;
	struct wire_msg m;
	struct err e;

	greet("both", false);
	push(1);
	begin(1);
	m = hear(MSG_BEGUN);
	ck_assert_int_eq(msg_begun_get(&b, m.body, m.size, &e), 0);
	ck_assert(b.committed);
	wire_msg_release(&m);
	hang_up();
}
END_TEST

START_TEST(sync_is_answered)
{
	struct msg_commit c;
	struct wire_msg m;
	uint32_t acked = 0;

	greet("both", false);
	begin(1);
	m = hear(MSG_BEGUN);
	wire_msg_release(&m);
	send_snapshot(&c);
	say(MSG_SYNC, 0, NULL, 0);
	while (acked < 2) {
		m = hear(MSG_ACK);
		acked = le32_get(m.body);
		wire_msg_release(&m);
	}
	say(MSG_ABORT, 0, NULL, 0);
	ck_assert_uint_eq(count_snapshots(), 0);
	hang_up();
}
END_TEST

START_TEST(a_commit_of_what_is_not_there_is_refused)
{
	struct msg_commit c = { .files = 1 };
	struct wire_msg m;

	greet("both", false);
	begin(1);
	m = hear(MSG_BEGUN);
	wire_msg_release(&m);
	memset(c.root.bytes, 7, ID_SIZE);
	memset(c.facts.bytes, 8, ID_SIZE);
	commit(&c);
	m = hear(MSG_MISSING);
	ck_assert_uint_ge(m.size, ID_SIZE);
	wire_msg_release(&m);
	hang_up();
}
END_TEST

START_TEST(roles_are_kept)
{
	struct msg_error e;
	struct id id = { { 1 } };

	greet("reader", false);
	begin(1);
	e = hear_error();
	ck_assert_int_eq(e.code, ERR_DENIED);
	ck_assert(!e.fatal);
	ck_assert_uint_eq(count_snapshots(), 0);	/* it goes on */
	hang_up();
	greet("pusher", false);
	say(MSG_FETCH, 9, id.bytes, ID_SIZE);
	e = hear_error();
	ck_assert_int_eq(e.code, ERR_DENIED);
	hang_up();
}
END_TEST

START_TEST(the_operator_may_restore_for_anyone)
{
	struct msg_welcome w = greet("pusher", true);
	struct id id = { { 1 } };
	struct wire_msg m;

	ck_assert_uint_eq(w.role, ROLE_PUSH | ROLE_RESTORE);
	say(MSG_FETCH, 9, id.bytes, ID_SIZE);
	m = hear(MSG_FETCHED);
	wire_msg_release(&m);
	hang_up();
}
END_TEST

START_TEST(a_paused_client_is_told)
{
	const struct msg_hello h = { .version_min = 1, .version_max = 1 };
	struct msg_error e;
	struct buf b;

	connect_as("paused", false);
	buf_init(&b, 512);
	msg_hello_put(&b, &h);
	say(MSG_HELLO, 1, b.data, b.size);
	buf_release(&b);
	e = hear_error();
	ck_assert_int_eq(e.code, ERR_DENIED);
	ck_assert(e.fatal);
	ck_assert_int_eq(hang_up(), -1);
}
END_TEST

START_TEST(another_version_is_told)
{
	const struct msg_hello h = { .version_min = 77, .version_max = 99 };
	struct msg_error e;
	struct buf b;

	connect_as("both", false);
	buf_init(&b, 512);
	msg_hello_put(&b, &h);
	say(MSG_HELLO, 1, b.data, b.size);
	buf_release(&b);
	e = hear_error();
	ck_assert_int_eq(e.code, ERR_VERSION);
	ck_assert_int_eq(hang_up(), -1);
}
END_TEST

START_TEST(what_is_out_of_turn_ends_the_session)
{
	struct msg_error e;

	greet("both", false);
	say(MSG_SYNC, 0, NULL, 0);
	e = hear_error();
	ck_assert_int_eq(e.code, ERR_PROTOCOL);
	ck_assert(e.fatal);
	ck_assert_int_eq(hang_up(), -1);
	ck_assert_int_eq(result_err.code, ERR_PROTOCOL);
}
END_TEST

START_TEST(a_broken_frame_ends_the_session_only)
{
	uint8_t noise[200];
	struct msg_error e;
	struct wire_msg m;

	memset(noise, 0x5a, sizeof(noise));
	greet("both", false);
	begin(1);
	m = hear(MSG_BEGUN);
	wire_msg_release(&m);
	say(MSG_FRAME, 1, noise, sizeof(noise));
	e = hear_error();
	ck_assert(e.fatal);
	ck_assert_int_eq(hang_up(), -1);
	greet("both", false);		/* another one is served */
	push(2);
	ck_assert_uint_eq(count_snapshots(), 1);
	hang_up();
}
END_TEST

START_TEST(noise_of_every_type_is_survived)	/* loop test: _i is the type */
{
	uint8_t noise[64];
	struct err e;
	struct wire_msg m;

	memset(noise, 0xa5, sizeof(noise));
	for (size_t size = 0; size <= sizeof(noise); size += 16) {
		greet("both", false);
		say((uint8_t)_i, 3, noise, size);
		if (wire_recv_wait(wire, &m, 100, &e) == 1)
			wire_msg_release(&m);
		hang_up();
	}
	greet("both", false);
	ck_assert_uint_eq(count_snapshots(), 0);
	hang_up();
}
END_TEST

START_TEST(a_stopping_server_says_so)
{
	struct msg_error e;
	uint64_t since;

	greet("both", false);
	since = clock_mono_ms();
	atomic_store(&owner.stop, true);
	e = hear_error();
	ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
	ck_assert_uint_lt(clock_mono_ms() - since, 2000);
	ck_assert_int_eq(hang_up(), -1);
}
END_TEST

START_TEST(an_idle_session_is_told_to_go)
{
	struct msg_error e;

	owner.state.config.session_idle_s = 0;
	connect_as("both", false);
	e = hear_error();
	ck_assert_int_eq(e.code, ERR_TIMEOUT);
	ck_assert_int_eq(hang_up(), -1);
}
END_TEST

Suite *server_session_suite(void)
{
	Suite *s = suite_create("server/session");
	TCase *t = tcase_create("session");

	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, welcomes_with_what_a_client_needs);
	tcase_add_test(t, a_push_is_listed_and_fetched);
	tcase_add_test(t, a_foreign_object_is_like_none);
	tcase_add_test(t, a_push_again_is_known);
	tcase_add_test(t, sync_is_answered);
	tcase_add_test(t, a_commit_of_what_is_not_there_is_refused);
	tcase_add_test(t, roles_are_kept);
	tcase_add_test(t, the_operator_may_restore_for_anyone);
	tcase_add_test(t, a_paused_client_is_told);
	tcase_add_test(t, another_version_is_told);
	tcase_add_test(t, what_is_out_of_turn_ends_the_session);
	tcase_add_test(t, a_broken_frame_ends_the_session_only);
	tcase_add_loop_test(t, noise_of_every_type_is_survived, 0x01, 0x24);
	tcase_add_test(t, a_stopping_server_says_so);
	tcase_add_test(t, an_idle_session_is_told_to_go);
	suite_add_tcase(s, t);
	return s;
}
