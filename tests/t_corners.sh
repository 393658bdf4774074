#!/bin/bash
# Settings at the ends of their ranges train to the same numbers. Damaged and foreign files in the run folder, a full
# disk, bare environments and a stack of 512 KiB end in a known way and without a hang.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1
RANKS_SECONDS=60
mkdir "$work/o"

# alone NAME OVERRIDES...: one rank without mpirun, into $work/o/NAME; losses in $work/NAME.losses, output in
# $work/NAME.out, exit code in $work/NAME.code. Such runs mostly wait for MPI to start, so `alone ... &` and `wait`.
alone()
{
    local name=$1
    shift
    timeout --kill-after=5 180 "$CISTRON" train "$work/deck.cfg" validation.every=0 output.folder="$work/o/$name" "$@" \
        >"$work/$name.out" 2>&1
    echo $? >"$work/$name.code"
    losses "$work/o/$name" >"$work/$name.losses"
}

finished()
{
    [ "$(cat "$work/$1.code")" = 0 ] && return
    tail -n 5 "$work/$1.out" >&2
    return 1
}

# several NAME RANKS OVERRIDES...: the same on several ranks; codes are in $work/codes
several()
{
    local name=$1 count=$2
    shift 2
    ranks "$count" train "$work/deck.cfg" validation.every=0 output.folder="$work/o/$name" "$@"
    losses "$work/o/$name" >"$work/$name.losses"
}

# learns NAME: the last loss is below the first one
learns()
{
    awk '{ last = $2 } NR == 1 { first = $2 } END { exit !(NR > 1 && last < first) }' "$work/$1.losses" && return
    echo "    losses:" && cat "$work/$1.losses"
    return 1
} >&2

# A model that keeps gains of norms as their distance from 1 has no place in a Hugging Face folder.
refuses_export()
{
    "$CISTRON" export --checkpoint "$work/o/zero_centered" -o "$work/exported" >"$work/out" 2>&1
    [ $? = 2 ] && says "key model.norm_zero_centered = true" && [ ! -e "$work/exported" ]
}

# -- Settings at the ends of their ranges

corners=
corner()
{
    corners="$corners $1"
    alone "$@" &
}
corner short_rows data.row_tokens=16 data.window=4
corner overlap data.overlap=61
corner one_segment data.max_segments=1
corner any_segments data.max_segments=2147483647
corner one_head model.heads=1 model.kv_heads=1
corner narrow model.head_dim=2 model.heads=1 model.kv_heads=1 model.hidden=1 model.ffn=1 optimizer.lr=0.05
corner large_vocabulary model.vocabulary=300
wait
corner no_split data.split=false data.window=33
corner unmasked data.mask_degenerate=false data.uppercase_labels=true data.shuffle=false
corner linear schedule.kind=linear schedule.rule=megatron schedule.warmup=1 schedule.decay=1 schedule.min_ratio=0.5
corner sliced memory.head_tokens=7
corner large_batch train.micro_batch=64
corner zero_centered model.norm_zero_centered=true
corner whole
wait
corner row1 train.global_batch=1
padded="data.format=padded data.special_tokens=sequence data.window=48 data.overlap=7"
# shellcheck disable=SC2086
corner padded1 $padded
kinds="none norms gate_up qkv attention full"
for kind in $kinds; do
    corner $kind precision.compute=bf16 memory.recompute=$kind
done
corner mixed precision.compute=bf16 memory.recompute=full memory.recompute_layers=activation:2 memory.offload_layers=1-2
alone one_step model.layers=1 train.steps=1 schedule.warmup=0 &
wait
for name in $corners; do
    check "$name: ends with 0" finished $name
    check "$name: learns" learns $name
done
check "one step: ends with 0" finished one_step
check "logits in slices: the same losses" close_losses "$work/sliced.losses" "$work/whole.losses" 1e-6
check "as many segments as a row may have: the same losses" \
    close_losses "$work/any_segments.losses" "$work/whole.losses" 1e-6
