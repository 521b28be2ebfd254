#include "server/mend.h"

#include "base/clock.h"
#include "base/log.h"
#include "raid/array.h"
#include "server/job.h"
#include "server/owner.h"

#include <inttypes.h>
#include <jansson.h>

#define REST_S 60		/* before one that failed is tried again */

static struct json_t *summary(const struct scan_report *r, int status)
{
	struct json_t *line = json_line("mend");

	json_u64(line, "stripes", r->stripes);
	json_u64(line, "strips_bad", r->strips_bad);
	json_u64(line, "strips_healed", r->strips_healed);
	json_u64(line, "stripes_lost", r->stripes_lost);
	json_u64(line, "status", (uint64_t)status);
	return line;
}

static int mend_run(struct job *j, struct owner *o, void *arg, struct err *e)
{
	struct scan_report r = { .stripes = 0 };
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
		job_line(j, TO_OUT, "mended: %" PRIu64 " stripes", r.stripes);
	}
	job_json(j, summary(&r, status));
	if (o->serving)
		log_line(LOG_LEVEL_INFO, "mend: %" PRIu64 " stripes, status "
		    "%d", r.stripes, status);
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
	    !array_wants_mend(o->array))
		return;
	log_line(LOG_LEVEL_INFO, "mend: begins by itself");
	if (mend_start(o, &j, &joined, &e) != 0)
		log_line(LOG_LEVEL_WARN, "mend: %s", e.text);
	else
		job_release(j);
}
