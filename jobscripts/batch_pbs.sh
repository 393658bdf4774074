# shellcheck shell=bash disable=SC2034
# PBS (OpenPBS, PBS Professional), for common.sh, which says what each function is for.
directive='#PBS'
ranks_missing="Its #PBS line needs -l select=N:mpiprocs=N"

in_job() { [ -n "${PBS_JOBID:-}" ]; }

read_script()
{
    nodes=$(asked 'select=')
    cores=$(asked 'ompthreads=')
    node_ranks=$(asked 'mpiprocs=')
}

# PBS_NODEFILE has a line for each rank; PBS sets OMP_NUM_THREADS to ompthreads
read_job()
{
    in_job || return 0
    nodes=$(sort -u "$PBS_NODEFILE" | wc -l)
    ranks=$(grep -c . "$PBS_NODEFILE")
    cores=${OMP_NUM_THREADS:-$cores}
}

# a job begins in the home folder
begin_job() { cd "$PBS_O_WORKDIR" || exit 1; }

job_hosts() { awk '!seen[$0]++' "$PBS_NODEFILE"; }

array_task() { echo "${PBS_ARRAY_INDEX:-${CISTRON_TASK:-}}"; }

# attribute NAME: what PBS has of the job
attribute()
{
    qstat -f "$PBS_JOBID" | awk -v name="$1" '
        /^\t/ && found { sub(/^\t/, ""); value = value $0; next } # a long value goes on
        { found = 0 }
        $1 == name && $2 == "=" { found = 1; sub(/^ *[^ ]* = /, ""); value = $0 }
        END { print value }'
}

# the limit is hours:minutes:seconds, and this script began with the job
seconds_left()
{
    local limit
    limit=$(attribute Resource_List.walltime)
    [[ ! $limit =~ ^([0-9]+):([0-9]+):([0-9]+)$ ]] ||
        echo $((10#${BASH_REMATCH[1]} * 3600 + 10#${BASH_REMATCH[2]} * 60 + 10#${BASH_REMATCH[3]} - SECONDS))
}

# Users may not requeue a running job (qrerun), so the script is submitted again: with the job's resources, queue, name
# and account, and the variables of these scripts. Of an array this task alone.
requeue()
{
    local options=() name value
    if [ ! -f "$0" ]; then
        echo "# not submitted again: this PBS does not say which file the script is"
        return
    fi
    for name in select place walltime; do
        value=$(attribute "Resource_List.$name")
        [ -z "$value" ] || options+=(-l "$name=$value")
    done
    value=$(attribute Account_Name)
    [ -z "$value" ] || options+=(-A "$value")
    export CISTRON_TASK
    CISTRON_TASK=$(array_task)
    grep -v '^#PBS -J' "$0" >"$notes/script"
    name=$(IFS=,; echo "${!CISTRON*}")
    echo "# submitting the job again"
    qsub "${options[@]}" -q "$PBS_QUEUE" -N "$PBS_JOBNAME" -v "$name" "$notes/script"
}

nodes_down() { pbsnodes -l | awk '{ print $1 }'; }
