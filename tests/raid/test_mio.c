/*
 * Device calls in lanes: they end in time, whatever the device does; what was
 * given up keeps its buffer and delays nobody twice.  Method: simulated disks
 * that hang, are slow or fail.
 */
#include "base/clock.h"
#include "raid/dev.h"
#include "raid/mio.h"
#include "tests/support/dev_sim.h"

#include <check.h>
#include <string.h>
#include <time.h>

#define SIZE (UINT64_C(16) << 20)
#define LIMIT 150u	/* ms */

static struct mio *open_disk(struct sim *s, unsigned disk)
{
	struct mio *m;
	struct err e;

	ck_assert_msg(mio_new(&m, sim_dev(s, disk), LIMIT, &e) == 0, "%s",
	    e.text);
	return m;
}

static void pause_ms(unsigned ms)
{
	struct timespec ts = { .tv_nsec = (long)ms * 1000000 };

	nanosleep(&ts, NULL);
}

START_TEST(what_is_written_is_read_back)
{
	struct sim *s = sim_new(1, SIZE);
	struct mio *m = open_disk(s, 0);
	uint8_t out[8192], in[8192];
	struct err e;

	memset(out, 0x5a, sizeof(out));
	ck_assert_int_eq(mio_write(m, out, sizeof(out), 65536, &e), 0);
	ck_assert_int_eq(mio_flush(m, &e), 0);
	ck_assert_int_eq(mio_read(m, in, sizeof(in), 65536, true, &e), 0);
	ck_assert_mem_eq(in, out, sizeof(in));
	mio_free(m);
	mio_free(NULL);
	sim_free(s);
}
END_TEST

START_TEST(many_requests_run_and_each_tells_its_own_result)
{
	struct sim *s = sim_new(3, SIZE);
	struct sim_fault f = { .kind = SIM_ERROR, .disk = 1, .ops = SIM_WRITE,
		.offset = 10 * 4096, .size = 4096 };
	struct mio *m[3];
	struct mio_req reqs[300];
	struct iobuf *b = iobuf_new(4096);

	for (unsigned i = 0; i < 3; i++)
		m[i] = open_disk(s, i);
	sim_arm(s, &f);
	for (unsigned i = 0; i < 300; i++)
		reqs[i] = (struct mio_req){ .mio = m[i % 3], .op = MIO_WRITE,
			.buf = b, .size = 4096, .offset = i / 3 * 4096 };
	mio_run(reqs, 300);
	for (unsigned i = 0; i < 300; i++)
		ck_assert_int_eq(reqs[i].rc, i == 31 ? -1 : 0);
	ck_assert_int_eq(reqs[31].e.code, ERR_IO);
	ck_assert_uint_eq(atomic_load(&b->refs), 1);
	iobuf_unref(b);
	for (unsigned i = 0; i < 3; i++)
		mio_free(m[i]);
	sim_free(s);
}
END_TEST

START_TEST(a_call_that_hangs_is_given_up_once)
{
	struct sim *s = sim_new(1, SIZE);
	struct sim_fault f = { .kind = SIM_HANG, .disk = 0, .ops = SIM_WRITE,
		.times = 1 };
	struct mio *m = open_disk(s, 0);
	uint8_t block[4096] = { 1 };
	uint64_t began = clock_mono_ms();
	struct err e;

	sim_arm(s, &f);
	ck_assert_int_eq(mio_write(m, block, 4096, 0, &e), -1);
	ck_assert_int_eq(e.code, ERR_TIMEOUT);
	ck_assert_ptr_nonnull(strstr(e.text, "sim:0"));
	ck_assert(mio_stuck(m));
	for (unsigned i = 0; i < 100; i++)	/* at once */
		ck_assert_int_eq(mio_write(m, block, 4096, 0, &e), -1);
	ck_assert_int_eq(mio_flush(m, &e), -1);
	ck_assert_uint_lt(clock_mono_ms() - began, 4 * LIMIT);
	/* The other lane is free. */
	ck_assert_int_eq(mio_read(m, block, 4096, 8192, false, &e), 0);
	sim_release(s);
	for (unsigned i = 0; i < 100 && mio_stuck(m); i++)
		pause_ms(5);
	ck_assert(!mio_stuck(m));
	ck_assert_int_eq(mio_write(m, block, 4096, 0, &e), 0);
	ck_assert_uint_ge(mio_slow_ms(m), LIMIT);
	mio_free(m);
	sim_free(s);
}
END_TEST

