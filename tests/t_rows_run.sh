#!/bin/bash
# Whole runs of ranks that share rows, state or stages (parallel.*) have one rank's losses in training and validation.
# Killed or stopped by walltime, they resume bit for bit, and in another layout closely. Injected faults: other rows, a
# rank that does not move to a position.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1
settings=(data.row_tokens=192 train.micro_batch=1 checkpoint.every=3 checkpoint.keep=1000000)
endless=(train.steps=1000000 validation.every=0)

# validations FOLDER: "step loss" of each validation
validations()
{
    sed -n 's/.*"event":"validation","step":\([0-9]*\),"loss":\([^,]*\),.*/\1 \2/p' "$1/log.jsonl"
}

# agrees TEXT FOLDER: a run of 12 steps with that of one rank
agrees()
{
    check "$1: 12 losses" test "$(losses "$2" | wc -l)" -eq 12
    check "$1: one rank's losses" close_losses <(losses "$2") <(losses "$work/one") 1e-6
    check "$1: one rank's validation" close_losses <(validations "$2") <(validations "$work/one") 1e-6
}

# train FOLDER RANKS KEYS...
train()
{
    local folder=$1 count=$2
    shift 2
    ranks "$count" train "$work/deck.cfg" "${settings[@]}" output.folder="$folder" "$@"
}

# kept_6 FOLDER: as if it had been stopped after step 6
kept_6()
{
    find "$1" -name '*.h5*' ! -name 'step_00000006.h5*' -delete
    test -e "$1/step_00000006.h5"
}

# goes_on NAME RANKS KEYS...: from step 6, to what the run NAME was at step 12
goes_on()
{
    local name=$1
    check "$name: step 6 was saved" kept_6 "$work/stopped"
    shift
    train "$work/stopped" "$@"
    check "$name: goes on" says "at step 6"
    check "$name: the same losses" cmp <(losses "$work/stopped") <(losses "$work/$name")
    check "$name: the same validation" cmp <(validations "$work/stopped") <(validations "$work/$name")
    check "$name: the same digest" test "$(digest "$work/stopped" 12)" = "$(digest "$work/$name" 12)"
    rm -r "$work/stopped"
}

train "$work/one" 1
check "one rank ends with 0" codes_are 0 1

gather=(4 parallel.context=2 parallel.context_method=gather parallel.shard=full)
heads=(4 parallel.context=2 parallel.context_method=heads parallel.shard=optimizer parallel.shard_size=2)
pipeline=(4 parallel.pipeline=2 parallel.shard=optimizer)
ring=(3 parallel.context=3 parallel.context_method=ring parallel.shard=gradients)

train "$work/gather" "${gather[@]}"
agrees "gather" "$work/gather"
# shellcheck disable=SC2016
timeout 60 $MPIRUN -n 4 sh -c 'if [ "$OMPI_COMM_WORLD_RANK" = 1 ]; then
        (until [ -e "$0/step_00000006.h5" ]; do sleep 0.02; done; kill -9 $$) &
    fi
    exec "$CISTRON" train "$@"' "$work/stopped" "$work/deck.cfg" "${settings[@]}" "${endless[@]}" \
    "${gather[@]:1}" output.folder="$work/stopped" >"$work/out" 2>&1
check "gather: a rank was killed" says "signal 9"
goes_on gather "${gather[@]}"

train "$work/ring" "${ring[@]}"
agrees "ring" "$work/ring"
cp -r "$work/ring" "$work/stopped"
check "ring: step 6" kept_6 "$work/stopped"
train "$work/stopped" "${ring[@]}" "${endless[@]}" train.walltime=00:00:02
check "ring: out of time" codes_are 85 3
goes_on ring "${ring[@]}"

train "$work/pipeline" "${pipeline[@]}"
agrees "pipeline" "$work/pipeline"
cp -r "$work/pipeline" "$work/stopped"
goes_on pipeline "${pipeline[@]}"

# what one layout has written, any other reads: as it is written again it has the same digest
for layout in "1 none" "3 optimizer" "2 none parallel.pipeline=2" "2 gradients" "4 full"; do
    read -r count shard more <<<"$layout"
    # shellcheck disable=SC2086
    train "$work/read" "$count" train.resume="$work/gather/step_00000006.h5" train.steps=6 parallel.shard="$shard" $more
    check "$layout: the state of gather" test "$(digest "$work/read" 6)" = "$(digest "$work/gather" 6)" -a -n "$(digest "$work/read" 6)"
    rm -r "$work/read"
done
check "the layout is told" says "# layout: 4 ranks = 1 replica x 4 shards (full), context 1"

# from one layout to another
cp -r "$work/gather" "$work/moved"
check "gather: step 6" kept_6 "$work/moved"
train "$work/moved" "${heads[@]}"
agrees "from gather to heads" "$work/moved"
finish
