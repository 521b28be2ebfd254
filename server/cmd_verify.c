/* bkserver verify - is everything that is stored still what was stored? */
#include "base/log.h"
#include "base/str.h"
#include "raid/array.h"
#include "server/cmd.h"
#include "server/job.h"
#include "server/owner.h"
#include "server/tally.h"
#include "store/store.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>

#define BUDGET_S (2 * 3600)
#define MAX_AGE_S (90 * 86400)
#define HITS_SHOWN 500		/* paths named one by one */
#define LINES_SHOWN 100		/* and segments */

struct verify_values {
	bool none, all, read_only, json;
	bool budget_seen, max_age_seen;
	uint64_t budget_s, max_age_s;
};

#define AT(field) OPT_AT(struct verify_values, field)

static const struct opt_row rows[] = {
	{ "all", 0, OPT_FLAG, AT(all), NULL,
	    "everything, however long it takes", NULL },
	{ "budget", 0, OPT_DURATION, AT(budget_s), "DUR",
	    "stop after so long (default 2h), oldest-verified first",
	    AT(budget_seen) },
	{ "max-age", 0, OPT_DURATION, AT(max_age_s), "DUR",
	    "warn if anything was not verified for so long (default 90d)",
	    AT(max_age_seen) },
	{ "read-only", 0, OPT_FLAG, AT(read_only), NULL,
	    "only look: heal nothing", NULL },
	{ "json", 0, OPT_FLAG, AT(json), NULL, "one JSON object a line",
	    NULL },
	{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
};

struct verifying {		/* passed as one argument, tally first */
	struct tally tally;
	struct job *job;
	uint64_t hits, lines;
};

static void on_line(void *arg, const char *text)
{
	struct verifying *v = arg;

	if (v->lines++ < LINES_SHOWN)
		job_line(v->job, TO_ERR, "%s", text);
}

static void on_hit(void *arg, const char *client,
    const struct snapshot_record *r, const void *path, size_t size)
{
	struct verifying *v = arg;
	char id[2 * SNAPSHOT_ID_SIZE + 1], name[4096];
	struct json_t *line = json_line("lost");

	hex_put(id, r->id, SNAPSHOT_ID_SIZE);
	json_object_set_new(line, "client", json_string(client));
	json_object_set_new(line, "snapshot", json_string(id));
	json_name(line, "path", path, size);
	job_json(v->job, line);
	str_escape_to(name, sizeof(name), path, size);
	if (v->hits++ < HITS_SHOWN)
		job_line(v->job, TO_ERR, "damaged: %s, snapshot %.12s: %s",
		    client, id, name);
	else if (v->hits == HITS_SHOWN + 1)
		job_line(v->job, TO_ERR, "damaged: ... and more; --json "
		    "names them all");
}

/* Raise, say why. */
static int worst(int status, int other)
{
	return other > status ? other : status;
}

static int conclude(struct verifying *v, struct owner *o,
    const struct verify_report *r)
{
	int status = tally_status(&v->tally, &r->strips);
	struct array_info info;
	struct err away;

	array_info(o->array, &info);
	if (v->lines > LINES_SHOWN)
		job_line(v->job, TO_ERR, "... and %" PRIu64 " more such lines",
		    v->lines - LINES_SHOWN);
	if (owner_may_write(o, &away) != 0) {	/* not all could be read */
		job_line(v->job, TO_ERR, "%s", away.text);
		status = 2;
	}
	if (r->damaged_objects) {
		job_line(v->job, TO_ERR, "%" PRIu64 " objects are damaged "
		    "beyond repair; %" PRIu64 " snapshots are hit.  The next "
		    "push of these clients stores again what they still have",
		    r->damaged_objects, r->snapshots_hit);
		status = 2;
	}
	if (info.degraded || info.reduced) {
		job_line(v->job, TO_ERR, "the array is %s", info.degraded ?
		    "degraded" : "reduced");
		status = worst(status, 1);
	}
	if (r->unverified_beyond_age) {
		job_line(v->job, TO_ERR, "%" PRIu64 " segments were not "
		    "verified for longer than --max-age",
		    r->unverified_beyond_age);
		status = worst(status, 1);
	}
	return status;
}

static void say_end(struct verifying *v, const struct verify_report *r,
    int status)
{
	char bytes[16];
	struct json_t *line = json_line("verify");

	str_bytes_human(bytes, r->bytes);
	job_line(v->job, TO_OUT, "verified %s in %" PRIu64 " segments: %"
	    PRIu64 " frames, %" PRIu64 " objects%s%s", bytes, r->segments,
	    r->frames, r->objects, r->finished ? "" :
	    "; the budget is spent, the next run goes on from here",
	    status == 0 ? "; all good" : "");
	json_u64(line, "segments", r->segments);
	json_u64(line, "frames", r->frames);
	json_u64(line, "objects", r->objects);
	json_u64(line, "bytes", r->bytes);
	json_u64(line, "strips_bad", r->strips.strips_bad);
	json_u64(line, "strips_healed", r->strips.strips_healed);
	json_u64(line, "strips_absent", r->strips.strips_absent);
	json_u64(line, "stripes_lost", r->strips.stripes_lost);
	json_u64(line, "damaged_objects", r->damaged_objects);
	json_u64(line, "snapshots_hit", r->snapshots_hit);
	json_u64(line, "unverified_segments", r->unverified_beyond_age);
	json_object_set_new(line, "finished", json_boolean(r->finished));
	json_u64(line, "status", (uint64_t)status);
	job_json(v->job, line);
}

static int verify_job(struct job *j, struct owner *o, void *arg,
    struct err *e)
{
	const struct verify_options *opt = arg;
	struct verifying *v = calloc(1, sizeof(*v));
	struct verify_ops ops = { .line = on_line, .hit = on_hit, .arg = v,
	    .strips = { .bad_strip = tally_bad_strip } };
	struct verify_report r = { .segments = 0 };
	int status = -1;

	if (!v)
		return err_set(e, ERR_NO_MEMORY, "no memory for verify");
	tally_init(&v->tally, j, opt->heal);
	v->job = j;
	ops.strips.arg = &v->tally;
	if (store_verify(o->store, opt, &ops, &r, job_ctl(j), e) == 0) {
		tally_say(&v->tally);
		status = conclude(v, o, &r);
		say_end(v, &r, status);
	}
	if (o->serving)
		log_line(status ? LOG_LEVEL_WARN : LOG_LEVEL_INFO,
		    "verify: %s, status %d", status < 0 ? e->text : "done",
		    status);
	tally_release(&v->tally);
	free(v);
	return status;
}

static int verify_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	const struct verify_values *v = call->values;
	struct verify_options *opt = calloc(1, sizeof(*opt));
	struct job *j;
	bool joined;

	if (!opt)
		return err_set(e, ERR_NO_MEMORY, "no memory for verify");
	opt->heal = !v->read_only;
	opt->all = v->all;
	opt->budget_s = v->budget_seen ? v->budget_s : BUDGET_S;
	opt->max_age_s = v->max_age_seen ? v->max_age_s : MAX_AGE_S;
	if (job_start(o->jobs, JOB_VERIFY, verify_job, opt, &j, &joined,
	    e) != 0)
		return -1;
	if (joined && !v->json)
		out_text(io, "a verify is already running; this is it\n");
	return job_follow(j, io, v->json, e);
}

const struct cmd cmd_verify = {
	.name = "verify",
	.synopsis = "[--all] [--budget DUR] [--max-age DUR] [--read-only] "
	    "[--json]",
	.summary = "check what is stored, and heal it",
	.args_max = 0,
	.rows = rows,
	.values_size = sizeof(struct verify_values),
	.run = verify_run,
};
