#!/bin/bash
# Changes at a restart match a run that had them from the start: evaluation alone, another decay of the learning rate,
# another blend of stores.
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
# evaluated ROWS: "labels loss" of an evaluation on so many rows
evaluated()
{
    cp "$work/log" "$work/run/log.jsonl"
    ranks 2 train "$work/deck.cfg" validation.rows="$1"
    echo "$(values evaluation labels "$work/run" 12) $(values evaluation loss "$work/run" 12)"
}
evaluated 1000000 >"$work/at_once"
evaluated 0 >"$work/in_steps" # of train.global_batch rows
check "all rows, in many steps and in one" close_losses "$work/in_steps" "$work/at_once" 1e-9
check "they are more than validation.rows" test "$(cut -d ' ' -f 1 "$work/at_once")" -gt $((16 * 64))
check "checkpoints, models and deck stand" cmp "$work/files" <(files)
check "the validation of the run stands" test "$(values validation loss "$work/run" 12)" = "$own"
"$CISTRON" report "$work/run" >"$work/out" 2>&1
check "the run has still finished" says finished

# also where the run has gone on behind its final model
cp -r "$work/run" "$work/longer"
ranks 2 train "$work/deck.cfg" output.folder="$work/longer" train.steps=16 checkpoint.at_end=false checkpoint.every=4
check "a longer run" codes_are 0 2
files_longer=$(cd "$work/longer" && stat -c '%n %Y %i %s' *.h5 *.xxh3 deck.cfg)
ranks 2 train "$work/deck.cfg" output.folder="$work/longer" train.steps=14 checkpoint.export_final=true
check "evaluated with fewer steps" codes_are 0 2
check "its final model of 12 steps stands" test "$files_longer" = "$(cd "$work/longer" && stat -c '%n %Y %i %s' *.h5 *.xxh3 deck.cfg)"
check "nothing is exported" test ! -e "$work/longer/final_model"

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

# -- another batch: the rows that follow, 5 x 7 + 3 x 14 as 11 x 7; other micro-batches change the rounding alone
place()
{
    "$CISTRON" inspect --json "$1" | tr -d ' \n' | sed 's/.*"offset":\([0-9]*\),"stores":\(\[[^]]*\]\).*/\1 \2/'
}
ranks 2 train "$work/deck.cfg" train.steps=11 output.folder="$work/eleven"
ranks 2 train "$work/deck.cfg" train.steps=5 output.folder="$work/batch"
cp -r "$work/batch" "$work/micro"
ranks 2 train "$work/deck.cfg" train.global_batch=14 train.steps=8 output.folder="$work/batch"
check "another batch" codes_are 0 2
check "another batch: is told" says "changed since the checkpoint: train.global_batch = 14 (was 7)"
check "another batch: a place in the data" grep -q '^[0-9]* \[{"epoch"' <(place "$work/batch/step_00000008.h5")
check "another batch: the rows that follow" \
    test "$(place "$work/batch/step_00000008.h5")" = "$(place "$work/eleven/step_00000011.h5")"
ranks 3 train "$work/deck.cfg" train.micro_batch=1 train.steps=11 output.folder="$work/micro"
check "other micro-batches" close_losses <(losses "$work/micro") <(losses "$work/eleven") 1e-6

