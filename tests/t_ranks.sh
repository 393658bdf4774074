#!/bin/bash
# A killed rank ends the others; a rank that stands still is named and ends the run after comm.timeout, which a slow
# disk does not trigger; a failure of all ranks is reported once; ranks that do not find each other are refused.
. "$abs_top_srcdir/tests/lib.sh"
needs ps
small_deck || exit 1
RANKS_SECONDS=60

# -- A rank that is killed

# gone PROCESS: it has ended (a zombie that nobody waits for has, too)
gone()
{
    case $(ps -o stat= -p "$1") in "" | Z*) return 0 ;; esac
    return 1
}

# await SECONDS COMMAND...: until it succeeds
await()
{
    local until=$((SECONDS + $1))
    shift
    while ! "$@"; do
        [ $SECONDS -lt $until ] || return 1
        sleep 0.1
    done
}

# start NAME RANKS ARGUMENTS...: an endless training into $work/NAME in the background, $job to wait for, that has come
# to its step 50; process ids in $work/pid.RANK
start()
{
    local name=$1 count=$2
    shift 2
    # shellcheck disable=SC2016,SC2086
    $MPIRUN -n "$count" sh -c 'folder=$1; shift; echo $$ >"$folder/pid.$OMPI_COMM_WORLD_RANK"; exec "$CISTRON" train \
        "$folder/deck.cfg" "$@"' sh "$work" output.folder="$work/$name" train.steps=1000000 log.every=50 \
        validation.every=0 checkpoint.every=50 "$@" >"$work/out" 2>&1 &
    job=$!
    await 60 test -e "$work/$name/step_00000050.h5"
}

start killed 3
kill -9 "$(cat "$work/pid.1")"
for rank in 0 2; do
    check "a killed rank: rank $rank is gone" await 60 gone "$(cat "$work/pid.$rank")"
done
check "a killed rank: so is the launcher" await 60 gone $job
wait $job
check "a killed rank: the launcher fails" test $? -ne 0
check "a killed rank: the cause is told once" test "$(grep -c 'signal 9' "$work/out")" -eq 1
ranks 1 train "$work/deck.cfg" output.folder="$work/killed" train.steps=1
check "a killed rank: the run can go on" says "continuing from"

# -- A rank that stands still

# ticks RANK: of processor time that it has used, of 10 ms
ticks()
{
    awk '{ print $14 + $15 }' "/proc/$(cat "$work/pid.$1")/stat"
}

grows() # the log, beyond the size given
{
    [ "$(stat -c %s "$work/still/log.jsonl")" -gt "$1" ]
}

# Standing still for less than the limit does no harm, and whoever waits sleeps; for more, the run ends and says why.
start still 3 comm.timeout=6
kill -STOP "$(cat "$work/pid.2")"
sleep 0.5
before=$(ticks 0)
sleep 1
check "a rank that stands still: the others sleep" test $(($(ticks 0) - before)) -le 30
await 30 grep -q "missing: rank 2 on $(uname -n)" "$work/out"
check "it is told who is missing" says "warning: rank 0 on $(uname -n) has waited for"
size=$(stat -c %s "$work/still/log.jsonl")
kill -CONT "$(cat "$work/pid.2")"
check "the run goes on with it" await 30 grows "$size"
kill -STOP "$(cat "$work/pid.2")"
sleep 0.5
kill -USR1 "$(cat "$work/pid.0")"
# 6 s, but ten times as long if the rank stands still while a checkpoint is written
for rank in 0 1 2; do
    check "for more than the limit, rank $rank ends in time" await 90 gone "$(cat "$work/pid.$rank")"
done
wait $job
check "the launcher ends with 1" test $? -eq 1
reported=$(grep -ao "rank [01]: [a-z_]* number [0-9]* of 3 ranks has not finished on $(uname -n) after [0-9]* s (comm.timeout); missing: rank 2 on $(uname -n)$" "$work/out" | cut -c 1-7)
check "the collective, its number, the host and the missing rank are told" test -n "$reported"
check "once by a rank, which both may be" test -z "$(sort <<<"$reported" | uniq -d)"
check "a request to stop is said to wait" says "a request to stop has to wait too"

# Where files are read and written the limit is ten times as long.
SHIM_FOLDER="$work/slow" SHIM_MATCH=final_model.h5.xxh3 SHIM_RANK=0 SHIM_DELAY=rename:6 \
    LD_PRELOAD="$abs_top_builddir/tests/shim.so" \
    ranks 2 train "$work/deck.cfg" output.folder="$work/slow" comm.timeout=2 checkpoint.every=0
check "a slow disk does not trip it" codes_are 0 2

# Stages whose sends wait until they are received hang: it is told where.
timeout --kill-after=5 60 $MPIRUN -n 2 "$abs_top_builddir/tests/t_pipeline" hang >"$work/out" 2>&1
check "a pipeline that hangs ends with 1" test $? -eq 1
check "it is told that all ranks wait" grep -qE \
    "send_receive number 3 of 2 ranks has not finished on $(uname -n) after [0-9]+ s \(comm.timeout\); missing: none, all ranks wait" "$work/out"

