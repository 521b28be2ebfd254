/*
 * tests/support/relay.h - a TCP line that can misbehave.
 *
 * Takes one connection on 127.0.0.1 and carries it to another port, in a
 * thread of its own; can flip a bit, go silent, or cut.
 */
#ifndef TESTS_SUPPORT_RELAY_H
#define TESTS_SUPPORT_RELAY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct relay {
	int listen_fd, to_client, to_server;
	unsigned port, server_port;
	uint64_t flip_at;	/* byte from the client to flip; 0 = none */
	bool stall, cut;
	pthread_t thread;
};

/* Listen on r->port.  `flip_at`: the number of the byte from the client of
 * which a bit is flipped, 0 for none. */
void relay_open(struct relay *r, unsigned server_port, uint64_t flip_at);
/* From now on nothing passes, in either direction. */
void relay_stall(struct relay *r);
/* Close both sides (if the line is still open) and end the thread. */
void relay_cut(struct relay *r);
/* Wait until one side has closed. */
void relay_join(struct relay *r);

#endif
