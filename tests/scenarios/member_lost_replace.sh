#!/bin/bash
# A member vanishes under the running server: pushes and restores go on, what is
# written has full redundancy on those that are left, status tells of the rest,
# replace brings redundancy back, and then any other may be lost.
. "$(dirname "$0")/lib.sh"
seed
members 4 128M
server_start
client web1
src=$tmp/src
mkdir -p "$src"
for i in $(seq 60); do head -c 500000 /dev/urandom >"$src/$i"; done
want 0 push web1 "$src"

lost=$((RANDOM % 4))
step "member $lost is deleted"
rm "${m[lost]}"
printf changed >"$src/1"
head -c 3000000 /dev/urandom >"$src/new"
want 0 push web1 "$src"		# done again without it
! grep -q redundancy "$tmp/out" || die "new data has less redundancy"
want 0 restore web1 "latest:$src" --to "$tmp/back"
same "$src" "$tmp/back"
want 0 bk status --json
said '"state":"(degraded|reduced)"'
want 1 bk verify --all
step "a replacement that is too small is refused, and not left behind"
want 2 bk array replace "${m[lost]}" "$tmp/tiny" --size 4M --wait
one_sentence
[ ! -e "$tmp/tiny" ] || die "the file is left"
step "replace"
want 0 bk array replace "${m[lost]}" "$tmp/new-member" --size 128M --wait
step "the same again follows what was begun; a member is no replacement"
want 0 bk array replace "${m[lost]}" "$tmp/new-member" --wait
said 'given already'
want 2 bk array replace "${m[((lost + 1) % 4)]}" "$tmp/new-member"
said 'is a member already'
want 0 bk status --json
said '"state":"ok"'
want 0 bk verify --all
step "another one is lost, with the server restarted"
server_stop
next=$(((lost + 1) % 4))
rm "${m[next]}"
echo 'wait_members = 1s' >>"$BKSERVER_DIR/config"
server_start
want 0 restore web1 "latest:$src" --to "$tmp/back2"
same "$src" "$tmp/back2"
step "a member set aside by hand, and a replacement that is present"
want 0 bk array replace "${m[next]}" "$tmp/m-again" --size 128M --wait
third=$(((lost + 2) % 4))
want 0 bk array fail "${m[third]}"
want 2 bk array fail "$tmp/new-member"
want 0 push web1 "$src"
want 0 bk array replace "${m[third]}" "$tmp/m-third" --size 128M --wait
want 0 bk verify --all
want 0 restore web1 "latest:$src" --to "$tmp/back3"
same "$src" "$tmp/back3"
finish
