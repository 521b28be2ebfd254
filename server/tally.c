#include "server/tally.h"

#include "server/job.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

void tally_init(struct tally *t, struct job *job, bool heal)
{
	memset(t, 0, sizeof(*t));
	t->job = job;
	t->heal = heal;
	pthread_mutex_init(&t->lock, NULL);
}

void tally_release(struct tally *t)
{
	pthread_mutex_destroy(&t->lock);
}

static void count_kind(struct tally_member *m, const char *kind)
{
	for (size_t i = 0; i < TALLY_KINDS; i++) {
		if (!m->kinds[i])
			m->kinds[i] = kind;
		if (strcmp(m->kinds[i], kind) == 0) {
			m->counts[i]++;
			return;
		}
	}
}

void tally_bad_strip(void *arg, unsigned member, const char *path,
    uint64_t segment, uint32_t row, const char *kind, bool healed)
{
	struct tally *t = arg;
	struct tally_member *m;
	uint64_t before;

	if (member >= RAID_MEMBERS_MAX)
		return;
	m = &t->members[member];
	pthread_mutex_lock(&t->lock);
	snprintf(m->path, sizeof(m->path), "%s", path);
	before = m->wrong++;
	m->healed += healed;
	count_kind(m, kind);
	pthread_mutex_unlock(&t->lock);
	if (before < TALLY_LINES)
		job_line(t->job, TO_ERR, "member %u (%s): segment %" PRIu64
		    ", row %" PRIu32 ": %s%s", member, path, segment, row,
		    kind, healed ? ", healed" : "");
	else if (before == TALLY_LINES)
		job_line(t->job, TO_ERR, "member %u (%s): ... and more",
		    member, path);
}

static void say_member(struct tally *t, unsigned index)
{
	const struct tally_member *m = &t->members[index];
	struct json_t *line = json_line("member");
	struct json_t *kinds = json_object();
	char text[256] = "";
	size_t used = 0;

	for (size_t i = 0; i < TALLY_KINDS && m->kinds[i]; i++) {
		if (used < sizeof(text))
			used += (size_t)snprintf(text + used,
			    sizeof(text) - used, "%s%s %" PRIu64,
			    used ? ", " : "", m->kinds[i], m->counts[i]);
		json_u64(kinds, m->kinds[i], m->counts[i]);
	}
	job_line(t->job, TO_ERR, "member %u (%s): %" PRIu64 " strips wrong "
	    "(%s), %" PRIu64 " healed", index, m->path, m->wrong, text,
	    m->healed);
	json_u64(line, "index", index);
	json_name(line, "path", m->path, strlen(m->path));
	json_u64(line, "strips_bad", m->wrong);
	json_u64(line, "strips_healed", m->healed);
	json_object_set_new(line, "kinds", kinds);
	job_json(t->job, line);
}

void tally_say(struct tally *t)
{
	for (unsigned i = 0; i < RAID_MEMBERS_MAX; i++)
		if (t->members[i].wrong)
			say_member(t, i);
}

int tally_status(struct tally *t, const struct scan_report *r)
{
	if (r->stripes_lost) {
		job_line(t->job, TO_ERR, "%" PRIu64 " stripes are lost: more "
		    "is damaged than parity can give back", r->stripes_lost);
		return 2;
	}
	if (r->strips_bad > r->strips_healed) {
		job_line(t->job, TO_ERR, "%" PRIu64 " of %" PRIu64 " strips "
		    "wrong, %" PRIu64 " healed%s", r->strips_bad, r->stripes,
		    r->strips_healed, t->heal ? "" :
		    " (nothing was written: --read-only)");
		return 2;
	}
	if (r->strips_bad) {
		job_line(t->job, TO_OUT, "%" PRIu64 " wrong strips were found "
		    "and all were healed", r->strips_bad);
		return 1;
	}
	if (r->strips_absent) {
		job_line(t->job, TO_ERR, "%" PRIu64 " strips are on members "
		    "that are away", r->strips_absent);
		return 1;
	}
	return 0;
}
