#!/bin/bash
# Whole runs: the same deck twice and a restart give the same bits, other rank counts agree to 1e-6, and the run folder
# holds what it should: checkpoints, rows of the log, learning rates, bf16, delayed scaling, NVFP4.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1

# rates FOLDER: "step rate" of each step
rates()
{
    sed -n 's/.*"event":"step","step":\([0-9]*\),.*"lr":\([^,]*\),.*/\1 \2/p' "$1/log.jsonl"
}

# twice the same
ranks 2 train "$work/deck.cfg" checkpoint.every=4
check "a run ends with 0" codes_are 0 2
cp -r "$work/run" "$work/first"
rm -r "$work/run"
ranks 2 train "$work/deck.cfg" checkpoint.every=4
check "the second run ends with 0" codes_are 0 2
losses "$work/first" >"$work/first.losses"
losses "$work/run" >"$work/again.losses"
check "12 losses" test "$(wc -l <"$work/first.losses")" -eq 12
check "the same deck twice: the same losses" cmp "$work/first.losses" "$work/again.losses"
check "and the same digest" test "$(digest "$work/first" 12)" = "$(digest "$work/run" 12)"
check "the learning rates of the warm-up: a step's is that of the steps before it" \
    close_losses <(rates "$work/first" | sed -n '2,4p') <(printf '%s\n' "2 0.000333333333" "3 0.000666666667" "4 0.001") 1e-9
check "the first step's is 0" test "$(rates "$work/first" | head -n 1)" = "1 0"
check "a digest is there" test -n "$(digest "$work/first" 12)"
for file in step_00000004.h5 step_00000008.h5 step_00000012.h5 final_model.h5 deck.cfg log.jsonl; do
    check "$file" test -f "$work/first/$file"
done
check "validation is logged" test "$(grep -c '"event":"validation"' "$work/first/log.jsonl")" -eq 2
"$CISTRON" train "$work/first/deck.cfg" >"$work/out" 2>&1 # its folder is that of the second run
check "the effective deck is a deck" says "the run is finished: step 12 of 12"
rm "$work/run/final_model.h5"
"$CISTRON" train "$work/first/deck.cfg" >"$work/out" 2>&1
check "a run that lacks only its final model writes that" test -f "$work/run/final_model.h5"

# another seed is another run
ranks 2 train "$work/deck.cfg" train.seed=43 output.folder="$work/seed"
losses "$work/seed" >"$work/seed.losses"
check "another seed: other losses" test "$(cmp "$work/first.losses" "$work/seed.losses" 2>&1)"

# a row every 5 steps, and of the first and the last
ranks 2 train "$work/deck.cfg" log.every=5 output.folder="$work/rows"
check "rows of steps 1, 5, 10 and 12, of the same run" \
    cmp <(losses "$work/rows") <(grep -E '^(1|5|10|12) ' "$work/first.losses")

# embedding and head have a learning rate of their own
ranks 2 train "$work/deck.cfg" optimizer.decoupled_lr=0.001 output.folder="$work/alike"
ranks 2 train "$work/deck.cfg" optimizer.decoupled_lr=0.002 output.folder="$work/decoupled"
check "a rate of its own that is the same changes nothing" cmp "$work/first.losses" <(losses "$work/alike")
check "another one does" test "$(cmp "$work/first.losses" <(losses "$work/decoupled") 2>&1)"

# restart on the same ranks: stopped after 5 steps, and again after 9, in mid-epoch
restart="$work/restart"
ranks 2 train "$work/deck.cfg" output.folder="$restart" train.steps=5
ranks 2 train "$work/deck.cfg" output.folder="$restart" train.steps=9
check "it says where it goes on" says "step_00000005.h5 at step 5"
ranks 2 train "$work/deck.cfg" output.folder="$restart"
losses "$restart" >"$work/restart.losses"
check "restarted: the same losses bit for bit" cmp "$work/first.losses" "$work/restart.losses"
check "restarted: the same learning rates" cmp <(rates "$work/first") <(rates "$restart")
check "restarted: the same digest" test "$(digest "$work/first" 12)" = "$(digest "$restart" 12)"
ranks 2 train "$work/deck.cfg" output.folder="$restart"
check "a finished run is left alone" says "finished"

# other rank counts, from the start and from a checkpoint of 4 ranks
for n in 1 3 4; do
    ranks $n train "$work/deck.cfg" output.folder="$work/n$n" checkpoint.every=6
    check "$n ranks end with 0" codes_are 0 $n
    losses "$work/n$n" >"$work/n.losses"
    check "$n ranks: the losses of 2" close_losses "$work/n.losses" "$work/first.losses" 1e-6
done
for n in 1 2 3; do
    cp -r "$work/n4" "$work/from4"
    rm "$work/from4/step_00000012.h5"*
    ranks $n train "$work/deck.cfg" output.folder="$work/from4"
    check "from 4 ranks to $n: ends with 0" codes_are 0 $n
    losses "$work/from4" >"$work/n.losses"
    check "from 4 ranks to $n: the losses go on" close_losses "$work/n.losses" "$work/first.losses" 1e-6
    rm -r "$work/from4"
done

