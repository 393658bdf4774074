#!/bin/bash
# Files are replaced only as doc/errors.md says ("What is replaced"): outputs with and without --force, devices and
# pipes as outputs, results of runs, a user's own files under a run's names, links, a foreign checkpoint.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1
cd "$work" || exit 1
settings=(validation.every=0 train.steps=4 checkpoint.every=2)
train=(train deck.cfg "${settings[@]}")

# ends_with CODE WORDS ARGUMENTS...: cistron ARGUMENTS on one rank ends with CODE and says WORDS in one line of an error
ends_with()
{
    local code=$1 words=$2
    shift 2
    timeout 120 "$CISTRON" "$@" >out 2>&1 </dev/null
    check "$*: exit code $code" test $? -eq "$code"
    check "$*: is said" says "$words"
    check "$*: one line" test "$(grep -c '^cistron: ' out)" -eq $((code != 0))
}

# state FOLDER: names and contents of all that is in it
state()
{
    (cd "$1" && find . -type f ! -name lock -exec sha256sum {} + | sort -k 2)
}

ends_with 0 "# exported to" "${train[@]}" checkpoint.export_final=true output.folder=run
cp -r run first

# -- Outputs of commands

# outputs FILE SECOND ARGUMENTS...: the command writes FILE, refuses to write it again, and does so with --force
outputs()
{
    local file=$1
    shift
    ends_with 0 "" "$@" -o "$file"
    echo "a user's" >>"$file" && cp "$file" before
    ends_with 2 "$file: exists; name another output, or replace it with --force" "$@" -o "$file"
    check "$*: the output is as it was" cmp "$file" before
    ends_with 0 "" "$@" -o "$file" --force
    check "$*: is replaced" test "$(tail -n 1 "$file" | grep -ac "a user's")" -eq 0
    : >"$file"
    ends_with 0 "" "$@" -o "$file"
    check "$*: an empty file is replaced" test -s "$file"
}
outputs store.h5 prepare --tokenizer nucleotide g.fa
outputs eval.json eval --checkpoint run --fasta g.fa
outputs vectors.h5 embed --checkpoint run --fasta g.fa --max-length 64
outputs more.fa generate --checkpoint run --prompt ACGT --tokens 8
outputs imported.h5 import "$abs_top_srcdir/tests/golden/llama_tiny"
outputs page.html report run
outputs both.html report run first
cp deck.cfg rates.cfg
ends_with 2 "rates.cfg: exists; name another output" measure -o rates.cfg
ends_with 2 "set.train.bin: exists" prepare --tokenizer nucleotide --format megatron --split train:0.8,valid:0.2 -o set \
    "$(cp g.fa set.train.bin && echo g.fa)"
ends_with 0 "" report run first
ends_with 2 "comparison.html: exists" report run first
ends_with 0 "" report run
ends_with 0 "" report run
check "a run's own report is written again" grep -q '<!DOCTYPE html>' run/report.html
echo "mine" >run/report.html
ends_with 2 "run/report.html: exists" report run
check "a page of the user's stays" test "$(cat run/report.html)" = mine
rm run/report.html

# never, whatever --force says
ends_with 2 "g.fa: is an input and the output" prepare --tokenizer nucleotide --force -o g.fa g.fa
ends_with 2 "is a checkpoint" eval --checkpoint run --fasta g.fa --force -o run/step_00000002.h5
ends_with 2 "/dev/null: exists and is not a regular file" prepare --tokenizer nucleotide --force -o /dev/null g.fa
check "the device is one still" test -c /dev/null

# folders
ends_with 0 "" export --checkpoint run -o hf
ends_with 2 "hf: exists; name a new folder, or replace this export with --force" export --checkpoint run -o hf
ends_with 0 "" export --checkpoint run -o hf --force
mkdir own && touch own/config.json
ends_with 2 "own: is not empty and not an earlier export" export --checkpoint run -o own --force
ln -s hf linked
ends_with 2 "linked: is a link" export --checkpoint run -o linked --force
check "it stays a link" test -L linked

# devices, pipes and open streams
ends_with 0 "" eval --checkpoint run --fasta g.fa -o /dev/null
"$CISTRON" generate --checkpoint run --prompt ACGT --tokens 8 -o /dev/stdout >streamed 2>err
check "/dev/stdout that leads to a file" cmp streamed more.fa
"$CISTRON" generate --checkpoint run --prompt ACGT --tokens 8 -o /dev/stdout 2>err | cat >streamed
check "/dev/stdout that leads to a pipe" cmp streamed more.fa
check "/dev/stdout is a link still" test -L /dev/stdout
mkfifo pipe
timeout 60 cat pipe >streamed &
ends_with 0 "" generate --checkpoint run --prompt ACGT --tokens 8 -o pipe
wait $!
check "a pipe" cmp streamed more.fa
check "it is one still" test -p pipe

# -- Runs

# refuses TEXT WORDS ARGUMENTS...: the training does, on both ranks, and leaves the folder `run` as it was
refuses()
{
    local text=$1 words=$2
    shift 2
    state run >before
    RANKS_SECONDS=60 ranks 2 "$@"
    check "$text: exit code 2 on both ranks" codes_are 2 2
    check "$text: is said" says "$words"
    check "$text: once" test "$(grep -c '^cistron: ' out)" -eq 1
    check "$text: all is as it was" cmp before <(state run)
}
mkdir archive && mv run/step_* archive/
result='key output.folder = "run": has the result of a run'
refuses "a result without checkpoints" "$result (run/final_model.h5), but it has no checkpoint to resume from" \
    "${train[@]}" output.folder=run
