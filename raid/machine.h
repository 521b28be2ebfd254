/*
 * raid/machine.h - which machine is this, and does that process live here?
 *
 * Threads: no state.
 */
#ifndef RAID_MACHINE_H
#define RAID_MACHINE_H

#include "base/err.h"
#include "raid/array.h"

#include <stdbool.h>

/*
 * This machine and process.  The machine is a hash of /etc/machine-id, random
 * where there is none (then a restart is known by the boot id alone).
 */
MUST_CHECK int machine_self(struct array_machine *out, struct err *e);

/* The same machine, or the same boot of one. */
bool machine_same(const struct array_machine *a,
    const struct array_machine *b);

/*
 * True if the process of `m`, which was on the machine `self`, is another one
 * than ours and runs now: the same boot, number and start time.
 */
bool machine_runs(const struct array_machine *m,
    const struct array_machine *self);

#endif
