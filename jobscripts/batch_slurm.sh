# shellcheck shell=bash disable=SC2034
# Slurm, for common.sh, which says what each function is for.
directive='#SBATCH'
native_launcher=srun
ranks_missing="Its #SBATCH lines need --ntasks-per-node=N"

in_job() { [ -n "${SLURM_JOB_ID:-}" ]; }

read_script()
{
    nodes=$(asked '--nodes[= ]')
    cores=$(asked '--cpus-per-task[= ]')
    ranks=$(asked '--ntasks[= ]')
    node_ranks=$(asked '--ntasks-per-node[= ]')
}

# also outside of a job, where a user sets the variables to plan for other numbers
read_job()
{
    nodes=${SLURM_NNODES:-$nodes}
    cores=${SLURM_CPUS_PER_TASK:-$cores}
    ranks=${SLURM_NTASKS:-$ranks}
    node_ranks=${SLURM_NTASKS_PER_NODE:-$node_ranks}
}

job_hosts()
{
    [ -z "${SLURM_JOB_NODELIST:-}" ] || expand_hosts "$SLURM_JOB_NODELIST"
}

expand_hosts() { scontrol show hostnames "$1"; }

array_task() { echo "${SLURM_ARRAY_TASK_ID:-}"; }

# of an array this task alone, whose last one has the whole array's number
requeue()
{
    local job=$SLURM_JOB_ID
    [ -n "${SLURM_ARRAY_TASK_ID:-}" ] && job=${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID
    echo "# requeueing job $job"
    scontrol requeue "$job"
}

end_steps()
{
    local step
    for step in $(squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format=%i 2>/dev/null); do
        case $step in *.batch | *.extern | *.interactive) ;; *) scancel --quiet --signal=KILL "$step" ;; esac
    done
}

nodes_down()
{
    sinfo --noheader --Node --nodes="$(IFS=,; echo "${used[*]}")" --states=down,fail,no_respond --format=%N
}

native_works() { srun --mpi=list 2>&1 | grep -qw pmix; }

# A program that srun starts in a container of pyxis: this srun gets its options that begin with --container.
native_launch()
{
    launch=(srun --mpi=pmix --kill-on-bad-exit=1 "--ntasks=$ranks" "--cpus-per-task=$cores" --cpu-bind=cores
        --distribution=block:block)
    all_used || launch+=("--nodes=${#used[@]}" "--ntasks-per-node=$node_ranks" "--nodelist=$1")
    if [ "${program[0]}" = srun ]; then
        program=("${program[@]:1}")
        while [[ ${program[0]:-} = -* ]]; do
            [[ ${program[0]} != --container* ]] || launch+=("${program[0]}")
            program=("${program[@]:1}")
        done
    fi
}

begin_mpirun()
{
    if [ "${cistron[0]}" = srun ]; then
        echo "CISTRON=$CISTRON: srun starts the program, so CISTRON_LAUNCHER must be srun" >&2
        exit 2
    fi
    # One daemon on each node starts the ranks: Slurm takes it for the one task, and must not give it one GPU.
    if [ -n "${SLURM_GPUS_PER_TASK:-}" ]; then
        unset SLURM_GPUS_PER_TASK
        export SLURM_GPUS_PER_NODE=$SLURM_GPUS_ON_NODE
    fi
}

mpirun_knows_hosts() { in_job; }
