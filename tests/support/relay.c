#include "tests/support/relay.h"

#include <arpa/inet.h>
#include <check.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <sys/socket.h>
#include <unistd.h>

static bool relay_move(struct relay *r, int from, int to, uint64_t *at)
{
	uint8_t data[16384];
	ssize_t n = recv(from, data, sizeof(data), 0);

	if (n <= 0)
		return false;
	if (r->flip_at > 0 && at && r->flip_at >= *at &&
	    r->flip_at < *at + (uint64_t)n)
		data[r->flip_at - *at] ^= 1;
	if (at)
		*at += (uint64_t)n;
	for (ssize_t done = 0; done < n;) {
		ssize_t m = send(to, data + done, (size_t)(n - done),
		    MSG_NOSIGNAL);

		if (m <= 0)
			return false;
		done += m;
	}
	return true;
}

static void *relay_run(void *arg)
{
	struct relay *r = arg;
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)r->server_port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	uint64_t at = 0;

	r->to_client = accept(r->listen_fd, NULL, NULL);
	r->to_server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(r->to_server, (struct sockaddr *)&a, sizeof(a)) != 0)
		return NULL;
	while (!__atomic_load_n(&r->cut, __ATOMIC_ACQUIRE)) {
		struct pollfd p[] = {
			{ .fd = r->to_client, .events = POLLIN },
			{ .fd = r->to_server, .events = POLLIN },
		};

		if (__atomic_load_n(&r->stall, __ATOMIC_ACQUIRE)) {
			usleep(20000);
			continue;
		}
		if (poll(p, 2, 50) < 0)
			break;
		if (p[0].revents && !relay_move(r, r->to_client,
		    r->to_server, &at))
			break;
		if (p[1].revents && !relay_move(r, r->to_server,
		    r->to_client, NULL))
			break;
	}
	close(r->to_client);
	close(r->to_server);
	close(r->listen_fd);
	return NULL;
}

void relay_open(struct relay *r, unsigned server_port, uint64_t flip_at)
{
	struct sockaddr_in a = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t size = sizeof(a);

	*r = (struct relay){
		.server_port = server_port, .flip_at = flip_at,
	};
	r->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(r->listen_fd, (struct sockaddr *)&a, size), 0);
	ck_assert_int_eq(listen(r->listen_fd, 5), 0);
	getsockname(r->listen_fd, (struct sockaddr *)&a, &size);
	r->port = ntohs(a.sin_port);
	pthread_create(&r->thread, NULL, relay_run, r);
}

void relay_stall(struct relay *r)
{
	__atomic_store_n(&r->stall, true, __ATOMIC_RELEASE);
}

void relay_cut(struct relay *r)
{
	__atomic_store_n(&r->cut, true, __ATOMIC_RELEASE);
	pthread_join(r->thread, NULL);
}

void relay_join(struct relay *r)
{
	pthread_join(r->thread, NULL);
}
