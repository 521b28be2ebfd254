#!/usr/bin/env bash
# tests/bench/run.sh [TREE] [ROUNDS] - bk beside its peers on the same files.
#
# First push, second push and restore of TREE (default /usr/share) by bk, borg
# (lz4, no encryption) and restic, all over SSH on loopback, alternating, each
# store flushed with sync before the clock stops.  Prints medians of the ratios
# peer / bk (above 1: bk is faster) and the bytes stored.  Needs: borgbackup,
# restic, openssh-server, openssh-client (apt).  Page cache: warm for the
# source, as left by the step before for the store.
set -euo pipefail
export LC_ALL=C
tree=$(readlink -f "${1:-/usr/share}")
rounds=${2:-3}
here=$(cd "$(dirname "$0")/../.." && pwd)
bin=${BK_BIN:-$here/build/release}
for p in borg restic ssh sftp; do
	command -v "$p" >/dev/null || {
		echo "bench: $p is missing (apt-get install borgbackup restic" \
		    "openssh-client openssh-server)" >&2
		exit 2
	}
done
work=$(mktemp -d "${TMPDIR:-/tmp}/bk-bench.XXXXXX")
pids=()
cleanup() {
	for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; done
	wait 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT

# Seconds (with fraction) and peak kilobytes of a command, into $work/time.
clock() {
	local start end
	start=$(date +%s.%N)
	"$@" >"$work/out" 2>"$work/err" || {
		echo "bench: $* failed:" >&2
		tail -5 "$work/err" >&2
		exit 2
	}
	sync -f "$work"
	end=$(date +%s.%N)
	awk -v a="$start" -v b="$end" 'BEGIN { printf "%.3f\n", b - a }'
}

start_sshd() {
	port=$((20000 + RANDOM % 20000))
	mkdir -p /run/sshd "$work/ssh"
	ssh-keygen -q -t ed25519 -N '' -f "$work/ssh/host"
	ssh-keygen -q -t ed25519 -N '' -f "$work/ssh/user"
	cp "$work/ssh/user.pub" "$work/ssh/authorized"
	cat >"$work/ssh/config" <<-EOF
	Port $port
	ListenAddress 127.0.0.1
	HostKey $work/ssh/host
	AuthorizedKeysFile $work/ssh/authorized
	StrictModes no
	UsePAM no
	PidFile none
	PermitRootLogin yes
	Subsystem sftp internal-sftp
	EOF
	/usr/sbin/sshd -D -f "$work/ssh/config" -E "$work/ssh/log" &
	pids+=($!)
	sshcmd="ssh -p $port -i $work/ssh/user -o BatchMode=yes
	    -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null
	    -o LogLevel=ERROR"
	sshcmd=$(echo $sshcmd)
	for _ in $(seq 50); do
		$sshcmd 127.0.0.1 true 2>/dev/null && return
		sleep 0.1
	done
	echo "bench: sshd does not answer" >&2
	exit 2
}

# ---- one round of each: prints "push again restore stored" ---------------

round_bk() {
	local d=$work/bk sid port fp
	rm -rf "$d" && mkdir -p "$d/home"
	"$bin/bkserver" init -d "$d/state" --size "$size" "$d"/m0 "$d"/m1 \
	    "$d"/m2 "$d"/m3 >/dev/null
	"$bin/bkserver" serve -d "$d/state" --listen 127.0.0.1:0 >"$d/log" \
	    2>"$d/errlog" &
	sid=$!
	pids+=("$sid")
	for _ in $(seq 100); do
		grep -q 'host key' "$d/log" && break
		sleep 0.1
	done
	port=$(sed -n 's/.*listening on .*:\([0-9]*\)$/\1/p' "$d/log")
	fp=$(sed -n 's/^host key //p' "$d/log")
	export HOME=$d/home XDG_CONFIG_HOME=$d/home/.config \
	    XDG_CACHE_HOME=$d/home/.cache
	"$bin/bkclient" init -s "ssh://127.0.0.1:$port" --name bench \
	    --accept-host-key "$fp" >/dev/null
	"$bin/bkserver" client add bench -d "$d/state" \
	    --key "$(find "$d/home" -name '*.pub' | head -1)" >/dev/null
	local a b c s
	a=$(clock "$bin/bkclient" push "$tree")
	b=$(clock "$bin/bkclient" push "$tree")
	c=$(clock "$bin/bkclient" restore latest --to "$d/out")
	s=$("$bin/bkserver" status -d "$d/state" --json |
	    grep -o '"used_bytes": *[0-9]*' | head -1 | grep -o '[0-9]*$')
	grep -E 'VmHWM' "/proc/$sid/status" >"$work/bk.mem" || true
	kill "$sid"
	wait "$sid" 2>/dev/null || true
	echo "$a $b $c $s"
	rm -rf "$d"
}

round_borg() {
	local d=$work/borg a b c s
	rm -rf "$d" && mkdir -p "$d/home" "$d/out"
	export HOME=$d/home BORG_RSH="$sshcmd" \
	    BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes \
	    BORG_RELOCATED_REPO_ACCESS_IS_OK=yes
	local repo=ssh://127.0.0.1:$port$d/repo
	borg init -e none "$repo" 2>/dev/null
	a=$(clock borg create -C lz4 "$repo::a" "$tree")
	b=$(clock borg create -C lz4 "$repo::b" "$tree")
	c=$(cd "$d/out" && clock borg extract "$repo::b")
	s=$(du -sb "$d/repo" | cut -f1)
	echo "$a $b $c $s"
	rm -rf "$d"
}

round_restic() {
	local d=$work/restic a b c s
	rm -rf "$d" && mkdir -p "$d/home"
	export HOME=$d/home RESTIC_PASSWORD=bench RESTIC_CACHE_DIR=$d/cache
	local o="sftp.command=$sshcmd 127.0.0.1 -s sftp"
	local repo=sftp:127.0.0.1:$d/repo
	restic -q -o "$o" -r "$repo" init
	a=$(clock restic -q -o "$o" -r "$repo" backup "$tree")
	b=$(clock restic -q -o "$o" -r "$repo" backup "$tree")
	c=$(clock restic -q -o "$o" -r "$repo" restore latest --target "$d/out")
	s=$(du -sb "$d/repo" | cut -f1)
	echo "$a $b $c $s"
	rm -rf "$d"
}

bytes=$(du -sb "$tree" | cut -f1)
files=$(find "$tree" | wc -l)
# Members that hold it once over, and 256 MiB to spare each.
size=$((bytes / 3 / 1048576 + 256))M
start_sshd
sshport=$port
echo "$tree: $files entries, $((bytes / 1000000)) MB; $rounds rounds"
for i in $(seq "$rounds"); do
	for who in bk borg restic; do
		port=$sshport
		line=$(round_$who)
		echo "$who $line" >>"$work/results"
		[ -n "${BENCH_VERBOSE:-}" ] && echo "  round $i $who: $line"
	done
done
awk -v bytes="$bytes" '
function median(a, n,   i, j, t) {
	for (i = 2; i <= n; i++)
		for (j = i; j > 1 && a[j - 1] > a[j]; j--) {
			t = a[j]; a[j] = a[j - 1]; a[j - 1] = t
		}
	return n % 2 ? a[(n + 1) / 2] : (a[n / 2] + a[n / 2 + 1]) / 2
}
{ n[$1]++; for (f = 2; f <= 5; f++) v[$1, n[$1], f] = $f }
END {
	split("push again restore stored", name, " ")
	printf "%-22s %8s %8s %8s %14s\n", "peer / bk (medians)", name[1],
	    name[2], name[3], "stored"
	split("borg restic", peer, " ")
	for (p = 1; p <= 2; p++) {
		printf "%-22s", peer[p]
		for (f = 2; f <= 5; f++) {
			for (i = 1; i <= n["bk"]; i++)
				r[i] = v[peer[p], i, f] / v["bk", i, f]
			printf (f < 5 ? " %7.1fx" : " %13.2fx"), median(r, n["bk"])
		}
		printf "\n"
	}
	for (i = 1; i <= n["bk"]; i++) r[i] = bytes / 1e6 / v["bk", i, 2]
	printf "bk first push: %.0f MB of files a second\n", median(r, n["bk"])
}' "$work/results"
