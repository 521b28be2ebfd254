/*
 * client/cmd_init.c - bkclient init: a key, the server's key, a configuration.
 *
 * The host key is trusted because a person compared it, or gave its
 * fingerprint on the command line; without a terminal and without that, init
 * fails at once.
 */
#include "client/client.h"
#include "client/cmd.h"
#include "client/link.h"

#include "base/buf.h"
#include "base/io.h"
#include "base/wire_ssh.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct init_opts {
	const char *accept;
};

static void init_rows(void *opts, struct opt_row *rows)
{
	struct init_opts *o = opts;
	const struct opt_row all[] = {
		{ "accept-host-key", 0, OPT_TEXT, &o->accept, "FINGERPRINT",
		    "SHA256:..., as the server printed it", NULL },
		{ .name = NULL },
	};

	memcpy(rows, all, sizeof(all));
}

/* DIR/name, malloc'd. */
static char *in_dir(const char *dir, const char *name)
{
	char *out = NULL;

	return asprintf(&out, "%s/%s", dir, name) < 0 ? NULL : out;
}

static bool ask_yes(const char *fingerprint)
{
	char answer[16];

	fprintf(stderr, "The server's key is %s\n"
	    "Compare it with what `bkserver serve' printed.  "
	    "Is it the same? [yes/no] ", fingerprint);
	return fgets(answer, sizeof(answer), stdin) &&
	    strcmp(answer, "yes\n") == 0;
}

static int accept_host(const struct ssh_target *t, const char *accept,
    struct err *e)
{
	char fingerprint[SSH_FINGERPRINT_SIZE];

	if (ssh_probe_host_key(t, fingerprint, e) != 0)
		return -1;
	if (accept && strcmp(accept, fingerprint) != 0)
		return err_set(e, ERR_DENIED, "the server's key is %s, not "
		    "the one given", fingerprint);
	if (!accept && (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO)))
		return err_set(e, ERR_DENIED, "the server's key is %s; give "
		    "it with --accept-host-key if that is right",
		    fingerprint);
	if (!accept && !ask_yes(fingerprint))
		return err_set(e, ERR_DENIED, "the server's key was not "
		    "accepted");
	return ssh_pin_host_key(t, fingerprint, e);
}

static void add_line(struct buf *b, const char *key, const char *value)
{
	if (!value)
		return;
	buf_add(b, key, strlen(key));
	buf_add(b, " = ", 3);
	buf_add(b, value, strlen(value));
	buf_u8(b, '\n');
}

static int write_config(struct client *c, const char *file, struct err *e)
{
	struct buf b;
	int dir, rc;

	buf_init(&b, 65536);
	add_line(&b, "server", c->server);
	add_line(&b, "name", c->name);
	add_line(&b, "key", c->key);
	add_line(&b, "known-hosts", c->known_hosts);
	for (size_t i = 0; i < c->paths.count; i++)
		add_line(&b, "path", c->paths.items[i]);
	for (size_t i = 0; i < c->excludes.count; i++)
		add_line(&b, "exclude", c->excludes.items[i]);
	dir = open(c->config_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	rc = buf_ok(&b, "configuration", e);
	if (rc == 0 && dir < 0)
		rc = err_os(e, errno, "%s", c->config_dir);
	if (rc == 0)
		rc = io_file_replace(dir, file, 0600, b.data, b.size, e);
	buf_release(&b);
	io_close(&dir);
	return rc;
}

static int print_next(struct client *c, struct err *e)
{
	char *public = NULL;

	if (asprintf(&public, "%s.pub", c->key) < 0)
		return err_set(e, ERR_NO_MEMORY, "no memory for a path");
	printf("On the server, register this client with the key in %s:\n"
	    "  bkserver client add %s --key FILE\n", public, c->name);
	free(public);
	return 0;
}

static int make_key(struct client *c, const char *path, struct err *e)
{
	if (access(path, F_OK) == 0)
		return 0;		/* an earlier init made it */
	return ssh_key_generate(path, c->name, e);
}

static int set_up(struct client *c, const struct init_opts *o,
    const struct link_url *u, struct err *e)
{
	struct ssh_target t = { .host = u->host, .port = u->port,
		.use_config = true, .user = u->user[0] ? u->user : NULL };

	if (io_mkdirs(c->config_dir, 0700, e) != 0 ||
	    make_key(c, c->key, e) != 0)
		return -1;
	t.key_file = c->key;
	t.known_hosts = c->known_hosts;
	if (accept_host(&t, o->accept, e) != 0 ||
	    write_config(c, "config", e) != 0)
		return -1;
	return print_next(c, e);
}

static int init_cmd(struct client *c, void *opts, int argc, char **argv,
    struct err *e)
{
	char host[256] = "client", *key, *hosts;
	struct link_url u;
	int rc;

	(void)argc;
	(void)argv;
	if (!c->server)
		return err_set(e, ERR_USAGE, "init needs -s ssh://HOST:PORT");
	if (link_url_parse(&u, c->server, e) != 0)
		return -1;
	if (!c->name && gethostname(host, sizeof(host) - 1) == 0)
		host[strcspn(host, ".")] = '\0';
	if (!c->name)
		c->name = host;
	key = in_dir(c->config_dir, "key");
	hosts = in_dir(c->config_dir, "known_hosts");
	if (key && !c->key)
		c->key = key;
	if (hosts && !c->known_hosts)
		c->known_hosts = hosts;
	rc = key && hosts ? set_up(c, opts, &u, e) :
	    err_set(e, ERR_NO_MEMORY, "no memory for a path");
	if (c->key == key)
		c->key = NULL;
	if (c->known_hosts == hosts)
		c->known_hosts = NULL;
	if (c->name == host)
		c->name = NULL;
	free(key);
	free(hosts);
	return rc;
}

const struct cmd cmd_init = {
	.name = "init",
	.synopsis = "-s ssh://HOST[:PORT] [--name NAME] "
	    "[--accept-host-key FINGERPRINT]",
	.summary = "make a key, pin the server's key, write the configuration",
	.args_min = 0,
	.args_max = 0,
	.opts_size = sizeof(struct init_opts),
	.rows = init_rows,
	.run = init_cmd,
};
