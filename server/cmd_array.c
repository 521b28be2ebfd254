/* bkserver array status|scrub|bench|fail|replace - the array's own life. */
#include "base/log.h"
#include "base/str.h"
#include "raid/array.h"
#include "raid/dev.h"
#include "server/cmd.h"
#include "server/job.h"
#include "server/mend.h"
#include "server/owner.h"
#include "server/report.h"
#include "server/tally.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BENCH_BYTES (UINT64_C(256) << 20)

struct array_values {
	bool none, json, read_only, wait;
	uint64_t size;
	const char *wipe;
};

#define AT(field) OPT_AT(struct array_values, field)
#define END_ROW { NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
#define JSON_ROW { "json", 0, OPT_FLAG, AT(json), NULL, \
	"one JSON object a line", NULL }

static const struct opt_row status_rows[] = { JSON_ROW, END_ROW };

static const struct opt_row scrub_rows[] = {
	{ "read-only", 0, OPT_FLAG, AT(read_only), NULL,
	    "only look: heal nothing", NULL },
	JSON_ROW, END_ROW
};

static const struct opt_row bench_rows[] = {
	{ "size", 0, OPT_SIZE, AT(size), "SIZE",
	    "bytes written and read (default 256M)", NULL },
	JSON_ROW, END_ROW
};

static const struct opt_row replace_rows[] = {
	{ "wait", 0, OPT_FLAG, AT(wait), NULL,
	    "stay until everything is copied", NULL },
	{ "size", 0, OPT_SIZE, AT(size), "SIZE",
	    "make NEW, a file that does not exist yet, of this size", NULL },
	{ "wipe", 0, OPT_TEXT, AT(wipe), "SIGNATURE-OR-UUID",
	    "what NEW holds now and may lose", NULL },
	END_ROW
};

static int status_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	const struct array_values *v = call->values;

	(void)e;
	report_array(o, io, v->json);
	return 0;
}

/*
 * ---- scrub ----------------------------------------------------------------
 */

static void say_scrub(struct job *j, const struct scan_report *r, int status)
{
	struct json_t *line = json_line("scrub");

	job_line(j, TO_OUT, "scrubbed %" PRIu64 " stripes%s", r->stripes,
	    status == 0 ? "; all good" : "");
	json_u64(line, "stripes", r->stripes);
	json_u64(line, "strips_bad", r->strips_bad);
	json_u64(line, "strips_healed", r->strips_healed);
	json_u64(line, "strips_absent", r->strips_absent);
	json_u64(line, "stripes_lost", r->stripes_lost);
	json_u64(line, "status", (uint64_t)status);
	job_json(j, line);
}

static int scrub_job(struct job *j, struct owner *o, void *arg,
    struct err *e)
{
	const bool *heal = arg;
	struct tally *t = calloc(1, sizeof(*t));
	struct scan_ops ops = { .bad_strip = tally_bad_strip, .arg = t };
	struct scan_report r = { .stripes = 0 };
	int status = -1;

	if (!t)
		return err_set(e, ERR_NO_MEMORY, "no memory for scrub");
	tally_init(t, j, *heal);
	if (array_scrub(o->array, *heal, &ops, &r, job_ctl(j), e) == 0) {
		tally_say(t);
		status = tally_status(t, &r);
		say_scrub(j, &r, status);
	}
	tally_release(t);
	free(t);
	return status;
}

static int scrub_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	const struct array_values *v = call->values;
	bool *heal = malloc(sizeof(*heal));
	struct job *j;
	bool joined;

	if (!heal)
		return err_set(e, ERR_NO_MEMORY, "no memory for scrub");
	*heal = !v->read_only;
	if (job_start(o->jobs, JOB_SCRUB, scrub_job, heal, &j, &joined,
	    e) != 0)
		return -1;
	if (joined && !v->json)
		out_text(io, "a scrub is already running; this is it\n");
	return job_follow(j, io, v->json, e);
}

/*
 * ---- bench ----------------------------------------------------------------
 */

static double ratio(double a, double b)
{
	return b > 0 ? a / b : 0;
}

