#!/bin/bash
# `cistron plan` shows the figures of the run that follows, starts no MPI and leaves no file. A deck that does not fit
# gets advice that fits; parallel.shard = "auto" and memory.recompute = "fit" choose by the memory. ESM-2's and
# AMPLIFY's decks have the published numbers of parameters.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1
rm -f "$work"/*.windows-*

# plan ARGUMENTS...: output in $work/out, exit code in $code. A plan that takes 60 seconds of a core ends with another
# code; seconds of the clock would depend on what else runs.
plan()
{
    (ulimit -t 60 && exec timeout 600 "$CISTRON" plan "$@") >"$work/out" 2>&1
    code=$?
}

# value NAME: the number of the plan's line NAME.
value()
{
    sed -n "s/^  $1  *\([0-9.e+]*\)\$/\1/p" "$work/plan"
}

# the plan of a deck against the run of it, 2 ranks
categories="weights gradients optimizer exchange activations transient batch workspace margin"
for settings in "" "precision.recipe=delayed precision.history=512 precision.compute=bf16" "precision.compute=bf16 memory.recompute=full train.micro_batch=1" \
    "model.tied=yes memory.recompute=none memory.offload_layers=1-2 memory.head_tokens=20 data.train=$work/g.train.h5,$work/g.valid.h5"; do
    # shellcheck disable=SC2086
    plan "$work/deck.cfg" --ranks 2 $settings device.memory=1
    check "plan $settings: exit code 0" test $code -eq 0
    check "no file of windows is left" test -z "$(ls "$work"/*.windows-* 2>/dev/null)"
    cp "$work/out" "$work/plan"
    # shellcheck disable=SC2086
    ranks 2 train "$work/deck.cfg" $settings train.steps=1 output.folder="$work/p"
    check "train $settings" codes_are 0 2
    for category in $categories; do
        run=$(sed -n "s/^#   $category  *\([0-9.]*\)\$/\1/p" "$work/out")
        check "$category: the run's $run MiB, planned $(value $category)" test "$(value $category)" = "$run" -a -n "$run"
    done
    check "offloaded, on the host" test "$(value 'offloaded, on host')" = "$(sed -n 's/^#   host  *//p' "$work/out")"
    check "snapshot, on the host" \
        test "$(value 'snapshot, on host')" = "$(sed -n 's/^#   snapshot  *\([0-9.]*\) .*/\1/p' "$work/out")"
    check "parameters" says " of $(value parameters) parameters,"
    check "windows and tokens of an epoch" says "# $(value 'windows an epoch') windows and $(value 'tokens an epoch') tokens an epoch"
    check "micro-batches" says "in $(value 'micro-batches of a rank') micro-batch"
    for file in step_00000001:checkpoint final_model:"final model"; do
        bytes=$(stat -c %s "$work/p/${file%%:*}.h5")
        check "${file#*:}: $bytes bytes, at most 64 KiB of them for HDF5" \
            awk -v b="$bytes" -v m="$(value "${file#*:}")" 'BEGIN { t = m * 1048576; exit !(t > 0 && b > t - 60000 && b < t + 65536) }'
    done
    rm -rf "$work/p" "$work"/*.windows-*
done
check "something was offloaded" test -n "$(value 'offloaded, on host')"

# checkpoints that stay, counted after the run
for settings in "checkpoint.every=1 checkpoint.keep=3" "checkpoint.every=5 checkpoint.keep=100 checkpoint.every_minutes=0"; do
    # shellcheck disable=SC2086
    plan "$work/deck.cfg" $settings
    cp "$work/out" "$work/plan"
    # shellcheck disable=SC2086
    ranks 1 train "$work/deck.cfg" $settings output.folder="$work/files"
    check "$settings: checkpoints that stay" \
        test "$(value 'checkpoints that stay, most')" = "$(ls "$work/files" | grep -c '^step_.*h5$')"
    rm -r "$work/files"
done

# nothing of MPI is opened
strace -f -e trace=openat -o "$work/trace" "$CISTRON" plan "$work/deck.cfg" >"$work/out" 2>&1
[ -s "$work/trace" ] && check "no MPI component" test "$(grep -c 'mca_\(btl\|pml\)' "$work/trace")" -eq 0

# without data: published models, each within seconds
printf 'data = { row_tokens = 8192; };\ntrain = { global_batch = 64; micro_batch = 1; };\n' >"$work/big.cfg"
for preset in llama32_1b og2_7b llama31_8b llama31_70b llama31_405b_8 llama31_405b; do
    seconds=$SECONDS
    plan "$work/big.cfg" model.preset=$preset device.memory=100000 --ranks 64
    check "$preset: exit code 0" test $code -eq 0
    check "$preset: what is not known" says "data.train is not set"
    check "$preset: within 10 s" test $((SECONDS - seconds)) -le 10
done
# the benchmark of Llama 3.1 and Megatron's example: each published run fits GPUs of 80 GB
if command -v python3 >/dev/null; then
    "$abs_top_srcdir/bench/nemo/plan" "$CISTRON" --only 8b >"$work/out" 2>&1
    check "the benchmark's runs fit" test $? -eq 0
    check "all of them" test "$(grep -cE '^8b +(bf16|fp8) .* gather [0-9.]+' "$work/out")" -eq 10
fi
for deck in llama3_8b_megatron_fp8:8 llama3_8b_megatron_fp8_cp2:8 llama31_70b_nemo:64 llama31_70b_nemo_fp8:64 \
    llama31_405b_nemo:512 llama31_405b_nemo_fp8:512; do
    plan "$abs_top_srcdir/input/${deck%:*}.cfg" --ranks ${deck#*:} device.memory=79
    check "$deck: exit code 0" test $code -eq 0
done
# planning takes time in proportion to the layers: 14 s of a core for these; with a search of all for each, a minute more
plan "$work/big.cfg" data.source=random model.layers=6000 model.hidden=64 model.ffn=64 model.heads=2 model.vocabulary=256 \
    data.row_tokens=64 --ranks 2
check "6000 layers: exit code 0" test $code -eq 0
plan "$abs_top_srcdir/input/og2_7b_thd_gqa.cfg" device.memory=1000 device.peak=989 --ranks 48
check "OpenGenome2: the recipe's FLOPs of a step" says "1.6215e+17"
check "OpenGenome2: its 1 / 48 at 989 TFLOP/s, causal" says "3.202"
check "OpenGenome2: 4 micro-batches" grep -qE 'micro-batches of a rank +4$' "$work/out"
check "OpenGenome2: its store" says "og2.train.h5 does not exist"
for deck in quickstart:820352 esm2_tiny_proteins:814369 esm2_l0_sanity:7512353 esm2_l0_sanity_cp:7512353 llama3_l0_sanity_cp:4818816 esm2_650m:651042593 esm2_3b:2839004193 esm2_15b:15129098273 og2_7b_long:6981685248 amplify_120m:118276507 \
    qwen25_0_5b:494032768 qwen3_0_6b:596049920 mistral_7b:7241732096 olmo2_1b:1484916736 esmc_300m:332997184 ntv2_50m:54855179 \
    amplify_350m:354008667; do
    plan "$abs_top_srcdir/input/${deck%:*}.cfg" device.memory=1000 --ranks 16
    check "${deck%:*}: it can be planned" test $code -eq 0
    check "${deck%:*}: its parameters" grep -qE "^  parameters +${deck#*:}\$" "$work/out"
done
plan "$work/big.cfg" model.preset=og2_7b device.memory=1000 --ranks 100
check "more ranks than rows: idle ones are counted" grep -qE 'ranks without any row +36$' "$work/out"

# a deck that does not fit; what it says is done, and fits
plan "$work/deck.cfg" train.micro_batch=64 device.memory=0.004
check "too large: exit code 2" test $code -eq 2
check "too large: the key" says "key device.memory: a rank needs"
advice=$(sed -n 's/.*; with \(.*\) it needs .*/\1/p' "$work/out" | sed 's/ and /\n/g; s/ = /=/g; s/"//g')
check "there is advice" test -n "$advice"
# shellcheck disable=SC2086
plan "$work/deck.cfg" train.micro_batch=64 device.memory=0.004 $advice
check "as advised ($(echo $advice)): it fits" test $code -eq 0
quantized="precision.recipe=block model.hidden=256 model.ffn=512"
# shellcheck disable=SC2086
plan "$work/deck.cfg" $quantized device.memory=100
need=$(awk '/^  total / { print $2 }' "$work/out")
# shellcheck disable=SC2086
plan "$work/deck.cfg" $quantized device.memory="$(awk "BEGIN { print ($need - 1) / 1024 }")"
check "copies of weights need not be kept" says 'with precision.weight_copies = "made" it needs'
plan "$work/deck.cfg" device.memory=0.00001
check "nothing helps: exit code 2" test $code -eq 2
check "nothing helps: the floor" says "weights, gradients and moments alone take"
ranks 2 train "$work/deck.cfg" train.micro_batch=64 device.memory=0.004 output.folder="$work/none"
check "train refuses: exit code 2" codes_are 2 2
check "train refuses: with the advice" says "$(echo "$advice" | head -n 1 | sed 's/=.*//')"
check "train refuses: once" test "$(grep -c 'device.memory' "$work/out")" -eq 1
check "train refuses: before anything is written" test ! -e "$work/none/log.jsonl"
# shellcheck disable=SC2086
ranks 2 train "$work/deck.cfg" train.micro_batch=64 device.memory=0.004 $advice output.folder="$work/some" train.steps=2
check "train as advised" codes_are 0 2

# memory.recompute = "fit": the more memory, the less is made again; it fits, and the run does as planned
fit="memory.recompute=fit model.layers=5 train.micro_batch=8"
# need_of SETTINGS...: MiB that a rank needs
need_of()
{
    # shellcheck disable=SC2086
    plan "$work/deck.cfg" $fit device.memory=1 "$@"
    awk '/^  total / { print $2 }' "$work/out"
}
least=$(need_of memory.recompute=full) most=$(need_of memory.recompute=none)
tables=""
for share in 0 0.15 0.3 0.45 0.6 0.75 0.9 1; do
    limit=$(awk "BEGIN { print ($least + $share * ($most - $least) + 0.06) / 1024 }")
    # shellcheck disable=SC2086
    plan "$work/deck.cfg" $fit device.memory="$limit"
    check "fit in $limit GiB: exit code 0" test $code -eq 0
    check "fit in $limit GiB: it is said" says ": it fits"
    tables+="$(sed -n 's/^  recompute policies, layers  *//p' "$work/out") "
done
check "fit: from full to none ($tables)" grep -qE '^full:.* none:1-5 $' <<<"$tables"
check "fit: each is another" test "$(tr ' ' '\n' <<<"$tables" | sort -u | grep -c .)" -ge 7
limit=$(awk "BEGIN { print ($least + 0.3 * ($most - $least)) / 1024 }")
# fitted: what the run says that each layer makes again.
fitted()
{
    sed -n 's/^# memory.recompute = "fit": //p' "$work/out"
}
# shellcheck disable=SC2086
plan "$work/deck.cfg" $fit device.memory="$limit" --ranks 2
table=$(sed -n 's/^  recompute policies, layers  *//p' "$work/out") total=$(awk '/^  transient / { print $2 }' "$work/out")
run="train $work/deck.cfg $fit checkpoint.every=1 output.folder=$work/fit"
# shellcheck disable=SC2086
ranks 2 $run device.memory="$limit" train.steps=1
check "fit: the run has what is planned, $table" test "$(fitted)" = "$table" -a -n "$table"
check "fit: and its memory" test "$(sed -n 's/^#   transient  *//p' "$work/out")" = "$total"
check "fit: the run's deck says it" grep -qF "fitted_layers = \"$table\";" "$work/fit/deck.cfg"
# shellcheck disable=SC2086
ranks 2 $run device.memory=1 train.steps=2
check "fit: the same again where it fits" test "$(fitted)" = "$table"
check "fit: no key has changed by it" test "$(grep -c memory.recompute "$work/out")" -eq 1
ranks 2 train --from "$work/fit" device.memory=1 train.steps=3
check "fit: also from the run's folder" test "$(fitted)" = "$table"
# shellcheck disable=SC2086
ranks 2 $run memory.recompute=none output.folder="$work/unfitted" train.steps=3
check "fit: the same numbers as a run without it that never stopped" \
    test "$(digest "$work/fit" 3)" = "$(digest "$work/unfitted" 3)" -a -n "$(digest "$work/fit" 3)"
own="memory.recompute=none memory.recompute_layers=full:2,qkv:3"
# shellcheck disable=SC2086
ranks 2 train --from "$work/unfitted" $own train.steps=4
ranks 2 train --from "$work/unfitted" train.steps=5
check "a list of one's own stays at a restart" grep -qF ' recompute_layers = "full:2,qkv:3";' "$work/unfitted/deck.cfg"
# shellcheck disable=SC2086
ranks 1 $run device.memory=1 train.steps=4
check "fit: again on other ranks" test "$(fitted)" = none:1-5
# shellcheck disable=SC2086
plan "$work/deck.cfg" $fit device.memory="$limit"
alone=$(sed -n 's/^  recompute policies, layers  *//p' "$work/out")
# shellcheck disable=SC2086
ranks 1 $run device.memory="$limit" train.steps=5
check "fit: again where it does not fit, $alone" test "$(fitted)" = "$alone" -a "$alone" != none:1-5
rm -r "$work/fit" "$work/unfitted"

# the head's slices
chunks="memory.head_tokens=0 device.memory=1"
# shellcheck disable=SC2086
plan "$work/deck.cfg" $chunks --ranks 2
tokens=$(sed -n "s/^  tokens of a head slice  *//p" "$work/out") total=$(awk '/^  transient / { print $2 }' "$work/out")
for step in 1 2; do
    # shellcheck disable=SC2086
    ranks 2 train "$work/deck.cfg" $chunks checkpoint.every=1 output.folder="$work/chunks" train.steps=$step
    check "chunks, step $step: as planned, $tokens tokens" \
        test "$(sed -n 's/^# memory.head_tokens = 0: //p' "$work/out")" = "$tokens" -a "${tokens:-0}" -gt 0
    check "chunks, step $step: and the memory" test "$(sed -n 's/^#   transient  *//p' "$work/out")" = "$total"
done
check "chunks: the run's deck says it" grep -qF "fitted_head_tokens = $tokens;" "$work/chunks/deck.cfg"
rm -r "$work/chunks"

# layouts: what is chosen fits; where the state does not fit, ranks that share it are advised
plan "$work/deck.cfg" --ranks 8 parallel.shard=full parallel.shard_size=2 parallel.context=2
check "the layout" says "8 ranks = 4 replicas x 2 shards (full), context 2"
check "what each group moves" test "$(grep -c '  group \(gather\|reduce\|replicas\|context\|data\), ' "$work/out")" -eq 5
wide="model.hidden=256 model.ffn=512 model.layers=8"
# shellcheck disable=SC2086
plan "$work/deck.cfg" --ranks 4 $wide parallel.shard=auto device.memory=1
cp "$work/out" "$work/table"
check "auto, room for all" grep -qE '^  optimizer .* chosen$' "$work/table"
check "auto: every level, in one group and in two" test "$(sed -n '/^layouts/,/^memory/p' "$work/table" | grep -c '^  ')" -eq 7
# shellcheck disable=SC2086
plan "$work/deck.cfg" --ranks 4 $wide parallel.shard=auto device.memory=1 parallel.reduce=step
check "auto: a key that is not for what is chosen" grep -qE '^  optimizer .* chosen$' "$work/out"
# needs NAME: GiB of a rank by the table of layouts
needs()
{
    sed -n "/^layouts/,/^memory/s/^  $1  *\([0-9.]*\) .*/\1/p" "$work/table" | awk '{ printf "%.6f", $1 / 1024 + 0.0002 }'
}
for name in gradients "gradients of 2" full "full of 2"; do
    memory=$(needs "$name")
    # shellcheck disable=SC2086
    plan "$work/deck.cfg" --ranks 4 $wide parallel.shard=auto device.memory="$memory"
    check "auto, room for $name: it fits" test $code -eq 0
    check "auto, room for $name: what needs more is too large" \
        awk -v m="$memory" '/^layouts/ { on = 1; next } /^memory/ { on = 0 }
            on { need = $0; sub(/^ *[a-z]+( of [0-9]+)? */, "", need); split(need, n, " ")
                 if ((n[1] / 1024 > m) != /too large/) bad = 1 } END { exit bad }' "$work/out"
done
memory=$(needs full)
# shellcheck disable=SC2086
plan "$work/deck.cfg" --ranks 4 $wide parallel.shard=auto device.memory="$memory"
check "auto, room for full alone" grep -qE '^  full .* chosen$' "$work/out"
plan "$work/deck.cfg" --ranks 4 $wide parallel.shard=auto device.memory=1 --ranks-per-node 2
check "auto: ranks of a node" grep -qE '^  ranks of a node +2$' "$work/out"
# shellcheck disable=SC2086
plan "$work/deck.cfg" --ranks 4 $wide device.memory="$memory"
check "too large for one rank: advice" says 'with parallel.shard = "full" it needs'
check "too large for one rank: exit code 2" test $code -eq 2

# rates that two ranks measure: a step is told by them, and takes longer by slower ones; what is no file of rates is refused
ranks 2 measure --quick --largest 128 -o "$work/rates.cfg" device.kind=cpu
check "measure on two ranks" codes_are 0 2
check "collectives of two ranks" grep -q '{ ranks = 2.0; bytes = [0-9.]*; rate = ' "$work/rates.cfg"
ranks 2 measure --check --slow 0 --seconds 0.01 device.kind=cpu
check "devices of two ranks are right" codes_are 0 2
check "a check: rates of both" says "check of 2 ranks" "all devices and links are right"
# seconds FILE: of a step, by rates of this file
seconds()
{
    plan "$work/deck.cfg" --ranks 2 device.memory=1 device.rates_file="$1"
    sed -n 's/^  seconds a step  *\([0-9.e-]*\)$/\1/p' "$work/out"
}
sed '/^product/,/^);/s/rate = [0-9.]*/rate = 0.01/' "$work/rates.cfg" >"$work/slow.cfg"
fast=$(seconds "$work/rates.cfg") slow=$(seconds "$work/slow.cfg")
check "a step: $fast s, by slower products $slow s" awk -v f="$fast" -v s="$slow" 'BEGIN { exit !(f > 0 && s > 1.5 * f) }'
processor=$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)
check "the machine is named" says "time by the machine profile of ${processor:-cpu}"
# CPUs that were not measured: no time, and how to measure; an H200's is that of GPUs elsewhere
untimed()
{
    plan "$work/deck.cfg" "$@"
    check "$*: exit code 0" test $code -eq 0
    check "$*: no time of a step" test "$(grep -cE '^time by|^  (seconds a step|tokens/s) ' "$work/out")" -eq 0
    check "$*: how to measure" says "cistron measure -o FILE, and name FILE in device.rates_file"
}
untimed device.kind=cpu device.memory=1
untimed device.kind=cpu device.memory=1 parallel.shard=auto --ranks 2
check "layouts without seconds" grep -qE '^  optimizer .* -( |$)' "$work/out"
sed '/^all_reduce/,/^);/d' "$work/rates.cfg" >"$work/alone.cfg"
untimed device.kind=cpu device.memory=1 device.rates_file="$work/alone.cfg" --ranks 2
plan "$work/deck.cfg" device.kind=cpu device.memory=1 device.rates_file="$work/alone.cfg"
check "one rank needs no rates of collectives" says "time by the machine profile of ${processor:-cpu}"
plan "$work/deck.cfg" device.kind=cpu device.memory=1 parallel.shard=auto --ranks 2 --json
check "JSON: no time either" test "$(grep -c '"time"\|"seconds"' "$work/out")" -eq 0
plan "$work/deck.cfg" device.memory=79
check "GPUs elsewhere" says "time by the machine profile of an H200, not measured"
[ -e /dev/nvidiactl ] || untimed device.kind=auto
ranks 2 train "$work/deck.cfg" device.kind=cpu parallel.shard=auto train.steps=1 output.folder="$work/untimed"
check "a run on CPUs: a layout is chosen" says "# layouts, if a rank may use"
check "a run on CPUs: without seconds" test "$(grep -c ', predicted ' "$work/out")" -eq 0
head -c 700 "$work/rates.cfg" >"$work/cut.cfg"
for file in cut.cfg deck.cfg not_there.cfg; do
    plan "$work/deck.cfg" device.rates_file="$work/$file"
    check "$file is refused" test $code -eq 2
    check "$file is named" says "$work/$file"
