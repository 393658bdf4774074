#!/bin/bash
# kill -9 at random moments of training costs no more than the steps since the last save.
. "$abs_top_srcdir/tests/lib.sh"
needs pkill
small_deck || exit 1
steps=4000
$MPIRUN -n 2 "$CISTRON" train "$work/deck.cfg" train.steps=$steps schedule.decay=4000 checkpoint.every=20 \
    validation.every=0 output.folder="$work/whole" >"$work/out" 2>&1
losses "$work/whole" >"$work/whole.losses"
check "a whole run" test "$(wc -l <"$work/whole.losses")" -eq $steps

# last_saved: the step of the newest checkpoint that has its name
last_saved()
{
    ls "$work/run" 2>/dev/null | sed -n 's/^step_0*\([0-9]*\)\.h5$/\1/p' | sort -n | tail -n 1
}

RANDOM=17
kills=0
while [ "$(last_saved)" != "$steps" ] && [ $kills -lt 40 ]; do
    before=$(last_saved)
    $MPIRUN -n 2 "$CISTRON" train "$work/deck.cfg" train.steps=$steps schedule.decay=4000 checkpoint.every=20 \
        validation.every=0 >"$work/out" 2>&1 &
    launcher=$!
    sleep "0.$((RANDOM % 600 + 300))"
    [ $kills -lt 12 ] || wait $launcher # after a dozen kills it may finish
    pkill -9 -f "$CISTRON train $work/deck.cfg" # mpirun and all ranks at once
    kills=$((kills + 1))
    wait $launcher 2>/dev/null
    after=$(last_saved)
    logged=$(losses "$work/run" 2>/dev/null | tail -n 1 | cut -d ' ' -f 1)
    check "kill $kills: nothing saved is lost" test "${after:-0}" -ge "${before:-0}"
    check "kill $kills: at most the steps since the last save" test $((${logged:-0} - ${after:-0})) -le 20
done
check "there were kills" test $kills -ge 10
losses "$work/run" >"$work/run.losses"
check "after all kills: the losses of the run that never stopped, each step once" cmp "$work/whole.losses" "$work/run.losses"
check "and its digest" test "$(digest "$work/whole" $steps)" = "$(digest "$work/run" $steps)"
check "nothing temporary is left" test "$(ls "$work/run" | grep -c tmp)" -eq 0
finish
