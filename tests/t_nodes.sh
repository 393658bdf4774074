#!/bin/bash
# Ranks on two and four hosts (network namespaces, MPI over TCP) compute one host's bits, across saves and restarts on
# other numbers of hosts; sums in two levels have the bits of simulated nodes. A slow cable changes no bit, and `cistron
# measure --check` names its host. A pulled cable ends the ranks of both hosts with a line that names the host. With the
# argument "all" (not in make check): every layout, and a killed host.
#
# limit: 1200 s
. "$abs_top_srcdir/tests/lib.sh"
. "$abs_top_srcdir/tests/hosts.sh"
hosts_enter "$0" "$@"
hosts_make 4 || exit 1
small_deck || exit 1
full=(model.layers=4 validation.every=0 train.steps=8 train.global_batch=8 checkpoint.every=4
    schedule.decay=0 log.tensorboard=false)
cases=${1:-some}

# train HOSTS NAME [KEY=VALUE]...: four ranks
train()
{
    local hosts=$1 name=$2
    shift 2
    MPIRUN=$(hosts_mpirun "$hosts" 4)
    ranks 4 train "$work/deck.cfg" "${full[@]}" output.folder="$work/$name" "$@"
    check "$name: ends with 0" codes_are 0 4
}

# same_bits NAME NAME: losses and digest of step 8
same_bits()
{
    check "$1 has the losses of $2" cmp -s <(losses "$work/$1") <(losses "$work/$2")
    check "$2 has a digest" test -n "$(digest "$work/$2" 8)"
    check "$1 has the weights of $2" test "$(digest "$work/$1" 8)" = "$(digest "$work/$2" 8)"
}

# -- Bits --------------------------------------------------------------------------------------------------------------

# layout NAME KEYS: on one host; on two hosts to step 4, then on four to step 8
layout()
{
    local name=$1
    shift
    train 1 "$name" "$@"
    train 2 "$name-hosts" "$@" train.steps=4
    train 4 "$name-hosts" "$@"
    same_bits "$name-hosts" "$name"
}

# Sums in two levels round once more than sums in one.
two_levels()
{
    local keys=(parallel.shard=full parallel.reduce_as=bf16)
    train 1 one-level "${keys[@]}"
    CISTRON_NODE_RANKS=2 train 1 simulated "${keys[@]}"
    train 2 two-levels "${keys[@]}"
    same_bits two-levels simulated
    check "two levels round differently from one" test "$(digest "$work/two-levels" 8)" != "$(digest "$work/one-level" 8)"
}

layout hybrid parallel.shard=full parallel.shard_size=2
two_levels
if [ "$cases" = all ]; then
    layout optimizer parallel.shard=optimizer
    layout hybrid-optimizer parallel.shard=optimizer parallel.shard_size=2
    layout tensor-pipeline parallel.tensor=2 parallel.pipeline=2
    layout tensor-full parallel.tensor=2 parallel.shard=full
    layout virtual parallel.pipeline=2 parallel.virtual_stages=2
    layout heads parallel.context=2 parallel.context_method=heads parallel.shard=full
    layout gather parallel.context=2 parallel.context_method=gather
    layout ring parallel.context=2 parallel.context_method=ring
    layout exact parallel.shard=full train.reproducible=true device.deterministic=true memory.head_tokens=200
fi

# -- A slow cable ------------------------------------------------------------------------------------------------------

# slow_cable I RATE: both directions of host I's cable
slow_cable()
{
    tc qdisc add dev "cable$1" root tbf rate "$2" burst 64kb latency 100ms &&
        on_host "$1" tc qdisc add dev eth0 root tbf rate "$2" burst 64kb latency 100ms
}

# The check before a run names the host behind the cable; a run over it has the same bits.
if command -v tc >/dev/null && slow_cable 3 20mbit; then
    MPIRUN=$(hosts_mpirun 4 4)
    ranks 4 measure --check device.kind=cpu
    check "a slow cable: the check fails on all ranks" codes_are 1 4
    check "a slow cable: a rank on host3 is named" \
        grep -qE 'on host3: transfers between nodes at [0-9.]+ GB/s are 0\.[0-4]' "$work/out"
    train 4 slow parallel.shard=full parallel.shard_size=2
    same_bits slow hybrid
    tc qdisc del dev cable3 root && on_host 3 tc qdisc del dev eth0 root
