#!/bin/bash
# clang-format 14 leaves every C file as it is, and shellcheck has no warning about any script. Versions of clang-format
# differ, so only 14 decides; where one tool is missing, the other runs and the test is skipped.
set -u
root=${abs_top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}
cd "$root" || exit 1
status=0
skipped=
messages=$(mktemp)
trap 'rm -f "$messages"' EXIT

format=
for candidate in clang-format-14 clang-format; do
    if "$candidate" --version 2>/dev/null | grep -q 'version 14\.'; then
        format=$candidate
        break
    fi
done
if [ -n "$format" ]; then
    mapfile -t sources < <(find src tests bench examples -name '*.[ch]')
    if ! "$format" --style=file --dry-run --Werror "${sources[@]}" 2>"$messages"; then
        sed -n 's/^\([^:]*\):.*clang-formatted.*/\1: not formatted; fix with '"$format -i \\1/p" "$messages" | sort -u
        status=1
    fi
else
    skipped="clang-format 14 not found (package clang-format-14)"
fi

if command -v shellcheck >/dev/null; then
    places=(.ci bench bootstrap contrib jobscripts quickstart runtests scripts tests)
    mapfile -t scripts < <({
        find "${places[@]}" -name '*.sh'
        grep -rlIE '^#!.*[/ ](ba)?sh$' "${places[@]}"
    } | sort -u)
    [ ${#scripts[@]} -ge 60 ] || { echo "only ${#scripts[@]} scripts are found" && status=1; }
    shellcheck --severity=warning --format=gcc "${scripts[@]}" || status=1
else
    skipped=${skipped:+$skipped; }"shellcheck not found (package shellcheck)"
fi

if [ $status -eq 0 ] && [ -n "$skipped" ]; then
    echo "$skipped"
    exit 77
fi
exit $status
