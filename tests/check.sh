#!/bin/bash
# check.sh BUILD_DIR PART:"NAMES"... - run tests, add up, say so in one line.
#
#   unit:FOLDERS      build programs check-FOLDER, with their suites
#   valgrind:FOLDERS  the same under valgrind
#   fuzz:NAMES        replay-NAME over tests/fuzz/corpus/NAME
#   scenarios:short   tests/scenarios/*.sh but for *_long.sh and lib*.sh
#   scenarios:long    tests/scenarios/*_long.sh
#
# Output of what passes goes to BUILD_DIR/logs; what fails is shown.  A
# scenario passes with status 0; it finds the programs in $BK_BIN.
# The last line is "N passed, N failed"; the status is 1 if any failed.
set -u
build=$1
shift
logs=$build/logs
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

# run NAME COMMAND... : one thing that passes or fails as a whole
run()
{
	local name=$1 start=$SECONDS status=0
	shift
	timeout -k 10 "${BK_TIMEOUT:-1200}" "$@" >"$logs/$name.log" 2>&1 </dev/null
	status=$?
	report "$name" $status $((SECONDS - start)) \
	    $((status == 0)) $((status != 0))
}

# run_unit NAME COMMAND... : a test program that counts by itself
run_unit()
{
	local name=$1 start=$SECONDS status=0 sum p f
	shift
	timeout -k 10 "${BK_TIMEOUT:-1200}" "$@" >"$logs/$name.log" 2>&1 </dev/null
	status=$?
	sum=$(sed -n 's/^[a-z]*: \([0-9]* passed, [0-9]* failed\)$/\1/p' \
	    "$logs/$name.log" | tail -n 1)
	if [ -z "$sum" ]; then
		report "$name" $((status ? status : 1)) \
		    $((SECONDS - start)) 0 1
		return
	fi
	p=${sum%% *}
	f=${sum#*, }
	f=${f%% *}
	[ "$status" != 0 ] && [ "$f" = 0 ] && f=1
	report "$name" "$status" $((SECONDS - start)) "$p" "$f"
}

run_valgrind()
{
	BK_VALGRIND=1 CK_TIMEOUT_MULTIPLIER=20 run_unit "valgrind-$1" \
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
		short:*_long) ;;
		short:* | long:*_long) run "scenario-$n" bash "$f" ;;
		esac
	done
}

for part in "$@"; do
	for name in ${part#*:}; do
		case ${part%%:*} in
		unit) run_unit "unit-$name" "$build/check-$name" ;;
		valgrind) run_valgrind "$name" ;;
		fuzz) run "fuzz-$name" "$build/replay-$name" \
		    "tests/fuzz/corpus/$name" ;;
		scenarios) run_scenarios "$name" ;;
		*) echo "check.sh: what is $part?" >&2; exit 64 ;;
		esac
	done
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
