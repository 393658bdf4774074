# shellcheck shell=bash disable=SC2034
# Flux, for common.sh, which says what each function is for. The job is an instance of Flux of its own, whose commands have
# this instance's nodes; `flux --parent` asks the instance that the job was submitted to.
directive='#flux:'
native_launcher=flux
ranks_missing="Its #flux: lines need --nslots=N"

in_job() { [ -n "${flux_job:-}" ]; }

flux_job=''
[ -z "${FLUX_URI:-}" ] || flux_job=$(flux getattr jobid 2>/dev/null)

# a slot is a rank
read_script()
{
    nodes=$(asked '--nodes[= ]')
    cores=$(asked '--cores-per-slot[= ]')
    ranks=$(asked '--nslots[= ]')
    node_ranks=$((${ranks:-0} / ${nodes:-1}))
}

# Flux knows the job's nodes, not its slots: a node has as many as the script's lines say
read_job()
{
    in_job || return 0
    nodes=$(job_hosts | wc -l)
    ranks=''
}

job_hosts() { flux hostlist --expand --delimiter='\n' instance; }

array_task() { echo "${FLUX_JOB_CC:-}"; }

# Flux prints the greatest 32-bit number where there is no limit
seconds_left()
{
    local left
    left=$(flux job timeleft) || return
    [ "$left" -ge 4294967295 ] || echo "$left"
}

# Flux cannot requeue a job: the script is submitted again, with the job's nodes, limit, queue and name.
requeue()
{
    local options=() name value
    for name in duration:time-limit queue:queue name:job-name; do
        value=$(flux --parent jobs --no-header --format="{${name%:*}}" "$flux_job")
        [ -z "$value" ] || options+=("--${name#*:}=$value")
    done
    echo "# submitting the job again"
    flux --parent batch "${options[@]}" "--nodes=$nodes" "--nslots=$((nodes * node_ranks))" "$0" "$@"
}

end_steps() { flux cancel --all 2>/dev/null; }

nodes_down() { flux hostlist --expand --delimiter='\n' --minus instance avail; }

native_works() { true; }

native_launch()
{
    launch=(flux run "--nodes=${#used[@]}" "--ntasks=$ranks" "--cores-per-task=$cores" --setopt=cpu-affinity=per-task
        --setopt=exit-on-error)
    [ -z "$(asked '--gpus-per-slot[= ]')" ] || launch+=(--gpus-per-task=1)
    all_used || launch+=("--requires=hosts:$1")
}

pass_to_launcher() { flux job killall --force "--signal=$1" >/dev/null; }
