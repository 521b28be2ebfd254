# lib.sh - what the scenarios share; sourced, not run.
#
# A scenario sets nothing, sources this, and uses:
#
#   members N SIZE        array and store on $tmp/m0 ... in $tmp/state
#   server_start [ARG...] bkserver serve on a free port; sets $port, $server_pid
#   server_stop           SIGTERM; must end with 0 within 10 s
#   server_kill           kill -9
#   client NAME           a key, registered; then: push NAME ..., restore NAME ...
#   bk ARG...             bkserver with this state directory
#   bkc NAME ARG...       bkclient as that client
#   same A B              fails unless the two trees are equal in all
#   want STATUS CMD...    fails unless CMD ends with STATUS; output in $tmp/out
#   bk_exec, bkc_exec     the same two, for the background: $! is their pid
#   step TEXT, ok TEXT, die TEXT
#   finish                prints "name: passed"
#
# Everything lies below one temporary directory.  At the end, and on failure,
# the processes that were started here are ended, by pid, and it is removed
# (kept when BK_KEEP=1).
set -u
scenario=${0##*/}
scenario=${scenario%.sh}
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
top=$(cd "$here/../.." && pwd)
BK_BIN=${BK_BIN:-$top/build/release}
for p in bkserver bkclient; do
	[ -x "$BK_BIN/$p" ] || { echo "$BK_BIN/$p is missing: make" >&2; exit 2; }
done
tmp=$(mktemp -d "${TMPDIR:-/tmp}/bk-$scenario.XXXXXX") || exit 2
export BKSERVER_DIR=$tmp/state
# Nothing of the machine's own configuration, nothing left in its home.
export HOME=$tmp/home
unset XDG_CACHE_HOME XDG_CONFIG_HOME BKCLIENT_SERVER SSH_AUTH_SOCK
export LC_ALL=C.UTF-8
mkdir -p "$HOME"
server_pid=
children=()
started=$SECONDS
failed=

cleanup()
{
	local p status=$?
	trap - EXIT
	for p in "${children[@]}" $server_pid; do
		kill -CONT "$p" 2>/dev/null
		kill -TERM "$p" 2>/dev/null
	done
	for p in "${children[@]}" $server_pid; do
		for _ in $(seq 100); do
			kill -0 "$p" 2>/dev/null || break
			sleep 0.1
		done
		kill -KILL "$p" 2>/dev/null
		wait "$p" 2>/dev/null
	done
	for p in "$tmp"/mnt*; do
		[ -d "$p" ] && mountpoint -q "$p" && umount "$p"
	done
	if [ "${BK_KEEP:-0}" = 1 ]; then
		echo "kept: $tmp"
	else
		chmod -R u+rwX "$tmp" 2>/dev/null
		rm -rf "$tmp"
	fi
	if [ -n "$failed" ] || [ "$status" != 0 ]; then
		echo "$scenario: failed"
		exit $((status ? status : 1))
	fi
	exit 0
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

step() { printf '%5d s  %s\n' $((SECONDS - started)) "$*"; }
ok() { printf '         ok: %s\n' "$*"; }

die()
{
	failed=1
	echo "FAILED: $*"
	[ -s "$tmp/out" ] && { echo "-- output of the last command"; \
	    tail -n 20 "$tmp/out"; }
	[ -s "$tmp/server.log" ] && { echo "-- end of the server's log"; \
	    tail -n 20 "$tmp/server.log"; }
	exit 1
}

finish()
{
	[ -n "$server_pid" ] && server_stop
	echo "$scenario: passed ($((SECONDS - started)) s)"
	exit 0
}

# want STATUS COMMAND...
want()
{
	local status=0 expected=$1
	shift
	"$@" >"$tmp/out" 2>&1 </dev/null || status=$?
	[ "$status" = "$expected" ] ||
	    die "status $status, not $expected, of: $*"
}

# said REGEX [FILE]: the last command's output has such a line
said() { grep -qE -- "$1" "${2:-$tmp/out}" || die "nothing says /$1/"; }

# one_sentence: a refusal is one line, not a page
one_sentence()
{
	[ "$(grep -c . "$tmp/out")" = 1 ] || die "not one sentence"
}

bk() { "$BK_BIN/bkserver" "$@"; }
# For the background: $! is the program itself, not a shell around it.
bk_exec() { exec "$BK_BIN/bkserver" "$@"; }
bkc_exec()
{
	export XDG_CONFIG_HOME=$tmp/home-$1 XDG_CACHE_HOME=$tmp/home-$1/cache
	shift
	exec "$BK_BIN/bkclient" "$@"
}

# bkc NAME ARG...
bkc()
{
	local name=$1
	shift
	XDG_CONFIG_HOME=$tmp/home-$name XDG_CACHE_HOME=$tmp/home-$name/cache \
	    "$BK_BIN/bkclient" "$@"
}

push() { local n=$1; shift; bkc "$n" push "$@"; }
restore() { local n=$1; shift; bkc "$n" restore "$@"; }

# members N SIZE [OPTION...]
members()
{
	local n=$1 size=$2 i
	shift 2
	m=()
	for ((i = 0; i < n; i++)); do m+=("$tmp/m$i"); done
	want 0 bk init --size "$size" "$@" "${m[@]}"
}

server_start()
{
	local out=$tmp/serve.out
	: >"$out"
	"$BK_BIN/bkserver" serve --listen "127.0.0.1:${port_wanted:-0}" "$@" \
	    >"$out" 2>>"$tmp/server.log" </dev/null &
	server_pid=$!
	for _ in $(seq 600); do
		grep -q '^host key ' "$out" && break
		kill -0 "$server_pid" 2>/dev/null || {
			cp "$tmp/server.log" "$tmp/out"
			server_pid=
			die "the server did not start"
		}
		sleep 0.1
	done
	port=$(sed -n 's/^listening on .*:\([0-9]*\)$/\1/p' "$out")
	host_key=$(sed -n 's/^host key //p' "$out")
	[ -n "$port" ] && [ -n "$host_key" ] || die "the server says no port"
	# The clients made before find it at its new port.
	local c
	for c in "$tmp"/home-*; do
		[ -d "$c" ] && client_config "${c##*/home-}"
	done
	return 0
}

server_wait_end()	# at most 10 s after a signal
{
	for _ in $(seq 100); do
		kill -0 "$server_pid" 2>/dev/null || return 0
		sleep 0.1
	done
	return 1
}

server_stop()
{
	local status=0
	[ -n "$server_pid" ] || return 0
	kill -TERM "$server_pid"
	server_wait_end || die "the server does not end within 10 s"
	wait "$server_pid" || status=$?
	server_pid=
	[ "$status" = 0 ] || die "the server ended with $status"
}

server_kill()
{
	kill -KILL "$server_pid"
	wait "$server_pid" 2>/dev/null
	server_pid=
}

# The configuration of a client, for the port the server has now.
client_config()
{
	local d=$tmp/home-$1/bkclient
	mkdir -p "$d"
	cat >"$d/config" <<CONFIG
server = ssh://127.0.0.1:$port
name = $1
CONFIG
	printf '[127.0.0.1]:%s %s\n' "$port" "$(host_key_line)" \
	    >"$d/known_hosts"
}

# "ssh-ed25519 AAAA..." of the running server, checked against what it printed
host_key_line()
{
	local line
	line=$(ssh-keyscan -T 10 -t ed25519 -p "$port" 127.0.0.1 2>/dev/null |
	    sed -n 's/^[^#][^ ]* //p')
	[ "$(ssh-keygen -lf - <<<"$line" | cut -d' ' -f2)" = "$host_key" ] ||
	    die "the server has another host key than it says" >&2
	printf '%s\n' "$line"
}

# client NAME [OPTION of client add...]
client()
{
	local d=$tmp/home-$1/bkclient name=$1
	shift
	mkdir -p "$d"
	ssh-keygen -q -t ed25519 -N '' -C "$name" -f "$d/key" </dev/null ||
	    die "no key for $name"
	want 0 bk client add "$name" --key "$d/key.pub" "$@"
	[ -z "$server_pid" ] || client_config "$name"
}

# Where holes are: the same runs of data in both files (block by block).
same_holes()
{
	local a b f
	while IFS= read -r -d '' f; do
		a=$(stat -c %b "$1/$f")
		b=$(stat -c %b "$2/$f")
		# A file system may round; a lost hole is much more than that.
		[ "$b" -le $((a + a / 8 + 256)) ] ||
		    die "holes are lost in $f: $a blocks became $b"
	done < <(cd "$1" && find . -type f -size +256k -print0)
}

# same A B: content, names, types, modes, owners, times to the ns, xattrs,
# ACLs, hard links
same()
{
	local lines
	lines=$(rsync -aHAXni --checksum --delete --modify-window=-1 \
	    "$1/" "$2/" 2>&1) || die "rsync: $lines"
	[ -z "$lines" ] || { printf '%s\n' "$lines" | head -n 20 >"$tmp/out"
		die "$1 and $2 differ in $(wc -l <<<"$lines") items"; }
	same_holes "$1" "$2"
}

# seed NAME: a random seed, printed so that a failure can be repeated
seed()
{
	RANDOM_SEED=${BK_SEED:-$(od -An -N4 -tu4 /dev/urandom | tr -d ' ')}
	RANDOM=$((RANDOM_SEED & 32767))
	step "seed $RANDOM_SEED (BK_SEED=$RANDOM_SEED repeats it)"
}

# memory_peak PID FILE: until it ends, the most RssAnon (KiB) into FILE
memory_peak()
{
	local kib most=0
	while kib=$(sed -n 's/^RssAnon:[^0-9]*\([0-9]*\) kB/\1/p' \
	    "/proc/$1/status" 2>/dev/null) && [ -n "$kib" ]; do
		[ "$kib" -gt "$most" ] && { most=$kib; echo "$most" >"$2.new"
			mv "$2.new" "$2"; }
		sleep 0.05
	done
}

# peak_below FILE MIB WHO
peak_below()
{
	local kib
	kib=$(cat "$1" 2>/dev/null || echo 0)
	[ "$kib" -gt 0 ] || die "no memory of $3 was seen"
	[ "$kib" -lt $(($2 * 1024)) ] ||
	    die "$3 took $((kib / 1024)) MiB, more than $2"
	ok "$3 took $((kib / 1024)) MiB at most (bound: $2)"
}

# garbage FILE: random bytes over everything, superblocks and all
garbage()
{
	local size
	size=$(stat -c %s "$1")
	dd if=/dev/urandom of="$1" bs=1M count=$((size >> 20)) conv=notrunc \
	    status=none
}

# odd_tree DIR: every type and attribute that this machine allows us
odd_tree()
{
	local d=$1 i
	mkdir -p "$d"/{empty,deep/er/est,ro,'with blank'}
	head -c 1000 /dev/urandom >"$d/small"
	head -c 3000000 /dev/urandom >"$d/large"
	: >"$d/zero"
	yes 'the same again and again' | head -c 2000000 >"$d/repeats"
	printf 'x' >"$d/one"
	ln "$d/small" "$d/deep/hard1"
	ln "$d/small" "$d/deep/er/hard2"
	ln -s small "$d/link"
	ln -s /nowhere/at/all "$d/dangling"
	mkfifo "$d/fifo"
	ln "$d/fifo" "$d/deep/fifo-again"
	truncate -s 50M "$d/sparse"
	printf middle | dd of="$d/sparse" bs=1 seek=20000000 conv=notrunc \
	    status=none
	truncate -s 10M "$d/allhole"
	printf a >"$d"/$'new\nline'
	printf b >"$d"/$'\xff\xfe'
	printf c >"$d/%s%n.%202018"
	printf d >"$d"/$'esc\e[2J'
	printf e >"$d/-rf"
	printf f >"$d/ "
	printf g >"$d/back\\slash"
	printf h >"$d/..."
	printf i >"$d/$(printf '%0255d' 7)"
	printf j >"$d/ünïcödé"
	for i in $(seq 1 31) 127; do
		printf '%d' "$i" >"$d/ctl-$(printf "\\x$(printf %x "$i")")-end"
	done 2>/dev/null
	touch -d '@-1' "$d/one"
	touch -d '1901-12-14 00:00:00.123456789Z' "$d/zero"
	touch -d '2038-01-20 00:00:00.999999999Z' "$d/repeats"
	touch -h -d '2001-01-01 00:00:00.5Z' "$d/dangling"
	chmod 0500 "$d/ro"
	chmod 1777 "$d/empty"
	chmod 0640 "$d/small"
	setfattr -n user.note -v "$(printf 'v%.0s' $(seq 200))" \
	    "$d/small" 2>/dev/null
	setfattr -n user.empty "$d/deep" 2>/dev/null
	setfacl -m u:7:rw,g:8:r "$d/large" 2>/dev/null
	setfacl -d -m u:7:rwx "$d/deep" 2>/dev/null
	[ "$(id -u)" = 0 ] || return 0
	mknod "$d/null" c 1 3 2>/dev/null
	mknod "$d/block" b 7 200 2>/dev/null
	chown 1234:567 "$d/large"
	chown -h 1:2 "$d/dangling"
	cp "$d/one" "$d/suid" && chown 5:42 "$d/suid" && chmod 6755 "$d/suid"
	cp "$d/one" "$d/caps" && chown 1000:1000 "$d/caps" &&
	    setcap cap_net_raw+ep "$d/caps" 2>/dev/null
	setfattr -n trusted.t -v 1 "$d/one" 2>/dev/null
	touch -d '2011-11-11 11:11:11.111111111Z' "$d/deep" "$d/ro" "$d"
	return 0
}
