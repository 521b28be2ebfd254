#!/bin/bash
# kill -9 of server or client at a random moment of a real push, again and
# again: the next push works with no manual step, acked snapshots restore.
. "$(dirname "$0")/lib.sh"
rounds=${BK_ROUNDS:-5}
seed
members 4 192M
server_start
client web1 --keep-last 2
src=$tmp/src
mkdir -p "$src/sub"
for i in $(seq 80); do head -c 200000 /dev/urandom >"$src/sub/$i"; done
timed_push()	# sets took_ms
{
	local from=${EPOCHREALTIME/[.,]/}
	want 0 push web1 "$src"
	took_ms=$(((${EPOCHREALTIME/[.,]/} - from) / 1000))
}
timed_push
acked=$(tail -n 1 "$tmp/out")
cp -a "$src" "$tmp/acked"

for round in $(seq "$rounds"); do
	for _ in 1 2 3 4 5 6; do
		head -c 4000000 /dev/urandom >"$src/sub/$((RANDOM % 80))"
	done
	who=$((RANDOM % 2))
	# Any moment of a push, and a little beyond its end.
	delay_ms=$((RANDOM % (took_ms + took_ms / 4 + 20)))
	delay=$((delay_ms / 1000)).$(printf '%03d' $((delay_ms % 1000)))
	bkc_exec web1 push "$src" >"$tmp/push.out" 2>&1 </dev/null &
	pusher=$!
	children=("$pusher")
	sleep "$delay"
	if [ $who = 0 ]; then
		server_kill
	else
		kill -KILL "$pusher" 2>/dev/null
	fi
	status=0
	wait "$pusher" 2>/dev/null || status=$?
	children=()
	step "round $round: $([ $who = 0 ] && echo server || echo client)" \
	    "killed after $delay s, push ended with $status"
	[ $who = 1 ] || server_start
	if [ $status = 0 ]; then
		acked=$(tail -n 1 "$tmp/push.out")
		rm -rf "$tmp/acked"
		cp -a "$src" "$tmp/acked"
	fi
	rm -rf "$tmp/back"
	want 0 restore web1 "$acked:$src" --to "$tmp/back"
	same "$tmp/acked" "$tmp/back"
	timed_push
	acked=$(tail -n 1 "$tmp/out")
	rm -rf "$tmp/acked" "$tmp/back"
	cp -a "$src" "$tmp/acked"
	want 0 restore web1 "latest:$src" --to "$tmp/back"
	same "$src" "$tmp/back"
	[ $((round % 4)) != 0 ] || want 0 bk prune
done
want 0 bk verify --all
finish
