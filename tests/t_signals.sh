#!/bin/bash
# Signals, the files `stop` and `checkpoint`, walltime and a lost reader stop a run or make it save, in training,
# validation and start-up: exit code 85 on all ranks, and the resumed run has the losses of an uninterrupted one, each
# step once.
. "$abs_top_srcdir/tests/lib.sh"
needs ps
small_deck || exit 1
genome 5 1500000 >"$work/long.fa"
"$CISTRON" prepare --tokenizer nucleotide -o "$work/long.h5" "$work/long.fa" "$work/long.fa" "$work/long.fa" >/dev/null || exit 1

# kill_all: what start has left running
kill_all()
{
    # shellcheck disable=SC2046
    kill -0 "$launcher" 2>/dev/null && kill -9 "$launcher" $(cat "$work"/pid.* 2>/dev/null) 2>/dev/null
}
launcher=
trap 'kill_all; rm -rf "$work"' EXIT

# start N ARGUMENTS...: cistron train in the background, $launcher to wait for; N is 0 for a process of its own, else
# mpirun's ranks, which record process ids in $work/pid.RANK and exit codes in $work/code.RANK. Unlike what bash does to
# background processes, INT is not ignored. Standard output goes to $output.
output=$work/out
start()
{
    local count=$1
    shift
    rm -f "$work"/code.* "$work"/pid.*
    : >"$work/out"
    set -- train "$work/deck.cfg" train.steps=1000000000 schedule.decay=100000 output.folder="$folder" \
        validation.every=0 checkpoint.every=0 "$@"
    if [ "$count" -eq 0 ]; then
        env --default-signal=INT,HUP "$CISTRON" "$@" >>"$output" 2>>"$work/out" &
    else
        # the shell around a rank outlives what is sent to its whole process group
        # shellcheck disable=SC2016
        env --default-signal=INT $MPIRUN -n "$count" sh -c 'trap : USR1 USR2 TERM INT; folder=$1; shift
            sh -c "echo \$\$ >$folder/pid.$OMPI_COMM_WORLD_RANK; exec \"\$@\"" sh "$CISTRON" "$@"
            echo $? >"$folder/code.$OMPI_COMM_WORLD_RANK"' sh "$work" "$@" >"$work/out" 2>&1 &
    fi
    launcher=$!
}

# await COMMAND...: until it succeeds, or the run is over, or five minutes
await()
{
    for _ in $(seq 10000); do
        "$@" 2>/dev/null && return
        kill -0 "$launcher" 2>/dev/null || return 1
        sleep 0.03
    done
    return 1
}

# logs TEXT: in the log of the run
logs()
{
    grep -q -- "$1" "$folder/log.jsonl"
}

saved_twice()
{
    [ "$(grep -c '"event":"checkpoint"' "$folder/log.jsonl")" -ge 2 ]
}

trained()
{
    logs '"event":"step","step":20,'
}

# ends: its exit code in $status, what it took in $seconds
ends()
{
    local before
    before=$(date +%s.%N)
    for _ in $(seq 3000); do
        kill -0 "$launcher" 2>/dev/null || break
        sleep 0.1
    done
    kill_all
    wait "$launcher"
    status=$?
    launcher=
    seconds=$(awk -v a="$before" -v b="$(date +%s.%N)" 'BEGIN { printf "%.2f", b - a }')
    cat "$work"/code.* 2>/dev/null | tr '\n' ' ' >"$work/codes"
}

within()
{
    awk -v seconds="$seconds" -v most="$1" 'BEGIN { exit !(seconds <= most) }' || { echo "    took $seconds s" >&2; return 1; }
}

# saved: the step of the newest checkpoint of the run
saved()
{
    ls "$folder" | sed -n 's/^step_0*\([0-9]*\)\.h5$/\1/p' | sort -n | tail -n 1
}

last_logged()
{
    losses "$folder" | tail -n 1 | cut -d ' ' -f 1
}

# goes_on TEXT N: the run, stopped on N ranks, is started again for five more steps
runs=
goes_on()
{
    local step
    step=$(saved)
    check "$1: the step that it stopped at is saved" test "${step:-none}" = "$(last_logged)"
    finishes "$1" "$2"
}

finishes()
{
    local step
    step=$(saved)
    start "$2" train.steps=$((${step:-0} + 5))
    ends
    check "$1: goes on to its end" test $status -eq 0
    check "$1: from its checkpoint" says "continuing from $folder/step_$(printf %08d "${step:-0}").h5"
    runs="$runs $2:$folder"
}

