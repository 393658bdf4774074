#!/bin/bash
# jobscripts/supervise starts a run again after a failure, on simulated hosts (tests/simulated_host): a killed rank, a
# host that vanishes and one that stands still are replaced by spare hosts, and the run ends with the digest of an
# undisturbed one; the log says how much time was lost. On fewer hosts the layout is chosen again, or one line says why
# none fits. A run whose ranks all stand still is started again (CISTRON_STALL). Starts that save nothing end after three,
# mistakes and divergence after one. Ctrl-C saves and ends the run.
#
# limit: 3600 s
. "$abs_top_srcdir/tests/lib.sh"
needs setsid
agent=$abs_top_srcdir/tests/simulated_host
if ! "$agent" --works 2>/dev/null || ! mpirun --version 2>/dev/null | grep -q '(Open MPI) 4'; then
    echo "skipped: hosts cannot be simulated here (unshare --uts, Open MPI 4)"
    exit 77
fi
unset "${!SLURM_@}" "${!CISTRON_LAUNCHER@}" OMPI_MCA_rmaps_base_oversubscribe
export SIMULATED_DOWN=$work/down OMPI_MCA_plm_rsh_agent=$agent CISTRON_PAUSE=0 CISTRON_GRACE=2
export OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo OMPI_MCA_mpi_yield_when_idle=1
mkdir "$work/down"
small_deck || exit 1
sed -i 's/steps = 12/steps = 60/; s/every = 6/every = 50/' "$work/deck.cfg"
supervise=$abs_top_srcdir/jobscripts/supervise

# await SECONDS COMMAND...: until it succeeds
await()
{
    local until=$((SECONDS + $1))
    shift
    while ! "$@"; do
        [ $SECONDS -lt $until ] || return 1
        sleep 0.05
    done
}

# reached NAME STEP: the run has logged this step
reached()
{
    [ "$(losses "$work/$1" 2>/dev/null | tail -n 1 | cut -d ' ' -f 1)" -ge "$2" ] 2>/dev/null
}

# ranks_of HOST: the processes of its ranks
ranks_of()
{
    local process
    for process in $("$agent" --processes "$1"); do
        [ "$(cat "/proc/$process/comm" 2>/dev/null)" = cistron ] && echo "$process"
    done
}

# start NAME "OPTIONS" KEY=VALUE...: a supervised run into $work/NAME in the background; its output is $work/NAME.out
start()
{
    local name=$1 options=$2
    shift 2
    # shellcheck disable=SC2086
    CISTRON_WRAPPER="env LD_PRELOAD=$abs_top_builddir/tests/shim.so SHIM_SLOW=2e-3" timeout 600 "$supervise" $options \
        "$work/deck.cfg" output.folder="$work/$name" checkpoint.every=5 "$@" \
        >"$work/$name.out" 2>&1 &
    job=$!
}

# ends NAME CODE: it ends with this exit code
ends()
{
    local code
    wait $job
    code=$?
    cp "$work/$1.out" "$work/out"
    [ $code -eq "$2" ] && return
    echo "    exit code $code instead of $2" >&2
    grep -E '^#.*(start|not|nodes)|^cistron|comm.timeout|noticed' "$work/out" | sed 's/^/    | /' >&2
    return 1
}

# struck NAME STEP COMMAND...: the command is run when the run in the background has come to the step
struck()
{
    local name=$1
    check "$1: it comes to step $2" await 300 reached "$1" "$2"
    shift 2
    "$@" || echo "    $name: $* failed" >&2
}

kill_rank()
{
    kill -KILL "$(ranks_of "$1" | head -n 1)"
}

vanish()
{
    touch "$work/down/$1"
    # shellcheck disable=SC2046
    kill -KILL $("$agent" --processes "$1")
}

stand_still()
{
    # shellcheck disable=SC2046
    kill -STOP $("$agent" --processes "$1")
}

start whole "-n 2 --hosts a,b"
check "undisturbed: exit code 0" ends whole 0
losses "$work/whole" >"$work/whole.losses"
whole=$(digest "$work/whole" 60)
check "undisturbed: it has a digest" test -n "$whole"

