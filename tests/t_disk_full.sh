#!/bin/bash
# A disk that is full or fails during a save gives one message, exit code 1 on every rank, and leaves the checkpoint
# before; with checkpoint.on_failure = "continue" the run continues. Transient read errors are retried. By tests/shim.c,
# and on a small file system where mounting is allowed.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1
run="$work/run"
settings=(checkpoint.every=2 checkpoint.keep=1 validation.every=0 train.steps=6)
RANKS_SECONDS=60

ranks 2 train "$work/deck.cfg" "${settings[@]}" output.folder="$work/whole"
check "a whole run" codes_are 0 2
losses "$work/whole" >"$work/whole.losses"
ranks 2 train "$work/deck.cfg" "${settings[@]}" train.steps=2
check "its start" codes_are 0 2
cp -r "$run" "$work/start"

# shimmed SHIM ARGUMENTS...: train on 2 ranks under tests/shim.c
shimmed()
{
    local shim=$1
    shift
    # shellcheck disable=SC2086
    (export LD_PRELOAD="$abs_top_builddir/tests/shim.so" SHIM_FOLDER="$run" SHIM_MATCH=step_ $shim
        ranks 2 train "$work/deck.cfg" "$@")
}

# unharmed [FILE...]: the folder holds the checkpoint of step 2 as it was, these others, and no part of another
unharmed()
{
    local wanted="step_00000002.h5 step_00000002.h5.xxh3" file
    for file in "$@"; do wanted="$wanted $file $file.xxh3"; done
    cmp "$work/start/step_00000002.h5" "$run/step_00000002.h5" &&
        cmp "$work/start/step_00000002.h5.xxh3" "$run/step_00000002.h5.xxh3" && [ "$(cd "$run" && echo step_*)" = "$wanted" ]
}

# fails TEXT WORDS SETTINGS: the next save does
fails()
{
    rm -rf "$run"
    cp -r "$work/start" "$run"
    shimmed "$3" "${settings[@]}"
    check "$1: exit code 1 on both ranks" codes_are 1 2
    check "$1: is said" says "$2"
    check "$1: in one line, once" test "$(grep -c '^cistron: ' "$work/out")" -eq 1
    check "$1: the file is named" test "$(grep -c "^cistron: .*$run/step_00000004.h5" "$work/out")" -eq 1
    check "$1: the old file is as it was, nothing else is left" unharmed
    check "$1: how to resume is said" says "# step 4 is not saved. With 0.40 MiB free in $run"
    check "$1: and from where" says "resumes from $run/step_00000002.h5"
}
full="No space left on device"
fails "full when the file is made" "$full" "SHIM_MATCH=.h5.tmp SHIM_FAIL=open:1:ENOSPC"
fails "full at the layout" "$full" SHIM_FAIL=pwrite:1:ENOSPC
fails "full at a tensor of rank 0" "$full" "SHIM_RANK=0 SHIM_FAIL=pwrite:9:ENOSPC"
fails "full at a tensor of rank 1" "$full" "SHIM_RANK=1 SHIM_FAIL=pwrite:3:ENOSPC"
fails "full at the side file" "$full" "SHIM_MATCH=.xxh3.tmp SHIM_FAIL=pwrite:1:ENOSPC"
settings+=(checkpoint.asynchronous=false)
fails "full at a tensor of rank 1, in the step" "$full" "SHIM_RANK=1 SHIM_FAIL=pwrite:3:ENOSPC"
unset 'settings[-1]'
fails "an error that the flush tells" "Input/output error" "SHIM_RANK=1 SHIM_FAIL=fsync:1:EIO"
fails "an error that closing tells" "Input/output error" "SHIM_RANK=1 SHIM_MATCH=.h5.tmp SHIM_FAIL=close:1:EIO"
fails "the side file cannot be renamed" "$full" SHIM_FAIL=rename:1:ENOSPC
fails "the file cannot be renamed" "$full" SHIM_FAIL=rename:2:ENOSPC

ranks 2 train "$work/deck.cfg" "${settings[@]}"
check "with room again it goes on to its end" codes_are 0 2
losses "$run" >"$work/run.losses"
check "with the losses of the whole run" cmp "$work/whole.losses" "$work/run.losses"

rm -rf "$run"
cp -r "$work/start" "$run"
shimmed "SHIM_RANK=0 SHIM_FAIL=pwrite:3:ENOSPC:1" "${settings[@]}" checkpoint.on_failure=continue
check "continue: the run ends with 0" codes_are 0 2
check "continue: what happened is said" says "$full"
check "continue: the log has it, and no other" \
    test "$(grep -o '"event":"save_failed","step":[0-9]*' "$run/log.jsonl")" = '"event":"save_failed","step":4'
