#!/bin/bash
# demo.sh [DIR] - the promise, kept before your eyes.
#
# Makes an array of four files, a server on a free port of this machine and a
# client, all below a temporary directory that is removed at the end.  Takes
# the files of DIR, or of $BK_DEMO, or a part of /usr/share.  Then damages and
# loses disks while all of it is in use, and shows that nothing is lost.
. "$(dirname "$0")/lib.sh"
source_dir=${1:-${BK_DEMO:-/usr/share}}
limit_mib=${BK_DEMO_MIB:-160}	# at most so much is taken

bold() { printf '\n== %s\n' "$*"; }
show()	# run it before their eyes
{
	printf '   $ %s\n' "$(sed "s#$tmp/##g; s#$BK_BIN/##g" <<<"$*")"
	"$@" >"$tmp/out" 2>&1 </dev/null
	local status=$?
	sed "s#$tmp/##g; s/^/     /" "$tmp/out" | tail -n "${lines_shown:-12}"
	return $status
}
srv() { "$BK_BIN/bkserver" "$@"; }
bkserver() { srv "$@"; }
bkclient() { bkc laptop "$@"; }
expect()	# STATUS COMMAND...
{
	local wanted=$1 status=0
	shift
	show "$@" || status=$?
	[ "$status" = "$wanted" ] || die "status $status, expected $wanted"
}
compare()	# DIR
{
	printf '   $ rsync -aHAXni --checksum --delete --modify-window=-1 %s\n' \
	    "files/ ${1#"$tmp"/}/"
	same "$tmp/files" "$1"
	echo "     (no line: content, modes, owners, times, links, holes all equal)"
}

bold "Your files: some of $source_dir"
mkdir "$tmp/files"
kib=0
while IFS= read -r entry; do
	size=$(du -sk "$entry" 2>/dev/null | cut -f1)
	[ $((kib + size)) -le $((limit_mib * 1024)) ] || continue
	cp -a "$entry" "$tmp/files/" 2>/dev/null
	kib=$((kib + size))
	[ $kib -lt $((limit_mib * 900)) ] || break
done < <(find "$source_dir" -mindepth 1 -maxdepth 1 | sort)
ln "$(find "$tmp/files" -type f | head -n 1)" "$tmp/files/a-hard-link"
truncate -s 100M "$tmp/files/a-sparse-file"
printf 'an island' | dd of="$tmp/files/a-sparse-file" bs=1 seek=50000000 \
    conv=notrunc status=none
files=$(find "$tmp/files" | wc -l)
echo "     $files files and directories, $((kib / 1024)) MiB," \
    "a hard link, a sparse file"
[ "$files" -gt 100 ] || die "too few files in $source_dir; name another"

bold "A backup server on four disks (here: four files), one of which may fail"
size=$((kib / 1024 + 160))M
m=("$tmp/disk0" "$tmp/disk1" "$tmp/disk2" "$tmp/disk3")
expect 0 bkserver init --size "$size" "${m[@]}"
printf '   $ bkserver serve &\n'
server_start
sed 's/^/     /' "$tmp/serve.out"

bold "A client: a key of its own, the server's key pinned; then it is let in"
mkdir "$tmp/home-laptop"
expect 0 bkclient init -s "ssh://127.0.0.1:$port" --name laptop \
    --accept-host-key "$host_key"
expect 0 bkserver client add laptop \
    --key "$tmp/home-laptop/bkclient/key.pub" --keep-daily 7

bold "Push, over SSH"
t=$SECONDS
lines_shown=6 expect 0 bkclient push "$tmp/files" --stats
echo "     ($((SECONDS - t)) s)"
bold "Push again: nothing changed, so nothing is read and nothing is sent"
t=$SECONDS
lines_shown=6 expect 0 bkclient push "$tmp/files" --stats
echo "     ($((SECONDS - t)) s)"

bold "Disaster 1: a disk is overwritten with garbage while the server runs"
printf '   $ dd if=/dev/urandom of=disk1\n'
garbage "${m[1]}"
expect 0 bkclient restore "latest:$tmp/files" --to "$tmp/restored1"
compare "$tmp/restored1"
bold "Verify finds the damage, names the disk, heals it (status 1)"
expect 1 bkserver verify --all
said 'member 1 .*disk1.*healed'
bold "And now all is well (status 0)"
expect 0 bkserver verify --all

bold "Disaster 2: a disk is gone altogether"
printf '   $ rm disk2\n'
rm "${m[2]}"
date >"$tmp/files/written-after-the-loss"
echo "   (what is new is written on the three that are left, with full redundancy)"
lines_shown=4 expect 0 bkclient push "$tmp/files"
expect 0 bkserver array status
expect 0 bkclient restore "latest:$tmp/files" --to "$tmp/restored2"
compare "$tmp/restored2"

bold "A new disk in its place: what is used is copied, not the disk's size"
expect 0 bkserver array replace "${m[2]}" "$tmp/disk4" --size "$size" --wait
expect 0 bkserver verify --all
expect 0 bkserver status

bold "Only the disks are needed: the server's own directory is deleted"
server_stop
rm -r "$BKSERVER_DIR"
expect 0 bkserver recover "${m[0]}" "$tmp/disk4" "${m[1]}" "${m[3]}"
expect 0 bkserver restore laptop "latest:$tmp/files" --to "$tmp/restored3"
compare "$tmp/restored3"

printf '\n   All of it held.\n\n'
finish
