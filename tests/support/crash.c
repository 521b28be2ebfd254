#include "tests/support/crash.h"
#include "tests/support/dev_sim.h"
#include "tests/support/sim_pages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What one cut may have left. */
struct image {
	struct sim_kept *kept;
	size_t count;
};

struct cut {
	const struct crash_plan *plan;
	struct crash_stats *stats;
	uint64_t random;
	uint64_t number;		/* of the cut, for the sentence */
	struct sim *state;
	unsigned disks;
	size_t pending[SIM_DISKS_MAX];	/* writes of each disk */
	size_t total;
	unsigned newest;		/* disk of the newest write, if */
	bool newest_only;		/* the others were shown before */
	bool inner;			/* the cut of a recovery */
	struct image *images;
	size_t count, room;
};

uint64_t crash_seed(uint64_t otherwise)
{
	const char *text = getenv("BK_SEED");

	return text ? strtoull(text, NULL, 0) : otherwise;
}

bool crash_long(void)
{
	return getenv("BK_LONG") != NULL;
}

bool crash_wide(void)
{
	return getenv("BK_CRASH_WIDE") != NULL;
}

/* ---- images ----------------------------------------------------------- */

static void cut_init(struct cut *c, const struct crash_plan *p,
    struct sim *state)
{
	*c = (struct cut){ .plan = p, .state = state };
	c->disks = sim_disks(state);
	for (unsigned i = 0; i < c->disks; i++) {
		c->pending[i] = sim_pending(state, i);
		c->total += c->pending[i];
	}
}

static void cut_release(struct cut *c)
{
	for (size_t i = 0; i < c->count; i++)
		free(c->images[i].kept);
	free(c->images);
}

/* A new image, with nothing kept yet. */
static struct image *image_add(struct cut *c)
{
	struct image *m;

	if (c->count == c->room) {
		c->room = c->room ? 2 * c->room : 64;
		c->images = realloc(c->images,
		    c->room * sizeof(struct image));
		if (!c->images)
			abort();
	}
	m = &c->images[c->count++];
	m->kept = sim_alloc(c->total, sizeof(struct sim_kept));
	m->count = 0;
	return m;
}

static struct sim_kept *keep(struct image *m, unsigned disk, size_t write)
{
	struct sim_kept *k = &m->kept[m->count++];

	*k = (struct sim_kept){ .disk = disk, .write = write };
	return k;
}

static void keep_disk(const struct cut *c, struct image *m, unsigned disk)
{
	for (size_t i = 0; i < c->pending[disk]; i++)
		keep(m, disk, i);
}

static void image_all(struct cut *c)
{
	struct image *m = image_add(c);

	for (unsigned i = 0; i < c->disks; i++)
		keep_disk(c, m, i);
}

static void image_disk_only(struct cut *c, unsigned disk)
{
	keep_disk(c, image_add(c), disk);
}

static void image_disk_lost(struct cut *c, unsigned disk)
{
	struct image *m = image_add(c);

	for (unsigned i = 0; i < c->disks; i++)
		if (i != disk)
			keep_disk(c, m, i);
}

static void image_last_only(struct cut *c, unsigned disk)
{
	struct image *m = image_add(c);

	for (unsigned i = 0; i < c->disks; i++)
		if ((i == disk || disk == SIM_ALL_DISKS) && c->pending[i])
			keep(m, i, c->pending[i] - 1);
}

static uint32_t write_sectors(struct cut *c, const struct sim_kept *k)
{
	uint64_t offset;
	uint32_t size;

	sim_pending_write(c->state, k->disk, k->write, &offset, &size);
	return size / SIM_SECTOR;
}

enum tear { TEAR_FIRST, TEAR_SECOND, TEAR_HOLES, TEAR_WAYS };

static void tear(struct cut *c, struct sim_kept *k, enum tear way)
{
	uint32_t sectors = write_sectors(c, k);

	if (way == TEAR_FIRST)
		k->count = 1 + (uint32_t)(sim_random(&c->random) %
		    (sectors - 1));
	else if (way == TEAR_SECOND)
		k->first = 1 + (uint32_t)(sim_random(&c->random) %
		    (sectors - 1));
	else
		k->holes = sim_random(&c->random) | 1;
}

