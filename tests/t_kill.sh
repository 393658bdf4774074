#!/bin/bash
# kill -9 costs no more than the steps since the last finished save: at random moments of training and of a save, and
# between any two system calls of a save, on either rank; in part also of tensor ranks. A kill keeps the page cache, so a
# trace of system calls shows that writes, flushes and renames come in the right order.
. "$abs_top_srcdir/tests/lib.sh"
small_deck || exit 1
steps=1500
every=10
settings=("train.steps=$steps" "schedule.decay=$steps" "checkpoint.every=$every" validation.every=0)
run="$work/run"
RANDOM=17

# -- What a run's folder holds ------------------------------------------------------------------------------------------

# last_saved: the step of the newest checkpoint that has its name; 0 for none
last_saved()
{
    local step
    step=$(ls "$run" 2>/dev/null | sed -n 's/^step_0*\([0-9]*\)\.h5$/\1/p' | sort -n | tail -n 1)
    echo "${step:-0}"
}

last_logged()
{
    local step
    step=$(losses "$run" 2>/dev/null | tail -n 1 | cut -d ' ' -f 1)
    echo "${step:-0}"
}

lines()
{
    cat "$run/log.jsonl" 2>/dev/null | wc -l
}

# -- Runs that are killed -----------------------------------------------------------------------------------------------

# start [NAME=VALUE...]: a run of 2 ranks under tests/shim.c with these settings of it
start()
{
    before=$(last_saved)
    rm -f "$work"/pid.*
    touch "$work/mark"
    # shellcheck disable=SC2016
    $MPIRUN -n 2 sh -c 'folder=$1; shift; echo $$ >"$folder/pid.$OMPI_COMM_WORLD_RANK"; exec env "$@"' sh "$work" \
        LD_PRELOAD="$abs_top_builddir/tests/shim.so" SHIM_FOLDER="$run" "$@" \
        "$CISTRON" train "$work/deck.cfg" "${settings[@]}" output.folder="$run" >"$work/out" 2>&1 &
    launcher=$!
    # a kill that came before would miss who is not there yet, and who then trains beside the next run
    check "both ranks are there" await 60 both_there
}

both_there()
{
    [ -s "$work/pid.0" ] && [ -s "$work/pid.1" ]
}

# await SECONDS COMMAND...: until it succeeds
await()
{
    local tries=$(($1 * 50))
    shift
    while ! "$@"; do
        tries=$((tries - 1))
        [ $tries -gt 0 ] || return 1
        sleep 0.02
    done
}

# kill_rank RANK: it alone; the launcher takes the others down
kill_rank()
{
    kill -9 "$(cat "$work/pid.$1")"
}

kill_all()
{
    { # bash would say what was killed
        cat "$work"/pid.* | xargs -r kill -9 $launcher
        wait $launcher
    } 2>/dev/null
}

# ended WHAT: waits for a killed run to be gone; what it must not have lost
ended()
{
    wait $launcher 2>/dev/null
    check "$1: all of it ends" await 60 all_gone
    after=$(last_saved)
    check "$1: nothing saved is lost" test "$after" -ge "$before"
    # the save before was under way until the next began
    check "$1: at most the steps since the last save that was whole" test $(($(last_logged) - after)) -le $((2 * every))
}

all_gone()
{
    local pid
    for pid in $(cat "$work"/pid.*); do # what nobody waits for stays as a zombie
        grep -q '^State:[[:space:]]*[^ZX]' "/proc/$pid/status" 2>/dev/null && return 1
    done
    return 0
}

left_now()
{
    find "$run" -name "$1" -newer "$work/mark" | grep -q .
}

# written KIB: so much of the checkpoint that is being saved
written()
{
    local file
    file=$(find "$run" -name 'step_*.h5.tmp' -newer "$work/mark")
    [ -n "$file" ] && [ "$(du -k "$file" 2>/dev/null | cut -f 1)" -ge "$1" ] 2>/dev/null
}

more_lines()
{
    [ "$(lines)" -ge "$1" ]
}

# -- Random moments of training, from the start of the program on -------------------------------------------------------

for kills in $(seq 20); do
    first=$(lines)
    start
    if [ $((kills % 2)) -eq 0 ]; then
        sleep "0.$((RANDOM % 300 + 200))"
    else
        await 20 more_lines $((first + RANDOM % 20))
    fi
    kill_all
    ended "kill $kills"
done
check "the kills let it get on" test "$(last_saved)" -gt 0
check "and did not come too late" test "$(last_saved)" -lt $steps
echo "20 kills in training: step $(last_saved) is saved"

