/*
 * One owner, also where two hosts see the same disks: an owner that beats keeps
 * others out, one that is gone lets them in after four beats, one that was
 * passed over stops before it writes.  Method: simulated disks that several
 * "machines" open; the record of another host put on the disks by hand; a
 * child process as an owner on this machine.
 */
#include "raid/fmt_owner.h"
#include "raid/machine.h"
#include "tests/raid/bed.h"

#include "base/clock.h"
#include "base/warn.h"

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BEAT 100u	/* ms */

static struct array_machine host(char name)
{
	struct array_machine m = { .pid = 1000u + (unsigned char)name,
		.host = { 'h', 'o', 's', 't', '-', name } };

	memset(m.machine, name, sizeof(m.machine));
	memset(m.boot, name + 1, sizeof(m.boot));
	return m;
}

struct opening {
	struct array_open o;
	struct array_machine m;
	atomic_bool cancel;
	struct warn_sink warn;
	char warned[600];
	struct array *a;
	struct err e;
	int rc;
	uint64_t took_ms;
};

static void hear(void *arg, const uint8_t *path, size_t size,
    const char *text)
{
	struct opening *p = arg;

	(void)path;
	(void)size;
	snprintf(p->warned, sizeof(p->warned), "%s", text);
}

static void opening_init(struct opening *p, struct sim *s, char name,
    unsigned beat_ms)
{
	memset(p, 0, sizeof(*p));
	p->m = host(name);
	warn_init(&p->warn, hear, p);
	p->o = (struct array_open){ .call_ms = 2000, .machine = &p->m,
		.beat_ms = beat_ms, .warn = &p->warn, .cancel = &p->cancel,
		.dev_open = sim_dev_open, .dev_arg = s };
}

static int open_now(struct opening *p, struct sim *s, uint64_t skip)
{
	uint64_t before = clock_mono_ms();

	p->o.devs = sim_devs(s, skip, &p->o.dev_count);
	p->rc = array_open(&p->a, &p->o, &p->e);
	p->took_ms = clock_mono_ms() - before;
	free(p->o.devs);
	return p->rc;
}

static void must_open(struct opening *p, struct sim *s, char name,
    unsigned beat_ms)
{
	opening_init(p, s, name, beat_ms);
	ck_assert_msg(open_now(p, s, 0) == 0, "%s", p->e.text);
}

/* An array on these disks, cleanly closed. */
static struct sim *disks(unsigned count, unsigned parity)
{
	struct bed *r = bed_new(count, parity, BED_DISK);
	struct sim *s = sim_clone(r->sim);

	sim_free(s);
	bed_fill(r, 1, 4, 60000);
	bed_close(r);
	s = sim_clone(r->sim);
	bed_free(r);
	return s;
}

static bool record_of(struct sim *s, unsigned disk, struct owner_rec *r)
{
	uint8_t block[OWNER_SIZE];
	struct err e;

	sim_peek(s, disk, MEMBER_OWNER_AT, block, sizeof(block));
	return owner_get(r, block, sizeof(block), &e) == 0;
}

/* As if this host had written it. */
static void record_forge(struct sim *s, unsigned disk, const struct array *a,
    char name)
{
	struct owner_rec r = { .counter = 5, .interval_ms = BEAT };
	uint8_t block[OWNER_SIZE];

	memcpy(r.array, a->uuid, sizeof(r.array));
	memset(r.owner, name, sizeof(r.owner));
	r.by = host(name);
	owner_put(block, &r);
	sim_poke(s, disk, MEMBER_OWNER_AT, block, sizeof(block));
}

/* One fact, durable. */
static int put(struct array *a, struct err *e)
{
	struct flush_result result;
	struct array_cut *c;

	if (array_cut_begin(a, &c, e) != 0)
		return -1;
	OK(array_cut_kv(c, "k", 1, "v", 1, E));
	array_cut_end(c);
	return array_flush(a, c, &result, e);
}

