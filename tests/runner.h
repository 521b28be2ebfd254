/*
 * tests/runner.h - what the generated list of suites gives to the runner.
 */
#ifndef TESTS_RUNNER_H
#define TESTS_RUNNER_H

#include <check.h>
#include <stddef.h>

extern Suite *(*const suites[])(void);	/* ends with NULL */
extern const char suites_folder[];	/* "base" */

#endif
