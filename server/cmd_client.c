/* bkserver client add|list|set|pause|remove - who may push and restore. */
#include "base/str.h"
#include "base/wire_ssh.h"
#include "server/client_keys.h"
#include "server/cmd.h"
#include "server/owner.h"
#include "server/session.h"
#include "store/store.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct client_values {
	bool none;
	const char *key, *role, *domain;
	uint64_t quota, last, hourly, daily, weekly, monthly, yearly;
	uint64_t within_s, min_age_s;
	bool quota_seen, last_seen, hourly_seen, daily_seen, weekly_seen,
	    monthly_seen, yearly_seen, within_seen, min_age_seen;
	bool json, off, purge;
};

#define AT(field) OPT_AT(struct client_values, field)
#define RULES                                                               \
	{ "role", 0, OPT_TEXT, AT(role), "ROLE",                            \
	    "push, restore or both (default)", NULL },                      \
	{ "domain", 0, OPT_TEXT, AT(domain), "D",                           \
	    "share stored data with the other clients of D", NULL },        \
	{ "quota", 0, OPT_SIZE, AT(quota), "SIZE",                          \
	    "most that may be stored (0: no limit)", AT(quota_seen) },      \
	{ "keep-last", 0, OPT_COUNT, AT(last), "N",                         \
	    "prune keeps the last N snapshots", AT(last_seen) },            \
	{ "keep-hourly", 0, OPT_COUNT, AT(hourly), "N",                     \
	    "and one an hour for N hours that have any",                    \
	    AT(hourly_seen) },                                              \
	{ "keep-daily", 0, OPT_COUNT, AT(daily), "N",                       \
	    "one a day", AT(daily_seen) },                                  \
	{ "keep-weekly", 0, OPT_COUNT, AT(weekly), "N",                     \
	    "one a week", AT(weekly_seen) },                                \
	{ "keep-monthly", 0, OPT_COUNT, AT(monthly), "N",                   \
	    "one a month", AT(monthly_seen) },                              \
	{ "keep-yearly", 0, OPT_COUNT, AT(yearly), "N",                     \
	    "one a year", AT(yearly_seen) },                                \
	{ "keep-within", 0, OPT_DURATION, AT(within_s), "DUR",              \
	    "all of the last DUR", AT(within_seen) },                       \
	{ "min-age", 0, OPT_DURATION, AT(min_age_s), "DUR",                 \
	    "nothing younger is ever removed, by anyone",                   \
	    AT(min_age_seen) },                                             \
	{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }

static const struct opt_row add_rows[] = {
	{ "key", 0, OPT_TEXT, AT(key), "FILE",
	    "its public key, in OpenSSH's form (required)", NULL },
	RULES
};

static const struct opt_row set_rows[] = { RULES };

static int set_role(struct client_record *c, const char *role, struct err *e)
{
	if (!role)
		return 0;
	if (strcmp(role, "push") == 0)
		c->role = ROLE_PUSH;
	else if (strcmp(role, "restore") == 0)
		c->role = ROLE_RESTORE;
	else if (strcmp(role, "both") == 0)
		c->role = ROLE_PUSH | ROLE_RESTORE;
	else
		return err_set(e, ERR_USAGE, "--role is push, restore or "
		    "both, not %s", role);
	return 0;
}

static const char *role_name(const struct client_record *c)
{
	return c->role == ROLE_PUSH ? "push" :
	    c->role == ROLE_RESTORE ? "restore" : "both";
}

static int set_count(uint32_t *out, uint64_t value, bool seen, struct err *e)
{
	if (!seen)
		return 0;
	if (value > UINT32_MAX)
		return err_set(e, ERR_USAGE, "%" PRIu64 " is too many to keep",
		    value);
	*out = (uint32_t)value;
	return 0;
}

/* What was given changes, the rest stays. */
static int set_rules(struct client_record *c, const struct client_values *v,
    struct err *e)
{
	struct retention *k = &c->keep;

	if (set_role(c, v->role, e) != 0 ||
	    set_count(&k->last, v->last, v->last_seen, e) != 0 ||
	    set_count(&k->hourly, v->hourly, v->hourly_seen, e) != 0 ||
	    set_count(&k->daily, v->daily, v->daily_seen, e) != 0 ||
	    set_count(&k->weekly, v->weekly, v->weekly_seen, e) != 0 ||
	    set_count(&k->monthly, v->monthly, v->monthly_seen, e) != 0 ||
	    set_count(&k->yearly, v->yearly, v->yearly_seen, e) != 0)
		return -1;
	if (v->within_seen)
		k->within_s = v->within_s;
	if (v->min_age_seen)
		k->min_age_s = v->min_age_s;
	if (v->quota_seen)
		c->quota = v->quota;
	if (v->domain && snprintf(c->domain_name, sizeof(c->domain_name), "%s",
	    v->domain) >= (int)sizeof(c->domain_name))
		return err_set(e, ERR_USAGE, "the domain's name is too long");
	return 0;
}