static bool stops_soon(struct array *a)
{
	struct array_info info = { .read_only = false };

	for (int i = 0; i < 200 && !info.read_only; i++) {
		array_info(a, &info);
		(void)poll(NULL, 0, 20);
	}
	return info.read_only;
}

/* ---- coming and going ------------------------------------------------- */

START_TEST(a_clean_end_leaves_no_record)	/* _i: shape */
{
	const struct bed_shape *shape = &bed_shapes[_i];
	struct sim *s = disks(shape->disks, shape->parity);
	struct owner_rec r;
	struct opening p;

	for (unsigned i = 0; i < shape->disks; i++)
		ck_assert(!record_of(s, i, &r));
	must_open(&p, s, 'a', 0);
	for (unsigned i = 0; i < shape->disks; i++) {
		ck_assert(record_of(s, i, &r));
		ck_assert_str_eq(r.by.host, "host-a");
		ck_assert_uint_eq(r.interval_ms, 5000);
	}
	OK(array_close(p.a, E));
	for (unsigned i = 0; i < shape->disks; i++)
		ck_assert(!record_of(s, i, &r));
	must_open(&p, s, 'b', 0);
	ck_assert_uint_lt(p.took_ms, 4000);
	OK(array_close(p.a, E));
	sim_free(s);
}
END_TEST

START_TEST(after_a_crash_the_same_machine_opens_at_once)
{
	struct sim *s = disks(3, 1);
	struct opening p;

	must_open(&p, s, 'a', 0);
	array_abandon(p.a);
	opening_init(&p, s, 'a', 0);
	p.m.pid++;
	if (_i == 1)
		memset(p.m.boot, 7, sizeof(p.m.boot));	/* booted anew */
	if (_i == 2)	/* a machine without an id: the boot tells */
		memset(p.m.machine, 7, sizeof(p.m.machine));
	ck_assert_msg(open_now(&p, s, 0) == 0, "%s", p.e.text);
	ck_assert_uint_lt(p.took_ms, 4000);
	ck_assert_uint_eq(warn_count(&p.warn), 0);
	OK(put(p.a, E));
	OK(array_close(p.a, E));
	sim_free(s);
}
END_TEST

START_TEST(another_host_waits_four_beats_after_a_crash)
{
	struct sim *s = disks(4, 2);
	struct owner_rec r;
	struct opening p;

	must_open(&p, s, 'a', BEAT);
	array_abandon(p.a);
	must_open(&p, s, 'b', 0);
	ck_assert_uint_ge(p.took_ms, 4 * BEAT);
	ck_assert_ptr_nonnull(strstr(p.warned, "host-a"));
	ck_assert(record_of(s, 0, &r));
	ck_assert_str_eq(r.by.host, "host-b");
	OK(put(p.a, E));
	OK(array_close(p.a, E));
	sim_free(s);
}
END_TEST

/* Nothing but owner records differs. */
static void same_but_records(struct sim *a, struct sim *b)
{
	uint8_t block[OWNER_SIZE];
	uint64_t offset = 0;
	unsigned disk = 0;

	for (unsigned i = 0; i < sim_disks(a); i++) {
		sim_peek(a, i, MEMBER_OWNER_AT, block, sizeof(block));
		sim_poke(b, i, MEMBER_OWNER_AT, block, sizeof(block));
	}
	ck_assert_msg(sim_same_all(a, b, &disk, &offset),
	    "disk %u differs at %llu", disk, (unsigned long long)offset);
}