START_TEST(what_was_given_up_in_the_queue_is_not_done_later)
{
	struct sim *s = sim_new(1, SIZE);
	struct sim_fault f = { .kind = SIM_HANG, .disk = 0, .ops = SIM_FLUSH,
		.times = 1 };
	struct mio *m = open_disk(s, 0);
	uint8_t block[4096] = { 9 }, got[4096];
	struct err e;

	sim_arm(s, &f);
	ck_assert_int_eq(mio_flush(m, &e), -1);
	ck_assert_int_eq(mio_write(m, block, 4096, 0, &e), -1);
	sim_release(s);
	for (unsigned i = 0; i < 100 && mio_stuck(m); i++)
		pause_ms(5);
	ck_assert_int_eq(mio_flush(m, &e), 0);
	ck_assert_int_eq(mio_read(m, got, 4096, 0, true, &e), 0);
	ck_assert_uint_eq(got[0], 0);
	mio_free(m);
	sim_free(s);
}
END_TEST

START_TEST(a_long_queue_on_a_slow_disk_is_no_timeout)
{
	struct sim *s = sim_new(1, SIZE);
	struct sim_fault f = { .kind = SIM_SLOW, .disk = 0, .ops = SIM_WRITE,
		.ms = 20 };
	struct mio *m = open_disk(s, 0);
	struct iobuf *b = iobuf_new(4096);
	struct mio_req reqs[20];

	sim_arm(s, &f);
	for (unsigned i = 0; i < 20; i++)
		reqs[i] = (struct mio_req){ .mio = m, .op = MIO_WRITE,
			.buf = b, .size = 4096, .offset = i * 4096 };
	mio_run(reqs, 20);	/* 400 ms in all */
	for (unsigned i = 0; i < 20; i++)
		ck_assert_int_eq(reqs[i].rc, 0);
	iobuf_unref(b);
	mio_free(m);
	sim_free(s);
}
END_TEST

START_TEST(a_stuck_member_can_be_left_behind)
{
	struct sim *s = sim_new(1, SIZE);
	struct sim_fault f = { .kind = SIM_HANG, .disk = 0, .ops = SIM_READ };
	struct mio *m = open_disk(s, 0);
	uint64_t began = clock_mono_ms();
	uint8_t block[4096];
	struct err e;

	sim_arm(s, &f);
	ck_assert_int_eq(mio_read(m, block, 4096, 0, false, &e), -1);
	mio_free(m);
	ck_assert_uint_lt(clock_mono_ms() - began, 5 * LIMIT);
	sim_release(s);		/* the thread ends, and frees what it held */
	pause_ms(50);
	sim_free(s);
}
END_TEST

/* The guard of the tests: the block must begin with the key. */
static int begins_with_key(const uint8_t *block, const uint8_t *key,
    struct err *e)
{
	if (memcmp(block, key, 32) == 0)
		return 0;
	return err_set(e, ERR_CONFLICT, "another key");
}

static const struct mio_guard guard = { .offset = 8192, .age_ms = 60000,
	.key = "the key, and zeros", .judge = begins_with_key };

