/* client/push_item.c - items on their way from the walk to the tree */
#include "client/push_int.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool copy_bytes(void *out, const void *data, size_t size)
{
	uint8_t *copy = malloc(size + 1);

	if (!copy)
		return false;
	memcpy(copy, data, size);
	copy[size] = '\0';
	*(void **)out = copy;
	return true;
}

struct push_item *push_item_new(const struct walk_item *it)
{
	struct push_item *n = calloc(1, sizeof(*n));

	if (!n)
		return NULL;
	atomic_init(&n->refs, 1);
	n->kind = it->kind == WALK_ENTER ? ITEM_ENTER :
	    it->kind == WALK_LEAVE ? ITEM_LEAVE : ITEM_ENTRY;
	n->attr = it->attr;
	n->partial = it->partial;
	n->unreadable = it->unreadable;
	buf_init(&n->xattrs, TREE_XATTRS_MAX);
	n->done = true;
	if (n->kind == ITEM_LEAVE)
		return n;
	n->name_size = it->name_size;
	n->path_size = it->path_size;
	if (!copy_bytes(&n->name, it->name, it->name_size) ||
	    (n->kind == ITEM_ENTRY && S_ISREG(it->attr.mode) &&
	    !copy_bytes(&n->path, it->path, it->path_size))) {
		push_item_drop(n);
		return NULL;
	}
	return n;
}

void push_item_drop(void *item)
{
	struct push_item *n = item;

	if (!n || atomic_fetch_sub(&n->refs, 1) != 1)
		return;
	walk_dir_drop(n->dir);
	buf_release(&n->xattrs);
	free(n->symlink);
	free(n->path);
	free(n->name);
	free(n);
}

size_t push_item_weight(const struct push_item *n)
{
	return sizeof(*n) + n->name_size + (n->path ? n->path_size : 0) +
	    n->symlink_size + n->xattrs.cap;
}

void push_item_done(struct push *p, struct push_item *n)
{
	pthread_mutex_lock(&p->item_lock);
	n->done = true;
	if (p->item_wanted == n)
		pthread_cond_signal(&p->item_done);
	pthread_mutex_unlock(&p->item_lock);
}

int push_item_wait(struct push *p, struct push_item *n)
{
	bool done;

	pthread_mutex_lock(&p->item_lock);
	p->item_wanted = n;
	while (!n->done && !atomic_load(&p->failed))
		pthread_cond_wait(&p->item_done, &p->item_lock);
	p->item_wanted = NULL;
	done = n->done;
	pthread_mutex_unlock(&p->item_lock);
	return done ? 0 : -1;
}
