#!/bin/bash
# The job scripts of PBS, LSF and Flux, with stand-ins for the commands of these systems: a run that comes near its time
# limit saves, its job is submitted or requeued, and ends with the losses of an undisturbed run. The ranks start on the
# nodes of the job, after a failure on those that are left; array tasks, plans and mistakes are as with Slurm.
. "$abs_top_srcdir/tests/lib.sh"
unset "${!SLURM_@}" "${!PBS_@}" "${!LSB_@}" "${!FLUX_@}" "${!CISTRON_LAUNCHER@}" NCCL_DEBUG OMP_NUM_THREADS
cd "$work" || exit 1
small_deck || exit 1
scripts=$(cd "$abs_top_srcdir/jobscripts" && pwd)
real=$CISTRON
launcher=${MPIRUN%% *}
unset OMPI_MCA_rmaps_base_oversubscribe
export work real

# -- Stand-ins: a job has the file `limit`, its time in seconds and when that ends, and `hosts` with a line for each rank

# limit SECONDS
limit()
{
    echo "$1 $(($(date +%s) + $1))" >limit
}

mkdir bin
cat >bin/qstat <<'END'
#!/bin/bash
printf 'Job Id: %s\n    Resource_List.select = 2:ncpus=96:mpiprocs=8:\n\tompthreads=12\n    queue = long\n' "$2"
read -r limit _ <"$work/limit"
printf '    Resource_List.walltime = %02d:%02d:%02d\n' $((limit / 3600)) $((limit % 3600 / 60)) $((limit % 60))
END
cat >bin/bjobs <<'END'
#!/bin/bash
read -r _ end <"$work/limit"
left=$((end - $(date +%s)))
printf '%d:%02d L\n' $((left / 3600)) $((left % 3600 / 60))
END
cat >bin/flux <<'END'
#!/bin/bash
case "$1 $2" in
"getattr jobid") echo fJob ;;
hostlist*) case "$*" in *--minus*) cat "$work/down" ;; *) uniq "$work/hosts" ;; esac ;;
"job timeleft") read -r _ end <"$work/limit" && echo $((end - $(date +%s))) ;;
"job killall") kill -USR1 "$(<"$work/flux.pid")" ;;
"cancel --all") echo "flux cancel" ;;
"run "*)
    echo "$*"
    ranks=$(sed 's/.*--ntasks=\([0-9]*\).*/\1/' <<<"$*")
    while [[ $1 != */cistron ]]; do shift; done
    echo $$ >"$work/flux.pid"
    exec mpirun -n "$ranks" --oversubscribe "$@"
    ;;
"--parent jobs") [ "$4" != "--format={duration}" ] || cut -d " " -f 1 "$work/limit" ;;
"--parent batch") echo "$*" >>"$work/submitted" ;;
esac
END
# shellcheck disable=SC2016
printf '#!/bin/bash\necho "${0##*/} $*" >>"$work/submitted"\n' | tee bin/qsub >bin/brequeue
# shellcheck disable=SC2016
printf '#!/bin/bash\ncat "$work/down"\n' >bin/pbsnodes
# shellcheck disable=SC2016
printf '#!/bin/bash\nsed "s/$/ unavail/" "$work/down"\n' >bin/bhosts
chmod +x bin/*
: >down
PATH=$work/bin:$PATH

# job SYSTEM VARIABLES ARGUMENTS...: runs the script $work/train.SYSTEM as a job
job()
{
    local system=$1 variables=$2 words=() folder=$work
    shift 2
    case $system in
    pbs)
        words=(PBS_JOBID=7.server PBS_NODEFILE="$work/hosts" PBS_O_WORKDIR="$work" PBS_QUEUE=long PBS_JOBNAME=mine)
        folder=/ # a job of PBS begins elsewhere
        ;;
    lsf) words=(LSB_JOBID=7 LSB_JOBINDEX=0 LSB_MCPU_HOSTS="$(uniq -c hosts | awk '{ printf "%s %s ", $2, $1 }')") ;;
    flux) words=(FLUX_URI=local:///x) ;;
    esac
    if [ "$system" != flux ]; then
        words+=("CISTRON_ARGUMENTS=$*")
        set --
    fi
    # shellcheck disable=SC2086
    (cd $folder && exec timeout 200 env "${words[@]}" $variables bash "$work/train.$system" "$@" 2>&1)
}

# -- A whole run, with the real program: warned, saved, submitted again, finished

cp "$scripts"/train.{pbs,lsf,flux} .
PATH=$PATH:$(dirname "$(command -v "$launcher")")
ranks=$(($(nproc) > 1 ? 2 : 1))
for ((i = 0; i < ranks; i++)); do hostname; done >hosts
sed -i 's/steps = 12/steps = 1000000/; s/decay = 20/decay = 1000/; s/every = 6/every = 0/' deck.cfg
sed -i "s/--nslots=2 --cores-per-slot=4/--nslots=$ranks --cores-per-slot=1/" train.flux
for system in pbs lsf flux; do
    limit 68
    variables="CISTRON_WARNING=60 OMP_NUM_THREADS=1 CISTRON_CORES=1"
    [ $system != lsf ] || variables+=" CISTRON_WARNING=52" # LSF tells the minutes that are left
    job $system "$variables" deck.cfg "output.folder=$system" >out
    check "$system: stopped early" test $? -eq 85
    check "$system: by the warning" says "a signal requests a stop"
    case $system in
    pbs)
        again="^qsub -l select=2:ncpus=96:mpiprocs=8:ompthreads=12 -l walltime=00:01:08 -q long -N mine "
        again+="-v .*CISTRON_ARGUMENTS,.* .*/script$"
        ;;
    lsf) again="^brequeue 7$" ;;
    flux) again="^--parent batch --time-limit=68 --nodes=1 --nslots=$ranks .*train.flux deck.cfg output.folder=flux$" ;;
    esac
    check "$system: submitted again" grep -qE -- "$again" submitted
    rm -f submitted
    last=$(losses $system | tail -n 1 | cut -d ' ' -f 1)
    last=${last:-0}
    limit 3600
    job $system "$variables" deck.cfg "output.folder=$system" "train.steps=$((last + 3))" >out
    check "$system: the next job finishes" test $? -eq 0
    check "$system: from the checkpoint" grep -q "continuing from .*$system/step_" out
    check "$system: it is not submitted again" test ! -e submitted
    losses $system >$system.losses
    check "$system: each step once" test "$(cut -d ' ' -f 1 $system.losses | paste -sd ' ')" = "$(seq -s ' ' $((last + 3)))"