done

# the rows of a step lie in the host's memory
ranks 2 train "$work/deck.cfg" train.global_batch=200000000 output.folder="$work/rows"
check "too many rows: exit code 2" codes_are 2 2
check "too many rows: the key is named" says "key train.global_batch = 200000000: the rows of two steps need"
"$CISTRON" plan "$work/deck.cfg" train.global_batch=200000000 >"$work/plan"
check "too many rows: planned" test "$(value 'rows of two steps, on host' | cut -d . -f 1)" -gt 100000

# mistakes
mistake()
{
    local words=$1
    shift
    plan "$@"
    check "plan ${*:2}: exit code 2" test $code -eq 2
    check "plan ${*:2}: is said" says "$words"
}
mistake "--ranks 0" "$work/deck.cfg" --ranks 0
mistake "--ranks two" "$work/deck.cfg" --ranks two
mistake "no_deck.cfg" "$work/no_deck.cfg"
mistake "model.hiden" "$work/deck.cfg" model.hiden=3
mistake "data.row_tokens = 65" "$work/deck.cfg" data.row_tokens=65
mistake "data.overlap" "$work/deck.cfg" data.overlap=64
mistake "device.kind" "$work/deck.cfg" device.kind=cuda
mistake "is not a token store" "$work/deck.cfg" data.train="$work/deck.cfg"
mistake "parallel.shard_size = 3: must divide the number of ranks, 8" "$work/deck.cfg" --ranks 8 parallel.shard=full parallel.shard_size=3
mistake "parallel.context = 3: must divide the number of ranks, 8" "$work/deck.cfg" --ranks 8 parallel.context=3
mistake "layers" "$work/deck.cfg" model.layers=1000000000000
mistake "parameters" "$work/deck.cfg" model.layers=65536 model.hidden=16777216 model.ffn=16777216 model.heads=65536 model.kv_heads=65536

