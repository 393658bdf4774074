#!/bin/bash
# Each tag of a struct, union or enum is defined once in src, so that any two headers can be included together. A tag of
# a header is two words or a term of the field. Enums whose values are computed from each other are tied by an
# assertion.
set -u
root=${abs_top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}

# Terms that one word says: of machine learning, parallel programming, or this program's own glossary.
terms="attention batch bpe budget comm command cpu deck dtype embedding engine event executor family estimate
    gradient grid group inference lifetime linear model muon nfc norm nvml offload op operand optimizer panels parameter
    precision profiler prometheus prompt prompts quantization recompute rectangle safetensors sampling scaling schedule
    segment session setup sharding sigmoid snapshot straggler stream tensor tensorboard thrift throughput timer tokenizer unit
    view weight angles sides square constant turn execution"

# tags FOLDER PATTERN...: "TAG FILE" for each definition at the beginning of a line.
tags()
{
    local folder=$1
    shift
    find "$folder" -name "$1" "${@:2}" | sort | xargs grep -HoE '^(template <[^>]*> ?)?(struct|union|enum) [a-z_0-9]+( \{|$)' |
        sed -E 's/^([^:]*):.*(struct|union|enum) ([a-z_0-9]+).*/\3 \1/'
}

twice()
{
    tags "$1/src" '*.[ch]' | sort | awk '$1 == tag { print tag ": " file " and " $2 } { tag = $1; file = $2 }'
}

bare()
{
    { tags "$1/src" '*.h'; tags "$1/cuda" '*.h' -o -name '*.cuh'; } |
        awk -v terms="$terms" 'BEGIN { split(terms, list); for (i in list) known[list[i]] }
            $1 !~ /_/ && !($1 in known) { print $1 ": " $2 }'
}

# The checks first: they find what is planted, and nothing else.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted"/src/base "$planted"/cuda
printf '%s\n' 'struct place {' 'struct two_words {' 'struct tensor {' >"$planted/src/base/a.h"
printf '%s\n' 'struct two_words {' 'enum own {' >"$planted/src/base/b.c"
printf '%s\n' 'template <int N> struct thing {' 'struct thing_of {' >"$planted/cuda/c.cuh"
if [ "$(twice "$planted" | wc -l)" -ne 1 ] || [ "$(bare "$planted" | wc -l)" -ne 2 ]; then
    echo "planted: one tag twice and two bare words; found:"
    twice "$planted"
    bare "$planted"
    exit 1
fi

# The headers that design.md lists as the ones to know say so in their first line, and no others do.
key_headers()
{
    # shellcheck disable=SC2016 # backquotes of Markdown
    diff <(sed -n '/^| header | what/,/^$/s/^| `\([a-z_/]*\.h\)`.*/\1/p' "$1/doc/design.md" | sort) \
        <(cd "$1/src" && grep -rl --include='*.h' '^/\* Key header: ' . | sed 's|^\./||' | sort)
}
mkdir "$planted/doc"
# shellcheck disable=SC2016
printf '%s\n' '| header | what |' '|---|---|' '| `base/a.h` | errors |' '' >"$planted/doc/design.md"
if key_headers "$planted" >/dev/null; then
    echo "planted: a key header without its mark; not found"
    exit 1
fi

faults=$(twice "$root" | sed 's/^/two of one tag: /'; bare "$root" | sed 's/^/a bare everyday word: /'
    key_headers "$root" | sed -n 's/^</listed as a key header, not marked: /p; s/^>/marked as a key header, not listed: /p')
if [ -n "$faults" ]; then
    echo "$faults"
    exit 1
fi
echo "$(tags "$root/src" '*.[ch]' | wc -l) tags, each defined once"
