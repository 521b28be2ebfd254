/*
 * store/verify.c - is everything that is stored still what was stored?
 *
 * THE LADDER, segment by segment, those first that were not looked at for the
 * longest time:
 *
 *   strip    raid/ reads and judges all strips, and heals (one pass)
 *   frame    put together from the same pass, its hash checked; when it is
 *            wrong it is read again by itself, with all that raid/ can try
 *   object   unpacked, its id checked, a page's refs compared with its text
 *   index    what the index says of the place; a wrong entry is repaired
 *   refs     a page that is called complete names only what is there
 *
 * Before all of them, being small, the log and the superblocks.
 *
 * WHAT IS LOST
 *
 *   An object that cannot be read right is quarantined: a fact in the log that
 *   names the place.  From that moment it is absent to `have`, closure and
 *   the duplicate check, so the next push stores it anew.  Before the job
 *   reports, the complete bits of everything above it are cleared and durable
 *   in the index; then the snapshots and paths that are hit are named.
 *   *Unavailable* (members away) is not *damaged*: nothing is quarantined.
 *
 * A quarantined place that reads right again is freed of it, and complete bits
 * are set again wherever all is there.
 */
#include "store/verify_impl.h"

#include "base/clock.h"
#include "base/le.h"
#include "proto/fmt_frame.h"
#include "store/closure.h"
#include "store/commit.h"
#include "store/impl.h"
#include "store/keys.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENTS_AT_ONCE 256

void verify_line(struct verify *v, const char *fmt, ...)
{
	char text[1024];
	va_list ap;

	if (!v->ops || !v->ops->line)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	v->ops->line(v->ops->arg, text);
}

/* ---- facts -------------------------------------------------------------- */

struct facts_of {
	struct verify *v;
	const struct qset *bad, *good;
};

/* In the cut, where the flush's number is known. */
static int quarantine_facts(void *arg, struct change *c, struct err *e)
{
	struct facts_of *f = arg;
	uint8_t flush[8];

	le64_put(flush, c->flush);
	for (size_t i = 0; i < f->bad->count; i++) {
		struct fact_key k = key_quarantine(f->bad->items[i].segment,
		    f->bad->items[i].ordinal);

		if (change_put(c, k.bytes, k.size, flush, sizeof(flush),
		    e) != 0)
			return -1;
	}
	for (size_t i = 0; i < f->good->count; i++) {
		struct fact_key k = key_quarantine(f->good->items[i].segment,
		    f->good->items[i].ordinal);

		if (change_put(c, k.bytes, k.size, NULL, 0, e) != 0)
			return -1;
	}
	return 0;
}

/* What this segment showed: in force at once, then durable. */
static int segment_facts(struct verify *v, struct err *e)
{
	struct facts_of f = { v, &v->bad, &v->good };
	struct store *s = v->store;
	struct change c;
	int rc = 0;

	if (v->bad.count + v->good.count == 0)
		return 0;
	v->recheck = true;
	pthread_mutex_lock(&s->cut);
	for (size_t i = 0; i < v->bad.count && rc == 0; i++)
		rc = qset_add(&s->quarantined, v->bad.items[i].segment,
		    v->bad.items[i].ordinal, e);
	pthread_mutex_unlock(&s->cut);
	if (rc != 0)
		return -1;
	change_init(&c);
	c.in_cut = quarantine_facts;
	c.arg = &f;
	rc = change_commit(s, &c, e);
	change_release(&c);
	pthread_mutex_lock(&s->cut);
	for (size_t i = 0; i < v->good.count && rc == 0; i++)
		qset_drop(&s->quarantined, v->good.items[i].segment,
		    v->good.items[i].ordinal);
	pthread_mutex_unlock(&s->cut);
	return rc;
}

/* ---- which segments ----------------------------------------------------- */

struct todo {
	uint64_t id, verified_s, used_bytes;
};

static int by_age(const void *a, const void *b)
{
	const struct todo *x = a, *y = b;

	if (x->verified_s != y->verified_s)
		return x->verified_s < y->verified_s ? -1 : 1;
	return x->id < y->id ? -1 : x->id > y->id;
}

static int todo_add(struct todo **list, size_t *count, size_t *cap,
    const struct segment_info *info, struct err *e)
{
	if (*count == *cap) {
		size_t more = *cap ? *cap * 2 : 64;
		struct todo *bigger = realloc(*list, more * sizeof(**list));

		if (!bigger)
			return err_set(e, ERR_NO_MEMORY,
			    "no memory for segments");
		*list = bigger;
		*cap = more;
	}
	(*list)[(*count)++] = (struct todo){ info->id, info->verified_s,
		info->used_bytes };
	return 0;
}

static int todo_list(struct verify *v, struct todo **out, size_t *count,
    struct err *e)
{
	uint64_t ids[SEGMENTS_AT_ONCE], after = 0, bytes = 0;
	struct array *a = v->store->array;
	struct todo *list = NULL;
	size_t n, cap = 0;

