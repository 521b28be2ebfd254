/*
 * base/wire_ssh_client.c - the calling end: from an address to a wire
 *
 * THE ORDER OF OPTIONS
 *
 *   ssh_options_parse_config() overrides what was set before it, and
 *   ssh_connect() parses the same files again by itself.  So: the default
 *   port, the configuration (if wanted), then what the caller said; and
 *   ssh_connect() is told not to parse.
 *
 * THE HOST KEY
 *
 *   It is verified before anything else is said.  libssh asks for the key
 *   types that known_hosts has for this host, so a server with several keys
 *   shows one that we know.  Connecting never changes known_hosts; pinning
 *   is ssh_pin_host_key() alone, and that only with the fingerprint which a
 *   person (or a script) has confirmed.
 */
#include "base/wire_ssh_int.h"

#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PORT_DEFAULT 2222
#define TIMEOUT_DEFAULT_S 30
#define WHERE_SIZE 300

/* "HOST port N", for sentences. */
static void where(char out[static WHERE_SIZE], ssh_session s)
{
	char *host = NULL;
	unsigned port = 0;

	ssh_options_get_port(s, &port);
	if (ssh_options_get(s, SSH_OPTIONS_HOST, &host) != SSH_OK)
		host = NULL;
	snprintf(out, WHERE_SIZE, "%s port %u", host ? host : "?", port);
	ssh_string_free_char(host);
}

/* ---- options */

static bool set_fixed(ssh_session s, const struct ssh_target *t)
{
	long timeout = t->timeout_s ? t->timeout_s : TIMEOUT_DEFAULT_S;
	uint64_t rekey = t->rekey_bytes;
	bool no = false;
	int one = 1;

	return ssh_options_set(s, SSH_OPTIONS_PROCESS_CONFIG, &no) == 0 &&
	    ssh_options_set(s, SSH_OPTIONS_TIMEOUT, &timeout) == 0 &&
	    ssh_options_set(s, SSH_OPTIONS_NODELAY, &one) == 0 &&
	    ssh_options_set(s, SSH_OPTIONS_COMPRESSION, "no") == 0 &&
	    ssh_options_set(s, SSH_OPTIONS_REKEY_DATA, &rekey) == 0 &&
	    ssh_options_set(s, SSH_OPTIONS_CIPHERS_C_S, SSH_CIPHERS) == 0 &&
	    ssh_options_set(s, SSH_OPTIONS_CIPHERS_S_C, SSH_CIPHERS) == 0;
}

/* What the caller said goes over what the configuration says. */
static bool set_given(ssh_session s, const struct ssh_target *t)
{
	if (t->port != 0 &&
	    ssh_options_set(s, SSH_OPTIONS_PORT, &t->port) != 0)
		return false;
	if (t->user && ssh_options_set(s, SSH_OPTIONS_USER, t->user) != 0)
		return false;
	if (!t->known_hosts)
		return true;
	return ssh_options_set(s, SSH_OPTIONS_KNOWNHOSTS, t->known_hosts) ==
	    0 && ssh_options_set(s, SSH_OPTIONS_GLOBAL_KNOWNHOSTS,
	    "/dev/null") == 0;
}

static int new_session(ssh_session *out, const struct ssh_target *t,
    struct err *e)
{
	ssh_session s = ssh_new();
	unsigned port = PORT_DEFAULT;

	if (!s)
		return err_set(e, ERR_NO_MEMORY, "no memory for a session");
	if (ssh_options_set(s, SSH_OPTIONS_HOST, t->host) != 0 ||
	    ssh_options_set(s, SSH_OPTIONS_PORT, &port) != 0)
		goto bad;
	if (t->use_config && ssh_options_parse_config(s, NULL) != 0)
		goto bad;
	if (!set_fixed(s, t) || !set_given(s, t))
		goto bad;
	*out = s;
	return 0;
bad:
	err_set(e, ERR_USAGE, "host %s: %s", t->host, ssh_get_error(s));
	ssh_free(s);
	return -1;
}

static int connect_session(ssh_session *out, const struct ssh_target *t,
    struct err *e)
{
	char place[WHERE_SIZE];
	ssh_session s = NULL;

	if (new_session(&s, t, e) != 0)
		return -1;
	if (ssh_connect(s) != SSH_OK) {
		const char *why = ssh_get_error(s);

		where(place, s);
		err_set(e, strstr(why, "imeout") ? ERR_TIMEOUT :
		    ERR_UNAVAILABLE, "cannot connect to %s: %s", place, why);
		ssh_free(s);
		return -1;
	}
	*out = s;
	return 0;
}

static void drop(ssh_session s)
{
	ssh_disconnect(s);
	ssh_free(s);
}

/* ---- host keys */

static int server_fingerprint(ssh_session s,
    char fingerprint[static SSH_FINGERPRINT_SIZE], struct err *e)
{
	ssh_key key = NULL;
	int rc;

	if (ssh_get_server_publickey(s, &key) != SSH_OK)
		return err_set(e, ERR_PROTOCOL, "the server shows no host key");
	rc = key_fingerprint(key, fingerprint, e);
	ssh_key_free(key);
	return rc;
}

