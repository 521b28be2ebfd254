/*
 * raid/flush_site.h - a name for each place that waits for stable storage.
 *
 * A flush that is missing is seen only after a power cut, so each one must
 * have a test that fails without it.  A call site asks
 *
 *      if (flush_site("log.append"))
 *              flush ...
 *
 * The answer is always yes, and costs nothing, but in a build with
 * -DBK_FLUSH_SITES (tests/flush_sites.sh): there the site that the environment
 * variable BK_SKIP_FLUSH names says no.  docs/testing.md lists the sites.
 *
 * Threads: no state.
 */
#ifndef RAID_FLUSH_SITE_H
#define RAID_FLUSH_SITE_H

#include <stdbool.h>

#ifdef BK_FLUSH_SITES
#include <stdlib.h>
#include <string.h>

static inline bool flush_site(const char *name)
{
	const char *skip = getenv("BK_SKIP_FLUSH");

	return !skip || strcmp(skip, name) != 0;
}
#else
static inline bool flush_site(const char *name)
{
	(void)name;
	return true;
}
#endif

#endif
