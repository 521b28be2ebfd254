#include "tests/proto/pagebox.h"

#include "proto/fmt_frame.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

void pagebox_init(struct pagebox *box)
{
	memset(box, 0, sizeof(*box));
}

void pagebox_free(struct pagebox *box)
{
	for (size_t i = 0; i < box->count; i++)
		free(box->pages[i].data);
	free(box->pages);
	pagebox_init(box);
}

const struct boxed *pagebox_find(const struct pagebox *box,
    const struct id *id)
{
	for (size_t i = box->count; i-- > 0;)
		if (id_equal(&box->pages[i].id, id))
			return &box->pages[i];
	return NULL;
}

static void refs_check(const struct pagebox *box, const struct boxed *p,
    const struct id *refs, size_t ref_count)
{
	static struct id want[FRAME_REFS_MAX];
	struct list_page list = { .level = 0 };
	struct tree_page tree = { .level = 0 };
	size_t count;
	struct err e = { .text = "" };

	if (p->type == OBJECT_LIST) {
		ck_assert_msg(list_page_parse(&list, p->data, p->size,
		    &e) == 0, "%s", e.text);
		count = list_page_refs(&list, want, FRAME_REFS_MAX);
	} else {
		ck_assert_msg(tree_page_parse(&tree, p->data, p->size,
		    &e) == 0, "%s", e.text);
		count = tree_page_refs(&tree, want, FRAME_REFS_MAX);
	}
	ck_assert_uint_eq(count, ref_count);
	if (count > 0)
		ck_assert_mem_eq(want, refs, count * sizeof(*refs));
	if (p->level == 0)
		return;
	for (size_t i = 0; i < count; i++)
		ck_assert_ptr_nonnull(pagebox_find(box, &refs[i]));
}

int pagebox_emit(void *arg, enum object_type type, const struct id *id,
    const void *plain, size_t size, const struct id *refs, size_t ref_count,
    struct err *e)
{
	struct pagebox *box = arg;
	struct boxed *p;
	struct id again;

	if (box->fail_at && box->count + 1 == box->fail_at)
		return err_set(e, ERR_IO, "no more pages");
	if (box->count == box->cap) {
		box->cap = box->cap ? box->cap * 2 : 64;
		box->pages = realloc(box->pages,
		    box->cap * sizeof(*box->pages));
		ck_assert_ptr_nonnull(box->pages);
	}
	p = &box->pages[box->count];
	p->id = *id;
	p->type = type;
	p->level = ((const uint8_t *)plain)[3];
	p->size = size;
	p->data = malloc(size);
	ck_assert_ptr_nonnull(p->data);
	memcpy(p->data, plain, size);
	ck_assert_int_eq(id_of(&again, type, plain, size, e), 0);
	ck_assert(id_equal(&again, id));
	if (!box->raw)
		refs_check(box, p, refs, ref_count);
	box->count++;
	return 0;
}

size_t pagebox_new_pages(const struct pagebox *now,
    const struct pagebox *before)
{
	size_t count = 0;

	for (size_t i = 0; i < now->count; i++)
		if (!pagebox_find(before, &now->pages[i].id))
			count++;
	return count;
}

static const struct boxed *must_find(const struct pagebox *box,
    const struct id *id)
{
	const struct boxed *p = pagebox_find(box, id);

	ck_assert_ptr_nonnull(p);
	return p;
}

struct tree_walk {
	const struct pagebox *box;
	void (*each)(void *arg, const struct tree_entry *n);
	void *arg;
};

static void tree_down(const struct tree_walk *w, const struct id *id,
    const struct tree_page *parent, const struct tree_child *place,
    const struct slice *next)
{
	const struct boxed *b = must_find(w->box, id);
	struct tree_page p;
	struct tree_entry n;
	struct tree_child c, after;
	size_t pos = 0;
	bool more;
	struct err e = { .text = "" };

	ck_assert_int_eq(tree_page_parse(&p, b->data, b->size, &e), 0);
	if (parent)
		ck_assert_msg(tree_page_check_child(&p, parent, place, next,
		    &e) == 0, "%s", e.text);
	while (tree_page_entry(&p, &pos, &n))
		w->each(w->arg, &n);
	more = tree_page_child(&p, &pos, &c);
	while (more) {
		more = tree_page_child(&p, &pos, &after);
		tree_down(w, &c.id, &p, &c, more ? &after.first : next);
		c = after;
	}
	ck_assert_uint_eq(pos, p.size - 8);
}

unsigned pagebox_walk_tree(const struct pagebox *box, const struct id *root,
    void (*each)(void *arg, const struct tree_entry *n), void *arg)
{
	struct tree_walk w = { box, each, arg };

	tree_down(&w, root, NULL, NULL, NULL);
	return must_find(box, root)->level;
}

struct list_walk {
	const struct pagebox *box;
	void (*each)(void *arg, const struct list_entry *n);
	void *arg;
};

static void list_down(const struct list_walk *w, const struct id *id,
    const struct list_page *parent, const struct list_child *place)
{
	const struct boxed *b = must_find(w->box, id);
	struct list_page p;
	struct list_entry n;
	struct list_child c;
	size_t pos = 0;
	struct err e = { .text = "" };

	ck_assert_int_eq(list_page_parse(&p, b->data, b->size, &e), 0);
	if (parent)
		ck_assert_msg(list_page_check_child(&p, parent, place,
		    &e) == 0, "%s", e.text);
	while (list_page_entry(&p, &pos, &n))
		w->each(w->arg, &n);
	while (list_page_child(&p, &pos, &c))
		list_down(w, &c.id, &p, &c);
	ck_assert_uint_eq(pos, p.size - 8);
}

unsigned pagebox_walk_list(const struct pagebox *box, const struct id *root,
    void (*each)(void *arg, const struct list_entry *n), void *arg)
{
	struct list_walk w = { box, each, arg };

	list_down(&w, root, NULL, NULL);
	return must_find(box, root)->level;
}