START_TEST(a_write_behind_a_guard_that_says_no_is_not_done)
{
	struct sim *s = sim_new(1, SIZE);
	struct mio *m = open_disk(s, 0);
	uint8_t block[4096] = "something", in[4096];
	struct err e;

	ck_assert_int_eq(mio_guard_set(m, &guard, &e), 0);
	/* Never seen right: the member's own trouble.  Later: a conflict. */
	ck_assert_int_eq(mio_write(m, block, sizeof(block), 65536, &e), -1);
	ck_assert_int_eq(e.code, ERR_IO);
	mio_guard_seen(m, 1);
	ck_assert_int_eq(mio_write(m, block, sizeof(block), 65536, &e), -1);
	ck_assert_int_eq(e.code, ERR_CONFLICT);
	ck_assert_int_eq(mio_flush(m, &e), 0);	/* no write */
	ck_assert_int_eq(mio_read(m, in, sizeof(in), 65536, true, &e), 0);
	ck_assert_uint_eq(in[0], 0);
	sim_poke(s, 0, guard.offset, guard.key, sizeof(guard.key));
	ck_assert_int_eq(mio_write(m, block, sizeof(block), 65536, &e), 0);
	/* It was right a moment ago: not looked at again. */
	sim_zero(s, 0, guard.offset, 4096);
	ck_assert_int_eq(mio_write(m, block, sizeof(block), 65536, &e), 0);
	mio_free(m);
	sim_free(s);
}
END_TEST

START_TEST(a_guard_looks_again_when_it_was_not_told_for_long)
{
	struct sim *s = sim_new(1, SIZE);
	struct mio *m = open_disk(s, 0);
	struct mio_guard brief = guard;
	uint8_t block[4096] = "something";
	struct err e;

	brief.age_ms = 100;
	ck_assert_int_eq(mio_guard_set(m, &brief, &e), 0);
	mio_guard_seen(m, clock_boot_ms() + 1000);	/* as if told for 1 s */
	ck_assert_int_eq(mio_write(m, block, sizeof(block), 65536, &e), 0);
	mio_free(m);
	m = open_disk(s, 0);
	ck_assert_int_eq(mio_guard_set(m, &brief, &e), 0);
	mio_guard_seen(m, clock_boot_ms() - 101);
	ck_assert_int_eq(mio_write(m, block, sizeof(block), 65536, &e), -1);
	/* What cannot be read is no reason. */
	sim_unreadable(s, 0, guard.offset, 4096);
	ck_assert_int_eq(mio_write(m, block, sizeof(block), 65536, &e), 0);
	mio_free(m);
	sim_free(s);
}
END_TEST

START_TEST(who_does_not_want_to_wait_does_not_condemn_the_member)
{
	struct sim *s = sim_new(1, SIZE);
	struct mio *m = open_disk(s, 0);
	struct mio_req r = { .mio = m, .op = MIO_READ, .size = 4096,
		.wait_ms = 20, .buf = iobuf_new(4096) };
	uint8_t in[4096];
	struct err e;

	sim_arm(s, &(struct sim_fault){ .kind = SIM_SLOW, .disk = 0,
	    .ops = SIM_READ, .ms = 80, .times = 1 });
	mio_run(&r, 1);
	ck_assert_int_eq(r.rc, -1);
	ck_assert_int_eq(r.e.code, ERR_TIMEOUT);
	ck_assert(!mio_stuck(m));
	ck_assert_int_eq(mio_read(m, in, sizeof(in), 0, true, &e), 0);
	iobuf_unref(r.buf);
	mio_free(m);
	sim_free(s);
}
END_TEST

Suite *raid_mio_suite(void);
Suite *raid_mio_suite(void)
{
	Suite *s = suite_create("raid/mio");
	TCase *t = tcase_create("lanes");

	tcase_add_test(t, what_is_written_is_read_back);
	tcase_add_test(t, many_requests_run_and_each_tells_its_own_result);
	tcase_add_test(t, a_call_that_hangs_is_given_up_once);
	tcase_add_test(t, what_was_given_up_in_the_queue_is_not_done_later);
	tcase_add_test(t, a_long_queue_on_a_slow_disk_is_no_timeout);
	tcase_add_test(t, a_stuck_member_can_be_left_behind);
	tcase_add_test(t, a_write_behind_a_guard_that_says_no_is_not_done);
	tcase_add_test(t, a_guard_looks_again_when_it_was_not_told_for_long);
	tcase_add_test(t,
	    who_does_not_want_to_wait_does_not_condemn_the_member);
	suite_add_tcase(s, t);
	return s;
}
