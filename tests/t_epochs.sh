#!/bin/bash
# train.epochs sets train.steps, in a run and in its plan: the schedule ends with it, a restart and other ranks change
# nothing, and more epochs continue a run. Steps that the deck gives too are warned of; data without epochs are refused.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1
keys=(validation.every=0 log.tensorboard=false log.every=1 train.global_batch=32 train.micro_batch=4 schedule.decay=0)
train()
{
    local name=$1 n=$2
    shift 2
    ranks "$n" train "$work/deck.cfg" "${keys[@]}" output.folder="$work/$name" "$@"
}
# planned KEY=VALUE...: the plan's steps of a run, and of an epoch at least
planned()
{
    "$CISTRON" plan --json "$work/deck.cfg" "${keys[@]}" "$@" 2>"$work/plan.err" |
        grep -oE '"(steps|epoch_steps|steps_an_epoch)": [0-9.]+' | tr '\n' ' '
}
steps_of()
{
    losses "$work/$1" | tail -n 1 | cut -d ' ' -f 1
}

train two 2 train.epochs=0.25
check "a quarter of an epoch ends with 0" codes_are 0 2
quarter=$(steps_of two)
check "it says how many steps" says "# train.epochs = 0.25: "
check "in all $quarter steps" says " rows in $quarter steps"
train steps 1 train.steps="$quarter"
check "train.steps instead, on one rank: the same losses" close_losses <(losses "$work/two") <(losses "$work/steps") 1e-6
train whole 1 train.epochs=1
whole=$(sed -n 's/.* rows in \([0-9]*\) steps$/\1/p' "$work/out")
check "an epoch has about four times the steps: $whole" test $((whole - 4 * quarter)) -le 4 -a $((4 * quarter - whole)) -le 4
planned train.epochs=1 >"$work/plan"
check "plan has the same: $(cat "$work/plan")" grep -qE "\"steps\": $whole( |\$)" "$work/plan"

# a restart, and an extension
train restart 1 train.epochs=0.25 checkpoint.every=5 train.steps=5 # too few steps: said, not used
check "given steps are warned of" says "warning: train.steps = 5: train.epochs = 0.25 makes it $quarter"
check "and not used" test "$(steps_of restart)" -eq "$quarter"
train restart 2 train.epochs=0.5 checkpoint.every=5
check "more epochs: ends with 0" codes_are 0 2
half=$(steps_of restart)
check "more epochs continue the run: $half steps" test "$half" -gt "$quarter"
check "the schedule's change is said" says "the learning rate decays until train.steps, which changed from $quarter to $half"

refused "random data" "key train.epochs = 1: random data have no epochs" train "$work/deck.cfg" data.source=random \
    train.epochs=1 output.folder="$work/bad"
refused "a negative number" "key train.epochs = -1" train "$work/deck.cfg" train.epochs=-1 output.folder="$work/bad"
finish
