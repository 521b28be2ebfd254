#include "server/report.h"

#include "base/str.h"
#include "server/out.h"
#include "server/owner.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *report_state(struct owner *o, const struct array_info *i)
{
	struct err e;

	/* One who only looks has opened it read-only himself. */
	if ((i->read_only && !o->read_only) || owner_may_write(o, &e) != 0)
		return "read-only";
	return i->degraded ? "degraded" : i->reduced ? "reduced" : "ok";
}

static uint64_t errors_of(const struct member_info *m)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < ARRAY_ERROR_KINDS; i++)
		sum += m->errors[i];
	return sum;
}

/* Where it was last seen, for one that is away. */
static void fill_paths(struct owner *o, struct member_info *m, size_t count)
{
	char uuid[STATE_UUID_TEXT];
	const char *path;

	pthread_mutex_lock(&o->config_lock);
	for (size_t i = 0; i < count; i++) {
		hex_put(uuid, m[i].uuid, RAID_UUID_SIZE);
		path = path_list_path(&o->state.members, uuid);
		if (!m[i].path[0] && path)
			snprintf(m[i].path, sizeof(m[i].path), "%s", path);
	}
	pthread_mutex_unlock(&o->config_lock);
}

static struct json_t *json_member(const struct member_info *m)
{
	char uuid[2 * RAID_UUID_SIZE + 1];
	struct json_t *errors = json_object();
	struct json_t *o = json_object();

	hex_put(uuid, m->uuid, RAID_UUID_SIZE);
	json_u64(o, "index", m->index);
	json_object_set_new(o, "uuid", json_string(uuid));
	json_object_set_new(o, "state",
	    json_string(member_state_name(m->state)));
	json_name(o, "path", m->path, strlen(m->path));
	json_u64(o, "size_bytes", m->size);
	json_u64(o, "used_bytes", m->used_bytes);
	json_u64(o, "free_bytes", m->free_bytes);
	for (size_t i = 0; i < ARRAY_ERROR_KINDS; i++)
		json_u64(errors, array_error_name(i), m->errors[i]);
	json_object_set_new(o, "errors", errors);
	json_u64(o, "read_bytes", m->read_bytes);
	json_u64(o, "written_bytes", m->written_bytes);
	json_u64(o, "slow_ms_max", m->slow_ms_max);
	return o;
}

static void array_json(struct owner *o, struct cmd_io *io,
    const struct array_info *i, const struct member_info *m, size_t count)
{
	char uuid[2 * RAID_UUID_SIZE + 1];
	struct json_t *members = json_array();
	struct json_t *line = json_line("array");

	json_object_set_new(line, "state", json_string(report_state(o, i)));
	json_u64(line, "used_bytes", i->used_bytes);
	json_u64(line, "free_bytes", i->free_bytes);
	for (size_t k = 0; k < count; k++)
		json_array_append_new(members, json_member(&m[k]));
	json_object_set_new(line, "members", members);
	hex_put(uuid, array_uuid(o->array), RAID_UUID_SIZE);
	json_object_set_new(line, "uuid", json_string(uuid));
	json_u64(line, "parity", i->parity);
	json_object_set_new(line, "degraded", json_boolean(i->degraded));
	json_object_set_new(line, "reduced", json_boolean(i->reduced));
	json_u64(line, "extent_bytes", i->extent_size);
	json_u64(line, "segments", i->segments);
	json_u64(line, "segments_reduced", i->segments_reduced);
	json_u64(line, "log_bytes", i->log_bytes);
	json_u64(line, "flush", i->flush);
	out_json(io, line);
}

static void say_member(struct cmd_io *io, const struct member_info *m)
{
	char used[16], size[16], path[1024];

	str_bytes_human(used, m->used_bytes);
	str_bytes_human(size, m->size);
	str_escape_to(path, sizeof(path), m->path, strlen(m->path));
	out_text(io, "  %u  %-9s  %s of %s used  %s", m->index,
	    member_state_name(m->state), used, size, path);
	if (errors_of(m))
		out_text(io, "  errors:");
	for (size_t i = 0; i < ARRAY_ERROR_KINDS; i++)
		if (m->errors[i])
			out_text(io, " %s %" PRIu64, array_error_name(i),
			    m->errors[i]);
	out_text(io, "\n");
}

static void array_text(struct owner *o, struct cmd_io *io,
    const struct array_info *i, const struct member_info *m, size_t count)
{
	char used[16], left[16];

	str_bytes_human(used, i->used_bytes);
	str_bytes_human(left, i->free_bytes);
	out_text(io, "array     %s, %u members, parity %u\n"
	    "space     %s used, %s free\n", report_state(o, i),
	    i->member_count, i->parity, used, left);
	if (i->segments_reduced)
		out_text(io, "reduced   %" PRIu64 " of %" PRIu64 " segments "
		    "have less redundancy than they should\n",
		    i->segments_reduced, i->segments);
	out_text(io, "members\n");
	for (size_t k = 0; k < count; k++)
		if (m[k].state != MEMBER_REMOVED)
			say_member(io, &m[k]);
}

void report_array(struct owner *o, struct cmd_io *io, bool json)
{
	struct member_info *m = calloc(RAID_MEMBERS_MAX, sizeof(*m));
	struct array_info info;
	size_t count;

	if (!m) {
		out_warn(io, "no memory for a report");
		out_status(io, 2);
		return;
	}
	array_check_members(o->array);
	array_info(o->array, &info);
	count = array_members(o->array, m, RAID_MEMBERS_MAX);
	fill_paths(o, m, count);
	if (json)
		array_json(o, io, &info, m, count);
	else
		array_text(o, io, &info, m, count);
	free(m);
}
