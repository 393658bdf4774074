#!/bin/bash
# The job scripts, without Slurm, plan their decks for the ranks and nodes that they request, and start the right
# commands with either launcher (t_slurm.sh runs them on Slurm).
. "$abs_top_srcdir/tests/lib.sh"
unset "${!SLURM_@}" "${!CISTRON_LAUNCHER@}" NCCL_DEBUG OMP_NUM_THREADS
cd "$work" || exit 1
ulimit -S -c "$(ulimit -H -c)"
scripts=$abs_top_srcdir/jobscripts
here=$CISTRON
check "the program knows their folder" test "$("$CISTRON" jobscripts)" -ef "$scripts"
check "the program prints all keys of a deck, with those of the command line" \
    test "$("$CISTRON" deck quickstart.cfg output.folder=x | grep -c '^    folder = "x";$\|^    steps = [0-9]*;$')" -eq 2
"$CISTRON" jobscripts --list >out
for script in "$scripts"/*; do
    if [ -x "$script" ]; then check "${script##*/} is listed" grep -q "^${script##*/} *[A-Z][^:,]* [^:]*[^:,]$" out; fi
done
check "files that are not scripts are not listed" test "$(wc -l <out)" -eq "$(find "$scripts" -maxdepth 1 -type f -executable | wc -l)"
check "a script is printed" cmp <("$CISTRON" jobscripts train.pbs) "$scripts/train.pbs"
for name in nowhere.slurm ../input/quickstart.cfg; do
    "$CISTRON" jobscripts $name >out 2>&1
    check "$name is not a script: exit code 2" test $? -eq 2
    check "$name is not a script: is said" says "cistron: $name is not a job script of "
done
"$CISTRON" deck --markdown quickstart.cfg >out 2>&1
check "a deck as Markdown: exit code 2" test $? -eq 2

for script in "$scripts"/*.slurm "$scripts/benchmark" "$scripts/supervise"; do
    "$script" --help >out 2>&1
    check "$script --help: exit code 0" test $? -eq 0
    check "$script --help: how to call it" grep -qE "(jobscripts/|^ *)$(basename "$script") " out
    check "$script --help: its head alone" test "$(grep -c '^#\|^set\|SBATCH --' out)" -eq 0
done

# Stand-ins that say what they were given. `cistron` leaves what only it knows to the real one.
mkdir bin spool
cat >bin/cistron <<END
#!/bin/sh
[ "\$1" = jobscripts ] && exec "$here" "\$@"
case \$1 in inspect | deck) exec "$here" "\$@" ;; esac
printf '%s|' "cores \$(ulimit -c)" "threads \$OMP_NUM_THREADS" "nccl \$NCCL_DEBUG" "gpus \${SLURM_GPUS_PER_NODE:-} \${SLURM_GPUS_PER_TASK:-}" \
    cistron "\$@"
END
cat >bin/mpirun <<'END'
#!/bin/bash
printf '%s|' "${0##*/}"
while [[ $1 != */cistron && $1 != wrapped ]]; do printf '%s|' "$1"; shift; done
"$@"
END
printf '#!/bin/sh\nprintf "wrapped by $1|"\nshift\n"$@"\n' >bin/wrapped
cp bin/mpirun bin/srun
chmod +x bin/*
PATH=$work/bin:$PATH
export CISTRON=$work/bin/cistron

# given VARIABLES SCRIPT ARGUMENTS...: what it starts
given()
{
    local variables=$1
    shift
    # shellcheck disable=SC2086
    env $variables bash "$@" 2>&1
}
node="SLURM_JOB_ID=1 SLURM_NNODES=2 SLURM_NTASKS=16 SLURM_CPUS_PER_TASK=12"
ran="cores 0|threads 12|nccl WARN|gpus  |cistron|train|my deck.cfg|train.seed=3|"
check "srun, in a job of 2 nodes" test \
    "srun|--mpi=pmix|--kill-on-bad-exit=1|--ntasks=16|--cpus-per-task=12|--cpu-bind=cores|--distribution=block:block|$ran" = \
    "$(given "$node CISTRON_LAUNCHER=srun" "$scripts/train.slurm" "my deck.cfg" train.seed=3)"
check "mpirun, in a job of 2 nodes" test "mpirun|-n|16|--map-by|slot:PE=12|--bind-to|core|$ran" = \
    "$(given "$node CISTRON_LAUNCHER=mpirun" "$scripts/train.slurm" "my deck.cfg" train.seed=3)"
check "mpirun, where Slurm has a GPU for each task: it takes the node's" grep -qF "gpus 8 |" \
    <<<"$(given "$node SLURM_GPUS_PER_TASK=1 SLURM_GPUS_ON_NODE=8 CISTRON_LAUNCHER=mpirun" "$scripts/train.slurm" x)"
check "srun, where it has" grep -qF "gpus  1|" \
    <<<"$(given "$node SLURM_GPUS_PER_TASK=1 SLURM_GPUS_ON_NODE=8 CISTRON_LAUNCHER=srun" "$scripts/train.slurm" x)"
check "no job: mpirun, with the ranks of the script's lines" grep -qF "mpirun|-n|2|--map-by|slot:PE=4|" \
    <<<"$(given A=1 "$scripts/train.slurm" x)"
check "what the user sets stays" grep -qF "threads 3|nccl INFO|" \
    <<<"$(given "OMP_NUM_THREADS=3 NCCL_DEBUG=INFO" "$scripts/train.slurm" x)"
check "a wrapper stands before the program" grep -qF "wrapped by 7|cores" \
    <<<"$(CISTRON_WRAPPER="wrapped 7" given A=1 "$scripts/train.slurm" x)"
check "a program of several words, as in a container" grep -qF "|--bind-to|core|env|IMAGE=1|cores 0|threads 4|" \
    <<<"$(CISTRON="env IMAGE=1 $CISTRON" given A=1 "$scripts/train.slurm" x)"
# pyxis: srun starts each command in a container
cat >bin/pyxis <<'END'
#!/bin/bash
case $* in *"cistron train "*) ;; *) while [[ $1 != */cistron ]]; do shift; done && exec "$@" ;; esac
exec "$0.words" "$@"
END
mv bin/srun bin/srun.words && mv bin/pyxis bin/srun && chmod +x bin/srun
pyxis="srun --nodes=1 --ntasks=1 --overlap --container-image=i.sqsh --container-mounts=/d:/d $CISTRON"
check "pyxis: the ranks' srun has its options, once" grep -qF -- \
    "--ntasks=16|--cpus-per-task=12|--cpu-bind=cores|--distribution=block:block|--container-image=i.sqsh|--container-mounts=/d:/d|cores" \
    <<<"$(CISTRON=$pyxis given "$node CISTRON_LAUNCHER=srun" "$scripts/train.slurm" x)"
