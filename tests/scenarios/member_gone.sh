#!/bin/bash
# A member is gone for good and nobody brings another: the server writes what
# was on it anew on those that are left, by itself, and then one more may go.
. "$(dirname "$0")/lib.sh"
seed
members 4 160M
server_start
client web1
src=$tmp/src
mkdir "$src"
for i in $(seq 60); do head -c 500000 /dev/urandom >"$src/$i"; done
want 0 push web1 "$src"

state_is()	# STATE SECONDS
{
	for _ in $(seq $(($2 * 5))); do
		want 0 bk array status --json
		grep -q "\"state\":\"$1\"" "$tmp/out" && return
		sleep 0.2
	done
	die "the array is not $1 after $2 s"
}

lost=$((RANDOM % 4))
step "member $lost is deleted: it may come back, so nothing is moved yet"
rm "${m[lost]}"
head -c 3000000 /dev/urandom >"$src/new"
want 0 push web1 "$src"
state_is degraded 5
step "it is said to be gone: redundancy comes back without another disk"
want 0 bk array fail "${m[lost]}"
state_is ok 90
want 0 bk status --json
said '"segments_reduced":0'
want 0 bk verify --all
want 0 push web1 "$src"
step "one more may go"
server_stop
next=$(((lost + 1 + RANDOM % 3) % 4))
rm "${m[next]}"
echo 'wait_members = 0' >>"$BKSERVER_DIR/config"
server_start
want 0 restore web1 "latest:$src" --to "$tmp/back"
same "$src" "$tmp/back"
finish