check "continue: the next save is made" test -f "$run/step_00000006.h5"
losses "$run" >"$work/run.losses"
check "continue: the losses are those of the whole run" cmp "$work/whole.losses" "$work/run.losses"
shimmed SHIM_FAIL=pwrite:1:ENOSPC "${settings[@]}" checkpoint.on_failure=continue train.steps=8
check "continue: a run that cannot save its end fails" codes_are 1 2

# a thread that fails, beside steps
rm -rf "$run"
cp -r "$work/start" "$run"
shimmed "SHIM_MATCH=.h5.tmp SHIM_RANK=1 SHIM_FAIL=pwrite:3:ENOSPC:1" "${settings[@]}" checkpoint.on_failure=continue
check "continue, beside steps: the run ends with 0" codes_are 0 2
check "continue, beside steps: what happened is said" says "$full"
check "continue, beside steps: the log has it" grep -q '"event":"save_failed","step":4' "$run/log.jsonl"
check "continue, beside steps: the next save is made" test -f "$run/step_00000006.h5"
losses "$run" >"$work/run.losses"
check "continue, beside steps: the losses are those of the whole run" cmp "$work/whole.losses" "$work/run.losses"

# Reads that fail for a moment: the run goes on from what was saved, or says that it cannot read.
rm -rf "$run"
RANKS_SECONDS=60 ranks 1 train "$work/deck.cfg" "${settings[@]}" checkpoint.keep=9 train.steps=4 checkpoint.at_end=false
check "a run to read from" codes_are 0 1
rm -rf "$work/saved"
mv "$run" "$work/saved"
# reading SHIM: goes on for a step, from a copy
reading()
{
    rm -rf "$run"
    cp -r "$work/saved" "$run"
    # shellcheck disable=SC2086
    (export LD_PRELOAD="$abs_top_builddir/tests/shim.so" SHIM_FOLDER="$run" SHIM_MATCH=step_00000004.h5 $1
        exec "$CISTRON" train "$work/deck.cfg" "${settings[@]}" train.steps=5) >"$work/out" 2>&1
}
reading "SHIM_TRACE=$work/reads"
check "read without a failure" test $? -eq 0
whole=$(digest "$run" 5) reads=$(grep -c ' pread ' "$work/reads") again=0
check "there are reads" test "$reads" -ge 100
for tenths in 3 4 5 6 7 8 9; do
    reading "SHIM_FAIL=pread:$((reads * tenths / 10)):EIO:4"
    case $? in
    0)
        again=$((again + 1))
        check "reads $tenths/10 of the way that fail for a moment: the same state" test "$(digest "$run" 5)" = "$whole"
        ;;
    1) check "a read that fails is said" says "Input/output error" ;;
    esac
    check "nothing is set aside" test ! -e "$run/step_00000004.h5.bad"
done
check "the run went on after failures" test $again -ge 1
damaged=$work/saved/step_00000004.h5
bytes=$(stat -c %s "$damaged")
for place in 9 8 7; do # damage of numbers, in its last third
    printf '\125\252\125' | dd of="$damaged" bs=1 seek=$((bytes * place / 10)) conv=notrunc status=none
done
for failing in "" "SHIM_FAIL=pread:20:EIO:1" "SHIM_FAIL=pread:40:EIO:1"; do
    # shellcheck disable=SC2086
    (export LD_PRELOAD="$abs_top_builddir/tests/shim.so" SHIM_FOLDER="$work/saved" SHIM_MATCH=step_00000004.h5 $failing
        exec "$CISTRON" inspect --verify "$damaged") >"$work/out" 2>&1
    check "damage is found, ${failing:-without failures}" test $? -eq 2
    check "damage is said, ${failing:-without failures}" says "is damaged"
done

# a slow disk: steps go on while it writes, the next save waits, and so does the end
rm -rf "$run"
RANKS_SECONDS=180 shimmed "SHIM_MATCH=.h5.tmp SHIM_RANK=1 SHIM_DELAY=pwrite:0.3" "${settings[@]}" checkpoint.every=3 train.steps=8 checkpoint.keep=9
check "a slow disk: the run ends with 0" codes_are 0 2
order=$(sed -n 's/^{"event":"\([a-z]*\)","step":\([0-9]*\).*/\1 \2/p' "$run/log.jsonl" | grep '^step\|^checkpoint' | tr '\n' ',')
check "a slow disk: $order" test "$order" = "step 1,step 2,step 3,step 4,step 5,step 6,checkpoint 3,step 7,step 8,checkpoint 6,checkpoint 8,checkpoint 8,"
ranks 2 train "$work/deck.cfg" "${settings[@]}" checkpoint.every=3 train.steps=8 checkpoint.asynchronous=false output.folder="$work/step"
for step in 3 6 8; do
    check "a slow disk: step $step as it was then" test "$(digest "$run" $step)" = "$(digest "$work/step" $step)"