static void image_last_torn(struct cut *c, unsigned disk, enum tear way)
{
	struct image *m;

	image_all(c);
	m = &c->images[c->count - 1];
	for (size_t i = 0; i < m->count; i++)
		if (m->kept[i].disk == disk &&
		    m->kept[i].write == c->pending[disk] - 1)
			tear(c, &m->kept[i], way);
}

/* Every write arrived, and none of them whole. */
static void image_all_torn(struct cut *c, enum tear way)
{
	struct image *m;

	image_all(c);
	m = &c->images[c->count - 1];
	for (size_t i = 0; i < m->count; i++)
		tear(c, &m->kept[i], way);
}

static void images_fixed(struct cut *c)
{
	image_add(c);
	image_all(c);
	image_all_torn(c, TEAR_FIRST);
	image_all_torn(c, TEAR_HOLES);
	image_last_only(c, SIM_ALL_DISKS);
	for (unsigned i = 0; i < c->disks; i++) {
		if (!c->pending[i])
			continue;
		image_disk_only(c, i);
		image_disk_lost(c, i);
		image_last_only(c, i);
		for (int way = 0; way < TEAR_WAYS; way++)
			image_last_torn(c, i, (enum tear)way);
	}
}

static void image_subset(struct cut *c, unsigned bits)
{
	struct image *m = image_add(c);
	unsigned n = 0;

	for (unsigned i = 0; i < c->disks; i++)
		for (size_t k = 0; k < c->pending[i]; k++, n++)
			if (bits >> n & 1)
				keep(m, i, k);
}

/* The bit that image_subset() gives to the newest write. */
static unsigned newest_bit(const struct cut *c)
{
	size_t n = 0;

	for (unsigned i = 0; i <= c->newest; i++)
		n += c->pending[i];
	return 1u << (n - 1);
}

static void images_subsets(struct cut *c)
{
	for (unsigned bits = 0; bits < 1u << c->total; bits++)
		if (!c->newest_only || (bits & newest_bit(c)))
			image_subset(c, bits);
}

static void image_sample(struct cut *c)
{
	struct image *m = image_add(c);

	for (unsigned i = 0; i < c->disks; i++)
		for (size_t k = 0; k < c->pending[i]; k++) {
			uint64_t draw = sim_random(&c->random);
			struct sim_kept *kept;

			if (draw % 2 == 0)
				continue;
			kept = keep(m, i, k);
			if (draw / 2 % 3 == 0)
				tear(c, kept, (enum tear)(draw / 6 %
				    TEAR_WAYS));
		}
	for (size_t i = m->count; i > 1; i--) {
		size_t k = (size_t)(sim_random(&c->random) % i);
		struct sim_kept swap = m->kept[i - 1];

		m->kept[i - 1] = m->kept[k];
		m->kept[k] = swap;
	}
}

/* Leave `max` of them, drawn. */
static void images_thin(struct cut *c, size_t max)
{
	for (size_t i = 0; i < max && i < c->count; i++) {
		size_t k = i + (size_t)(sim_random(&c->random) %
		    (c->count - i));
		struct image swap = c->images[i];

		c->images[i] = c->images[k];
		c->images[k] = swap;
	}
	while (c->count > max)
		free(c->images[--c->count].kept);
}

static void images_make(struct cut *c)
{
	const struct crash_plan *p = c->plan;

	if (c->total == 0) {
		image_add(c);
		return;
	}
	if (c->inner) {
		image_add(c);
		image_all(c);
		image_sample(c);
		return;
	}
	images_fixed(c);
	if (p->exhaustive && c->total <= CRASH_SUBSETS_MAX)
		images_subsets(c);
	for (unsigned i = 0; i < p->samples; i++)
		image_sample(c);
	if (p->images_max)
		images_thin(c, p->images_max);
}

/* ---- trying one image -------------------------------------------------- */

static void describe(const struct image *m, char *out, size_t size)
{
	size_t at = 0;

	out[0] = '\0';
	for (size_t i = 0; i < m->count && at < size; i++) {
		const struct sim_kept *k = &m->kept[i];
		int n = snprintf(out + at, size - at, " %u:%zu%s", k->disk,
		    k->write, k->first || k->count || k->holes ? "t" : "");

		at += n > 0 ? (size_t)n : 0;
	}
}

static int explore_recovery(struct cut *c, struct sim *image, struct err *e);

