#include "server/mend.h"

#include "base/clock.h"
#include "base/log.h"
#include "raid/array.h"
#include "server/job.h"
#include "server/owner.h"
#include "store/store.h"

#include <inttypes.h>
#include <jansson.h>

#define REST_S 60		/* before one that failed is tried again */
/* Before segments are written anew again, when it did not help: that takes a
 * walk over all metadata. */
#define REWRITE_REST_S 3600

static bool rewrite_due(struct owner *o)
{
	return clock_real_s() >= atomic_load(&o->rewrite_after_s) &&
	    array_wants_rewrite(o->array);
}

/* What only new segments can give back: 0, or 1 when it cannot be now. */
static int rewrite(struct job *j, struct owner *o, struct prune_report *p)
{
	struct err e;
	int rc;

	job_line(j, TO_OUT, "writing anew what has too little redundancy");
	rc = store_mend(o->store, p, job_ctl(j), &e);
	if (rc != 0) {
		job_line(j, TO_ERR, "%s", e.text);
		if (o->serving)
			log_line(LOG_LEVEL_WARN, "mend: %s", e.text);
	}
	if (rc == 0 ? p->segments_freed == 0 : e.code != ERR_BUSY)
		atomic_store(&o->rewrite_after_s,
		    clock_real_s() + REWRITE_REST_S);
	return rc == 0 ? 0 : 1;
}

static struct json_t *summary(const struct scan_report *r,
    const struct prune_report *p, int status)
{
	struct json_t *line = json_line("mend");

	json_u64(line, "stripes", r->stripes);
	json_u64(line, "strips_bad", r->strips_bad);
	json_u64(line, "strips_healed", r->strips_healed);
	json_u64(line, "stripes_lost", r->stripes_lost);
	json_u64(line, "segments_rewritten", p->segments_rewritten);
	json_u64(line, "bytes_moved", p->bytes_moved);
	json_u64(line, "status", (uint64_t)status);
	return line;
}

static int mend_run(struct job *j, struct owner *o, void *arg, struct err *e)
{
	struct scan_report r = { .stripes = 0 };
	struct prune_report p = { .segments_rewritten = 0 };
	struct array_info info;
	int status = 0;

	(void)arg;
	job_line(j, TO_OUT, "mending the array");
	if (array_mend(o->array, &r, job_ctl(j), e) != 0) {
		if (o->serving)
			log_line(LOG_LEVEL_WARN, "mend: %s", e->text);
		return -1;
	}
	owner_save_members(o);
	if (rewrite_due(o))
		status = rewrite(j, o, &p);
	array_info(o->array, &info);
	if (r.stripes_lost) {
		job_line(j, TO_ERR, "%" PRIu64 " stripes could not be copied; "
		    "bkserver verify --all names what they held",
		    r.stripes_lost);
		status = 2;
	} else if (info.degraded || info.reduced) {
		job_line(j, TO_ERR, "mended what could be; the array is still "
		    "%s", info.degraded ? "degraded" : "reduced");
		status = 1;
	} else {
		job_line(j, TO_OUT, "mended: %" PRIu64 " stripes, %" PRIu64
		    " segments written anew", r.stripes, p.segments_rewritten);
	}
	job_json(j, summary(&r, &p, status));
	if (o->serving)
		log_line(LOG_LEVEL_INFO, "mend: %" PRIu64 " stripes, %" PRIu64
		    " segments written anew, status %d", r.stripes,
		    p.segments_rewritten, status);
	return status;
}

int mend_start(struct owner *o, struct job **out, bool *joined,
    struct err *e)
{
	return job_start(o->jobs, JOB_MEND, mend_run, NULL, out, joined, e);
}

void mend_if_wanted(struct owner *o)
{
	struct job_info last;
	struct job *j;
	struct err e;
	bool joined;

	job_info(o->jobs, JOB_MEND, &last);
	if (last.running || owner_stopping(o) || owner_may_write(o, &e) != 0 ||
	    (last.ended_s && last.status != 0 &&
	    clock_real_s() - last.ended_s < REST_S) ||
	    (!array_wants_mend(o->array) && !rewrite_due(o)))
		return;
	log_line(LOG_LEVEL_INFO, "mend: begins by itself");
	if (mend_start(o, &j, &joined, &e) != 0)
		log_line(LOG_LEVEL_WARN, "mend: %s", e.text);
	else
		job_release(j);
}