/* The file that pins host keys: as given, else as configured. */
static int known_hosts_path(char **out, ssh_session s,
    const struct ssh_target *t, struct err *e)
{
	char *path = NULL;
	const char *home;

	if (t->known_hosts) {
		*out = strdup(t->known_hosts);
	} else if (ssh_options_get(s, SSH_OPTIONS_KNOWNHOSTS, &path) ==
	    SSH_OK) {
		*out = strdup(path);
		ssh_string_free_char(path);
	} else {
		home = getenv("HOME");
		if (asprintf(out, "%s/.ssh/known_hosts", home ? home : "") < 0)
			*out = NULL;
	}
	return *out ? 0 : err_set(e, ERR_NO_MEMORY, "no memory for a path");
}

/* libssh treats a file that it cannot read like one that is not there. */
static int check_readable(const char *path, struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char byte;
	int os;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
		return 0;
	if (fd >= 0 && read(fd, &byte, 1) >= 0) {
		close(fd);
		return 0;
	}
	os = errno;
	io_close(&fd);
	err_os(e, os, "the host keys in %s cannot be read", path);
	e->code = ERR_DENIED;
	return -1;
}

static int judge(ssh_session s, const char *path, struct err *e)
{
	char fingerprint[SSH_FINGERPRINT_SIZE];
	enum ssh_known_hosts_e state;
	char place[WHERE_SIZE];

	state = ssh_session_is_known_server(s);
	if (state == SSH_KNOWN_HOSTS_OK)
		return 0;
	if (server_fingerprint(s, fingerprint, e) != 0)
		return -1;
	where(place, s);
	switch (state) {
	case SSH_KNOWN_HOSTS_CHANGED:
		return err_set(e, ERR_DENIED, "THE HOST KEY OF %s HAS CHANGED: "
		    "it is now %s, and %s has another; somebody may be "
		    "listening in, or the server was set up anew: ask its "
		    "owner, then remove the old line there", place,
		    fingerprint, path);
	case SSH_KNOWN_HOSTS_OTHER:
		return err_set(e, ERR_DENIED, "%s shows a host key of a type "
		    "(%s) other than the one that %s has for it; ask its "
		    "owner, then remove the old line there", place,
		    fingerprint, path);
	case SSH_KNOWN_HOSTS_NOT_FOUND:
	case SSH_KNOWN_HOSTS_UNKNOWN:
		return err_set(e, ERR_DENIED, "the host key of %s (%s) is not "
		    "in %s; compare it with what the server prints, then pin "
		    "it with \"init --accept-host-key\"", place, fingerprint,
		    path);
	case SSH_KNOWN_HOSTS_OK:
	case SSH_KNOWN_HOSTS_ERROR:
		break;
	}
	return err_set(e, ERR_DENIED, "the host key of %s cannot be checked "
	    "with %s: %s", place, path, ssh_get_error(s));
}

static int verify_host(ssh_session s, const struct ssh_target *t,
    struct err *e)
{
	char *path;
	int rc;

	if (known_hosts_path(&path, s, t, e) != 0)
		return -1;
	rc = check_readable(path, e);
	if (rc == 0)
		rc = judge(s, path, e);
	free(path);
	return rc;
}

/* ---- authentication */

static int load_key(ssh_key *key, const char *path, bool *locked,
    struct err *e)
{
	int fd;

	*locked = false;
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		err_os(e, errno, "key file %s", path);
		if (errno == ENOENT)
			e->code = ERR_NOT_FOUND;
		return -1;
	}
	close(fd);
	/* A passphrase is never asked for; the agent may hold the key. */
	if (ssh_pki_import_privkey_file(path, "", NULL, NULL, key) == SSH_OK)
		return 0;
	*locked = true;
	return 0;
}

/* As libssh's: SSH_AUTH_SUCCESS and so on. */
static int offer_keys(ssh_session s, const struct ssh_target *t, int *rc,
    struct err *e)
{
	ssh_key key = NULL;
	bool locked;

	if (!t->key_file) {
		*rc = ssh_userauth_publickey_auto(s, NULL, NULL);
		return 0;
	}
	if (load_key(&key, t->key_file, &locked, e) != 0)
		return -1;
	if (!locked) {
		*rc = ssh_userauth_publickey(s, NULL, key);
		ssh_key_free(key);
		return 0;
	}
	*rc = ssh_userauth_agent(s, NULL);
	if (*rc != SSH_AUTH_SUCCESS && ssh_is_connected(s))
		return err_set(e, ERR_DENIED, "key file %s is not an OpenSSH "
		    "private key or has a passphrase, and no agent helps",
		    t->key_file);
	return 0;
}

static int authenticate(ssh_session s, const struct ssh_target *t,
    struct err *e)
{
	char place[WHERE_SIZE];
	int rc = SSH_AUTH_ERROR;

