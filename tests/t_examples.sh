#!/bin/bash
# The programs of examples/ run and print what their comments say, on the ranks that they are for, and none has more than
# 100 lines. read_checkpoint.py needs h5py, and is left out where Python lacks it.
. "$abs_top_srcdir/tests/lib.sh"
examples=$abs_top_builddir/examples

# run NAME: its output in $work/out.
run()
{
    "$examples/$1" >"$work/out" 2>&1
    check "$1 ends with 0" test $? -eq 0
}

for file in "$abs_top_srcdir"/examples/*.c "$abs_top_srcdir"/examples/*.py; do
    name=$(basename "$file")
    check "$name has at most 100 lines" test "$(wc -l <"$file")" -le 100
    check "$name is in examples/README" grep -qF "    $name " "$abs_top_srcdir/examples/README"
done

run op
check "op: twice x weight^T + bias" test "$(sed -n 2,3p "$work/out" | paste -sd,)" = "22 50,28 62"
check "op: the mistake" says "mistake: b has 2 rows, not K = 3"

run plan_unit
check "plan_unit: attention's flops, two causal products of 8192 x 8192 x 4096" says "attention_forward      549.8 Gflop"
check "plan_unit: all launches" says "forward of block.0: 9 launches, 4.1 Tflop"

run training_step
loss=$(sed -n 's/^step 40  loss \([^ ]*\) .*/\1/p' "$work/out")
check "training_step: starts at the loss of a guess" grep -q '^step  1  loss [23]\.' "$work/out"
check "training_step: learns" awk -v loss="$loss" 'BEGIN { exit !(loss != "" && loss < 0.1) }'

for count in 1 2 4; do
    timeout 60 $MPIRUN -n $count "$examples/two_ranks" >"$work/out" 2>&1
    check "two_ranks on $count" test $? -eq 0
    check "two_ranks on $count: one rank's result" says "$count ranks, $((64 / count)) inputs each: 0 elements differ"
done
timeout 60 $MPIRUN -n 3 "$examples/two_ranks" >"$work/out" 2>&1
check "two_ranks on 3" test $? -ne 0
check "two_ranks on 3 says why" says "64 inputs do not divide over 3 ranks"

python=$(transformers_python)
if ! "$python" -c 'import h5py' 2>"$work/out"; then
    echo "left out: read_checkpoint.py (this Python has no h5py)"
    finish
fi
cat >"$work/random.cfg" <<END
model = { layers = 2; hidden = 32; ffn = 64; heads = 4; vocabulary = 40; };
data = { source = "random"; random_median = 40; random_mean = 70; row_tokens = 64; };
train = { steps = 2; global_batch = 2; };
device = { threads = 1; };
output = { folder = "$work/run"; };
END
"$CISTRON" train "$work/random.cfg" >"$work/out" 2>&1
check "a checkpoint is written" test $? -eq 0
for file in step_00000002 final_model; do
    "$python" "$abs_top_srcdir/examples/read_checkpoint.py" "$work/run/$file.h5" >"$work/out" 2>&1
    check "read_checkpoint.py $file" test $? -eq 0
    check "$file: its step" says "step 2 of a training on 256 tokens by 1 ranks"
    check "$file: a tensor" grep -qE '^model.layers.1.mlp.gate_proj.weight +\(64, 32\) +rms 0\.[0-9]+' "$work/out"
    check "$file: all parameters" says "23200 parameters"
done
finish