/* In the largest unit that gives it exactly. */
static void duration_text(char *out, size_t size, uint64_t s)
{
	static const struct {
		uint64_t s;
		char name;
	} units[] = { { 604800, 'w' }, { 86400, 'd' }, { 3600, 'h' },
		{ 60, 'm' } };

	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (s % units[i].s == 0 && s > 0) {
			snprintf(out, size, "%" PRIu64 "%c", s / units[i].s,
			    units[i].name);
			return;
		}
	snprintf(out, size, "%" PRIu64 "s", s);
}

/* "last 3, daily 7, within 2w" or "everything". */
static void rules_text(char *out, size_t size, const struct retention *k)
{
	char within[32];
	const struct {
		const char *name;
		uint64_t value;
	} rules[] = {
		{ "last", k->last }, { "hourly", k->hourly },
		{ "daily", k->daily }, { "weekly", k->weekly },
		{ "monthly", k->monthly }, { "yearly", k->yearly },
	};
	size_t used = 0;

	snprintf(out, size, "everything");
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
		if (rules[i].value && used < size)
			used += (size_t)snprintf(out + used, size - used,
			    "%s%s %" PRIu64, used ? ", " : "", rules[i].name,
			    rules[i].value);
	duration_text(within, sizeof(within), k->within_s);
	if (k->within_s && used < size)
		snprintf(out + used, size - used, "%swithin %s",
		    used ? ", " : "", within);
}

static void say_client(struct cmd_io *io, const struct client_record *c)
{
	char rules[200], quota[16] = "none", age[32];

	rules_text(rules, sizeof(rules), &c->keep);
	if (c->quota)
		str_bytes_human(quota, c->quota);
	duration_text(age, sizeof(age), c->keep.min_age_s);
	out_text(io, "%s  role %s%s, domain %s, quota %s, keeps %s%s%s\n",
	    c->name, role_name(c), c->paused ? " (paused)" : "",
	    c->domain_name[0] ? c->domain_name : "its own", quota, rules,
	    c->keep.min_age_s ? ", minimum age " : "",
	    c->keep.min_age_s ? age : "");
}

static struct client_record *load(struct owner *o, const char *name,
    struct err *e)
{
	struct client_record *c = calloc(1, sizeof(*c));

	if (!c) {
		err_set(e, ERR_NO_MEMORY, "no memory for a client");
		return NULL;
	}
	if (store_client_get(o->store, name, c, e) == 0)
		return c;
	free(c);
	return NULL;
}

static int add_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	const struct client_values *v = call->values;
	struct client_record *c;
	int rc = -1;

	if (!call->attached)
		return err_set(e, ERR_USAGE, "client add needs --key FILE, "
		    "the client's public key");
	c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(e, ERR_NO_MEMORY, "no memory for a client");
	c->role = ROLE_PUSH | ROLE_RESTORE;
	if (snprintf(c->name, sizeof(c->name), "%s", call->words[0]) >=
	    (int)sizeof(c->name))
		err_set(e, ERR_USAGE, "a client's name has at most %d "
		    "characters", CLIENT_NAME_MAX);
	else if (client_keys_add(c, call->attached, e) == 0 &&
	    set_rules(c, v, e) == 0 && store_client_add(o->store, c, e) == 0)
		rc = 0;
	if (rc == 0) {
		client_keys_say(c, 0, io);
		say_client(io, c);
	}
	free(c);
	return rc;
}

static int set_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	struct client_record *c = load(o, call->words[0], e);
	uint8_t role;
	int rc = -1;

	if (!c)
		return -1;
	role = c->role;
	if (set_rules(c, call->values, e) == 0 &&
	    store_client_set(o->store, c, e) == 0) {
		say_client(io, c);
		rc = 0;
	}
	/* Not for rules and quotas: those wait for the next push.  The domain
	 * changes only where nothing is stored: such a push fails at its
	 * commit. */
	if (rc == 0 && c->role != role)
		sessions_end_client(o->sessions, c->name,
		    "the role of this client was changed");
	free(c);
	return rc;
}

static int pause_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	const struct client_values *v = call->values;
	struct client_record *c = load(o, call->words[0], e);
	int rc;

	if (!c)
		return -1;
	c->paused = !v->off;
	rc = store_client_set(o->store, c, e);
	if (rc == 0) {
		say_client(io, c);
		if (c->paused)
			sessions_end_client(o->sessions, c->name,
			    "this client was paused");
	}
	free(c);
	return rc;
}

