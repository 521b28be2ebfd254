#!/bin/bash
# What a running server must not go on with: a store that has failed ends it,
# with a sentence and not with 0, so that whatever started it starts it again;
# and a client that may no longer do something does not go on doing it.
. "$(dirname "$0")/lib.sh"
members 4 256M
server_start
client web1
client web2
src=$tmp/src
mkdir -p "$src"
head -c 30M /dev/urandom >"$src/big"
want 0 push web2 "$src"

begin_slow()	# CLIENT: its push is under way
{
	bkc_exec "$1" push "$src" --limit-rate 1M >"$tmp/slow.out" 2>&1 \
	    </dev/null &
	slow=$!
	children=("$slow")
	for _ in $(seq 100); do
		bk status --json 2>/dev/null | grep -q '"pushing":true' &&
		    return
		sleep 0.1
	done
	die "the push does not begin"
}

slow_ends()	# within 5 s, with 2
{
	local status=0 i
	for i in $(seq 50); do
		kill -0 "$slow" 2>/dev/null || break
		sleep 0.1
	done
	kill -0 "$slow" 2>/dev/null && die "the push goes on"
	wait "$slow" || status=$?
	children=()
	[ "$status" = 2 ] || die "the push ended with $status"
}

step "a key that is removed, a pause, a role: running sessions end"
begin_slow web1
print=$(ssh-keygen -lf "$tmp/home-web1/bkclient/key.pub" | cut -d' ' -f2)
want 0 bk client key remove web1 "$print"
slow_ends
want 2 push web1 "$src"
want 0 bk client key add web1 --key "$tmp/home-web1/bkclient/key.pub"
begin_slow web1
want 0 bk client pause web1
slow_ends
want 0 bk client pause web1 --off
begin_slow web1
want 0 bk client set web1 --role restore
slow_ends
want 2 push web1 "$src"
want 0 bk client set web1 --role both
begin_slow web1
want 0 bk client remove web1
slow_ends

step "what a paused client has is restored at the server all the same"
want 0 bk client pause web2
want 2 push web2 "$src"
said "paused"
want 0 bk snapshots web2
said "$src"
want 0 bk restore web2 "latest:$src" --to "$tmp/at-server"
same "$src" "$tmp/at-server"
want 0 bk client pause web2 --off

step "more members go than there is parity, in the midst: serve ends by itself"
mkdir "$tmp/away"
head -c 30M /dev/urandom >"$src/more"
begin_slow web2
mv "$tmp/m0" "$tmp/m1" "$tmp/away"
for _ in $(seq 400); do
	kill -0 "$server_pid" 2>/dev/null || break
	sleep 0.1
done
kill -0 "$server_pid" 2>/dev/null && die "the server goes on"
status=0
wait "$server_pid" || status=$?
server_pid=
[ "$status" = 2 ] || die "the server ended with $status"
said "the store has failed" "$tmp/server.log"
slow_ends

step "they come back: all that was acked is there"
mv "$tmp/away/m0" "$tmp/away/m1" "$tmp"
server_start
want 0 push web2 "$src"
want 0 restore web2 "latest:$src" --to "$tmp/back"
same "$src" "$tmp/back"
finish
