#!/bin/bash
# A user's mistake gives one clear line and exit code 2 on every rank, without a hang.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1
RANKS_SECONDS=60

# mistake TEXT SAYS OVERRIDES...: on 2 ranks
mistake()
{
    local text=$1 words=$2
    shift 2
    ranks 2 train "$work/deck.cfg" "$@"
    check "$text: exit code 2 on both ranks" codes_are 2 2
    check "$text: is said" says "$words"
    check "$text: once" test "$(grep -cF -- "$words" "$work/out")" -eq 1
}

mistake "unknown key" "model.hiden" model.hiden=3
mistake "wrong type" "train.steps" train.steps=many
mistake "out of range" "optimizer.beta2" optimizer.beta2=1.5
mistake "wrong choice" "data.format" data.format=bshd
mistake "no such preset" "model.preset" model.preset=llama9
mistake "heads" "model.kv_heads" model.kv_heads=3
mistake "no store" "nowhere.h5" data.train="$work/nowhere.h5"
mistake "not a store" "deck.cfg" data.train="$work/deck.cfg"
mistake "row not a multiple of 16" "data.row_tokens" data.row_tokens=65
mistake "window beyond the row" "data.window" data.window=128
mistake "overlap beyond the window" "data.overlap" data.overlap=64
mistake "no such device" "device.kind" device.kind=cuda
mistake "folder cannot be made" "output.folder" output.folder="$work/deck.cfg/run"
mistake "no such checkpoint" "$work/none.h5" train.resume="$work/none.h5"
check "nothing half-made is left" test ! -e "$work/run/step_00000001.h5"

ranks 2 train "$work/no_such_deck.cfg"
check "no deck: exit code 2" codes_are 2 2
check "no deck: is said" says "no_such_deck.cfg"
printf 'train = { steps = 3000000000; };\n' >"$work/bad.cfg"
ranks 2 train "$work/bad.cfg"
check "an integer that libconfig would wrap: exit code 2" codes_are 2 2
check "an integer that libconfig would wrap: line" says "bad.cfg:1"
printf 'train = { steps = 5; };\nmodel = { layers = "two"; hidden = 1.5; };\nfoo = 3;\n' >"$work/bad.cfg"
ranks 2 train "$work/bad.cfg"
check "several mistakes are told at once" says "bad.cfg:3"
check "several mistakes: the first too" says "bad.cfg:2"

# a run that is there already
ranks 2 train "$work/deck.cfg" train.steps=2
check "a run" codes_are 0 2
mistake "resume never refuses a run" "train.resume" train.resume=never
mistake "a model key changed at resume" "model.hidden" model.hidden=64
mistake "a data key changed at resume" "data.row_tokens" data.row_tokens=32

genome 2 50000 >"$work/other.fa"
"$CISTRON" prepare --tokenizer nucleotide -o "$work/other.h5" "$work/other.fa" >/dev/null
mistake "another store at resume" "data.train" data.train="$work/other.h5"

# what needs no ranks
for arguments in "" "frobnicate" "train" "prepare -o $work/x.h5 $work/g.fa" "prepare --tokenizer nucleotide $work/g.fa" \
    "prepare --tokenizer none -o $work/x.h5 $work/g.fa" "inspect" "inspect $work/deck.cfg" "baseline $work/g.train.h5" \
    "prepare --tokenizer nucleotide -o $work/x.h5 $work/none.fa" "deck --frob"; do
    # shellcheck disable=SC2086
    timeout 20 "$CISTRON" $arguments >"$work/out" 2>&1
    check "cistron $arguments: exit code 2" test $? -eq 2
    check "cistron $arguments: something is said" test -s "$work/out"
done
check "no store is left by failed preparations" test ! -e "$work/x.h5"

# the commands that log in nodes run never start MPI: no rank's environment, no launcher needed
for arguments in --help --version "train --help" deck "prepare --help" "inspect $work/g.train.h5"; do
    # shellcheck disable=SC2086
    strace -f -e trace=openat -o "$work/trace" "$CISTRON" $arguments >"$work/out" 2>&1 || true
    if [ -s "$work/trace" ]; then
        check "cistron $arguments opens no MPI component" test "$(grep -c 'mca_\(btl\|pml\)' "$work/trace")" -eq 0
    fi
done
"$CISTRON" deck >"$work/reference.cfg"
ranks 1 train "$work/reference.cfg"
check "the reference deck parses; it lacks a store alone" says "data.train"
finish
