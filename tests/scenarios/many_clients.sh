#!/bin/bash
# Many clients push the same files at once, three of them are killed in the
# midst: the others end well, each restores its own, everything is sound, and
# the killed ones push again with no manual step.  Then more sessions than one
# client may have, and connections that say nothing.
. "$(dirname "$0")/lib.sh"
seed
clients=20
members 4 384M
server_start
src=$tmp/src
mkdir -p "$src/d"
for i in $(seq 60); do head -c 300000 /dev/urandom >"$src/d/$i"; done
for i in $(seq $clients); do client "c$i"; done

memory_peak "$server_pid" "$tmp/peak-server" &
peak_pid=$!
step "$clients clients at once"
pids=()
for i in $(seq $clients); do
	bkc_exec "c$i" push "$src" >"$tmp/push.$i" 2>&1 </dev/null &
	pids+=("$!")
done
children=("${pids[@]}" "$peak_pid")
sleep 0.1$((RANDOM % 9))
for i in 0 1 2; do kill -KILL "${pids[i]}" 2>/dev/null; done
for i in $(seq $clients); do
	status=0
	wait "${pids[i - 1]}" 2>/dev/null || status=$?
	[ "$i" -le 3 ] || [ $status = 0 ] ||
	    die "c$i ended with $status: $(cat "$tmp/push.$i")"
done
children=("$peak_pid")
step "the killed ones again"
for i in 1 2 3; do want 0 push "c$i" "$src"; done
for i in 1 2 3 4 $clients; do
	want 0 restore "c$i" "latest:$src" --to "$tmp/back"
	same "$src" "$tmp/back"
	rm -rf "$tmp/back"
	want 0 bkc "c$i" snapshots --json
	[ "$(grep -c '"client"' "$tmp/out")" -le 2 ] || die "c$i sees others'"
done
step "one copy of each is stored in the end"
want 0 bk status --json
used=$(sed -n 's/.*"type":"array".*"used_bytes":\([0-9]*\).*/\1/p' "$tmp/out")
[ "$used" -lt $((clients * 18000000)) ] || die "$used bytes are stored"
want 0 bk verify --all

step "a client that goes: refused while it has snapshots, then purged"
want 2 bk client remove c1
want 0 bk client remove c1 --purge
want 2 push c1 "$src"
want 0 bk prune
want 0 bk verify --all
want 0 restore c2 "latest:$src" --to "$tmp/back"
same "$src" "$tmp/back"

peak_below "$tmp/peak-server" 256 "the server with $clients clients"

step "connections that say nothing do not keep others out for long"
exec {a}<>/dev/tcp/127.0.0.1/"$port"
held=()
for _ in $(seq 30); do
	exec {fd}<>/dev/tcp/127.0.0.1/"$port" && held+=("$fd")
done 2>/dev/null
kill -0 "$server_pid" || die "the server is gone"
want 0 bk status		# the operator is never kept out
for fd in "${held[@]}"; do exec {fd}>&-; done
exec {a}>&-
for _ in $(seq 50); do
	push c2 "$src" >"$tmp/out" 2>&1 </dev/null && break
	sleep 0.2
done
want 0 push c2 "$src"
finish
