# shellcheck shell=bash disable=SC2034
# LSF, for common.sh, which says what each function is for.
directive='#BSUB'
ranks_missing="Its #BSUB lines need -n N"

in_job() { [ -n "${LSB_JOBID:-}" ]; }

# a slot is a rank
read_script()
{
    ranks=$(asked '-n ')
    node_ranks=$(asked 'ptile=')
    cores=$(asked 'core(')
    [ -z "$ranks" ] || [ -z "$node_ranks" ] || nodes=$(((ranks + node_ranks - 1) / node_ranks))
}

# LSB_MCPU_HOSTS: host slots host slots ...; the script that LSF runs may not have the lines of the one that was
# submitted, so it sets CISTRON_CORES
read_job()
{
    cores=${CISTRON_CORES:-$cores}
    in_job || return 0
    nodes=$(job_hosts | wc -l)
    ranks=$(awk '{ for (i = 2; i <= NF; i += 2) sum += $i; print sum }' <<<"$LSB_MCPU_HOSTS")
}

job_hosts() { awk '{ for (i = 1; i < NF; i += 2) print $i }' <<<"$LSB_MCPU_HOSTS"; }

array_task() { [ "${LSB_JOBINDEX:-0}" -eq 0 ] || echo "$LSB_JOBINDEX"; }

# job_name: as LSF's commands take it
job_name()
{
    local task
    task=$(array_task)
    echo "$LSB_JOBID${task:+[$task]}"
}

# bjobs prints hours:minutes, and L where this is a limit
seconds_left()
{
    local left
    left=$(bjobs -noheader -o time_left "$(job_name)")
    [[ ! $left =~ ^\ *([0-9]+):([0-9]+)\ L ]] ||
        echo $((10#${BASH_REMATCH[1]} * 3600 + 10#${BASH_REMATCH[2]} * 60))
}

requeue()
{
    echo "# requeueing job $(job_name)"
    brequeue "$(job_name)"
}

nodes_down() { bhosts -w "${used[@]}" | awk '$2 == "unavail" || $2 == "unreach" { print $1 }'; }

# LSF's own binding of slots contradicts the one that common.sh asks mpirun for
begin_mpirun() { unset LSB_AFFINITY_HOSTFILE; }
