#!/bin/bash
# A sparse file of 8 GiB with little in it takes seconds and stays sparse; a
# large file of random bytes comes back the same; memory stays bounded.
. "$(dirname "$0")/lib.sh"
mib=${BK_MIB:-256}
members 4 $((mib + mib / 2 + 128))M
server_start
client web1
src=$tmp/src
mkdir -p "$src"
truncate -s 8G "$src/sparse"
for at in 0 1000003 4294967295 8589934580; do
	printf 'here %s' "$at" | dd of="$src/sparse" bs=1 seek=$at \
	    conv=notrunc,nocreat status=none
done
truncate -s 8G "$src/sparse"
head -c "${mib}M" /dev/urandom >"$src/random"
memory_peak "$server_pid" "$tmp/peak-server" &
children+=("$!")

step "push 8 GiB of holes and $mib MiB of noise"
bkc_exec web1 push "$src" >"$tmp/out" 2>&1 </dev/null &
pid=$!
memory_peak "$pid" "$tmp/peak-push" &
children+=("$!")
wait "$pid" || die "push failed"
step "restore"
bkc_exec web1 restore "latest:$src" --to "$tmp/back" >"$tmp/out" 2>&1 </dev/null &
pid=$!
memory_peak "$pid" "$tmp/peak-restore" &
children+=("$!")
wait "$pid" || die "restore failed"
step "compare"
cmp "$src/random" "$tmp/back/random" || die "random differs"
[ "$(stat -c %s "$tmp/back/sparse")" = 8589934592 ] || die "another size"
[ "$(stat -c %b "$tmp/back/sparse")" -le 2048 ] || die "holes are lost"
for at in 0 1000003 4294967295 8589934580; do
	cmp <(dd if="$src/sparse" bs=4096 skip=$((at / 4096)) count=2 \
	    status=none) <(dd if="$tmp/back/sparse" bs=4096 \
	    skip=$((at / 4096)) count=2 status=none) || die "differs at $at"
done
lines=$(rsync -aHAXni --modify-window=-1 "$src/" "$tmp/back/")
[ -z "$lines" ] || die "metadata differs: $lines"
peak_below "$tmp/peak-push" 96 "the pushing client"
peak_below "$tmp/peak-restore" 96 "the restoring client"
peak_below "$tmp/peak-server" 256 "the server"
finish
