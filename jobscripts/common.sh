# shellcheck shell=bash
# Shared by the job scripts, which source this file. It runs `cistron train` through the time limits of a batch system and
# through failures, or, with --plan as the script's first argument, prints the plan of the job instead, also outside of a
# job:
#
#   train DECK [KEY=VALUE]...
#
# In a job array (sbatch --array=1-4 ...) %a in these words stands for the task's number, in a plan for 1.
#
# After a failure the run is started again inside the job, on the nodes that are left (doc/clusters.md, Failures).
#
# The batch system is that of the script's own lines (#SBATCH, #PBS, #BSUB, #flux:), and its functions are in
# batch_NAME.sh. A script that has set batch_system=none has set nodes, ranks and cores.
#
# From outside, or from the script before it calls train:
#   CISTRON              the program, if not in PATH; several words start it in a container: apptainer exec IMAGE cistron
#   CISTRON_LAUNCHER     the batch system's own (srun, flux), the default where it can start MPI ranks, or mpirun
#   CISTRON_WRAPPER      words before the program: a profiler
#   CISTRON_GPU_MEMORY   GiB of a GPU, for the plan, since the node that plans may have none
#   CISTRON_WARNING      seconds before the job's time limit at which the run saves and ends (300); Slurm has --signal
#   CISTRON_SPARES       nodes of the job that the run uses only in place of failed ones (0)
#   CISTRON_LIVES        starts in a row without a new checkpoint after which the job ends (3); 0: no restart at all
#   CISTRON_PAUSE        seconds before a restart, times the starts in a row without a new checkpoint (10)
#   CISTRON_GRACE        seconds that a launcher may take to end after it or a rank has reported a failure (60)
#   CISTRON_STALL        seconds without a new line in log.jsonl after which a start is ended (0: never)
#   CISTRON_HOSTS        host,host,... for mpirun, where no batch system lists them
set -u

read -ra cistron <<<"${CISTRON:-cistron}"

# -- Batch systems: batch_NAME.sh replaces what a system does in its own way ------------------------------------------

directive='' # begins the lines of a script that have options for the batch system

in_job() { false; } # this is a job of the batch system

# Both set nodes, ranks or node_ranks (ranks of a node), and cores (of a rank): read_script to the options in the script's
# own lines, then read_job to what the batch system says of the job.
read_script() { :; }
read_job() { :; }

begin_job() { :; } # what a job needs before its first command

job_hosts() { :; } # prints the names of the job's nodes, one a line

array_task() { :; } # prints the number of the job in its array

seconds_left() { :; } # prints the seconds until the job's time limit; nothing: no limit, or the system warns the script

requeue() { :; } # DECK [KEY=VALUE]...: puts the job into the queue again

end_steps() { :; } # ends what a failed life has left on the nodes of a job: the next one needs them

expand_hosts() { echo "$1"; } # prints the hosts of a message's list of hosts

nodes_down() { :; } # prints the nodes of the job that do not answer

# The batch system's own launcher; whether it can start MPI ranks here; and native_launch HOST,HOST,..., which sets launch
# and program as make_launch does.
native_launcher=''
native_works() { false; }
native_launch() { :; }

begin_mpirun() { :; } # what mpirun needs in a job

mpirun_knows_hosts() { false; } # mpirun asks the batch system for the nodes of the job

pass_to_launcher() { kill "-$1" "$launcher"; } # sends the signal to the launcher, which passes it to the ranks

# asked PATTERN: the number that follows the pattern (sed) in the script's own lines of options, nothing if none does
asked()
{
    sed -n "s/^$directive .*$1\([0-9][0-9]*\).*/\1/p" "$0" 2>/dev/null | tail -n 1
}

