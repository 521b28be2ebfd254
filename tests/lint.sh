#!/bin/bash
# lint.sh - the house rules that a script can see.  Prints each breach as
# "file:line: what"; the status is 1 if there is any.
set -u
cd "$(dirname "$0")/.."
shopt -s nullglob
bad=0
src=({base,raid,proto,store,server,client}/*.[ch])
all=("${src[@]}" tests/*.[ch] tests/*/*.[ch])

# say WHAT: print each line of the input with WHAT; any line is a breach
say()
{
	local line
	while IFS= read -r line; do
		echo "$line: $1"
		bad=1
	done
}

# Who may include whom; see docs/design.md, "Layers".
arrows()	# FOLDER ALLOWED-REGEX
{
	local files=("$1"/*.[ch])
	[ ${#files[@]} = 0 ] && return
	say "$1/ may not include this" < <(grep -Hno '#include "[^"]*"' \
	    "${files[@]}" | grep -vE "\"($2)\"")
}
seam='raid/(array|place|dev)\.h'
arrows base 'base/.*'
arrows raid '(raid|base)/.*'
arrows proto '(proto|base)/.*'
arrows store "(store|base)/.*|proto/fmt_[a-z_]*\.h|$seam"
arrows server "(server|store|proto|base)/.*|$seam"
arrows client '(client|proto|base)/.*'

# A library stays inside the files that wrap it.
only_in()	# HEADER-REGEX FILES-REGEX
{
	say "only $2 may include this" < <(grep -HnoE \
	    "#include <$1>" "${src[@]}" | grep -vE "^($2):")
}
only_in 'libssh.*' 'base/wire_ssh[a-z_]*\.[ch]'
only_in 'lmdb\.h' '(store/index|client/cache|client/link)[a-z_]*\.[ch]'
only_in 'isa-l.*' '(base/hash|raid/parity)\.c'
only_in 'openssl.*' 'base/[a-z_]*\.c'
only_in '(lz4|zstd)[a-z]*\.h' 'base/codec\.c'

banned='strcpy|strcat|strncpy|sprintf|strtok|atoi|system|alloca'
# Comments may say "file system (such as ...": they are blanked first.
say 'banned function' < <(awk '
	FNR == 1 { inside = 0 }
	{
		line = $0; out = ""
		while (line != "") {
			at = index(line, inside ? "*/" : "/*")
			if (at == 0) {
				if (!inside) out = out line
				break
			}
			if (!inside) out = out substr(line, 1, at - 1)
			line = substr(line, at + 2)
			inside = !inside
		}
		print FILENAME ":" FNR ":" out
	}' "${src[@]}" | grep -E ":.*\<($banned) *\(")
say 'unfinished' < <(grep -HnoE '\<(TODO|FIXME|XXX)\>' "${all[@]}")
say 'blanks at the end' < <(grep -HnoE '[ 	]+$' "${all[@]}" \
    Makefile tests/*.sh tests/*/*.sh)
say 'over 800 lines' < <(wc -l "${all[@]}" |
    awk '$2 != "total" && $1 > 800 { print $2 }')
say 'over 80 columns' < <(awk '{
	column = 0
	for (i = 1; i <= length($0); i++)
		column += substr($0, i, 1) == "\t" ? 8 - column % 8 : 1
	if (column > 80) print FILENAME ":" FNR
}' "${all[@]}")
say 'function over 70 lines' < <(ctags -x --languages=C --c-kinds=f \
    --fields=+e --_xformat='%F %n %{end} %N' "${all[@]}" |
    awk '$3 - $2 + 1 > 70 { print $1 ":" $2 ": " $4 }')
# The only mutable globals are the log's; signal flags are sig_atomic_t.
say 'mutable global' < <(grep -HnE '^(static|[a-z].*\<extern) [^(]*(;|=.*)$' \
    "${src[@]}" | grep -v '^base/log\.c:' |
    grep -vE '\<(const|sig_atomic_t|_Thread_local|pthread_(once|key)_t)\>')
exit $bad