# without mpirun; and from a named checkpoint into another folder
"$CISTRON" train "$work/deck.cfg" output.folder="$work/alone" train.resume="$work/first/step_00000008.h5" >"$work/out" 2>&1
check "without mpirun" test $? -eq 0
losses "$work/alone" >"$work/n.losses"
check "from a named checkpoint: steps 9 to 12" close_losses "$work/n.losses" <(tail -n 4 "$work/first.losses") 1e-6

# bf16 learns too, and restarts bit for bit
ranks 2 train "$work/deck.cfg" precision.compute=bf16 output.folder="$work/bf16"
ranks 2 train "$work/deck.cfg" precision.compute=bf16 output.folder="$work/bf16b" train.steps=7
ranks 2 train "$work/deck.cfg" precision.compute=bf16 output.folder="$work/bf16b"
losses "$work/bf16" >"$work/bf16.losses"
losses "$work/bf16b" >"$work/bf16b.losses"
check "bf16 restarts bit for bit" cmp "$work/bf16.losses" "$work/bf16b.losses"
check "bf16 is near fp32" close_losses "$work/bf16.losses" "$work/first.losses" 1e-2

# delayed scaling has its histories in the checkpoint; NVFP4 rounds at random, by the number of the micro-batch. 7 rows
# by 2 are uneven: a rank has 4, the other 3
delayed="precision.recipe=delayed precision.history=4 precision.fp4_layers=2"
ranks 2 train "$work/deck.cfg" $delayed checkpoint.every=6 output.folder="$work/delayed"
ranks 2 train "$work/deck.cfg" $delayed output.folder="$work/delayedb" train.steps=7
ranks 2 train "$work/deck.cfg" $delayed output.folder="$work/delayedb"
check "it does not start again" test "$(grep -c "delayed scaling" "$work/out")" -eq 1 # what is quantized
losses "$work/delayed" >"$work/delayed.losses"
losses "$work/delayedb" >"$work/delayedb.losses"
check "delayed scaling restarts bit for bit" cmp "$work/delayed.losses" "$work/delayedb.losses"
check "and with the same digest" test "$(digest "$work/delayed" 12)" = "$(digest "$work/delayedb" 12)"
check "delayed scaling is near fp32" close_losses "$work/delayed.losses" "$work/first.losses" 3e-2
check "and is another run" test "$(cmp "$work/delayed.losses" "$work/first.losses" 2>&1)"
half="$work/delayed/step_00000006.h5"
"$CISTRON" inspect "$half" >"$work/out" 2>&1
check "inspect counts its numbers" says "state/precision tensors 3 elements"
for to in none block "delayed precision.history=5"; do
    "$CISTRON" train "$work/deck.cfg" precision.recipe=$to train.resume="$half" train.steps=7 \
        output.folder="$work/to" >"$work/out" 2>&1
    check "from delayed to $to: ends with 0" test $? -eq 0
    check "what was is said" says "$half was written with precision.recipe = \"delayed\", precision.history = 4"
    check "what is is said" says "this run has precision.recipe = \"${to% *}\""
    rm -r "$work/to"
done
check "histories of another length" says "delayed scaling starts again"
"$CISTRON" train "$work/deck.cfg" $delayed train.resume="$work/first/step_00000008.h5" train.steps=9 \
    output.folder="$work/to" >"$work/out" 2>&1
check "from none to delayed: is said" says "delayed scaling starts again: $work/first/step_00000008.h5 was written with precision.recipe = \"none\"; this run has precision.recipe = \"delayed\""
check "and goes on" test -f "$work/to/final_model.h5"
"$CISTRON" export --checkpoint "$work/delayed/step_00000012.h5" -o "$work/hf_step" >"$work/out" 2>&1
"$CISTRON" export --checkpoint "$work/delayed/final_model.h5" -o "$work/hf_final" >"$work/out" 2>&1
check "exported are the weights alone" diff -r "$work/hf_step" "$work/hf_final"

# keep-last-n
ranks 2 train "$work/deck.cfg" checkpoint.every=1 checkpoint.keep=2 output.folder="$work/keep"
check "two checkpoints are kept" test "$(ls "$work/keep" | grep -c '^step_.*h5$')" -eq 2
check "the newest two" test -f "$work/keep/step_00000011.h5" -a -f "$work/keep/step_00000012.h5"
check "with their side files alone" test "$(ls "$work/keep" | grep -c 'xxh3$')" -eq 3

# what others read
"$CISTRON" inspect "$work/first" >"$work/out" 2>&1
check "inspect a run folder" says "model.layers.1.mlp.down_proj.weight"
"$CISTRON" inspect "$work/g.train.h5" >"$work/out" 2>&1
check "inspect a store" says "nucleotide"
if /usr/bin/python3 -c 'import h5py' 2>/dev/null; then
    check "h5py reads a checkpoint" /usr/bin/python3 "$abs_top_srcdir/tests/interop/read_checkpoint.py" \
        "$work/first/step_00000012.h5" >/dev/null
    check "h5py reads the final model" /usr/bin/python3 "$abs_top_srcdir/tests/interop/read_checkpoint.py" --final \
        "$work/first/final_model.h5" >/dev/null
fi
finish
