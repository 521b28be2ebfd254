#!/bin/bash
# Every type of file, name and attribute goes there and comes back the same,
# over SSH and by restore at the server; a second push reads nothing.
. "$(dirname "$0")/lib.sh"
seed
members 4 128M
server_start
client web1
src=$tmp/src
odd_tree "$src"
mkdir -p "$src/many"
for i in $(seq 300); do head -c $((RANDOM % 9000)) /dev/urandom \
    >"$src/many/f$i"; done

step "push"
want 0 push web1 "$src"
id=$(tail -n 1 "$tmp/out")
[[ $id =~ ^[0-9a-f]{32}$ ]] || die "the last line is no snapshot id: $id"
step "push again: nothing is sent"
want 0 push web1 "$src" --json
sent=$(sed -n 's/.*"type": *"summary".*"sent_bytes": *\([0-9]*\).*/\1/p' \
    "$tmp/out")
[ -n "$sent" ] || die "no summary with sent_bytes"
[ "$sent" -lt 65536 ] || die "an unchanged tree sent $sent bytes"
ok "$sent bytes sent"

step "restore over SSH"
want 0 restore web1 "latest:$src" --to "$tmp/back"
same "$src" "$tmp/back"
ok "byte-equal with all metadata"
step "restore again: nothing to do, attributes repaired"
chmod 0777 "$tmp/back/small"
rm "$tmp/back/deep/er/hard2" "$tmp/back/many/f7"
want 0 restore web1 "latest:$src" --to "$tmp/back"
touch -r "$src" "$tmp/back"	# DIR itself was there before: it is the user's
same "$src" "$tmp/back"

step "restore at the server, through the running server"
want 0 bk restore web1 "latest:$src" --to "$tmp/back2"
same "$src" "$tmp/back2"

step "changes: edit, delete, rename, new"
printf more >>"$src/large"
rm "$src/many/f1"
mv "$src/many/f2" "$src/many/renamed"
printf new >"$src/many/new"
want 0 push web1 "$src"
want 0 restore web1 "latest:$src" --to "$tmp/back3"
same "$src" "$tmp/back3"
step "the first snapshot is as it was"
want 0 restore web1 "$id:$src/many" --to "$tmp/back4"
same "$tmp/back2/many" "$tmp/back4"

step "listings"
want 0 bk snapshots --json
[ "$(grep -c '"type":"snapshot"' "$tmp/out")" = 3 ] || die "not 3 snapshots"
said '"paths":\["[^"]*/src"\]'
want 0 bkc web1 snapshots
want 0 bk status --json
said '^\{"v":1,"type":"array","state":"ok","used_bytes":[0-9]+,"free_bytes":[0-9]+,"members":\['
said '"type":"client","name":"web1"'
want 0 bk status

step "restore at the server, without a server"
server_stop
want 0 bk restore web1 "latest:$src" --to "$tmp/back5"
same "$src" "$tmp/back5"
want 0 bk verify --all
finish
