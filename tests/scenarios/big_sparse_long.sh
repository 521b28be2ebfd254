#!/bin/bash
# The same as big_sparse, with 2 GiB of random bytes.
BK_MIB=${BK_MIB:-2048}
export BK_MIB
. "$(dirname "$0")/big_sparse.sh"
