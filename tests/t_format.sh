#!/bin/bash
# clang-format decides layout. Versions differ in their opinions, so only 14 judges; without it the test is skipped.
set -u
root=${abs_top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
format=
for candidate in clang-format-14 clang-format; do
    if "$candidate" --version 2>/dev/null | grep -q 'version 14\.'; then
        format=$candidate
        break
    fi
done
if [ -z "$format" ]; then
    echo "clang-format 14 not found (package clang-format-14)"
    exit 77
fi
cd "$root" || exit 1
status=0
while IFS= read -r file; do
    if ! "$format" --style=file --dry-run --Werror "$file" 2>/dev/null; then
        echo "$file: not formatted; mend with $format -i $file"
        status=1
    fi
done < <(find src tests bench -name '*.[ch]' | sort)
exit $status
