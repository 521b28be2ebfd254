/*
 * tests/runner.c - main() of each folder's test program.
 *
 * Runs every suite of the folder, or with arguments only the suites named.
 * The last line is "folder: N passed, N failed" (tests/check.sh adds these
 * up); the exit status is 1 when anything failed or nothing ran.
 */
#include "tests/runner.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	SRunner *r = srunner_create(NULL);
	int ran, failed;

	/* Tests of a busy machine: check's own limit is 4 s. */
	setenv("CK_DEFAULT_TIMEOUT", "120", 0);
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; suites[i]; i++)
		srunner_add_suite(r, suites[i]());
	if (argc == 1)
		srunner_run_all(r, CK_NORMAL);
	for (int i = 1; i < argc; i++)
		srunner_run(r, argv[i], NULL, CK_NORMAL);
	ran = srunner_ntests_run(r);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	printf("%s: %d passed, %d failed\n", suites_folder, ran - failed,
	    failed);
	return ran == 0 || failed != 0;
}