# -- another blend: where a store has almost all of the weight, the run is that on this store alone, whatever else is or
# was beside it
genome 2 9000 200 >"$work/h.fa"
"$CISTRON" prepare --tokenizer nucleotide -o "$work/h.h5" "$work/h.fa" >"$work/out" || exit 1
sed 's|row_tokens = 64;|row_tokens = 64; split = false;|' "$work/deck.cfg" >"$work/blend.cfg" # no window is in two rows
a="$work/g.train.h5"
b="$work/h.h5"
ranks 2 train "$work/blend.cfg" output.folder="$work/alone"
losses "$work/alone" >"$work/alone.losses"
# goes NAME STORES WEIGHTS, THEN STORES WEIGHTS: 5 steps with the first, the rest with the second
goes()
{
    ranks 2 train "$work/blend.cfg" data.train="\"$2\"" data.weights="\"$3\"" output.folder="$work/$1" train.steps=5
    ranks 2 train "$work/blend.cfg" data.train="\"$4\"" data.weights="\"$5\"" output.folder="$work/$1"
    check "$1: goes on" codes_are 0 2
    check "$1: is told" says "another blend from the next step on: $6"
    losses "$work/$1" >"$work/losses"
}
goes added "$a" "" "$b,$a" "1e-9,1" "1 of its stores continue at their position and 1 begin; 0 earlier ones are dropped"
check "a store is added before it: the losses of it alone" cmp "$work/losses" "$work/alone.losses"
check "and its digest" test "$(digest "$work/added" 12)" = "$(digest "$work/alone" 12)"
goes removed "$b,$a" "1e-9,1" "$a" "" "1 of its stores continue at their position and 0 begin; 1 earlier ones are dropped"
check "a store is left out: the losses" test "$(tail -n 7 "$work/losses" | wc -l)" -eq 7
# windows of $a have other orders as store 1 than as store 0: a run in which it is store 1 throughout
ranks 2 train "$work/blend.cfg" data.train="\"$b,$a\"" data.weights='"1e-9,1"' output.folder="$work/second"
check "a store is left out: the losses of a run without" cmp "$work/losses" <(losses "$work/second")
goes weights "$a,$b" "1,1e-9" "$a,$b" "1e-9,1" "2 of its stores continue at their position and 0 begin; 0 earlier ones are dropped"
# then store b alone, from its start, as store 1; 1 to 5 as before
check "other weights: the first losses" cmp <(head -n 5 "$work/losses") <(head -n 5 "$work/alone.losses")
"$CISTRON" inspect --json "$work/weights/step_00000012.h5" | tr -d ' \n' >"$work/out"
windows=$(sed -n 's/.*"stores":\[{"epoch":0,"window":\([0-9]*\)[^}]*},{"epoch":\([0-9]*\),"window":\([0-9]*\).*/\1 \2 \3/p' "$work/out")
"$CISTRON" inspect --json "$work/weights/step_00000005.h5" | tr -d ' \n' >"$work/out"
check "other weights: the first store stands still from then on" \
    says "\"stores\":[{\"epoch\":0,\"window\":${windows%% *}"
check "other weights: the second one's windows follow" test "${windows#* }" != "0 0"

# a half each from step 5 on: on other rank counts the same, stopped and started again the same, bit for bit
half=("data.train=\"$a,$b\"" 'data.weights="1,1"')
mkdir "$work/half"
cp "$work/alone"/step_00000005.h5* "$work/half" 2>/dev/null || {
    ranks 2 train "$work/blend.cfg" output.folder="$work/half" train.steps=5
}
for copy in stopped n1 n3; do cp -r "$work/half" "$work/$copy"; done
ranks 2 train "$work/blend.cfg" "${half[@]}" output.folder="$work/half"
check "a half each" codes_are 0 2
ranks 2 train "$work/blend.cfg" "${half[@]}" output.folder="$work/stopped" train.steps=8
ranks 2 train "$work/blend.cfg" "${half[@]}" output.folder="$work/stopped"
check "the same blend is no other one" test "$(grep -c "another blend" "$work/out")" -eq 0
check "stopped and started again: the losses" cmp <(losses "$work/half") <(losses "$work/stopped")
check "stopped and started again: the digest" test "$(digest "$work/half" 12)" = "$(digest "$work/stopped" 12)"
for n in 1 3; do
    ranks $n train "$work/blend.cfg" "${half[@]}" output.folder="$work/n$n"
    check "$n ranks: the losses" close_losses <(losses "$work/n$n") <(losses "$work/half") 1e-6
done
check "the log has it once" test "$(grep -c '"event":"blended"' "$work/stopped/log.jsonl")" -eq 1

# a store that has become another one under its name
cp "$b" "$work/changed.h5"
ranks 2 train "$work/blend.cfg" data.train="\"$a,$work/changed.h5\"" data.weights='"1,1"' output.folder="$work/named" train.steps=3
cp "$a" "$work/changed.h5"
ranks 2 train "$work/blend.cfg" data.train="\"$a,$work/changed.h5\"" data.weights='"1,1"' output.folder="$work/named"
check "a store that has changed: code 2" codes_are 2 2
check "it is named" says "key data.train: $work/changed.h5 differs from the store of that name"
mv "$b" "$work/moved.h5"
ranks 2 train "$work/blend.cfg" data.train="\"$work/moved.h5,$a\"" data.weights='"1,1"' output.folder="$work/named"
check "stores that lie elsewhere and in another order" codes_are 0 2
check "are known again" says "2 of its stores continue at their position and 0 begin"
finish
