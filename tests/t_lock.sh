#!/bin/bash
# A second live run in a folder is refused with the host and process of the first; a dead owner's lock is taken over.
# HDF5 files are read and written without locks, where locking fails or another process holds one.
. "$abs_top_srcdir/tests/lib.sh"
needs pkill
small_deck || exit 1
$MPIRUN -n 2 "$CISTRON" train "$work/deck.cfg" train.steps=10000000 checkpoint.every=20 >"$work/first" 2>&1 &
launcher=$!
for _ in $(seq 1200); do
    [ -s "$work/run/lock" ] && grep -q 'step_00000020.h5' "$work/first" && break
    sleep 0.1
done
ranks 2 train "$work/deck.cfg" train.steps=12
check "a second live run: exit code 2 on both ranks" codes_are 2 2
check "a second live run: is told the host" says "host $(hostname), process "
check "a second live run: and that another works there" says "another run uses it"
kill -0 $launcher
check "the first goes on" test $? -eq 0
pkill -9 -f "$CISTRON train $work/deck.cfg"
wait $launcher 2>/dev/null
ranks 2 train "$work/run/deck.cfg" train.steps=1 # the newest is beyond: nothing but the final model is left to do
check "a dead owner's lock is taken over" codes_are 0 2
check "and it is named" says "host $(hostname), process "
check "a run that ends leaves no owner" test ! -s "$work/run/lock"

# what an owner leaves who dies elsewhere
printf 'host elsewhere, process 1, Slurm job 17, since then\n' >"$work/run/lock"
ranks 2 train "$work/run/deck.cfg" train.steps=1
check "the dead owner's job is named" says "Slurm job 17"
check "and its lock is taken over" codes_are 0 2

# a file system without locks: what the file says decides. no_locks HOST PROCESS ERROR
no_locks()
{
    printf 'host %s, process %s, since then\n' "$1" "$2" >"$work/run/lock"
    (export LD_PRELOAD="$abs_top_builddir/tests/shim.so" SHIM_FOLDER="$work/run" SHIM_FAIL="lock:1:$3"
        ranks 2 train "$work/run/deck.cfg" train.steps=1)
}
sh -c 'exit 0' &
dead=$!
wait $dead
no_locks "$(hostname)" $$ 37
check "without locks, a living owner of this host: refused on both ranks" codes_are 2 2
check "and named" says "process $$"
check "whose line stays" grep -q "process $$," "$work/run/lock"
while read -r error reason; do
    no_locks "$(hostname)" $dead "$error"
    check "without locks, a dead owner: taken over" codes_are 0 2
    check "without locks: a warning" says "lock: cannot be locked ($reason); make sure that no other run uses the folder"
done <<'END'
37 No locks available
5 Input/output error
524 Operation not supported
END
no_locks elsewhere $$ 37
check "without locks, an owner elsewhere: taken over" codes_are 0 2
check "without locks: a warning for it" says "cannot be locked"
no_locks elsewhere 17 11
check "a lock of another machine: refused" codes_are 2 2
check "and its owner is named" says "another run uses it (host elsewhere, process 17, since then)"

# HDF5 locks no file. unlocked ERROR ARGUMENTS...: cistron ARGUMENTS where flock fails
unlocked()
{
    local error=$1
    shift
    env LD_PRELOAD="$abs_top_builddir/tests/shim.so" SHIM_FOLDER="$work" SHIM_FAIL="flock:1:$error" \
        "$CISTRON" "$@" >"$work/out" 2>&1
}
works()
{
    unlocked "$@" && return
    sed 's/^/    | /' "$work/out" | tail -n 20 >&2
    return 1
}
echo ACGTACGT >"$work/prompts"
for error in 37 5 11 524; do
    rm -rf "$work/run" "$work/g.train.h5" "$work/e.h5"
    check "flock fails ($error): prepare" works $error prepare --tokenizer nucleotide -o "$work/g.train.h5" "$work/g.fa"
    check "flock fails ($error): train" works $error train "$work/deck.cfg" train.steps=2
    check "flock fails ($error): train resumes" works $error train "$work/deck.cfg" train.steps=4
    check "flock fails ($error): and from its checkpoint" says "continuing from $work/run/step_00000002.h5"
    check "flock fails ($error): inspect" works $error inspect "$work/run"
    check "flock fails ($error): embed" works $error embed --checkpoint "$work/run" --fasta "$work/g.fa" --max-length 64 -o "$work/e.h5"
    check "flock fails ($error): inspect of embeddings" works $error inspect "$work/e.h5"
done
(
    flock -x 9
    "$CISTRON" inspect "$work/run" >"$work/out" 2>&1
) 9<"$work/run/step_00000004.h5"
check "a checkpoint that another process has locked is read" test $? -eq 0
export HDF5_USE_FILE_LOCKING=TRUE
for command in "inspect $work/g.train.h5" "inspect $work/run/step_00000004.h5" "train $work/deck.cfg train.steps=5" \
    "prepare --tokenizer nucleotide -o $work/other.h5 $work/g.fa"; do
    # shellcheck disable=SC2086
    unlocked 37 $command
    check "a lock that the environment asks for: exit code 1" test $? -eq 1
    check "and the message names it" says "it cannot be locked: the file system has no locks"
    check "and the variable" says "HDF5_USE_FILE_LOCKING"
done
check "no checkpoint is set aside for that" test -s "$work/run/step_00000004.h5"
finish
