#!/bin/bash
# Members that are block devices, one of them with sectors of 4096 bytes: the
# whole life of an array on them, garbage on one, replacement by a smaller one,
# one that is too small, used disks refused and wiped when named, and the same
# disks by another path while they are in use.
. "$(dirname "$0")/lib.sh"
loops=()
detach()
{
	local status=$? l
	for l in "${loops[@]}"; do losetup -d "$l" 2>/dev/null; done
	return "$status"
}
trap 'detach; cleanup' EXIT

# loop NAME SIZE [OPTION...]: a device on a new file; sets $device
loop()
{
	local file=$tmp/$1 size=$2
	shift 2
	truncate -s "$size" "$file"
	device=$(losetup --find --show "$@" "$file" 2>"$tmp/out") || return 1
	loops+=("$device")
}

loop a 128M || {
	echo "loop_devices: skipped: no loop devices here: $(cat "$tmp/out")"
	exit 0
}
d=("$device")
for n in b c; do loop "$n" 128M || die "no loop device"; d+=("$device"); done
loop d 128M --sector-size 4096 || die "no loop device with large sectors"
d+=("$device")

step "an array on ${d[*]}"
want 0 bk init "${d[@]}"
want 2 bk init -d "$tmp/other" "${d[0]}" "${d[1]}"
one_sentence
said 'is a member of an array'
server_start
client web1
src=$tmp/src
mkdir "$src"
for i in $(seq 35); do head -c 8M /dev/urandom >"$src/$i"; done
want 0 push web1 "$src"

step "the same disks by another path are refused"
want 2 bk recover -d "$tmp/other" "$tmp"/[abcd]
said "process $server_pid of this host has the array open"
want 2 bk recover -d "$tmp/other" "${d[@]}"
said 'in use'

step "garbage over one of them, all of it"
dd if=/dev/urandom of="${d[1]}" bs=1M count=128 oflag=direct status=none
want 0 restore web1 "latest:$src" --to "$tmp/back"
same "$src" "$tmp/back"
rm -r "$tmp/back"
want 1 bk verify --all
want 0 bk verify --all

step "too small for what is used: refused before a byte is written"
loop small 112M || die "no loop device"
want 2 bk array replace "${d[2]}" "$device"
one_sentence
said 'too small'
said "bytes are needed .* $((112 << 20)) found"
cmp -n $((112 << 20)) "$tmp/small" /dev/zero || die "it was written to"

step "a used disk is refused, kept, and wiped when it is named"
loop new 127M || die "no loop device"
if command -v mke2fs >/dev/null; then
	mke2fs -q -t ext4 "$device" || die "no file system"
	mkdir "$tmp/mnt"
	if mount "$device" "$tmp/mnt" 2>/dev/null; then
		want 2 bk array replace "${d[2]}" "$device" --wipe=ext4
		said 'mounted or in use'
		umount "$tmp/mnt"
	fi
	sum=$(sha256sum <"$tmp/new")
	want 2 bk array replace "${d[2]}" "$device"
	one_sentence
	said 'holds ext4 .*--wipe='
	want 2 bk array replace "${d[2]}" "$device" --wipe=xfs
	[ "$sum" = "$(sha256sum <"$tmp/new")" ] || die "it was written to"
else
	echo "         no mke2fs here: only a blank disk is tried"
fi

step "it is a little smaller, and takes the place of ${d[2]}"
want 0 bk array replace "${d[2]}" "$device" --wipe=ext4 --wait
command -v mke2fs >/dev/null && { blkid -p "$device" >"$tmp/out" 2>&1 &&
    die "something is left of the file system"; }
want 0 bk verify --all
want 0 bk array status
said "active .*$device"

step "kill -9, and at once again by the files below the devices"
server_kill
server_start
server_kill
for l in "${loops[@]}"; do losetup -d "$l"; done
before=$SECONDS
want 0 bk recover -d "$tmp/other" "$tmp"/{a,b,new,d}
[ $((SECONDS - before)) -lt 15 ] || die "it waited for itself"
export BKSERVER_DIR=$tmp/other
server_start
want 0 restore web1 "latest:$src" --to "$tmp/back"
same "$src" "$tmp/back"
finish