START_TEST(a_second_host_is_refused_while_the_first_beats)
{
	struct sim *s = disks(bed_shapes[_i].disks, bed_shapes[_i].parity);
	struct opening a, b;
	struct sim *before;

	must_open(&a, s, 'a', BEAT);
	before = sim_clone(s);
	opening_init(&b, s, 'b', BEAT);
	ck_assert_int_eq(open_now(&b, s, 0), -1);
	ck_assert_int_eq(b.e.code, ERR_BUSY);
	ck_assert_ptr_nonnull(strstr(b.e.text, "host-a"));
	ck_assert_ptr_nonnull(strstr(b.e.text, "1097"));
	ck_assert_ptr_nonnull(strstr(b.e.text, "end it there"));
	OK(put(a.a, E));	/* and it goes on */
	array_abandon(a.a);
	must_open(&a, before, 'a', 0);
	array_abandon(a.a);
	sim_free(before);
	sim_free(s);
}
END_TEST

START_TEST(a_refused_host_writes_nothing)
{
	struct sim *s = disks(3, 1), *before;
	struct opening a, b;

	must_open(&a, s, 'a', BEAT);
	before = sim_clone(s);
	opening_init(&b, s, 'b', BEAT);
	ck_assert_int_eq(open_now(&b, s, 0), -1);
	array_abandon(a.a);	/* no more beats */
	same_but_records(s, before);
	sim_free(before);
	sim_free(s);
}
END_TEST

START_TEST(who_reads_only_is_told_and_writes_nothing)
{
	struct sim *s = disks(3, 1), *before;
	struct opening a, b;

	must_open(&a, s, 'a', 0);
	array_abandon(a.a);
	before = sim_clone(s);
	opening_init(&b, s, 'b', BEAT);
	b.o.read_only = true;
	ck_assert_msg(open_now(&b, s, 0) == 0, "%s", b.e.text);
	ck_assert_uint_lt(b.took_ms, 4000);
	ck_assert_ptr_nonnull(strstr(b.warned, "host-a"));
	OK(array_close(b.a, E));
	ck_assert(sim_same_all(s, before, NULL, NULL));
	sim_free(before);
	sim_free(s);
}
END_TEST

static void *cancel_soon(void *arg)
{
	struct opening *p = arg;

	(void)poll(NULL, 0, 200);
	atomic_store(&p->cancel, true);
	return NULL;
}

START_TEST(the_wait_for_another_host_can_be_cancelled)
{
	struct sim *s = disks(3, 1);
	struct opening p;
	pthread_t t;

	must_open(&p, s, 'a', 0);	/* 20 s of waiting */
	array_abandon(p.a);
	opening_init(&p, s, 'b', 0);
	ck_assert_int_eq(pthread_create(&t, NULL, cancel_soon, &p), 0);
	ck_assert_int_eq(open_now(&p, s, 0), -1);
	ck_assert_int_eq(p.e.code, ERR_CANCELLED);
	ck_assert_uint_lt(p.took_ms, 4000);
	pthread_join(t, NULL);
	sim_free(s);
}
END_TEST

static void *open_thread(void *arg)
{
	struct opening *p = arg;

	(void)open_now(p, p->o.dev_arg, 0);
	return NULL;
}