static void bench_line(struct cmd_io *io, const char *name, double rate,
    double raw, const char *of)
{
	out_text(io, "%-10s %8.0f MB/s", name, rate / 1e6);
	if (of)
		out_text(io, "   %.2f of %s", ratio(rate, raw), of);
	out_text(io, "\n");
}

static void bench_json(struct cmd_io *io, const struct bench_result *r)
{
	struct json_t *line = json_line("bench");
	double data = (double)(r->width - r->parity) / r->width;

	json_u64(line, "width", r->width);
	json_u64(line, "parity", r->parity);
	json_object_set_new(line, "raw_write", json_real(r->raw_write));
	json_object_set_new(line, "raw_read", json_real(r->raw_read));
	json_object_set_new(line, "append", json_real(r->append));
	json_object_set_new(line, "read", json_real(r->read));
	json_object_set_new(line, "scrub", json_real(r->scrub));
	json_object_set_new(line, "append_ratio",
	    json_real(ratio(r->append, r->raw_write * data)));
	json_object_set_new(line, "read_ratio",
	    json_real(ratio(r->read, r->raw_read)));
	json_object_set_new(line, "scrub_ratio",
	    json_real(ratio(r->scrub, r->raw_read)));
	out_json(io, line);
}

static int bench_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	const struct array_values *v = call->values;
	struct bench_result r = { .width = 1 };
	double data;

	if (array_bench(o->array, v->size ? v->size : BENCH_BYTES, &r, e) != 0)
		return -1;
	if (r.width == 0 || r.parity >= r.width)
		return err_set(e, ERR_CORRUPT, "width %u with parity %u",
		    r.width, r.parity);
	if (v->json) {
		bench_json(io, &r);
		return 0;
	}
	data = (double)(r.width - r.parity) / r.width;
	out_text(io, "%u members wide, parity %u; all members together:\n",
	    r.width, r.parity);
	bench_line(io, "raw write", r.raw_write, 0, NULL);
	bench_line(io, "raw read", r.raw_read, 0, NULL);
	bench_line(io, "append", r.append, r.raw_write * data,
	    "raw write less parity");
	bench_line(io, "read", r.read, r.raw_read, "raw read");
	bench_line(io, "scrub", r.scrub, r.raw_read, "raw read");
	return 0;
}

/*
 * ---- fail, replace --------------------------------------------------------
 */

/* A UUID as it is; a path as its UUID if a member was last seen there, for the
 * array does not know paths of members that are away.  malloc'd; NULL. */
static char *member_word(struct owner *o, const struct cmd_call *call,
    const char *word, struct err *e)
{
	char *path = cmd_path(call, word, e);
	const char *uuid;
	char *out;

	if (!path)
		return NULL;
	pthread_mutex_lock(&o->config_lock);
	uuid = path_list_uuid(&o->state.members, path);
	out = uuid ? strdup(uuid) : word[0] == '/' || strchr(word, '/') ?
	    strdup(path) : strdup(word);
	pthread_mutex_unlock(&o->config_lock);
	free(path);
	if (!out)
		err_set(e, ERR_NO_MEMORY, "no memory for a path");
	return out;
}

static int fail_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	char *member = member_word(o, call, call->words[0], e);
	int rc;

	if (!member)
		return -1;
	rc = array_fail(o->array, member, e);
	if (rc == 0) {
		owner_save_members(o);
		out_text(io, "%s is set aside; bkserver array replace %s NEW "
		    "puts another in its place\n", call->words[0],
		    call->words[0]);
		if (o->serving)
			log_line(LOG_LEVEL_WARN, "member %s was set aside by "
			    "hand", call->words[0]);
	}
	free(member);
	return rc;
}

static int open_new(const char *path, uint64_t size, struct dev **out,
    bool *made, struct err *e)
{
	*made = false;
	if (access(path, F_OK) != 0) {
		if (errno == ENOENT && !size)
			return err_set(e, ERR_NOT_FOUND, "%s does not exist; "
			    "--size SIZE makes it", path);
		if (dev_file_create(path, size, e) != 0)
			return -1;
		*made = true;
	}
	return dev_file_open(out, path, false, e);
}

