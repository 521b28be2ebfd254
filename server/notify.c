#include "server/notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify(const char *text)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	size_t size = path ? strlen(path) : 0;
	int fd;

	if (size == 0 || size >= sizeof(to.sun_path))
		return;
	memcpy(to.sun_path, path, size);
	if (path[0] == '@')	/* the abstract name space */
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)!sendto(fd, text, strlen(text), MSG_NOSIGNAL,
	    (struct sockaddr *)&to,
	    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + size));
	close(fd);
}