START_TEST(of_two_that_take_over_at_once_one_at_most_goes_on)
{
	struct sim *s = disks(4, 1);
	struct opening p[2];
	unsigned writing = 0;
	pthread_t t[2];
	struct err e;

	must_open(&p[0], s, 'a', BEAT);
	array_abandon(p[0].a);
	for (int i = 0; i < 2; i++) {
		opening_init(&p[i], s, (char)('b' + i), BEAT);
		ck_assert_int_eq(pthread_create(&t[i], NULL, open_thread,
		    &p[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < 2; i++)
		writing += p[i].rc == 0 && put(p[i].a, &e) == 0;
	ck_assert_uint_le(writing, 1);
	for (int i = 0; i < 2; i++)
		if (p[i].rc == 0)
			array_abandon(p[i].a);
	sim_free(s);
}
END_TEST

/* ---- taken over ------------------------------------------------------- */

START_TEST(an_owner_that_was_passed_over_does_not_flush)	/* _i: disk */
{
	struct sim *s = disks(4, 1), *before;
	struct owner_rec r;
	struct opening p;
	struct err e;

	must_open(&p, s, 'a', 60000);	/* never beats in this test */
	OK(put(p.a, E));
	record_forge(s, (unsigned)_i, p.a, 'b');	/* one is enough */
	before = sim_clone(s);
	ck_assert_int_eq(put(p.a, &e), -1);
	ck_assert_int_eq(e.code, ERR_CONFLICT);
	ck_assert_ptr_nonnull(strstr(e.text, "host-b"));
	ck_assert_ptr_nonnull(strstr(e.text, "1098"));
	ck_assert_int_eq(put(p.a, &e), -1);
	ck_assert_int_eq(e.code, ERR_CONFLICT);
	ck_assert_int_eq(array_close(p.a, &e), -1);
	ck_assert(record_of(s, (unsigned)_i, &r));
	ck_assert_str_eq(r.by.host, "host-b");
	same_but_records(s, before);
	sim_free(before);
	sim_free(s);
}
END_TEST

START_TEST(an_idle_owner_that_was_passed_over_stops)
{
	struct sim *s = disks(3, 1);
	struct opening p;
	struct err e;

	must_open(&p, s, 'a', BEAT);
	record_forge(s, 1, p.a, 'b');
	ck_assert(stops_soon(p.a));
	for (int i = 0; i < 100 && warn_count(&p.warn) == 0; i++)
		(void)poll(NULL, 0, 20);
	ck_assert_ptr_nonnull(strstr(p.warned, "host-b"));
	ck_assert_int_eq(put(p.a, &e), -1);
	ck_assert_int_eq(e.code, ERR_CONFLICT);
	array_abandon(p.a);
	sim_free(s);
}
END_TEST

START_TEST(an_owner_whose_record_is_gone_everywhere_stops)
{
	struct sim *s = disks(3, 1);
	struct opening p;
	struct err e;

	must_open(&p, s, 'a', 60000);
	for (unsigned i = 0; i < 2; i++)
		sim_zero(s, i, MEMBER_OWNER_AT, OWNER_SIZE);
	OK(put(p.a, E));	/* on one it is still ours */
	sim_zero(s, 2, MEMBER_OWNER_AT, OWNER_SIZE);
	ck_assert_int_eq(put(p.a, &e), -1);
	ck_assert_int_eq(e.code, ERR_CONFLICT);
	ck_assert_ptr_nonnull(strstr(e.text, "gone from every member"));
	array_abandon(p.a);
	sim_free(s);
}
END_TEST

START_TEST(damaged_records_stop_nothing_and_are_written_anew)
{
	struct sim *s = disks(3, 1);
	struct owner_rec r;
	struct opening p;

	must_open(&p, s, 'a', BEAT);
	for (unsigned i = 0; i < 3; i++)
		sim_flip(s, i, MEMBER_OWNER_AT + 200, 1);
	sim_unreadable(s, 1, MEMBER_OWNER_AT, OWNER_SIZE);
	OK(put(p.a, E));
	for (int i = 0; i < 100 && !record_of(s, 0, &r); i++)
		(void)poll(NULL, 0, 20);
	for (unsigned i = 0; i < 3; i++)
		ck_assert(record_of(s, i, &r));
	OK(put(p.a, E));
	OK(array_close(p.a, E));
	sim_free(s);
}
END_TEST

/* All reads of records hang, as if we were stopped: only the guard looks. */
START_TEST(no_strip_is_written_once_the_beat_is_late_and_another_has_it)
{
	struct sim *s = disks(2, 1);
	struct sim_counts before, after;
	static uint8_t frame[100000];
	struct opening p;
	struct place place;
	struct err e = { 0 };

	must_open(&p, s, 'a', 5 * BEAT);
	sim_arm(s, &(struct sim_fault){ .kind = SIM_HANG, .disk = 0,
	    .ops = SIM_READ, .times = 1 });
	sim_arm(s, &(struct sim_fault){ .kind = SIM_HANG, .disk = 1,
	    .ops = SIM_READ, .times = 1 });
	for (int i = 0; i < 100 && sim_hanging(s) < 2; i++)
		(void)poll(NULL, 0, BEAT);
	record_forge(s, 1, p.a, 'b');
	sim_counts(s, 1, &before);
	for (int i = 0; i < 12; i++)
		if (array_append(p.a, SEG_DATA, frame, sizeof(frame), 0,
		    &place, &e) != 0)
			break;
	ck_assert(stops_soon(p.a));
	sim_counts(s, 1, &after);
	ck_assert_uint_eq(before.written_bytes, after.written_bytes);
	ck_assert_int_eq(put(p.a, &e), -1);
	ck_assert_int_eq(e.code, ERR_CONFLICT);
	sim_release(s);
	array_abandon(p.a);
	sim_free(s);
}
END_TEST

START_TEST(a_member_that_hangs_does_not_silence_the_owner_on_others)
{
	struct sim *s = disks(4, 1);
	struct opening a, b;

	must_open(&a, s, 'a', BEAT);
	sim_arm(s, &(struct sim_fault){ .kind = SIM_HANG, .disk = 0,
	    .ops = SIM_READ, .times = 1 });
	for (int i = 0; i < 100 && sim_hanging(s) == 0; i++)
		(void)poll(NULL, 0, BEAT);
	opening_init(&b, s, 'b', BEAT);
	ck_assert_int_eq(open_now(&b, s, 1), -1);
	ck_assert_int_eq(b.e.code, ERR_BUSY);
	ck_assert_ptr_nonnull(strstr(b.e.text, "host-a"));
	sim_release(s);
	array_abandon(a.a);
	sim_free(s);
}
END_TEST

/* ---- members that come later ------------------------------------------ */

START_TEST(a_replacement_gets_the_record)
{
	struct sim *s = disks(3, 1);
	unsigned disk = sim_add(s, BED_DISK);
	struct owner_rec r;
	struct opening p;

	opening_init(&p, s, 'a', BEAT);
	ck_assert_int_eq(open_now(&p, s, UINT64_C(1) << disk), 0);
	record_forge(s, disk, p.a, 'b');	/* from an earlier life */
	OK(array_replace_begin(p.a, "sim:0", sim_dev(s, disk), NULL, E));
	ck_assert(record_of(s, disk, &r));
	ck_assert_str_eq(r.by.host, "host-a");
	OK(put(p.a, E));
	OK(array_close(p.a, E));
	ck_assert(!record_of(s, disk, &r));
	sim_free(s);
}
END_TEST

START_TEST(a_member_that_was_away_is_no_foreign_host)
{
	struct sim *s = disks(3, 1);
	struct opening p;

	must_open(&p, s, 'a', BEAT);
	array_abandon(p.a);		/* its record stays on disk 2 */
	opening_init(&p, s, 'a', 0);
	ck_assert_int_eq(open_now(&p, s, 4), 0);
	OK(put(p.a, E));
	OK(array_close(p.a, E));
	must_open(&p, s, 'a', 0);
	OK(put(p.a, E));
	OK(array_close(p.a, E));
	sim_free(s);
}
END_TEST

/* ---- this machine ----------------------------------------------------- */

/* A process that says who it is and then waits to be ended. */
static pid_t child_owner(struct array_machine *m)
{
	int fd[2];
	pid_t pid;
	struct err e;

	ck_assert_int_eq(pipe(fd), 0);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		if (machine_self(m, &e) != 0 ||
		    write(fd[1], m, sizeof(*m)) != (ssize_t)sizeof(*m))
			_exit(1);
		for (;;)
			pause();
	}
	ck_assert_int_eq(read(fd[0], m, sizeof(*m)), sizeof(*m));
	close(fd[0]);
	close(fd[1]);
	return pid;
}

START_TEST(a_live_process_of_this_machine_keeps_others_out)
{
	struct sim *s = disks(3, 1);
	struct opening a, b;
	char pid_text[16];
	siginfo_t info;
	pid_t pid;

	opening_init(&a, s, 'a', 0);
	pid = child_owner(&a.m);
	ck_assert_msg(open_now(&a, s, 0) == 0, "%s", a.e.text);
	array_abandon(a.a);

	opening_init(&b, s, 'b', 0);
	b.o.machine = NULL;
	ck_assert_int_eq(open_now(&b, s, 0), -1);
	ck_assert_int_eq(b.e.code, ERR_BUSY);
	ck_assert_uint_lt(b.took_ms, 4000);
	snprintf(pid_text, sizeof(pid_text), "%d", (int)pid);
	ck_assert_ptr_nonnull(strstr(b.e.text, pid_text));

	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info,
	    WEXITED | WNOWAIT), 0);
	ck_assert_msg(open_now(&b, s, 0) == 0, "%s", b.e.text);	/* zombie */
	ck_assert_uint_lt(b.took_ms, 4000);
	OK(array_close(b.a, E));
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	sim_free(s);
}
END_TEST