stopped_with_85()
{
    [ $status -eq 85 ] && return
    echo "    exit code $status" >&2
    sed 's/^/    | /' "$work/out" | tail -n 20 >&2
    return 1
}

# A plain process.
for signal in TERM INT HUP USR1; do
    folder=$work/plain.$signal
    start 0
    await trained
    check "without a launcher: no daemon of MPI's is started" test -z "$(ps -o args= --ppid $launcher)"
    kill -$signal $launcher
    ends
    check "$signal: exit code 85" stopped_with_85
    check "$signal: soon" within 30
    goes_on "$signal" 0
done

# Nothing new to save: stopped where it started, with the checkpoint that is there. The signal comes as soon as it is
# caught, before the first step and before MPI is up.
caught() # whether USR1 waits to be heard, instead of ending the process
{
    (($(sed -n 's/^SigBlk:\t/0x/p' "/proc/$launcher/status") & 0x200))
}
ls -l --time-style=full-iso "$folder"/*.h5 >"$work/before"
step=$(last_logged)
start 0
await caught
kill -USR1 $launcher
ends
check "at the start, from a checkpoint: exit code 85" stopped_with_85
check "at the start, from a checkpoint: no step is made" test "$(last_logged)" = "$step"
check "nothing new to save: no file is written" cmp "$work/before" <(ls -l --time-style=full-iso "$folder"/*.h5)
folder=$work/nothing
start 0
await caught
kill -USR1 $launcher
ends
check "at the very start: exit code 85" stopped_with_85
check "at the very start: no file" test -z "$(saved)"

folder=$work/plain.USR2
start 0
await trained
kill -USR2 $launcher
await logs '"event":"checkpoint"'
first=$(saved)
check "USR2: a checkpoint, and the run goes on" await logs "\"event\":\"step\",\"step\":$((first + 20)),"
kill -USR1 $launcher
ends
check "USR2, then USR1: exit code 85" stopped_with_85
check "USR2, then USR1: two checkpoints" test "$(ls "$folder" | grep -c '^step_.*h5$')" -eq 2
goes_on "USR2" 0

# By time, with what cannot be removed in the way of the files that ask
folder=$work/time
mkdir -p "$folder/stop" "$folder/checkpoint"
start 2 checkpoint.every_minutes=0.002
check "by time: a checkpoint, and the run goes on" await logs '"event":"save".*every_minutes'
check "by time: and another" await saved_twice
check "folders in place of files: are named" says "$folder/stop: ignored as a request"
kill -USR1 $launcher
ends
check "by time: exit code 85 on both ranks" codes_are 85 2
check "by time: checkpoint.keep holds" test "$(ls "$folder" | grep -c '^step_.*h5$')" -le 3
goes_on "by time" 2

# cistron train | head
folder=$work/pipe
mkfifo "$work/fifo"
head -n 40 "$work/fifo" >/dev/null &
output=$work/fifo
start 0
output=$work/out
ends
check "a lost reader: exit code 1" test $status -eq 1
check "a lost reader: is said" says "the reader of standard output has ended"
goes_on "a lost reader" 0

# Signals at any moment do no harm to what they interrupt.
folder=$work/storm
start 0
await trained
for _ in $(seq 80); do
    kill -USR2 $launcher
    sleep 0.01
done
kill -USR1 $launcher
ends
check "many USR2: exit code 85" stopped_with_85
goes_on "many USR2" 0

# Steps so long that the first signal cannot be heeded: the second ends the process at once.
folder=$work/second
start 0 train.global_batch=60000
await grep -q '# memory of a rank' "$work/out"
sleep 0.5 # it is in its first step, which takes longer than all that follows
kill -TERM $launcher
kill -TERM $launcher # as timeout(1) does: to the process and to its group
sleep 1
kill -0 $launcher
check "the first TERM, even in two, waits for the step's end" test $? -eq 0
kill -TERM $launcher
ends
check "a second TERM ends it at once" within 5
check "as TERM does" test $status -eq 143

# In validation, by signal and by file
for way in signal file; do
    folder=$work/validation.$way
    start 0 data.valid="$work/long.h5" validation.every=20 validation.rows=0
    await trained
    sleep 0.2
    if [ $way = signal ]; then kill -USR1 $launcher; else touch "$folder/stop"; fi
    ends
    check "in validation, by $way: exit code 85" stopped_with_85
    check "in validation, by $way: soon" within 30
    check "in validation, by $way: given up" test "$(grep -c '"event":"validation"' "$folder/log.jsonl")" -eq 0
    goes_on "in validation, by $way" 0
done

# Under mpirun: USR1 and USR2 go on to the ranks, which do not hear them at the same step
folder=$work/mpirun.USR1
start 2
await trained
kill -USR2 $launcher
await logs '"event":"checkpoint"'
first=$(saved)
check "USR2 to mpirun: the run goes on" await logs "\"event\":\"step\",\"step\":$((first + 20)),"
# or one more, where a rank hears it when the first is written
check "USR2 to mpirun: one checkpoint" grep -qx '[12]' <<<"$(ls "$folder" | grep -c '^step_.*h5$')"
kill -USR1 $launcher
ends
check "USR1 to mpirun: exit code 85 on both ranks" codes_are 85 2
goes_on "USR1 to mpirun" 2

# mpirun's own exit code: 85, and with --quiet nothing besides; 1 where it was sent TERM
for signal in USR1 TERM; do
    folder=$work/own.$signal
    env --default-signal=INT $MPIRUN --quiet -n 2 "$CISTRON" train "$work/deck.cfg" train.steps=1000000000 \
        schedule.decay=100000 output.folder="$folder" validation.every=0 checkpoint.every=0 >"$work/out" 2>&1 &
    launcher=$!
    await trained
    kill -$signal $launcher
    wait $launcher
    code=$?
    launcher=
    if [ $signal = USR1 ]; then
        check "USR1 to mpirun: it ends with 85" test $code -eq 85
        check "USR1 to mpirun: the last line says it" grep -q '^# exit code 85: .*what mpirun says' \
            <(grep -v '^mpirun: Forwarding\|^$' "$work/out" | tail -n 1)
    else
        check "TERM to mpirun: it ends with 1" test $code -eq 1
    fi
done

folder=$work/rank.USR1
start 2
await trained
kill -USR1 "$(cat "$work/pid.1")"
ends
check "USR1 to rank 1 alone: exit code 85 on both ranks" codes_are 85 2
goes_on "USR1 to rank 1 alone" 2

# The files, and each is removed when it is honoured
folder=$work/files
start 2
await trained
touch "$folder/checkpoint"
await logs '"event":"checkpoint"'
first=$(saved)
check "file checkpoint: the run goes on" await logs "\"event\":\"step\",\"step\":$((first + 20)),"
check "file checkpoint: removed" test ! -e "$folder/checkpoint"
touch "$folder/stop"
ends
check "file stop: exit code 85 on both ranks" codes_are 85 2
check "file stop: removed" test ! -e "$folder/stop"
check "file stop: soon" within 30
check "files: two checkpoints" test "$(ls "$folder" | grep -c '^step_.*h5$')" -eq 2
goes_on "files" 2

# The time from the program's start counts; mpirun's own start and end come on top
folder=$work/walltime
start 2 train.walltime=00:00:04
ends
check "train.walltime: exit code 85 on both ranks" codes_are 85 2
check "train.walltime: in time" within 30 # it would not end
goes_on "train.walltime" 2

# mpirun makes TERM of INT and TERM a second later, and kills about a second after that: long steps get no time, and the
# last checkpoint stands. One that is written beside the steps has its name when the next begins, if not before: so those
# of two saves may be lost.
for signal in TERM INT; do
    folder=$work/mpirun.$signal
    start 2 checkpoint.every=10 checkpoint.keep=1000000
    await trained
    kill -$signal $launcher
    # shellcheck disable=SC2046
    kill -STOP $(cat "$work"/pid.*) # ranks that cannot save in the time, whatever the machine's speed
    ends
    check "$signal to mpirun: ends within seconds" within 30
    check "$signal to mpirun: not as if it had saved" test $status -ne 85
    check "$signal to mpirun: the steps since the last checkpoint are lost" test $(($(last_logged) - $(saved))) -le 20
    finishes "$signal to mpirun" 2
done

# The runs that never stopped, as long as the longest of those that did
for count in 0 2; do
    most=0
    for run in $runs; do
        folder=${run#*:}
        last=$(last_logged)
        [ "${run%%:*}" -eq $count ] && [ "$last" -gt $most ] && most=$last
    done
    folder=$work/whole.$count
    start $count train.steps=$most
    ends
    check "a run of $most steps that is left alone" test $status -eq 0
    losses "$folder" >"$work/whole"
    for run in $runs; do
        [ "${run%%:*}" -eq $count ] || continue
        folder=${run#*:}
        losses "$folder" >"$work/losses"
        check "${folder##*/}: the losses of the run that never stopped, each step once" \
            cmp <(head -n "$(last_logged)" "$work/whole") "$work/losses"
    done
done
finish
