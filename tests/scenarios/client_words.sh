#!/bin/bash
# What the client says: whole paths in its refusals, nothing with -q, the truth
# about a dry run, and paths as one types them.
. "$(dirname "$0")/lib.sh"
members 3 128M
server_start
client web1
src=$tmp/src
mkdir -p "$src/sub"
echo one >"$src/sub/one"
echo two >"$src/two"

step "push: -q is silent, --dry-run counts and needs no server"
want 0 push web1 "$src" --tag first -q
[ ! -s "$tmp/out" ] || die "-q is not silent"
want 0 push web1 "$src" --dry-run -s ssh://127.0.0.1:1
said '^files +2 in'
! grep -q '^sent' "$tmp/out" || die "a dry run sends nothing"

step "a path that is not there is named whole"
want 2 bkc web1 ls "latest:$src/sub/none"
said "$src/sub/none: not in the snapshot \(latest is [0-9a-f]{12} of 20"
want 2 bkc web1 restore "latest:$src/two/below" --to "$tmp/no"
said "$src/two/below: what is above is no directory"
[ ! -e "$tmp/no" ] || die "the target was made"
want 2 bkc web1 ls latest@2001-01-01

step "cat: only files; latest is narrowed as elsewhere"
want 64 bkc web1 cat "latest:$src/sub"
said 'no regular file'
echo changed >"$src/two"
want 0 push web1 "$src"
want 0 bkc web1 cat --tag first "latest:$src/two"
said '^two$'
want 0 bkc web1 cat "latest:$src/two"
said '^changed$'

step "verify and restore: paths as typed, a dry run says so"
cd "$src" || exit 2
want 0 bkc web1 verify latest sub two
said '^2 equal|^3 equal'
want 2 bkc web1 verify latest none
want 0 bkc web1 restore latest --to "$tmp/dry" --dry-run
said '^would restore 2 files'
[ ! -e "$tmp/dry" ] || die "a dry run made its target"
want 64 bkc web1 snapshots -s http://server
said '^bkclient: http'
finish
