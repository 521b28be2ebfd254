/*
 * Pages of pages: the rules P1 .. P4 of proto/pages.h hold for every number of
 * items and every pattern of cuts.  Method: tiny pages, so that a few hundred
 * items make many levels; a cut rule that says always, never or by a seeded
 * number; all pages are kept and the tree is walked from its root.
 */
#include "proto/pages.h"

#include "base/le.h"
#include "tests/proto/pagebox.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define ITEM 10			/* bytes of a test item */
#define CHILD 41		/* of a test child */
#define PAGE_MIN (8 + 2 * CHILD)
#define PAGE_MAX (8 + 4 * CHILD)

static size_t put_child(uint8_t *out, const struct pages_child *c)
{
	memcpy(out, c->id.bytes, ID_SIZE);
	le64_put(out + ID_SIZE, c->weight);
	out[40] = (uint8_t)c->first_size;
	return CHILD;
}

static bool cut_always(unsigned level, const struct pages_item *item)
{
	(void)level;
	(void)item;
	return true;
}

static bool cut_never(unsigned level, const struct pages_item *item)
{
	(void)level;
	(void)item;
	return false;
}

static bool cut_sometimes(unsigned level, const struct pages_item *item)
{
	return ((const uint8_t *)item->data)[level % 8] % 3 == 0;
}

static const struct pages_kind kinds[] = {
	{ OBJECT_TREE, { 't', 't' }, PAGE_MIN, PAGE_MAX, put_child,
	    cut_always },
	{ OBJECT_TREE, { 't', 't' }, PAGE_MIN, PAGE_MAX, put_child,
	    cut_never },
	{ OBJECT_TREE, { 't', 't' }, PAGE_MIN, PAGE_MAX, put_child,
	    cut_sometimes },
};

static int item_add(struct pages *p, uint32_t number, struct err *e)
{
	uint8_t raw[ITEM] = { 0 };
	struct pages_item item = {
		.data = raw, .size = sizeof(raw), .weight = 1,
		.first = raw, .first_size = 4,
	};

	le32_put(raw, number);
	le32_put(raw + 4, number * 2654435761u >> 3);
	return pages_add(p, &item, e);
}

struct walk {
	const struct pagebox *box;
	uint32_t next;		/* number of the item expected */
	unsigned pages;
};

static void down(struct walk *w, const struct id *id, unsigned level,
    uint64_t weight)
{
	const struct boxed *b = pagebox_find(w->box, id);
	uint32_t start = w->next;
	unsigned count;

	ck_assert_ptr_nonnull(b);
	ck_assert_uint_eq(b->level, level);
	ck_assert_uint_le(b->size, PAGE_MAX);
	w->pages++;
	count = le16_get(b->data + 4);
	if (level == 0) {
		for (unsigned i = 0; i < count; i++)
			ck_assert_uint_eq(w->next++,
			    le32_get(b->data + 8 + i * ITEM));
		ck_assert_uint_eq(b->size, 8 + count * ITEM);
	} else {
		ck_assert_uint_ge(count, 2);	/* P4 */
		for (unsigned i = 0; i < count; i++) {
			const uint8_t *c = b->data + 8 + i * CHILD;
			struct id child;

			memcpy(child.bytes, c, ID_SIZE);
			ck_assert_uint_eq(c[40], 4);
			down(w, &child, level - 1, le64_get(c + ID_SIZE));
		}
		ck_assert_uint_eq(b->size, 8 + count * CHILD);
	}
	ck_assert_uint_eq(w->next - start, weight);
}

static void build_and_walk(const struct pages_kind *kind, uint32_t items)
{
	struct pagebox box;
	struct pages *p;
	struct walk w = { .box = &box };
	struct id root;
	struct err e;

	pagebox_init(&box);
	box.raw = true;
	ck_assert_int_eq(pages_new(&p, kind, pagebox_emit, &box, &e), 0);
	for (uint32_t i = 0; i < items; i++)
		ck_assert_int_eq(item_add(p, i, &e), 0);
	ck_assert_int_eq(pages_finish(p, &root, &e), 0);
	ck_assert_ptr_nonnull(pagebox_find(&box, &root));
	down(&w, &root, pagebox_find(&box, &root)->level, items);
	ck_assert_uint_eq(w.next, items);
	/* P3: nothing was written that the root does not reach. */
	ck_assert_uint_eq(w.pages, box.count);
	pages_free(p);
	pagebox_free(&box);
}

START_TEST(any_number_of_items_makes_a_sound_tree)	/* _i: the kind */
{
	for (uint32_t items = 0; items < 400; items++)
		build_and_walk(&kinds[_i], items);
	build_and_walk(&kinds[_i], 5000);
}
END_TEST

START_TEST(an_empty_level_zero_is_one_empty_leaf)
{
	struct pagebox box;
	struct pages *p;
	struct id root;
	struct err e;
	static const uint8_t empty[8] = { 't', 't', 1, 0, 0, 0, 0, 0 };

	pagebox_init(&box);
	box.raw = true;
	ck_assert_int_eq(pages_new(&p, &kinds[0], pagebox_emit, &box, &e), 0);
	ck_assert_int_eq(pages_finish(p, &root, &e), 0);
	ck_assert_uint_eq(box.count, 1);
	ck_assert_uint_eq(box.pages[0].size, sizeof(empty));
	ck_assert_mem_eq(box.pages[0].data, empty, sizeof(empty));
	pages_free(p);
	pagebox_free(&box);
}
END_TEST

