#!/bin/bash
# Only the members are left, renamed and shuffled: recover gives back the same
# clients, snapshots and host key; clients notice nothing.
. "$(dirname "$0")/lib.sh"
seed
members 4 128M
server_start
client web1 --keep-daily 7
client web2 --role push
src=$tmp/src
odd_tree "$src"
want 0 push web1 "$src"
printf 2 >"$src/two"
want 0 push web1 "$src"
want 0 push web2 "$src/deep"
key_before=$host_key
want 0 bk snapshots --json
cp "$tmp/out" "$tmp/snapshots-before"
want 0 bk client list --json
cp "$tmp/out" "$tmp/clients-before"
server_stop

step "state directory deleted, members renamed and shuffled"
rm -r "$BKSERVER_DIR"
mkdir "$tmp/other"
mv "$tmp/m0" "$tmp/other/x"
mv "$tmp/m1" "$tmp/m0"
mv "$tmp/m2" "$tmp/m1"
mv "$tmp/m3" "$tmp/other/y"
export BKSERVER_DIR=$tmp/state-new
want 0 bk recover -d "$BKSERVER_DIR" "$tmp/other/y" "$tmp/m1" "$tmp/m0" \
    "$tmp/other/x"
said '^host key SHA256:'
said '2 clients, 3 snapshots'
want 0 bk snapshots --json
cmp "$tmp/out" "$tmp/snapshots-before" || die "other snapshots"
want 0 bk client list --json
diff <(sed 's/"last_seen":[^,]*//' "$tmp/out") \
    <(sed 's/"last_seen":[^,]*//' "$tmp/clients-before") ||
    die "other clients"

step "the server again, on the same port: the client notices nothing"
port_wanted=$port
cp "$tmp/home-web1/bkclient/known_hosts" "$tmp/known-before"
server_start
[ "$host_key" = "$key_before" ] || die "another host key"
cp "$tmp/known-before" "$tmp/home-web1/bkclient/known_hosts"
want 0 restore web1 "latest:$src" --to "$tmp/back"
same "$src" "$tmp/back"
printf 3 >"$src/three"
want 0 push web1 "$src"
server_stop

step "recover with one member missing"
export BKSERVER_DIR=$tmp/state-third
want 0 bk recover "$tmp/m0" "$tmp/other/x" "$tmp/other/y"
said '2 clients, 4 snapshots'
want 0 bk restore web1 "latest:$src" --to "$tmp/back2"
same "$src" "$tmp/back2"
step "recover refuses what it must"
want 2 bk recover -d "$tmp/state-third" "$tmp/m0"
want 2 bk recover -d "$tmp/state-four" "$tmp/m0" "$tmp/other/x"
one_sentence
[ ! -e "$tmp/state-four/members" ] || die "a failed recover left its files"
finish
