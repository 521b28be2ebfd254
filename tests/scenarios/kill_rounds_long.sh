#!/bin/bash
# The same as kill_rounds, 50 times.
BK_ROUNDS=${BK_ROUNDS:-50}
export BK_ROUNDS
. "$(dirname "$0")/kill_rounds.sh"