check "what to do is said" says "choose another output.folder, or name a checkpoint of that run with train.resume or train --from"
mv run/final_model.h5 archive/
refuses "an export and a log" "$result (run/final_model)" "${train[@]}" checkpoint.export_final=true output.folder=run
refuses "the log of a run that has saved" "$result (run/log.jsonl)" "${train[@]}" output.folder=run
ends_with 0 "" "${train[@]}" train.seed=7 output.folder=other
refuses "a checkpoint of another run" "other/step_00000004.h5 is not a checkpoint of that run" \
    "${train[@]}" train.seed=7 train.resume=other output.folder=run
refuses "the same by --from" "is not a checkpoint of that run" train --from other output.folder=run
ends_with 0 "continuing from archive/step_00000004.h5" "${train[@]}" train.steps=6 train.resume=archive/step_00000004.h5 \
    output.folder=run
rm -r run
mkdir run && touch run/stop
"$CISTRON" "${train[@]}" output.folder=run >out 2>&1
check "stopped before it has saved anything" test $? -eq 85
ends_with 0 "" "${train[@]}" output.folder=run # with the log of that start
"$CISTRON" "${train[@]}" output.folder=run >out 2>&1
check "a finished run stays" says "the run is finished"

# -- A user's own files

rm -r run
# own NAME CONTENT WORDS ARGUMENTS...: a new run refuses output.folder = "run", where a file of this name is
own()
{
    local name=$1 content=$2 words=$3
    shift 3
    rm -rf run && mkdir -p "run/$(dirname "$name")"
    printf '%s' "$content" >user.txt
    ln user.txt "run/$name"
    refuses "a file $name" "$words" "${train[@]}" output.folder=run "$@"
    check "a hard link $name: what it leads to" test "$(cat user.txt)" = "$content"
}
own lock "a key" "run/lock exists and is not the lock of a run"
own lock "host names of the lab, process them" "run/lock exists and is not the lock of a run"
own log.jsonl '{"loss": 1}' "run/log.jsonl exists and was not written by a run"
own deck.cfg "$(cat deck.cfg)" "run/deck.cfg exists and was not written by a run"
own final_model.h5 "weights" "has the result of a run (run/final_model.h5)"
own tensorboard/events.out.tfevents.1.host.2.0 "curves" "run/tensorboard exists and was not written by a run"
own stop "road signs" "run/stop exists and is not empty"
own checkpoint 'model_checkpoint_path: "x"' "run/checkpoint exists and is not empty"
own cistron.prom "metrics" "run/cistron.prom exists and is not a metrics file of a run" log.prometheus=cistron.prom
own final_model/mine.txt "text" "has the result of a run (run/final_model)" checkpoint.export_final=true
for kind in "mkdir run/lock" "mkfifo run/lock" "ln -s ../deck.cfg run/lock"; do
    rm -rf run && mkdir run && $kind
    refuses "$kind" "run/lock: " "${train[@]}" output.folder=run
done
# in the folder of a run: links that it does not follow
rm -r run
ends_with 0 "" "${train[@]}" output.folder=run checkpoint.export_final=true
mkdir board && mv run/tensorboard/events* board/ && rmdir run/tensorboard && ln -s ../board run/tensorboard
state board >before
ends_with 0 "run/tensorboard: is a symbolic link, which is not followed" "${train[@]}" output.folder=run train.steps=6
check "a link tensorboard: what it leads to" cmp before <(state board)
rm run/tensorboard && mkdir run/tensorboard && ln board/* run/tensorboard/
ends_with 0 "is a link, so records after step" "${train[@]}" output.folder=run train.steps=8
check "a hard link of events: what it leads to" cmp before <(state board)
mv run/final_model precious && ln -s ../precious run/final_model
state precious >before.precious
refuses "a link final_model" "run/final_model: is a link" "${train[@]}" output.folder=run train.steps=10 \
    checkpoint.export_final=true
check "a link final_model: what it leads to" cmp before.precious <(state precious)
rm run/final_model && mv precious run/final_model && mkdir run/final_model.old-mine && touch run/final_model.old-mine/x
ends_with 0 "" "${train[@]}" output.folder=run train.steps=10 checkpoint.export_final=true
check "a folder final_model.old-mine stays" test -e run/final_model.old-mine/x

# -- A stranger's checkpoint

ends_with 0 "" "${train[@]}" output.folder=strange log.prometheus="$work/strange.prom" device.tuning_file="$work/strange.tuning"
mkdir received && mv strange/step_00000004.h5* received/ && rm -r strange strange.prom
ends_with 0 'checkpoint'"'"'s deck: output.folder = "received", log.prometheus = "", device.tuning_file = ""' \
    train --from received train.steps=6
check "nothing is written where its deck says" test ! -e strange -a ! -e strange.prom
check "the run is where its checkpoint is" test -e received/step_00000006.h5
ends_with 0 "" train --from received/step_00000006.h5 output.folder=mine log.prometheus=mine.prom train.steps=8
check "what the command line says counts" test -e mine/step_00000008.h5 -a -e mine/mine.prom

# -- What a refused run leaves

refuses "a store that is not there" "none.h5" "${train[@]}" data.train=none.h5 output.folder=a/b/c
check "no folder is left" test ! -e a
mkdir a
refuses "a store that is not there" "none.h5" "${train[@]}" data.train=none.h5 output.folder=a/b/c
check "a folder that was there stays, empty" test -d a -a -z "$(ls -A a)"
finish