# Each host that fails is replaced by the next spare one.
start replaced "-n 2 --hosts a,b,c,d,e --spares 3" comm.timeout=15
struck replaced 8 kill_rank b
check "a killed rank: another start" await 300 grep -q '^# exit code 137: start 2 of this job, on 4 ranks of 2 nodes: a c$' "$work/replaced.out"
struck replaced 18 vanish a
check "a host that vanishes: another start" await 300 grep -q 'start 3 of this job, on 4 ranks of 2 nodes: c d$' "$work/replaced.out"
struck replaced 32 stand_still d
check "a host that stands still: another start" await 300 grep -q 'start 4 of this job, on 4 ranks of 2 nodes: c e$' "$work/replaced.out"
# shellcheck disable=SC2046
kill -KILL $("$agent" --processes d) 2>/dev/null
check "replaced: exit code 0" ends replaced 0
check "the host that vanished is known" says "# a does not answer: it is not used again"
check "the host of the killed rank is named" says "# b has failed"
check "replaced: four starts" test "$(grep -c '^# layout:' "$work/out")" -eq 4
losses "$work/replaced" >"$work/losses"
check "replaced: the losses of the undisturbed run, each step once" cmp "$work/whole.losses" "$work/losses"
check "replaced: its digest" test "$(digest "$work/replaced" 60)" = "$whole"
check "replaced: the log accounts for the three losses" test "$(grep -c '"event":"lost"' "$work/replaced/log.jsonl")" -eq 3
"$CISTRON" report "$work/replaced" >"$work/out"
check "replaced: the report has lost steps, and time between programs" test "$(sed -n -E \
    's/^(lost steps, repeated|between programs) +([0-9.]+) .*/\2/p' "$work/out" | awk '$1 > 0' | wc -l)" -eq 2
check "replaced: the shares of time add up" awk '/^where the time went since the first/ { on = 1; next } on && !NF { exit }
    on && NF > 2 { sum += $NF } END { exit !(sum > 99.5 && sum < 100.5) }' "$work/out"
rm "$work/down/a"

# Fewer hosts: another layout
start fewer "-n 1 --hosts a,b,c" parallel.shard=auto
struck fewer 8 kill_rank b
check "fewer hosts: exit code 0" ends fewer 0
check "fewer hosts: on the two that are left" says "start 2 of this job, on 2 ranks of 2 nodes: a c"
check "fewer hosts: first on three ranks, then on two" test \
    "$(sed -n 's/^# layout: \([0-9]*\) ranks.*/\1/p' "$work/out" | paste -sd ' ')" = "3 2"
losses "$work/fewer" >"$work/losses"
check "fewer hosts: the losses of the undisturbed run" close_losses "$work/whole.losses" "$work/losses" 1e-6

start pairs "-n 1 --hosts a,b,c,d" parallel.tensor=2
struck pairs 8 kill_rank b
check "pairs of ranks: two of three hosts are used" await 300 grep -q 'start 2 of this job, on 2 ranks of 2 nodes: a c$' "$work/pairs.out"
struck pairs 18 kill_rank c
check "pairs of ranks: then the two others" await 300 grep -q 'start 3 of this job, on 2 ranks of 2 nodes: a d$' "$work/pairs.out"
struck pairs 28 kill_rank d
check "a layout that does not fit: ends" ends pairs 137
check "a layout that does not fit: one line says why" test "$(grep -c \
    "^# no restart: of 4 nodes 1 are left, and the deck's layout fits none of them: key parallel.tensor = 2: " "$work/out")" -eq 1

# A single host is used again.
start alone "-n 2"
await 300 reached alone 8
kill -KILL "$(pgrep -f "^[^ ]*cistron train .*output.folder=$work/alone" | tail -n 1)"
check "one machine: exit code 0" ends alone 0
check "one machine: two starts" says "# exit code 137: start 2 of this job, on 2 ranks"

# All ranks stand still, and no other one notices.
CISTRON_STALL=15 start still "-n 2"
await 300 reached still 8
pgrep -f "^[^ ]*cistron train .*output.folder=$work/still" | xargs kill -STOP
check "all ranks stand still: exit code 0" ends still 0
check "all ranks stand still: it is said" says "# nothing was logged for 15 s: this start was ended"
check "all ranks stand still: two starts" test "$(grep -c '^# layout:' "$work/out")" -eq 2
check "all ranks stand still: none is left" test -z "$(pgrep -f "^[^ ]*cistron train .*output.folder=$work/still")"
losses "$work/still" >"$work/losses"
check "all ranks stand still: the losses of the undisturbed run" close_losses "$work/whole.losses" "$work/losses" 1e-6

