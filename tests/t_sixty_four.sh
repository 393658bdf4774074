#!/bin/bash
# 64 ranks, more than cores and more than communicators that gather directly, train, save, and resume in another layout.
# The step after that has the loss of one rank that resumes from the same checkpoint.
#
# limit: 600 s
. "$abs_top_srcdir/tests/lib.sh"
available=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)
if [ "${available:-0}" -lt 10000000 ]; then
    echo "skipped: less than 10 GB of memory are free"
    exit 77
fi
small_deck || exit 1
settings="model.layers=4 model.hidden=64 model.ffn=128 model.heads=8 train.global_batch=64 train.micro_batch=1 device.threads=1"

# run FOLDER RANKS STEPS KEYS...
run()
{
    local folder=$work/$1 count=$2 steps=$3
    shift 3
    # shellcheck disable=SC2086
    ranks "$count" train "$work/deck.cfg" $settings "$@" train.steps="$steps" output.folder="$folder"
}

run many 64 1 parallel.tensor=4 parallel.pipeline=4 parallel.shard=optimizer
check "64 ranks train and save" codes_are 0 64
cp -r "$work/many" "$work/one"
run many 64 2 parallel.shard=full
check "64 ranks resume in another layout" codes_are 0 64
run one 1 2
check "one rank resumes" codes_are 0 1
losses "$work/many" >"$work/found"
losses "$work/one" >"$work/wanted"
check "both have two steps" test "$(wc -l <"$work/found") $(wc -l <"$work/wanted")" = "2 2"
check "they have the loss of one rank" close_losses "$work/found" "$work/wanted" 1e-5
finish
