/* client/client.c - directories, configuration, connection, notes */
#include "client/client.h"

#include "base/buf.h"
#include "base/conf.h"
#include "base/io.h"
#include "base/str.h"
#include "client/config.h"
#include "client/link.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONFIG_MAX (1u << 20)

/* A warning is one line on stderr: the path, escaped, and the sentence. */
static void emit_warning(void *arg, const uint8_t *path, size_t size,
    const char *text)
{
	struct client *c = arg;
	struct buf line;

	progress_clear(&c->progress);
	buf_init(&line, SIZE_MAX / 2);
	buf_add(&line, "bkclient: ", 10);
	if (path) {
		str_escape(&line, path, size);
		buf_add(&line, ": ", 2);
	}
	buf_add(&line, text, strlen(text));
	buf_u8(&line, '\n');
	if (!line.bad)
		(void)!write(STDERR_FILENO, line.data, line.size);
	buf_release(&line);
}

void client_prepare(struct client *c)
{
	memset(c, 0, sizeof(*c));
	pthread_mutex_init(&c->link_lock, NULL);
	atomic_init(&c->stop, false);
	warn_init(&c->warn, emit_warning, c);
	progress_init(&c->progress, "working", false);
}

void client_release(struct client *c)
{
	struct link *l;

	pthread_mutex_lock(&c->link_lock);
	l = c->link;
	c->link = NULL;
	pthread_mutex_unlock(&c->link_lock);
	link_close(l);
	progress_release(&c->progress);
	warn_release(&c->warn);
	pthread_mutex_destroy(&c->link_lock);
	free(c->config_dir);
	free(c->cache_dir);
	free(c->config_text);
	free(c->key_default);
	free(c->hosts_default);
}

void client_stop(struct client *c)
{
	atomic_store(&c->stop, true);
	pthread_mutex_lock(&c->link_lock);
	if (c->link)
		link_abort(c->link, "stopped by a signal");
	pthread_mutex_unlock(&c->link_lock);
}