	if (offer_keys(s, t, &rc, e) != 0)
		return -1;
	if (rc == SSH_AUTH_SUCCESS)
		return 0;
	where(place, s);
	if (rc == SSH_AUTH_DENIED || rc == SSH_AUTH_PARTIAL)
		return err_set(e, ERR_DENIED, "%s does not accept our key%s%s; "
		    "is it registered there?", place,
		    t->key_file ? " " : "s", t->key_file ? t->key_file : "");
	return err_set(e, ERR_UNAVAILABLE, "%s ended the connection while we "
	    "authenticated (is our key registered there?): %s", place,
	    ssh_get_error(s));
}

/* ---- the channel */

static int open_channel(struct ssh_line *line, struct err *e)
{
	ssh_session s = line->session;
	ssh_channel ch = ssh_channel_new(s);
	char place[WHERE_SIZE];

	if (!ch)
		return err_set(e, ERR_NO_MEMORY, "no memory for a channel");
	if (ssh_line_use(line, ch, e) != 0)
		return -1;
	if (ssh_channel_open_session(ch) == SSH_OK &&
	    ssh_channel_request_subsystem(ch, SSH_SUBSYSTEM) == SSH_OK)
		return 0;
	where(place, s);
	return err_set(e, ERR_UNAVAILABLE, "%s is no backup server, or refuses "
	    "to serve now: %s", place, ssh_get_error(s));
}

int wire_ssh_connect(struct wire **out, const struct ssh_target *t,
    const struct wire_options *o, struct err *e)
{
	struct ssh_line *line;
	ssh_session s;

	if (connect_session(&s, t, e) != 0)
		return -1;
	if (ssh_line_new(&line, s, e) != 0)
		return -1;
	if (verify_host(s, t, e) != 0 || authenticate(s, t, e) != 0 ||
	    open_channel(line, e) != 0 || ssh_line_unblock(line, e) != 0 ||
	    ssh_line_attach(line, e) != 0) {
		ssh_line_drop(line);
		return -1;
	}
	return ssh_line_start(out, line, o, e);
}

/* ---- pinning */

int ssh_probe_host_key(const struct ssh_target *t,
    char fingerprint[static SSH_FINGERPRINT_SIZE], struct err *e)
{
	ssh_session s;
	int rc;

	if (connect_session(&s, t, e) != 0)
		return -1;
	rc = server_fingerprint(s, fingerprint, e);
	drop(s);
	return rc;
}

/* One line at the end of the file, which may lack its last newline. */
static int append_line(const char *path, const char *line, struct err *e)
{
	int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	off_t size;
	char last = '\n';
	int rc = -1;

	if (fd < 0)
		return err_os(e, errno, "open %s", path);
	size = lseek(fd, 0, SEEK_END);
	if (size > 0 && pread(fd, &last, 1, size - 1) != 1) {
		err_os(e, errno, "read %s", path);
		goto out;
	}
	if ((last != '\n' && io_write_all(fd, "\n", 1, path, e) != 0) ||
	    io_write_all(fd, line, strlen(line), path, e) != 0)
		goto out;
	if (fsync(fd) != 0) {
		err_os(e, errno, "fsync %s", path);
		goto out;
	}
	rc = 0;
out:
	close(fd);
	return rc;
}

static int add_known_host(ssh_session s, const char *path, struct err *e)
{
	char *entry = NULL, *folder, *slash;
	int rc = 0;

	folder = strdup(path);
	if (!folder || ssh_session_export_known_hosts_entry(s, &entry) !=
	    SSH_OK) {
		free(folder);
		return err_set(e, ERR_NO_MEMORY, "no line for %s", path);
	}
	slash = strrchr(folder, '/');
	if (slash && slash != folder) {
		*slash = '\0';
		rc = io_mkdirs(folder, 0700, e);
	}
	if (rc == 0)
		rc = append_line(path, entry, e);
	ssh_string_free_char(entry);
	free(folder);
	return rc;
}

static int pin(ssh_session s, const struct ssh_target *t,
    const char *fingerprint, struct err *e)
{
	char now[SSH_FINGERPRINT_SIZE];
	char *path;
	int rc = -1;

	if (server_fingerprint(s, now, e) != 0)
		return -1;
	if (strcmp(now, fingerprint) != 0)
		return err_set(e, ERR_DENIED, "the server's host key is %s, "
		    "not %s: nothing was pinned", now, fingerprint);
	if (known_hosts_path(&path, s, t, e) != 0)
		return -1;
	if (check_readable(path, e) != 0)
		goto out;
	switch (ssh_session_is_known_server(s)) {
	case SSH_KNOWN_HOSTS_OK:
		rc = 0;
		break;
	case SSH_KNOWN_HOSTS_UNKNOWN:
	case SSH_KNOWN_HOSTS_NOT_FOUND:
		rc = add_known_host(s, path, e);
		break;
	case SSH_KNOWN_HOSTS_CHANGED:
	case SSH_KNOWN_HOSTS_OTHER:
	case SSH_KNOWN_HOSTS_ERROR:
		rc = judge(s, path, e);
		break;
	}
out:
	free(path);
	return rc;
}

int ssh_pin_host_key(const struct ssh_target *t, const char *fingerprint,
    struct err *e)
{
	ssh_session s;
	int rc;

	if (connect_session(&s, t, e) != 0)
		return -1;
	rc = pin(s, t, fingerprint, e);
	drop(s);
	return rc;
}