check "gains as their distance from 1: the same losses" \
    close_losses "$work/zero_centered.losses" "$work/whole.losses" 1e-6
check "which no Hugging Face model has" refuses_export
check "more rows in a micro-batch than in a batch: the same losses" \
    close_losses "$work/large_batch.losses" "$work/whole.losses" 1e-6
for kind in $kinds mixed; do
    check "bf16, memory.recompute=$kind: the same losses" cmp "$work/none.losses" "$work/$kind.losses"
done

several row4 4 train.global_batch=1
check "more ranks than rows end with 0" codes_are 0 4
check "more ranks than rows: the losses of one" close_losses "$work/row4.losses" "$work/row1.losses" 1e-6
# shellcheck disable=SC2086
several padded3 3 $padded
check "padded rows on 3 ranks: the losses of one" close_losses "$work/padded3.losses" "$work/padded1.losses" 1e-6

# stores of one window; of nothing but a masked base
printf '>a\nACGTGGCATCGA\n' >"$work/tiny.fa"
printf '>a\nN\n' >"$work/n.fa"
for name in tiny n; do
    "$CISTRON" prepare --tokenizer nucleotide -o "$work/$name.h5" "$work/$name.fa" >/dev/null
done
several tiny 2 data.train="$work/tiny.h5" data.valid="$work/n.h5"
check "tiny stores end with 0" codes_are 0 2
check "a tiny store is learned" learns tiny
check "nothing to predict in a validation is said" says "so there is no validation loss"
check "and is no loss of 0" test "$(grep -c '"event":"validation"' "$work/o/tiny/log.jsonl")" -eq 0
mkdir "$work/o/tiny/report.html"
"$CISTRON" report "$work/o/tiny" >"$work/out" 2>&1
check "a folder in place of the page: exit code 2" test $? -eq 2
check "it is named" says "report.html: exists and is not a regular file"
"$CISTRON" report "$work/o/tiny" -o /dev/full >"$work/out" 2>&1
check "a page that cannot be written: exit code 1" test $? -eq 1
check "its facts are printed" says "verdict            finished"

several diverged 2 optimizer.lr=1e30 checkpoint.every=1
check "a run that diverges ends with 3" codes_are 3 2
check "it says so" says "diverged"
check "its last checkpoint is from before" test ! -e "$work/o/diverged/step_00000003.h5"

# -- What may happen to a run's folder

alone run checkpoint.every=4
cp -r "$work/o/run" "$work/o/damaged"
printf 'XXXX' | dd of="$work/o/damaged/step_00000012.h5" bs=1 seek=200000 conv=notrunc 2>/dev/null
: >"$work/o/damaged/step_00000008.h5"
several damaged 2 checkpoint.every=4
check "damaged checkpoints: ends with 0" codes_are 0 2
check "damaged checkpoints: one is named" says "step_00000012.h5.bad"
check "damaged checkpoints: the last good one is taken" says "step_00000004.h5 at step 4"
check "damaged checkpoints: the same losses" close_losses "$work/damaged.losses" "$work/run.losses" 1e-6

cp -r "$work/o/run" "$work/o/garbage"
{
    head -c 20000 "$work/o/run/step_00000012.h5"
    printf 'X{"event":"step","step":9999,"loss":1,"lr":1}\n{"event":"step","st'
} >>"$work/o/garbage/log.jsonl"
alone garbage train.steps=14
check "garbage in the log: ends with 0" finished garbage
check "garbage in the log: whole lines of both runs" test "$(cut -d ' ' -f 1 "$work/garbage.losses" | tr '\n' ' ')" = \
    "$(seq 1 14 | tr '\n' ' ')"

cp -r "$work/o/run" "$work/o/blocked"
rm "$work/o/blocked/deck.cfg"
mkdir "$work/o/blocked/deck.cfg"
several blocked 2 train.steps=14
check "a folder where a file must be: exit code 1" codes_are 1 2
check "it is named" says "deck.cfg"