# -- Random moments of a save -------------------------------------------------------------------------------------------

# kills_in_saves COUNT
kills_in_saves()
{
    local inside=0 tries=0
    while [ $inside -lt "$1" ] && [ $tries -lt $((3 * $1)) ]; do
        start SHIM_MATCH=.tmp SHIM_DELAY=pwrite:0.02
        await 60 written $((RANDOM % 400))
        kill_all
        tries=$((tries + 1))
        if left_now 'step_*.tmp'; then inside=$((inside + 1)); fi
        ended "kill $tries of saves"
    done
    check "$1 kills came inside a save" test $inside -ge "$1"
    echo "$tries kills near saves, $inside inside one"
}
kills_in_saves 8

# -- Between two acts of a save -----------------------------------------------------------------------------------------

# step_files ENDING...: what the save that was going on has written has these endings, no others
step_files()
{
    local number found
    number=$(printf 'step_%08d' $((before + every)))
    found=$(find "$run" -name "$number*" -newer "$work/mark" | sed "s|.*/$number||" | sort | tr '\n' ' ')
    [ "$found" = "$*${*:+ }" ] && return
    echo "    $number has $found instead of $*" >&2
    return 1
}

# at RANK TEXT ENDINGS NAME=VALUE...: rank RANK kills itself there, in the first save that comes; the files left
at()
{
    local rank=$1 text="rank $1 killed $2" endings=$3
    shift 3
    start SHIM_RANK=$rank "$@"
    ended "$text"
    # shellcheck disable=SC2086
    check "$text: leaves $endings" step_files $endings
}
at 0 "between write and fsync" ".h5.tmp" SHIM_MATCH=.h5.tmp SHIM_KILL=fsync:1
at 0 "between the digest's write and fsync" ".h5.tmp" SHIM_MATCH=.h5.tmp SHIM_KILL=fsync:2
at 1 "between write and fsync" ".h5.tmp" SHIM_MATCH=.h5.tmp SHIM_KILL=fsync:1
at 1 "behind its fsync" ".h5.tmp" SHIM_MATCH=.h5.tmp SHIM_KILL=close:1
at 0 "between the side file's write and fsync" ".h5.tmp .h5.xxh3.tmp" SHIM_MATCH=.xxh3.tmp SHIM_KILL=fsync:1
at 0 "between fsync and rename" ".h5.tmp .h5.xxh3.tmp" SHIM_MATCH=step_ SHIM_KILL=rename:1
at 0 "between the side file's rename and the folder's fsync" ".h5.tmp .h5.xxh3" SHIM_MATCH=step_ SHIM_KILL=fsync_folder:1
at 0 "between side file and rename" ".h5.tmp .h5.xxh3" SHIM_MATCH=step_ SHIM_KILL=rename:2
at 0 "between rename and the folder's fsync" ".h5 .h5.xxh3" SHIM_MATCH=step_ SHIM_KILL=fsync_folder:2

# while ACT TEXT FILE: rank 1 is killed while rank 0 is held up in ACT, which FILE has shown
while_held()
{
    local text="rank 1 killed $2"
    start SHIM_RANK=0 SHIM_MATCH=step_ SHIM_DELAY="$1:1"
    check "$text: the moment is there" await 60 left_now "$3"
    kill_rank 1
    ended "$text"
}
while_held rename "between fsync and rename" 'step_*.h5.xxh3.tmp'
while_held rename "between side file and rename" 'step_*.h5.xxh3'
while_held fsync_folder "between rename and the folder's fsync" 'step_*[0-9].h5'

# -- All that was killed, finished --------------------------------------------------------------------------------------

# finished WHOLE: the killed run, finished, is a run that never stopped, in folder WHOLE
finished()
{
    end=$(($(last_saved) + 5 * every))
    settings+=("train.steps=$end")
    start
    wait $launcher
    check "it finishes" test $? -eq 0
    $MPIRUN -n 2 "$CISTRON" train "$work/deck.cfg" "${settings[@]}" checkpoint.every=0 output.folder="$1" \
        >"$work/out" 2>&1
    losses "$1" >"$work/whole.losses"
    check "a whole run" test "$(wc -l <"$work/whole.losses")" -eq $end
    losses "$run" >"$work/run.losses"
    check "after all kills: the losses of the run that never stopped, each step once" \
        cmp "$work/whole.losses" "$work/run.losses"
    check "and its digest" test "$(digest "$1" $end)" = "$(digest "$run" $end)" -a -n "$(digest "$run" $end)"
    check "nothing temporary is left" test "$(ls "$run" | grep -c 'tmp')" -eq 0
    check "no side file without its checkpoint is left" \
        test "$(ls "$run" | grep -c '^step_.*h5$')" -eq "$(ls "$run" | grep -c '^step_.*xxh3$')"
}
finished "$work/whole"