# choose_batch_system: by the script's own lines; where the job runs a script without them, by the job's variables
choose_batch_system()
{
    case $(sed -n 's/^#\(SBATCH\|PBS\|BSUB\|flux:\) .*/\1/p' "$0" 2>/dev/null | head -n 1) in
    SBATCH) batch_system=slurm ;;
    PBS) batch_system=pbs ;;
    BSUB) batch_system=lsf ;;
    flux:) batch_system=flux ;;
    *)
        batch_system=slurm
        [ -z "${PBS_JOBID:-}" ] || batch_system=pbs
        [ -z "${LSB_JOBID:-}" ] || batch_system=lsf
        ;;
    esac
}

if [ "${batch_system:-}" != none ]; then
    choose_batch_system
    eval "$("${cistron[@]}" jobscripts "batch_$batch_system.sh" || echo exit 1)"
fi

case ${1:-} in
-h | --help) # what the script itself says of it
    sed -n "2,/^$directive/{/^$directive/d;s/^# \{0,1\}//p}" "$0"
    exit
    ;;
esac

# The batch system's account of the job wins, as its command's options do over the script's lines; what neither says is
# one.
if [ "$batch_system" != none ]; then
    nodes='' ranks='' cores='' node_ranks=''
    read_script
    read_job
    nodes=${nodes:-1}
    cores=${cores:-1}
    if [ -z "$ranks" ]; then
        if [ -z "$node_ranks" ]; then
            echo "$0: how many ranks? $ranks_missing" >&2
            exit 2
        fi
        ranks=$((nodes * node_ranks))
    fi
fi
spares=${CISTRON_SPARES:-0}
node_ranks=$(((ranks + nodes - 1) / nodes))
if [[ ! $spares =~ ^[0-9]+$ ]] || [ "$spares" -ge "$nodes" ]; then
    echo "CISTRON_SPARES=$spares: must be a number below that of the job's nodes, $nodes" >&2
    exit 2
fi
warning=${CISTRON_WARNING:-300}
if [[ ! $warning =~ ^[0-9]{1,6}$ ]]; then
    echo "CISTRON_WARNING=$warning: must be a number of seconds" >&2
    exit 2
fi
[ "$spares" -eq 0 ] || ranks=$(((nodes - spares) * node_ranks))
wanted=$((nodes - spares)) # nodes of the run while enough are left
all_ranks=$ranks           # its ranks then

plan=no
if [ "${1:-}" = --plan ]; then
    plan=yes
    shift # the script's own arguments
fi

# A rank runs as many threads as it has cores, also where Slurm does not tie it to them and other jobs share the node.
# With 0 cores (supervise) the program chooses, by the cores that it may use.
[ "$cores" -eq 0 ] || export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$cores}
# A link that fails is told by name, and not only by the timeout that follows.
export NCCL_DEBUG=${NCCL_DEBUG:-WARN}
# mpirun notices a host that has left the network after 20 s, instead of waiting for its daemon without limit
export OMPI_MCA_oob_tcp_keepalive_time=${OMPI_MCA_oob_tcp_keepalive_time:-10}
export OMPI_MCA_oob_tcp_keepalive_intvl=${OMPI_MCA_oob_tcp_keepalive_intvl:-2}
export OMPI_MCA_oob_tcp_keepalive_probes=${OMPI_MCA_oob_tcp_keepalive_probes:-5}
# What a cluster may need besides, where NCCL picks the wrong network (NCCL_DEBUG=INFO shows its choice):
# export NCCL_SOCKET_IFNAME=ib0   # the network that its ranks find each other on: one that all nodes are on
# export NCCL_IB_HCA=mlx5         # the adapters for data: not those of the storage
# A rank that crashes would write all of its memory to a file.
ulimit -c 0

# -- Launching --------------------------------------------------------------------------------------------------------

choose_launcher()
{
    if [ -z "${CISTRON_LAUNCHER:-}" ]; then
        CISTRON_LAUNCHER=mpirun
        if in_job && native_works; then CISTRON_LAUNCHER=$native_launcher; fi
    fi
    case $CISTRON_LAUNCHER in
    mpirun) begin_mpirun ;;
    "${native_launcher:-mpirun}") ;;
    *)
        echo "CISTRON_LAUNCHER=$CISTRON_LAUNCHER: must be ${native_launcher:+$native_launcher or }mpirun" >&2
        exit 2
        ;;
    esac
}

