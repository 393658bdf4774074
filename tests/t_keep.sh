#!/bin/bash
# checkpoint.keep, keep_every and keep_best keep the right checkpoints; `train --from` resumes from the right one; keys
# that may change at a restart may change. checkpoint.stripes asks a stand-in of Lustre's lfs.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1

steps_in()
{
    ls "$1" | sed -n 's/^step_0*\([0-9]*\)\.h5$/\1/p' | sort -n | tr '\n' ' '
}

# a rate that makes the loss rise again after a while: the best is not the last
ranks 2 train "$work/deck.cfg" checkpoint.every=5 checkpoint.keep=1 checkpoint.keep_every=4 checkpoint.keep_best=true \
    train.steps=12 validation.every=3 optimizer.lr=0.5 schedule.kind=constant output.folder="$work/keep"
check "a run ends with 0" codes_are 0 2
best=$(sed -n 's/.*"event":"validation","step":\([0-9]*\),"loss":\([^,]*\),.*/\2 \1/p' "$work/keep/log.jsonl" | sort -g |
    head -n 1 | cut -d ' ' -f 2)
check "the last validation is not the best" test "$best" -lt 12
wanted=$(printf '%s\n' "$best" 12 | sort -nu | tr '\n' ' ')
check "the best and the newest stay ($wanted)" test "$(steps_in "$work/keep")" = "$wanted"

# every fourth, of those that are written
ranks 2 train "$work/deck.cfg" checkpoint.every=2 checkpoint.keep=1 checkpoint.keep_every=4 output.folder="$work/every"
check "every fourth stays" test "$(steps_in "$work/every")" = "4 8 12 "

# the best is remembered over a restart: a worse one after it does not take its place
ranks 2 train "$work/keep/deck.cfg" train.steps=15 optimizer.lr=5
check "the best stays over a restart" test -f "$work/keep/step_$(printf %08d "$best").h5"

# Lustre is asked for stripes where lfs is on PATH, once a start; nothing is said if it refuses
mkdir "$work/bin"
cat >"$work/bin/lfs" <<'END'
#!/bin/sh
echo "$*" >>"$LFS_CALLS"
echo "lfs says something"
exit "$LFS_CODE"
END
chmod +x "$work/bin/lfs"
export LFS_CALLS="$work/calls" LFS_CODE=0
striped()
{
    rm -f "$LFS_CALLS"
    PATH="$work/bin:$PATH" ranks 2 train "$work/deck.cfg" train.steps=1 output.folder="$work/striped" "$@"
    touch "$LFS_CALLS"
}
asks="setstripe -E 64M -c 1 -E -1 -c"
striped train.resume=auto
check "lfs: the run ends with 0" codes_are 0 2
check "lfs is asked for 16" test "$(cat "$LFS_CALLS")" = "$asks 16 -S 8M $work/striped"
check "lfs: it is said" grep -q "spreads checkpoints over 16 OSTs" "$work/out"
check "lfs says nothing itself" test "$(grep -c "lfs says" "$work/out")" = 0
striped checkpoint.stripes=-1
check "lfs is asked for all" test "$(cat "$LFS_CALLS")" = "$asks -1 -S 8M $work/striped"
striped checkpoint.stripes=0
check "lfs is not asked" test ! -s "$LFS_CALLS"
LFS_CODE=25
striped
check "lfs refuses: the run ends with 0" codes_are 0 2
check "lfs refuses: nothing is said" test "$(grep -c "OSTs\|lfs" "$work/out")" = 0

