#include "server/state.h"

#include "base/buf.h"
#include "base/conf.h"
#include "base/io.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define LISTEN_DEFAULT "127.0.0.1:2222"
#define MEMBERS_FILE_MAX (256u << 10)

static void config_rows(struct config *c, struct opt_row out[])
{
	const struct opt_row rows[] = {
		{ "listen", 0, OPT_TEXT, &c->listen, "ADDR:PORT",
		    "where the SSH listener waits", NULL },
		{ "member", 0, OPT_LIST, &c->members, "PATH",
		    "one more place to look for a member", NULL },
		{ "index", 0, OPT_TEXT, &c->index, "DIR",
		    "directory of the index", NULL },
		{ "wait_members", 0, OPT_DURATION, &c->wait_members_s, "DUR",
		    "wait so long for a member that is late", NULL },
		{ "sessions", 0, OPT_COUNT, &c->sessions_max, "N",
		    "sessions at once", NULL },
		{ "sessions_per_client", 0, OPT_COUNT,
		    &c->sessions_client_max, "N",
		    "sessions of one client at once", NULL },
		{ "unauthenticated", 0, OPT_COUNT, &c->unauthenticated_max,
		    "N", "connections without a known key at once", NULL },
		{ "session_idle", 0, OPT_DURATION, &c->session_idle_s, "DUR",
		    "end a session that asks nothing for so long", NULL },
		{ "flush", 0, OPT_DURATION, &c->flush_s, "DUR",
		    "make data durable at least so often", NULL },
		{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
	};

	memcpy(out, rows, sizeof(rows));
}

static void config_defaults(struct config *c)
{
	memset(c, 0, sizeof(*c));
	c->listen = LISTEN_DEFAULT;
	c->wait_members_s = 30;
	c->sessions_max = 24;
	c->sessions_client_max = 8;
	c->unauthenticated_max = 16;
	c->session_idle_s = 3600;
	c->flush_s = 15;
}

int state_config_load(struct state *s, struct config *out, struct err *e)
{
	struct opt_row rows[16];
	struct config c;
	struct buf text;
	size_t size;

	config_defaults(&c);
	buf_init(&text, STATE_CONFIG_MAX);
	if (io_file_load(s->fd, "config", &text, e) != 0) {
		buf_release(&text);
		if (e->code != ERR_NOT_FOUND)
			return -1;
		*out = c;
		return 0;
	}
	size = text.size;
	buf_u8(&text, 0);
	config_rows(&c, rows);
	if (buf_ok(&text, "config", e) != 0 ||
	    conf_parse((char *)text.data, size, "config", rows, e) != 0) {
		buf_release(&text);
		return err_add(e, "%s", s->dir);
	}
	if (c.sessions_max < 1 || c.sessions_max > 1024)
		c.sessions_max = c.sessions_max ? 1024 : 1;
	c.text = (char *)text.data;	/* handed on */
	*out = c;
	return 0;
}

void config_release(struct config *c)
{
	free(c->text);
	config_defaults(c);
}

/* Drop "//" and "/./" in place: one file, one text (but for links). */
static void tidy(char *path)
{
	char *to = path;

	for (const char *at = path; *at;) {
		if (at[0] == '/' && at[1] == '/')
			at++;
		else if (at[0] == '/' && at[1] == '.' && at[2] == '/')
			at += 2;
		else
			*to++ = *at++;
	}
	*to = '\0';
}

char *path_absolute(const char *cwd, const char *path, struct err *e)
{
	size_t size = strlen(path) + (cwd ? strlen(cwd) : 0) + 2;
	char *full = malloc(size);

	if (!full) {
		err_set(e, ERR_NO_MEMORY, "no memory for a path");
		return NULL;
	}
	if (path[0] == '/' || !cwd)
		snprintf(full, size, "%s", path);
	else
		snprintf(full, size, "%s/%s", cwd, path);
	tidy(full);
	return full;
}

int path_list_add(struct path_list *l, const char *cwd, const char *path,
    bool wait, struct err *e)
{
	char *full = path_absolute(cwd, path, e);

	if (!full)
		return -1;
	for (size_t i = 0; i < l->count; i++) {
		if (strcmp(l->paths[i], full) == 0) {
			l->wait[i] = l->wait[i] || wait;
			free(full);
			return 0;
		}
	}
	if (l->count == RAID_MEMBERS_MAX) {
		free(full);
		return err_set(e, ERR_LIMIT, "more than %d member paths",
		    RAID_MEMBERS_MAX);
	}
	l->paths[l->count] = full;
	l->uuid[l->count][0] = '\0';
	l->wait[l->count++] = wait;
	return 0;
}

const char *path_list_path(const struct path_list *l, const char *uuid)
{
	for (size_t i = 0; i < l->count; i++)
		if (strcmp(l->uuid[i], uuid) == 0)
			return l->paths[i];
	return NULL;
}

const char *path_list_uuid(const struct path_list *l, const char *path)
{
	for (size_t i = 0; i < l->count; i++)
		if (l->uuid[i][0] && strcmp(l->paths[i], path) == 0)
			return l->uuid[i];
	return NULL;
}

void path_list_release(struct path_list *l)
{
	for (size_t i = 0; i < l->count; i++)
		free(l->paths[i]);
	l->count = 0;
}

/* "[-][UUID ]PATH" */
static int member_parse(struct state *s, const char *line, struct err *e)
{
	bool wait = line[0] != '-';
	const char *path = wait ? line : line + 1;
	unsigned char uuid[RAID_UUID_SIZE];
	char text[STATE_UUID_TEXT] = "";
	size_t before = s->members.count;

	if (strlen(path) > STATE_UUID_TEXT &&
	    path[STATE_UUID_TEXT - 1] == ' ') {
		memcpy(text, path, STATE_UUID_TEXT - 1);
		if (hex_get(uuid, sizeof(uuid), text) == 0)
			path += STATE_UUID_TEXT;
		else
			text[0] = '\0';
	}
	if (path_list_add(&s->members, s->dir, path, wait, e) != 0)
		return -1;
	if (s->members.count > before)
		memcpy(s->members.uuid[before], text, sizeof(text));
	return 0;
}

static int members_parse(struct state *s, char *text, struct err *e)
{
	char *line, *next = text;

	while ((line = strsep(&next, "\n")) != NULL)
		if (line[0] != '\0' && line[0] != '#' &&
		    member_parse(s, line, e) != 0)
			return -1;
	return 0;
}

static int members_load(struct state *s, struct err *e)
{
	struct buf text;
	int rc = -1;

	buf_init(&text, MEMBERS_FILE_MAX);
	if (io_file_load(s->fd, "members", &text, e) != 0) {
		if (e->code == ERR_NOT_FOUND)
			rc = 0;
		goto out;
	}
	buf_u8(&text, 0);
	if (buf_ok(&text, "members", e) == 0)
		rc = members_parse(s, (char *)text.data, e);
out:
	buf_release(&text);
	return rc;
}

static bool same_lists(const struct path_list *a, const struct path_list *b)
{
	if (a->count != b->count)
		return false;
	for (size_t i = 0; i < a->count; i++)
		if (strcmp(a->paths[i], b->paths[i]) != 0 ||
		    strcmp(a->uuid[i], b->uuid[i]) != 0 ||
		    a->wait[i] != b->wait[i])
			return false;
	return true;
}

static int members_write(struct state *s, const struct path_list *paths,
    struct err *e)
{
	struct buf text;
	int rc = -1;

	buf_init(&text, MEMBERS_FILE_MAX);
	for (size_t i = 0; i < paths->count; i++) {
		const char *uuid = paths->uuid[i];

		if (!paths->wait[i])
			buf_u8(&text, '-');
		buf_add(&text, uuid, strlen(uuid));
		if (uuid[0])
			buf_u8(&text, ' ');
		buf_add(&text, paths->paths[i], strlen(paths->paths[i]));
		buf_u8(&text, '\n');
	}
	if (buf_ok(&text, "members", e) == 0)
		rc = io_file_replace(s->fd, "members", 0600, text.data,
		    text.size, e);
	buf_release(&text);
	return rc;
}

int state_members_save(struct state *s, const struct path_list *paths,
    struct err *e)
{
	struct path_list copy = { .count = 0 };

	if (same_lists(paths, &s->members))
		return 0;
	for (size_t i = 0; i < paths->count; i++) {
		if (path_list_add(&copy, NULL, paths->paths[i],
		    paths->wait[i], e) != 0)
			goto fail;
		memcpy(copy.uuid[i], paths->uuid[i], STATE_UUID_TEXT);
	}
	if (members_write(s, paths, e) != 0)
		goto fail;
	path_list_release(&s->members);
	s->members = copy;
	return 0;
fail:
	path_list_release(&copy);
	return -1;
}

static int dir_open(struct state *s, const char *dir, struct err *e)
{
	memset(s, 0, sizeof(*s));
	config_defaults(&s->config);
	s->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (s->fd < 0)
		return errno == ENOENT ? err_set(e, ERR_NOT_FOUND,
		    "%s: no such state directory; make one with bkserver init, "
		    "or from the members with bkserver recover", dir) :
		    err_os(e, errno, "open %s", dir);
	s->dir = realpath(dir, NULL);
	if (!s->dir)
		return err_os(e, errno, "look at %s", dir);
	return 0;
}

int state_open(struct state *s, const char *dir, struct err *e)
{
	if (dir_open(s, dir, e) != 0)
		return -1;
	if (members_load(s, e) != 0)
		return err_add(e, "%s", s->dir);
	return state_config_load(s, &s->config, e);
}

static int config_write(struct state *s, const char *index, struct err *e)
{
	struct buf text;
	char line[PATH_MAX + 32];
	int rc = -1;

	buf_init(&text, STATE_CONFIG_MAX);
	snprintf(line, sizeof(line), "# See bkserver(8).\n#listen = %s\n",
	    LISTEN_DEFAULT);
	buf_add(&text, line, strlen(line));
	if (index) {
		snprintf(line, sizeof(line), "index = %s\n", index);
		buf_add(&text, line, strlen(line));
	}
	if (buf_ok(&text, "config", e) == 0)
		rc = io_file_replace(s->fd, "config", 0600, text.data,
		    text.size, e);
	buf_release(&text);
	return rc;
}

int state_create(struct state *s, const char *dir, const char *index,
    const struct path_list *paths, struct err *e)
{
	memset(s, 0, sizeof(*s));
	s->fd = -1;
	if (io_mkdirs(dir, 0700, e) != 0 || dir_open(s, dir, e) != 0)
		return -1;
	if (faccessat(s->fd, "members", F_OK, 0) == 0)
		return err_set(e, ERR_EXISTS, "%s already is the state "
		    "directory of an array", s->dir);
	if (fchmod(s->fd, 0700) != 0)
		return err_os(e, errno, "set the mode of %s", s->dir);
	if (state_lock(s, e) != 0)
		return -1;
	if (faccessat(s->fd, "config", F_OK, 0) != 0 &&
	    config_write(s, index, e) != 0)
		return -1;
	return state_members_save(s, paths, e) != 0 ? -1 :
	    state_config_load(s, &s->config, e);
}

void state_release(struct state *s)
{
	io_close(&s->fd);
	free(s->dir);
	s->dir = NULL;
	config_release(&s->config);
	path_list_release(&s->members);
}

int state_lock(struct state *s, struct err *e)
{
	if (flock(s->fd, LOCK_EX | LOCK_NB) == 0)
		return 0;
	if (errno == EWOULDBLOCK)
		return err_set(e, ERR_BUSY, "another bkserver works with %s",
		    s->dir);
	return err_os(e, errno, "lock %s", s->dir);
}

char *state_index_dir(const struct state *s, struct err *e)
{
	const char *index = s->config.index ? s->config.index : "index";
	char *out = NULL;

	if (asprintf(&out, "%s%s%s", index[0] == '/' ? "" : s->dir,
	    index[0] == '/' ? "" : "/", index) < 0) {
		err_set(e, ERR_NO_MEMORY, "no memory for a path");
		return NULL;
	}
	return out;
}
