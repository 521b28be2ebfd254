#!/bin/sh
# suites.sh FOLDER OUT.c - write the list of the folder's test suites.
# A file tests/FOLDER/test_X.c exports `Suite *FOLDER_X_suite(void)`.
# OUT.c is left alone when nothing changed, so that make does not rebuild.
set -eu
folder=$1 out=$2
names=$(ls "tests/$folder" | sed -n 's/^test_\(.*\)\.c$/\1/p')
mkdir -p "${out%/*}"
{
	echo '#include "tests/runner.h"'
	for n in $names; do echo "Suite *${folder}_${n}_suite(void);"; done
	echo 'Suite *(*const suites[])(void) = {'
	for n in $names; do echo "	${folder}_${n}_suite,"; done
	echo '	NULL'
	echo '};'
	echo "const char suites_folder[] = \"$folder\";"
} > "$out.new"
if cmp -s "$out" "$out.new"; then rm "$out.new"; else mv "$out.new" "$out"; fi
