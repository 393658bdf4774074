#!/bin/bash
# Runs on two stores with weights restart bit for bit on the same ranks and closely on others; log, plan and JSON show
# the epochs of each store. Mistakes in the two keys are reported on every rank.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1
genome 2 500 200 >"$work/h.fa"
"$CISTRON" prepare --tokenizer nucleotide -o "$work/h.h5" "$work/h.fa" >"$work/out" || exit 1
first="$work/g.train.h5"
second="$work/h.h5"
stores="data.train=\"$first, $second\""
weights='data.weights="1,3"'

# train N FOLDER ARGUMENTS...: the deck on both stores, on N ranks
train()
{
    local count=$1 folder=$2
    shift 2
    ranks "$count" train "$work/deck.cfg" "$stores" "$weights" output.folder="$folder" "$@"
}

# the second store's 13 windows are three of four that 12 steps take: epochs of it end on the way, one of them carried
train 2 "$work/whole" checkpoint.every=4
check "a run on two stores ends with 0" codes_are 0 2
cp "$work/out" "$work/log"
losses "$work/whole" >"$work/whole.losses"
check "12 losses" test "$(wc -l <"$work/whole.losses")" -eq 12
"$CISTRON" inspect --json "$work/whole/step_00000012.h5" | tr -d ' \n' >"$work/out"
epochs=$(sed -n 's/.*"stores":\[{"epoch":\([0-9]*\),[^}]*},{"epoch":\([0-9]*\),.*/\1 \2/p' "$work/out")
check "the second store is in its fifth epoch or beyond, the first in its first" \
    test "${epochs% *}" -eq 0 -a "${epochs#* }" -ge 4
sed -n 's/^# \([0-9.]*\) epochs of .*, at most$/\1/p' "$work/log" >"$work/told"
check "the log says so at the start" awk -v "epochs=$epochs" \
    '{ split(epochs, e, " "); good += $1 >= e[NR] && $1 < e[NR] + 1.5 } END { exit good != 2 || NR != 2 }' "$work/told"
check "few epochs are no warning" test "$(grep -c 'the run repeats' "$work/log")" -eq 0
"$CISTRON" plan "$work/deck.cfg" "$stores" "$weights" >"$work/out" 2>&1
check "so does the plan" cmp "$work/told" <(sed -n 's/^ *epochs of a store, at most  *\([0-9.]*\) .*/\1/p' "$work/out")
"$CISTRON" plan --json "$work/deck.cfg" "$stores" "$weights" >"$work/out" 2>&1
check "and its JSON" grep -q '"stores": *\[' "$work/out"
"$CISTRON" plan "$work/deck.cfg" "$stores" "$weights" train.steps=40 >"$work/out" 2>&1
check "many are one" says "warning: data.weights: the run repeats $second 1"
"$CISTRON" plan "$work/deck.cfg" "$stores" train.steps=4000 >"$work/out" 2>&1
check "without weights every store has as many" test "$(grep -c 'repeats\|epochs of a store' "$work/out")" -eq 0
train 2 "$work/parts" train.steps=3
train 2 "$work/parts" train.steps=7
check "it says where it goes on" says "step_00000003.h5 at step 3"
train 2 "$work/parts"
losses "$work/parts" >"$work/parts.losses"
check "restarted: the same losses bit for bit" cmp "$work/whole.losses" "$work/parts.losses"
check "restarted: the same digest" test "$(digest "$work/whole" 12)" = "$(digest "$work/parts" 12)"
for n in 1 3; do
    mkdir "$work/from$n"
    cp "$work/whole"/step_00000004.h5* "$work/from$n"
    train $n "$work/from$n"
    check "from 2 ranks to $n: ends with 0" codes_are 0 $n
    losses "$work/from$n" >"$work/n.losses"
    check "from 2 ranks to $n: the losses go on" close_losses "$work/n.losses" <(tail -n 8 "$work/whole.losses") 1e-6
done

# one store in a list is that store; weights in proportion differ from 1 to 3
ranks 2 train "$work/deck.cfg" output.folder="$work/one" train.steps=3
ranks 2 train "$work/deck.cfg" data.weights=5 output.folder="$work/weighted" train.steps=3
check "one store, one weight: the same losses" cmp <(losses "$work/one") <(losses "$work/weighted")
train 2 "$work/plain" 'data.weights=""' train.steps=3
check "no weights: a run" codes_are 0 2
check "no weights: other losses" test "$(cmp <(losses "$work/plain") <(head -n 3 "$work/whole.losses") 2>&1)"

# stores with a comma in their path: in a list of the deck, and behind a backslash
mkdir "$work/a,b"
cp "$second" "$work/a,b/h,1.h5"
sed "s|train = \"[^\"]*\";|train = (\"$first\", \"$work/a,b/h,1.h5\");|" "$work/deck.cfg" >"$work/comma.cfg"
ranks 2 train "$work/comma.cfg" "$weights" output.folder="$work/list" train.steps=3
check "a comma in a path of a list" cmp <(losses "$work/list") <(head -n 3 "$work/whole.losses")
ranks 2 train "$work/deck.cfg" "data.train=$first, $work/a\\,b/h\\,?.h5" "$weights" output.folder="$work/comma" train.steps=3
check "a comma in a path, in a pattern too" cmp <(losses "$work/comma") <(head -n 3 "$work/whole.losses")

# a warm-up that does not end; steps or samples
"$CISTRON" plan "$work/deck.cfg" >"$work/out" 2>&1
check "a warm-up within the run" test "$(grep -c 'schedule.warmup' "$work/out")" -eq 0
"$CISTRON" plan "$work/deck.cfg" schedule.warmup=12 >"$work/out" 2>&1
check "one as long as the run" says "warning: schedule.warmup = 12 steps: the run (train.steps = 12) ends within the warm-up"
"$CISTRON" plan "$work/deck.cfg" schedule.unit=samples schedule.warmup=83 >"$work/out" 2>&1
check "one counted in samples, within it" test "$(grep -c 'schedule.warmup' "$work/out")" -eq 0
"$CISTRON" plan "$work/deck.cfg" schedule.unit=samples schedule.warmup=84 >"$work/out" 2>&1
check "and as long" says "warning: schedule.warmup = 84 samples"
ranks 2 train "$work/deck.cfg" schedule.warmup=500 output.folder="$work/warm" train.steps=2
check "a run says it once" test "$(grep -c 'schedule.warmup = 500 steps' "$work/out")" -eq 1

# mistakes; t_restart has what a restart may change
for mistake in 'data.weights="1"|1 weights for the 2 stores' "data.train=\"$first,$work/no.h5\"|no.h5: cannot open"; do
    train 2 "$work/none" "${mistake%%|*}"
    check "${mistake%%|*}: code 2" codes_are 2 2
    check "${mistake%%|*}: a clear line" says "${mistake#*|}"
done
finish
