/*
 * server/notify.h - tell the service manager, as sd_notify(3) does.
 *
 * One datagram to the unix socket named by $NOTIFY_SOCKET; without it, nothing.
 */
#ifndef SERVER_NOTIFY_H
#define SERVER_NOTIFY_H

/* "READY=1", "STOPPING=1", "STATUS=...", several with newlines between.  Never
 * fails: a service manager that is deaf is no reason to stop. */
void notify(const char *text);

#endif