mkdir "$work/small"
if mount -t tmpfs -o size=1200k none "$work/small" 2>/dev/null; then
    ranks 2 train "$work/deck.cfg" checkpoint.every=1 checkpoint.keep=5 output.folder="$work/small/run"
    check "a full disk: exit code 1" codes_are 1 2
    check "a full disk: says so" says "No space left"
    check "a full disk: the checkpoints before stand" test -f "$work/small/run/step_00000002.h5.xxh3"
    check "a full disk: nothing temporary is left" test "$(ls "$work/small/run" | grep -c tmp)" -eq 0
    umount "$work/small"
fi

# -- The environment

(cd / && env -u HOME "$CISTRON" train "$work/deck.cfg" output.folder="$work/o/bare" train.steps=2 >"$work/out" 2>&1)
check "no HOME" test $? -eq 0
# where a stream is closed a file or socket of the run would have its number, and get what is printed
"$CISTRON" train "$work/deck.cfg" output.folder="$work/o/closed" train.steps=2 <&- >&- 2>&-
check "no standard streams" test $? -eq 0
"$CISTRON" train "$work/deck.cfg" output.folder="$work/o/mute" train.steps=2 schedule.warmup=0 2>"$work/out" >&-
check "no standard output" test $? -eq 0
check "no standard output: nothing is said of it" test ! -s "$work/out"
OMP_NUM_THREADS=100000 "$CISTRON" train "$work/deck.cfg" device.threads=0 output.folder="$work/o/many" train.steps=1 \
    >"$work/out" 2>&1
check "more threads than OpenMP can start are not started" test $? -eq 0
if [ "$(nproc)" -gt 1 ] && command -v taskset >/dev/null; then
    first=$(taskset -cp $$ | sed 's/.*: *\([0-9]*\).*/\1/')
    taskset -c "$first" "$CISTRON" train "$work/deck.cfg" device.threads=0 output.folder="$work/o/bound" train.steps=2 \
        >"$work/out" 2>&1
    check "bound to one CPU: the idle ones are told of" says "stay idle"
    check "bound to one CPU: one thread" says "1 rank of 1 thread,"
    "$CISTRON" train "$work/deck.cfg" device.threads=0 output.folder="$work/o/free" train.steps=2 >"$work/out" 2>&1
    check "not bound: a thread for each CPU" says "1 rank of $(nproc) thread"
    ranks 2 train "$work/deck.cfg" device.threads=0 output.folder="$work/o/shared" train.steps=2
    check "two ranks share the CPUs" says "2 ranks of $(($(nproc) / 2)) thread"
    ranks 2 train "$work/deck.cfg" device.threads="$(nproc)" output.folder="$work/o/crowded" train.steps=2
    check "more threads than CPUs: warned of once" test "$(grep -c "warning: $(nproc) threads of each rank share" "$work/out")" -eq 1
fi
ranks 2 train "$work/deck.cfg" train.micro_batch=6 train.steps=1 output.folder="$work/o/vain"
check "rows in vain: warned of" says "a rank has 4 rows of train.global_batch = 7"
ranks 2 train "$work/deck.cfg" train.global_batch=1 train.steps=1 output.folder="$work/o/idle"
check "a rank without rows: warned of" says "1 of 2 ranks have no row"
"$CISTRON" prepare --tokenizer nucleotide --seed many -o "$work/x.h5" "$work/tiny.fa" >"$work/out" 2>&1
check "a seed that is no number: exit code 2" test $? -eq 2

# -- How threads wait (src/base/waiting.h)

# endless NAME VARIABLES...: a training that is at work as process $pid under the odd name `odd`, in an environment with
# these variables and no other that says how threads wait
endless()
{
    local name=$1
    shift
    # shellcheck disable=SC2016
    env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT --ignore-signal=INT "$@" bash -c 'exec -a odd "$CISTRON" "$@"' sh train \
        "$work/deck.cfg" train.steps=1000000000 validation.every=0 output.folder="$work/o/$name" >"$work/out" 2>&1 &
    pid=$!
    for _ in $(seq 2400); do
        [ -s "$work/o/$name/log.jsonl" ] && break
        sleep 0.05
    done
}

