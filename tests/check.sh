#!/bin/bash
# check.sh BUILD_DIR PART:"NAMES"... - run tests, add up, say so in one line.
#
#   unit:FOLDERS      build programs check-FOLDER, with their suites
#   valgrind:FOLDERS  the same under valgrind
#   fuzz:NAMES        replay-NAME over tests/fuzz/corpus/NAME
#   scenarios:short   tests/scenarios/*.sh but for *_long.sh and lib*.sh
#   scenarios:long    tests/scenarios/*_long.sh
#
# Test programs run side by side, as many as there are processors (or
# $BK_JOBS); scenarios one after the other.  Output of what passes goes to BUILD_DIR/logs; what fails is shown.  A
# scenario passes with status 0; it finds the programs in $BK_BIN.
# The last line is "N passed, N failed"; the status is 1 if any failed.
set -u
build=$1
shift
logs=$build/logs
jobs=${BK_JOBS:-$(nproc)}
mkdir -p "$logs"
BK_BIN=$PWD/$build
export BK_BIN
passed=0
failed=0

# report NAME STATUS SECONDS PASSED FAILED
report()
{
	passed=$((passed + $4))
	failed=$((failed + $5))
	if [ "$2" = 0 ]; then
		echo "ok      $1 ($4 passed, $3 s)"
	else
		echo "FAILED  $1 (status $2, $3 s); the end of $logs/$1.log:"
		tail -n 40 "$logs/$1.log" | sed 's/^/    /'
	fi
}

# run NAME COMMAND... : leaves "STATUS SECONDS PASSED FAILED" in NAME.result.
# A test program counts by itself, anything else passes or fails as a whole.
run()
{
	local name=$1 start=$SECONDS status=0 sum p f
	shift
	timeout -k 10 "${BK_TIMEOUT:-1800}" "$@" >"$logs/$name.log" 2>&1 \
	    </dev/null
	status=$?
	sum=$(sed -n 's/^[a-z]*: \([0-9]* passed, [0-9]* failed\)$/\1/p' \
	    "$logs/$name.log" | tail -n 1)
	p=$((status == 0))
	f=$((status != 0))
	case $name in
	unit-* | valgrind-*)
		if [ -n "$sum" ]; then
			p=${sum%% *}
			f=${sum#*, }
			f=${f%% *}
			[ "$status" != 0 ] && [ "$f" = 0 ] && f=1
		elif [ "$status" = 0 ]; then	# it ended and said nothing
			status=1 p=0 f=1
		fi
		;;
	esac
	echo "$status $((SECONDS - start)) $p $f" > "$logs/$name.result"
}

# side_by_side KIND FUNCTION NAMES... : FUNCTION NAME leaves KIND-NAME.result
side_by_side()
{
	local kind=$1 function=$2 name running=0
	shift 2
	for name in "$@"; do
		rm -f "$logs/$kind-$name.result"
		if [ $running -ge "$jobs" ]; then
			wait -n
			running=$((running - 1))
		fi
		"$function" "$name" &
		running=$((running + 1))
	done
	wait
	for name in "$@"; do
		read -r status seconds p f < "$logs/$kind-$name.result" ||
		    { status=1 seconds=0 p=0 f=1; }
		report "$kind-$name" "$status" "$seconds" "$p" "$f"
	done
}

run_unit()
{
	run "unit-$1" "$build/check-$1"
}

run_fuzz()
{
	run "fuzz-$1" "$build/replay-$1" "tests/fuzz/corpus/$1"
}

run_valgrind()
{
	BK_VALGRIND=1 CK_TIMEOUT_MULTIPLIER=20 run "valgrind-$1" \
	    valgrind -q --leak-check=full --errors-for-leak-kinds=definite \
	    --error-exitcode=9 "$build/check-$1"
}

run_scenarios()
{
	local f n
	for f in tests/scenarios/*.sh; do
		[ -e "$f" ] || continue
		n=${f##*/}
		n=${n%.sh}
		case $n in lib*) continue ;; esac
		case $1:$n in
		short:*_long) continue ;;
		short:* | long:*_long) ;;
		*) continue ;;
		esac
		run "scenario-$n" bash "$f"
		read -r status seconds p f < "$logs/scenario-$n.result"
		report "scenario-$n" "$status" "$seconds" "$p" "$f"
	done
}

for part in "$@"; do
	names=${part#*:}
	case ${part%%:*} in
	unit) side_by_side unit run_unit $names ;;
	valgrind) side_by_side valgrind run_valgrind $names ;;
	fuzz) side_by_side fuzz run_fuzz $names ;;
	scenarios) run_scenarios "$names" ;;
	*) echo "check.sh: what is $part?" >&2; exit 64 ;;
	esac
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