done
order=$(sed -n 's/^{"event":"\([a-z]*\)","step":\([0-9]*\).*/\1 \2/p' "$work/step/log.jsonl" | grep '^checkpoint 3' -B 1 | tr '\n' ',')
check "in the step: $order" test "$order" = "step 3,checkpoint 3,"
ranks 1 train --from "$run/step_00000003.h5" output.folder="$work/again" train.steps=6
check "a slow disk: its file of step 3 is gone on from" codes_are 0 1

# a save is under way when a validation finds a better step: the best before stays until the better one's file is there
rm -rf "$run"
shimmed "SHIM_MATCH=.h5 SHIM_DELAY=pwrite:0.02 SHIM_TRACE=$work/trace" checkpoint.every=4 checkpoint.keep=1 checkpoint.keep_best=true \
    checkpoint.at_end=false validation.every=3 train.steps=6
check "a better step: the run ends with 0" codes_are 0 2
order=$(sed -n 's|.* 0 rename .*/step_0*\([36]\)\.h5\.tmp$|made \1|p; s|.* 0 unlink .*/step_0*\([36]\)\.h5$|removed \1|p' "$work/trace" |
    uniq | tr '\n' ',')
check "a better step: $order" test "$order" = "made 3,made 6,removed 3,"

# alone TEXT CODE SHIM ARGUMENTS...: a short run of one process, with these settings of the environment
alone()
{
    local text=$1 code=$2 shim=$3
    shift 3
    rm -rf "$run"
    # shellcheck disable=SC2086
    env $shim "$CISTRON" train "$work/deck.cfg" train.steps=1 validation.every=0 "$@" >"$work/out" 2>&1
    check "$text: exit code $code" test $? -eq "$code"
}
shim="LD_PRELOAD=$abs_top_builddir/tests/shim.so"
alone "a full /dev/shm" 0 "$shim SHIM_FOLDER=/dev/shm SHIM_MATCH=cistron SHIM_FAIL=pwrite:1:ENOSPC"
alone "a file system that cannot flush folders" 0 "$shim SHIM_FOLDER=$run SHIM_MATCH=.tmp SHIM_FAIL=fsync_folder:1:EINVAL"
alone "a folder that is not flushed" 1 "$shim SHIM_FOLDER=$run SHIM_MATCH=.tmp SHIM_FAIL=fsync_folder:1:EIO"
check "a folder that is not flushed: is said" says "cannot flush the folder to the disk"
(ulimit -f 8000 && alone "a limit on the size of files" 1 A=B model.hidden=256 model.ffn=512
    check "a limit on the size of files: is said" says "File too large"
    [ $failures -eq 0 ])
check "a limit on the size of files" test $? -eq 0
(ulimit -f 80 && "$CISTRON" prepare --tokenizer nucleotide -o "$work/limited.h5" "$work/g.fa" >"$work/out" 2>&1)
check "prepare under that limit: exit code 1" test $? -eq 1
check "prepare under that limit: nothing is left" test -z "$(compgen -G "$work/limited.h5*")"

# a file system with room for one checkpoint, for two, for many
rm -rf "$run"
mkdir "$run"
one=$(($(stat -c %s "$work/start/step_00000002.h5") / 1024))
if mount -t tmpfs -o size=$((one * 3 / 2))k cistron_test "$run" 2>/dev/null; then
    trap 'umount "$run"; rm -rf "$work"' EXIT
    cp -r "$work"/start/* "$run"
    ranks 2 train "$work/deck.cfg" "${settings[@]}"
    check "no room for another: exit code 2 on both ranks" codes_are 2 2
    check "no room for another: is said" says 'a checkpoint needs 0.40 MiB, but the disk has 0.'
    check "no room for another: the old file is as it was, nothing else is left" unharmed
    mount -o remount,size=$((one * 5 / 2))k "$run"
    ranks 2 train "$work/deck.cfg" "${settings[@]}" checkpoint.keep=2
    check "a full tmpfs: exit code 1 on both ranks" codes_are 1 2
    check "a full tmpfs: is said before" says "warning: key output.folder"
    check "a full tmpfs: is said" says "$full"
    check "a full tmpfs: in one line, once" test "$(grep -c '^cistron: ' "$work/out")" -eq 1
    check "a full tmpfs: the old files are as they were, nothing else is left" unharmed step_00000004.h5
    mount -o remount,size=$((one * 6))k "$run"
    ranks 2 train "$work/deck.cfg" "${settings[@]}"
    check "a larger tmpfs: it goes on to its end" codes_are 0 2
    check "a larger tmpfs: nothing to warn about" test "$(grep -c "warning: key output.folder" "$work/out")" -eq 0
    losses "$run" >"$work/run.losses"
    check "a larger tmpfs: the losses of the whole run" cmp "$work/whole.losses" "$work/run.losses"
else
    echo "a small file system: not tried, mounting is not allowed"
fi
finish