START_TEST(a_builder_can_be_used_again)
{
	struct pagebox box;
	struct pages *p;
	struct id first, second;
	struct err e;

	pagebox_init(&box);
	box.raw = true;
	ck_assert_int_eq(pages_new(&p, &kinds[2], pagebox_emit, &box, &e), 0);
	for (uint32_t i = 0; i < 777; i++)
		ck_assert_int_eq(item_add(p, i, &e), 0);
	ck_assert_int_eq(pages_finish(p, &first, &e), 0);
	for (uint32_t i = 0; i < 777; i++)
		ck_assert_int_eq(item_add(p, i, &e), 0);
	ck_assert_int_eq(pages_finish(p, &second, &e), 0);
	ck_assert(id_equal(&first, &second));
	pages_free(p);
	pagebox_free(&box);
}
END_TEST

START_TEST(a_failing_sink_fails_the_builder)
{
	for (size_t at = 1; at < 12; at++) {
		struct pagebox box;
		struct pages *p;
		struct id root;
		struct err e = { .code = ERR_NONE };
		int r = 0;

		pagebox_init(&box);
		box.raw = true;
		box.fail_at = at;
		ck_assert_int_eq(pages_new(&p, &kinds[0], pagebox_emit, &box,
		    &e), 0);
		for (uint32_t i = 0; r == 0 && i < 90; i++)
			r = item_add(p, i, &e);
		if (r == 0)
			r = pages_finish(p, &root, &e);
		ck_assert_int_eq(r, -1);
		ck_assert_int_eq(e.code, ERR_IO);
		pages_free(p);
		pagebox_free(&box);
	}
}
END_TEST

static int emit_nothing(void *arg, enum object_type type, const struct id *id,
    const void *plain, size_t size, const struct id *refs, size_t ref_count,
    struct err *e)
{
	(void)arg, (void)type, (void)id, (void)plain, (void)size, (void)refs;
	(void)ref_count, (void)e;
	return 0;
}

START_TEST(more_levels_than_the_limit_are_refused)
{
	/* One item per leaf, two children per page: 2^17 items need level
	 * 17.  Three fit, for P4. */
	const struct pages_kind thin = {
		OBJECT_TREE, { 't', 't' }, 8 + CHILD + 1, 8 + 3 * CHILD,
		put_child, cut_always,
	};
	struct pages *p;
	struct id root;
	struct err e;
	int r = 0;

	ck_assert_int_eq(pages_new(&p, &thin, emit_nothing, NULL, &e), 0);
	for (uint32_t i = 0; r == 0 && i < 5u << 17; i++)
		r = item_add(p, i, &e);
	if (r == 0)
		r = pages_finish(p, &root, &e);
	ck_assert_int_eq(r, -1);
	ck_assert_int_eq(e.code, ERR_LIMIT);
	pages_free(p);
}
END_TEST

START_TEST(a_header_is_checked)
{
	uint8_t h[8] = { 't', 't', 1, 0, 2, 0, 0, 0 };
	unsigned level, count;
	struct err e;

	ck_assert_int_eq(pages_header_get("tt", h, 8, &level, &count, &e), 0);
	ck_assert_uint_eq(count, 2);
	ck_assert_int_eq(pages_header_get("tt", h, 7, &level, &count, &e), -1);
	ck_assert_int_eq(pages_header_get("tu", h, 8, &level, &count, &e), -1);
	ck_assert_int_eq(e.code, ERR_CORRUPT);
	h[3] = 16;
	ck_assert_int_eq(pages_header_get("tt", h, 8, &level, &count, &e), 0);
	h[4] = 1;
	ck_assert_int_eq(pages_header_get("tt", h, 8, &level, &count, &e), -1);
	h[4] = 2;
	h[3] = 17;
	ck_assert_int_eq(pages_header_get("tt", h, 8, &level, &count, &e), -1);
	h[3] = 0;
	h[6] = 1;
	ck_assert_int_eq(pages_header_get("tt", h, 8, &level, &count, &e), -1);
	h[6] = 0;
	h[2] = 2;
	ck_assert_int_eq(pages_header_get("tt", h, 8, &level, &count, &e), -1);
	ck_assert_int_eq(e.code, ERR_VERSION);
}
END_TEST

Suite *proto_pages_suite(void);
Suite *proto_pages_suite(void)
{
	Suite *s = suite_create("pages");
	TCase *t = tcase_create("pages");

	tcase_add_loop_test(t, any_number_of_items_makes_a_sound_tree, 0, 3);
	tcase_add_test(t, an_empty_level_zero_is_one_empty_leaf);
	tcase_add_test(t, a_builder_can_be_used_again);
	tcase_add_test(t, a_failing_sink_fails_the_builder);
	tcase_add_test(t, more_levels_than_the_limit_are_refused);
	tcase_add_test(t, a_header_is_checked);
	suite_add_tcase(s, t);
	return s;
}
