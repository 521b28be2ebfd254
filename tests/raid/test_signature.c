/*
 * What is on a disk is recognised, kept unless it is named, and wiped wholly
 * when it is.  Method: the very programs that make file systems and tables, as
 * far as the machine has them, on files; others made by hand, each of whose
 * places is looked at afterwards.
 */
#include "base/le.h"
#include "raid/array.h"
#include "raid/dev.h"
#include "raid/signature.h"
#include "tests/raid/log_rig.h"
#include "tests/support/dev_sim.h"
#include "tests/support/temp_dir.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (UINT64_C(320) << 20)	/* mkfs.xfs wants 300 MiB */

static char *dir;
static char path[300];

static void setup(void)
{
	int fd;

	dir = temp_dir_new();
	snprintf(path, sizeof(path), "%s/disk", dir);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	ck_assert(fd >= 0 && ftruncate(fd, SIZE) == 0);
	close(fd);
}

static void teardown(void)
{
	temp_dir_remove(dir);
	free(dir);
}

static struct dev *must_open(void)
{
	struct dev *d;
	struct err e;

	ck_assert_msg(dev_file_open(&d, path, false, &e) == 0, "%s", e.text);
	return d;
}

/* Runs the program with the disk as its last word; false: it is not here. */
static bool make(const char *program, const char *option, const char *input)
{
	int status, in[2];
	pid_t pid;

	ck_assert(pipe(in) == 0);
	pid = fork();
	if (pid == 0) {
		int null = open("/dev/null", O_WRONLY);

		dup2(in[0], 0);
		dup2(null, 1);
		dup2(null, 2);
		close(in[1]);
		setenv("PATH", "/usr/sbin:/sbin:/usr/bin:/bin", 1);
		execlp(program, program, option, path, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	/* One that is not here reads nothing. */
	if (input && write(in[1], input, strlen(input)) < 0)
		ck_assert_int_eq(errno, EPIPE);
	close(in[1]);
	ck_assert(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		return false;
	ck_assert_int_eq(status, 0);
	return true;
}

static const struct {
	const char *program, *option, *input, *type;
} foreign[] = {
	{ "mke2fs", "-Fqtext4", NULL, "ext4" },
	{ "mke2fs", "-Fqtext2", NULL, "ext2" },
	{ "mkswap", "-q", NULL, "swap" },
	{ "sfdisk", "-q", "label: dos\n,,L\n", "dos" },
	{ "mkfs.btrfs", "-q", NULL, "btrfs" },
	{ "mkfs.xfs", "-q", NULL, "xfs" },
	{ "mkfs.vfat", "-v", NULL, "vfat" },
	{ "sfdisk", "-q", "label: gpt\n,,L\n", "gpt" },
};
#define FOREIGN (int)(sizeof(foreign) / sizeof(foreign[0]))

START_TEST(a_foreign_disk_is_refused_kept_and_wiped_when_named)
{
	struct signature s;
	struct dev *d;
	int to_wipe;
	struct err e;

	if (!make(foreign[_i].program, foreign[_i].option,
	    foreign[_i].input)) {
		printf("no %s here\n", foreign[_i].program);
		return;
	}
	d = must_open();
	ck_assert_int_eq(signature_find(d, &s, &e), 0);
	ck_assert_str_eq(s.type, foreign[_i].type);
	ck_assert_str_ne(s.uuid, "");
	ck_assert_int_eq(signature_check(d, NULL, &to_wipe, &e), -1);
	ck_assert_int_eq(e.code, ERR_EXISTS);
	ck_assert_ptr_nonnull(strstr(e.text, s.uuid));
	ck_assert_int_eq(signature_check(d, "zfs_member", &to_wipe, &e), -1);
	ck_assert_int_eq(signature_wipe(d, "zfs_member", &e), -1);
	ck_assert_int_eq(signature_find(d, &s, &e), 0);
	ck_assert_str_eq(s.type, foreign[_i].type);

	ck_assert_int_eq(signature_check(d, s.type, &to_wipe, &e), 0);
	ck_assert_int_eq(signature_check(d, s.uuid, &to_wipe, &e), 0);
	ck_assert_int_eq(to_wipe, 1);
	ck_assert_msg(signature_wipe(d, s.uuid, &e) == 0, "%s", e.text);
	ck_assert_int_eq(signature_check(d, NULL, &to_wipe, &e), 0);
	ck_assert_int_eq(to_wipe, 0);
	dev_close(d);
}
END_TEST

START_TEST(a_blank_disk_is_blank)
{
	struct dev *d = must_open();
	struct signature s;
	struct err e;

	ck_assert_int_eq(signature_find(d, &s, &e), 0);
	ck_assert_str_eq(s.type, "");
	dev_close(d);
}
END_TEST

/* ---- a GPT, made by hand ---------------------------------------------- */

static uint32_t crc32_zip(const uint8_t *p, size_t size)
{
	uint32_t c = UINT32_MAX;

	while (size-- > 0) {
		c ^= *p++;
		for (int k = 0; k < 8; k++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
	}
	return ~c;
}

/* UEFI 5.3.2: the header for LBA `own`, its twin at `other`, the table at
 * `table`; no partitions. */
static void gpt_header(uint8_t h[512], uint64_t own, uint64_t other,
    uint64_t table)
{
	static const uint8_t entries[128 * 128];

	memset(h, 0, 512);
	memcpy(h, "EFI PART\0\0\1\0", 12);
	le32_put(h + 12, 92);
	le64_put(h + 24, own);
	le64_put(h + 32, other);
	le64_put(h + 40, 34);
	le64_put(h + 48, SIZE / 512 - 34);
	memset(h + 56, 0xd1, 16);
	le64_put(h + 72, table);
	le32_put(h + 80, 128);
	le32_put(h + 84, 128);
	le32_put(h + 88, crc32_zip(entries, sizeof(entries)));
	le32_put(h + 16, crc32_zip(h, 92));
}

/* _i: bit 0 the table at the front, bit 1 the one at the end. */
static void gpt_make(struct dev *d, int which)
{
	uint64_t last = SIZE / 512 - 1;
	uint8_t *row = aligned_alloc(4096, 4096);
	struct err e;

	memset(row, 0, 4096);
	row[450] = 0xee;	/* the protective MBR */
	le32_put(row + 454, 1);
	le32_put(row + 458, (uint32_t)last);
	row[510] = 0x55;
	row[511] = 0xaa;
	gpt_header(row + 512, 1, last, 2);
	if (which & 1)
		ck_assert_int_eq(d->ops->write(d, row, 4096, 0, &e), 0);
	memset(row, 0, 4096);
	gpt_header(row + 3584, last, 1, last - 32);
	if (which & 2)
		ck_assert_int_eq(d->ops->write(d, row, 4096, SIZE - 4096, &e),
		    0);
	free(row);
}

START_TEST(a_partition_table_is_seen_at_either_end)
{
	struct dev *d = must_open();
	struct signature s;
	int to_wipe;
	struct err e;

	gpt_make(d, _i);
	ck_assert_int_eq(signature_find(d, &s, &e), 0);
	ck_assert_str_eq(s.type, "gpt");
	ck_assert_int_eq(signature_check(d, NULL, &to_wipe, &e), -1);
	ck_assert_int_eq(signature_check(d, s.uuid, &to_wipe, &e), 0);
	ck_assert_msg(signature_wipe(d, s.uuid, &e) == 0, "%s", e.text);
	ck_assert_int_eq(signature_check(d, NULL, &to_wipe, &e), 0);
	dev_close(d);
}
END_TEST

/* ---- places made by hand ---------------------------------------------- */

#define LAST(bytes) (SIZE - (bytes))

/* What lies where, so that libblkid knows it, by the formats' own papers. */
struct place_of {
	uint64_t at;
	const char *bytes;
	size_t size;
};
#define BYTES(text) text, sizeof(text) - 1

static const struct {
	const char *type;
	struct place_of at[12];
} by_hand[] = {
	{ "LVM2_member", { { 512, BYTES("LABELONE\1\0\0\0\0\0\0\0"
	    "\0\0\0\0\x20\0\0\0LVM2 001"
	    "0123456789abcdefghijklmnopqrstuv") } } },
	{ "linux_raid_member", { { 4096, BYTES("\xfc\x4e\x2b\xa9\1\0\0\0"
	    "\0\0\0\0\0\0\0\0uuid-of-an-array") },
	    { 4096 + 144, BYTES("\x8\0\0\0\0\0\0\0") } } },
	{ "linux_raid_member", { { LAST(65536), BYTES("\xfc\x4e\x2b\xa9"
	    "\0\0\0\0\x5a\0\0\0\0\0\0\0\0\0\0\0uuid") } } },
	{ "crypto_LUKS", {
	    { 0, BYTES("LUKS\xba\xbe\0\2") },
	    { 168, BYTES("01234567-89ab-cdef-0123-456789abcdef") },
	    { 4 << 20, BYTES("SKUL\xba\xbe\0\2") },
	    { (4 << 20) + 168, BYTES("01234567-89ab-cdef-0123-456789abcdef") },
	    { (4 << 20) + 256, BYTES("\0\0\0\0\0\x40\0\0") } } },
	{ "btrfs", {
	    { 65536 + 32, BYTES("uuid of a btrfs!") },
	    { 65536 + 48, BYTES("\0\0\1\0\0\0\0\0") },
	    { 65536 + 64, BYTES("_BHRfS_M") },
	    { (64 << 20) + 32, BYTES("uuid of a btrfs!") },
	    { (64 << 20) + 64, BYTES("_BHRfS_M") } } },
};
#define BY_HAND (int)(sizeof(by_hand) / sizeof(by_hand[0]))

static void lay(struct dev *d, const struct place_of *p)
{
	uint8_t *row = aligned_alloc(4096, 4096);
	uint64_t start = p->at / 4096 * 4096;
	struct err e;

	ck_assert_int_eq(d->ops->read(d, row, 4096, start, true, &e), 0);
	memcpy(row + (p->at - start), p->bytes, p->size);
	ck_assert_int_eq(d->ops->write(d, row, 4096, start, &e), 0);
	free(row);
}

static bool lies(struct dev *d, const struct place_of *p)
{
	uint8_t *row = aligned_alloc(4096, 4096);
	uint64_t start = p->at / 4096 * 4096;
	struct err e;
	bool there;

	ck_assert_int_eq(d->ops->read(d, row, 4096, start, true, &e), 0);
	there = memcmp(row + (p->at - start), p->bytes, p->size) == 0;
	free(row);
	return there;
}

static bool is_magic(const struct place_of *p)
{
	static const char *const magics[] = { "LABELONE", "LUKS", "SKUL",
		"_BHRfS_M", "\xfc\x4e\x2b\xa9" };

	for (size_t i = 0; i < sizeof(magics) / sizeof(magics[0]); i++)
		if (p->size >= strlen(magics[i]) && memcmp(p->bytes,
		    magics[i], strlen(magics[i])) == 0)
			return true;
	return false;
}

START_TEST(every_place_of_a_signature_is_cleared)
{
	const struct place_of *p = by_hand[_i].at;
	struct dev *d = must_open();
	struct signature s;
	int to_wipe;
	struct err e;

	for (size_t i = 0; p[i].bytes; i++)
		lay(d, &p[i]);
	ck_assert_int_eq(signature_find(d, &s, &e), 0);
	if (!s.type[0]) {	/* this libblkid wants more of it */
		printf("%s by hand is not known here\n", by_hand[_i].type);
		dev_close(d);
		return;
	}
	ck_assert_str_eq(s.type, by_hand[_i].type);
	ck_assert_int_eq(signature_check(d, NULL, &to_wipe, &e), -1);
	ck_assert_ptr_nonnull(strstr(e.text, s.type));
	for (size_t i = 0; p[i].bytes; i++)
		ck_assert(lies(d, &p[i]));
	ck_assert_msg(signature_wipe(d, s.type, &e) == 0, "%s", e.text);
	ck_assert_int_eq(signature_find(d, &s, &e), 0);
	ck_assert_str_eq(s.type, "");
	for (size_t i = 0; p[i].bytes; i++)
		ck_assert_msg(!is_magic(&p[i]) || !lies(d, &p[i]),
		    "place %zu of %s is left", i, by_hand[_i].type);
	dev_close(d);
}
END_TEST

/* Four labels, two at either end, each with a ring of uberblocks: _i of them,
 * of 128 KiB / _i bytes. */
START_TEST(a_pool_member_is_seen_at_both_ends_and_cleared)
{
	struct dev *d = must_open();
	uint64_t labels[4] = { 0, 256 << 10, LAST(512 << 10),
		LAST(256 << 10) };
	struct place_of p = { .bytes = "\x0c\xb1\xba\0\0\0\0\0\x88\x13",
		.size = 10 };
	uint64_t step = (UINT64_C(128) << 10) / (unsigned)_i;
	struct signature s;
	struct err e;

	for (size_t k = 0; k < 4; k++)
		for (unsigned i = 0; i < (unsigned)_i; i++) {
			p.at = labels[k] + (128 << 10) + i * step;
			lay(d, &p);
		}
	ck_assert_int_eq(signature_find(d, &s, &e), 0);
	ck_assert_str_eq(s.type, "zfs_member");
	ck_assert_msg(signature_wipe(d, "zfs_member", &e) == 0, "%s", e.text);
	ck_assert_int_eq(signature_find(d, &s, &e), 0);
	ck_assert_str_eq(s.type, "");
	dev_close(d);
}
END_TEST

START_TEST(an_encrypted_disk_is_seen)
{
	uint8_t *row = aligned_alloc(4096, 4096);
	struct dev *d = must_open();
	struct signature s;
	struct err e;

	memset(row, 0, 4096);
	memcpy(row, "LUKS\xba\xbe\0\1", 8);
	memcpy(row + 168, "01234567-89ab-cdef-0123-456789abcdef", 36);
	ck_assert_int_eq(d->ops->write(d, row, 4096, 0, &e), 0);
	ck_assert_int_eq(signature_find(d, &s, &e), 0);
	ck_assert_str_eq(s.type, "crypto_LUKS");
	ck_assert_str_eq(s.uuid, "01234567-89ab-cdef-0123-456789abcdef");
	free(row);
	dev_close(d);
}
END_TEST

START_TEST(a_member_of_ours_is_seen_by_any_of_its_slots)
{
	struct sim *s = sim_new(2, RIG_DISK);
	struct signature sig;
	struct dev *d;
	int to_wipe;
	struct err e;

	ck_assert_int_eq(rig_create(s, &e), 0);
	for (unsigned i = 0; i < MEMBER_SLOTS; i++)
		if (i != (unsigned)_i)
			sim_zero(s, 0, member_slot_offset(RIG_DISK, i), 8192);
	d = sim_dev(s, 0);
	ck_assert_int_eq(signature_find(d, &sig, &e), 0);
	ck_assert_str_eq(sig.type, "bk");
	ck_assert_uint_eq(strlen(sig.uuid), 32);
	ck_assert_int_eq(signature_check(d, "ext4", &to_wipe, &e), -1);
	ck_assert_int_eq(signature_wipe(d, "ext4", &e), -1);
	ck_assert_int_eq(signature_check(d, sig.uuid, &to_wipe, &e), 0);
	ck_assert_msg(signature_wipe(d, sig.uuid, &e) == 0, "%s", e.text);
	ck_assert_int_eq(signature_find(d, &sig, &e), 0);
	ck_assert_str_eq(sig.type, "");
	dev_close(d);
	sim_power_cut_all_lost(s);	/* it is on the medium */
	d = sim_dev(s, 0);
	ck_assert_int_eq(signature_find(d, &sig, &e), 0);
	ck_assert_str_eq(sig.type, "");
	dev_close(d);
	sim_free(s);
}
END_TEST

Suite *raid_signature_suite(void);
Suite *raid_signature_suite(void)
{
	Suite *s = suite_create("raid/signature");
	TCase *t = tcase_create("signatures");

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_loop_test(t,
	    a_foreign_disk_is_refused_kept_and_wiped_when_named, 0, FOREIGN);
	tcase_add_test(t, a_blank_disk_is_blank);
	tcase_add_loop_test(t, a_partition_table_is_seen_at_either_end, 1, 4);
	tcase_add_test(t, an_encrypted_disk_is_seen);
	tcase_add_loop_test(t, every_place_of_a_signature_is_cleared, 0,
	    BY_HAND);
	tcase_add_loop_test(t, a_pool_member_is_seen_at_both_ends_and_cleared,
	    32, 33);
	tcase_add_loop_test(t, a_pool_member_is_seen_at_both_ends_and_cleared,
	    128, 129);
	tcase_add_loop_test(t, a_member_of_ours_is_seen_by_any_of_its_slots,
	    0, MEMBER_SLOTS);
	suite_add_tcase(s, t);
	return s;
}
