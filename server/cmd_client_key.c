/* bkserver client key add|list|remove - several keys of one client. */
#include "base/wire_ssh.h"
#include "server/client_keys.h"
#include "server/cmd.h"
#include "server/owner.h"
#include "server/session.h"
#include "store/store.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct key_values {
	bool none;
	const char *key;
	bool json;
};

static const struct opt_row file_rows[] = {
	{ "key", 0, OPT_TEXT, OPT_AT(struct key_values, key), "FILE",
	    "the public key, in OpenSSH's form (required)", NULL },
	{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
};

static const struct opt_row list_rows[] = {
	{ "json", 0, OPT_FLAG, OPT_AT(struct key_values, json), NULL,
	    "one JSON object a line", NULL },
	{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
};

static int add_one(struct client_record *c, const char *line,
    struct err *e)
{
	char fingerprint[SSH_FINGERPRINT_SIZE];
	char *canonical = NULL;
	int rc = -1;

	if (ssh_public_key_parse(line, &canonical, fingerprint, e) != 0) {
		e->code = ERR_USAGE;
		return -1;
	}
	for (uint32_t i = 0; i < c->key_count; i++) {
		if (strcmp(c->keys[i], canonical) == 0) {
			err_set(e, ERR_EXISTS, "%s already has the key %s",
			    c->name, fingerprint);
			goto out;
		}
	}
	if (c->key_count == CLIENT_KEYS_MAX) {
		err_set(e, ERR_LIMIT, "a client has at most %d keys",
		    CLIENT_KEYS_MAX);
		goto out;
	}
	if (strlen(canonical) >= CLIENT_KEY_TEXT_MAX) {
		err_set(e, ERR_LIMIT, "the key %s is too long", fingerprint);
		goto out;
	}
	snprintf(c->keys[c->key_count++], CLIENT_KEY_TEXT_MAX, "%s",
	    canonical);
	rc = 0;
out:
	free(canonical);
	return rc;
}

int client_keys_add(struct client_record *c, const char *text,
    struct err *e)
{
	uint32_t before = c->key_count;
	char *copy, *next, *line;
	int rc = 0;

	if (strstr(text, "PRIVATE KEY"))
		return err_set(e, ERR_USAGE, "that file holds a private key, "
		    "which stays with the client; give the .pub file");
	copy = next = strdup(text);
	if (!copy)
		return err_set(e, ERR_NO_MEMORY, "no memory for a key");
	while (rc == 0 && (line = strsep(&next, "\n")) != NULL) {
		line += strspn(line, " \t\r");
		if (line[0] && line[0] != '#')
			rc = add_one(c, line, e);
	}
	free(copy);
	if (rc == 0 && c->key_count == before)
		return err_set(e, ERR_USAGE, "no public key in that file");
	return rc;
}

void client_keys_say(const struct client_record *c, uint32_t from,
    struct cmd_io *io)
{
	for (uint32_t i = from; i < c->key_count; i++) {
		char fingerprint[SSH_FINGERPRINT_SIZE] = "unreadable";
		char *canonical = NULL;
		struct err e;

		if (ssh_public_key_parse(c->keys[i], &canonical, fingerprint,
		    &e) == 0)
			free(canonical);
		out_text(io, "key %s for %s\n", fingerprint, c->name);
	}
}

/* Change a copy of the record, store it, and then say so. */
static int with_record(struct owner *o, const struct cmd_call *call,
    struct cmd_io *io, int (*change)(struct client_record *c,
    const struct cmd_call *call, struct err *e), struct err *e)
{
	struct client_record *c = calloc(1, sizeof(*c));
	uint32_t before;
	int rc;

	if (!c)
		return err_set(e, ERR_NO_MEMORY, "no memory for a client");
	rc = store_client_get(o->store, call->words[0], c, e);
	before = c->key_count;
	if (rc == 0)
		rc = change(c, call, e);
	if (rc == 0)
		rc = store_client_set(o->store, c, e);
	if (rc == 0 && c->key_count < before)
		out_text(io, "key %s is removed from %s%s\n", call->words[1],
		    c->name, c->key_count ? "" : ", which has no other");
	if (rc == 0)
		client_keys_say(c, before, io);
	free(c);
	return rc;
}

static int add_keys(struct client_record *c, const struct cmd_call *call,
    struct err *e)
{
	if (!call->attached)
		return err_set(e, ERR_USAGE, "client key add needs --key FILE");
	return client_keys_add(c, call->attached, e);
}

static int add_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	return with_record(o, call, io, add_keys, e);
}

static int remove_key(struct client_record *c, const struct cmd_call *call,
    struct err *e)
{
	char fingerprint[SSH_FINGERPRINT_SIZE];

	for (uint32_t i = 0; i < c->key_count; i++) {
		char *canonical = NULL;

		if (ssh_public_key_parse(c->keys[i], &canonical, fingerprint,
		    e) != 0)
			continue;
		free(canonical);
		if (strcmp(fingerprint, call->words[1]) != 0)
			continue;
		memmove(c->keys[i], c->keys[i + 1], (c->key_count - i - 1) *
		    sizeof(c->keys[0]));
		c->key_count--;
		return 0;
	}
	return err_set(e, ERR_NOT_FOUND, "%s has no key %s; bkserver client "
	    "key list %s shows them", c->name, call->words[1], c->name);
}

static int remove_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	if (with_record(o, call, io, remove_key, e) != 0)
		return -1;
	/* Which key a session came with is not kept: all end, and those with
	 * another key begin again. */
	sessions_end_client(o->sessions, call->words[0],
	    "a key of this client was removed");
	return 0;
}

static void say_key(struct cmd_io *io, const char *key, bool json)
{
	char fingerprint[SSH_FINGERPRINT_SIZE] = "unreadable";
	char *canonical = NULL;
	struct json_t *line;
	struct err e;

	if (ssh_public_key_parse(key, &canonical, fingerprint, &e) != 0)
		canonical = NULL;
	free(canonical);
	if (!json) {
		out_text(io, "%s  %.*s\n", fingerprint,
		    (int)strcspn(key, " "), key);
		return;
	}
	line = json_line("key");
	json_object_set_new(line, "fingerprint", json_string(fingerprint));
	json_object_set_new(line, "key", json_string(key));
	out_json(io, line);
}

static int list_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	const struct key_values *v = call->values;
	struct client_record *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return err_set(e, ERR_NO_MEMORY, "no memory for a client");
	rc = store_client_get(o->store, call->words[0], c, e);
	for (uint32_t i = 0; rc == 0 && i < c->key_count; i++)
		say_key(io, c->keys[i], v->json);
	free(c);
	return rc;
}

const struct cmd cmd_client_key_add = {
	.name = "client key add",
	.synopsis = "NAME --key FILE",
	.summary = "accept one more key of a client",
	.args_min = 1, .args_max = 1,
	.rows = file_rows, .values_size = sizeof(struct key_values),
	.attach = offsetof(struct key_values, key),
	.run = add_run,
};

const struct cmd cmd_client_key_list = {
	.name = "client key list",
	.synopsis = "NAME [--json]",
	.summary = "the keys of a client",
	.args_min = 1, .args_max = 1,
	.flags = CMD_READS,
	.rows = list_rows, .values_size = sizeof(struct key_values),
	.run = list_run,
};

const struct cmd cmd_client_key_remove = {
	.name = "client key remove",
	.synopsis = "NAME FINGERPRINT",
	.summary = "accept a key no more",
	.args_min = 2, .args_max = 2,
	.run = remove_run,
};
