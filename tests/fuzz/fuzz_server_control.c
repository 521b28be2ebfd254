/* A request on the control socket: any bytes are refused, or every text of the
 * request ends within them; and what was taken is written back the same. */
#include "server/control.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct control_run_request r;
	struct buf in, again;
	struct err e;

	buf_init(&in, CONTROL_FRAME_MAX);
	buf_add(&in, data, size);
	if (in.bad || control_run_get(&r, &in, &e) != 0) {
		buf_release(&in);
		return 0;
	}
	buf_init(&again, CONTROL_FRAME_MAX);
	control_run_put(&again, r.cwd, r.attached, r.argc, r.argv);
	if (again.size != in.size || (in.size > 0 &&
	    memcmp(again.data, in.data, in.size) != 0))
		abort();
	free(r.argv);
	buf_release(&again);
	buf_release(&in);
	return 0;
}