done
longest=$(cat pbs.losses lsf.losses flux.losses | sort -n | tail -n 1 | cut -d ' ' -f 1)
$launcher -n $ranks --oversubscribe "$real" train deck.cfg output.folder=whole "train.steps=$longest" >out 2>&1
losses whole >whole.losses
for system in pbs lsf flux; do
    check "$system: the losses of a run that was never stopped" \
        cmp $system.losses <(head -n "$(wc -l <$system.losses)" whole.losses)
done

# -- The words that start the ranks, and the nodes that are left

cat >bin/cistron <<'END'
#!/bin/bash
case $1 in jobscripts | deck) exec "$real" "$@" ;; esac
printf '%s|' cistron "$@"
END
# fails at its first call
cat >bin/mpirun <<'END'
#!/bin/bash
printf '%s|' "${0##*/}"
while [[ $1 != */cistron ]]; do printf '%s|' "$1"; shift; done
"$@"
echo
echo >>"$work/made/log.jsonl"
[ "$(wc -l <"$work/made/log.jsonl")" -gt 1 ] || exit 137
END
chmod +x bin/*
export CISTRON=$work/bin/cistron
cp "$scripts"/train.{pbs,lsf,flux} .
sed -i 's/--nslots=2/--nslots=8/; s/--cores-per-slot=4/--cores-per-slot=12 --gpus-per-slot=1/' train.flux
printf 'n%s\n' 1 1 1 1 1 1 1 1 2 2 2 2 2 2 2 2 >hosts
echo n2 >down
limit 3600
for system in pbs lsf flux; do
    rm -rf made && mkdir made
    variables="OMP_NUM_THREADS=12 CISTRON_CORES=12 CISTRON_PAUSE=0 PBS_ARRAY_INDEX=3 FLUX_JOB_CC=3"
    [ $system != lsf ] || variables+=" LSB_JOBINDEX=3"
    job $system "$variables" deck.cfg "output.folder=$work/made" train.seed=%a >out
    check "$system: ends with 0" test $? -eq 0
    if [ $system = flux ]; then
        task="--cores-per-task=12 --setopt=cpu-affinity=per-task --setopt=exit-on-error --gpus-per-task=1 "
        both="run --nodes=2 --ntasks=16 $task"
        one="run --nodes=1 --ntasks=8 $task--requires=hosts:n1 "
    else
        both="mpirun|-n|16|--host|n1:8,n2:8|--map-by|slot:PE=12|--bind-to|core|"
        one="mpirun|-n|8|--host|n1:8|--map-by|slot:PE=12|--bind-to|core|"
    fi
    check "$system: all nodes of the job" says "$both"
    check "$system: then the node that is left" says "$one"
    check "$system: is said" says "# n2 does not answer: it is not used again"
    check "$system: the number of the array task" says "train.seed=3"
done

# -- Plans and mistakes

for system in pbs lsf flux; do
    cp "$scripts/train.$system" .
    bash train.$system --plan x >out 2>&1
    check "$system: a plan outside of a job" says "cistron|plan|--ranks|2|--ranks-per-node|2|x|"
    bash train.$system --help >out 2>&1
    check "$system: help" test "$(grep -c 'jobscripts/train\.' out)" -ge 2 -a "$(grep -c '^#' out)" -eq 0
    bash train.$system >out 2>&1
    check "$system: no deck: exit code 2" test $? -eq 2
    check "$system: no deck: is said" says "the deck is missing"
    limit 60
    job $system CISTRON_WARNING=60 x >out
    check "$system: less time than the warning: exit code 2" test $? -eq 2
    check "$system: less time than the warning: is said" says "CISTRON_WARNING=60: must be less than the time of the job, "
    CISTRON_WARNING=soon bash train.$system x >out 2>&1
    check "$system: a warning that is not a number" says "CISTRON_WARNING=soon: must be a number of seconds"
done
sed -i 's/select=1:ncpus=8:mpiprocs=2/select=4/; s/-n 2/-n 32/; s/ptile=2/ptile=8/' train.pbs train.lsf
bash train.lsf --plan x >out 2>&1
check "lsf: ranks by the script's lines" says "|--ranks|32|--ranks-per-node|8|"
bash train.pbs --plan x >out 2>&1
check "pbs: without ranks: exit code 2" test $? -eq 2
check "pbs: without ranks: what it lacks" says "Its #PBS line needs -l select=N:mpiprocs=N"
CISTRON_LAUNCHER=srun bash train.flux x >out 2>&1
check "flux: another launcher" says "CISTRON_LAUNCHER=srun: must be flux or mpirun"
PBS_JOBID=7 "$scripts/supervise" x >out 2>&1
check "supervise in a job names the script for it" says "in a job of a batch system use its script: $scripts/train.pbs"
finish