# Ctrl-C
start stopped "-n 2 --hosts a,b" train.steps=1000000 schedule.decay=100000
struck stopped 8 kill -INT "$(pgrep -f "^[^ ]*bash [^ ]*supervise .*output.folder=$work/stopped" | head -n 1)"
check "Ctrl-C: exit code 85" ends stopped 85
check "Ctrl-C: everything is saved" says "all is saved"
check "Ctrl-C: no other start" test "$(grep -c '^# layout:' "$work/out")" -eq 1

# -- Which failures are worth another start: a stand-in for the program, which does what it is told

real=$CISTRON
cat >"$work/program" <<END
#!/bin/sh
[ "\$1" = train ] || exec "$real" "\$@"
echo "# a life"
count=\$(grep -c life "$work/lives" 2>/dev/null)
echo life >>"$work/lives"
. "$work/acts"
END
chmod +x "$work/program"
# lives_of ACTS: starts a run whose program does this, with $count earlier starts; sets lives to the number of its
# starts and code to its exit code
lives_of()
{
    rm -rf "$work/lives" "$work/fake"
    mkdir "$work/fake"
    echo "$1" >"$work/acts"
    CISTRON=$work/program timeout 300 "$supervise" "$work/deck.cfg" output.folder="$work/fake" >"$work/out" 2>&1
    code=$?
    lives=$(grep -c life "$work/lives")
}
trains='echo "$count" >>'"$work/fake/log.jsonl"
for code_of in 2 3 85 0; do
    lives_of "$trains; exit $code_of"
    check "exit code $code_of: one start" test "$lives $code" = "1 $code_of"
done
lives_of "exit 1"
check "a run that never began to train: one start" test "$lives $code" = "1 1"
lives_of "$trains; exit 1"
check "three starts that save nothing" test "$lives $code" = "3 1"
check "three starts that save nothing: it is said" says "# no restart: 3 starts in a row have saved no new checkpoint"
lives_of "$trains; [ \$count = 1 ] && touch '$work/fake/step_00000010.h5'; exit 1"
check "a new checkpoint counts: five starts" test "$lives $code" = "5 1"
lives_of "$trains; [ \$count = 1 ] && exit 0; exit 1"
check "a second start that succeeds" test "$lives $code" = "2 0"
lives_of "$trains; [ \$count = 1 ] && { echo 'cistron: x: another run uses it (y)' >&2; exit 2; }; exit \$((1 - count / 2))"
check "a lost rank 0 that still has the folder's lock: it is tried again" test "$lives $code" = "3 0"
lives_of "$trains; [ \$count = 1 ] && { echo 'cistron: x: free some space or y' >&2; exit 2; }; exit \$((1 - count / 2))"
check "no space at a later start: it is tried again" test "$lives $code" = "3 0"
lives_of "$trains; [ \$count = 1 ] && { echo 'cistron: x' >&2; exit 2; }; exit 1"
check "a mistake at a later start: no other one" test "$lives $code" = "2 2"
CISTRON_LIVES=0 lives_of "$trains; exit 1"
check "CISTRON_LIVES=0: one start" test "$lives $code" = "1 1"

# mistake SAYS ARGUMENTS...: one line, exit code 2
mistake()
{
    local words=$1
    shift
    timeout 100 "$supervise" "$@" >"$work/out" 2>&1
    check "$*: exit code 2" test $? -eq 2
    check "$*: is said" says "$words"
    check "$*: nothing else is" test "$(wc -l <"$work/out")" -eq 1
}
mistake "-n 0: must be a whole number from 1" -n 0 deck.cfg
mistake "--hosts a,,b: must be names" --hosts a,,b deck.cfg
mistake "--spares: its value is missing" --spares
mistake "CISTRON_SPARES=2: must be a number below that of the job's nodes, 2" --hosts a,b --spares 2 deck.cfg
mistake "the deck is missing" -n 2
"$supervise" --help >"$work/out"
check "--help" grep -q '^  *-n RANKS ' "$work/out"
finish