CISTRON=$pyxis given "$node CISTRON_LAUNCHER=mpirun" "$scripts/train.slurm" x >out
check "pyxis under mpirun: exit code 2" test $? -eq 2
check "pyxis under mpirun: is said" says "srun starts the program, so CISTRON_LAUNCHER must be srun"
mv bin/srun.words bin/srun
check "%a outside an array" grep -qF "|a%a-%a|" <<<"$(given A=1 "$scripts/train.slurm" x a%a-%a)"
check "%a in an array" grep -qF "|a7-7|" <<<"$(given SLURM_ARRAY_TASK_ID=7 "$scripts/train.slurm" x a%a-%a)"
given CISTRON_LAUNCHER=mpiexec "$scripts/train.slurm" x >out
check "another launcher: exit code 2" test $? -eq 2
check "another launcher: is said" says "CISTRON_LAUNCHER=mpiexec: must be srun or mpirun"

# -- Spare nodes and restarts: stand-ins for Slurm's commands, and a srun that fails as often as the file `fails` says

cat >bin/scontrol <<'END'
#!/bin/sh
[ "$1 $2" = "show hostnames" ] || exec echo "scontrol $*"
case $3 in n\[1-3\]) printf 'n%s\n' 1 2 3 ;; n\[1-2\]) printf 'n%s\n' 1 2 ;; *) echo "$3" ;; esac
END
printf '#!/bin/sh\ncat "%s/down" 2>/dev/null\n' "$work" >bin/sinfo
printf '#!/bin/sh\nprintf "%%s\\n" 7.batch 7.3\n' >bin/squeue
printf '#!/bin/sh\necho "scancel $*"\n' >bin/scancel
cat >bin/srun <<END
#!/bin/bash
[ "\$1" = --mpi=list ] && exec echo pmix
while [[ \$1 != */cistron ]]; do [[ \$1 = --n* ]] && printf '%s ' "\$1"; shift; done
echo
echo >>"$work/starts"
echo '{"event":"start"}' >>"$work/made/log.jsonl"
[ "\$(wc -l <"$work/starts")" -gt "\$(head -n 1 "$work/fails")" ] && exit "\$(sed -n 3p "$work/fails")"
sed -n 2p "$work/fails" >&2
exit 137
END
chmod +x bin/*
three="SLURM_JOB_ID=7 SLURM_JOB_NODELIST=n[1-3] SLURM_NNODES=3 SLURM_NTASKS=24 SLURM_CPUS_PER_TASK=12 CISTRON_PAUSE=0"
# started VARIABLES FAILS MESSAGE [CODE [LOG]]: the script of a job on three nodes, where srun fails so often with this
# message, then ends with the code; the run's folder has this log already
started()
{
    rm -rf made starts
    mkdir made
    printf '%s' "${5:-}" >made/log.jsonl
    printf '%s\n' "$2" "$3" "${4:-0}" >fails
    given "$three $1" "$scripts/train.slurm" quickstart.cfg output.folder=made >out
    code=$?
}
started A=1 0 ""
check "all nodes: no list of them" grep -qxF -- "--ntasks=24 " out
started CISTRON_SPARES=1 0 ""
check "a spare node: the run has the others" grep -qxF -- "--ntasks=16 --nodes=2 --ntasks-per-node=8 --nodelist=n1,n2 " out
started CISTRON_SPARES=1 1 "srun: error: n2: task 9: Killed"
check "the node of a killed rank: exit code 0" test $code -eq 0
check "the node of a killed rank: the spare one takes its place" grep -qxF -- \
    "--ntasks=16 --nodes=2 --ntasks-per-node=8 --nodelist=n1,n3 " out
check "the failed start's steps are ended, the script is not" test "$(grep scancel out)" = "scancel --quiet --signal=KILL 7.3"
started A=1 1 "srun: error: n1: task 0: Exited with exit code 1"
check "an exit code blames no node" test "$(grep -cxF -- "--ntasks=24 " out)" -eq 2
started CISTRON_SPARES=1 1 "srun: error: Node failure on n1"
check "a node that is down is left out" grep -qxF -- "--ntasks=16 --nodes=2 --ntasks-per-node=8 --nodelist=n2,n3 " out
check "a node that is down: is said" says "# n1 does not answer"
started A=1 1 "srun: error: n2: task 9: Killed"
check "no spare: fewer ranks" grep -qxF -- "--ntasks=16 --nodes=2 --ntasks-per-node=8 --nodelist=n1,n3 " out
started A=1 1 "srun: error: n[1-2]: tasks 0-15: Killed"
check "a list of nodes" grep -qxF -- "--ntasks=8 --nodes=1 --ntasks-per-node=8 --nodelist=n3 " out
echo n3 >down
started A=1 1 "srun: error: n[1-2]: tasks 0-15: Killed"
check "none is left but those that still answer: they are used" grep -qxF -- \
    "--ntasks=16 --nodes=2 --ntasks-per-node=8 --nodelist=n1,n2 " out
printf 'n%s\n' 1 2 3 >down
started A=1 1 "srun: error: n2: task 9: Killed"
check "no node answers: the run ends" test $code -eq 137
check "no node answers: is said" says "# no restart: of 3 nodes 0 are left"
rm down
started A=1 0 "" 85
check "stopped early: requeued" says "scontrol requeue 7"
started A=1 0 "" 85 "$(printf '{"event":"%s"}\n' start start checkpoint start start x)"
check "three starts in a row without a checkpoint: not requeued" says \
    "# not requeued: 3 starts in a row have saved no checkpoint"
check "three starts in a row without a checkpoint: exit code 85" test $code -eq 85
started A=1 0 "" 85 "$(printf '{"event":"%s"}\n' start start checkpoint start x)"
check "two starts: requeued" says "scontrol requeue 7"
given "$three CISTRON_SPARES=1" "$scripts/train.slurm" --plan x >out
check "the plan leaves out spare nodes" grep -qF "|plan|--ranks|16|--ranks-per-node|8|x|" out
given "$three CISTRON_SPARES=3" "$scripts/train.slurm" x >out
check "no node but spare ones: exit code 2" test $? -eq 2
check "no node but spare ones: is said" says "CISTRON_SPARES=3: must be a number below that of the job's nodes, 3"
rm bin/scontrol bin/sinfo bin/squeue bin/scancel
cp bin/mpirun bin/srun

# Slurm runs a copy; a user changes one
cp "$scripts/train.slurm" spool/slurm_script
check "a copy elsewhere finds what it shares" grep -qF "cistron|train|x|" <<<"$(given A=1 spool/slurm_script x)"
given CISTRON=/nowhere/cistron spool/slurm_script x >out
check "without the program: exit code 1" test $? -eq 1
check "without the program: is said" says "/nowhere/cistron: "
check "without the program: nothing is started" test "$(grep -c 'mpirun\|command not found' out)" -eq 0

# no_deck WHAT SCRIPT ARGUMENTS...: one line, exit code 2
no_deck()
{
    local what=$1
    shift
    given A=1 "$@" >out
    check "$what: exit code 2" test $? -eq 2
    check "$what: is said" grep -q "^$1: the deck is missing: " out
    check "$what: nothing else is" test "$(wc -l <out)" -eq 1
}
no_deck "no deck" "$scripts/train.slurm"
no_deck "an empty deck" "$scripts/train.slurm" ""
no_deck "keys alone" "$scripts/train.slurm" train.seed=3
no_deck "a plan of no deck" "$scripts/train.slurm" --plan
for script in "$scripts"/*.slurm; do # whose deck a copy has lost
    sed '/^train /s/.*/train "$@"/' "$script" >spool/slurm_script
    no_deck "${script##*/} without its deck" spool/slurm_script