# A rank that stands still when all is done
# shellcheck disable=SC2086
SHIM_RANK=1 SHIM_STOP=1 LD_PRELOAD="$abs_top_builddir/tests/shim.so" timeout --kill-after=5 60 $MPIRUN -n 2 \
    "$CISTRON" train "$work/deck.cfg" output.folder="$work/end" comm.timeout=2 >"$work/out" 2>&1
check "a rank that stands still at the end: the launcher ends with 1" test $? -eq 1
check "it is said" says "a rank has not reached the end of the program within comm.timeout; all work was completed"
check "and all was" test -e "$work/end/final_model.h5"

# -- What breaks several ranks at once

# starved RANKS CONDITION: a model of 7 GiB, memory of 6 GiB to the ranks that fulfil the condition
starved()
{
    # shellcheck disable=SC2086
    timeout 60 $MPIRUN -n "$1" sh -c 'rank=$OMPI_COMM_WORLD_RANK; if '"$2"'; then ulimit -v 6000000; fi
        exec "$CISTRON" train "$1/deck.cfg" model.layers=1 model.hidden=16384 model.heads=128 model.kv_heads=128 \
        model.ffn=16384 device.memory=1000000 output.folder="$1/starved"' sh "$work" >"$work/out" 2>&1
}

# reported_once CONDITION TEXT: in one run of three at least, since the launcher may take half a second to end the others
reported_once()
{
    for _ in 1 2 3; do
        starved 4 "$1"
        [ "$(grep -c "$2" "$work/out")" -eq 1 ] && return
    done
    return 1
}

if (ulimit -v 6000000 && "$CISTRON" --version >/dev/null 2>&1); then # sanitizers need more
    start=$SECONDS
    starved 4 true
    check "no memory on 4 ranks: the launcher fails" test $? -ne 0
    check "no memory on 4 ranks: told once" reported_once true 'out of memory'
    check "no memory on ranks 1 to 3: told once" reported_once '[ $rank -gt 0 ]' 'rank [1-3]: out of memory'
    check "all end soon" test $((SECONDS - start)) -le 100
fi

# -- Ranks that did not find each other

# alone WORDS VARIABLES...: one process that MPI leaves alone, in a launcher's environment; it says the words
alone()
{
    local words=$1
    shift
    env "$@" timeout 20 "$CISTRON" train "$work/deck.cfg" train.steps=1 output.folder="$work/alone" >"$work/out" 2>&1
    check "$*: refused" test $? -eq 2
    check "$*: says what to do, if it is the first" test "$(grep -c "$words.*--mpi=pmix" "$work/out")" -eq 1
    check "$*: nothing else is said" test "$(wc -l <"$work/out")" -eq 1
}

alone "Open MPI's mpirun started 3" OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=0
alone "MPICH.* started 2" PMI_SIZE=2 PMI_RANK=0
alone "MPICH.* started 2" MPI_LOCALNRANKS=2 MPI_LOCALRANKID=0
alone "srun started 4 processes" SLURM_STEP_ID=0 SLURM_NTASKS=4 SLURM_PROCID=0 PMI_RANK=0
if $MPIRUN --version | grep -q 'Open MPI) 4'; then
    alone "without PMIx" SLURM_STEP_ID=0 SLURM_NTASKS=4 SLURM_PROCID=0
    alone "without PMIx" SLURM_STEP_ID=0 SLURM_NTASKS=1 SLURM_PROCID=0
fi

for rank in OMPI_COMM_WORLD_SIZE=3,OMPI_COMM_WORLD_RANK=2 PMI_SIZE=2,PMI_RANK=1 SLURM_STEP_ID=0,SLURM_NTASKS=4,SLURM_PROCID=1; do
    # shellcheck disable=SC2086
    env ${rank//,/ } timeout 20 "$CISTRON" train "$work/deck.cfg" output.folder="$work/alone" >"$work/out" 2>&1
    check "$rank: refused" test $? -eq 2
    check "$rank: leaves the word to the first" test ! -s "$work/out"
done
check "none of them began a run" test ! -e "$work/alone"

# one rank on purpose: of an mpirun, in a batch script, in salloc's shell
for one in OMPI_COMM_WORLD_SIZE=1,OMPI_COMM_WORLD_RANK=0,SLURM_STEP_ID=0,SLURM_NTASKS=4 SLURM_NTASKS=4,SLURM_PROCID=0 \
    SLURM_STEP_ID=4294967290,SLURM_NTASKS=4,SLURM_PROCID=0; do
    # shellcheck disable=SC2086
    env ${one//,/ } timeout 60 "$CISTRON" train "$work/deck.cfg" train.steps=1 output.folder="$work/one" >"$work/out" 2>&1
    check "$one: trains" test $? -eq 0
    rm -rf "$work/one"
done

# -- Commands that login nodes run never start MPI: no rank's environment, no launcher needed

if command -v strace >/dev/null; then
    for arguments in --help --version "train --help" deck "prepare --help" "inspect $work/g.train.h5"; do
        # shellcheck disable=SC2086
        strace -f -e trace=openat -o "$work/trace" "$CISTRON" $arguments >"$work/out" 2>&1
        if [ -s "$work/trace" ]; then
            check "cistron $arguments opens no MPI component" test "$(grep -c 'mca_\(btl\|pml\)' "$work/trace")" -eq 0
        fi
    done
fi
finish