static int remove_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	const struct client_values *v = call->values;

	if (store_client_remove(o->store, call->words[0], v->purge, e) != 0)
		return -1;
	sessions_end_client(o->sessions, call->words[0],
	    "this client was removed");
	out_text(io, "%s is removed%s\n", call->words[0], v->purge ?
	    "; bkserver prune frees what only its snapshots held" : "");
	return 0;
}

struct listing {
	struct cmd_io *io;
	bool json;
};

static void json_client(struct cmd_io *io, const struct client_record *c)
{
	const struct retention *k = &c->keep;
	struct json_t *line = json_line("client");

	json_object_set_new(line, "name", json_string(c->name));
	json_object_set_new(line, "role", json_string(role_name(c)));
	json_object_set_new(line, "paused", json_boolean(c->paused));
	json_object_set_new(line, "domain", json_string(c->domain_name));
	json_u64(line, "quota_bytes", c->quota);
	json_u64(line, "keys", c->key_count);
	json_time(line, "added", c->added_s);
	json_time(line, "last_seen", c->last_seen_s);
	json_object_set_new(line, "keep", json_pack("{s:I,s:I,s:I,s:I,s:I,"
	    "s:I,s:I,s:I}", "last", (json_int_t)k->last, "hourly",
	    (json_int_t)k->hourly, "daily", (json_int_t)k->daily, "weekly",
	    (json_int_t)k->weekly, "monthly", (json_int_t)k->monthly,
	    "yearly", (json_int_t)k->yearly, "within_s",
	    (json_int_t)k->within_s, "min_age_s", (json_int_t)k->min_age_s));
	out_json(io, line);
}

static int list_one(void *arg, const struct client_record *c)
{
	const struct listing *l = arg;

	if (l->json)
		json_client(l->io, c);
	else
		say_client(l->io, c);
	return l->io->broken;
}

static int list_run(struct owner *o, struct cmd_io *io,
    const struct cmd_call *call, struct err *e)
{
	const struct client_values *v = call->values;
	struct listing l = { .io = io, .json = v->json };

	(void)e;
	(void)store_client_each(o->store, list_one, &l);
	return 0;
}

static const struct opt_row list_rows[] = {
	{ "json", 0, OPT_FLAG, AT(json), NULL, "one JSON object a line",
	    NULL },
	{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
};

static const struct opt_row pause_rows[] = {
	{ "off", 0, OPT_FLAG, AT(off), NULL, "let it work again", NULL },
	{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
};

static const struct opt_row remove_rows[] = {
	{ "purge", 0, OPT_FLAG, AT(purge), NULL,
	    "forget its snapshots too (not those below --min-age)", NULL },
	{ NULL, 0, OPT_FLAG, NULL, NULL, NULL, NULL }
};

#define RULES_SYNOPSIS "[--role ROLE] [--domain D] [--quota SIZE]\n" \
	"       [--keep-last N] [--keep-hourly N] [--keep-daily N] " \
	"[--keep-weekly N]\n       [--keep-monthly N] [--keep-yearly N] " \
	"[--keep-within DUR] [--min-age DUR]"

const struct cmd cmd_client_add = {
	.name = "client add",
	.synopsis = "NAME --key FILE " RULES_SYNOPSIS,
	.summary = "register a client by its public key",
	.args_min = 1, .args_max = 1,
	.rows = add_rows, .values_size = sizeof(struct client_values),
	.attach = offsetof(struct client_values, key),
	.run = add_run,
};

const struct cmd cmd_client_list = {
	.name = "client list",
	.synopsis = "[--json]",
	.summary = "the registered clients",
	.args_max = 0,
	.flags = CMD_READS,
	.rows = list_rows, .values_size = sizeof(struct client_values),
	.run = list_run,
};

const struct cmd cmd_client_set = {
	.name = "client set",
	.synopsis = "NAME " RULES_SYNOPSIS,
	.summary = "change what a client may and what prune keeps of it",
	.args_min = 1, .args_max = 1,
	.rows = set_rows, .values_size = sizeof(struct client_values),
	.run = set_run,
};

const struct cmd cmd_client_pause = {
	.name = "client pause",
	.synopsis = "NAME [--off]",
	.summary = "refuse a client's sessions, and nothing else",
	.args_min = 1, .args_max = 1,
	.rows = pause_rows, .values_size = sizeof(struct client_values),
	.run = pause_run,
};

const struct cmd cmd_client_remove = {
	.name = "client remove",
	.synopsis = "NAME [--purge]",
	.summary = "forget a client",
	.args_min = 1, .args_max = 1,
	.rows = remove_rows, .values_size = sizeof(struct client_values),
	.run = remove_run,
};
