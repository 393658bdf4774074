#!/bin/bash
# The job scripts run on a Slurm of three nodes that the test starts, with srun and mpirun: warned before its time
# limit, a job saves, requeues itself and finishes with the losses of an uninterrupted run; killed, it resumes at the
# next submission. After a killed rank the job starts the run again on its other node. Arrays, cancelled jobs, GPUs of ranks and sweeps whose cases are jobs are checked.
. "$abs_top_srcdir/tests/lib.sh"
PATH=$PATH:/usr/sbin:/sbin # where the daemons lie
for tool in sbatch srun slurmctld slurmd munged; do
    needs $tool
done
unset "${!SLURM_@}" "${!SBATCH_@}" # of a job that this test may run in
export work
slurm=$abs_top_srcdir/tests/slurm
box=$work/box
chmod 755 "$work" # munged keeps no socket where others could not reach it
# All is stopped and removed at the end, by a process of its own, which waits for the end of what the test writes to it:
# so also when the test is killed.
# shellcheck disable=SC2016
exec {alive}> >(exec setsid bash -c 'cat; "$0" stop "$work/box"; rm -rf "$work"' "$slurm" >/dev/null 2>&1)
watcher=$!
trap 'exec {alive}>&-; wait $watcher 2>/dev/null' EXIT
if ! "$slurm" start "$box" 3 >"$work/start" 2>&1 {alive}>&-; then
    cat "$work/start"
    echo "skipped: Slurm's daemons do not start here"
    exit 77
fi
eval "$("$slurm" env "$box")"