static int begin_replace(struct owner *o, const struct cmd_call *call,
    const char *old, const char *fresh, struct err *e)
{
	const struct array_values *v = call->values;
	struct dev *d = NULL;
	bool made;
	int rc = open_new(fresh, v->size, &d, &made, e);

	if (rc == 0)
		rc = array_replace_begin(o->array, old, d, v->wipe, e);
	if (rc != 0 && made)
		(void)unlink(fresh);
	return rc;
}

/*
 * The same command was given before: `fresh` is a member, and `old` is being
 * replaced or is none any more.  1, 0; -1 when `fresh` is a member beside
 * `old`.
 */
static int given_before(struct owner *o, const char *old, const char *fresh,
    struct err *e)
{
	struct member_info *m = calloc(RAID_MEMBERS_MAX, sizeof(*m));
	bool taken = false, beside = false;
	size_t count;

	if (!m)
		return err_set(e, ERR_NO_MEMORY, "no memory for members");
	count = array_members(o->array, m, RAID_MEMBERS_MAX);
	for (size_t i = 0; i < count; i++) {
		char uuid[2 * RAID_UUID_SIZE + 1];

		hex_put(uuid, m[i].uuid, RAID_UUID_SIZE);
		if (m[i].state == MEMBER_REMOVED)
			continue;
		taken = taken || strcmp(m[i].path, fresh) == 0;
		beside = beside || (m[i].state != MEMBER_REPLACING &&
		    (strcmp(m[i].path, old) == 0 || strcmp(uuid, old) == 0));
	}
	free(m);
	if (taken && beside)
		return err_set(e, ERR_EXISTS, "%s is a member already", fresh);
	return taken;
}

static int replace_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	const struct array_values *v = call->values;
	char *old = member_word(o, call, call->words[0], e);
	char *fresh = old ? cmd_path(call, call->words[1], e) : NULL;
	struct job *j;
	bool joined;
	int rc = fresh ? given_before(o, old, fresh, e) : -1;
	bool again = rc == 1;

	if (rc == 0)
		rc = begin_replace(o, call, old, fresh, e);
	if (rc < 0)
		goto out;
	rc = -1;
	owner_save_members(o);
	out_text(io, again ? "%s has been given already; this follows it\n" :
	    "replacing %s by %s\n", call->words[again ? 1 : 0],
	    call->words[1]);
	if (mend_start(o, &j, &joined, e) != 0)
		goto out;
	if (v->wait) {
		rc = job_follow(j, io, false, e);
	} else {
		job_release(j);
		rc = 0;
	}
out:
	free(old);
	free(fresh);
	return rc;
}

const struct cmd cmd_array_status = {
	.name = "array status", .synopsis = "[--json]",
	.summary = "members, their state, their errors by kind",
	.args_max = 0, .flags = CMD_READS, .rows = status_rows,
	.values_size = sizeof(struct array_values), .run = status_run,
};

const struct cmd cmd_array_scrub = {
	.name = "array scrub", .synopsis = "[--read-only] [--json]",
	.summary = "read every strip of every member, and heal",
	.args_max = 0, .rows = scrub_rows,
	.values_size = sizeof(struct array_values), .run = scrub_run,
};

const struct cmd cmd_array_bench = {
	.name = "array bench", .synopsis = "[--size SIZE] [--json]",
	.summary = "throughput beside that of the raw members",
	.args_max = 0, .rows = bench_rows,
	.values_size = sizeof(struct array_values), .run = bench_run,
};

const struct cmd cmd_array_fail = {
	.name = "array fail", .synopsis = "MEMBER",
	.summary = "set a member aside",
	.args_min = 1, .args_max = 1,
	.values_size = sizeof(struct array_values), .run = fail_run,
};

const struct cmd cmd_array_replace = {
	.name = "array replace",
	.synopsis = "OLD NEW [--wait] [--size SIZE] "
	    "[--wipe=SIGNATURE-OR-UUID]",
	.summary = "put NEW in the place of OLD, present or not",
	.args_min = 2, .args_max = 2, .rows = replace_rows,
	.values_size = sizeof(struct array_values), .run = replace_run,
};