# an evaluation instead of a step: ranks share activations, and longer batches compute their MLP in slices
transient()
{
    "$CISTRON" plan "$work/deck.cfg" model.positions=1000000 device.memory=4 --context "$@" 2>"$work/out" >"$work/plan"
    value transient
}
one=$(transient 65536) two=$(transient 65536 --context-parallel 2) long=$(transient 262144)
check "a window of 65,536 tokens: $one MiB, on 2 ranks $two" awk -v one="$one" -v two="$two" 'BEGIN { exit !(two > 0 && two < 0.8 * one) }'
check "a window of 262,144 tokens: $long MiB" awk -v one="$one" -v long="$long" 'BEGIN { exit !(long > one && long < 3 * one) }'
check "a longer window than in training is warned of" says "--context 262144 is more than the context of 64"
plan "$work/deck.cfg" model.positions=1000000 --context 1000001
check "a window beyond the positions" test $code -eq 2
check "a window beyond the positions: is said" says "--context 1000001: must be 1 to 1000000"
plan "$work/deck.cfg" model.positions=1000000 --context 1000000 device.memory=0.01
check "a window beyond the memory" test $code -eq 2
check "a window beyond the memory: is said" says "and may use 10.24 MiB; set --context-parallel above 1"
plan "$work/deck.cfg" --context 64 --ranks 2
check "ranks of a step and an evaluation" test $code -eq 2

