#!/bin/bash
# A member that was away comes back: it is brought up to date by the server
# itself, also when it comes back under another name, and then others may go.
. "$(dirname "$0")/lib.sh"
seed
members 4 128M
server_start
client web1
src=$tmp/src
mkdir "$src"
for i in $(seq 20); do head -c 500000 /dev/urandom >"$src/$i"; done
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

away=$((RANDOM % 4))
step "member $away is away at the start"
server_stop
mv "${m[away]}" "$tmp/away"
echo 'wait_members = 0' >>"$BKSERVER_DIR/config"
server_start
state_is degraded 5
for i in $(seq 10); do head -c 500000 /dev/urandom >"$src/$i"; done
want 0 push web1 "$src"
server_stop

step "it comes back under another name: mended without a word"
mv "$tmp/away" "$tmp/m-back"
server_start --member "$tmp/m-back"
state_is ok 30
want 0 bk verify --all
other=$(((away + 1) % 4))
step "member $other is gone for good"
rm "${m[other]}"
want 0 restore web1 "latest:$src" --to "$tmp/back"
same "$src" "$tmp/back"
want 0 bk array replace "${m[other]}" "$tmp/m-new" --size 128M --wait
server_stop

step "the members file knows where all are"
server_start
state_is ok 10
want 0 push web1 "$src"
step "a second one returns from longer ago, while a third is lost"
third=$(((away + 2) % 4))
server_stop
cp --sparse=always "${m[third]}" "$tmp/old"
server_start
for i in $(seq 15); do head -c 500000 /dev/urandom >"$src/$i"; done
want 0 push web1 "$src"
server_stop
mv "$tmp/old" "${m[third]}"	# an old state of itself, as after a rollback
server_start
state_is ok 30
want 0 restore web1 "latest:$src" --to "$tmp/back2"
same "$src" "$tmp/back2"
bk verify --all >"$tmp/out" 2>&1
[ $? -le 1 ] || die "verify found what cannot be healed"
want 0 bk verify --all
finish
