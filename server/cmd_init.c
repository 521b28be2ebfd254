/*
 * bkserver init - an array, a store and their state directory.
 *
 * THE ORDER
 *
 *   member files made -> superblocks and log -> host key and seed -> state
 *
 *   What fails before the superblocks leaves nothing behind: files that were
 *   made here are removed.  The state directory comes last; without it the
 *   members are whole, and `bkserver recover` makes another.
 */
#include "base/hash.h"
#include "base/io.h"
#include "base/str.h"
#include "base/wire_ssh.h"
#include "raid/array.h"
#include "raid/dev.h"
#include "server/cmd.h"
#include "server/owner.h"
#include "store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ADVISE_P2_MEMBERS 6		/* from so many members on */
#define ADVISE_P2_SIZE (UINT64_C(8) * 1000 * 1000 * 1000 * 1000)

struct init_values {
	bool none;
	uint64_t parity, size, extent;
	bool parity_seen;
	const char *index, *wipe;
};

static const struct opt_row rows[] = {
	{ "parity", 0, OPT_COUNT, OPT_AT(struct init_values, parity), "N",
	    "members that may be lost at once: 0, 1 (default) or 2",
	    OPT_AT(struct init_values, parity_seen) },
	{ "size", 0, OPT_SIZE, OPT_AT(struct init_values, size), "SIZE",
	    "of each member file that does not exist yet", NULL },
	{ "extent", 0, OPT_SIZE, OPT_AT(struct init_values, extent), "SIZE",
	    "unit of allocation (default: chosen from the largest member)",
	    NULL },
	{ "index", 0, OPT_TEXT, OPT_AT(struct init_values, index), "DIR",
	    "where the index lies (default: in the state directory)", NULL },
	{ "wipe", 0, OPT_TEXT, OPT_AT(struct init_values, wipe),
	    "SIGNATURE-OR-UUID", "what a member holds now and may lose",
	    NULL },
	{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
};

struct init {
	const struct init_values *v;
	struct cmd_io *io;
	struct path_list paths;
	bool made[RAID_MEMBERS_MAX];
	uint64_t sizes[RAID_MEMBERS_MAX], largest;
	bool shared;		/* two members on one disk */
	bool made_dir;		/* the state directory is new */
};

static int check_options(const struct init_values *v, int members,
    struct err *e)
{
	if (v->parity_seen && v->parity > 2)
		return err_set(e, ERR_USAGE, "--parity is 0, 1 or 2");
	if (members > RAID_MEMBERS_MAX)
		return err_set(e, ERR_LIMIT, "at most %d members",
		    RAID_MEMBERS_MAX);
	if ((uint64_t)members <= (v->parity_seen ? v->parity : 1))
		return err_set(e, ERR_USAGE, "parity %" PRIu64 " needs at "
		    "least %" PRIu64 " members", v->parity_seen ? v->parity :
		    1, (v->parity_seen ? v->parity : 1) + 1);
	return 0;
}

static int make_files(struct init *in, struct err *e)
{
	for (size_t i = 0; i < in->paths.count; i++) {
		const char *path = in->paths.paths[i];

		if (access(path, F_OK) == 0)
			continue;
		if (errno != ENOENT)
			return err_os(e, errno, "look at %s", path);
		if (!in->v->size)
			return err_set(e, ERR_NOT_FOUND, "%s does not exist; "
			    "--size SIZE makes it", path);
		if (dev_file_create(path, in->v->size, e) != 0)
			return -1;
		in->made[i] = true;
	}
	return 0;
}

static void unmake_files(struct init *in)
{
	for (size_t i = 0; i < in->paths.count; i++)
		if (in->made[i])
			(void)unlink(in->paths.paths[i]);
}

/* One disk by two names, or a link to a member. */
static int check_distinct(const struct init *in, struct err *e)
{
	struct stat st[RAID_MEMBERS_MAX];

	for (size_t i = 0; i < in->paths.count; i++) {
		const char *path = in->paths.paths[i];

		if (stat(path, &st[i]) != 0)
			return err_os(e, errno, "look at %s", path);
		for (size_t k = 0; k < i; k++)
			if (S_ISBLK(st[i].st_mode) && S_ISBLK(st[k].st_mode) ?
			    st[i].st_rdev == st[k].st_rdev :
			    st[i].st_dev == st[k].st_dev &&
			    st[i].st_ino == st[k].st_ino)
				return err_set(e, ERR_USAGE, "%s and %s are "
				    "one and the same", in->paths.paths[k],
				    path);
	}
	return 0;
}

static int open_all(const struct path_list *paths, struct dev **devs,
    struct err *e)
{
	for (size_t i = 0; i < paths->count; i++) {
		if (dev_file_open(&devs[i], paths->paths[i], false, e) == 0)
			continue;
		while (i-- > 0)
			dev_close(devs[i]);
		return -1;
	}
	return 0;
}

/* Remember what is to be said once all went well. */
static void note_members(struct init *in, struct dev *const *devs)
{
	for (size_t i = 0; i < in->paths.count; i++) {
		in->sizes[i] = devs[i]->size;
		if (devs[i]->size > in->largest)
			in->largest = devs[i]->size;
		for (size_t k = 0; k < i; k++)
			in->shared = in->shared || (devs[i]->disk &&
			    devs[i]->disk == devs[k]->disk);
	}
}

/* One line per member; a note for those that would fail together. */
static void say_members(const struct init *in)
{
	char size[16];

	for (size_t i = 0; i < in->paths.count; i++) {
		str_bytes_human(size, in->sizes[i]);
		out_text(in->io, "member %zu  %-10s %s%s\n", i, size,
		    in->paths.paths[i], in->made[i] ? " (made)" : "");
	}
	if (in->shared)
		out_text(in->io, "note: some members are on one and the same "
		    "disk: if it fails, they fail together\n");
}

static int create_array(struct init *in, struct err *e)
{
	struct dev *devs[RAID_MEMBERS_MAX];
	struct array_create c = { .devs = devs,
	    .dev_count = in->paths.count, .extent_size = in->v->extent,
	    .parity = in->v->parity_seen ? (unsigned)in->v->parity : 1,
	    .wipe = in->v->wipe };

	if (open_all(&in->paths, devs, e) != 0)
		return -1;
	note_members(in, devs);
	return array_create(&c, e);
}

static void say_space(struct init *in, struct array *a)
{
	struct array_info info;
	char usable[16], index[16];

	array_info(a, &info);
	str_bytes_human(usable, info.free_bytes);
	str_bytes_human(index, store_index_estimate(info.free_bytes));
	out_text(in->io, "usable  %s with parity %u\nindex   up to about %s\n",
	    usable, info.parity, index);
	if (info.parity < 2 && (in->paths.count >= ADVISE_P2_MEMBERS ||
	    in->largest >= ADVISE_P2_SIZE))
		out_text(in->io, "note: with %zu members of up to %" PRIu64
		    " GB, --parity 2 is advised: while one is replaced "
		    "another may fail\n", in->paths.count,
		    in->largest / 1000000000);
}

static int create_store(struct init *in, struct err *e)
{
	struct dev *devs[RAID_MEMBERS_MAX];
	struct array_open o = { .devs = devs, .dev_count = in->paths.count,
	    .dev_open = owner_dev_open };
	struct array *a = NULL;
	char *key = NULL;
	struct err closing;
	int rc = -1;

	if (open_all(&in->paths, devs, e) != 0 || array_open(&a, &o, e) != 0)
		return -1;
	if (ssh_key_generate_text(&key, e) == 0 &&
	    store_create(a, key, e) == 0) {
		say_members(in);
		say_space(in, a);
		rc = 0;
	}
	if (key)
		secret_wipe(key, strlen(key));
	free(key);
	if (array_close(a, &closing) != 0 && rc == 0) {
		*e = closing;
		rc = -1;
	}
	return rc;
}

/* Before a byte is written to any member. */
static int check_state(struct init *in, const char *dir, struct err *e)
{
	int fd, there;

	in->made_dir = access(dir, F_OK) != 0;
	if (io_mkdirs(dir, 0700, e) != 0)
		return -1;
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_os(e, errno, "open %s", dir);
	there = faccessat(fd, "members", F_OK, 0);
	io_close(&fd);
	if (there == 0)
		return err_set(e, ERR_EXISTS, "%s already is the state "
		    "directory of an array; give another with -d", dir);
	return 0;
}

static int init_run(struct owner *none, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	struct init in = { .v = call->values, .io = io };
	char *index = NULL;
	struct state s;
	int rc = -1;

	(void)none;
	if (check_options(in.v, call->count, e) != 0 ||
	    check_state(&in, call->globals.dir, e) != 0)
		return -1;
	for (int i = 0; i < call->count; i++)
		if (path_list_add(&in.paths, call->cwd, call->words[i], true,
		    e) != 0)
			goto out;
		else if (in.paths.count != (size_t)i + 1) {
			err_set(e, ERR_USAGE, "%s is named twice",
			    call->words[i]);
			goto out;
		}
	if (in.v->index && !(index = cmd_path(call, in.v->index, e)))
		goto out;
	if (make_files(&in, e) != 0 || check_distinct(&in, e) != 0 ||
	    create_array(&in, e) != 0 ||
	    create_store(&in, e) != 0) {
		unmake_files(&in);
		goto out;
	}
	rc = state_create(&s, call->globals.dir, index, &in.paths, e);
	if (rc == 0)
		out_text(io, "state   %s\n", s.dir);
	state_release(&s);
out:
	if (rc != 0 && in.made_dir)
		(void)rmdir(call->globals.dir);	/* if it is empty */
	free(index);
	path_list_release(&in.paths);
	return rc;
}

const struct cmd cmd_init = {
	.name = "init",
	.synopsis = "[--parity N] [--size SIZE] [--extent SIZE] "
	    "[--index DIR]\n       [--wipe=SIGNATURE-OR-UUID] MEMBER...",
	.summary = "make an array and an empty store on these members",
	.args_min = 1,
	.args_max = -1,
	.flags = CMD_LOCAL,
	.rows = rows,
	.values_size = sizeof(struct init_values),
	.run = init_run,
};