	*count = 0;
	while ((n = array_segments(a, after, ids, SEGMENTS_AT_ONCE)) > 0) {
		for (size_t i = 0; i < n; i++) {
			struct segment_info info;
			struct err gone;

			if (array_segment(a, ids[i], &info, &gone) != 0)
				continue;
			if (todo_add(&list, count, &cap, &info, e) != 0) {
				free(list);
				return -1;
			}
			bytes += info.used_bytes;
		}
		after = ids[n - 1];
	}
	if (*count > 0)
		qsort(list, *count, sizeof(*list), by_age);
	if (v->ctl)
		atomic_store(&v->ctl->total, bytes);
	*out = list;
	return 0;
}

/* Those that nobody looked at for too long, after this run. */
static void count_old(struct verify *v)
{
	uint64_t ids[SEGMENTS_AT_ONCE], after = 0;
	int64_t now = clock_real_s();
	struct segment_info info;
	struct err gone;
	size_t n;

	if (v->options->max_age_s == 0)
		return;
	while ((n = array_segments(v->store->array, after, ids,
	    SEGMENTS_AT_ONCE)) > 0) {
		for (size_t i = 0; i < n; i++)
			if (array_segment(v->store->array, ids[i], &info,
			    &gone) == 0 && info.verified_s > 0 &&
			    (int64_t)info.verified_s < now &&
			    (uint64_t)now - info.verified_s >
			    v->options->max_age_s)
				v->report->unverified_beyond_age++;
		after = ids[n - 1];
	}
}

/* ---- the job ------------------------------------------------------------ */

static int one_segment(struct verify *v, uint64_t id, struct err *e)
{
	struct err why;
	int rc = verify_segment(v, id, &why);

	if (rc == 0 && v->may_write)
		rc = segment_facts(v, &why);
	qset_release(&v->bad);
	qset_release(&v->good);
	if (rc == 0 || why.code == ERR_NOT_FOUND)
		return 0;
	*e = why;
	return -1;
}

static int all_segments(struct verify *v, struct err *e)
{
	uint64_t began = clock_mono_ms();
	struct todo *list;
	size_t count;
	int rc = 0;

	if (todo_list(v, &list, &count, e) != 0)
		return -1;
	v->report->finished = true;
	for (size_t i = 0; i < count && rc == 0; i++) {
		if (v->ctl && atomic_load(&v->ctl->cancel)) {
			rc = err_set(e, ERR_CANCELLED, "cancelled");
		} else if (!v->options->all && v->options->budget_s > 0 &&
		    clock_mono_ms() - began >=
		    v->options->budget_s * 1000) {
			v->report->finished = false;
			break;
		} else {
			rc = one_segment(v, list[i].id, e);
		}
	}
	free(list);
	return rc;
}

/* Complete bits and index, durable, before anything is said. */
static int settle(struct verify *v, struct err *e)
{
	struct closure_report closed;
	struct change c;
	int rc;

	if (!v->recheck || !v->may_write)
		return 0;
	if (closure_recheck(v->store, &closed, NULL, e) != 0)
		return -1;
	change_init(&c);
	c.fold = true;
	rc = change_commit(v->store, &c, e);
	change_release(&c);
	return rc;
}

static int note_time(struct verify *v, struct err *e)
{
	int64_t now = clock_real_s();
	uint8_t raw[8];
	struct change c;
	int rc;

	if (!v->may_write || !v->report->finished)
		return 0;
	le64_put(raw, (uint64_t)now);
	change_init(&c);
	rc = change_put(&c, KEY_VERIFIED, strlen(KEY_VERIFIED), raw,
	    sizeof(raw), e);
	if (rc == 0)
		rc = change_commit(v->store, &c, e);
	change_release(&c);
	if (rc == 0) {
		pthread_mutex_lock(&v->store->cut);
		v->store->last_verify_s = now;
		pthread_mutex_unlock(&v->store->cut);
	}
	return rc;
}

static int run(struct verify *v, struct err *e)
{
	int rc = array_scrub_log(v->store->array, v->options->heal,
	    v->ops ? &v->ops->strips : NULL, &v->report->strips, e);
	struct err late;

	if (rc == 0)
		rc = all_segments(v, e);
	/* Also after a cancel: what was found is to be told right. */
	if (settle(v, rc == 0 ? e : &late) != 0)
		return -1;
	if (rc == 0)
		rc = verify_hits(v, e);
	if (rc == 0)
		rc = note_time(v, e);
	count_old(v);
	return rc;
}

int store_verify(struct store *s, const struct verify_options *o,
    const struct verify_ops *ops, struct verify_report *report,
    struct job_ctl *ctl, struct err *e)
{
	struct verify v = { .store = s, .options = o, .ops = ops,
		.report = report, .ctl = ctl };
	int rc;

	memset(report, 0, sizeof(*report));
	v.may_write = o->heal && !s->read_only;
	qset_init(&v.bad);
	qset_init(&v.good);
	if (store_job_begin(s, "verify", e) != 0)
		return -1;
	v.plain = malloc(FRAME_PLAIN_MAX);
	if (v.plain)
		rc = run(&v, e);
	else
		rc = err_set(e, ERR_NO_MEMORY, "no memory to verify");
	free(v.plain);
	store_job_end(s);
	return rc;
}