done
touch spool/a=b.cfg
check "a deck with = in its name" grep -qF "|spool/a=b.cfg|" <<<"$(given A=1 "$scripts/train.slurm" spool/a=b.cfg)"
check "a checkpoint's own deck" grep -qF "|train|--from|c.h5|" <<<"$(given A=1 "$scripts/train.slurm" --from c.h5)"

sed 's/--ntasks-per-node=[0-9]* //; s/--cpus-per-task=[0-9]*//' "$scripts/train.slurm" >spool/no_ranks
given A=1 spool/no_ranks --plan x >out
check "a copy without ranks: exit code 2" test $? -eq 2
check "a copy without ranks: what it lacks" grep -qx "spool/no_ranks: .*--ntasks-per-node=N" out
sed 's/--nodes=1 /--ntasks 6 --nodes=2 /' spool/no_ranks >spool/six
check "a copy with --ntasks, and without cores" grep -qF "threads 1|nccl WARN|gpus  |cistron|plan|--ranks|6|--ranks-per-node|3|x|" \
    <<<"$(given A=1 spool/six --plan x)"

# Each script's plan is of its own ranks, and fits its GPUs
plans=0
while read -r name ranks a_node gpus keys; do
    # shellcheck disable=SC2086
    words=$(given A=1 "$scripts/$name.slurm" --plan $keys)
    check "$name: $ranks ranks, $a_node on a node" grep -qF "cistron|plan|--ranks|$ranks|--ranks-per-node|$a_node|" <<<"$words"
    asked=$(sed -n 's/^#SBATCH .*--gpus-per-[a-z]*=\([0-9]*\).*/\1/p' "$scripts/$name.slurm")
    check "$name: asks for ${gpus#-} GPUs" test "${asked:--}" = "$gpus"
    # shellcheck disable=SC2086
    given "CISTRON=$here" "$scripts/$name.slurm" --plan $keys >out
    check "$name: its plan: exit code 0" test $? -eq 0
    check "$name: its plan fits" says "it fits"
    plans=$((plans + 1))
