/*
 * server/owner.c - becoming the owner of the array, and ceasing to be.
 *
 * THE ORDER
 *
 *   state lock -> socket bound, signals heard -> members opened (flock) ->
 *   array -> store -> requests taken
 *
 *   and the reverse at the end: nobody can ask before there is something to
 *   ask, and the locks go last.
 *
 * LATE MEMBERS
 *
 *   A member's path that cannot be opened is tried again until wait_members has
 *   passed, if the `members` file says it is worth it; then the array is put
 *   together without it, degraded.  Commands other than `serve` wait for 5 s
 *   at most, and those that change nothing do not wait.
 */
#include "server/owner.h"

#include "base/clock.h"
#include "base/io.h"
#include "base/log.h"
#include "base/str.h"
#include "raid/dev.h"
#include "server/control.h"
#include "server/job.h"
#include "server/session.h"
#include "store/store.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define STOP_WAIT_MS 4000	/* for sessions to end by themselves */
#define LOOK_AGAIN_MS 250	/* for late members */
#define WAIT_ONE_SHOT_S 5	/* for them, by commands other than serve */

/*
 * ---- warnings of the libraries --------------------------------------------
 */

static void warn_log(void *arg, const uint8_t *path, size_t size,
    const char *text)
{
	char name[1024] = "";

	(void)arg;
	str_escape_to(name, sizeof(name), path, size);
	log_line(LOG_LEVEL_WARN, "%s%s%s", name, size ? ": " : "", text);
}

static void warn_own(void *arg, const uint8_t *path, size_t size,
    const char *text)
{
	const struct owner *o = arg;
	char name[1024] = "";
	char line[2048];
	struct err e;
	int n;

	if (o->quiet)
		return;
	str_escape_to(name, sizeof(name), path, size);
	n = snprintf(line, sizeof(line), "bkserver: %s%s%s\n", name,
	    size ? ": " : "", text);
	if (io_write_all(STDERR_FILENO, line, (size_t)n < sizeof(line) ?
	    (size_t)n : sizeof(line) - 1, "stderr", &e) != 0)
		return;		/* there is nobody else to tell */
}

/*
 * ---- members --------------------------------------------------------------
 */

struct opening {
	struct dev *devs[RAID_MEMBERS_MAX];
	struct stat seen[RAID_MEMBERS_MAX];
	size_t count;
	bool open[RAID_MEMBERS_MAX];	/* by index into the paths */
};

int owner_dev_open(struct dev **out, const char *path, void *arg,
    struct err *e)
{
	(void)arg;
	return dev_file_open(out, path, false, e);
}

/* The same file or device under another name: opening it twice would find our
 * own lock. */
static bool is_open(const struct opening *op, const struct stat *st)
{
	for (size_t i = 0; i < op->count; i++) {
		const struct stat *o = &op->seen[i];

		if (S_ISBLK(st->st_mode) ? S_ISBLK(o->st_mode) &&
		    o->st_rdev == st->st_rdev : o->st_dev == st->st_dev &&
		    o->st_ino == st->st_ino)
			return true;
	}
	return false;
}

/* 1 = open (or known under another name), 0 = not there yet, -1 = give up. */
static int open_one(struct opening *op, const char *path, bool read_only,
    struct err *e)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return err_os(e, errno, "%s", path), 0;
	if (is_open(op, &st))
		return 1;
	if (dev_file_open(&op->devs[op->count], path, read_only, e) != 0)
		return e->code == ERR_BUSY ? -1 : 0;
	op->seen[op->count++] = st;
	return 1;
}

/* Try those that are not open; *late: some are worth waiting for. */
static int open_round(struct opening *op, const struct path_list *l,
    bool read_only, bool *late, struct err *e)
{
	*late = false;
	for (size_t i = 0; i < l->count; i++) {
		int rc;

		if (op->open[i])
			continue;
		rc = open_one(op, l->paths[i], read_only, e);
		if (rc < 0)
			return -1;
		op->open[i] = rc > 0;
		*late = *late || (rc == 0 && l->wait[i]);
	}
	return 0;
}

/* A command that runs for a moment does not wait as long as `serve`. */
static uint64_t wait_ms(const struct owner *o)
{
	uint64_t s = o->state.config.wait_members_s;

	if (o->read_only)
		return 0;
	return 1000 * (o->serving || s < WAIT_ONE_SHOT_S ? s :
	    WAIT_ONE_SHOT_S);
}

static int open_members(struct owner *o, struct opening *op,
    const struct path_list *l, struct err *e)
{
	uint64_t until = clock_mono_ms() + wait_ms(o);
	bool late, said = false;

	for (;;) {
		if (open_round(op, l, o->read_only, &late, e) != 0)
			return -1;
		if (owner_stopping(o))
			return err_set(e, ERR_CANCELLED, "stopped while "
			    "waiting for members");
		if (!late || clock_mono_ms() >= until)
			break;
		if (!said)
			warn_add(&o->warn, NULL, 0, "waiting for a member: %s",
			    e->text);
		said = true;
		(void)poll(NULL, 0, LOOK_AGAIN_MS);
	}
	for (size_t i = 0; i < l->count; i++)
		if (!op->open[i])
			warn_add(&o->warn, l->paths[i], strlen(l->paths[i]),
			    "cannot be opened as a member");
	if (op->count == 0)
		return err_set(e, ERR_UNAVAILABLE, "no member of the array in "
		    "%s can be opened", o->state.dir);
	return 0;
}

