/*
 * client/push_have.c - the receiving thread of a push.
 *
 * It never waits for anything but the wire: answers are put down for whoever
 * waits, so that acks and refusals are seen whatever the others do.
 */
#include "client/push_int.h"

#include <stdlib.h>
#include <string.h>

static int take_have(struct push *p, const struct wire_msg *m, struct err *e)
{
	struct push_ask *a;
	int rc = 0;

	pthread_mutex_lock(&p->ask_lock);
	for (a = p->asks; a && (a->request != m->request || a->answered);)
		a = a->next;
	if (!a || m->size != (a->count + 7) / 8) {
		rc = err_set(e, ERR_PROTOCOL, "an answer that fits no HAVE");
	} else {
		memcpy(a->bitmap, m->body, m->size);
		a->answered = true;
		pthread_cond_broadcast(&p->ask_done);
	}
	pthread_mutex_unlock(&p->ask_lock);
	return rc;
}

static void set_reply(struct push *p, int reply)
{
	pthread_mutex_lock(&p->ask_lock);
	p->reply = reply;
	pthread_cond_broadcast(&p->ask_done);
	pthread_mutex_unlock(&p->ask_lock);
}

/* 1 = go on, 0 = the push is committed, -1. */
static int take(struct push *p, const struct wire_msg *m, struct err *e)
{
	switch (m->type) {
	case MSG_HAVE_IS:
		return take_have(p, m, e) == 0 ? 1 : -1;
	case MSG_ACK:
		return 1;
	case MSG_MISSING:
		if (m->request == 0) {
			set_reply(p, 2);
			return 1;
		}
		pthread_mutex_lock(&p->ask_lock);
		p->missing = true;
		pthread_mutex_unlock(&p->ask_lock);
		return 1;
	case MSG_COMMITTED:
		if (snapshot_record_get(&p->record, m->body, m->size, e) != 0)
			return -1;
		set_reply(p, 1);
		return 0;
	default:
		return err_set(e, ERR_PROTOCOL, "message 0x%02x in a push",
		    m->type);
	}
}

static void *receive(void *arg)
{
	struct push *p = arg;
	struct wire_msg m;
	struct err e;
	int rc = 1;

	while (rc == 1) {
		if (link_recv(p->link, &m, &e) != 0) {
			rc = -1;
			break;
		}
		rc = take(p, &m, &e);
		wire_msg_release(&m);
	}
	if (rc < 0)
		push_fail(p, &e);
	return NULL;
}

int push_receiver_start(struct push *p, struct err *e)
{
	int os = pthread_create(&p->receiver, NULL, receive, p);

	if (os != 0)
		return err_os(e, os, "start a thread");
	p->receiving = true;
	return 0;
}

/* After COMMITTED it has ended by itself; else it is broken off. */
void push_receiver_end(struct push *p)
{
	if (!p->receiving)
		return;
	if (p->reply != 1)
		link_abort(p->link, "the push has ended");
	pthread_join(p->receiver, NULL);
	p->receiving = false;
}

int push_ask_send(struct push_ask **out, struct push *p,
    const struct id *ids, size_t count, struct err *e)
{
	struct push_ask *a = calloc(1, sizeof(*a));

	if (!a)
		return err_set(e, ERR_NO_MEMORY, "no memory to ask");
	a->request = link_request(p->link);
	a->count = count;
	a->refs = 1;
	pthread_mutex_lock(&p->ask_lock);
	a->next = p->asks;
	p->asks = a;
	pthread_mutex_unlock(&p->ask_lock);
	*out = a;
	if (link_send(p->link, MSG_HAVE, a->request, ids, count * ID_SIZE,
	    e) == 0)
		return 0;
	push_ask_drop(p, a);
	return -1;
}

int push_ask_ready(struct push *p, struct push_ask *a, bool wait)
{
	bool answered;

	pthread_mutex_lock(&p->ask_lock);
	while (wait && !a->answered && !atomic_load(&p->failed))
		pthread_cond_wait(&p->ask_done, &p->ask_lock);
	answered = a->answered;
	pthread_mutex_unlock(&p->ask_lock);
	return answered ? 1 : wait ? -1 : 0;
}

bool push_ask_has(const struct push_ask *a, size_t i)
{
	return (a->bitmap[i / 8] >> (i % 8) & 1) != 0;
}

/* Only a push that has failed drops one that is not answered. */
void push_ask_drop(struct push *p, struct push_ask *a)
{
	struct push_ask **at;
	bool gone;

	pthread_mutex_lock(&p->ask_lock);
	gone = --a->refs == 0;
	if (gone) {
		for (at = &p->asks; *at != a;)
			at = &(*at)->next;
		*at = a->next;
	}
	pthread_mutex_unlock(&p->ask_lock);
	if (gone)
		free(a);
}

int push_commit_wait(struct push *p, struct err *e)
{
	int reply;

	pthread_mutex_lock(&p->ask_lock);
	while (p->reply == 0 && !atomic_load(&p->failed))
		pthread_cond_wait(&p->ask_done, &p->ask_lock);
	reply = p->reply;
	pthread_mutex_unlock(&p->ask_lock);
	if (reply == 0)
		return push_check(p, e);
	return reply == 1;
}
