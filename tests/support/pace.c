#include "tests/support/pace.h"

#include <stdlib.h>

unsigned pace(void)
{
	const char *given = getenv("BK_PACE");

	if (given)
		return (unsigned)strtoul(given, NULL, 10);
	if (getenv("BK_VALGRIND"))
		return 8;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	return 2;
#else
	return 1;
#endif
}

unsigned pace_work(unsigned full)
{
	unsigned part = full;

	if (getenv("BK_VALGRIND"))
		part = full / 20;
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
	part = full / 8;
#endif
	return part > 0 ? part : 1;
}