void client_note(struct client *c, const char *fmt, ...)
{
	char text[1024];
	va_list args;

	if (c->quiet)
		return;
	va_start(args, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	progress_clear(&c->progress);
	fprintf(stderr, "bkclient: %s\n", text);
}

/* ---- directories -------------------------------------------------------- */

/* DIR/name, malloc'd; NULL when there is no DIR. */
static char *join(const char *dir, const char *name)
{
	char *out = NULL;

	if (!dir || asprintf(&out, "%s/%s", dir, name) < 0)
		return NULL;
	return out;
}

static const char *home(char *lookup, size_t size)
{
	const char *dir = getenv("HOME");
	struct passwd pw, *found = NULL;

	if (dir && *dir)
		return dir;
	return getpwuid_r(getuid(), &pw, lookup, size, &found) == 0 && found ?
	    pw.pw_dir : NULL;
}

/* $VARIABLE/bkclient, else ~/fallback/bkclient. */
static char *user_dir(const char *variable, const char *fallback)
{
	const char *dir = getenv(variable);
	char lookup[4096], *base, *out;

	if (dir && *dir == '/')
		return join(dir, "bkclient");
	base = join(home(lookup, sizeof(lookup)), fallback);
	out = join(base, "bkclient");
	free(base);
	return out;
}

static bool root_config(void)
{
	return getuid() == 0 && !getenv("XDG_CONFIG_HOME");
}

static int find_dirs(struct client *c, struct err *e)
{
	c->config_dir = root_config() ? strdup("/etc/bkclient") :
	    user_dir("XDG_CONFIG_HOME", ".config");
	c->cache_dir = root_config() && access("/var/cache", W_OK) == 0 &&
	    !getenv("XDG_CACHE_HOME") ? strdup("/var/cache/bkclient") :
	    user_dir("XDG_CACHE_HOME", ".cache");
	if (!c->config_dir)
		return err_set(e, ERR_USAGE, "no home directory: set HOME or "
		    "XDG_CONFIG_HOME");
	return 0;
}

/* ---- configuration ------------------------------------------------------ */

void config_rows(struct client *c, struct opt_row *rows)
{
	const struct opt_row all[] = {
		{ "server", 0, OPT_TEXT, &c->server, "URL",
		    "ssh://[USER@]HOST[:PORT] or exec:CMD",
		    &c->server_given },
		{ "name", 0, OPT_TEXT, &c->name, "NAME",
		    "of this client at the server", &c->name_given },
		{ "key", 0, OPT_TEXT, &c->key, "FILE", "private key",
		    &c->key_given },
		{ "known-hosts", 0, OPT_TEXT, &c->known_hosts, "FILE",
		    "host keys that are trusted", &c->known_hosts_given },
		{ "limit-rate", 0, OPT_SIZE, &c->rate_max, "RATE",
		    "bytes a second sent at most", &c->rate_given },
		{ "path", 0, OPT_LIST, &c->paths, "PATH",
		    "what `push` without words pushes", NULL },
		{ "exclude", 0, OPT_LIST, &c->excludes, "PATTERN",
		    "what is left out of every push", NULL },
		{ .name = NULL },
	};

	memcpy(rows, all, sizeof(all));
}

static int load_config(struct client *c, const char *file, bool must,
    struct err *e)
{
	struct opt_row rows[CONFIG_ROWS];
	struct buf text;
	size_t size;

	buf_init(&text, CONFIG_MAX);
	if (io_file_load(AT_FDCWD, file, &text, e) != 0) {
		buf_release(&text);
		return must || e->code != ERR_NOT_FOUND ? -1 : 0;
	}
	size = text.size;
	buf_u8(&text, '\0');
	if (buf_ok(&text, file, e) != 0) {
		buf_release(&text);
		return -1;
	}
	c->config_text = (char *)text.data;	/* options point into it */
	config_rows(c, rows);
	return conf_parse(c->config_text, size, file, rows, e);
}

/* The key and the host keys that `init` made, if they are there. */
static void find_defaults(struct client *c)
{
	if (!c->key) {
		c->key_default = join(c->config_dir, "key");
		if (c->key_default && access(c->key_default, R_OK) == 0)
			c->key = c->key_default;
	}
	if (!c->known_hosts) {
		c->hosts_default = join(c->config_dir, "known_hosts");
		if (c->hosts_default && access(c->hosts_default, R_OK) == 0)
			c->known_hosts = c->hosts_default;
	}
}

int config_load(struct client *c, struct err *e)
{
	const char *from_env = getenv("BKCLIENT_SERVER");
	char *file = NULL;
	int rc;

	if (find_dirs(c, e) != 0)
		return -1;
	if (!c->server_given && from_env && *from_env) {
		c->server = from_env;
		c->server_given = true;
	}
	if (!c->config_file)
		file = join(c->config_dir, "config");
	rc = load_config(c, c->config_file ? c->config_file : file,
	    c->config_file != NULL, e);
	free(file);
	find_defaults(c);
	return rc;
}

int client_connect(struct client *c, struct err *e)
{
	struct link_target t = { .server = c->server, .user = c->name,
		.key = c->key, .known_hosts = c->known_hosts,
		.rate_max = c->rate_max };
	struct link *l;

	if (c->link)
		return 0;
	if (!c->server)
		return err_set(e, ERR_USAGE, "no server: give -s, set "
		    "BKCLIENT_SERVER or run bkclient init");
	c->tried = true;
	if (link_open(&l, &t, e) != 0)
		return -1;
	pthread_mutex_lock(&c->link_lock);
	c->link = l;
	pthread_mutex_unlock(&c->link_lock);
	if (atomic_load(&c->stop))
		return err_set(e, ERR_CANCELLED, "stopped");
	return 0;
}
