#!/bin/bash
# A member overwritten with garbage under the running server: restores stay
# right, verify heals and names the member, only that member; then all is
# clean, and another member may be lost.
. "$(dirname "$0")/lib.sh"
seed
members 4 128M
server_start
client web1
src=$tmp/src
odd_tree "$src"
mkdir "$src/bulk"
for i in $(seq 40); do head -c 700000 /dev/urandom >"$src/bulk/$i"; done
want 0 push web1 "$src"

victim=$((RANDOM % 4))
step "member $victim becomes garbage"
garbage "${m[victim]}"
want 0 restore web1 "latest:$src" --to "$tmp/back"
same "$src" "$tmp/back"
ok "restore is byte-equal"
step "verify heals"
want 1 bk verify --all
said "member $victim \\(.*m$victim\\): .* healed"
for i in 0 1 2 3; do
	[ "$i" = "$victim" ] || ! grep -q "^member $i " "$tmp/out" ||
	    die "member $i is blamed too"
done
step "verify again: clean"
want 0 bk verify --all
step "and another member is lost"
lost=$(((victim + 1) % 4))
rm "${m[lost]}"
want 0 restore web1 "latest:$src" --to "$tmp/back2"
same "$src" "$tmp/back2"
step "restart on the garbage of a clean stop"
server_stop
want 0 bk restore web1 "latest:$src" --to "$tmp/back3"
same "$src" "$tmp/back3"
finish
