#!/bin/bash
# A family of models is one file: src/architecture/family_NAME.c for each NAME of DECK_FAMILIES (src/deck/deck.h). No
# other code of src and cuda names a family, as a constant or as a text; a tokenizer may have a family's name.
set -u
root=${abs_top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}

# families ROOT: the names in the list, separated by |.
families()
{
    sed -n '/^#define DECK_FAMILIES(X)/,/[^\\]$/p' "$1/src/deck/deck.h" | grep -oE 'X\([a-z0-9_]+\)' |
        sed -E 's/X\((.*)\)/\1/' | paste -sd'|'
}

# check ROOT: one line for each fault.
check()
{
    local names name file
    names=$(families "$1")
    (cd "$1" && find src cuda -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' | sort |
        grep -vE "^src/architecture/family_($names)\.c$" |
        while IFS= read -r file; do
            grep -nEi "\bfamily_($names)\b" "$file" | sed "s|^|$file:|; s/$/: names a family/"
            case $file in src/tokenizer/*) continue ;; esac
            grep -nE "(^|[^\\\\])\"($names)\"" "$file" | sed "s|^|$file:|; s/$/: names a family/"
        done
        for name in ${names//|/ }; do
            [ -f "src/architecture/family_$name.c" ] || echo "src/architecture/family_$name.c: is missing"
        done
        for file in src/architecture/family_*.c; do
            name=${file##*/family_}
            [[ "|$names|" == *"|${name%.c}|"* ]] || echo "$file: is not in DECK_FAMILIES"
        done)
}

# The check first: it finds what is planted, and nothing else.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted"/{cuda,src/{architecture,bridge,deck,tokenizer}}
cat >"$planted/src/deck/deck.h" <<'END'
#define DECK_FAMILIES(X) \
    X(llama) X(esm2) \
    X(lost)
enum { X(after) };
END
echo 'const struct family family_llama = {.name = "llama"};' >"$planted/src/architecture/family_llama.c"
echo 'const struct family family_esm2 = {.name = "esm2"};' >"$planted/src/architecture/family_esm2.c"
echo 'const struct family family_other = {0};' >"$planted/src/architecture/family_other.c"
printf '%s\n' 'if (s->family == &family_esm2)' 'if (family == FAMILY_LLAMA)' 'bool b = strcmp(name, "esm2") == 0;' \
    '.doc = "\"esm2\" does"' 'deck.preset = "llama3_8b"; /* family_llama3 */' >"$planted/src/bridge/a.c"
echo '{.name = "esm2"}' >"$planted/src/tokenizer/a.c"
found=$(check "$planted" | wc -l)
if [ "$found" -ne 5 ]; then
    echo "5 planted faults, $found found:"
    check "$planted"
    exit 1
fi

faults=$(check "$root")
if [ -n "$faults" ]; then
    echo "$faults"
    exit 1
fi
names=$(families "$root")
if [[ $names != *"|"*"|"* ]]; then
    echo "only these families are found: $names"
    exit 1
fi
echo "each of ${names//|/, } is one file"
