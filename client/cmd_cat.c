/* client/cmd_cat.c - bkclient cat */
#include "client/client.h"
#include "client/cmd.h"
#include "client/flow.h"
#include "client/open_snap.h"

#include "base/io.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct cat_opts {
	const char *tag, *path;
};

static void cat_rows(void *opts, struct opt_row *rows)
{
	struct cat_opts *o = opts;
	const struct opt_row all[] = {
		{ "tag", 0, OPT_TEXT, &o->tag, "TAG",
		    "latest: only snapshots with this tag", NULL },
		{ "path", 0, OPT_TEXT, &o->path, "PATH",
		    "latest: only snapshots of this path", NULL },
		{ .name = NULL },
	};

	memcpy(rows, all, sizeof(all));
}

static int put(const void *data, size_t size, struct err *e)
{
	return io_write_all(STDOUT_FILENO, data, size, "standard output", e);
}

static int put_zeros(uint64_t size, struct err *e)
{
	static const char zeros[65536];

	while (size > 0) {
		size_t now = size < sizeof(zeros) ? (size_t)size :
		    sizeof(zeros);

		if (put(zeros, now, e) != 0)
			return -1;
		size -= now;
	}
	return 0;
}

/* Stops at the first byte that cannot be had. */
static int copy(struct client *c, struct flow *flow, struct err *e)
{
	struct flow_event ev;

	for (;;) {
		int rc = 0;

		if (atomic_load(&c->stop))
			return err_set(e, ERR_CANCELLED, "stopped");
		if (flow_next(flow, &ev, e) != 0)
			return -1;
		if (ev.kind == FLOW_DONE)
			return 0;
		if (ev.lost)
			return err_set(e, ERR_CORRUPT, "content at %llu is "
			    "lost", (unsigned long long)ev.offset);
		if (ev.kind == FLOW_CHUNK)
			rc = put(ev.data, (size_t)ev.size, e);
		else if (ev.kind == FLOW_HOLE)
			rc = put_zeros(ev.size, e);
		if (rc != 0)
			return -1;
	}
}

static int cat_cmd(struct client *c, void *opts, int argc, char **argv,
    struct err *e)
{
	const struct cat_opts *o = opts;
	const struct snap_filter filter = { o->tag, o->path };
	struct flow *flow = NULL;
	struct open_snap s;
	int rc;

	(void)argc;
	if (open_snap(&s, c, argv[0], &filter, e) != 0)
		return -1;
	if (!S_ISREG(s.at.entry.mode)) {
		rc = err_set(e, ERR_USAGE, "%.300s is no regular file",
		    s.path);
	} else {
		rc = flow_new(&flow, s.fetch, NULL, e);
		if (rc == 0)
			rc = flow_start(flow, &s.at.entry, e);
		if (rc == 0)
			rc = copy(c, flow, e);
	}
	flow_free(flow);
	close_snap(&s);
	if (rc != 0 && e->os == EPIPE)
		return 141;		/* as if by SIGPIPE */
	return rc;
}

const struct cmd cmd_cat = {
	.name = "cat",
	.synopsis = "SNAP:PATH",
	.summary = "write a file of a snapshot to standard output",
	.args_min = 1,
	.args_max = 1,
	.opts_size = sizeof(struct cat_opts),
	.rows = cat_rows,
	.run = cat_cmd,
};
