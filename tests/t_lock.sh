#!/bin/bash
# One live run in a folder at a time; a dead owner's lock is taken over.
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
check "a second live run: and that another works there" says "another run works in it"
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

# a file system without locks: what the file says decides
no_locks()
{
    printf 'host %s, process %s, since then\n' "$1" "$2" >"$work/run/lock"
    (export LD_PRELOAD="$abs_top_builddir/tests/shim.so" SHIM_FOLDER="$work/run" SHIM_FAIL=lock:1:ENOLCK
        ranks 2 train "$work/run/deck.cfg" train.steps=1)
}
sh -c 'exit 0' &
dead=$!
wait $dead
no_locks "$(hostname)" $$
check "without locks, a living owner of this host: refused on both ranks" codes_are 2 2
check "and named" says "process $$"
check "whose line stays" grep -q "process $$," "$work/run/lock"
no_locks "$(hostname)" $dead
check "without locks, a dead owner: taken over" codes_are 0 2
check "without locks: a warning" says "this file system has no locks"
no_locks elsewhere $$
check "without locks, an owner elsewhere: taken over" codes_are 0 2
check "without locks: a warning for it" says "this file system has no locks"
finish
