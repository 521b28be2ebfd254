#!/bin/bash
# One process owns the array: commands reach it or become it, two at once take
# turns, one that only holds it for a moment gives way to serve, and work that
# was begun outlives its caller and can be followed by another.
. "$(dirname "$0")/lib.sh"
members 4 256M
server_start
client web1
src=$tmp/src
mkdir "$src"
for i in $(seq 30); do head -c 4M /dev/urandom >"$src/$i"; done
want 0 push web1 "$src"

step "the socket and the directory are private"
[ "$(stat -c %a "$BKSERVER_DIR")" = 700 ] || die "the directory is open"
[ "$(stat -c %a "$BKSERVER_DIR/control")" = 600 ] || die "the socket is open"
if command -v setpriv >/dev/null && [ "$(id -u)" = 0 ]; then
	chmod 755 "$tmp" "$BKSERVER_DIR"
	chmod 666 "$BKSERVER_DIR/control"
	want 2 setpriv --reuid 65534 --regid 65534 --clear-groups \
	    "$BK_BIN/bkserver" status
	chmod 600 "$BKSERVER_DIR/control"
	chmod 700 "$tmp" "$BKSERVER_DIR"
fi

step "work outlives its caller, and is followed by the next"
bk_exec array scrub >"$tmp/scrub.out" 2>&1 </dev/null &
first=$!
sleep 0.1
kill -KILL "$first" 2>/dev/null
wait "$first" 2>/dev/null
want 0 bk array scrub
said 'scrubbed'
want 0 bk verify --all --json
said '^\{"v":1,"type":"verify",.*"finished":true'

step "without a server: many commands at once take turns"
server_stop
pids=()
for i in $(seq 8); do
	bk_exec snapshots --json >"$tmp/turn.$i" 2>&1 </dev/null &
	pids+=("$!")
done
children=("${pids[@]}")
for p in "${pids[@]}"; do
	wait "$p" || die "one of eight failed: $(cat "$tmp"/turn.*)"
done
children=()
for i in $(seq 8); do
	[ "$(grep -c '"type":"snapshot"' "$tmp/turn.$i")" = 1 ] ||
	    die "turn $i: $(cat "$tmp/turn.$i")"
done
pids=()
for i in $(seq 4); do
	bk_exec client set web1 --keep-last "$i" >"$tmp/turn.$i" 2>&1 </dev/null &
	pids+=("$!")
done
children=("${pids[@]}")
for p in "${pids[@]}"; do
	wait "$p" || die "one of four failed: $(cat "$tmp"/turn.*)"
done
children=()

step "a command that holds the array gives way to serve"
bk_exec verify --all >"$tmp/verify.out" 2>&1 </dev/null &
holder=$!
children=("$holder")
for _ in $(seq 50); do
	[ -S "$BKSERVER_DIR/control" ] && break
	sleep 0.02
done
server_start
wait "$holder"
status=$?
children=()
[ "$status" = 0 ] || [ "$status" = 2 ] || die "verify ended with $status"
want 0 bk status
step "a signal ends a command that holds the array, locks are free"
server_stop
bk_exec verify --all >"$tmp/verify.out" 2>&1 </dev/null &
holder=$!
children=("$holder")
sleep 0.15
kill -TERM "$holder" 2>/dev/null
for _ in $(seq 50); do
	kill -0 "$holder" 2>/dev/null || break
	sleep 0.1
done
kill -0 "$holder" 2>/dev/null && die "it does not end within 5 s"
children=()
want 0 bk verify --all
step "a reader that leaves early is no error of ours"
bk snapshots | head -n 0
want 0 bk snapshots

step "SIGTERM under serve: 0, and a new one starts at once"
server_start
server_stop
server_start
finish
