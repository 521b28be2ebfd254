#!/bin/bash
# What is wrong gets one clear sentence and the right exit status, and nothing
# is lost by it: usage, keys, host keys, a second server, foreign, cloned and
# missing members, a full store.
. "$(dirname "$0")/lib.sh"
src=$tmp/src
mkdir -p "$src"
head -c 2000000 /dev/urandom >"$src/data"

step "wrong usage is 64"
want 64 bk
want 64 bk frobnicate
one_sentence
want 64 bk client
said 'add'
want 64 bk init --parity 7 "$tmp/x" "$tmp/y"
want 64 bk init --size 12parsecs "$tmp/x" "$tmp/y"
want 64 bk status --nonsense
one_sentence
want 64 bk client add
want 64 bk init
said 'MEMBER\.\.\.$'
want 64 bk init --size 128M "$tmp/x" "$tmp/y" "$tmp/./x"
said 'named twice'
truncate -s 128M "$tmp/one"
ln -s one "$tmp/other"
want 64 bk init "$tmp/one" "$tmp/other"
said 'one and the same'
want 64 bk stdio
want 0 bk --help
want 0 bk client add --help
want 0 bk --version

step "no state directory, no such thing"
want 64 bk status
one_sentence
want 2 bk init "$tmp/nothing-here-0" "$tmp/nothing-here-1"
said 'nothing-here-0 does not exist; --size'
[ ! -e "$BKSERVER_DIR/members" ] || die "a failed init left its state"

step "init refuses what holds something"
truncate -s 128M "$tmp/ext"
if command -v mkfs.ext4 >/dev/null; then
	mkfs.ext4 -q "$tmp/ext"
	want 2 bk init --size 128M "$tmp/a0" "$tmp/a1" "$tmp/ext"
	said 'ext'
	[ ! -e "$tmp/a0" ] || die "a failed init left a member file"
fi
members 4 128M
want 2 bk init -d "$tmp/state-b" "${m[0]}" "${m[1]}"
one_sentence
want 2 bk init "$tmp/c0" "$tmp/c1" --size 128M
said 'already'
server_start
client web1
client pusher --role push
client reader --role restore
want 0 push web1 "$src"

step "a key nobody registered, a private key, a key of another"
mkdir -p "$tmp/home-stranger/bkclient"
ssh-keygen -q -t ed25519 -N '' -C stranger -f "$tmp/home-stranger/bkclient/key"
client_config stranger
want 2 push stranger "$src"
want 64 bk client add oops --key "$tmp/home-web1/bkclient/key"
said 'private key'
! grep -q 'BEGIN' "$tmp/out" || die "the private key was shown"
want 2 bk client add web1 --key "$tmp/home-stranger/bkclient/key.pub"
one_sentence
want 2 bk client add other --key "$tmp/home-web1/bkclient/key.pub"
want 64 bk client add .hidden --key "$tmp/home-stranger/bkclient/key.pub"
want 2 bk client remove web1
want 2 bk snapshots nobody
want 2 bk forget nobody latest
said 'no client nobody'

step "roles and pause"
want 0 push pusher "$src"
want 2 restore pusher "latest:$src" --to "$tmp/no1"
want 2 bkc pusher snapshots
one_sentence
want 2 push reader "$src"
want 0 bk client pause web1
want 2 push web1 "$src"
want 0 bk client pause web1 --off
want 0 push web1 "$src"

step "a changed host key"
known=$tmp/home-web1/bkclient/known_hosts
cp "$known" "$tmp/known-good"
awk '{ print $1, $2, k }' k="$(cut -d' ' -f2 "$tmp/home-stranger/bkclient/key.pub")" \
    "$tmp/known-good" >"$known"
cp "$known" "$tmp/known-bad"
want 2 push web1 "$src"
cmp "$known" "$tmp/known-bad" || die "known_hosts was touched"
: >"$known"
want 2 push web1 "$src"
[ ! -s "$known" ] || die "known_hosts was touched"
cp "$tmp/known-good" "$known"

step "noise at the door"
for i in 1 2 3; do
	head -c 100000 /dev/urandom >/dev/tcp/127.0.0.1/"$port" || true
done 2>/dev/null
exec 9<>/dev/tcp/127.0.0.1/"$port"
want 0 push web1 "$src"
exec 9>&-

step "a second server: same directory, and same members elsewhere"
want 2 bk serve --listen 127.0.0.1:0
said 'already running'
one_sentence
mkdir -m 700 "$tmp/state-2"
printf '%s\n' "${m[@]}" >"$tmp/state-2/members"
want 2 bk -d "$tmp/state-2" status
said 'in use'
one_sentence

step "stdio relays only to a running server"
want 2 bk -d "$tmp/state-2" stdio --client web1
want 2 bk stdio --client nobody
server_stop
want 2 bk stdio --client web1
one_sentence

step "a cloned member is refused, both are named"
cp --sparse=always "${m[2]}" "$tmp/m2c"
printf '%s\n' "${m[@]}" "$tmp/m2c" >"$tmp/state-2/members"
want 2 bk -d "$tmp/state-2" verify
said 'm2c'
rm "$tmp/m2c"

step "a foreign file in a member's place is not written"
mv "${m[1]}" "$tmp/m1-away"
head -c 128M /dev/urandom >"${m[1]}"
sum=$(sha256sum <"${m[1]}")
want 0 bk restore web1 "latest:$src" --to "$tmp/back"
same "$src" "$tmp/back"
[ "$(sha256sum <"${m[1]}")" = "$sum" ] || die "the foreign file was written"
mv "$tmp/m1-away" "${m[1]}"

step "more members missing than parity"
echo 'wait_members = 0' >>"$BKSERVER_DIR/config"
mv "${m[0]}" "$tmp/m0-away"
mv "${m[3]}" "$tmp/m3-away"
want 2 bk verify
one=$(grep -vcE 'cannot be opened|waiting|its log ends' "$tmp/out")
[ "$one" = 1 ] || die "$one sentences"
want 2 bk serve --listen 127.0.0.1:0
mv "$tmp/m0-away" "${m[0]}"
mv "$tmp/m3-away" "${m[3]}"
want 0 bk restore web1 "latest:$src" --to "$tmp/back-again"
same "$src" "$tmp/back-again"

step "a full store: the push ends 2, what was there stays, prune makes room"
server_start
want 0 bk client set web1 --keep-last 1
head -c 500M /dev/urandom >"$src/too-much"
want 2 push web1 "$src"
said 'space'
rm "$src/too-much"
want 0 bk snapshots web1 --json
[ "$(grep -c . "$tmp/out")" = 3 ] || die "not 3 snapshots"
want 0 bk prune
want 0 push web1 "$src"
want 0 restore web1 "latest:$src" --to "$tmp/back2"
same "$src" "$tmp/back2"
want 0 bk verify --all
finish