done <<'END'
amplify_350m 32 8 8
esm2_15b 16 8 8
esm2_650m 8 8 8
esm2_tiny_proteins 2 2 -
fine_tune 1 1 1 model.initialise_from= model.preset=esm2_650m
lingua_1b 64 8 8
og2_7b 48 8 8
seeds 2 2 -
train 2 2 - quickstart.cfg
END
check "no script is left out" test "$(ls "$scripts"/*.slurm | wc -l)" -eq $plans
for script in "$scripts"/*.slurm; do
    check "${script##*/}: is warned through its script, may be requeued, goes on in one file" \
        test "$(grep -cE '^#SBATCH (.* )?--(signal=B:USR1@[0-9]{3}|requeue --open-mode=append --output=%x-%(j|A_%a).out)$' \
            "$script")" -eq 2
    check "${script##*/}: ends where what it shares is not found" \
        grep -qxF 'eval "$(${CISTRON:-cistron} jobscripts common.sh || echo exit 1)"' "$script"
    check "${script##*/}: is installed" grep -qF "jobscripts/${script##*/}" "$scripts/Makefile.am"
done
check "sbatch's numbers win" grep -qF -- "--ranks|16|--ranks-per-node|8|" \
    <<<"$(given SLURM_NNODES=2 "$scripts/esm2_650m.slurm" --plan)"
