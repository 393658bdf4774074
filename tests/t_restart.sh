#!/bin/bash
# What may change at a restart: straight into evaluation, another decay of the learning rate, another blend of stores.
# Each is compared with the run that had it from the start.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1

# values NAME KEY FOLDER STEP: of that event at that step
values()
{
    sed -n 's/.*"event":"'"$1"'","step":'"$4"',.*"'"$2"'":\([^,]*\),.*/\1/p' "$3/log.jsonl"
}

# -- nothing left to train: evaluation alone, which leaves the folder as it is
ranks 2 train "$work/deck.cfg" checkpoint.every=4
ranks 2 train "$work/deck.cfg" data.valid="$work/g.train.h5" validation.rows=9 output.folder="$work/other"
own=$(values validation loss "$work/run" 12)
other=$(values validation loss "$work/other" 12)
check "two losses" test -n "$own" -a -n "$other" -a "$own" != "$other"
files()
{
    (cd "$work/run" && stat -c '%n %Y %i %s' *.h5 *.xxh3 deck.cfg)
}
files >"$work/files"
cp "$work/run/log.jsonl" "$work/log"
lines=$(wc -l <"$work/log")
ranks 2 train "$work/deck.cfg"
check "evaluation on the same data" codes_are 0 2
check "it is said" says "nothing is left to train: evaluation on $work/g.valid.h5 alone"
check "the same loss to the bit" test "$(values evaluation loss "$work/run" 12)" = "$own"
for n in 1 3; do
    cp "$work/log" "$work/run/log.jsonl"
    ranks $n train "$work/deck.cfg" data.valid="$work/g.train.h5" validation.rows=9 train.steps=8
    check "on other data, $n ranks, with fewer steps" codes_are 0 $n
    check "$n ranks: the loss of a run that validated on them" \
        close_losses <(echo "12 $(values evaluation loss "$work/run" 12)") <(echo "12 $other") 1e-6
    check "$n ranks: one line of the log" test "$(wc -l <"$work/run/log.jsonl")" -eq $((lines + 1))
    check "$n ranks: behind those before" cmp "$work/log" <(head -n "$lines" "$work/run/log.jsonl")
done
check "checkpoints, models and deck stand" cmp "$work/files" <(files)
check "the validation of the run stands" test "$(values validation loss "$work/run" 12)" = "$own"
"$CISTRON" report "$work/run" >"$work/out" 2>&1
check "the run has still finished" says finished

# -- another decay: constant at first, then warm-up, stable, decay as if it had been so from the start
decay="schedule.kind=linear schedule.hold=2 schedule.decay=7"
ranks 2 train "$work/deck.cfg" $decay output.folder="$work/whole"
ranks 2 train "$work/deck.cfg" schedule.kind=constant output.folder="$work/constant"
ranks 2 train "$work/deck.cfg" schedule.kind=constant output.folder="$work/decayed" train.steps=5
ranks 2 train "$work/deck.cfg" $decay output.folder="$work/decayed"
check "another decay" codes_are 0 2
check "it is told" says 'changed since the checkpoint: schedule.kind = "linear" (was "constant")'
check "with each key" says 'changed since the checkpoint: schedule.hold = 2 (was 0)'
check "another decay: the losses" cmp <(losses "$work/whole") <(losses "$work/decayed")
check "another decay: the digest" test "$(digest "$work/whole" 12)" = "$(digest "$work/decayed" 12)"
check "another decay: not those without" test "$(cmp <(losses "$work/whole") <(losses "$work/constant") 2>&1)"
finish
