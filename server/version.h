/* server/version.h - what --version says. */
#ifndef SERVER_VERSION_H
#define SERVER_VERSION_H

#define BK_VERSION "0.1"

#endif