check "a plan: keys come last" grep -qF "|device.memory=139|train.steps=3|" \
    <<<"$(given CISTRON_GPU_MEMORY=139 "$scripts/esm2_650m.slurm" --plan train.steps=3)"
given "CISTRON=$here" "$scripts/og2_7b.slurm" --plan device.memory=20 >out
check "a plan that does not fit: exit code 2" test $? -eq 2

# -- The benchmark

# benchmark "SETTINGS" ARGUMENTS...
benchmark()
{
    local settings=$1
    shift
    # shellcheck disable=SC2086
    env $settings "$scripts/benchmark" "$@" >out 2>&1
    code=$?
}
# submits SETTINGS WORDS...: the printed command has each of these words
submits()
{
    local settings=$1 word
    shift
    benchmark "$settings" --print
    check "$settings: exit code 0" test $code -eq 0
    for word; do
        check "$settings: $word" grep -qF -- " $word " <<<" $(cat out) "
    done
}
small="MODEL_SIZE=8b DTYPE=bf16 JOB_TOTAL_GPUS=8"
submits "$small" "sbatch --job-name=pretrain_llama3.1_8b_bf16_8 --nodes=1 --ntasks-per-node=8 --gpus-per-node=8" \
    "llama31_8b_nemo.cfg train.global_batch=128" checkpoint.at_end=false train.steps=50
check "no trace or profile unless asked for" test "$(grep -c 'NCCL\|profile' out)" -eq 0
submits "MODEL_SIZE=8b DTYPE=fp8 JOB_TOTAL_GPUS=64 GPUS_PER_NODE=4 MAX_STEPS=7" --nodes=16 --gpus-per-node=4 \
    "llama31_8b_nemo_fp8.cfg train.global_batch=1024" train.steps=7
submits "MODEL_SIZE=8b DTYPE=block JOB_TOTAL_GPUS=4" --nodes=1 --ntasks-per-node=4 \
    "llama31_8b_nemo_fp8.cfg precision.recipe=block"
submits "MODEL_SIZE=405b DTYPE=bf16 JOB_TOTAL_GPUS=64" "model.preset=llama31_405b_30 parallel.pipeline=4 train.global_batch=64"
submits "MODEL_SIZE=405b DTYPE=bf16 JOB_TOTAL_GPUS=512" "llama31_405b_nemo.cfg train.global_batch=256"
submits "$small ENABLE_PROFILE=true" "profile.start=20 profile.stop=25 profile.ranks=0\\,1\\,2\\,3\\,4\\,5\\,6\\,7" train.steps=25
submits "$small ENABLE_PROFILE=true PROFILE_START_STEP=3 PROFILE_STOP_STEP=4" "profile.start=3 profile.stop=4" train.steps=4
cp bin/wrapped bin/nsys
benchmark "$small ENABLE_PROFILE=true" --print
check "a profile: nsys, around each rank" grep -qE \
    '^env CISTRON_WRAPPER=nsys.*capture-range=cudaProfilerApi.*--output=runs/pretrain_[^ ]*/profile_%h_%p sbatch ' out
submits "$small ENABLE_CHECKPOINT=true"
check "a checkpoint is left" test "$(grep -c at_end out)" -eq 0
submits "$small ENABLE_NCCLTRACE=true" "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=COLL\\,P2P" train.steps=5 \
    "profile.start=1 profile.stop=5 profile.ranks=all profile.collectives=true"
check "a trace: a file for each host and process" grep -qE ' NCCL_DEBUG_FILE=runs/[^ ]*/nccl_%h_%p sbatch ' out
"$here" train quickstart.cfg data.source=random data.train= data.valid= model.vocabulary=64 train.steps=2 device.threads=1 \
    output.folder=begun log.tensorboard=false >out 2>&1 || exit 1
