#!/bin/bash
# Who reads or changes keys of a deck. A struct deck is opaque without deck/fields.h, so the compiler holds what this
# test counts: only src/deck, src/setup, the families (their rows of config.json name keys by place) and the files below
# include it, no header does, and each file below still needs it. All other code takes a setup (setup/setup.h).
set -u
root=${abs_top_srcdir:-$(cd "$(dirname "$0")/.." && pwd)}

readers="
    src/bridge/adapter_import.c          # adds the adapters' keys to the deck of their base
    src/bridge/config_class.c            # writes the head that config.json names
    src/bridge/config_read.c             # makes a deck of config.json
    src/bridge/config_rope.c             # writes its rotary settings
    src/bridge/config_write.c            # the way back
    src/bridge/import.c                  # makes the deck of an imported model
    src/estimate/fit_advice.c            # tries decks with other keys
    src/estimate/fit_choice.c            # writes what memory.recompute = \"fit\" and memory.head_tokens = 0 come to
    src/estimate/layout_choice.c         # tries layouts, and writes the chosen one
    src/train/host_count.c               # makes the deck of a dry run of these ranks
    src/train/origin.c                   # completes a deck from the checkpoint that it starts from
    src/train/start.c                    # compares and completes the decks of a restart
"

allowed='^src/(deck/|setup/[^/]*\.c$|architecture/family_[^/]*\.c$)'

# check_readers ROOT LIST: one line for each file that includes the fields and is not listed, or the other way round.
check_readers()
{
    local found
    found=$(cd "$1" && find src cuda -type f | sort |
        xargs grep -lE '^[[:space:]]*#[[:space:]]*include[[:space:]]*"deck/fields\.h"' | grep -vE "$allowed")
    grep '\.[a-z]*h$' <<<"$found" | sed 's/$/: a header gives the fields of a deck to all that include it/'
    comm -3 <(grep . <<<"$found") <(sed 's/ *#.*//; s/^ *//' <<<"$2" | grep . | sort) |
        sed -E 's/^\t(.*)/\1: is listed, and does not include deck\/fields.h/; t
            s/$/: includes deck\/fields.h; take a setup, or say in this test why not/'
}

# The check itself first: a reader that is not listed, a header, and one that is listed in vain.
planted=$(mktemp -d)
trap 'rm -rf "$planted"' EXIT
mkdir -p "$planted"/src/{deck,setup,train} "$planted/cuda"
for file in src/deck/read.c src/setup/setup.c src/setup/setup.h src/train/known.c src/train/run.c; do
    printf '%s\n' '#include "deck/deck.h"' '#include "deck/fields.h"' >"$planted/$file"
done
found=$(check_readers "$planted" "src/train/known.c # it may
    src/train/gone.c # no more" | sort)
wanted="src/setup/setup.h src/setup/setup.h src/train/gone.c src/train/run.c "
if [ "$(cut -d: -f1 <<<"$found" | tr '\n' ' ')" != "$wanted" ]; then
    echo "planted: a header, a reader and a name too many; found:"
    echo "$found"
    exit 1
fi

faults=$(check_readers "$root" "$readers")
if [ -n "$faults" ]; then
    echo "$faults"
    exit 1
fi
echo "$(grep -c '\.c ' <<<"$readers") files outside src/deck and src/setup read keys of decks"
