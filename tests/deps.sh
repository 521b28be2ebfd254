#!/bin/sh
# deps.sh - install what building and testing needs; only what is missing.
set -eu
need="gcc make pkg-config libssh-dev libssl-dev liblz4-dev libzstd-dev
librsync-dev libisal-dev liblmdb-dev libjansson-dev libxxhash-dev libblkid-dev
check universal-ctags valgrind cppcheck rsync openssh-client acl attr libcap2-bin"

if ! command -v dpkg-query >/dev/null; then
	echo "deps: not a Debian machine; see that these are there:" $need >&2
	exit 0
fi
missing=
for p in $need; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null |
	    grep -q ' installed$' || missing="$missing $p"
done
[ -n "$missing" ] || exit 0
if [ "$(id -u)" != 0 ]; then
	echo "deps: these packages are missing; as root, run" >&2
	echo "    apt-get install$missing" >&2
	exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get install -y --no-install-recommends $missing || {
	apt-get update
	apt-get install -y --no-install-recommends $missing
}
