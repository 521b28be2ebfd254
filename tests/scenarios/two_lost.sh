#!/bin/bash
# More members are away than there is parity, under a running server: nothing
# is written any more, one sentence counts them, what is there can be read;
# with the members back all is as it was.
. "$(dirname "$0")/lib.sh"
members 4 128M
echo 'wait_members = 1s' >>"$BKSERVER_DIR/config"
server_start
client web1 --min-age 1h
src=$tmp/src
mkdir -p "$src"
for i in $(seq 30); do head -c 400000 /dev/urandom >"$src/$i"; done
want 0 push web1 "$src"

step "one away: the very next push knows, and writes whole on the others"
mv "${m[0]}" "$tmp/away0"
head -c 3000000 /dev/urandom >"$src/one"
want 0 push web1 "$src"
want 0 bk status
said '^array +degraded'

step "two away: all that writes refuses"
mv "${m[1]}" "$tmp/away1"
echo two >"$src/two"
for command in "bkc web1 push $src" "bk prune" "bk forget web1 latest" \
    "bk verify" "bk client set web1 --keep-last 1" \
    "bk array replace ${m[0]} $tmp/m-new --size 128M"; do
	want 2 $command
	one_sentence
	said '2 of 4 members are away'
done
[ ! -e "$tmp/m-new" ] || die "a refused replace left its file"
want 0 bk status
said '^array +read-only'
want 0 bk snapshots
[ "$(wc -l <"$tmp/out")" = 2 ] || die "not two snapshots"
want 0 bk array status --json
said '"state":"read-only"'

step "back, and serve started again: all as it was"
mv "$tmp/away0" "${m[0]}"
mv "$tmp/away1" "${m[1]}"
server_stop
want 2 bk recover -d "$tmp/new-state" "${m[2]}" "${m[3]}"
said '2 of 4 members are away'
[ ! -e "$tmp/new-state" ] || die "a refused recover left its directory"
server_start
for _ in $(seq 50); do
	want 0 bk status --json
	grep -q '"state":"ok"' "$tmp/out" && break
	sleep 0.2
done
want 0 push web1 "$src"
want 0 restore web1 "latest:$src" --to "$tmp/back"
same "$src" "$tmp/back"
want 0 bk verify --all
finish