submits "$small LOAD_CHECKPOINT_PATH=begun" train.resume=begun train.steps=3
submits "$small LOAD_CHECKPOINT_PATH=begun ENABLE_NCCLTRACE=true" "profile.start=3 profile.stop=3" train.steps=3
submits "$small LOAD_CHECKPOINT_PATH=begun ENABLE_PROFILE=true" "profile.start=20 profile.stop=25" train.steps=25

benchmark "$small CISTRON=$here" --plan
check "the benchmark's plan: exit code 0" test $code -eq 0
check "the benchmark's plan fits" says "GiB of 79.00 GiB: it fits"
check "nothing was submitted" test ! -e runs
printf '#!/bin/sh\nprintf "%%s|" sbatch "${NCCL_DEBUG:-}" "$@"\n' >bin/sbatch
chmod +x bin/sbatch
benchmark "$small ENABLE_NCCLTRACE=true" train.seed=5
check "submitted with NCCL's trace: exit code 0" test $code -eq 0
check "submitted with NCCL's trace, keys last" grep -q '^sbatch|INFO|--job-name=.*|train.steps=5|train.seed=5|$' out
check "NCCL finds its folder" test -d runs/pretrain_llama3.1_8b_bf16_8_*
rm -r runs
printf '#!/bin/sh\nexit 7\n' >bin/sbatch
benchmark "$small"
check "refused by sbatch: its exit code" test $code -eq 7
check "refused by sbatch: no folder is left" test -z "$(ls runs)"

# bad TEXT SETTINGS ARGUMENTS...: one line, exit code 2
bad()
{
    local words=$1
    shift
    benchmark "$@"
    check "$1: exit code 2" test $code -eq 2
    check "$1: is said" says "$words"
    check "$1: nothing else is" test "$(wc -l <out)" -eq 1
}
bad "MODEL_SIZE is not set" A=1
bad "MODEL_SIZE=13b: must be one of 8b 70b 405b" "$small MODEL_SIZE=13b"
bad "DTYPE=fp4: must be one of bf16 fp8" "$small DTYPE=fp4"
bad "JOB_TOTAL_GPUS=7: must be a multiple of 2" "$small JOB_TOTAL_GPUS=7"
bad "JOB_TOTAL_GPUS=08: must be a multiple of 2" "$small JOB_TOTAL_GPUS=08"
bad "JOB_TOTAL_GPUS=12: must be a multiple of 8" "$small JOB_TOTAL_GPUS=12"
bad "JOB_TOTAL_GPUS=48: must be a multiple of 32" "$small MODEL_SIZE=70b JOB_TOTAL_GPUS=48"
bad "JOB_TOTAL_GPUS=192: must be a multiple of 128" "$small MODEL_SIZE=405b JOB_TOTAL_GPUS=192"
bad "GPUS_PER_NODE=x: must be a whole number above 0" "$small GPUS_PER_NODE=x"
bad "ENABLE_PROFILE=yes: must be one of true false" "$small ENABLE_PROFILE=yes"
bad "PROFILE_STOP_STEP=5: must be at least PROFILE_START_STEP=20" "$small ENABLE_PROFILE=true PROFILE_STOP_STEP=5"
bad "PROFILE_STOP_STEP=25: must be at most MAX_STEPS=24" "$small ENABLE_PROFILE=true MAX_STEPS=24"
bad "PROFILE_START_STEP=2: must be above 2, the step" \
    "$small ENABLE_PROFILE=true PROFILE_START_STEP=2 LOAD_CHECKPOINT_PATH=begun"
bad "ENABLE_PROFILE and ENABLE_NCCLTRACE" "$small ENABLE_PROFILE=true ENABLE_NCCLTRACE=true"
bad "MAX_STEPS=0: must be" "$small MAX_STEPS=0"
bad "--dry-run: must be --print, --plan (first) or KEY=VALUE" "$small" --dry-run
benchmark "$small LOAD_CHECKPOINT_PATH=nowhere"
check "no checkpoint to load: exit code 2" test $code -eq 2
check "no checkpoint to load: is said" says "LOAD_CHECKPOINT_PATH=nowhere: must be a checkpoint"
finish