else
    echo "a slow cable: left out, there is no tc"
fi

# -- Faults ------------------------------------------------------------------------------------------------------------

# endless NAME [KEY=VALUE]...: a run on two hosts, in the background as $run, that has begun. Its launcher's exit code
# will be in $work/launched.
endless()
{
    local name=$1
    shift
    rm -f "$work/launched"
    # shellcheck disable=SC2046 # words
    {
        timeout --kill-after=5 300 $(hosts_mpirun 2 4) $keepalive -n 4 "$CISTRON" train "$work/deck.cfg" "${full[@]}" \
            output.folder="$work/$name" train.steps=1000000 checkpoint.every=0 parallel.shard=full parallel.shard_size=2 \
            log.every=1 "$@" >"$work/out" 2>&1
        echo $? >"$work/launched"
    } &
    run=$!
    check "$name: has begun" within 200 grep -qs '"event":"step","step":2,' "$work/$name/log.jsonl"
    check "$name: has two ranks on host2" ranks_are 2 2
    begun=$SECONDS
}

# processes_of HOST: the processes in the host's network namespace, but the one that holds it
processes_of()
{
    local network
    network=$(readlink "/proc/${host_holder[$1]}/ns/net" | tr -dc 0-9)
    find /proc -maxdepth 3 -path '/proc/[0-9]*/ns/net' -lname "net:?$network?" 2>/dev/null |
        cut -d / -f 3 | grep -vx "${host_holder[$1]}"
}

# ranks_are HOST N: so many ranks run there
ranks_are()
{
    local process ranks=0
    for process in $(processes_of "$1"); do
        case $(cat "/proc/$process/comm" 2>/dev/null) in cistron*) ranks=$((ranks + 1)) ;; esac
    done
    [ $ranks -eq "$2" ]
}

# within SECONDS COMMAND...: the command succeeds in time
within()
{
    local limit=$((SECONDS + $1))
    shift
    until "$@"; do
        [ "$SECONDS" -lt "$limit" ] || return 1
        sleep 0.2
    done
}

# The ranks of both sides give up, and name the ranks behind the cable. Open MPI's launcher waits for its daemon there.
keepalive=
endless cable comm.timeout=5
ip link set cable2 down
check "a pulled cable: a rank on host2 is named" \
    within 150 grep -q 'not finished on host1 .*missing: rank [23] on host2' "$work/out"
check "a pulled cable: ranks of host1 end" within 20 ranks_are 1 0
check "a pulled cable: ranks of host2 end" within 20 ranks_are 2 0
echo "a pulled cable: $((SECONDS - begun)) s"
processes_of 1 | xargs -r kill -9
processes_of 2 | xargs -r kill -9
wait $run
ip link set cable2 up
[ "$cases" = all ] || finish

# With keepalive the launcher notices the lost daemon before a rank's limit.
keepalive="--mca oob_tcp_keepalive_time 3 --mca oob_tcp_keepalive_intvl 1 --mca oob_tcp_keepalive_probes 2"
endless keepalive
ip link set cable2 down
wait $run
check "keepalive: the launcher ends with an error" test "$(cat "$work/launched")" -ne 0
check "keepalive: the launcher names host2" says "on node host2"
check "keepalive: ranks of host1 end" within 20 ranks_are 1 0
check "keepalive: ranks of host2 end" within 20 ranks_are 2 0
echo "keepalive: $((SECONDS - begun)) s, launcher $(cat "$work/launched")"
ip link set cable2 up

# All processes of a host end at once.
keepalive=
endless killed
processes_of 2 | xargs -r kill -9
wait $run
check "a killed host: the launcher ends with an error" test "$(cat "$work/launched")" -ne 0
check "a killed host: host2 is named" grep -qE 'host2' "$work/out"
check "a killed host: ranks of host1 end" within 20 ranks_are 1 0
echo "a killed host: $((SECONDS - begun)) s, launcher $(cat "$work/launched")"
finish
