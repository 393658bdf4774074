#!/bin/bash
# jobscripts/train.slurm on a throw-away Slurm of two nodes: warned before its time limit, the job saves, puts itself
# back into the queue and goes on to the losses of a run that never stopped; with srun and with mpirun. Without its trap
# it does not come back; cancelled, it does not either, but has saved. An array trains a seed a task.
. "$abs_top_srcdir/tests/lib.sh"
PATH=$PATH:/usr/sbin:/sbin # where the daemons lie
sandbox=$CISTRON_SHARED/slurm/slurm-sandbox.sh
skip()
{
    echo "skipped: $1"
    exit 77
}

# Without Slurm: what the job script starts. %a is the number of an array's task, and nothing else anywhere else
mkdir "$work/bin"
printf '#!/bin/sh\nprintf "%%s|" "$@"\n' >"$work/bin/mpirun"
chmod +x "$work/bin/mpirun"
# started ENVIRONMENT: the words of the job's command
started()
{
    env -u SLURM_CPUS_PER_TASK "$@" PATH="$work/bin:$PATH" CISTRON_LAUNCHER=mpirun CISTRON=cistron \
        bash "$abs_top_srcdir/jobscripts/train.slurm" "my deck.cfg" output.folder=a%a-%a
}
words='--map-by|slot:PE=1|cistron|train|my deck.cfg|output.folder='
check "%a outside an array" test "$(started -u SLURM_ARRAY_TASK_ID)" = "${words}a%a-%a|"
check "%a in an array" test "$(started SLURM_ARRAY_TASK_ID=7)" = "${words}a7-7|"
[ $failures -eq 0 ] || finish

[ -f "$sandbox" ] || skip "no $sandbox"
for tool in sbatch srun slurmctld slurmd munged; do
    needs $tool
done
unset "${!SLURM_@}" "${!SBATCH_@}" # of a job that this test may run in
export SB=$work/box NODES=2 CPUS=8 GPUS=0

in_use()
{
    (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null
}
PORT=$((20000 + $$ % 117 * 102)) # tests that run side by side have other ports, 102 each
while in_use $PORT || in_use $((PORT + 100)) || in_use $((PORT + 101)); do
    PORT=$((PORT + 102))
done
export PORT

chmod 755 "$work" # munged keeps no socket where others could not reach it
# All is stopped and removed at the end, by a process of its own, which waits for the end of what the test writes to it:
# so also when the test is killed.
export work sandbox
# shellcheck disable=SC2016
exec {alive}> >(exec setsid bash -c '
    cat
    SLURM_CONF=$SB/conf/slurm.conf timeout 10 scancel --quiet --signal=KILL --full --user="$(id -un)"
    bash "$sandbox" stop
    for process in /proc/[0-9]*; do # what is left of daemons and jobs
        grep -aqz -e "^SLURM_CONF=$SB/" -e "^--key-file=$SB/" "$process/environ" "$process/cmdline" &&
            kill -KILL "${process#/proc/}"
    done
    rm -rf "$work"' >/dev/null 2>&1)
watcher=$!
trap 'exec {alive}>&-; wait $watcher 2>/dev/null' EXIT
if ! bash "$sandbox" start >"$work/sandbox" 2>&1 {alive}>&-; then
    tail -n 5 "$work/sandbox" "$SB"/log/* "$SB"/munge/log 2>/dev/null
    skip "Slurm's daemons do not start here"
fi
eval "$(bash "$sandbox" env)"
[ "$(sinfo --noheader --Node --states=idle | wc -l)" -eq $NODES ] || skip "Slurm's nodes do not come up here"

# the job script calls the mpirun that the program was built with, and Slurm decides who runs where
launcher_path=${MPIRUN%% *}
[[ $launcher_path = */* ]] && PATH=$(dirname "$launcher_path"):$PATH
unset OMPI_MCA_rmaps_base_oversubscribe
small_deck || exit 1
script=$abs_top_srcdir/jobscripts/train.slurm
steps=1000000000

# submit NAME SCRIPT "OPTIONS" ARGUMENTS...: the job that trains $work/NAME.cfg into $work/NAME and writes to
# $work/NAME.out
submit()
{
    local name=$1 script=$2 options=$3
    shift 3
    sed "s,$work/run,$work/$name,; s/steps = [0-9]*/steps = $steps/; s/decay = [0-9]*/decay = 100000/
        s/global_batch = [0-9]*/global_batch = 64/; s/every = 6/every = 0/" "$work/deck.cfg" >"$work/$name.cfg"
    (cd "$work" && sbatch --parsable --output="$work/$name.out" --nodes=2 --ntasks-per-node=1 --cpus-per-task=1 \
        $options "$script" "$name.cfg" "$@")
}

# job ID FIELD: as Slurm has it; of an array, what its tasks have
job()
{
    scontrol --oneliner show job "$1" 2>/dev/null | tr ' ' '\n' | sed -n "s/^$2=//p" | sort -u
}

# await SECONDS COMMAND...
await()
{
    local tries=$(($1 * 5))
    shift
    until "$@"; do
        [ $((tries--)) -gt 0 ] || return 1
        sleep 0.2
    done
}

