#!/bin/bash
# Quantization errors in log.jsonl are the same on one rank and two, once for each step over a restart, and do not
# change the run; TensorBoard and the report show them. Injected faults: forgotten ranks, an unmeasured first step, an
# end one step early.
. "$abs_top_srcdir/tests/lib.sh"
cat >"$work/deck.cfg" <<END
model = { layers = 2; hidden = 32; ffn = 64; heads = 4; };
data = { source = "random"; random_median = 40; random_mean = 70; row_tokens = 64; };
train = { steps = 8; global_batch = 4; micro_batch = 1; };
schedule = { warmup = 3; decay = 20; };
precision = { recipe = "delayed"; };
log = { every = 1; };
checkpoint = { every = 4; };
device = { threads = 1; };
output = { folder = "$work/run"; };
END

# measured FOLDER: the lines, but for the time
measured()
{
    sed -n '/"event":"statistics"/s/,"time".*//p' "$work/$1/log.jsonl"
}

# operand FOLDER STEP LAYER LINEAR OPERAND VALUE
operand()
{
    measured "$1" | sed -n 's/.*"step":'"$2"',.*{"layer":'"$3"',"linear":"'"$4"'","operand":"'"$5"'"\([^}]*\).*/\1/p' |
        sed 's/.*"'"$6"'":\([^,]*\).*/\1/'
}

above_zero()
{
    awk -v value="$1" 'BEGIN { exit !(value + 0 > 0) }'
}

steps_of()
{
    measured "$1" | sed 's/.*"step":\([0-9]*\),.*/\1/' | tr '\n' ' '
}

for count in 1 2; do
    ranks $count train "$work/deck.cfg" output.folder="$work/$count" statistics.every=3
    check "$count ranks: a run ends with 0" codes_are 0 $count
    check "$count ranks: the first step and every third are measured" test "$(steps_of $count)" = "1 3 6 "
done
check "2 layers of 4 linears of 3 operands" test "$(measured 1 | head -n 1 | grep -o '"operand"' | wc -l)" -eq 24
check "two ranks find at the first step what one finds" test "$(measured 1 | head -n 1)" = "$(measured 2 | head -n 1)"
check "no step has made a scale before the first" test "$(operand 2 1 2 down weight scale)" = 1
check "nor a smaller one" test "$(operand 2 1 2 down weight least_scale)" = 1
check "so gradients underflow" above_zero "$(operand 2 1 1 up gradient underflow)"
check "which scales put right" test "$(operand 2 3 1 up gradient underflow)" = 0
check "scales: one for each micro-batch" test "$(operand 2 3 1 qkv gradient scales)" = 4

# Gradients are those of the mean loss: each row is the same sequence of 40 bases, which has 40 labels. Twice the rows
# halve each token's gradient, and the scale of the first step, 1 in the engine, is 1 / labels.
printf '>same\nACGTTGCAACCGGTTAACGTATGCCATGGATCCTTAGACG\n' >"$work/same.fa"
"$CISTRON" prepare --tokenizer nucleotide -o "$work/same.h5" "$work/same.fa" >/dev/null || exit 1
for rows in 2 4; do
    ranks 2 train "$work/deck.cfg" data.source=store data.train="$work/same.h5" data.format=padded train.steps=1 \
        train.global_batch=$rows output.folder="$work/rows$rows" statistics.every=1
    check "$rows rows: trained" codes_are 0 2
    for value in scale least_scale; do
        check "$rows rows: $value of a gradient" awk -v is="$(operand rows$rows 1 1 qkv gradient $value)" \
            -v labels=$((40 * rows)) 'BEGIN { exit !(is * labels > 0.99999 && is * labels < 1.00001) }'
    done
    check "$rows rows: the scale of an input is its own" test "$(operand rows$rows 1 1 qkv input scale)" = 1
done
for linear in qkv o up down; do
    check "$linear: a gradient's amax with twice the labels is half" awk \
        -v few="$(operand rows2 1 2 $linear gradient amax)" -v many="$(operand rows4 1 2 $linear gradient amax)" \
        'BEGIN { exit !(few > 0 && few / many > 1.9999 && few / many < 2.0001) }'
    check "$linear: an input's amax is the same" test "$(operand rows2 1 2 $linear input amax)" = \
        "$(operand rows4 1 2 $linear input amax)"
done

# nothing is changed by it
ranks 2 train "$work/deck.cfg" output.folder="$work/none"
check "without: nothing is measured" test -z "$(measured none)"
check "without: the same losses" cmp <(losses "$work/none") <(losses "$work/2")
check "without: the same state" test "$(digest "$work/none" 8)" = "$(digest "$work/2" 8)"

# a program that was killed behind its last checkpoint has left a line that the next one makes again
measured 2 >"$work/before"
rm "$work"/2/step_00000008.h5* "$work"/2/final_model.h5*
ranks 2 train "$work/deck.cfg" output.folder="$work/2" statistics.every=3
check "a restart goes on" says "at step 4"
measured 2 >"$work/after"
check "a restart: each step once, as it was" cmp "$work/before" "$work/after"

check "TensorBoard has it" grep -qa "quantization/layer 2/down/gradient/underflow" "$work"/1/tensorboard/events.*
"$CISTRON" report "$work/1" >"$work/out" 2>&1
check "the report says how much underflows" says "gradient underflow"
check "the report has maps" grep -q "share of gradients that underflow" "$work/1/report.html"
"$CISTRON" report "$work/none" >"$work/out" 2>&1
check "the report of a run without has none" test "$(grep -c underflow "$work/out" "$work/none/report.html" | tr '\n' ' ')" = \
    "$work/out:0 $work/none/report.html:0 "

ranks 1 train "$work/deck.cfg" output.folder="$work/some" statistics.every=2 statistics.layers=2 statistics.start=3 \
    statistics.stop=6
check "from step 3 to 6: the fourth and the sixth" test "$(steps_of some)" = "4 6 "
check "layer 2 alone" test "$(measured some | grep -o '"layer":[0-9]' | sort -u)" = '"layer":2'

refused "nothing is quantized" "nothing is quantized, so there is nothing to measure" train "$work/deck.cfg" \
    output.folder="$work/refused" precision.recipe=none statistics.every=10
refused "an end before the start" "key statistics.stop: 2 is before statistics.start = 3" train "$work/deck.cfg" \
    output.folder="$work/refused" statistics.every=1 statistics.start=3 statistics.stop=2
finish
