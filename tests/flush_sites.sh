#!/bin/bash
# flush_sites.sh [SITE...] - does a test fail for each flush that is left out?
#
# Builds the unit tests of raid/ and store/ with -DBK_FLUSH_SITES and runs the
# crash tests once for each site with that one flush left out (BK_SKIP_FLUSH).
# A site is proven when a test fails.  First all of them run with every site in
# place: they must pass.  The sites and the reasons of those that no power cut
# can tell are the table of docs/testing.md; the names in the sources must be
# the same.
# The last line is "N sites proven, N excused, N unproven"; status 1 if any is
# unproven.
set -u
cd "$(dirname "$0")/.."
build=build/skipflush
make=(make -s VARIANT=skipflush CFLAGS="-O2 -DBK_FLUSH_SITES")
logs=$build/logs
mkdir -p "$logs"

table=docs/testing.md
sites=$(sed -n 's/^| `\([a-z]*\.[a-z]*\)` |.*/\1/p' $table | sort -u)
excused=$(sed -n 's/^| `\([a-z]*\.[a-z]*\)` | excused: .*/\1/p' $table)
named=$(grep -hE 'flush_site\(|\.site = ' raid/*.c store/*.c |
    grep -oE '"[a-z]+\.[a-z]+"' | tr -d '"' | sort -u)
if [ "$sites" != "$named" ]; then
	echo "the sites of $table are not those of the sources:"
	diff <(echo "$sites") <(echo "$named")
	exit 2
fi
[ $# -gt 0 ] && sites="$*"

for f in raid store; do
	"${make[@]}" "$build/check-$f" || exit 2
done

# What is tried, one after the other, till something fails: program, suite,
# "wide" for every cut.
tries="raid:raid/crash_super raid:raid/crash store:store/crash"
thorough="$tries raid:raid/crash:wide store:store/crash:wide"

# try SITE TRIES: the first that fails, or nothing
try()
{
	local t site=$1
	shift
	for t in "$@"; do
		(
			IFS=: read -r program suite wide <<<"$t"
			[ -n "$wide" ] && export BK_CRASH_WIDE=1
			BK_SKIP_FLUSH=$site timeout 3600 \
			    "$build/check-$program" "$suite"
		) >"$logs/flush-$site.log" 2>&1 || {
			echo "$t"
			return
		}
	done
}

by=$(try none $tries)
if [ -n "$by" ]; then
	echo "with every flush in place $by fails; see $logs/flush-none.log"
	exit 2
fi
proven=0 lame=0 unproven=0
for site in $sites; do
	excuse=$(grep -xF "$site" <<<"$excused")
	list=$thorough
	[ -n "$excuse" ] && list=$tries
	by=$(try "$site" $list)
	if [ -n "$by" ]; then
		why=$(grep -m1 -E ':[FE]:' "$logs/flush-$site.log" |
		    sed 's/.*:[FE]:[^:]*:\([^:]*\):.*/\1/')
		echo "proven    $site ($by: $why)"
		proven=$((proven + 1))
	elif [ -n "$excuse" ]; then
		echo "excused   $site"
		lame=$((lame + 1))
	else
		echo "UNPROVEN  $site"
		unproven=$((unproven + 1))
	fi
done
echo "$proven sites proven, $lame excused, $unproven unproven"
[ "$unproven" = 0 ]
