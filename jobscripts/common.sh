# shellcheck shell=bash
# What the job scripts beside it share; each sources it. It runs `cistron train` through Slurm's time limits, or, with
# --plan as the script's first argument, prints the plan of such a job instead, also outside of one:
#
#   train DECK [KEY=VALUE]...
#
# In a job array (sbatch --array=1-4 ...) %a in these words stands for the task's number, in a plan for 1.
#
# From outside, or from the script before it calls train:
#   CISTRON              the program, if not in PATH
#   CISTRON_LAUNCHER     srun or mpirun; by itself srun where it can start MPI ranks (through PMIx), else mpirun
#   CISTRON_WRAPPER      words before the program: a profiler
#   CISTRON_GPU_MEMORY   GiB of a GPU, for the plan, since the node that plans may have none
set -u

case ${1:-} in
-h | --help) # what the script itself says of it
    sed -n '2,/^#SBATCH/{/^#SBATCH/d;s/^# \{0,1\}//p}' "$0"
    exit
    ;;
esac

# asked OPTION: the number that the script's own #SBATCH lines give it, nothing where they do not
asked()
{
    sed -n "s/^#SBATCH .*--$1[= ]\([0-9]*\).*/\1/p" "$0" 2>/dev/null | tail -n 1
}

# Slurm's account of the job wins, as sbatch's options do over the script's lines; what neither says is one.
nodes=${SLURM_NNODES:-$(asked nodes)}
nodes=${nodes:-1}
cores=${SLURM_CPUS_PER_TASK:-$(asked cpus-per-task)}
cores=${cores:-1}
ranks=${SLURM_NTASKS:-$(asked ntasks)}
if [ -z "$ranks" ]; then
    node_ranks=${SLURM_NTASKS_PER_NODE:-$(asked ntasks-per-node)}
    if [ -z "$node_ranks" ]; then
        echo "$0: how many ranks? Its #SBATCH lines need --ntasks-per-node=N" >&2
        exit 2
    fi
    ranks=$((nodes * node_ranks))
fi

cistron=${CISTRON:-cistron}
plan=no
if [ "${1:-}" = --plan ]; then
    plan=yes
    shift # the script's own arguments
fi

# A rank runs as many threads as it has cores, also where Slurm does not tie it to them and other jobs share the node.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$cores}
# A link that fails is told by name, and not only by the timeout that follows.
export NCCL_DEBUG=${NCCL_DEBUG:-WARN}
# What a cluster may need besides, where NCCL picks the wrong network (NCCL_DEBUG=INFO shows its choice):
# export NCCL_SOCKET_IFNAME=ib0   # the network that its ranks find each other on: one that all nodes are on
# export NCCL_IB_HCA=mlx5         # the adapters for data: not those of the storage
# A rank that crashes would write all of its memory to a file.
ulimit -c 0

# Sets launch: the words that start the ranks, each tied to cores of its own. Neighbours fill a socket before the next:
# so ranks, which take the node's GPUs in order, have cores near them, as nodes commonly number their GPUs.
choose_launcher()
{
    if [ -z "${CISTRON_LAUNCHER:-}" ]; then
        CISTRON_LAUNCHER=mpirun
        [ -n "${SLURM_JOB_ID:-}" ] && srun --mpi=list 2>&1 | grep -qw pmix && CISTRON_LAUNCHER=srun
    fi
    case $CISTRON_LAUNCHER in
    srun)
        launch=(srun --mpi=pmix --kill-on-bad-exit=1 "--ntasks=$ranks" "--cpus-per-task=$cores" --cpu-bind=cores
            --distribution=block:block)
        ;;
    mpirun)
        # One daemon on each node starts the ranks: Slurm takes it for the one task, and must not give it one GPU.
        if [ -n "${SLURM_GPUS_PER_TASK:-}" ]; then
            unset SLURM_GPUS_PER_TASK
            export SLURM_GPUS_PER_NODE=$SLURM_GPUS_ON_NODE
        fi
        launch=(mpirun -n "$ranks" --map-by "slot:PE=$cores" --bind-to core)
        ;;
    *)
        echo "CISTRON_LAUNCHER=$CISTRON_LAUNCHER: must be srun or mpirun" >&2
        exit 2
        ;;
    esac
}

# Puts the job back into the queue; of an array this task alone, whose last one has the whole array's number.
requeue()
{
    local job=$SLURM_JOB_ID
    [ -n "${SLURM_ARRAY_TASK_ID:-}" ] && job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
    echo "# requeueing job $job"
    scontrol requeue "$job"
}

train()
{
    # A word with "=" is a key, unless it is a file's name.
    if [ -z "${1:-}" ] || { [[ $1 = *=* ]] && [ ! -e "$1" ]; }; then
        echo "$0: the deck is missing: its arguments are [--plan] DECK [KEY=VALUE]..., such as quickstart.cfg" >&2
        exit 2
    fi
    set -- "${@//%a/${SLURM_ARRAY_TASK_ID:-%a}}"
    if [ $plan = yes ]; then
        set -- "${@//%a/1}"
        exec "$cistron" plan --ranks "$ranks" --ranks-per-node $(((ranks + nodes - 1) / nodes)) "${@:1:1}" \
            ${CISTRON_GPU_MEMORY:+"device.memory=$CISTRON_GPU_MEMORY"} "${@:2}"
    fi
    choose_launcher
    # shellcheck disable=SC2086
    "${launch[@]}" ${CISTRON_WRAPPER:-} "$cistron" train "$@" &
    local launcher=$! signalled again=yes status

    # Slurm's warning is passed on. TERM comes from scancel or a preemption, to the ranks as well: not a reason to come
    # back.
    trap 'signalled=yes; kill -USR1 $launcher' USR1
    trap 'signalled=yes; again=no; kill -USR1 $launcher' TERM

    # A signal ends `wait` early: only a wait without one has returned the launcher's own exit code.
    until
        signalled=no
        wait $launcher
        status=$?
        [ $signalled = no ]
    do :; done

    # 85: stopped early, everything is saved
    [ $status -eq 85 ] && [ $again = yes ] && [ -n "${SLURM_JOB_ID:-}" ] && requeue
    exit $status
}