state_is()
{
    [[ " $2 " = *" $(job "$1" JobState) "* ]]
}

# cleared ID: nothing is left of the job's life on the nodes; a step of the next one has the same name
cleared()
{
    ! compgen -G "$SB/spool.*/*_$1.*" >/dev/null && ! compgen -G "$SB/tmp.*/*_$1.*" >/dev/null
}

last_logged()
{
    losses "$1" | tail -n 1 | cut -d ' ' -f 1
}

has_trained()
{
    [ -f "$1/log.jsonl" ] && [ -n "$(losses "$1" | head -n 1)" ]
}

saved()
{
    ls "$1" | sed -n 's/^step_0*\([0-9]*\)\.h5$/\1/p' | sort -n | tail -n 1
}

# The shortest limit there is, and a warning 20 to 50 s ahead of it
limit="--time=1 --signal=B:USR1@20"
launchers=mpirun
srun --mpi=list 2>&1 | grep -qw pmix && launchers="srun mpirun"
declare -A id last
for launcher in $launchers; do
    id[$launcher]=$(CISTRON_LAUNCHER=$launcher submit $launcher "$script" "$limit")
done
grep -v "^trap .* USR1$" "$script" >"$work/no_trap.slurm"
check "a trap is taken out" test "$(diff "$script" "$work/no_trap.slurm" | grep -c '^<')" -eq 1
id[no_trap]=$(CISTRON_LAUNCHER=mpirun submit no_trap "$work/no_trap.slurm" "$limit")

# Meanwhile: cancelled. srun's ranks have Slurm's KillWait to save; mpirun kills sooner, so there the script alone is
# told, and asks for the save.
for launcher in $launchers; do
    name=cancelled.$launcher
    id[$name]=$(CISTRON_LAUNCHER=$launcher submit $name "$script" --time=10)
    check "$name: it runs" await 60 has_trained "$work/$name"
    if [ $launcher = srun ]; then scancel "${id[$name]}"; else scancel --batch --signal=TERM "${id[$name]}"; fi
    check "$name: it ends" await 30 state_is "${id[$name]}" "FAILED CANCELLED"
    check "$name: it does not come back" test "$(job "${id[$name]}" Restarts)" = 0
    check "$name: it has saved" test "$(saved "$work/$name")" = "$(last_logged "$work/$name")"
done

# An array: %a is a task's number.
steps=2
array=$(submit seed "$script" "--time=10 --array=1-2" train.seed=%a "output.folder=$work/seed-%a")
check "array: it ends" await 90 state_is "$array" COMPLETED
for task in 1 2; do
    check "array: task $task has its seed" grep -q "seed = $task;" "$work/seed-$task/deck.cfg"
    check "array: task $task has trained" test "$(last_logged "$work/seed-$task")" = 2
done

# The warning has come and each job waits in the queue. It would be held there for two minutes, unless told otherwise;
# and it needs no more than a few steps then.
most=0
for launcher in $launchers; do
    check "$launcher: requeued" await 90 state_is "${id[$launcher]}" PENDING
    check "$launcher: stopped by the warning" grep -q "a signal asks to stop" "$work/$launcher.out"
    step=$(saved "$work/$launcher")
    check "$launcher: every step is saved" test "${step:-none}" = "$(last_logged "$work/$launcher")"
    steps=$((step + 10))
    sed -i "s/steps = [0-9]*/steps = $steps/" "$work/$launcher.cfg"
    last[$launcher]=$steps
    [ $steps -gt $most ] && most=$steps
    await 60 cleared "${id[$launcher]}"
    await 30 scontrol update "JobId=${id[$launcher]}" StartTime=now
done
check "without the trap: it ends" await 90 state_is "${id[no_trap]}" "FAILED TIMEOUT"
check "without the trap: it does not come back" test "$(job "${id[no_trap]}" Restarts)" = 0
for launcher in $launchers; do
    check "$launcher: finished" await 90 state_is "${id[$launcher]}" COMPLETED
    check "$launcher: in its second life" test "$(job "${id[$launcher]}" Restarts)" = 1
    check "$launcher: to its last step" test "$(last_logged "$work/$launcher")" = "${last[$launcher]}"
    check "$launcher: went on from its checkpoint" grep -q "continuing from" "$work/$launcher.out"
    check "$launcher: one file has both lives" test "$(grep -c '# memory of a rank' "$work/$launcher.out")" -eq 2
done

steps=$most
id[whole]=$(CISTRON_LAUNCHER=mpirun submit whole "$script" --time=10)
check "a run that is left alone" await 200 state_is "${id[whole]}" COMPLETED
losses "$work/whole" >"$work/whole.losses"
for launcher in $launchers; do
    losses "$work/$launcher" >"$work/losses"
    check "$launcher: the losses of the run that never stopped, each step once" \
        cmp <(head -n "$(last_logged "$work/$launcher")" "$work/whole.losses") "$work/losses"
done
echo "$launchers: $most steps at most"
finish
