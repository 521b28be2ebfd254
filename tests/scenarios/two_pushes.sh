#!/bin/bash
# Two pushes of one client at once: the second says so and ends; one whose line
# is dead is superseded; different clients do not disturb each other.
. "$(dirname "$0")/lib.sh"
members 4 256M
server_start
client web1
client web2
src=$tmp/src
mkdir -p "$src"
head -c 60M /dev/urandom >"$src/big"

step "a first push, stopped in its midst"
bkc_exec web1 push "$src" --limit-rate 1M >"$tmp/first.out" 2>&1 </dev/null &
first=$!
children=("$first")
for _ in $(seq 100); do
	bk status --json 2>/dev/null | grep -q '"pushing":true' && break
	sleep 0.1
done
step "the second says so and ends"
want 2 push web1 "$src"
one_sentence
step "the first falls silent; another client is not concerned"
kill -STOP "$first"
silent=$SECONDS
want 0 push web2 "$src"
step "after 10 s a new push takes the place of the silent one"
while [ $((SECONDS - silent)) -lt 12 ]; do sleep 0.5; done
want 0 push web1 "$src"
kill -CONT "$first"
status=0
wait "$first" || status=$?
children=()
[ "$status" = 2 ] || die "the superseded push ended with $status"
for c in web1 web2; do
	want 0 restore "$c" "latest:$src" --to "$tmp/back-$c"
	same "$src" "$tmp/back-$c"
done
want 0 bk snapshots web1 --json
[ "$(grep -c . "$tmp/out")" = 1 ] || die "not one snapshot"

step "sessions through stdio, as under sshd"
d=$tmp/home-web2/bkclient
cat >"$d/config" <<CONFIG
server = exec:$BK_BIN/bkserver -d $BKSERVER_DIR stdio --client web2
name = web2
CONFIG
want 0 push web2 "$src"
want 0 restore web2 "latest:$src" --to "$tmp/back-stdio"
same "$src" "$tmp/back-stdio"
step "SIGTERM in the midst of a push: clean, and the next one works"
head -c 40M /dev/urandom >"$src/more"
bkc_exec web1 push "$src" --limit-rate 2M >"$tmp/first.out" 2>&1 </dev/null &
children=("$!")
sleep 2
server_stop
wait "${children[0]}" || true
children=()
server_start
want 0 push web1 "$src"
finish
