# shellcheck shell=bash
# Sourced after tests/lib.sh: hosts on one machine, each a network and a UTS namespace with its own host name, joined by a
# bridge. mpirun runs on the first and reaches the others by nsenter instead of ssh, so ranks of different hosts talk over
# TCP, and a cable can be pulled. The test skips where namespaces are forbidden.

# Starts the test again in namespaces of its own, so that what it makes vanishes with it; as root of a user namespace where
# the real root may not.
hosts_enter()
{
    local tool user
    [ -z "${CISTRON_HOSTS:-}" ] || return 0
    for tool in ip unshare nsenter; do
        needs $tool
    done
    export CISTRON_HOSTS=1
    for user in "" "--user --map-root-user"; do
        # shellcheck disable=SC2086 # words
        if unshare $user --net --uts --mount sh -c \
            'ip link add name probe type bridge && mount --bind /etc/hosts /etc/hosts' 2>/dev/null; then
            rm -rf "$work"
            exec unshare $user --net --uts --mount bash "$@"
        fi
    done
    echo "skipped: network namespaces are not permitted here"
    exit 77
}

hosts_launcher=$MPIRUN
declare -a host_holder=() # of host i (from 1): the process that keeps its namespaces

# hosts_make N: hosts host1 to hostN, 10.77.0.1 to N
hosts_make()
{
    local i
    printf '127.0.0.1 localhost\n' >"$work/hosts"
    for i in $(seq "$1"); do
        echo "10.77.0.$i host$i" >>"$work/hosts"
    done
    mount --bind "$work/hosts" /etc/hosts || return
    ip link add name bridge0 type bridge && ip link set bridge0 up || return
    for i in $(seq "$1"); do
        unshare --net --uts --mount bash -c "hostname host$i && exec sleep infinity" &
        host_holder[i]=$!
        until [ "$(nsenter -t "${host_holder[i]}" -u hostname 2>/dev/null)" = "host$i" ]; do sleep 0.02; done
        ip link add name "cable$i" type veth peer name eth0 netns "${host_holder[i]}" || return
        ip link set "cable$i" master bridge0 up
        nsenter -t "${host_holder[i]}" -n sh -c \
            "ip link set lo up && ip addr add 10.77.0.$i/24 dev eth0 && ip link set eth0 up" || return
    done
    cat >"$work/agent" <<AGENT
#!/bin/bash
host=\$1
shift
holders=(- ${host_holder[*]})
exec nsenter -t "\${holders[\${host#host}]}" -n -u -m sh -c "cd '\$PWD'; \$*"
AGENT
    chmod +x "$work/agent"
    # shellcheck disable=SC2064 # now
    trap "kill -9 ${host_holder[*]} 2>/dev/null; rm -rf '$work'" EXIT
}

# on_host I COMMAND...
on_host()
{
    local holder=${host_holder[$1]}
    shift
    nsenter -t "$holder" -n -u -m "$@"
}

# hosts_list N RANKS: mpirun's list of the first N hosts with equally many of the ranks
hosts_list()
{
    local i list=
    for i in $(seq "$1"); do
        list+=",host$i:$(($2 / $1))"
    done
    echo "${list#,}"
}

# hosts_mpirun N RANKS: words that start ranks on the first N hosts; a node's ranks are consecutive
hosts_mpirun()
{
    echo "nsenter -t ${host_holder[1]} -n -u -m $hosts_launcher --host $(hosts_list "$1" "$2") --map-by slot" \
        "--mca plm rsh --mca plm_rsh_agent $work/agent --mca pml ob1 --mca btl self,vader,tcp" \
        "--mca btl_vader_backing_directory $work --mca btl_tcp_if_include 10.77.0.0/24 --mca oob_tcp_if_include 10.77.0.0/24" \
        "-x CISTRON"
}
