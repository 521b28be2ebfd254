#!/bin/bash
# Whatever the client's cache believes, what a push leaves is restorable: a
# cache of another store, an older one, one with flipped bits, and one that
# names what the server has lost.
. "$(dirname "$0")/lib.sh"
seed
src=$tmp/src
mkdir -p "$src/d"
for i in $(seq 50); do head -c $((RANDOM + 10000)) /dev/urandom \
    >"$src/d/$i"; done

proves()	# WHAT: push, restore, compare
{
	want 0 push web1 "$src"
	rm -rf "$tmp/back"
	want 0 restore web1 "latest:$src" --to "$tmp/back"
	same "$src" "$tmp/back"
	ok "$1"
}
caches() { find "$tmp/home-web1" -type f -name inodes; }

step "two stores"
members 4 128M
server_start
client web1
proves "first push"
[ -n "$(caches)" ] || die "where is the cache?"
cp -a "$tmp/home-web1" "$tmp/old-home"
server_stop

export BKSERVER_DIR=$tmp/state-b
first=("${m[@]}")
want 0 bk init --size 128M "$tmp/b0" "$tmp/b1" "$tmp/b2"
server_start
want 0 bk client add web1 --key "$tmp/home-web1/bkclient/key.pub"
proves "a cache of another store"
# The other store's cache under this store's name.
for a in $(find "$tmp/old-home" -type f -name inodes); do
	for b in $(caches); do cp "$a" "$b"; done
done
proves "a cache of another store under this one's name"
server_stop

step "an older cache"
export BKSERVER_DIR=$tmp/state
server_start
printf changed >"$src/d/1"
proves "changed"
cp -a "$(caches | head -n 1)" "$tmp/cache-older"
printf changed-again >"$src/d/1"
rm "$src/d/2"
proves "changed again"
for b in $(caches); do cp -a "$tmp/cache-older" "$b"; done
proves "an older cache"

step "flipped bits"
for round in 1 2 3 4 5; do
	for b in $(caches); do
		size=$(stat -c %s "$b")
		for _ in $(seq 20); do
			at=$(((RANDOM * 32768 + RANDOM) % size))
			printf "\\x$(printf %x $((RANDOM % 256)))" |
			    dd of="$b" bs=1 seek=$at conv=notrunc status=none
		done
	done
	printf '%s' "$round" >"$src/d/3"
	proves "flipped bits, round $round"
done
for b in $(caches); do : >"$b"; done
proves "an empty cache"

step "what the cache names is lost at the server"
server_stop
: "${first[0]}"
# Beyond parity: what random files hold lies in the members as it is; in two of
# them it is found and zeroed.
zero_content()	# MEMBER FILE...
{
	perl -e '
		my $member = shift;
		local $/;
		open my $m, "+<", $member or die "$member: $!";
		binmode $m;
		my ($all, $hits) = (scalar <$m>, 0);
		for my $file (@ARGV) {
			open my $f, "<", $file or die "$file: $!";
			binmode $f;
			my $needle = substr(scalar <$f>, 4096, 64);
			next if length $needle < 64;
			my $at = index $all, $needle;
			next if $at < 0;
			seek $m, $at, 0;
			print $m "\0" x 64;
			$hits++;
		}
		close $m;
		print "$hits places zeroed in $member\n";' "$@"
}
zero_content "${m[1]}" "$src"/d/*
zero_content "${m[2]}" "$src"/d/*
server_start
want 2 bk verify --all
said 'damaged|lost'
step "the next push stores again what is still there"
want 0 push web1 "$src"
rm -rf "$tmp/back"
want 0 restore web1 "latest:$src" --to "$tmp/back"
same "$src" "$tmp/back"
finish