static int image_try(struct cut *c, const struct image *m, struct err *e)
{
	const struct crash_plan *p = c->plan;
	struct sim *s = sim_clone(c->state);
	uint64_t draw = sim_random(&c->random);
	struct sim *again = NULL;
	char text[160];
	int rc;

	sim_power_cut(s, m->kept, m->count);
	if (!c->inner && p->second_one_in && draw % p->second_one_in == 0)
		again = sim_clone(s);
	rc = p->check(p->arg, s, sim_noted(s), e);
	sim_free(s);
	if (c->inner)
		c->stats->second_images++;
	else
		c->stats->images++;
	if (rc == 0 && again)
		rc = explore_recovery(c, again, e);
	sim_free(again);
	if (rc != 0) {
		describe(m, text, sizeof(text));
		err_add(e, "%scut %llu, kept%s", c->inner ? "second " : "",
		    (unsigned long long)c->number, m->count ? text : " none");
	}
	return rc;
}

static int cut_try(struct cut *c, struct err *e)
{
	int rc = 0;

	images_make(c);
	for (size_t i = 0; i < c->count && rc == 0; i++)
		rc = image_try(c, &c->images[i], e);
	if (c->inner)
		c->stats->second_cuts++;
	else
		c->stats->cuts++;
	cut_release(c);
	return rc;
}

static int explore_recovery(struct cut *c, struct sim *image, struct err *e)
{
	const struct crash_plan *p = c->plan;
	unsigned max = p->second_max;
	size_t n;
	int rc = 0;

	sim_record(image);
	p->recover(p->arg, image);
	sim_record_end(image);
	n = sim_records(image);
	for (size_t i = 0; i < n && rc == 0; i++) {
		struct sim *state;
		struct cut inner;

		if (max && n > max && sim_random(&c->random) % n >= max)
			continue;
		state = sim_recorded(image, i);
		cut_init(&inner, p, state);
		inner.stats = c->stats;
		inner.random = sim_random(&c->random);
		inner.number = i;
		inner.inner = true;
		rc = cut_try(&inner, e);
		sim_free(state);
	}
	return rc;
}

/* ---- a whole run ------------------------------------------------------- */

/* A flush finds what the write before it has left, and nothing was acked. */
static bool is_same(const struct cut *c, const struct cut *before,
    uint64_t note, uint64_t note_before)
{
	return note == note_before && memcmp(c->pending, before->pending,
	    sizeof(c->pending)) == 0;
}

/* Does this cut only add one write to the one before? */
static void find_newest(struct cut *c, const struct cut *before,
    uint64_t note, uint64_t note_before)
{
	if (c->total != before->total + 1 || note != note_before)
		return;
	for (unsigned i = 0; i < c->disks; i++) {
		if (c->pending[i] == before->pending[i])
			continue;
		if (c->pending[i] != before->pending[i] + 1)
			return;
		c->newest = i;
	}
	c->newest_only = true;
}

static int explore(const struct crash_plan *p, struct cut *c,
    struct crash_stats *stats, struct err *e)
{
	c->stats = stats;
	c->random = p->seed + 0x51ed270b * (c->number + 1);
	if (cut_try(c, e) == 0)
		return 0;
	return err_add(e, "%s: BK_SEED=%llu", p->name,
	    (unsigned long long)p->seed);
}

int crash_explore_state(const struct crash_plan *p, struct sim *state,
    struct crash_stats *stats, struct err *e)
{
	struct crash_stats own = { 0 };
	struct cut c;

	cut_init(&c, p, state);
	return explore(p, &c, stats ? stats : &own, e);
}

int crash_explore(const struct crash_plan *p, struct sim *run,
    struct crash_stats *stats, struct err *e)
{
	struct crash_stats own = { 0 };
	uint64_t note_before = 0, random = p->seed;
	size_t n = sim_records(run);
	struct cut before = { 0 };
	bool skipped = true;
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i++) {
		struct sim *state;
		uint64_t note;
		struct cut c, was;

		if (p->cuts_max && n > p->cuts_max && i + 1 < n &&
		    sim_random(&random) % n >= p->cuts_max) {
			skipped = true;
			continue;
		}
		state = sim_recorded(run, i);
		cut_init(&c, p, state);
		c.number = i;
		note = sim_noted(state);
		if (!skipped)
			find_newest(&c, &before, note, note_before);
		was = c;
		if (skipped || !is_same(&c, &before, note, note_before))
			rc = explore(p, &c, stats ? stats : &own, e);
		before = was;
		note_before = note;
		skipped = false;
		sim_free(state);
	}
	return rc;
}