# Sets launch: the words that start the ranks on the nodes `used`, each tied to cores of its own. Neighbours fill a
# socket before the next: so ranks, which take the node's GPUs in order, have cores near them, as nodes commonly number
# their GPUs.
make_launch()
{
    local list
    program=("${cistron[@]}")
    list=$(IFS=,; echo "${used[*]}")
    if [ "$CISTRON_LAUNCHER" = "$native_launcher" ]; then
        native_launch "$list"
        return
    fi
    launch=(mpirun -n "$ranks")
    if [ ${#used[@]} -gt 0 ] && ! { all_used && mpirun_knows_hosts; }; then
        list=$(IFS=,; echo "${used[*]/%/:$node_ranks}")
        launch+=(--host "$list")
    elif [ "$cores" -eq 0 ]; then # this machine, which may have fewer cores than ranks
        launch+=(--oversubscribe)
    fi
    if [ "$cores" -eq 0 ]; then
        launch+=(--bind-to none)
    else
        launch+=(--map-by "slot:PE=$cores" --bind-to core)
    fi
}

# -- Nodes ------------------------------------------------------------------------------------------------------------

# Sets hosts to the names of the job's nodes; none: the run has this machine alone, or its launcher knows where.
list_hosts()
{
    if in_job; then
        mapfile -t hosts < <(job_hosts)
    elif [ -n "${CISTRON_HOSTS:-}" ]; then
        IFS=, read -ra hosts <<<"$CISTRON_HOSTS"
    fi
}

all_used()
{
    [ ${#used[@]} -eq ${#hosts[@]} ]
}

# is_in WORD WORD...: the first is one of the others
is_in()
{
    local word=$1 other
    shift
    for other; do
        [ "$word" = "$other" ] && return
    done
    return 1
}

# choose_nodes DECK [KEY=VALUE]...: sets used and ranks for the next start: the first `wanted` nodes that have not
# failed, or as many of the rest as the deck's layout can use. Fails, with a line that says why, if there are none.
choose_nodes()
{
    local host left=() count why
    [ ${#hosts[@]} -gt 0 ] || return 0
    for host in "${hosts[@]}"; do
        is_in "$host" "${lost[@]}" "${failed[@]}" || left+=("$host")
    done
    if [ ${#left[@]} -eq 0 ] && [ ${#failed[@]} -gt 0 ]; then # better than none
        echo "# every node has failed: those that still answer are used again"
        failed=()
        choose_nodes "$@"
        return
    fi
    [ ${#left[@]} -le "$wanted" ] || left=("${left[@]:0:wanted}")
    count=${#left[@]}
    if [ "$count" -lt "$wanted" ] && [ "$count" -ne "${#used[@]}" ]; then
        while [ "$count" -gt 0 ] && ! layout_fits "$count" "$@"; do
            count=$((count - 1))
        done
    fi
    if [ "$count" -eq 0 ]; then
        why=$(sed -n "s/^cistron: /, and the deck's layout fits none of them: /p" "$notes/plan" 2>/dev/null | head -n 1)
        echo "# no restart: of $nodes nodes ${#left[@]} are left$why"
        return 1
    fi
    used=("${left[@]:0:count}")
    ranks=$all_ranks
    [ "$count" -eq "$wanted" ] || ranks=$((count * node_ranks))
}

# layout_fits NODES DECK [KEY=VALUE]...: the deck can be trained on the ranks of this number of nodes
layout_fits()
{
    local count=$1
    shift
    [ "$1" != --from ] || return 0 # its deck is in a checkpoint: the program itself will say
    "${cistron[@]}" plan --ranks $((count * node_ranks)) --ranks-per-node "$node_ranks" "$@" >/dev/null 2>"$notes/plan"
}

# named_nodes: the nodes that the messages of the last life blame. Kinds of messages are tried from the surest to the
# least sure, and the first kind that is there counts. Where more messages of a kind follow from the first, the first
# counts. If the first task that srun reports has only an exit code, no node is to blame: the kills of the other tasks
# follow from it.
named_nodes()
{
    local kind found='' name
    for kind in \
        '/\(comm\.timeout\); missing: /{s/.*missing: //; s/rank [0-9]+ on /\n/g; s/[, ][^\n]*//g; p}' \
        's/^cistron: rank [0-9]+: CUDA on ([^ :]+): .*/\1/p' \
        's/.*noticed that process rank [0-9]+ .* on node ([^ ]+) exited on signal.*/\1/p; t end; b; : end; q' \
        's/^ *Remote daemon *: .* on node ([^ ]+)$/\1/p' \
        '/^srun: error: [^ ]+: tasks? [0-9,-]+: /{/: Exited with exit code|: Terminated/!s/^srun: error: ([^ ]+): .*/\1/p
            q}' \
        's/^ *Peer host: *([^ ]+)$/\1/p; t end; b; : end; q'; do
        [ -n "$found" ] || found=$(sed -n -E "$kind" "$life" | grep .)
    done
    [ -z "$found" ] || while read -r name; do
        if in_job; then expand_hosts "$name"; else echo "$name"; fi
    done < <(sort -u <<<"$found")
}

# lost_nodes: nodes of the last life that no longer answer
lost_nodes()
{
    local host
    {
        sed -n -E 's/.*(Node failure on|failed on node) ([^ :]+).*/\2/p; s/^ssh: connect to host ([^ ]+) .*/\1/p' "$life"
        if in_job; then
            nodes_down
        else
            for host in "${used[@]}"; do
                [ "$host" = "$(hostname)" ] ||
                    timeout 60 ${OMPI_MCA_plm_rsh_agent:-ssh -o BatchMode=yes -o ConnectTimeout=10} "$host" true \
                        >/dev/null 2>&1 || echo "$host" &
            done
            wait
        fi
    } 2>/dev/null | sort -u
}

# Adds the nodes that the last life lost, or that its messages blame, to `lost` and `failed`. Fails if there are none.
exclude_nodes()
{
    local host found=1
    [ ${#hosts[@]} -gt 1 ] || return 1
    for host in $(lost_nodes); do
        is_in "$host" "${used[@]}" || continue
        echo "# $host does not answer: it is not used again"
        lost+=("$host")
        found=0
    done
    for host in $(named_nodes); do
        is_in "$host" "${used[@]}" && ! is_in "$host" "${lost[@]}" || continue
        echo "# $host has failed: it is not used again while others are left"
        failed+=("$host")
        found=0
    done
    return $found
}

# -- Lives ------------------------------------------------------------------------------------------------------------

# may_requeue: not if the last starts, in several lives of the job, have saved nothing
may_requeue()
{
    local starts
    starts=$(tac "$folder/log.jsonl" 2>/dev/null | sed '/"event":"checkpoint"/q' | grep -c '"event":"start"')
    [ "$starts" -lt "$lives" ] || [ "$lives" -eq 0 ] && return
    echo "# not requeued: $starts starts in a row have saved no checkpoint"
    return 1
}

# run_folder DECK [KEY=VALUE]... or --from CHECKPOINT [KEY=VALUE]...: where the run writes
run_folder()
{
    local folder=
    if [ "$1" = --from ]; then
        folder=$2
        [ -d "$folder" ] || folder=$(dirname "$folder")
        shift
        folder=$(printf '%s\n' "$@" | sed -n 's/^output\.folder=//p' | tail -n 1 | grep . || echo "$folder")
    else
        folder=$("${cistron[@]}" deck "$@" 2>/dev/null | sed -n '/^output : {/,/^}/s/^ *folder = "\(.*\)";$/\1/p')
    fi
    echo "$folder"
}

# newest FOLDER PATTERN: when the newest file of this name was written
newest()
{
    find "$1/" -maxdepth 1 -name "$2" -printf '%T@\n' 2>/dev/null | sort -n | tail -n 1
}

# is_quiet SECOND: nothing was logged for CISTRON_STALL seconds, and since this second of date +%s
is_quiet()
{
    local logged
    [ "${CISTRON_STALL:-0}" -gt 0 ] || return
    logged=$(newest "$folder" log.jsonl)
    logged=${logged%.*}
    [ "${logged:-0}" -gt "$1" ] || logged=$1
    [ $(($(date +%s) - logged)) -gt "$CISTRON_STALL" ]
}

# Ends a launcher that waits for ranks which are no longer there, or which all stand still. A failure of ranks was
# reported, but mpirun does not end before all its daemons have answered.
end_late_launcher()
{
    local begun grace=${CISTRON_GRACE:-60}
    begun=$(date +%s)
    until grep -qE '^MPI_ABORT was invoked|noticed that process|comm\.timeout\); missing: |lost communication' "$life"; do
        sleep 1
        kill -0 "$1" || return
        is_quiet "$begun" || continue
        touch "$notes/quiet"
        grace=0
        break
    done
    sleep "$grace"
    kill "$1" || return
    sleep 5
    kill -KILL "$1"
    # ranks of this machine, which may be stopped; in a job end_steps ends them
    in_job || pkill -KILL -s "$1"
}

# live DECK [KEY=VALUE]...: one start of the run, to its end; sets status
live()
{
    local signalled watch copy i
    make_launch
    # Messages are copied to a file, to find out which node has failed. Leftovers of an earlier life write to another.
    life=$notes/life.$started
    : >"$life"
    exec {messages}> >(trap '' INT TERM HUP USR1; exec tee -a "$life" >&2)
    copy=$!
    # A terminal's Ctrl-C is for this script alone; a batch system may know its processes by their session.
    in_job || launch=(setsid "${launch[@]}")
    # shellcheck disable=SC2086
    "${launch[@]}" ${CISTRON_WRAPPER:-} "${program[@]}" train "$@" 2>&$messages {messages}>&- &
    launcher=$!
    end_late_launcher $launcher >/dev/null 2>&1 {messages}>&- &
    watch=$!
    exec {messages}>&-

    # A signal ends `wait` early: only a wait without one has returned the launcher's own exit code.
    until
        signalled=no
        wait $launcher
        status=$?
        [ $signalled = no ]
    do :; done
    launcher=
    kill $watch 2>/dev/null
    for ((i = 0; i < 20; i++)); do # the last messages
        kill -0 $copy 2>/dev/null || break
        sleep 0.1
    done
    if [ -e "$notes/quiet" ]; then
        rm "$notes/quiet"
        echo "# nothing was logged for $CISTRON_STALL s: this start was ended"
    fi
    # The srun of Slurm 22.05 returns 0 if it could not start the tasks.
    [ $status -ne 0 ] || ! grep -qE '^srun: error: .*[Tt]ask launch (for .* )?failed' "$life" || status=1
}

# Sends USR1 to this script when the job's time limit is near, where the batch system itself sends no warning.
warn_in_time()
{
    local left pause=0
    trap 'kill $pause 2>/dev/null; exit' TERM
    while left=$(seconds_left) && [ -n "$left" ]; do
        left=$((left - warning))
        [ $left -gt 0 ] || { kill -USR1 $$; return; }
        sleep $((left < 600 ? left : 600)) & # the limit may be changed meanwhile
        pause=$!
        wait $pause
    done
}

# pass_on SIGNAL: to the launcher, if there is one
pass_on()
{
    [ -z "$launcher" ] || pass_to_launcher "$1"
}

# may_restart: the last life ended by a failure that another start may survive; else says why not, where that is not
# obvious
may_restart()
{
    case $status in
    2) # not a mistake, since the first start had none: ranks of a lost node are still there, or the disk is full
        [ "$started" -gt 1 ] && grep -qE "another run uses it|free some space" "$life" || return 1
        ;;
    0 | 3 | 85 | 126 | 127) return 1 ;; # finished, diverged, stopped on request, no such program
    esac
    [ $again = yes ] && [ $warned = no ] && [ "$lives" -gt 0 ] || return 1
    local saved logged
    saved=$(newest "$folder" 'step_*.h5')
    logged=$(newest "$folder" log.jsonl)
    fruitless=$((fruitless + 1))
    [ "$saved" = "$last_saved" ] || [[ $saved < $last_saved ]] || fruitless=0
    exclude_nodes || [ $started -gt 1 ] || [ "$logged" != "$last_logged" ] || return 1 # it never began to train
    last_saved=$saved
    if [ $fruitless -ge "$lives" ]; then
        echo "# no restart: $fruitless starts in a row have saved no new checkpoint"
        return 1
    fi
}

train()
{
    local timer=''
    if in_job; then begin_job; fi
    # A word with "=" is a key, unless it is a file's name.
    if [ -z "${1:-}" ] || { [[ $1 = *=* ]] && [ ! -e "$1" ]; }; then
        echo "$0: the deck is missing: its arguments are [--plan] DECK [KEY=VALUE]..., such as quickstart.cfg" >&2
        exit 2
    fi
    local task
    task=$(array_task)
    set -- "${@//%a/${task:-%a}}"
    if [ $plan = yes ]; then
        set -- "${@//%a/1}"
        exec "${cistron[@]}" plan --ranks "$ranks" --ranks-per-node "$node_ranks" "${@:1:1}" \
            ${CISTRON_GPU_MEMORY:+"device.memory=$CISTRON_GPU_MEMORY"} "${@:2}"
    fi
    choose_launcher
    local lives=${CISTRON_LIVES:-3} folder last_saved last_logged fruitless=0 started=0
    local hosts=() used=() lost=() failed=() launch program launcher='' life status again=yes warned=no
    list_hosts
    notes=$(mktemp -d "${TMPDIR:-/tmp}/cistron-job.XXXXXX") || exit 1
    # a child that a signal ends before it has reset its traps would run this one too
    trap '[ $BASHPID -ne $$ ] || { rm -rf "$notes"; [ -z "$timer" ] || kill "$timer" 2>/dev/null; }' EXIT
    folder=$(run_folder "$@")
    last_saved=$(newest "$folder" 'step_*.h5')
    last_logged=$(newest "$folder" log.jsonl)
    used=("${hosts[@]:0:wanted}")

    # The warning is passed on. TERM comes from scancel or a preemption, to the ranks as well, INT and HUP from a
    # terminal: not a reason to come back. A second INT does not wait for the checkpoint.
    trap 'signalled=yes; warned=yes; pass_on USR1' USR1
    trap 'signalled=yes; again=no; pass_on USR1' TERM HUP
    trap 'signalled=yes; if [ $again = yes ]; then pass_on USR1; else pass_on TERM; fi; again=no' INT

    if in_job; then
        local left
        left=$(seconds_left)
        if [ -n "$left" ] && [ "$left" -le "$warning" ]; then
            echo "CISTRON_WARNING=$warning: must be less than the time of the job, $left s" >&2
            exit 2
        fi
        warn_in_time >/dev/null 2>&1 &
        timer=$!
    fi
    while
        live "$@"
        started=$((started + 1))
        may_restart && choose_nodes "$@"
    do
        sleep $((fruitless * ${CISTRON_PAUSE:-10})) & # a signal ends `wait`, not `sleep`
        wait $!
        [ $again = yes ] && [ $warned = no ] || break
        if in_job; then end_steps; fi
        echo "# exit code $status: start $((started + 1)) of this job, on $ranks" \
            "ranks${used[0]+ of ${#used[@]} nodes: ${used[*]}}"
    done

    # 85: stopped early, everything is saved
    if [ $status -eq 85 ] && [ $again = yes ] && in_job; then
        if may_requeue; then requeue "$@"; fi
    fi
    exit $status
}