# spins VALUE: what the process has for GOMP_SPINCOUNT; "" is none
spins()
{
    local found
    found=$(tr '\0' '\n' <"/proc/$pid/environ" | sed -n 's/^GOMP_SPINCOUNT=//p')
    [ "$found" = "$1" ] && return
    echo "    GOMP_SPINCOUNT=$found instead of $1" >&2
    return 1
}

# over TEXT: it is still there after an INT, which it was started to ignore, and a TERM stops it as one does
over()
{
    kill -INT "$pid"
    kill -TERM "$pid"
    wait "$pid"
    check "$1: TERM stops it, INT does not" test $? -eq 85
}

if ldd "$CISTRON" | grep -q libgomp; then
    endless short
    spun=$(sed -n 's/^#define THREAD_SPINS "\(.*\)"/\1/p' "$abs_top_srcdir/src/base/waiting.c")
    check "threads spin shortly" spins "$spun"
    check "under the name that it was given" test "$(tr '\0' '\n' <"/proc/$pid/cmdline" | head -n 1)" = odd
    check "and the program's own" test "$(cat "/proc/$pid/comm")" = "$(basename "$CISTRON")"
    over "threads that spin shortly"
    endless own GOMP_SPINCOUNT=7
    check "the user's count stands" spins 7
    over "the user's count"
    endless policy OMP_WAIT_POLICY=active
    check "the user's policy stands" spins ""
    over "the user's policy"
    if command -v strace >/dev/null && strace true 2>/dev/null; then
        env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT strace -f -e trace=execve -o "$work/trace" "$CISTRON" deck >/dev/null
        check "it starts again once" test "$(grep -c 'execve(.*= 0' "$work/trace")" -eq 2
    fi
fi

# A small stack, of the program and its threads: small COMMAND ARGUMENTS...
small()
{
    (ulimit -s 512 && exec timeout --kill-after=5 180 "$CISTRON" "$@") >"$work/out" 2>&1 && return
    echo "    exit code $?" >&2
    tail -n 5 "$work/out" >&2
    return 1
}
awk 'NR < 4' "$work/g.fa" >"$work/short.fa"
settings="output.folder=$work/o/small device.threads=2 data.row_tokens=128 memory.recompute=fit parallel.shard=auto precision.recipe=block"
# shellcheck disable=SC2086
{
    check "a small stack: plan" small plan "$work/deck.cfg" $settings
    check "a small stack: plan of ranks" small plan --ranks 8 "$work/deck.cfg" $settings parallel.context=0
    check "a small stack: train" small train "$work/deck.cfg" $settings train.steps=2
    check "a small stack: train resumes" small train "$work/deck.cfg" $settings train.steps=4 train.micro_batch=1
    check "a small stack: train --from" small train --from "$work/o/small" output.folder="$work/o/small2" train.steps=5
    (
        ulimit -s 512
        ranks 2 train "$work/deck.cfg" $settings output.folder="$work/o/small3" train.steps=2
    )
    check "a small stack: two ranks" codes_are 0 2
}
check "a small stack: prepare" small prepare --tokenizer nucleotide -o "$work/s.h5" "$work/g.fa"
check "a small stack: prepare of text" small prepare --tokenizer "$abs_top_srcdir/tests/golden/bpe_tiny" -o "$work/t.h5" \
    "$abs_top_srcdir/README.md"
check "a small stack: eval" small eval --checkpoint "$work/o/small" --fasta "$work/short.fa" -o "$work/s.json"
check "a small stack: generate" small generate --checkpoint "$work/o/small" --prompt ACG --tokens 3
check "a small stack: embed" small embed --checkpoint "$work/o/small" --fasta "$work/short.fa" -o "$work/e.h5"
check "a small stack: inspect" small inspect "$work/o/small"
check "a small stack: report" small report "$work/o/small"
check "a small stack: export" small export --checkpoint "$work/o/small" -o "$work/exported"
check "a small stack: import" small import "$work/exported" --tokenizer nucleotide -o "$work/imported.h5"
check "a small stack: deck" small deck
finish