START_TEST(a_number_that_another_process_has_now_is_not_the_owner)
{
	struct array_machine self, other;
	pid_t pid = child_owner(&other);
	struct err e;

	ck_assert_int_eq(machine_self(&self, &e), 0);
	ck_assert(machine_same(&self, &other));
	ck_assert(machine_runs(&other, &self));
	ck_assert(!machine_runs(&self, &self));
	other.started++;
	ck_assert(!machine_runs(&other, &self));
	other.started--;
	other.boot[0] ^= 1;
	ck_assert(!machine_runs(&other, &self));
	ck_assert_int_eq(kill(pid, SIGKILL), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
	other.boot[0] ^= 1;
	ck_assert(!machine_runs(&other, &self));
}
END_TEST

Suite *raid_heartbeat_suite(void);
Suite *raid_heartbeat_suite(void)
{
	Suite *s = suite_create("raid/heartbeat");
	TCase *t = tcase_create("owners");

	tcase_add_loop_test(t, a_clean_end_leaves_no_record, 0, BED_SHAPES);
	tcase_add_loop_test(t, after_a_crash_the_same_machine_opens_at_once,
	    0, 3);
	tcase_add_test(t, another_host_waits_four_beats_after_a_crash);
	tcase_add_loop_test(t, a_second_host_is_refused_while_the_first_beats,
	    0, BED_SHAPES);
	tcase_add_test(t, a_refused_host_writes_nothing);
	tcase_add_test(t, who_reads_only_is_told_and_writes_nothing);
	tcase_add_test(t, the_wait_for_another_host_can_be_cancelled);
	tcase_add_test(t, of_two_that_take_over_at_once_one_at_most_goes_on);
	tcase_add_loop_test(t, an_owner_that_was_passed_over_does_not_flush,
	    0, 4);
	tcase_add_test(t, an_idle_owner_that_was_passed_over_stops);
	tcase_add_test(t, an_owner_whose_record_is_gone_everywhere_stops);
	tcase_add_test(t, damaged_records_stop_nothing_and_are_written_anew);
	tcase_add_test(t,
	    no_strip_is_written_once_the_beat_is_late_and_another_has_it);
	tcase_add_test(t,
	    a_member_that_hangs_does_not_silence_the_owner_on_others);
	tcase_add_test(t, a_replacement_gets_the_record);
	tcase_add_test(t, a_member_that_was_away_is_no_foreign_host);
	tcase_add_test(t, a_live_process_of_this_machine_keeps_others_out);
	tcase_add_test(t,
	    a_number_that_another_process_has_now_is_not_the_owner);
	suite_add_tcase(s, t);
	return s;
}