# the job script calls the mpirun that the program was built with, and Slurm decides who runs where
launcher_path=${MPIRUN%% *}
[[ $launcher_path = */* ]] && PATH=$(dirname "$launcher_path"):$PATH
unset OMPI_MCA_rmaps_base_oversubscribe
small_deck || exit 1
scripts=$abs_top_srcdir/jobscripts
script=$scripts/train.slurm
steps=1000000000

# submit NAME SCRIPT "OPTIONS" ARGUMENTS...: the job that trains $work/NAME.cfg into $work/NAME and writes to
# $work/NAME.out, on the first two nodes, which such jobs share
submit()
{
    local name=$1 script=$2 options=$3
    shift 3
    sed "s,$work/run,$work/$name,; s/steps = [0-9]*/steps = $steps/; s/decay = [0-9]*/decay = 100000/
        s/global_batch = [0-9]*/global_batch = 64/; s/every = 6/every = 0/" "$work/deck.cfg" >"$work/$name.cfg"
    resubmit "$name" "$script" "$options" "$@"
}

# resubmit NAME SCRIPT "OPTIONS" ARGUMENTS...: as submit, with the deck that is there
resubmit()
{
    local name=$1 script=$2 options=$3
    shift 3
    (cd "$work" && sbatch --parsable --output="$work/$name.out" --nodes=2 --exclude=n2 --ntasks-per-node=1 \
        --cpus-per-task=1 $options "$script" "$name.cfg" "$@")
}

# aside NAME OPTIONS...: another job, on the third node; %j and the like do not stand in its output's name
aside()
{
    local name=$1
    shift
    (cd "$work" && sbatch --parsable --output="$work/$name.out" "$@")
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

# sees NAME: the different lists of GPUs that its ranks have
sees()
{
    sed -n 's/^rank .* sees \([^ ]*\) .*/\1/p' "$work/$1.out" | sort -u | paste -s -d ' '
}

restarts_are()
{
    [ "$(job "$1" Restarts | tr '\n' ' ')" = "$2" ]
}

state_is()
{
    [[ " $2 " = *" $(job "$1" JobState) "* ]]
}

has_ended()
{
    [[ "$(job "$1" JobState | paste -s -d ' ') " =~ ^((COMPLETED|FAILED|CANCELLED|TIMEOUT|NODE_FAIL|OUT_OF_MEMORY)\ )+$ ]]
}

# ends SECONDS ID "STATES": it ends in that time, in one of these states; else what Slurm knows of it is shown
ends()
{
    await "$1" has_ended "$2"
    state_is "$2" "$3" && return
    scontrol --oneliner show job "$2" | cut -c1-600 | sed 's/^/    | /' >&2
    grep -hE "JobId=$2\b|\[$2\.|batch job $2 " "$box"/log/slurm*.log | tail -n 20 | sed 's/^/    | /' >&2
    return 1
}

# cleared ID: nothing is left of the job's life on the nodes; a step of the next one has the same name
cleared()
{
    ! compgen -G "$box/spool.*/*_$1.*" >/dev/null && ! compgen -G "$box/tmp.*/*_$1.*" >/dev/null
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

# A warning 20 to 50 s behind the start: not while a job starts on a loaded machine
limit="--time=2 --signal=B:USR1@70"
launchers=mpirun
srun --mpi=list 2>&1 | grep -qw pmix && launchers="srun mpirun"
declare -A id last
for launcher in $launchers; do
    id[$launcher]=$(CISTRON_LAUNCHER=$launcher submit $launcher "$script" "$limit")
done
# hold_requeued ID: once the job has been requeued, holds it until it is released. Slurm itself would hold it for two
# minutes only, and what is checked meanwhile takes longer on a slow machine.
hold_requeued()
{
    local seconds
    for ((seconds = 0; seconds < 600; seconds++)); do
        restarts_are "$1" "1 " && scontrol hold "$1" && return
        sleep 1
    done
}
for launcher in $launchers; do
    hold_requeued "${id[$launcher]}" {alive}>&- &
done
# The same program, but the job scripts share a file without the trap
grep -v "^ *trap .* USR1$" "$scripts/common.sh" >"$work/no_trap.common"
check "a trap is taken out" test "$(diff "$scripts/common.sh" "$work/no_trap.common" | grep -c '^<')" -eq 1
printf '#!/bin/sh\n[ "$1 $2" = "jobscripts common.sh" ] && exec cat %q\nexec %q "$@"\n' "$work/no_trap.common" "$CISTRON" \
    >"$work/no_trap.cistron"
chmod +x "$work/no_trap.cistron"
id[no_trap]=$(CISTRON=$work/no_trap.cistron CISTRON_LAUNCHER=mpirun submit no_trap "$script" "$limit")

# Its warning is one that nobody hears, and its second save takes longer than there is.
slow="env LD_PRELOAD=$abs_top_builddir/tests/shim.so SHIM_FOLDER=$work/limit SHIM_MATCH=step_00000040 SHIM_DELAY=fsync:300"
id[limit]=$(CISTRON_WRAPPER=$slow CISTRON_LAUNCHER=${launchers%% *} submit limit "$script" "--time=1 --signal=B:CONT@20" \
    checkpoint.every=20)

# On the third node, of which each is given a part or all: what a rank sees. Slurm's GPUs are stand-ins.
cat >"$work/probe" <<END
#!/bin/sh
[ "\$1" = jobscripts ] && exec "$CISTRON" "\$@"
echo "rank \${OMPI_COMM_WORLD_RANK:-\$SLURM_PROCID} sees \$CUDA_VISIBLE_DEVICES and runs \$OMP_NUM_THREADS"
END
# Of an array the task whose number is the array's own stops early in its first life; no array: the training diverges
cat >"$work/stops_early" <<END
#!/bin/sh
[ "\$1" = jobscripts ] && exec "$CISTRON" "\$@"
[ "\$SLURM_JOB_ID" = "\$SLURM_ARRAY_JOB_ID" ] && [ "\${SLURM_RESTART_COUNT:-0}" = 0 ] && exit 85
[ "\${SLURM_ARRAY_TASK_ID:-}" != "" ] || exit 3
exit 0
END
chmod +x "$work/probe" "$work/stops_early"
# A warning that is due before a job's start would come while the job starts, and end it.
part="--nodelist=n2 --nodes=1 --time=2 --signal=B:USR1@20"
for launcher in $launchers; do
    id[task.$launcher]=$(CISTRON=$work/probe CISTRON_LAUNCHER=$launcher aside task.$launcher $part --ntasks-per-node=2 \
        --gpus-per-task=1 --cpus-per-task=1 "$script" x)
    id[node.$launcher]=$(CISTRON=$work/probe CISTRON_LAUNCHER=$launcher aside node.$launcher $part --ntasks-per-node=1 \
        --gpus-per-node=3 --cpus-per-task=2 --exclusive --mem=0 "$script" x)
done
id[three]=$(CISTRON=$work/stops_early aside three $part "$script" x)
id[user]=$(aside user $part --ntasks-per-node=1 "$script" "$work/nowhere.cfg")
id[lost]=$(CISTRON=$work/nowhere/cistron aside lost $part "$script" x)
id[alone]=$(aside alone $part --ntasks-per-node=2 --wrap "srun --mpi=none '$CISTRON' train '$work/limit.cfg' output.folder='$work/alone'")
early=$(CISTRON=$work/stops_early aside early $part --ntasks-per-node=1 --array=1-2 "$scripts/seeds.slurm")

# Every script is one that Slurm takes, asks its own cistron for what it shares, and plans in a job
for template in "$scripts"/*.slurm; do
    name=$(basename "$template" .slurm)
    fits="$part --cpus-per-task=1"
    grep -q gpus-per-node "$template" && fits="$fits --gpus-per-node=4"
    check "$name: Slurm takes it" sbatch --test-only $fits "$template" 2>"$work/out"
    case $name in
    train | fine_tune | esm2_peft | seeds) continue ;; # planned with keys of their own by t_jobscripts.sh
    esac
    id[plan.$name]=$(aside plan.$name $fits --ntasks-per-node=2 "$template" --plan device.memory=1000)
done

# Meanwhile: cancelled. srun's ranks have Slurm's KillWait to save; mpirun kills sooner, so there the script alone is
# told, and asks for the save.
for launcher in $launchers; do
    name=cancelled.$launcher
    id[$name]=$(CISTRON_LAUNCHER=$launcher submit $name "$script" --time=10)
    check "$name: it runs" await 60 has_trained "$work/$name"
    if [ $launcher = srun ]; then scancel "${id[$name]}"; else scancel --batch --signal=TERM "${id[$name]}"; fi
    check "$name: it ends" ends 120 "${id[$name]}" "FAILED CANCELLED"
    check "$name: it does not come back" test "$(job "${id[$name]}" Restarts)" = 0
    check "$name: it has saved" test "$(saved "$work/$name")" = "$(last_logged "$work/$name")"
done

# A rank is killed: the job starts the run again on the other node.
steps=400
for launcher in $launchers; do
    name=killed.$launcher
    id[$name]=$(CISTRON_PAUSE=0 CISTRON_LAUNCHER=$launcher submit $name "$script" --time=10 checkpoint.every=5)
    check "$name: it saves" await 60 test -e "$work/$name/step_00000005.h5"
    kill -KILL "$(pgrep -f "^[^ ]*cistron train $name.cfg" | tail -n 1)"
    check "$name: it ends" ends 240 "${id[$name]}" COMPLETED
    check "$name: in the same job" test "$(job "${id[$name]}" Restarts)" = 0
    check "$name: a node has failed" grep -q '^# n[01] has failed' "$work/$name.out"
    check "$name: the other node does the rest" grep -q ': start 2 of this job, on 1 ranks of 1 nodes: n[01]$' "$work/$name.out"
    check "$name: each step once" test "$(losses "$work/$name" | cut -d ' ' -f 1 | paste -sd ' ')" = "$(seq -s ' ' $steps)"
done

# An array: %a is a task's number.
steps=2
array=$(submit seed "$script" "--time=10 --array=1-2" train.seed=%a "output.folder=$work/seed-%a")
check "array: it ends" ends 240 "$array" COMPLETED
for task in 1 2; do
    check "array: task $task has its seed" grep -q "seed = $task;" "$work/seed-$task/deck.cfg"
    check "array: task $task has trained" test "$(last_logged "$work/seed-$task")" = 2
done

# The warning has come and each job is held in the queue. It needs no more than a few steps then.
most=30
for launcher in $launchers; do
    check "$launcher: requeued" await 150 state_is "${id[$launcher]}" PENDING
    check "$launcher: held" await 10 grep -q Held <(job "${id[$launcher]}" Reason)
    check "$launcher: stopped by the warning" grep -q "a signal requests a stop" "$work/$launcher.out"
    step=$(saved "$work/$launcher")
    check "$launcher: every step is saved" test "${step:-none}" = "$(last_logged "$work/$launcher")"
    steps=$((step + 10))
    sed -i "s/steps = [0-9]*/steps = $steps/" "$work/$launcher.cfg"
    last[$launcher]=$steps
    [ $steps -gt $most ] && most=$steps
    await 60 cleared "${id[$launcher]}"
    await 30 scontrol update "JobId=${id[$launcher]}" StartTime=now TimeLimit=10 # without another warning
    await 30 scontrol release "${id[$launcher]}"
done

# What ran aside
for launcher in $launchers; do
    check "$launcher: a GPU for each task: it ends" ends 60 "${id[task.$launcher]}" COMPLETED
    check "$launcher: a part of a node: it ends" ends 60 "${id[node.$launcher]}" COMPLETED
    one='^[0-3] [0-3]$' # a rank has one that the other has not; under mpirun both choose among both
    [ $launcher = srun ] || one='^[0-3],[0-3]$'
    check "$launcher: a GPU for each task" grep -qE "$one" <<<"$(sees task.$launcher)"
    check "$launcher: a thread for each task" test "$(grep -c ' runs 1$' "$work/task.$launcher.out")" -eq 2
    check "$launcher: GPUs of the node" test "$(sees node.$launcher)" = 0,1,2
    check "$launcher: threads of a task" test "$(grep -c ' runs 2$' "$work/node.$launcher.out")" -eq 1
done
check "exit code 3: it ends" ends 60 "${id[three]}" FAILED
check "exit code 3: it does not come back" test "$(job "${id[three]}" Restarts) $(job "${id[three]}" ExitCode)" = "0 3:0"
check "exit code 2: it ends" ends 60 "${id[user]}" FAILED
check "exit code 2: it does not come back" test "$(job "${id[user]}" Restarts) $(job "${id[user]}" ExitCode)" = "0 2:0"
check "no program: it ends" ends 60 "${id[lost]}" FAILED
check "no program: it is said" grep -q "nowhere/cistron: " "$work/lost.out"
check "ranks apart: they end" ends 60 "${id[alone]}" FAILED
check "ranks apart: one line says why" test "$(grep -c 'cistron: .*srun .*--mpi=pmix' "$work/alone.out")" -eq 1
check "ranks apart: exit code 2" test "$(job "${id[alone]}" ExitCode)" = 2:0
check "ranks apart: they do not train" test ! -e "$work/alone"
check "array: one task stops early" await 60 grep -q requeueing "$work/early.out"
check "array: that task alone is requeued" await 30 restarts_are "$early" "0 1 "
for name in "${!id[@]}"; do
    case $name in plan.*) ;; *) continue ;; esac
    check "$name: it ends" ends 300 "${id[$name]}" COMPLETED # the first waits for those before it, one by one
    check "$name: is of its ranks" grep -q "a rank needs .*: it fits" "$work/$name.out"
done

check "without the trap: it ends" ends 240 "${id[no_trap]}" "FAILED TIMEOUT"
check "without the trap: it does not come back" test "$(job "${id[no_trap]}" Restarts)" = 0
for launcher in $launchers; do
    check "$launcher: finished" ends 240 "${id[$launcher]}" COMPLETED
    check "$launcher: in its second life" test "$(job "${id[$launcher]}" Restarts)" = 1
    check "$launcher: went on from its checkpoint" grep -q "continuing from" "$work/$launcher.out"
    check "$launcher: one file has both lives" test "$(grep -c '# memory of a rank' "$work/$launcher.out")" -eq 2
done

steps=$most
id[whole]=$(CISTRON_LAUNCHER=mpirun submit whole "$script" --time=10)
check "limit: it is killed there" ends 120 "${id[limit]}" TIMEOUT
check "limit: it does not come back" test "$(job "${id[limit]}" Restarts)" = 0
step=$(saved "$work/limit")
check "limit: the checkpoint before is left" test "${step:-0}" -eq 20
sed -i "s/steps = [0-9]*/steps = 30/" "$work/limit.cfg"
last[limit]=30
id[limit]=$(CISTRON_LAUNCHER=mpirun resubmit limit "$script" --time=10)
check "limit: submitted again, it finishes" ends 240 "${id[limit]}" COMPLETED
check "limit: from its last checkpoint" grep -q "continuing from $work/limit/step_$(printf %08d "$step").h5" "$work/limit.out"
check "a run that is left alone" ends 200 "${id[whole]}" COMPLETED
losses "$work/whole" >"$work/whole.losses"
for run in $launchers limit; do
    losses "$work/$run" >"$work/losses"
    check "$run: to its last step" test "$(last_logged "$work/$run")" = "${last[$run]}"
    check "$run: the losses of the run that never stopped, each step once" \
        cmp <(head -n "$(last_logged "$work/$run")" "$work/whole.losses") "$work/losses"
done

# a sweep whose cases are jobs, one of them on two nodes; a later call collects them
cat >"$work/list.cfg" <<END
deck = "deck.cfg"; scaling = "weak"; rows = 4; ranks = [1, 4]; ranks_per_node = 2; steps = 4; warm_up = 1;
launch = "mpirun -n {ranks} --bind-to none {command}";
submit = "sbatch --nodes={nodes} --ntasks-per-node={ranks_per_node} --time=5 --output=/dev/null {script}";
END
timeout 60 "$CISTRON" sweep "$work/list.cfg" -o "$work/sweep" >"$work/out" 2>&1
check "a sweep: its cases are submitted" test "$(grep -l 'Submitted batch job' "$work"/sweep/*/submitted | wc -l)" -eq 2
both_ended()
{
    [ "$(find "$work/sweep" -name exit | wc -l)" -eq 2 ]
}
check "a sweep: its jobs end" await 240 both_ended
timeout 60 "$CISTRON" sweep "$work/list.cfg" -o "$work/sweep" >"$work/out" 2>&1
check "a sweep: they are collected" test "$(grep -c ',done,0,' "$work/sweep/results.csv")" -eq 2
echo "$launchers: $most steps at most"
finish