/* Where to look: the command line, the config, the members file. */
static int member_paths(struct owner *o, const struct owner_options *opt,
    struct path_list *out, struct err *e)
{
	const struct opt_list *given = opt->members;
	const struct config *c = &o->state.config;
	const struct path_list *known = &o->state.members;

	out->count = 0;
	for (size_t i = 0; given && i < given->count; i++)
		if (path_list_add(out, opt->cwd, given->items[i], true,
		    e) != 0)
			return -1;
	for (size_t i = 0; i < c->members.count; i++)
		if (path_list_add(out, o->state.dir, c->members.items[i],
		    true, e) != 0)
			return -1;
	/* Members that were given by name may have moved from where they were
	 * last seen: that is no reason to wait. */
	for (size_t i = 0; i < known->count; i++)
		if (path_list_add(out, NULL, known->paths[i],
		    known->wait[i] && !(given && given->count), e) != 0)
			return -1;
	return 0;
}

/* A member's line of the list; one that is away keeps the path it had. */
static int list_member(struct owner *o, struct path_list *l,
    const struct member_info *m, struct err *e)
{
	char uuid[STATE_UUID_TEXT];
	const char *path = m->path;
	size_t before = l->count;

	hex_put(uuid, m->uuid, RAID_UUID_SIZE);
	if (!path[0])
		path = path_list_path(&o->state.members, uuid);
	if (m->state == MEMBER_REMOVED || !path)
		return 0;
	if (path_list_add(l, o->state.dir, path, m->state != MEMBER_FAILED,
	    e) != 0)
		return -1;
	if (l->count > before)
		memcpy(l->uuid[before], uuid, sizeof(uuid));
	return 0;
}

void owner_save_members(struct owner *o)
{
	struct member_info *m = calloc(RAID_MEMBERS_MAX, sizeof(*m));
	struct path_list l;
	struct err e;
	int rc = 0;

	if (!m || o->read_only) {
		free(m);
		return;
	}
	l.count = 0;
	pthread_mutex_lock(&o->config_lock);
	for (size_t i = 0, n = array_members(o->array, m, RAID_MEMBERS_MAX);
	    i < n && rc == 0; i++)
		rc = list_member(o, &l, &m[i], &e);
	if (rc == 0)
		rc = state_members_save(&o->state, &l, &e);
	pthread_mutex_unlock(&o->config_lock);
	if (rc != 0)
		warn_add(&o->warn, NULL, 0, "%s", e.text);
	path_list_release(&l);
	free(m);
}

/*
 * ---- life -----------------------------------------------------------------
 */

/* Takes the devices that `op` has opened. */
static int put_together(struct owner *o, struct opening *op, bool read_only,
    struct err *e)
{
	const struct array_open a = { .devs = op->devs,
	    .dev_count = op->count, .read_only = read_only, .warn = &o->warn,
	    .dev_open = owner_dev_open, .cancel = &o->stop };
	int rc = array_open(&o->array, &a, e);

	memset(op, 0, sizeof(*op));
	return rc;
}

/*
 * What was set aside and is whole elsewhere by now is no loss: then nothing is
 * left on it, or no segment is reduced.
 */
static int too_many_away(struct owner *o, struct err *e)
{
	struct member_info *m = calloc(RAID_MEMBERS_MAX, sizeof(*m));
	unsigned missing = 0, away = 0, all = 0;
	struct array_info info;
	size_t count;

	if (!m)
		return err_set(e, ERR_NO_MEMORY, "no memory for members");
	array_info(o->array, &info);
	count = array_members(o->array, m, RAID_MEMBERS_MAX);
	for (size_t i = 0; i < count; i++) {
		all += m[i].state != MEMBER_REMOVED;
		missing += m[i].state == MEMBER_MISSING;
		away += m[i].state == MEMBER_MISSING ||
		    (m[i].state == MEMBER_FAILED && !m[i].empty);
	}
	free(m);
	if (missing <= info.parity &&
	    (away <= info.parity || info.segments_reduced == 0))
		return 0;
	return err_set(e, ERR_UNAVAILABLE, "%u of %u members are away, and "
	    "the parity is %u: nothing is written until some are back "
	    "(status, snapshots and restore work with what is there)%s", away,
	    all, info.parity, o->serving && o->store ?
	    "; put them back, then start serve again" : "");
}

int owner_may_write(struct owner *o, struct err *e)
{
	if (!o->read_only)
		array_check_members(o->array);
	return too_many_away(o, e);
}

/*
 * With members missing, look first and write only then: an array that misses
 * more than its parity must not go on alone, for what it knows would be less
 * than what is stored.
 */
