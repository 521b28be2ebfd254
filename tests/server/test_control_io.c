/*
 * Frames of the control socket: what is sent arrives, what is malformed is
 * refused, and nothing of it can read beyond the frame.  Method: a socket pair;
 * a request cut at every length and with every byte changed.
 */
#include "server/control.h"

#include "base/buf.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

Suite *server_control_io_suite(void);

static char *const words[] = { (char *)(uintptr_t)"client",
	(char *)(uintptr_t)"add", (char *)(uintptr_t)"web 1",
	(char *)(uintptr_t)"" };

START_TEST(a_frame_arrives)
{
	struct buf body;
	struct err e;
	uint8_t type;
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	buf_init(&body, CONTROL_FRAME_MAX);
	ck_assert_int_eq(control_send(ends[0], CONTROL_OUT, "hello", 5, &e),
	    0);
	ck_assert_int_eq(control_send(ends[0], CONTROL_AWAY, NULL, 0, &e), 0);
	ck_assert_int_eq(control_recv(ends[1], &type, &body, &e), 0);
	ck_assert_int_eq(type, CONTROL_OUT);
	ck_assert_uint_eq(body.size, 5);
	ck_assert_mem_eq(body.data, "hello", 5);
	ck_assert_int_eq(control_recv(ends[1], &type, &body, &e), 0);
	ck_assert_int_eq(type, CONTROL_AWAY);
	ck_assert_uint_eq(body.size, 0);
	close(ends[0]);
	ck_assert_int_eq(control_recv(ends[1], &type, &body, &e), -1);
	ck_assert_int_eq(e.code, ERR_UNAVAILABLE);
	close(ends[1]);
	buf_release(&body);
}
END_TEST

START_TEST(a_frame_of_a_wild_size_is_refused)
{
	static const uint8_t sizes[][5] = {
		{ 0, 0, 0, 0, 1 }, { 255, 255, 255, 255, 1 },
		{ 1, 0, 16, 0, 1 },
	};
	struct buf body;
	struct err e;
	uint8_t type;
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	buf_init(&body, CONTROL_FRAME_MAX);
	ck_assert_int_eq(write(ends[0], sizes[_i], 5), 5);
	ck_assert_int_eq(control_recv(ends[1], &type, &body, &e), -1);
	ck_assert_int_eq(e.code, ERR_PROTOCOL);
	close(ends[0]);
	close(ends[1]);
	buf_release(&body);
}
END_TEST

static void request(struct buf *b)
{
	buf_init(b, CONTROL_FRAME_MAX);
	control_run_put(b, "/some/where", "ssh-ed25519 AAAA", 4, words);
}

START_TEST(a_request_is_read_back)
{
	struct control_run_request r;
	struct buf b;
	struct err e;

	request(&b);
	ck_assert_int_eq(control_run_get(&r, &b, &e), 0);
	ck_assert_str_eq(r.cwd, "/some/where");
	ck_assert_str_eq(r.attached, "ssh-ed25519 AAAA");
	ck_assert_int_eq(r.argc, 4);
	for (int i = 0; i < 4; i++)
		ck_assert_str_eq(r.argv[i], words[i]);
	ck_assert_ptr_null(r.argv[4]);
	free(r.argv);
	buf_release(&b);
}
END_TEST

START_TEST(a_request_cut_anywhere_is_refused)
{
	struct control_run_request r;
	struct buf whole;
	struct err e;

	request(&whole);
	for (size_t size = 0; size < whole.size; size++) {
		struct buf cut;

		buf_init(&cut, CONTROL_FRAME_MAX);
		buf_add(&cut, whole.data, size);	/* exact: valgrind */
		ck_assert_int_eq(control_run_get(&r, &cut, &e), -1);
		ck_assert_int_eq(e.code, ERR_PROTOCOL);
		buf_release(&cut);
	}
	buf_release(&whole);
}
END_TEST

START_TEST(a_changed_byte_never_leads_outside)
{
	struct control_run_request r;
	struct buf b;
	struct err e;

	request(&b);
	for (size_t i = 0; i < b.size; i++) {
		for (int v = 0; v < 256; v += 5) {
			uint8_t was = b.data[i];

			b.data[i] = (uint8_t)v;
			if (control_run_get(&r, &b, &e) == 0) {
				for (int k = 0; k < r.argc; k++)
					ck_assert_uint_lt(strlen(r.argv[k]),
					    b.size);
				free(r.argv);
			}
			b.data[i] = was;
		}
	}
	buf_release(&b);
}
END_TEST

Suite *server_control_io_suite(void)
{
	Suite *s = suite_create("server/control_io");
	TCase *t = tcase_create("control_io");

	tcase_add_test(t, a_frame_arrives);
	tcase_add_loop_test(t, a_frame_of_a_wild_size_is_refused, 0, 3);
	tcase_add_test(t, a_request_is_read_back);
	tcase_add_test(t, a_request_cut_anywhere_is_refused);
	tcase_add_test(t, a_changed_byte_never_leads_outside);
	suite_add_tcase(s, t);
	return s;
}
