#!/bin/bash
# 100 000 small files, half of them in one directory: the round trip is exact,
# and both programs stay within their bounds of memory.
. "$(dirname "$0")/lib.sh"
count=${BK_FILES:-100000}
members 4 512M
server_start
client web1
src=$tmp/src
mkdir -p "$src/flat" "$src/deep"
step "make $count files"
perl -e '
	my ($d, $n) = @ARGV;
	for my $i (0 .. $n - 1) {
		my $p = $i % 2 ? "$d/flat/file-$i" :
		    "$d/deep/" . ($i % 97) . "/" . ($i % 89);
		unless ($i % 2) {
			mkdir "$d/deep/" . ($i % 97);
			mkdir $p;
			$p .= "/f$i";
		}
		open my $f, ">", $p or die "$p: $!";
		print $f "file $i\n" x ($i % 50);
		close $f;
	}' "$src" "$count"
memory_peak "$server_pid" "$tmp/peak-server" &
children+=("$!")

step "push"
bkc_exec web1 push "$src" >"$tmp/out" 2>&1 </dev/null &
pid=$!
memory_peak "$pid" "$tmp/peak-push" &
children+=("$!")
wait "$pid" || die "push failed"
step "push again"
want 0 push web1 "$src" --json
step "restore"
bkc_exec web1 restore "latest:$src" --to "$tmp/back" >"$tmp/out" 2>&1 </dev/null &
pid=$!
memory_peak "$pid" "$tmp/peak-restore" &
children+=("$!")
wait "$pid" || die "restore failed"
step "compare"
same "$src" "$tmp/back"
[ "$(find "$tmp/back" -type f | wc -l)" = "$count" ] || die "not $count files"
want 0 bk verify --all
peak_below "$tmp/peak-push" 96 "the pushing client"
peak_below "$tmp/peak-restore" 96 "the restoring client"
peak_below "$tmp/peak-server" 256 "the server"
finish