static int look_first(struct owner *o, struct opening *op,
    const struct path_list *paths, struct err *e)
{
	struct err ignored;
	bool late;
	int rc;

	if (put_together(o, op, true, e) != 0)
		return -1;
	rc = too_many_away(o, e);
	(void)array_close(o->array, &ignored);
	o->array = NULL;
	if (rc != 0)
		return -1;
	return open_round(op, paths, false, &late, e);
}

static int open_array(struct owner *o, const struct owner_options *opt,
    struct err *e)
{
	struct path_list *paths = calloc(1, sizeof(*paths));
	struct opening *op = calloc(1, sizeof(*op));
	int rc = -1;

	if (!op || !paths) {
		err_set(e, ERR_NO_MEMORY, "no memory for members");
		goto out;
	}
	if (member_paths(o, opt, paths, e) != 0 ||
	    open_members(o, op, paths, e) != 0)
		goto out;
	if (!o->read_only && (opt->look_first || op->count < paths->count) &&
	    look_first(o, op, paths, e) != 0)
		goto out;
	rc = put_together(o, op, o->read_only, e);
out:
	for (size_t i = 0; op && i < op->count; i++)
		dev_close(op->devs[i]);
	if (paths)
		path_list_release(paths);
	free(paths);
	free(op);
	return rc;
}

static int open_store(struct owner *o, struct err *e)
{
	struct store_open s = { .array = o->array, .read_only = o->read_only,
	    .flush_s = (unsigned)o->state.config.flush_s, .warn = &o->warn };
	char *index = state_index_dir(&o->state, e);
	int rc;

	if (!index)
		return -1;
	s.index_dir = index;
	rc = store_open(&o->store, &s, e);
	free(index);
	return rc;
}

static int owner_new(struct owner **out, const struct owner_options *opt,
    struct err *e)
{
	struct owner *o = calloc(1, sizeof(*o));

	if (!o)
		return err_set(e, ERR_NO_MEMORY, "no memory");
	o->read_only = opt->read_only;
	o->serving = opt->serving;
	o->quiet = opt->quiet;
	o->state.fd = o->stop_fd = -1;
	pthread_mutex_init(&o->config_lock, NULL);
	warn_init(&o->warn, o->serving ? warn_log : warn_own, o);
	*out = o;
	o->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (o->stop_fd < 0)
		return err_os(e, errno, "make an eventfd");
	return 0;
}

int owner_open(struct owner **out, const struct owner_options *opt,
    struct err *e)
{
	struct owner *o = NULL;
	struct err ignored;

	if (owner_new(&o, opt, e) != 0 ||
	    state_open(&o->state, opt->dir, e) != 0 ||
	    state_lock(&o->state, e) != 0 ||
	    jobs_new(&o->jobs, o, e) != 0 ||
	    sessions_new(&o->sessions, o, e) != 0 ||
	    control_bind(&o->control, o, e) != 0 ||
	    control_start(o->control, e) != 0 ||
	    open_array(o, opt, e) != 0 ||
	    open_store(o, e) != 0) {
		if (o)
			(void)owner_close(o, &ignored);
		return -1;
	}
	owner_save_members(o);
	control_ready(o->control);
	*out = o;
	return 0;
}

int owner_close(struct owner *o, struct err *e)
{
	int rc = 0;

	if (o->jobs && o->serving)
		jobs_cancel(o->jobs);
	if (o->jobs)
		jobs_wait(o->jobs);
	if (!owner_stopping(o))
		owner_stop(o, 0);
	if (o->sessions)
		sessions_stop(o->sessions, STOP_WAIT_MS);
	control_close(o->control);
	if (o->jobs)
		jobs_wait(o->jobs);	/* begun at the last moment */
	jobs_free(o->jobs);
	sessions_free(o->sessions);
	if (o->store && store_close(o->store, e) != 0)
		rc = -1;
	if (o->array && array_close(o->array, e) != 0)
		rc = -1;
	state_release(&o->state);
	io_close(&o->stop_fd);
	warn_release(&o->warn);
	pthread_mutex_destroy(&o->config_lock);
	free(o);
	return rc;
}

void owner_stop(struct owner *o, int signal)
{
	const uint64_t one = 1;

	if (signal)
		atomic_store(&o->signal, signal);
	atomic_store(&o->stop, true);
	if (o->jobs)
		jobs_cancel(o->jobs);
	if (write(o->stop_fd, &one, sizeof(one)) < 0)
		return;		/* it is readable already */
}

bool owner_stopping(const struct owner *o)
{
	return atomic_load(&((struct owner *)(uintptr_t)o)->stop);
}

void owner_reload(struct owner *o)
{
	struct config fresh;
	struct err e;

	if (state_config_load(&o->state, &fresh, &e) != 0) {
		log_line(LOG_LEVEL_ERROR, "reload: %s", e.text);
		return;
	}
	pthread_mutex_lock(&o->config_lock);
	if (strcmp(fresh.listen, o->state.config.listen) != 0)
		log_line(LOG_LEVEL_WARN, "reload: another listen address "
		    "needs a restart");
	config_release(&o->state.config);
	o->state.config = fresh;
	pthread_mutex_unlock(&o->config_lock);
	array_check_members(o->array);
	log_line(LOG_LEVEL_INFO, "configuration read again");
}