# -- Tensor ranks, which exchange columns of the snapshot before their threads write them ------------------------------

of_one_split=("${settings[@]}")
settings+=("train.steps=$steps" parallel.tensor=2)
run="$work/tensor"
at 1 "before its first write" ".h5.tmp" SHIM_MATCH=.h5.tmp SHIM_KILL=pwrite:1
at 0 "between write and fsync" ".h5.tmp" SHIM_MATCH=.h5.tmp SHIM_KILL=fsync:1
at 1 "behind its fsync" ".h5.tmp" SHIM_MATCH=.h5.tmp SHIM_KILL=close:1
at 0 "between side file and rename" ".h5.tmp .h5.xxh3" SHIM_MATCH=step_ SHIM_KILL=rename:2
kills_in_saves 3
finished "$work/whole_tensor"
settings=("${of_one_split[@]}")

# -- The order of a save's acts -----------------------------------------------------------------------------------------

# order TRACE FILE: the acts on FILE are those that checkpoint/checkpoint.h promises; prints what is not.
# Fields: start end rank call path; an act that must come after others starts when they have ended.
order()
{
    awk -v file="$2" -v folder="$run" '
        function wrong(what) { print "    " what; faults++ }
        function follows(act, earlier, start, end) { if (!(start >= end && end > 0)) wrong(act " does not follow " earlier) }
        $5 == file ".tmp" && $4 == "pwrite" { written[$3] = $2 }
        $5 == file ".tmp" && $4 == "fsync" { flush_start[$3] = $1; flush_end[$3] = $2 }
        $5 == file ".xxh3.tmp" && $4 == "pwrite" { side_written = $2 }
        $5 == file ".xxh3.tmp" && $4 == "fsync" { side_start = $1; side_end = $2 }
        $5 == file ".xxh3.tmp" && $4 == "rename" { side_rename = $1; side_renamed = $2; moved = 1 }
        $5 == file ".tmp" && $4 == "rename" { file_rename = $1; file_renamed = $2; moved = 2 }
        $5 == folder && $4 == "fsync_folder" && moved == 1 { first_start = $1; first_end = $2; moved = 0 }
        $5 == folder && $4 == "fsync_folder" && moved == 2 { second_start = $1; moved = 0 }
        END {
            for (rank = 0; rank < 2; rank++) {
                follows("the fsync of rank " rank, "its writes", flush_start[rank], written[rank])
                follows("the fsync of the side file", "that of rank " rank, side_start, flush_end[rank])
            }
            follows("the fsync of the side file", "its writes", side_start, side_written)
            follows("the rename of the side file", "its fsync", side_rename, side_end)
            follows("the fsync of the folder", "the rename of the side file", first_start, side_renamed)
            follows("the rename of the file", "the fsync of the folder", file_rename, first_end)
            follows("the fsync of the folder", "the rename of the file", second_start, file_renamed)
            exit faults > 0
        }' "$1"
}

run="$work/traced"
settings+=(train.steps=20)
for again in 0 1; do
    start SHIM_TRACE="$work/trace$again" SHIM_RANK=1 SHIM_DELAY=fsync:0.2 # rank 0 must wait for it
    wait $launcher
done
for step in 10 20; do
    check "step $step: the order of acts" order "$work/trace0" "$run/$(printf 'step_%08d.h5' $step)"
done
check "a step that has its file is not written again" test "$(grep -c 'pwrite .*step_\|rename .*step_' "$work/trace1")" -eq 0

# the check itself: without one act, or with two exchanged, it must complain
file="$run/step_00000010.h5"
spoilt()
{
    cmp -s "$work/trace0" "$work/spoilt" && return 1
    ! order "$work/spoilt" "$file" >/dev/null
}
for act in "0 fsync $file.tmp" "1 fsync $file.tmp" "1 pwrite $file.tmp" "0 fsync $file.xxh3.tmp" "0 rename $file.tmp" \
    "0 fsync_folder $run"; do
    grep -v " $act\$" "$work/trace0" >"$work/spoilt"
    check "the order without $act is noticed" spoilt
done
awk -v file="$file.tmp" '{ if ($3 == 1 && $4 == "fsync" && $5 == file) $2 = $2 + 100; print }' "$work/trace0" >"$work/spoilt"
check "an fsync that comes too late is noticed" spoilt
finish
