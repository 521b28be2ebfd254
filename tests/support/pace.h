/*
 * tests/support/pace.h - how patient a test with clocks must be.
 */
#ifndef TESTS_SUPPORT_PACE_H
#define TESTS_SUPPORT_PACE_H

/* Multiply waits and limits by this: 1, more under sanitizers and valgrind,
 * or what $BK_PACE says (for a machine that is very busy). */
unsigned pace(void);

/* Amounts of work: `full`, or a fraction where everything is slow. */
unsigned pace_work(unsigned full);

#endif