# --from: the file's own deck, going on; keys given beside it
ranks 2 train "$work/deck.cfg" output.folder="$work/a" checkpoint.every=4
losses "$work/a" >"$work/a.losses"
ranks 2 train --from "$work/a/step_00000008.h5" output.folder="$work/b"
check "--from ends with 0" codes_are 0 2
losses "$work/b" >"$work/b.losses"
check "--from: the losses of the run that never stopped" cmp "$work/b.losses" <(tail -n 4 "$work/a.losses")
check "--from: and its digest" test "$(digest "$work/a" 12)" = "$(digest "$work/b" 12)"
# the same command again, as a job that was stopped and requeued gives it
ranks 2 train --from "$work/a/step_00000008.h5" output.folder="$work/again" train.steps=10
ranks 2 train --from "$work/a/step_00000008.h5" output.folder="$work/again"
check "--from again goes on where it stopped" says "continuing from $work/again/step_00000010.h5 at step 10"
losses "$work/again" >"$work/again.losses"
check "--from again: the losses of the run that never stopped" cmp "$work/again.losses" "$work/b.losses"
ranks 2 train --from "$work/a/step_00000012.h5" output.folder="$work/again" train.steps=14
check "--from another file into that folder: goes on in it" says "step_00000012.h5 at step 12"
ranks 2 train --from "$work/a/step_00000008.h5" output.folder="$work/again" train.steps=16
check "--from an older file into another's run: exit code 2" codes_are 2 2
ranks 2 train --from "$work/a" train.steps=14
check "--from a folder goes on in it" says "step_00000012.h5 at step 12"
check "--from a folder: more steps" test "$(steps_in "$work/a")" = "8 12 14 "

# refused
ranks 2 train --from "$work/a/step_00000008.h5"
check "--from an older file into its own folder: exit code 2" codes_are 2 2
check "--from an older file: is said" says "has a later checkpoint"
check "--from an older file: nothing is lost" test "$(steps_in "$work/a")" = "8 12 14 "
ranks 2 train --from "$work/a" model.hidden=64 train.seed=7
check "keys that may not change: exit code 2" codes_are 2 2
check "keys that may not change: one" says "model.hidden: 32 in the checkpoint, 64 now"
check "keys that may not change: the other" says "train.seed: 42 in the checkpoint, 7 now"
ranks 2 train --from "$work/nothing.h5"
check "--from nothing: exit code 2" codes_are 2 2
mkdir "$work/empty"
ranks 2 train --from "$work/empty"
check "--from an empty folder: exit code 2" codes_are 2 2
check "--from an empty folder: is said" says "has no checkpoint"
ranks 2 train --from "$work/a/final_model.h5" output.folder="$work/c"
check "--from a final model: exit code 2" codes_are 2 2

# damage of a tensor, which shows when it is loaded: the file before is taken; a file that is named is refused
cp -r "$work/a" "$work/damaged"
place=$(awk '$4 == "t" { print $1 + $2 - 1 }' "$work/damaged/step_00000014.h5.xxh3" | sed -n 7p)
for file in 14 12; do
    printf x | dd of="$work/damaged/step_000000$file.h5" bs=1 seek="$place" conv=notrunc status=none
done
cp "$work"/damaged/step_00000014.h5* "$work"
ranks 2 train "$work/deck.cfg" checkpoint.every=4 output.folder="$work/damaged"
check "damaged: exit code 0" codes_are 0 2
check "damaged: the one before is gone on from" says "step_00000008.h5 at step 8"
check "damaged: the others are set aside" test "$(ls "$work/damaged" | grep -c '^step_.*h5.bad$')" -eq 2
check "damaged: the log has both" \
    grep -q '"event":"set_aside","step":8.*step_00000014.h5.bad.n.*step_00000012.h5.bad' "$work/damaged/log.jsonl"
check "damaged: and the digest of the run that never stopped" \
    test "$(digest "$work/a" 12)" = "$(digest "$work/damaged" 12)"
refused "damaged, named" "$work/step_00000014.h5: is damaged: bytes" \
    train "$work/deck.cfg" train.resume="$work/step_00000014.h5" output.folder="$work/named"
check "damaged, named: stays where it is" test -f "$work/step_00000014.h5"

# a folder whose checkpoints are all bad is not trained over
cp -r "$work/every" "$work/bad"
for file in "$work"/bad/step_*.h5; do printf x | dd of="$file" bs=1 seek=5000 conv=notrunc status=none; done
lines=$(wc -l <"$work/bad/log.jsonl")
for turn in first second; do
    ranks 2 train "$work/deck.cfg" output.folder="$work/bad"
    check "all bad, $turn time: exit code 2" codes_are 2 2
    check "all bad, $turn time: is said" says "all its checkpoints are damaged"
    check "all bad, $turn time: the log stays" test "$(wc -l <"$work/bad/log.jsonl")" -eq "$lines"
done
finish