# the same for programs
if command -v python3 >/dev/null; then
    "$CISTRON" plan "$work/deck.cfg" --ranks 2 device.peak=1 >"$work/plan"
    "$CISTRON" plan --json "$work/deck.cfg" --ranks 2 device.peak=1 >"$work/plan.json"
    check "JSON holds the same" python3 - "$work/plan.json" "$(value total)" "$(value parameters)" "$(value 'tokens an epoch')" <<'PYTHON'
import json, sys
p = json.load(open(sys.argv[1]))
memory = dict(p["memory"])
total = memory.pop("total")
assert 0 < p["host_batches"] < 1e6
assert total == sum(memory.values()) == p["fit"]["need"] and "%.1f" % (total / 2**20) == sys.argv[2], p["memory"]
assert p["model"]["parameters"] == int(sys.argv[3]) and p["files"]["checkpoint"] == 12 * int(sys.argv[3])
assert p["data"]["tokens_an_epoch"] == int(sys.argv[4]) and p["fit"]["fits"] is True
assert p["flops"]["causal"]["step"] == p["flops"]["causal"]["token"] * p["data"]["tokens_a_step"]
assert abs(p["seconds_at_peak"] * 2e12 / p["flops"]["causal"]["step"] - 1) < 1e-12
assert p["traffic"]["data"]["bytes"] >= 4 * p["model"]["parameters"] and p["ranks"] == 2
PYTHON
    "$CISTRON" plan --json "$work/deck.cfg" --ranks 4 parallel.shard=auto device.memory=1 >"$work/plan.json"
    check "JSON holds the layout" python3 -c 'import json, sys
p = json.load(open(sys.argv[1]))
assert p["layout"] == {"shard": "optimizer", "replicas": 1, "shards": 4, "context": 1}, p["layout"]
first = p["candidates"][0]
assert len(p["candidates"]) == 7 and p["node"] == 4
assert (first["shard"], first["shard_size"], first["context"], first["fits"]) == ("optimizer", 0, 1, True), first
assert first["memory"] == p["memory"]["total"]
assert first["moved"] == sum(t["bytes"] for t in p["traffic"].values())
assert all(first["seconds"] <= c["seconds"] for c in p["candidates"])' "$work/plan.json"
    "$CISTRON" plan --json "$work/deck.cfg" device.memory=0.00001 >"$work/plan.json" 2>/dev/null
    check "JSON also where it does not fit" grep -q '"fits": false' "$work/plan.json"
fi
finish
